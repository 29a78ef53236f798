"""Every number on the page, held against the file it comes from: metrics.json first, then the others."""

import re
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import MakeRun
from page_and_files import CALIBRATIONS, OF_CLASSES, PLACES, Case, shown, signed
from reading_html import taken_apart
from single_figures import CHECKS
from single_tables import TABLES, check_classes

from uraenas import report
from uraenas.report.blocks import Choice
from uraenas.report.reading import read
from uraenas.report.sections import numbers
from uraenas.report.sections.cost import cost_of
from uraenas.run.config import override
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one member": {"members": 1},
    "no shifts": {"shifts": ()},
    "hundred classes": {"classes": 100, "images": 200},
    "one method": {"methods": ("uraenas",)},
    "five nodes": {"space": "five-nodes"},
    "eight members": {"members": 8, "methods": ("uraenas",), "shifts": ()},
}


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name.replace(" ", "-"))
def case(request: pytest.FixtureRequest, make_run: MakeRun, five_nodes: str) -> Case:
    return Case(make_run(**CASES[request.param]))


def test_every_figure_tells_what_the_files_say(case: Case) -> None:
    check_figures(case)


@pytest.fixture(params=["table_runs", "table_runs_of_another_seed"], ids=["", "with-references"])
def runs_on_tables(request: pytest.FixtureRequest) -> dict[str, Path]:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("kind", ["numbers", "classes", "several"])
def test_every_figure_of_a_table_tells_what_the_files_say(runs_on_tables: dict[str, Path], kind: str) -> None:
    run = Run(runs_on_tables[kind])
    check_figures(Case((run, Pipeline.resume(run.path).measured.test)))


@pytest.mark.parametrize("kind", ["numbers", "classes", "several"])
def test_every_table_and_tile_of_a_table_tells_what_the_files_say(
    runs_on_tables: dict[str, Path], kind: str
) -> None:
    run = Run(runs_on_tables[kind])
    case = Case((run, Pipeline.resume(run.path).measured.test))
    for at, caption in enumerate(case.page.captions):
        ((check, found),) = [(c, f) for p, c in TABLES.items() if (f := re.fullmatch(p, caption, re.DOTALL))]
        check(case, at, *found.groups())
    headline = OF_CLASSES if kind == "classes" else ("rmse", "crps", "nll")
    values = [words for tag, words in case.page.tiles if tag == "strong"]
    assert values == [shown(metric, case.value("uraenas-adam", metric)) for metric in headline]


def check_figures(case: Case) -> None:
    assert case.page.figures
    for figure in case.page.figures:
        (check,) = [(found, check) for p, check in CHECKS.items() if (found := re.fullmatch(p, figure))]
        check[1](case, *check[0].groups())


def test_tables_of_methods_equal_metrics(case: Case) -> None:
    shifted = any(row["severity"] for row in case.rows)
    columns = [(m, PLACES[w]) for w in ("clean", "shifted")[: 1 + shifted] for m in OF_CLASSES]
    with_differences = bool(case.file("metrics.json")["differences"])
    end = 2 + len(columns)  # then disagreement, where there is any
    for number, calibration in enumerate(CALIBRATIONS):
        at = number * (1 + with_differences)
        for line, small in zip(case.page.tables[at][1:], case.page.small[at][1:], strict=True):
            rows = [case.row(line[0], metric, shift, calibration=calibration) for metric, shift in columns]
            assert line[1] == str(case.sizes[line[0]])
            assert line[2:end] == [shown(row["metric"], row["value"]).removesuffix(" %") for row in rows]
            ends = [
                [shown(r["metric"], r[side]).removesuffix(" %") for side in ("low", "high")] for r in rows
            ]
            assert small[2:end] == [" – ".join(pair) for pair in ends]
            several = f"{case.value(line[0], 'disagreement'):.3f}" if case.sizes[line[0]] > 1 else "–"
            assert line[end:] == ([several] if max(case.sizes.values()) > 1 else [])
        if with_differences:
            check_difference_table(case, at + 1, columns, calibration)


def check_difference_table(case: Case, at: int, columns: list[tuple[str, str]], calibration: str) -> None:
    for line, small in zip(case.page.tables[at][1:], case.page.small[at][1:], strict=True):
        rows = [case.difference(line[0], metric, shift, calibration) for metric, shift in columns]
        assert line[1:] == [signed(row["metric"], row["value"]) for row in rows]
        assert small[1:] == [" – ".join(signed(r["metric"], r[end]) for end in ("low", "high")) for r in rows]


def test_other_tables_equal_the_files(case: Case) -> None:
    (areas,) = [table for table in case.page.tables if "AURC" in table[0]]
    for line in areas[1:]:
        assert line[1:4] == [
            f"{case.value(line[0], metric):.4f}" for metric in ("aurc", "adaptive_ece", "brier")
        ]
        check_chance_and_coverage(case, line)
    (classes,) = [k for k, caption in enumerate(case.page.captions) if "images by class" in caption]
    check_classes(case, classes)
    (costs,) = [table for table in case.page.tables if "Examples seen" in table[0]]
    search = case.file("cost.json")["search"]
    for line in costs[1:]:
        chains = case.chains(line[0])
        assert line[1:4] == [str(case.sizes[line[0]]), str(len(chains)), f"{search['seconds']:,.1f}"]
        assert line[4] == f"{case.spent(line[0], 'seconds'):,.1f}"
        assert line[5] == f"{search['images'] + case.spent(line[0], 'images'):,}"


def test_a_method_pays_for_its_own_chains_and_not_for_more_of_another(make_run: MakeRun) -> None:
    """With two copies of each architecture the four chains of one method are not the first four of ten."""
    run, _ = make_run(methods=("uraenas",))
    changes = {"train.sampled.architectures": 4, "train.sampled.copies": 2, "ensemble.members": 10}
    costs = {f"chains/sampled-sghmc-{n:02d}": {"seconds": 10.0**n, "images": 1} for n in range(10)}
    facts = read(run)
    facts = replace(facts, config=override(facts.config, changes), members={}, costs=costs)
    cost = cost_of(facts, "uraenas")
    assert (cost.chains, cost.training) == (4, 1_100_011.0)


def test_what_workers_did_is_not_counted_beside_their_chains(make_own_run: MakeRun) -> None:
    source = make_own_run()
    seconds = sum(part.get("seconds", 0) for part in source[0].costs.read().values())
    source[0].costs.add({"workers/worker-1": {"seconds": 1000, "units": 3}})
    assert f"took {seconds:,.1f} s." in report.build([source])


def test_seconds_of_several_workers_are_called_a_sum(make_own_run: MakeRun) -> None:
    """They worked at a time, so the run took less: on its page, in figures of seconds alone, and side by side."""
    sources = [make_own_run(name, seed=seed) for seed, name in enumerate("ab")]
    seconds = sum(part.get("seconds", 0) for part in sources[0][0].costs.read().values())
    sources[0][0].costs.add({f"workers/worker-{n}": {"seconds": 1000, "units": 3} for n in range(3)})
    page = taken_apart(report.build(sources[:1]))
    assert "Seconds on test, summed over 3 workers; n = 1 run." in page.sections["cost"]
    assert f"computed for {seconds:,.1f} s." in page.sections["cost"]
    assert "took" not in page.sections["cost"]
    figures = {name: " ".join(words) for name, words in page.texts.items() if name.startswith("cost-")}
    assert figures
    for name, words in figures.items():
        assert ("seconds summed over 3 workers" in words) == name.startswith("cost-seconds-")
    together = taken_apart(report.build(sources))
    assert "; a: summed over 3 workers; means over" in together.sections["compared-cost"]
    assert "seconds summed over workers" in " ".join(together.texts["runs-cost-seconds-nll-clean"])
    assert "summed" not in " ".join(together.texts["runs-cost-examples-nll-clean"])
    sources[0][0].remove("metrics.json")
    assert "Seconds so far, summed over 3 workers; n = 1 run." in report.build_partial(sources[0][0])


def check_chance_and_coverage(case: Case, line: list[str]) -> None:
    mean = case.probabilities[line[0]].mean(axis=0)
    confidence, wrong = mean.max(axis=1), mean.argmax(axis=1) != case.labels
    draw = np.random.default_rng(0).random((2000, len(confidence))) < confidence  # as if it were calibrated
    bins = np.minimum(np.ceil(confidence * 15), 15)
    gaps = [np.abs((draw - confidence)[:, bins == b].sum(axis=1)) for b in np.unique(bins)]
    assert float(line[4]) == pytest.approx(sum(gaps).mean() / len(confidence), rel=0.1)
    risk = wrong[np.argsort(-confidence, kind="stable")].cumsum() / np.arange(1, len(wrong) + 1)
    for told, most in zip(line[5:], (0.01, 0.02, 0.05), strict=True):
        answered = (risk <= most).nonzero()[0]
        assert told == f"{100 * (answered[-1] + 1 if len(answered) else 0) / len(risk):.1f} %"


def test_tiles_equal_metrics(case: Case) -> None:
    shifted = any(row["severity"] for row in case.rows)
    wanted = [(m, w) for w in ("clean", "shifted")[: 1 + shifted] for m in OF_CLASSES]
    values = [words for tag, words in case.page.tiles if tag == "strong"]
    assert values == [shown(metric, case.value("uraenas", metric, PLACES[words])) for metric, words in wanted]
    if case.file("metrics.json")["differences"]:
        beneath = [words for tag, words in case.page.tiles if tag == "beneath"]
        for words, (metric, place) in zip(beneath, wanted, strict=True):
            row = case.difference("uraenas", metric, PLACES[place], "raw")
            assert words.startswith(signed(metric, row["value"]))
            assert words.endswith(row["baseline"])


def test_settings_and_environment_are_those_of_the_run(case: Case) -> None:
    words = re.sub(r"\s", "", case.page.sections["settings"])
    files = {**case.file("config.json"), **case.file("environment.json")}
    assert files.pop("format") == 2  # of the file, no setting, and neither is whose it is
    del files["run"]
    for key, value in files.items():
        listed = ",".join(map(str, value)) if isinstance(value, list) else str(value) or "(empty)"
        listed = listed.lower() if isinstance(value, bool) else listed
        assert f"{key}{listed}".replace(" ", "") in words


def test_figures_of_numbers_say_what_no_other_does(table_runs: dict[str, Path]) -> None:
    run = Run(table_runs["several"])
    page = taken_apart(report.build([(run, Pipeline.resume(run.path).measured.test)]))
    assert len(set(page.svg_labels)) == len(page.svg_labels) > 10
    observed = [texts[0] for name, texts in page.texts.items() if name.startswith("observed-")]
    assert observed
    assert all(words.endswith(": predicted against observed") or "," in words for words in observed)


def test_the_diagonal_of_coverages_moves_with_the_axes(table_runs: dict[str, Path]) -> None:
    run = Run(table_runs["several"])
    facts = read(run, Pipeline.resume(run.path).measured.test).by_target[0]
    named = replace(facts, target="a target whose name takes the title to a second line")
    (diagrams,) = [block for block in numbers.intervals(named).blocks if isinstance(block, Choice)]
    for figures in diagrams.options.values():
        (figure,) = figures
        drawn = ElementTree.fromstring(figure.svg)
        assert drawn.find("./g[@transform]//line[@class='ideal']") is not None


def test_without_members_what_they_do_not_agree_on_is_one(
    make_own_run: MakeRun, table_runs: dict[str, Path], tmp_path: Path
) -> None:
    """A deep ensemble of which predictions are kept would else have an architecture part."""
    run, test = make_own_run(methods=("deep-ensemble",))
    shutil.rmtree(run.members_folder("deep-ensemble"))
    for tip in Case((run, test)).tips("least-sure"):
        total, data, model = (float(tip[f"{name} (nats)"]) for name in ("total", "data", "model"))
        assert total == pytest.approx(data + model, abs=2e-3)
        assert not tip.keys() & {"weights (nats)", "architecture (nats)"}
    for kind, source in table_runs.items():
        own = Run(shutil.copytree(source, tmp_path / kind))
        shutil.rmtree(own.members_folder(own.primary))
        page = Case((own, Pipeline.resume(own.path).measured.test)).page
        unsure = [found for found in page.tables if found[0][0] == "Row"]
        assert unsure
        for header, *lines in unsure:
            assert header[-2:] == ["Data", "Model"]
            assert all(99 <= sum(int(cell.split("\xa0")[0]) for cell in line[-2:]) <= 101 for line in lines)
