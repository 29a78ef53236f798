"""What the figures of a page of several runs tell and where they draw it, by their names."""

import statistics
from collections.abc import Callable

import pytest
from compared_runs import Column, Compared, Line, minus_by_shift, of_members, spent
from drawn import Drawn, at, middle, points
from page_and_files import METRICS, shown, signed, tips
from reading_html import Page


def column_of(compared: Compared, title: str) -> Column:
    (found,) = [column for column in compared.judged if column.title == title]
    return found


def check_dots(compared: Compared, page: Page, figure: str, title: str) -> None:
    column = column_of(compared, title)
    methods = [line.method for line in compared.lines]
    known = [line for line in compared.lines if compared.knows(line, column)]
    known.sort(key=lambda line: methods.index(line.method))  # lines of a method lie together
    expected = []
    assert compared.n(known) in " ".join(page.texts[figure])
    for line in known:
        values = compared.values(line, column.metric, column.shift)
        tip = {"": line.method, compared.runs_of(line): shown(column.metric, statistics.fmean(values))}
        tip["interval"] = compared.interval(line, column)
        if len(values) > 1:
            tip[f"{len(values)} seeds"] = ", ".join(shown(column.metric, value) for value in values)
        expected.append(tip)
    assert tips(page, figure) == expected
    check_places_of_dots(compared, Drawn(compared.html, figure), column, known)


def check_places_of_dots(compared: Compared, drawn: Drawn, column: Column, lines: list[Line]) -> None:
    """A dot for each mean, a small one for each seed, and a bar from end to end."""
    factor = 100 if column.metric == "accuracy" else 1
    for line, spot in zip(lines, drawn.groups("spot"), strict=True):
        values = compared.values(line, column.metric, column.shift)
        means = [one for one in spot if one.get("class") in ("dot", "stroke", "ring")]
        seeds = [one for one in spot if one.get("class") == "chosen"]
        (bar,) = [one for one in spot if one.get("class") == "interval"]
        places = [middle(one)[0] for one in (*means, *seeds)] + [at(bar, "x1"), at(bar, "x2")]
        several = values if len(values) > 1 else []
        wanted = [statistics.fmean(values), *several, *compared.ends(line, column)]
        assert len(seeds) == len(several)
        assert all(
            drawn.across.holds(*both) for both in zip(places, [factor * one for one in wanted], strict=True)
        )


def check_map(compared: Compared, page: Page, figure: str, metric: str, method: str, group: str) -> None:
    assert compared.baseline is not None
    (own,) = [one for one in compared.lines if (one.method, compared.group(one)) == (method, int(group) - 1)]
    cells = minus_by_shift(compared, own, metric)
    told = tips(page, figure)
    places = [tip[""].replace(" ", "_").split(",_severity_") for tip in told]
    assert sorted((shift, int(severity)) for shift, severity in places) == sorted(cells)
    lines = [one for one in compared.lines if one != compared.baseline]
    most = max(abs(value) for one in lines for value in minus_by_shift(compared, one, metric).values())
    drawn = [one for one in Drawn(compared.html, figure).svg.iter("rect") if one.get("data-tip")]
    for tip, (shift, severity), cell in zip(told, places, drawn, strict=True):
        value = cells[shift, int(severity)]
        assert tip[f"{method} − {compared.baseline.method}"] == signed(metric, value)
        printed = f"{100 * value:+.1f}" if metric == "accuracy" else f"{value:+.2f}"
        assert printed.replace("-", "−") in page.texts[figure]
        assert cell.get("class") == f"heat {'better' if (value > 0) == (metric == 'accuracy') else 'worse'}"
        assert at(cell, "fill-opacity") == pytest.approx(abs(value) / most, abs=0.0051)


def check_sizes(compared: Compared, page: Page, figure: str, metric: str, words: str) -> None:
    expected = []
    shift = compared.places[words]
    for members in range(1, max(map(compared.size, compared.trained)) + 1):
        tip = {"": f"{members} member{'s' * (members > 1)}"}
        for line in compared.trained:
            if members > compared.size(line):
                continue
            tip[compared.name(line)] = shown(metric, compared.mean(line, metric, shift, members=members))
            if len(line.runs) == 1 and compared.size(line) > 1:
                row = compared.cases[line.runs].row(line.method, metric, shift, members=members)
                spread = row.get("spread") or 0.0  # of the whole ensemble there is one
                ends = [shown(metric, row["value"] + sign * spread) for sign in (-1, 1)]
                tip[compared.name(line)] += f" ({' – '.join(ends)})"
        expected.append(tip)
    assert tips(page, figure) == expected
    drawn = Drawn(compared.html, figure)
    for line, path in zip(compared.trained, drawn.svg.iterfind(".//path[@class='line']"), strict=True):
        places = points(path)
        assert len(places) == compared.size(line)
        for members, (x, y) in enumerate(places, 1):
            value = compared.mean(line, metric, shift, members=members)
            assert drawn.across.holds(x, members)
            assert drawn.up.holds(y, 100 * value if metric == "accuracy" else value)


def check_front(compared: Compared, page: Page, figure: str, unit: str, metric: str, words: str) -> None:
    column, expected = Column(metric, words, compared.places[words]), []
    assert compared.n(compared.trained) in " ".join(page.texts[figure])
    drawn, factor = Drawn(compared.html, figure), 100 if metric == "accuracy" else 1
    spots = dict(zip(compared.trained, drawn.groups("spot"), strict=True))
    for line in compared.trained:
        tip = {"": compared.name(line)}
        tip[METRICS[metric]] = shown(metric, compared.mean(line, metric, column.shift))
        tip["interval"] = compared.interval(line, column)
        amount = (
            of_members(compared, line, "operations")
            if unit == "multiply-adds"
            else sum(spent(compared, line, {"examples": "images"}.get(unit, unit)))
        )
        words_of_unit = {"examples": "examples seen"}.get(unit, unit)
        tip[words_of_unit] = f"{amount:,.1f}" if unit == "seconds" else f"{amount:,.0f}"
        expected.append({**tip, "members": str(compared.size(line))})
        (dot,) = [one for one in spots[line] if one.get("class") == "hit"]
        (bar,) = [one for one in spots[line] if one.get("class") == "interval"]
        ends = [factor * end for end in compared.ends(line, column)]
        mean = factor * compared.mean(line, metric, column.shift)
        assert drawn.across.holds(at(dot, "x") + 9, max(amount, 1e-3))
        places = [at(dot, "y") + 9, at(bar, "y1"), at(bar, "y2")]
        assert all(drawn.up.holds(*both) for both in zip(places, [mean, *ends], strict=True))
    assert tips(page, figure) == expected


ANY, PLACE = f"({'|'.join(METRICS)})", "(clean|shifted|test)"
FIGURES: dict[str, Callable[..., None]] = {
    rf"runs-size-{ANY}-{PLACE}": check_sizes,
    rf"runs-cost-(seconds|examples|multiply-adds)-{ANY}-{PLACE}": check_front,
    rf"minus-{ANY}-(.+)-(\d+)": check_map,
    r"runs-(c?(?:Acc|ECE|NLL|RMSE|MAE|CRPS))": check_dots,
}
