import itertools
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_run import MakeRun, Source
from reading_html import Page, taken_apart

from uraenas import report
from uraenas.base.errors import UraenasError
from uraenas.evaluation import Diverged, mean_names, metrics
from uraenas.report import COLUMNS, table
from uraenas.report.reading import read
from uraenas.run.config import override

SECTIONS = {
    "methods": "difference-accuracy-clean",
    "size": "size-nll-clean",
    "shift": "severity-ece-raw",
    "outside": "",  # a table, where such images are set
    "calibration": "reliability-uraenas-temperature",
    "guarantees": "",  # tables
    "classes": "confusion",
    "architecture": "favour",
    "training": "loss-expected-point",
    "disagreement": "disagreement-uraenas",
    "uncertainty": "sources-shifted",
    "images": "least-sure",
    "cost": "cost-seconds-nll-clean",
}


@pytest.fixture(scope="module")
def html(demo: Source) -> str:
    return report.build([demo])


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return taken_apart(html)


def test_every_section_has_its_figure(page: Page) -> None:
    assert set(SECTIONS) | {"settings"} == set(page.sections)
    for figure in filter(None, SECTIONS.values()):
        assert page.figures[figure], f"{figure} has nothing to point at"
    more = (
        "heat-ece-uraenas",
        "risk-coverage",
        "expected",
        "entropy",
        "cells-uraenas",
        "most-wrong",
        "most-ambiguous",
        "most-disputed",
        "severity-sources-uraenas",
        "control-clean",
    )
    assert set(more) <= set(page.figures)


def test_every_figure_states_n(page: Page) -> None:
    silent = [
        name for name, texts in page.texts.items() if not any(re.search(r"n = \d", words) for words in texts)
    ]
    silent = [name for name in silent if not any("of n" in words for words in page.texts[name])]
    assert silent == []
    assert all(page.svg_labels)


def test_every_figure_says_what_no_other_does(demo: Source, page: Page) -> None:
    """A figure that was saved has nothing but itself to say what it is."""
    assert len(set(page.svg_labels)) == len(page.svg_labels)
    for figure, title in (
        ("reliability-uraenas-raw", "uraenas: reliability"),
        ("disagreement-uraenas", "uraenas: disagreement of members"),
        ("severity-sources-uraenas", "uraenas: uncertainty by source"),
        ("cells-uraenas", "uraenas: architectures"),
    ):
        assert page.texts[figure][0] == title
    (by,) = [words for words in page.texts["least-sure"] if "highest entropy" in words]
    assert by.endswith("by uraenas")
    legends = {
        "reliability-uraenas-raw": "its gap to confidence",
        "least-sure": "named, and right",
        "heat-nll-uraenas": "the stronger, the worse",
        "cost-seconds-nll-clean": "the front",
    }
    assert [name for name, words in legends.items() if words not in page.texts[name]] == []


def test_curves_without_a_band_are_not_called_sure(make_own_run: MakeRun, page: Page) -> None:
    """Where none was kept, or none is drawn, figures say so."""

    def under_title(page: Page, figure: str) -> str:
        return " ".join(words for words in page.texts[figure] if " · " in words or "deviation" in words)

    assert under_title(page, "size-nll-clean").endswith("band: ± one deviation")
    run, test = make_own_run()
    metrics = run.metrics()
    rows = [row._replace(spread=None) if row.method == "uraenas" else row for row in metrics.rows]
    run.write_outcome(replace(metrics, rows=rows), run.replicates())
    some = taken_apart(report.build([(run, test)]))
    assert under_title(some, "size-nll-clean").endswith("band: ± one deviation, where it was kept")
    rows = [row._replace(spread=None) for row in metrics.rows]
    run.write_outcome(replace(metrics, rows=rows), run.replicates())
    none = taken_apart(report.build([(run, test)]))
    assert "no bands" in under_title(none, "size-nll-clean")
    assert "no bands" in " ".join(none.texts["severity-nll-raw"]), "of fewer than four kinds"
    wide = make_own_run("wide", shifts=("gaussian_noise", "contrast", "fog", "snow"))
    drawn = " ".join(taken_apart(report.build([wide])).texts["severity-nll-raw"])
    assert "bands, middle half: uraenas, deep-ensemble alone" in drawn


def test_no_error_lies_at_the_foot_of_the_risks_apart_from_one_error(html: str, page: Page) -> None:
    """On an axis of logarithms, which have no 0; the foot is called so."""
    drawn = html.split('data-name="risk-coverage"')[1].split("</svg>")[0]
    labels = re.findall(r'y="([\d.]+)" class="tick" text-anchor="end">([\d.]+)<', drawn)
    places = {float(words): float(y) - 4 for y, words in labels}
    assert min(float(words) for _, words in labels if words != "0") >= 100 / 120, "n = 120"
    foot = places[0.0]
    (curve,) = re.findall(r'<g class="s0" data-method="uraenas"><path d="M([^"]+)"', drawn)
    points = [tuple(map(float, point.split())) for point in curve.split("L")]
    told = [re.search(r"uraenas\t([^\n]*)", tip)[1] for tip in page.figures["risk-coverage"]]
    at_foot = [abs(y - foot) < 0.2 for _, y in points]
    assert at_foot == [words == "0, no error" for words in told]
    assert 0 < sum(at_foot) < len(points)
    assert min(foot - y for (_, y), lies in zip(points, at_foot, strict=True) if not lies) > 12


def test_html_is_well_formed(html: str, page: Page) -> None:
    assert html.startswith("<!doctype html>")
    assert page.errors == []
    assert page.open_tags == []
    assert len(page.ids) == len(set(page.ids))
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside <= set(page.ids)


def test_page_needs_nothing_from_elsewhere(html: str, page: Page) -> None:
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert set(re.findall(r"https?://[^\"' ]+", html)) <= {"http://www.w3.org/2000/svg"}
    assert "url(" not in html


def test_names_of_classes_are_escaped(html: str) -> None:
    assert "class <0>" not in html
    assert "class &lt;0&gt; &amp; co" in html


@pytest.mark.parametrize(("calibration", "position"), [("raw", 0), ("temperature", 2)])
def test_table_equals_metrics(demo: Source, page: Page, calibration: str, position: int) -> None:
    expected = table(demo[0].metrics().rows, calibration)
    shown = page.tables[position][1:]
    assert [line[0] for line in shown] == [line.method for line in expected]
    for cells, line in zip(shown, expected, strict=True):
        assert cells[1] == str(line.members)
        assert cells[2:8] == [column.show(value) for column, value in zip(COLUMNS, line.values, strict=True)]


def test_what_prints_the_best_value_and_all_not_clearly_worse_are_marked_alike(
    demo: Source, page: Page
) -> None:
    found = demo[0].metrics()
    lines = table(found.rows)
    expected = []
    for line, (k, column) in itertools.product(lines, enumerate(COLUMNS)):
        printed = {one.method: column.show(one.values[k]) for one in lines}
        best = {name for name, words in printed.items() if words == column.show(report.best(lines)[k])}
        shift = mean_names(found.rows)[0] if column.shifted else "none"
        place = (line.method, column.metric, shift, "raw")
        ends = [
            row.interval
            for row in found.differences
            if (row.method, row.metric, row.shift, row.calibration) == place and row.baseline in best
        ]
        worse = [high < 0 if column.larger_is_better else low > 0 for low, high in filter(None, ends)]
        if line.method in best or (worse and not any(worse)):
            expected.append(printed[line.method])
    assert page.best[: len(expected)] == expected
    assert 0 < len(expected) < len(lines) * len(COLUMNS)


def test_the_page_says_which_of_its_marks_chance_may_set(html: str, make_run: MakeRun) -> None:
    """Seven equal methods have one that is called worse in two tables of five, and ECE leans with confidence."""
    several = report.build([make_run(), make_run("other")])
    for words in (html, several):
        assert "of many equal methods some miss it by chance" in words
    assert "most where a method is least sure, and its intervals and differences with it" in html
    assert "of two perfectly calibrated methods the surer one may look better" in several


def test_an_accuracy_of_few_errors_is_said_to_have_too_short_an_interval(make_own_run: MakeRun) -> None:
    """Of 120 images with three errors one resample in twenty has none; without an error all are alike."""
    run, test = make_own_run()
    found, values = run.metrics(), {"drnas": 4 / 120, "uraenas": 117 / 120, "deep-ensemble": 1.0}
    rows = [
        row._replace(value=values[row.method]) if row.metric == "accuracy" and row.shift == "none" else row
        for row in found.rows
    ]
    run.write_outcome(replace(found, rows=rows), run.replicates())
    words = "uraenas and deep-ensemble: fewer than 5 errors, so the interval of the accuracy is too short"
    html = report.build([(run, test)])
    assert (words in html, f"drnas, {words}" in html) == (True, False)
    assert "<p>drnas: fewer than 5 right answers" in html.replace('<p class="note">', "<p>")


def test_few_test_images_are_said_to_have_too_short_intervals(make_run: MakeRun) -> None:
    words = "are too few for intervals"
    few = [make_run(name, images=19) for name in "ab"]
    assert f"19 images {words}" in report.build(few[:1])
    assert f"19 images {words}" in report.build(few).split('id="run')[0]
    assert words not in report.build([make_run("more", images=20)])
    assert words not in report.build([make_run("none", images=19, bootstrap=0)])


def test_differences_of_one_run_are_said_not_to_cover_another_seed(demo: Source, make_run: MakeRun) -> None:
    other = make_run("other")[0]
    own, between = report.build([demo]), report.build([demo], against=f"{other.path}:drnas")
    for html in (own, between):
        assert "not over seeds: another seed may move a method by more" in html
    assert ["The baseline is of another run" in html for html in (own, between)] == [False, True]
    two_seeds = report.build([make_run(name, seed=seed) for seed, name in enumerate("ab")])
    assert "where fewer than 5 runs are paired" in two_seeds


def test_predictions_lead_to_the_numbers_of_metrics(demo: Source, page: Page) -> None:
    """What is drawn from predictions agrees with what evaluation wrote down."""
    run, test = demo
    facts = read(run, test)
    bins = [
        dict(line.split("\t") for line in tip.split("\n")[1:])
        for tip in page.figures["reliability-uraenas-raw"]
    ]
    counts = [int(one["images"].replace(",", "")) for one in bins]
    assert sum(counts) == len(test)
    gaps = sum(c * abs(float(one["gap"])) for c, one in zip(counts, bins, strict=True)) / len(test)
    assert gaps == pytest.approx(facts.value("uraenas", "ece"), abs=1e-3)
    full = page.figures["risk-coverage"][-1]
    error = 1 - (facts.value("uraenas", "accuracy") or 0)
    assert f"uraenas\t{100 * error:.2f} %" in full
    off = [tip.split("\t")[1] for tip in page.figures["disagreement-uraenas"] if "architectures" in tip]
    shares = [float(words.split(" %")[0]) / 100 for words in off]
    assert sum(shares) / len(shares) == pytest.approx(facts.value("uraenas", "disagreement"), abs=1e-4)


def test_one_member(make_run: MakeRun) -> None:
    page = taken_apart(report.build([make_run(members=1)]))
    assert "one member" in page.sections["size"]
    assert "none can disagree" in page.sections["disagreement"]
    assert "reliability-uraenas-raw" in page.figures


def test_one_method_without_baseline(make_run: MakeRun) -> None:
    page = taken_apart(report.build([make_run(methods=("drnas",), members=1)]))
    assert "is not among the methods" in page.sections["methods"]
    assert "least-sure" in page.figures
    assert "No method has members of two weight chains" in page.sections["uncertainty"]
    assert "control-clean" not in page.figures


def test_without_the_baseline_of_the_settings_another_can_be_asked_for(make_run: MakeRun) -> None:
    run, test = make_run(methods=("drnas", "uraenas"))
    page = taken_apart(report.build([(run, test)]))
    assert "deep-ensemble is not among the methods" in page.sections["methods"]
    assert "--against METHOD" in page.sections["methods"]
    page = taken_apart(report.build([(run, test)], against="drnas"))
    assert "Differences to drnas" in page.sections["methods"]
    assert "difference-nll-clean" in page.figures
    with pytest.raises(UraenasError, match="Did you mean 'drnas'"):
        report.build([(run, test)], against="drnass")


def test_differences_to_a_method_of_another_run(make_run: MakeRun) -> None:
    run, test = make_run(methods=("drnas", "uraenas"))
    other, _ = make_run("other")
    page = taken_apart(report.build([(run, test)], against=f"{other.path}:deep-ensemble"))
    assert f"Differences to {other.path}:deep-ensemble" in page.sections["methods"]
    assert "difference-nll-clean" in page.figures


def test_only_chains_of_the_methods_shown_are_said_to_have_diverged(make_own_run: MakeRun) -> None:
    run, test = make_own_run(methods=("drnas", "uraenas-a", "uraenas"))
    known = [Diverged(chain, 1, "") for chain in ("expected-point-00", "sampled-sghmc-01")]
    run.write_outcome(replace(run.metrics(), diverged=known), run.replicates())
    assert "2 chains diverged" in taken_apart(report.build([(run, test)])).sections["methods"]
    page = taken_apart(report.build([(run, test)], methods=[["uraenas-a", "uraenas"]]))
    assert "1 chain diverged. sampled-sghmc-01 was restarted" in page.sections["methods"]
    page = taken_apart(report.build([(run, test)], methods=[["uraenas-a"]]))
    assert "diverged" not in page.sections["methods"]


CLASSES = ["Class", "Images", "Accuracy", "Most often taken for"]


def test_classes_and_what_they_are_taken_for(make_run: MakeRun) -> None:
    run, test = make_run(classes=30, images=400)
    page = taken_apart(report.build([(run, test)]))
    (shown,) = [table for table in page.tables if table[0][:4] == CLASSES]
    assert "confusion" not in page.figures  # of thirty classes nothing could be read
    log_p, _ = run.read_tensors(run.predictions_file("uraenas", "demo"))
    mean = metrics.mixture(log_p["log_probabilities"])
    guessed, confidence = mean.argmax(dim=1).numpy(), mean.max(dim=1).values.exp().numpy()
    names = run.data().classes
    assert len(shown) == 1 + 20
    errors = []
    for name, images, accuracy, taken_for, named, right_when_named, gap in shown[1:]:
        mine = test.labels == names.index(name)
        right = int((guessed[mine] == test.labels[mine]).sum())
        assert images == str(mine.sum())
        assert accuracy.startswith(f"{100 * right / mine.sum():.2f} %")
        errors.append(int(mine.sum()) - right)
        most = taken_for.split(", ")[0]
        as_named = guessed == names.index(name)
        share = (test.labels[as_named] == names.index(name)).mean() if as_named.any() else 0.0
        assert named == str(as_named.sum())
        assert right_when_named == (f"{100 * share:.2f} %" if as_named.any() else "–")
        over = f"{confidence[as_named].mean() - share:+.3f}".replace("-", "−") if as_named.any() else "–"
        assert gap == over
        assert most == "–" or f"({(guessed[mine] == names.index(most.rpartition(' (')[0])).sum()})" in most
    assert errors == sorted(errors, reverse=True)


def test_columns_of_a_confusion_matrix_are_named_where_names_are_short(
    finished_run: Path, page: Page
) -> None:
    digits = [str(digit) for digit in range(10)]
    texts = taken_apart((finished_run / "report.html").read_text(encoding="utf-8")).texts["confusion"]
    axes = [words for words in texts if words.isdecimal() and len(words) == 1]
    assert all(axes.count(digit) >= 2 for digit in digits)  # at the left and above; a cell may read so, too
    assert "10" not in texts[:30]
    assert {"1", "10", "2 class 1", "10 class 9"} <= set(page.texts["confusion"])


def test_lines_may_end_within_an_architecture_but_not_before_a_deviation(
    demo: Source, make_run: MakeRun
) -> None:
    assert "Expected architecture: |<wbr>" in report.build_partial(demo[0])
    html = report.build([make_run(name, seed=seed) for name, seed in (("a", 1), ("b", 2))])
    assert re.search(r"<strong>[^<]* ±\u00a0[^<]*</strong>", html)


def test_no_shifts(make_run: MakeRun) -> None:
    page = taken_apart(report.build([make_run(shifts=())]))
    assert "clean images only" in page.sections["shift"]
    assert page.tables[0][0] == ["Method", "Members", "Acc", "ECE", "NLL", "Dis"]
    assert not any("shifted" in name or name.startswith("heat") for name in page.figures)


def test_hundred_classes(make_run: MakeRun) -> None:
    html = report.build([make_run(classes=100, images=200)])
    assert taken_apart(html).errors == []
    assert "100 classes" in html


def test_page_of_a_large_run_can_be_sent_by_mail(large_page: Path) -> None:
    html = large_page.read_text(encoding="utf-8")
    assert len(html.encode()) < 5_000_000
    page = taken_apart(html)
    assert page.errors == []
    assert len(page.figures["heat-nll-uraenas"]) == 19 * 5
    assert len(page.figures["disagreement-uraenas"]) == 10 * 10


def test_a_further_large_run_makes_a_page_so_little_larger_that_eight_can_be_sent_by_mail(
    large_run: Source,
) -> None:
    three, four = (len(report.build([large_run] * runs).encode()) for runs in (3, 4))
    assert three + 5 * (four - three) < 5_000_000


@pytest.mark.slow
def test_a_comparison_of_eight_large_runs_can_be_sent_by_mail(large_run: Source) -> None:
    """Eight runs of seven methods; that they are one run does not make its shares smaller."""
    html = report.build([large_run] * 8)
    assert len(html.encode()) < 5_000_000
    page = taken_apart(html)
    assert page.errors == []
    assert len(page.tables[0]) == 1 + 8 * 7


def test_missing_predictions(make_run: MakeRun) -> None:
    run, test = make_run(keep_predictions=False)
    for sources in ([(run, test)], [(run, None)]):
        page = taken_apart(report.build(sources))
        for section in ("calibration", "guarantees", "classes", "disagreement", "images"):
            assert "left out" in page.sections[section]
        assert "severity-ece-raw" in page.figures


def test_predictions_of_other_images_are_not_used(demo: Source) -> None:
    run, test = demo
    fewer = test.take(test.labels[:50] * 0)
    assert read(run, fewer).predictions == {}


def test_no_bootstrap(make_run: MakeRun) -> None:
    page = taken_apart(report.build([make_run(bootstrap=0)]))
    assert "switched off" in page.sections["methods"]
    assert "cost-seconds-nll-clean" in page.figures
    assert not any("95 %" in words for words in page.texts["cost-seconds-nll-clean"])


def test_no_search_and_no_costs(make_own_run: MakeRun) -> None:
    run, test = make_own_run(methods=("random-ensemble",))
    for name in ("search/architecture.safetensors", "cost.json"):
        run.remove(name)
    page = taken_apart(report.build([(run, test)]))
    assert "no learned distribution" in page.sections["architecture"]
    assert "cells-random-ensemble" in page.figures
    assert "does not say" in page.sections["cost"]


def test_a_run_of_another_space(make_run: MakeRun, five_nodes: str) -> None:
    page = taken_apart(report.build([make_run(space=five_nodes)]))
    assert page.errors == []
    assert len(page.figures["favour"]) == 10 * 4  # edges of five nodes, operations without pooling
    assert [tip.split("\n")[0] for tip in page.figures["favour"]][-1] == "3×3 conv at 3 → 4"
    assert set("01234") <= set(page.texts["expected"])
    drawn = {words for figure in ("favour", "expected", "cells-uraenas") for words in page.texts[figure]}
    assert "3×3 conv" in drawn
    assert "3×3 pool" not in drawn
    assert any("→ 4" in tip for tip in page.figures["cells-uraenas"])


def test_an_architecture_that_was_given_is_named_and_its_search_not_charged(make_own_run: MakeRun) -> None:
    run, test = make_own_run()
    given = str(run.member_facts("drnas")[0].architecture)
    run.write_config(override(run.config(), {"train.expected.genotype": given}))
    page = taken_apart(report.build([(run, test)]))
    assert f"were given theirs: {given}" in page.sections["architecture"]
    (costs,) = [table for table in page.tables if "Examples seen" in table[0]]
    assert {line[0]: line[3] for line in costs[1:]} == {
        "drnas": "0.0",
        "uraenas": "7.0",
        "deep-ensemble": "0.0",
    }


def test_an_unknown_cost_is_a_dash_or_no_column_and_off_the_axis(make_own_run: MakeRun) -> None:
    """A copy of some rows of a run, as published results are: without its search, chains or members."""
    run, test = make_own_run()
    run.costs.forget("search")
    run.costs.forget("members/drnas")
    for number in range(3):
        run.costs.forget(f"chains/sampled-sghmc-{number:02d}")
    shutil.rmtree(run.path / "methods")
    page = taken_apart(report.build([(run, test)]))
    (costs,) = [table for table in page.tables if "Weight chains" in table[0] and "Members" in table[0][1]]
    assert costs[0] == ["Method", "Members", "Weight chains", "Training, s"], "without columns of dashes"
    assert {line[0]: line[2:] for line in costs[1:]} == {
        "drnas": ["1", "5.0"],
        "uraenas": ["–", "–"],
        "deep-ensemble": ["3", "11.2"],
    }
    assert not any(name.startswith("cost-seconds") for name in page.figures)
    drawn = [tip.split("\n")[0] for tip in page.figures["cost-training-nll-clean"]]
    assert [name.partition("}")[2] for name in drawn] == ["drnas", "deep-ensemble"]
    assert "uraenas (seconds of training)" in page.sections["cost"]


def test_distinct_cells_are_counted(make_run: MakeRun) -> None:
    run, test = make_run(members=4)
    members = read(run, test).members["uraenas"]
    page = taken_apart(report.build([(run, test)]))
    distinct = len({member.architecture for member in members})
    functions = len({member.architecture.canonical.text for member in members})
    line = next(
        line
        for shown in page.tables
        if shown[0][-1] == "Distinct functions"
        for line in shown
        if line[0] == "uraenas"
    )
    assert line[1:] == ["4", "4", str(distinct), str(functions)]


def test_many_members_are_cut_short_and_said_so(make_run: MakeRun) -> None:
    page = taken_apart(report.build([make_run(members=45, shifts=(), bootstrap=0, images=30)]))
    assert any("the first 40" in words for words in page.texts["disagreement-uraenas"])
    assert any("the first 30" in words for words in page.texts["cells-uraenas"])


def test_several_runs_side_by_side(make_run: MakeRun) -> None:
    sources = [make_run("a", seed=1), make_run("b", seed=2)]
    html = report.build(sources, command="uraenas report a b")
    page = taken_apart(html)
    assert page.errors == []
    assert len(page.ids) == len(set(page.ids))
    assert "uraenas report a b" in html
    assert {"run1-methods", "run2-methods", "compared-shift", "compared-cost"} <= set(page.sections)
    told = dict(re.findall(r"<dt>([a-z-]+)</dt><dd>([^<]*)</dd>", html))
    assert told["drnas"].removesuffix("A single network.") == told["deep-ensemble"].removesuffix(
        "An ensemble."
    )
    (shifts,) = [one for one in page.tables if "Lowest differences" in one[0]]
    for _, _, lowest, highest in shifts[1:]:  # of two kinds of shift, each is named once
        assert len({words.rpartition("\u00a0")[0] for words in (lowest, highest)}) == 2
        assert not any("," in words for words in (lowest, highest))
    assert "run1-methods" not in html, "a single run is packed until it is opened"
    assert [line[0] for line in page.tables[0][1:]] == ["drnas", "uraenas", "deep-ensemble"]
    assert page.small[0][1][0] == "a, b"  # not tested on the same labels, but the same in name
    assert page.figures["runs-cNLL"]
    fewer = taken_apart(report.build([sources[0], make_run("c", seed=2, methods=("uraenas",))]))
    assert [line[0] for line in fewer.tables[0][1:]] == ["drnas", "uraenas", "deep-ensemble"]
    again = taken_apart(report.build([sources[0], make_run("d", seed=1)]))  # the same seed is no other seed
    assert [line[0] for line in again.tables[0][1:]] == ["drnas"] * 2 + ["uraenas"] * 2 + [
        "deep-ensemble"
    ] * 2


def test_runs_on_other_images_do_not_compete(make_run: MakeRun) -> None:
    page = taken_apart(report.build([make_run("a"), make_run("b", images=100)]))
    assert "not tested on the same images" in page.sections["compared"]
    assert not any(name.startswith("runs-size") for name in page.figures)


def test_a_baseline_is_chosen_by_method_or_by_run(make_run: MakeRun) -> None:
    a, b = make_run("a", seed=1), make_run("b", seed=1, methods=("uraenas", "drnas"))
    page = taken_apart(report.build([a, b]))
    assert "Differences to deep-ensemble," in page.sections["compared"]
    page = taken_apart(report.build([a, b], against="drnas"))
    assert "Differences to drnas (a)," in page.sections["compared"]
    page = taken_apart(report.build([a, b], against=f"{b[0].path}:drnas"))
    assert "Differences to drnas (b)," in page.sections["compared"]
    with pytest.raises(UraenasError, match="Did you mean 'drnas'"):
        report.build([a, b], against="drnass")
    page = taken_apart(report.build([b, make_run("c", methods=("uraenas",))]))
    assert "deep-ensemble is not among these methods" in page.sections["compared"]


def test_the_papers_table_can_stand_beside(make_run: MakeRun) -> None:
    sources = [make_run("a", seed=1), make_run("b", seed=2)]
    assert "From the paper" not in report.build(sources)
    (paper,) = [t for t in taken_apart(report.build(sources, paper=True)).tables if t[0][0] == "Paper"]
    assert paper[-1] == ["UraeNAS", "95.22", "0.023", "0.230", "75.04", "0.151", "1.110", "0.053"]


def test_names_of_runs_tell_them_apart(make_run: MakeRun, make_own_run: MakeRun) -> None:
    a, b = make_run(seed=1), make_own_run(seed=1)
    html = report.build([a, b])
    names = [f"{run.path.parent.name}/demo" for run, _ in (a, b)]
    assert all(f"<summary>{name}</summary>" in html for name in names)


def test_without_metrics(make_own_run: MakeRun) -> None:
    run, test = make_own_run()
    run.remove("metrics.json")
    with pytest.raises(UraenasError, match="holds no metrics yet"):
        report.build([(run, test)])
    with pytest.raises(UraenasError, match="at least one run"):
        report.build([])


def test_orange_is_worse_in_maps_of_one_run_as_in_those_of_several(html: str) -> None:
    shift = html.split('id="shift"')[1].split("<section")[0]
    assert "The stronger the orange, the worse" in shift
    kinds = set(re.findall(r'class="(heat[^"]*)"', shift))
    assert kinds == {"heat worse"}
