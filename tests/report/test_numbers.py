"""Every number on the page, held against the file it comes from: metrics.json first, then the others."""

import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import SHIFTS, MakeRun
from page_and_files import CALIBRATIONS, METRICS, PLACES, SOURCES, Case, percent, shown, signed
from reading_html import taken_apart

from uraenas import report
from uraenas.report.blocks import Choice
from uraenas.report.reading import read
from uraenas.report.sections import numbers
from uraenas.report.sections.cost import cost_of
from uraenas.report.style import count
from uraenas.run.config import override
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

TITLES = {"accuracy": "Acc", "ece": "ECE", "nll": "NLL"}

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


def check_difference(case: Case, metric: str, words: str) -> None:
    for tip in case.tips(f"difference-{metric}-{words}"):
        row = case.difference(tip[""], metric, PLACES[words], "raw")
        assert tip["difference"] == signed(metric, row["value"])
        assert tip["interval"] == f"{signed(metric, row['low'])} – {signed(metric, row['high'])}"


def check_size(case: Case, metric: str, words: str) -> None:
    for tip in case.tips(f"size-{metric}-{words}"):
        members = int(tip.pop("").split()[0])
        assert set(tip) == {name for name, most in case.sizes.items() if members <= most}
        for name, told in tip.items():
            row = case.row(name, metric, PLACES[words], members=members)
            assert told.split(" (")[0] == shown(metric, row["value"])
            if 1 < members < case.sizes[name]:
                ends = " – ".join(shown(metric, row["value"] + sign * row["spread"]) for sign in (-1, 1))
                assert told.endswith(f"({ends})")


def check_severity(case: Case, metric: str, calibration: str) -> None:
    for tip in case.tips(f"severity-{metric}-{calibration}"):
        heading = tip.pop("")
        severity = 0 if heading == "clean" else int(heading.split(",")[0].split()[1])
        assert set(tip) == set(case.sizes)
        for name, told in tip.items():
            values = [
                case.value(name, metric, shift, severity=severity, calibration=calibration)
                for shift in (SHIFTS if severity else ["none"])
            ]
            assert told == shown(metric, float(np.mean(values)))


def check_heat(case: Case, metric: str, method: str) -> None:
    tips = case.tips(f"heat-{metric}-{method}")
    places = {(r["shift"], r["severity"]) for r in case.rows if r["severity"] > 0}
    assert len(tips) == len(places)
    printed = case.page.texts[f"heat-{metric}-{method}"]
    for tip in tips:
        shift, severity = tip[""].replace(" ", "_").split(",_severity_")
        value = case.value(method, metric, shift, severity=int(severity))
        assert tip[method] == shown(metric, value)
        assert (f"{100 * value:.1f}" if metric == "accuracy" else f"{value:.3f}") in printed


def check_reliability(case: Case, method: str, calibration: str) -> None:
    figure = f"reliability-{method}-{calibration}"
    assert any(
        f"ECE {case.value(method, 'ece', calibration=calibration):.3f} ·" in t
        for t in case.page.texts[figure]
    )
    mean = case.probabilities[method].mean(axis=0)
    if calibration == "temperature":
        mean = mean ** (1 / case.file("metrics.json")["temperatures"][method])
        mean /= mean.sum(axis=1, keepdims=True)
    confidence, right = mean.max(axis=1), mean.argmax(axis=1) == case.labels
    bins = np.minimum(np.ceil(confidence * 15), 15)
    told = case.tips(figure)
    assert len(told) == len(np.unique(bins))
    for tip, one in zip(told, np.unique(bins), strict=True):
        inside = bins == one
        assert tip["images"] == f"{inside.sum():,}"
        assert tip["mean confidence"] == f"{confidence[inside].mean():.3f}"
        assert tip["accuracy"] == f"{right[inside].mean():.3f}"
        assert tip["gap"] == f"{right[inside].mean() - confidence[inside].mean():+.3f}"


def check_risk(case: Case) -> None:
    for tip in case.tips("risk-coverage"):
        coverage, answered = re.match(r"coverage ([\d.]+) %, ([\d,]+) images$", tip.pop("")).groups()
        answered = int(answered.replace(",", ""))
        assert coverage == f"{100 * answered / len(case.labels):.1f}"
        for name, told in tip.items():
            mean = case.probabilities[name].mean(axis=0)
            order = np.argsort(-mean.max(axis=1), kind="stable")[:answered]
            wrong = (mean.argmax(axis=1) != case.labels)[order].mean()
            assert told == (f"{percent(wrong)} %" if wrong else "0, no error")


def check_favour(case: Case) -> None:
    raw = case.source[0].read_tensors("search/architecture.safetensors")[0]["raw"].numpy()
    concentration = np.where(raw > 0, raw + 1, np.exp(np.minimum(raw, 0)))
    tips = case.tips("favour")
    assert [tip["concentration"] for tip in tips] == [f"{value:.4g}" for value in concentration.ravel()]
    shares = (concentration / concentration.sum(axis=1, keepdims=True)).ravel()
    assert [tip["expected share"] for tip in tips] == [f"{share:.4g}" for share in shares]
    expected = [tip for tip in case.page.figures["favour"] if "expected option" in tip]
    assert len(expected) == len(raw)
    for tip, row in zip(expected, concentration, strict=True):
        assert f"concentration\t{row.max():.4g}\n" in tip


def check_history(case: Case, figure: str, keys: dict[str, str]) -> None:
    rows = case.source[0].read_tensors("search/architecture.safetensors")[1].stored["history"]
    for tip, stored in zip(case.tips(figure), rows, strict=True):
        expected = {words: f"{stored[key]:.4f}" for words, key in keys.items()}
        assert tip == {"": f"after {count(stored['epoch'] + 1, 'epoch')}", **expected}


def check_disagreement(case: Case, method: str) -> None:
    figure = f"disagreement-{method}"
    mean = shown("accuracy", case.value(method, "disagreement"))
    assert any(f"mean {mean} ·" in text for text in case.page.texts[figure])
    named = case.probabilities[method].argmax(axis=2)
    for tip in case.tips(figure):
        a, b = (int(number) - 1 for number in re.findall(r"\d+", tip[""]))
        assert tip["differ on"] == shown("accuracy", (named[a] != named[b]).mean())


def check_sources(case: Case, words: str) -> None:
    for tip in case.tips(f"sources-{words}"):
        parts = {**SOURCES, "total": "total_uncertainty"}
        assert tip == {
            "": tip[""],
            **{name: f"{case.value(tip[''], metric, PLACES[words]):.4f}" for name, metric in parts.items()},
        }


def check_control(case: Case, words: str) -> None:
    for tip in case.tips(f"control-{words}"):
        told = {"architecture": "architecture_uncertainty", "by chain (control)": "chain_uncertainty"}
        for name, metric in told.items():
            assert tip[name] == f"{case.value(tip[''], metric, PLACES[words]):.4f}"


def check_pictures(case: Case, figure: str) -> None:
    mean = case.probabilities["uraenas"].mean(axis=0)
    temperature = case.file("metrics.json")["temperatures"]["uraenas"]
    classes = case.file("data.json")["classes"]
    for tip in case.tips(figure):
        image = int(tip[""].split()[-1])
        assert tip["true class"] == classes[case.labels[image]]
        scaled = mean[image] ** (1 / temperature) / (mean[image] ** (1 / temperature)).sum()
        for guess in np.argsort(-scaled)[:3]:
            assert tip[classes[guess]] == f"{scaled[guess]:.3f}"
        total = -(mean[image] * np.log(mean[image])).sum()
        parts = [float(tip[f"{source} (nats)"]) for source in SOURCES]
        assert float(tip["total (nats)"]) == pytest.approx(total, abs=6e-4)
        assert sum(parts) == pytest.approx(total, abs=2e-3)


def check_cost(case: Case, unit: str, metric: str, words: str) -> None:
    for tip in case.tips(f"cost-{unit}-{metric}-{words}"):
        method = tip[""]
        assert tip[METRICS[metric]] == shown(metric, case.value(method, metric, PLACES[words]))
        assert tip["members"] == str(case.sizes[method])
        if unit == "multiply-adds":
            members = case.source[0].member_facts(method)
            assert tip[unit] == f"{sum(m.space.cost(m.architecture).multiply_adds for m in members):,}"
            continue
        stored, name = {"examples": ("images", "examples seen")}.get(unit, (unit, unit))
        spent = case.file("cost.json")["search"][stored] + case.spent(method, stored)
        assert tip[name] == (f"{spent:,.1f}" if unit == "seconds" else f"{spent:,.0f}")


def check_confusion(case: Case) -> None:
    named = case.probabilities["uraenas"].mean(axis=0).argmax(axis=1)
    classes = case.file("data.json")["classes"]
    for k, tip in enumerate(case.tips("confusion")):
        true, guess = divmod(k, len(classes))
        number = int(((case.labels == true) & (named == guess)).sum())
        assert (tip[""], tip[f"taken for {classes[guess]}"]) == (classes[true], f"{number:,}")


def check_losses(case: Case, kind: str) -> None:
    losses = {name: own for name, own in case.file("training.json").items() if name.startswith(kind)}
    for k, tip in enumerate(case.tips(f"loss-{kind}")):
        assert tip.pop("") == f"epoch {k + 1}"
        if len(losses) > 1:
            mean = np.mean([own[k] for own in losses.values()])
            assert tip.pop(f"mean of {len(losses)}") == f"{mean:.4f}"
        named = (
            list(losses)
            if len(losses) <= 6
            else sorted(losses, key=lambda name: losses[name][k])[:: len(losses) - 1]
        )
        assert tip == {name: f"{losses[name][k]:.4f}" for name in named}


def check_sources_by_severity(case: Case, method: str) -> None:
    for tip in case.tips(f"severity-sources-{method}"):
        severity = int(tip[""].split()[1])
        for words, metric in SOURCES.items():
            shifts = SHIFTS if severity else ["none"]
            values = [case.value(method, metric, shift, severity=severity) for shift in shifts]
            assert tip[words] == f"{np.mean(values):.4f}"


def nothing_to_check(case: Case, *_: str) -> None:
    """Drawn cells, whose only numbers count members; test_page counts those."""


ANY, PLACE, KIND = "(accuracy|ece|nll)", "(clean|shifted)", "(raw|temperature)"
CHECKS: dict[str, Callable[..., None]] = {
    f"difference-{ANY}-{PLACE}": check_difference,
    f"size-{ANY}-{PLACE}": check_size,
    f"severity-{ANY}-{KIND}": check_severity,
    f"heat-{ANY}-(.+)": check_heat,
    f"reliability-(.+)-{KIND}": check_reliability,
    "risk-coverage": check_risk,
    "favour": check_favour,
    "(entropy)": lambda case, figure: check_history(case, figure, {"entropy": "entropy"}),
    "(search-loss)": lambda case, figure: check_history(
        case, figure, {"validation": "validation_loss", "training": "train_loss"}
    ),
    "disagreement-(.+)": check_disagreement,
    f"sources-{PLACE}": check_sources,
    f"control-{PLACE}": check_control,
    "(least-sure|most-wrong|most-ambiguous|most-disputed)": check_pictures,
    f"cost-(seconds|examples|multiply-adds)-{ANY}-{PLACE}": check_cost,
    "expected|cells-.+": nothing_to_check,
    "confusion": check_confusion,
    "loss-(.+)": check_losses,
    "severity-sources-(.+)": check_sources_by_severity,
}


def test_every_figure_tells_what_the_files_say(case: Case) -> None:
    assert case.page.figures
    for figure in case.page.figures:
        (check,) = [(found, check) for p, check in CHECKS.items() if (found := re.fullmatch(p, figure))]
        check[1](case, *check[0].groups())


def test_tables_of_methods_equal_metrics(case: Case) -> None:
    shifted = any(row["severity"] for row in case.rows)
    columns = [(m, PLACES[w]) for w in ("clean", "shifted")[: 1 + shifted] for m in METRICS]
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
    assert f"took {seconds:,.0f} s." in report.build([source])


def test_seconds_of_several_workers_are_called_a_sum(make_own_run: MakeRun) -> None:
    """They worked at a time, so the run took less: on its page, in figures of seconds alone, and side by side."""
    sources = [make_own_run(name, seed=seed) for seed, name in enumerate("ab")]
    seconds = sum(part.get("seconds", 0) for part in sources[0][0].costs.read().values())
    sources[0][0].costs.add({f"workers/worker-{n}": {"seconds": 1000, "units": 3} for n in range(3)})
    page = taken_apart(report.build(sources[:1]))
    assert "Seconds on test, summed over 3 workers; n = 1 run." in page.sections["cost"]
    assert f"computed for {seconds:,.0f} s." in page.sections["cost"]
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
    wanted = [(m, w) for w in ("clean", "shifted")[: 1 + shifted] for m in METRICS]
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
