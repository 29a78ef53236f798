"""Every section, table, tile and figure of a page of several runs, held against the files of these runs.

Nothing on the page goes unchecked: what has no check here fails a test.
"""

import itertools
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
from compared_figures import FIGURES
from compared_runs import Column, Compared, Line
from compared_tables import TABLES
from made_up_run import MakeRun
from page_and_files import METRICS, Case, decimal, shown
from reading_html import single_runs

from uraenas import report
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

NAMED = 3  # methods in a row
KINDS_OF_PAGES = ("images", "no shifts", "other images", "numbers", "classes", "several")


@pytest.fixture(scope="module", params=KINDS_OF_PAGES, ids=lambda name: name.replace(" ", "-"))
def compared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    kind, get = request.param, request.getfixturevalue
    if kind == "images":
        return get("compared")
    if kind == "no shifts":
        return _without_shifts(get("make_run"))
    if kind == "other images":
        return _of_other_images(get("make_run"))
    seeds = {"a": get("table_runs")[kind], "b": get("table_runs_of_another_seed")[kind]}
    folder = tmp_path_factory.mktemp(kind)
    return _of_tables(
        {name: Path(shutil.copytree(path, folder / name)) for name, path in seeds.items()}, kind
    )


def _without_shifts(make_run: MakeRun) -> Compared:
    """Runs of one method each, so that a line of the one has no seed in common with the other's."""
    methods = {"a": "drnas", "b": "uraenas"}
    cases = {
        name: Case(make_run(name, seed=k, methods=(method,), shifts=()))
        for k, (name, method) in enumerate(methods.items())
    }
    return Compared(cases, [Line("drnas", "a"), Line("uraenas", "b")], None)


def _of_other_images(make_run: MakeRun) -> Compared:
    """Of which the second knows nothing of shifts."""
    settings: dict[str, dict[str, Any]] = {"a": {"seed": 1}, "b": {"seed": 2, "images": 100, "shifts": ()}}
    cases = {name: Case(make_run(name, **own)) for name, own in settings.items()}
    methods = ("drnas", "uraenas", "deep-ensemble")
    lines = [Line(method, run) for run in cases for method in methods]
    return Compared(cases, lines, None, competing=False)


def _of_tables(paths: dict[str, Path], kind: str) -> Compared:
    sources = {name: (Run(path), Pipeline.resume(path).measured.test) for name, path in paths.items()}
    lines = [Line("uraenas-adam", "ab")]
    if kind != "several":
        lines.append(Line("deep-ensemble-adam", "ab"))
    baseline = lines[-1] if kind != "several" else None
    lines += [Line("logistic" if kind == "classes" else "ridge", "b"), Line("forest", "b")]
    return Compared({name: Case(source) for name, source in sources.items()}, lines, baseline)


COUNTS = {  # of figures, by section
    "compared": lambda compared: len(compared.judged),
    "compared-shift": lambda compared: 3 * (len(compared.lines) - 1),
    "compared-size": lambda compared: len(compared.places) * (2 if compared.of_numbers else 3),
    "compared-cost": lambda compared: 9 * len(compared.places) * compared.competing,
    "compared-abstaining": lambda compared: 0,
    "compared-settings": lambda compared: 0,
}


def test_no_section_is_without_a_check(compared: Compared) -> None:
    assert set(compared.sections) <= set(COUNTS)
    shifted = compared.competing and "shifted" in compared.places
    assert ("compared-shift" in compared.sections) == shifted
    assert ("compared-size" in compared.sections) == compared.competing
    assert ("compared-abstaining" in compared.sections) == (not compared.of_numbers)


def test_every_table_tells_what_the_files_say(compared: Compared) -> None:
    checked = set()
    for page in compared.sections.values():
        for number, caption in enumerate(page.captions):
            ((pattern, found),) = [(p, f) for p in TABLES if (f := re.fullmatch(p, caption, re.DOTALL))]
            TABLES[pattern](compared, page, number, *found.groups())
            checked.add((pattern, *found.groups()))
            tested = dict.fromkeys(map(compared.tested, compared.cases))
            assert " and ".join(tested) in caption or "n = " not in caption
    kinds = 2 if compared.baseline is None else 4
    assert len([one for one in checked if len(one) > 1]) == kinds


def test_every_figure_tells_what_the_files_say(compared: Compared) -> None:
    for section, page in compared.sections.items():
        assert len(page.figures) == COUNTS[section](compared)
        for figure in page.figures:
            ((pattern, found),) = [(p, f) for p in FIGURES if (f := re.fullmatch(p, figure))][:1]
            FIGURES[pattern](compared, page, figure, *found.groups())


def test_every_figure_stands_alone(compared: Compared) -> None:
    """With title, n and a legend of what its colours and shapes are; page.js adds the names of all runs."""
    names = {compared.name(line) for line in compared.trained}
    runs = {compared.runs_of(line) for line in compared.trained}
    for page in compared.sections.values():
        for figure, texts in page.texts.items():
            words = " ".join(texts)
            assert f"n = {compared.images} " in words
            kind = figure.split("-")[0 if figure.startswith("minus") else 1]
            legend = {"minus": {"better", "worse"}, "size": names, "cost": runs | {"the front"}}.get(
                kind, set()
            )
            assert all(one in words for one in legend)


def test_every_tile_tells_what_the_files_say(compared: Compared) -> None:
    told = [part for part in compared.sections["compared"].tiles if part[0] != "span"]
    expected = []
    for column in compared.judged if compared.competing else []:
        best = compared.ranked(column)[0]
        values = compared.values(best, column.metric, column.shift)
        spread = ""
        if len(values) > 1:
            deviation = statistics.stdev(values)
            words = (
                f"{100 * deviation:.2f}" if column.metric == "accuracy" else decimal(column.metric, deviation)
            )
            spread = f" ±\u00a0{words}"
        expected += [
            ("name", f"{METRICS[column.metric]}, {column.words}: best"),
            ("strong", shown(column.metric, statistics.fmean(values)) + spread),
            ("beneath", "; ".join([compared.name(best), *beside_the_best(compared, column)])),
            *rank(compared, column),
        ]
    assert told == expected
    others = [page for name, page in compared.sections.items() if name != "compared"]
    assert not any(part[0] != "span" for page in others for part in page.tiles)


def beside_the_best(compared: Compared, column: Column) -> list[str]:
    """Who is not clearly worse, or that all are, and of whom it cannot be said."""
    best, standing = compared.ranked(column)[0], compared.standing(column)
    of = {
        kind: [compared.name(one) for one, words in standing.items() if words == kind and one != best]
        for kind in ("best", "worse", "unjudged")
    }
    found = [f"not clearly worse: {few(of['best'])}"] if of["best"] else []
    if not of["best"] and of["worse"]:
        pairs = [len(compared.pairs(one, best)) for one, words in standing.items() if words == "worse"]
        examples = f" on these {compared.example}s, one seed"
        found.append(
            f"clearly ahead of {few(of['worse']) if of['unjudged'] else 'all others'}{examples * (max(pairs) == 1)}"
        )
    return found + ([f"not judged: {few(of['unjudged'])}"] if of["unjudged"] else [])


def few(names: list[str]) -> str:
    names = names[:NAMED] + ([f"{len(names) - NAMED} more"] if len(names) > NAMED else [])
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def rank(compared: Compared, column: Column) -> list[tuple[str, str]]:
    """Of ours, where there are others."""
    ours = [one for one in compared.lines if one.method in ("uraenas", "uraenas-adam")]
    if len(compared.lines) == 1 or not ours:
        return []
    place = 1 + compared.ranked(column).index(ours[0])
    return [("rank", f"{compared.name(ours[0])}: rank {place} of {len(compared.lines)} lines")]


def test_what_it_says_of_a_run_is_what_the_page_of_that_run_says(compared: Compared) -> None:
    """Which test_numbers holds against the files."""
    single = single_runs(compared.html)
    for case, page in itertools.zip_longest(compared.cases.values(), single):
        (own,) = single_runs(report.build([case.source]))
        assert page.figures
        assert plain(page.figures) == plain(own.figures)
        for part in ("tables", "small", "marks", "tiles", "captions", "texts"):
            assert getattr(page, part) == getattr(own, part)


def plain(figures: dict[str, list[str]]) -> dict[str, list[str]]:
    """Without colours, which methods of other runs may have."""
    return {name: [re.sub(r"\{s\d+\}", "", tip) for tip in told] for name, told in figures.items()}
