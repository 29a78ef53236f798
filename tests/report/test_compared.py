"""What a page of several runs says and when it does not judge; test_compared_numbers holds its numbers."""

import cProfile
import itertools
import math
import pstats
import re
import shutil
from dataclasses import replace

import pytest
import torch
from compared_runs import Column, Compared, Line
from made_up_run import MakeRun
from page_and_files import CALIBRATIONS, Case, shown
from reading_html import Page, taken_apart, unpacked

from uraenas import report
from uraenas.evaluation import metrics
from uraenas.report.compared.abstaining import coverage_between
from uraenas.report.entries import Difference
from uraenas.report.sections.reliability import RISKS, coverage_at
from uraenas.run.directory import Run


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
    ties = {kind: sum(_tied(compared, column, kind) for column in compared.columns) for kind in CALIBRATIONS}
    columns, tied = len(compared.columns) * len(CALIBRATIONS), sum(ties.values())
    marked = [section.count(f'<td class="{mark}"') for mark in ("best", "unjudged")]
    assert marked == [columns + tied, columns - tied]
    assert not re.search('class="(better|worse)', section)
    assert section.count("; not judged: ") == len(compared.columns) - ties["raw"] > 0
    assert "so without a sign: uraenas." in section


def _tied(compared: Compared, column: Column, calibration: str) -> bool:
    """Whether the deep ensemble of a and uraenas of b print alike."""
    lines = (Line("deep-ensemble", "a"), Line("uraenas", "b"))
    means = [compared.mean(line, column.metric, column.shift, calibration=calibration) for line in lines]
    return len({shown(column.metric, mean) for mean in means}) == 1


@pytest.mark.parametrize("bootstrap", [0, 30])
def test_seeds_with_other_numbers_of_replicates_are_not_paired(
    compared: Compared, make_run: MakeRun, bootstrap: int
) -> None:
    other = make_run("other", seed=2, bootstrap=bootstrap)
    html = report.build([compared.cases["a"].source, other])
    section = taken_apart(html).sections["compared"]
    assert "–: a run has not this value, or no replicates, or not as many, to be paired" in section
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


TITLES = ["Acc", "ECE", "NLL", "cAcc", "cECE", "cNLL"]


@pytest.mark.parametrize(
    ("other", "told", "judged", "of_the_other"),
    [
        (
            {"shifts": ()},
            "Not tested on shifted images: other. Columns with c compare the others.",
            TITLES,
            3,
        ),
        (
            {"severities": (3,)},
            "These runs were not tested on the same shifted images: a on 4 sets; other on 2 sets. In columns with c "
            "no best is marked, and no difference is drawn.",
            TITLES[:3],
            3,
        ),
    ],
    ids=["none", "others"],
)
def test_runs_with_other_shifted_images_are_compared_on_the_clean_ones(
    compared: Compared, make_run: MakeRun, other: dict, told: str, judged: list[str], of_the_other: int
) -> None:
    sources = [compared.cases["a"].source, make_run("other", seed=1, **other)]
    page = taken_apart(report.build(sources))
    assert told in page.sections["compared"]
    assert "not tested on the same images" not in page.sections["compared"]
    values, differences = (
        page.tables[0],
        next(table for table in page.tables if len(table[0]) < 2 + len(TITLES)),
    )
    assert values[0][2:] == TITLES
    assert differences[0][1:] == judged
    (line,) = [cells for cells in differences[1:] if cells[0] == "deep-ensemble"]
    assert [cell == "–" for cell in line[1:]] == [k >= of_the_other for k in range(len(judged))]
    assert ("compared-shift" in page.sections) == (len(judged) == len(TITLES))
    against = taken_apart(report.build(sources[::-1], against=f"{sources[1][0].path}:uraenas"))
    assert "Differences to uraenas (other)" in against.sections["compared"]
    assert next(table for table in against.tables if len(table[0]) < 2 + len(TITLES))[0][1:] == TITLES[:3]


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
