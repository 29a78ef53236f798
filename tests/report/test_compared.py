"""Every number on a page of several runs, held against the files of these runs."""

import cProfile
import itertools
import math
import pstats
import re
import shutil
import statistics
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
import torch
from made_up_run import SHIFTS, MakeRun
from page_and_files import CALIBRATIONS, METRICS, PLACES, Case, shown, signed, tips
from reading_html import Page, taken_apart, unpacked

from uraenas import report
from uraenas.evaluation import metrics
from uraenas.report.compared.abstaining import coverage_between
from uraenas.report.entries import Difference
from uraenas.report.sections.reliability import RISKS, coverage_at
from uraenas.run.directory import Run

TITLES = {"accuracy": "Acc", "ece": "ECE", "nll": "NLL"}
COLUMNS = [(metric, words) for words in PLACES for metric in METRICS]


@dataclass
class Compared:
    """Two seeds of one thing, and a third run whose seed one of them has."""

    cases: dict[str, Case]

    @cached_property
    def page(self) -> Page:
        return taken_apart(report.build([case.source for case in self.cases.values()]))

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Methods and, by letter, their runs."""
        return [
            ("drnas", "ab"),
            ("uraenas", "ab"),
            ("uraenas", "c"),
            ("deep-ensemble", "ab"),
            ("deep-ensemble", "c"),
        ]

    def values(self, line: tuple[str, str], metric: str, shift: str, **more: object) -> list[float]:
        return [self.cases[run].value(line[0], metric, shift, **more) for run in line[1]]

    def mean(self, line: tuple[str, str], metric: str, shift: str, **more: object) -> float:
        return statistics.fmean(self.values(line, metric, shift, **more))

    def tied(self, one: str, other: str, place: tuple[str, str], calibration: str) -> bool:
        """Whether the deep ensemble of one run and uraenas of another print alike."""
        lines = (("deep-ensemble", one), ("uraenas", other))
        shift = PLACES[place[1]]
        values = [self.mean(line, place[0], shift, calibration=calibration) for line in lines]
        return len({shown(place[0], value) for value in values}) == 1

    def interval(self, line: tuple[str, str], metric: str, shift: str) -> str:
        """Over resamples of the test set, of one run as of the mean over seeds."""
        drawn = [self.cases[run].source[0].replicates() for run in line[1]]
        mean = np.mean([one[f"{shift}/{line[0]}/raw/{metric}"].double().numpy() for one in drawn], axis=0)
        return " – ".join(shown(metric, end) for end in np.quantile(mean, [0.025, 0.975]))

    def difference(
        self, line: tuple[str, str], to: tuple[str, str], metric: str, shift: str, calibration: str
    ) -> tuple[float, float, float, bool]:
        """Value, interval, and whether pairs agree; c has the seed of a."""
        pairs = [("c" if line[1] == "c" else run, "c" if to[1] == "c" else run) for run in "ab"]
        pairs = pairs[:1] if "c" in line[1] + to[1] else pairs
        name = "{}/{}/" + f"{calibration}/{metric}"
        found, replicates = [], []
        for own, theirs in pairs:
            values = [
                self.cases[run].value(method, metric, shift, calibration=calibration)
                for run, method in ((own, line[0]), (theirs, to[0]))
            ]
            found.append(values[0] - values[1])
            both = [self.cases[run].source[0].replicates() for run in (own, theirs)]
            drawn = [
                r[name.format(shift, m)].double().numpy() for r, m in zip(both, (line[0], to[0]), strict=True)
            ]
            replicates.append(drawn[0] - drawn[1])
        low, high = np.quantile(np.mean(replicates, axis=0), [0.025, 0.975])
        return statistics.fmean(found), low, high, len({value > 0 for value in found}) == 1


@pytest.fixture(scope="module")
def compared(make_run: MakeRun) -> Compared:
    seeds = {"a": {"seed": 1}, "b": {"seed": 2}, "c": {"seed": 1, "methods": ("uraenas", "deep-ensemble")}}
    return Compared({name: Case(make_run(name, **settings)) for name, settings in seeds.items()})


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_the_table_has_means_over_seeds_or_intervals(compared: Compared, calibration: str) -> None:
    at = 2 * CALIBRATIONS.index(calibration)
    table, small = compared.page.tables[at][1:], compared.page.small[at][1:]
    assert [(line[0], words[0]) for line, words in zip(table, small, strict=True)] == [
        (method, {"ab": "a, b", "c": "c"}[runs]) for method, runs in compared.lines
    ]
    for own, line, words in zip(compared.lines, table, small, strict=True):
        for k, (metric, place) in enumerate(COLUMNS):
            more = {"shift": PLACES[place], "calibration": calibration}
            mean = compared.mean(own, metric, **more)
            assert line[2 + k] == shown(metric, mean).removesuffix(" %")
            if own[1] == "ab":
                spread = statistics.stdev(compared.values(own, metric, **more))
                assert words[2 + k] == f"± {shown(metric, spread).removesuffix(' %')}"
            else:
                row = compared.cases["c"].row(own[0], metric, **more)
                ends = [shown(metric, row[end]).removesuffix(" %") for end in ("low", "high")]
                assert words[2 + k] == " – ".join(ends)


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_differences_are_paired_by_seed_and_by_image(compared: Compared, calibration: str) -> None:
    at, baseline = 2 * CALIBRATIONS.index(calibration) + 1, ("deep-ensemble", "ab")
    others = [line for line in compared.lines if line != baseline]
    shown_lines = zip(compared.page.tables[at][1:], compared.page.small[at][1:], strict=True)
    for own, (line, words) in zip(others, shown_lines, strict=True):
        for k, (metric, place) in enumerate(COLUMNS):
            value, low, high, _ = compared.difference(own, baseline, metric, PLACES[place], calibration)
            assert line[1 + k] == signed(metric, value)
            assert words[1 + k] == f"{signed(metric, low)} – {signed(metric, high)}"


def test_the_best_and_all_whose_paired_interval_to_it_holds_zero_are_marked_alike(compared: Compared) -> None:
    expected = []
    for own in compared.lines:
        for metric, place in COLUMNS:
            values = {line: compared.mean(line, metric, PLACES[place]) for line in compared.lines}
            best = (max if metric == "accuracy" else min)(values.values())
            tied = [line for line in values if shown(metric, values[line]) == shown(metric, best)]
            marked = own in tied
            for one in tied:
                _, low, high, agreed = compared.difference(own, one, metric, PLACES[place], "raw")
                marked |= low <= 0 <= high or not agreed or (low > 0) == (metric == "accuracy")
            if marked:
                expected.append(shown(metric, values[own]).removesuffix(" %"))
    found = compared.page.best[: len(expected)]
    assert found == expected
    assert len(expected) < len(COLUMNS) * len(compared.lines)


def test_maps_show_the_difference_of_every_cell(compared: Compared) -> None:
    groups = {"ab": 1, "c": 2}
    for (method, runs), metric in itertools.product(compared.lines, METRICS):
        figure = f"minus-{metric}-{method}-{groups[runs]}"
        if (method, runs) == ("deep-ensemble", "ab"):
            assert figure not in compared.page.figures
            continue
        told = tips(compared.page, figure)
        assert len(told) == len(SHIFTS) * 2
        for tip in told:
            shift, severity = tip[""].replace(" ", "_").split(",_severity_")
            baseline = ("deep-ensemble", "ab" if runs == "ab" else "a")  # c has the seed of a
            own, theirs = (
                compared.mean(line, metric, shift, severity=int(severity))
                for line in ((method, runs), baseline)
            )
            assert tip[f"{method} − deep-ensemble"] == signed(metric, own - theirs)


def test_dots_and_curves_tell_what_the_files_say(compared: Compared) -> None:
    names = {"ab": "a, b", "c": "c"}
    for metric, words in COLUMNS:
        dots = tips(compared.page, f"runs-{'c' * (words == 'shifted')}{TITLES[metric]}")
        assert len(dots) == len(compared.lines)
        for own, tip in zip(compared.lines, dots, strict=True):
            assert tip[""] == own[0]
            assert tip[names[own[1]]] == shown(metric, compared.mean(own, metric, PLACES[words]))
            assert tip["interval"] == compared.interval(own, metric, PLACES[words])
            if own[1] == "ab":
                seeds = [shown(metric, value) for value in compared.values(own, metric, PLACES[words])]
                assert tip["2 seeds"] == ", ".join(seeds)
        for tip in tips(compared.page, f"runs-size-{metric}-{words}"):
            members = int(tip.pop("").split()[0])
            for own in compared.lines:
                name = own[0] if own[0] == "drnas" else f"{own[0]} ({names[own[1]]})"
                if members > compared.cases["a"].sizes[own[0]]:
                    assert name not in tip
                    continue
                value = compared.mean(own, metric, PLACES[words], members=members)
                assert tip[name].split(" (")[0] == shown(metric, value)


def test_costs_are_means_over_seeds_and_the_front_has_them(compared: Compared) -> None:
    (table,) = [
        t for t in compared.page.tables if "Examples seen" in t[0] and len(t) == 1 + len(compared.lines)
    ]
    for (method, runs), line in zip(compared.lines, table[1:], strict=True):
        cases = [compared.cases[run] for run in runs]
        search = statistics.fmean(case.file("cost.json")["search"]["seconds"] for case in cases)
        training = statistics.fmean(case.spent(method, "seconds") for case in cases)
        assert line[3:5] == [f"{search:,.1f}", f"{training:,.1f}"]
        told = {tip[""]: tip for tip in tips(compared.page, "runs-cost-seconds-nll-shifted")}
        name = method if method == "drnas" else f"{method} ({', '.join(runs)})"
        assert told[name]["seconds"] == f"{search + training:,.0f}"
        assert told[name]["NLL"] == shown("nll", compared.mean((method, runs), "nll", PLACES["shifted"]))
        assert told[name]["interval"] == compared.interval((method, runs), "nll", PLACES["shifted"])


def test_abstaining_is_told_from_aurc_and_predictions(compared: Compared) -> None:
    (table,) = [t for t in compared.page.tables if "cAURC" in t[0]]
    for own, line in zip(compared.lines, table[1:], strict=True):
        assert line[4:6] == [f"{compared.mean(own, 'aurc', PLACES[words]):.4f}" for words in PLACES]
        shares = []
        for run in own[1]:
            case = compared.cases[run]
            mean = case.probabilities[own[0]].mean(axis=0)
            wrong = (mean.argmax(axis=1) != case.labels)[np.argsort(-mean.max(axis=1), kind="stable")]
            within = (wrong.cumsum() / np.arange(1, len(wrong) + 1) <= 0.05).nonzero()[0]
            shares.append((within[-1] + 1) / len(wrong) if len(within) else 0.0)
        assert line[3] == f"{100 * statistics.fmean(shares):.1f} %"


@pytest.fixture(scope="module")
def bare(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A run that knows neither cost nor members nor predictions, as stored results do."""
    run, test = make_run("bare", seed=1, methods=("drnas",))
    copy = Run(shutil.copytree(run.path, tmp_path_factory.mktemp("bare") / "bare"))
    copy.remove("cost.json")
    shutil.rmtree(copy.path / "methods")
    return Case((copy, test))


@pytest.fixture(scope="module")
def beside_bare(compared: Compared, bare: Case) -> Page:
    """The page of that and of a run that knows all."""
    return taken_apart(report.build([compared.cases["a"].source, bare.source]))


def test_figures_of_cost_name_only_those_whose_cost_is_known(beside_bare: Page) -> None:
    drawn = beside_bare.texts["runs-cost-seconds-nll-clean"]
    assert {"drnas", "uraenas", "deep-ensemble", "a"} <= set(drawn)
    assert "bare" not in drawn
    section = beside_bare.sections["compared-cost"]
    assert section.count("bare") == 2  # in the sentence of what is missing, and in the table


def test_without_predictions_accuracy_and_aurc_say_between_what_the_answered_share_lies(
    bare: Case, beside_bare: Page
) -> None:
    (table,) = [t for t in beside_bare.tables if "cAURC" in t[0]]
    (_, known, ranges), known_of_bare = table[:3], [bare.value("drnas", m) for m in ("accuracy", "aurc")]
    assert [known[0], ranges[0]] == ["drnas", "drnas"]
    assert not any("–" in share for share in known[1:4])
    for risk, share in zip(RISKS, ranges[1:4], strict=True):
        low, high = coverage_between(*known_of_bare, risk)
        assert share == f"{100 * low:.1f} – {100 * high:.1f} %"
    section = beside_bare.sections["compared-abstaining"]
    assert "Without predictions or their test set: bare. uraenas evaluate RUN" in section


def test_accuracy_and_aurc_bound_the_coverage_at_a_risk() -> None:
    generator = torch.Generator().manual_seed(0)
    for images, signal in itertools.product((1, 7, 60), (0.0, 2.0, 5.0, 9.0)):
        labels = torch.randint(5, (images,), generator=generator)
        logits = torch.randn(images, 5, generator=generator).round()  # rounded: some confidences are equal
        logits[torch.arange(images), labels] += signal
        log_p = logits.double().log_softmax(1)
        known = metrics.accuracy(log_p, labels), metrics.aurc(log_p, labels)
        _, confidence, right = metrics.confidence_bins(log_p, labels)
        shares = coverage_at(metrics.risk_at_coverage(confidence, right))
        for risk, share in zip(RISKS, shares, strict=True):
            low, high = coverage_between(*known, risk)
            assert low - 1e-9 <= share <= high + 1e-9
    assert coverage_between(0.97, 0.001, 0.05) == (1.0, 1.0)
    ordered = 1 - 0.95 + 0.95 * math.log(0.95)  # the AURC where all errors come last: nothing is left open
    assert coverage_between(0.95, ordered, 0.02) == pytest.approx((0.95 / 0.98, 0.95 / 0.98), abs=0.02)


def test_settings_of_methods_that_only_some_runs_have_are_no_differences(beside_bare: Page) -> None:
    (differ,) = [t for t in beside_bare.tables if t[0] == ["Setting", "a", "bare"]]
    assert differ[1:] == [["methods", "drnas, uraenas, deep-ensemble", "drnas"]]  # may be broken into lines
    (some,) = [t for t in beside_bare.tables if t[0] == ["Runs that use them", "Settings"]]
    ((runs, settings),) = some[1:]
    assert runs == "a"
    assert "train.sampling.momentum\u00a00.9" in settings.split(", ")


def test_differences_of_one_seed_have_hollow_signs(compared: Compared) -> None:
    baseline, pages = ("deep-ensemble", "ab"), compared.page
    others = [line for line in compared.lines if line != baseline]
    found = set()
    for own, cells in zip(others, pages.marks[1][1:], strict=True):
        for (metric, place), mark in zip(COLUMNS, cells[1:], strict=True):
            _, low, high, agreed = compared.difference(own, baseline, metric, PLACES[place], "raw")
            words = "" if low <= 0 <= high or not agreed else "worse"
            words = "better" if words and (low > 0) == (metric == "accuracy") else words
            assert mark == (f"{words} one-seed" if words and own[1] == "c" else words)
            found.add(mark)
    assert found >= {"better", "worse"}
    html = report.build([compared.cases["a"].source, compared.cases["c"].source])
    signs = set(re.findall(r'class="sign" aria-hidden="true" title="([^"]+)">(.)<', unpacked(html)))
    words = {"△": "better on these data, one seed", "▽": "worse on these data, one seed"}
    assert {sign: told for told, sign in signs} == words
    assert "△ and ▽: the same on these images, one seed" in html


def test_methods_that_share_no_seed_are_neither_marked_nor_called_worse(compared: Compared) -> None:
    clear = {"value": 0.1, "interval": (0.05, 0.15), "agreed": True, "pairs": 2}
    assert Difference(**clear, same_seeds=True).verdict("accuracy") == "better"
    assert Difference(**clear, same_seeds=False).verdict("accuracy") == ""
    assert Difference(**{**clear, "agreed": False}, same_seeds=True).verdict("accuracy") == ""
    sources = [compared.cases[name].source for name in "ab"]
    html = report.build(sources, methods=[("deep-ensemble",), ("uraenas",)])
    section = html.split('id="compared"')[1].split("</section>")[0]
    ties = {kind: sum(compared.tied("a", "b", place, kind) for place in COLUMNS) for kind in CALIBRATIONS}
    columns, tied = len(COLUMNS) * len(CALIBRATIONS), sum(ties.values())
    marked = [section.count(f'<td class="{mark}"') for mark in ("best", "unjudged")]
    assert marked == [columns + tied, columns - tied]
    assert not re.search('class="(better|worse)', section)
    assert section.count("; not judged: ") == len(COLUMNS) - ties["raw"] > 0
    assert "so without a sign: uraenas." in section


@pytest.mark.parametrize("bootstrap", [0, 30])
def test_seeds_with_other_numbers_of_replicates_are_not_paired(
    compared: Compared, make_run: MakeRun, bootstrap: int
) -> None:
    other = make_run("other", seed=2, bootstrap=bootstrap)
    html = report.build([compared.cases["a"].source, other])
    section = taken_apart(html).sections["compared"]
    assert "–: a run has no replicates, or not as many, to be paired" in section
    assert ("Without bootstrap replicates, and so not paired with others: other" in section) == (
        not bootstrap
    )
    assert not re.search('class="(better|worse)', html.split('id="compared"')[1].split("</section>")[0])


def test_images_from_elsewhere_do_not_decide_what_runs_were_tested_on(
    compared: Compared, make_own_run: MakeRun
) -> None:
    run, test = make_own_run("elsewhere", seed=2)
    found = run.metrics()
    extra = found.rows[0]._replace(shift="outside-noise", severity=0, metric="images", value=60.0)
    run.write_outcome(replace(found, rows=[*found.rows, extra]), run.replicates())
    page = taken_apart(report.build([compared.cases["a"].source, (run, test)]))
    assert "not tested on the same images" not in page.sections["compared"]
    assert page.small[0][1][0] == "a, elsewhere"


def test_a_baseline_is_found_by_any_way_to_its_run_and_named_where_it_is_not_there(
    compared: Compared,
) -> None:
    sources = [compared.cases[name].source for name in "ac"]
    run = sources[1][0].path
    other = compared.cases["b"].source[0].path
    for way, words in (
        (f"{run}/../{run.name}:uraenas", "Differences to uraenas (c),"),
        (f"{other}:drnas", f"No differences: {other}:drnas is not among these methods"),
    ):
        assert words in taken_apart(report.build(sources, against=way)).sections["compared"]


def test_colour_is_the_method_and_shape_the_run(compared: Compared) -> None:
    """In the key: a swatch for each method, a shape for each set of runs; and in the figures the same."""
    html = report.build([case.source for case in compared.cases.values()])
    section = html.split('id="compared"')[1].split("</section>")[0]
    assert section.count("data-focus=") == 3
    assert re.findall(r"</svg>\s*([^<]+)</span>", section) == ["mean of 2 seeds: a, b", "c"]
    drawn = section.split('data-name="runs-NLL"')[1].split("</svg>")[0]
    groups = drawn.split("data-method=")[1:]
    assert [group[1:].split('"')[0] for group in groups] == [line[0] for line in compared.lines]
    shapes = [("<circle" in group.split('class="dot"')[0].rpartition("/>")[2]) for group in groups]
    # Circles for the first runs, squares for the other.
    assert shapes == [line[1] == "ab" for line in compared.lines]


def test_tiles_name_the_best_and_our_rank(compared: Compared) -> None:
    section = compared.page.sections["compared"]
    values = {line: compared.mean(line, "nll", PLACES["shifted"]) for line in compared.lines}
    order = sorted(values, key=values.__getitem__)
    assert shown("nll", values[order[0]]) in section
    ours = ("uraenas", "ab")
    assert f"uraenas (a, b): rank {1 + order.index(ours)} of {len(order)}" in section


def test_strangers_are_told_what_methods_are_and_which_seeds_are_paired(compared: Compared) -> None:
    section = compared.page.sections["compared"]
    assert (
        "Architectures drawn from the learned distribution. Samples of cyclical Langevin dynamics" in section
    )
    assert section.count("c; of seed 1 alone") == 2 * len(("uraenas", "deep-ensemble"))
    assert "it is not the difference of the means above" in section
    assert "another seed may move a method by more than the interval" in section
    assert "ECE leans upwards" in section
    assert "classes. Accuracy in percent" in section  # what was tested on comes first


def test_a_page_takes_few_calls_for_what_it_shows(compared: Compared) -> None:
    """What takes time is counted, since time itself is the machine's: it was 26 calls for each tag once, and is 14."""
    profile = cProfile.Profile()
    html = profile.runcall(report.build, [case.source for case in compared.cases.values()])
    assert pstats.Stats(profile).total_calls < 18 * unpacked(html).count("<")  # type: ignore[attr-defined]
