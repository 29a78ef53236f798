"""Evaluation: rows are what the metrics say, means are means of cells, intervals come from paired resamples."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.data.dataset import LabelledImages
from uraenas.evaluation import (
    Cell,
    EvaluateSettings,
    EvaluationSet,
    Evaluator,
    Judged,
    Measured,
    Metrics,
    Row,
    cell_count,
    evaluation_sets,
    metrics,
    summarise,
)
from uraenas.evaluation.calibration import scale
from uraenas.evaluation.measures import BOOTSTRAPPED
from uraenas.shifts import SUITES

CLASSES, SEED = 4, 3
SETTINGS = EvaluateSettings(bootstrap=200, subsets=6)


def truth(images: int) -> np.ndarray:
    return draws.integers(draws.at(1, 0), images, CLASSES).numpy()


def evaluation_set(shift: str = "none", severity: int = 0, images: int = 120) -> EvaluationSet:
    part = LabelledImages(np.zeros((images, 4, 4, 1), np.uint8), truth(images))
    return EvaluationSet("toy", shift, severity, part)


def predictions(members: int, skill: float, key: int, images: int = 120) -> Tensor:
    """Members that lean towards the truth, by `skill`, with noise of their own."""
    noise = draws.normal(draws.at(key, 0), members * images * CLASSES).view(members, images, CLASSES)
    return torch.log_softmax(
        noise + skill * torch.nn.functional.one_hot(torch.from_numpy(truth(images)), CLASSES), -1
    )


def judged(members: int, skill: float, key: int, images: int = 120) -> Judged:
    return Judged(
        predictions(members, skill, key, images),
        [f"genotype {m // 2}" for m in range(members)],
        [f"chain {m}" for m in range(members)],
        temperature=1.3,
    )


ENSEMBLES = {"drnas": judged(1, 0.5, 10), "deep-ensemble": judged(4, 0.5, 11), "uraenas": judged(5, 0.9, 12)}


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    """The clean set, two shifts at two severities."""
    evaluator = Evaluator(SETTINGS, SEED)
    found = [evaluator.cell(evaluation_set(), ENSEMBLES)]
    for number, shift in enumerate(("brightness", "contrast")):
        for severity in (1, 2):
            shifted = {
                name: judged(
                    len(e.architectures), 0.6 - 0.2 * severity, 20 + 5 * number + severity + 100 * key
                )
                for key, (name, e) in enumerate(ENSEMBLES.items())
            }
            found.append(evaluator.cell(evaluation_set(shift, severity), shifted))
    return found


@pytest.fixture(scope="module")
def result(cells: list[Cell]) -> Metrics:
    return summarise(cells)[0]


def pick(rows: list[Row], **wanted: object) -> Row:
    found = [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
    assert len(found) == 1, (wanted, len(found))
    return found[0]


@pytest.mark.parametrize("name", ENSEMBLES)
def test_rows_are_the_metrics_of_the_mean_prediction(result: Metrics, name: str) -> None:
    ensemble, labels = ENSEMBLES[name], torch.from_numpy(truth(120))
    members = len(ensemble.architectures)
    mean = ensemble.log_probabilities_MNK.double().exp().mean(dim=0).log()
    for kind, prediction in (("raw", mean), ("temperature", scale(mean, 1.3))):
        for metric, function in metrics.METRICS.items():
            row = pick(
                result.rows, method=name, shift="none", metric=metric, members=members, calibration=kind
            )
            assert row.value == pytest.approx(function(prediction, labels), abs=1e-12)
            assert (row.dataset, row.severity, row.seed) == ("toy", 0, SEED)


@pytest.mark.parametrize("name", ["deep-ensemble", "uraenas"])
def test_uncertainty_rows_are_means_over_images_and_add_up(result: Metrics, name: str) -> None:
    ensemble = ENSEMBLES[name]
    full = {"method": name, "shift": "none", "members": len(ensemble.architectures), "calibration": "raw"}
    value = {
        metric: pick(result.rows, metric=metric, **full).value
        for metric in (
            "disagreement",
            *(f"{p}_uncertainty" for p in ("total", "data", "weight", "architecture", "chain")),
        )
    }
    split = metrics.uncertainty_by_source(ensemble.log_probabilities_MNK, ensemble.architectures)
    assert value["disagreement"] == metrics.disagreement(ensemble.log_probabilities_MNK) > 0
    assert value["architecture_uncertainty"] == pytest.approx(split.architecture.mean().item(), abs=1e-12)
    added = value["data_uncertainty"] + value["weight_uncertainty"] + value["architecture_uncertainty"]
    assert added == pytest.approx(value["total_uncertainty"], abs=1e-10)
    # With a chain for every member, all that members do not agree on is the control's.
    assert value["chain_uncertainty"] == pytest.approx(split.model.mean().item(), abs=1e-10)


def test_every_ensemble_size_is_there_for_the_clean_set_and_the_means(result: Metrics) -> None:
    for shift in ("none", "mean2"):
        for name, ensemble in ENSEMBLES.items():
            for metric in (*BOOTSTRAPPED, "disagreement"):
                sizes = [
                    row.members
                    for row in result.rows
                    if (row.method, row.shift, row.metric, row.calibration) == (name, shift, metric, "raw")
                ]
                assert sorted(sizes) == list(range(1, len(ensemble.architectures) + 1)), (name, shift, metric)
    for row in result.rows:
        if row.shift in ("brightness", "contrast"):
            assert row.members == len(ENSEMBLES[row.method].architectures)


def test_a_single_member_is_the_mean_over_all_of_them(result: Metrics) -> None:
    log_p, labels = ENSEMBLES["uraenas"].log_probabilities_MNK, torch.from_numpy(truth(120))
    for metric in BOOTSTRAPPED:
        expected = np.mean([metrics.METRICS[metric](member, labels) for member in log_p])
        row = pick(result.rows, method="uraenas", shift="none", metric=metric, members=1, calibration="raw")
        assert row.value == pytest.approx(expected, abs=1e-12)


def test_sizes_between_are_means_over_subsets_of_that_size(result: Metrics) -> None:
    """With members as alike as these, more of them are better."""
    wanted = {"method": "uraenas", "shift": "none", "metric": "nll", "calibration": "raw"}
    values = [pick(result.rows, members=size, **wanted).value for size in range(1, 6)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 5
    cell = Evaluator(EvaluateSettings(bootstrap=0, subsets=2), SEED).cell(evaluation_set(), ENSEMBLES)
    log_p, labels = ENSEMBLES["uraenas"].log_probabilities_MNK, torch.from_numpy(truth(120))
    of_three = itertools.combinations(range(5), 3)
    possible = [metrics.nll(metrics.mixture(log_p[list(subset)]), labels) for subset in of_three]
    means = [np.mean(two) for two in itertools.combinations_with_replacement(possible, 2)]
    found = pick(cell.rows, members=3, method="uraenas", metric="nll").value
    assert np.abs(np.array(means) - found).min() < 1e-12


def test_suite_means_are_means_of_the_cells_metrics(cells: list[Cell], result: Metrics) -> None:
    means = [row for row in result.rows if row.shift == "mean2"]
    assert {row.severity for row in means} == {0}
    assert len(means) == len(cells[1].rows)
    for row in means:
        wanted = {key: getattr(row, key) for key in ("method", "metric", "members", "calibration")}
        expected = np.mean([pick(cell.rows, **wanted).value for cell in cells[1:]])
        assert row.value == pytest.approx(expected, abs=1e-12)


def test_every_shift_and_severity_has_its_own_rows(result: Metrics) -> None:
    places = {(row.shift, row.severity) for row in result.rows}
    shifted = {(shift, severity) for shift in ("brightness", "contrast") for severity in (1, 2)}
    assert places == {("none", 0), ("mean2", 0)} | shifted
    identities = [
        tuple(
            getattr(row, key) for key in ("method", "shift", "severity", "metric", "members", "calibration")
        )
        for row in result.rows
    ]
    assert len(set(identities)) == len(identities)


def test_nineteen_shifts_give_both_means() -> None:
    evaluator = Evaluator(EvaluateSettings(bootstrap=0, subsets=1), SEED)
    found = [evaluator.cell(evaluation_set(), {"drnas": ENSEMBLES["drnas"]})]
    skills = {shift: 0.1 * number for number, shift in enumerate(SUITES["cifar10-c"])}
    for shift, skill in skills.items():
        found.append(evaluator.cell(evaluation_set(shift, 1), {"drnas": judged(1, skill, 3)}))
    rows = summarise(found)[0].rows
    wanted = {"metric": "nll", "calibration": "raw"}
    for name, members in (("mean19", SUITES["cifar10-c"]), ("mean15", SUITES["cifar10-c-15"])):
        expected = np.mean([pick(rows, shift=shift, **wanted).value for shift in members])
        assert pick(rows, shift=name, **wanted).value == pytest.approx(expected, abs=1e-12)
    assert len(SUITES["cifar10-c-15"]) == 15


# Intervals and differences


def test_intervals_contain_the_value(result: Metrics) -> None:
    intervals = 0
    for row in result.rows:
        if row.interval and row.metric != "ece":  # resampling adds to a calibration error
            assert row.low < row.value < row.high, row
            intervals += 1
    assert intervals == 2 * 2 * 3 * 3  # clean and mean, raw and scaled, three methods, three metrics


def test_the_interval_is_that_of_a_plain_bootstrap() -> None:
    """The same images drawn with replacement and the metric computed on each draw, by brute force."""
    evaluator = Evaluator(SETTINGS, SEED)
    cell = evaluator.cell(evaluation_set(), ENSEMBLES)
    labels = torch.from_numpy(truth(120))
    mean = metrics.mixture(ENSEMBLES["uraenas"].log_probabilities_MNK)
    key = draws.key(0, "bootstrap")  # of no run: those of two runs pair
    for number in range(0, 200, 40):
        index = draws.integers(draws.at(key, number), 120, 120)
        for metric in BOOTSTRAPPED:
            expected = metrics.METRICS[metric](mean[index], labels[index])
            found = cell.replicates[f"uraenas/raw/{metric}"][number].item()
            assert found == pytest.approx(expected, abs=1e-5), metric


def test_intervals_shrink_with_the_number_of_images() -> None:
    widths = {}
    for images in (100, 1600):
        cell = Evaluator(SETTINGS, SEED).cell(
            evaluation_set(images=images), {"deep-ensemble": judged(2, 1.0, 4, images)}
        )
        rows = summarise([cell])[0].rows
        for metric in ("accuracy", "nll", "brier"):
            row = pick(rows, metric=metric, members=2, calibration="raw")
            widths[metric, images] = row.high - row.low
    for metric in ("accuracy", "nll", "brier"):
        ratio = widths[metric, 100] / widths[metric, 1600]
        assert 2.5 < ratio < 6, metric  # four, but for chance


def test_the_difference_of_a_method_to_its_equal_is_nothing() -> None:
    twins = {"deep-ensemble": ENSEMBLES["uraenas"], "uraenas": ENSEMBLES["uraenas"]}
    cell = Evaluator(SETTINGS, SEED).cell(evaluation_set(), twins)
    differences = summarise([cell])[0].differences
    assert len(differences) == 2 * 2 * len(BOOTSTRAPPED)
    for row in differences:
        assert {row.method, row.baseline} == set(twins)
        assert (row.value, row.low, row.high) == (0, 0, 0)


def test_differences_are_paired(result: Metrics) -> None:
    wanted = {"shift": "none", "metric": "nll", "calibration": "raw"}
    row = pick(result.differences, method="uraenas", baseline="deep-ensemble", **wanted)
    back = pick(result.differences, method="deep-ensemble", baseline="uraenas", **wanted)
    assert (row.low, row.value, row.high) == pytest.approx((-back.high, -back.value, -back.low), abs=1e-9)
    ours, theirs = (
        pick(result.rows, method=name, shift="none", metric="nll", calibration="raw", members=members)
        for name, members in (("uraenas", 5), ("deep-ensemble", 4))
    )
    assert row.value == pytest.approx(ours.value - theirs.value)
    assert row.low < row.value < row.high < 0  # it is the better one
    pairs = {(r.method, r.baseline) for r in result.differences}
    assert pairs == set(itertools.permutations(("drnas", "deep-ensemble", "uraenas"), 2))
    assert {r.shift for r in result.differences} == {"none", "mean2"}


def test_a_difference_is_taken_on_the_same_images(cells: list[Cell]) -> None:
    """By hand: of each resample the one mean minus the other, then percentiles."""
    clean = cells[0]
    ours, theirs = (clean.replicates[f"{name}/raw/nll"].double() for name in ("uraenas", "deep-ensemble"))
    row = pick(
        summarise([clean])[0].differences,
        method="uraenas",
        baseline="deep-ensemble",
        metric="nll",
        calibration="raw",
    )
    ends = np.percentile((ours - theirs).numpy(), (2.5, 97.5))
    assert (row.low, row.high) == pytest.approx(tuple(ends), abs=1e-9)
    others = np.percentile((ours - theirs.flip(0)).numpy(), (2.5, 97.5))
    assert np.abs(others - ends).max() > 1e-4  # resamples that do not belong together give another interval


def test_differences_between_two_runs_are_those_within_one() -> None:
    """The same methods, measured apart by runs of different seeds."""
    together = Evaluator(SETTINGS, SEED).cell(evaluation_set(), ENSEMBLES)
    within = [row for row in summarise([together])[0].differences if row.baseline == "deep-ensemble"]
    apart = []
    for seed, methods in ((SEED, ("drnas", "uraenas")), (SEED + 1, ("deep-ensemble",))):
        cell = Evaluator(SETTINGS, seed).cell(evaluation_set(), {name: ENSEMBLES[name] for name in methods})
        found, replicates = summarise([cell])
        apart.append(Measured(found.rows, replicates))
    between = apart[0].differences_to(apart[1], "deep-ensemble")
    assert between == within
    assert len(between) == 2 * 2 * len(BOOTSTRAPPED)


def test_a_way_to_predict_that_only_one_method_has_is_compared_with_nothing() -> None:
    """As a reference, logistic regression, has no views of an image."""
    viewed = replace(ENSEMBLES["uraenas"], at_test_time={"views": predictions(5, 0.9, 13)})
    cell = Evaluator(SETTINGS, SEED).cell(evaluation_set(), {"uraenas": viewed, "drnas": ENSEMBLES["drnas"]})
    found = summarise([cell])[0]
    assert "views" in {row.calibration for row in found.rows}
    assert {row.calibration for row in found.differences} == {"raw", "temperature"}


def test_one_method_alone_has_no_differences() -> None:
    cell = Evaluator(SETTINGS, SEED).cell(evaluation_set(), {"uraenas": ENSEMBLES["uraenas"]})
    assert summarise([cell])[0].differences == []


def test_without_bootstrap_there_are_rows_without_intervals() -> None:
    settings = EvaluateSettings(bootstrap=0)
    cell = Evaluator(settings, SEED).cell(evaluation_set(), ENSEMBLES)
    found = summarise([cell])[0]
    assert cell.replicates == {}
    assert found.differences == []
    assert not any(row.interval for row in found.rows)


def test_evaluation_is_a_function_of_its_seed() -> None:
    first, again, other = (Evaluator(SETTINGS, seed).cell(evaluation_set(), ENSEMBLES) for seed in (1, 1, 2))
    assert first.rows == again.rows
    key = "uraenas/raw/nll"
    assert torch.equal(first.replicates[key], again.replicates[key])
    assert torch.equal(first.replicates[key], other.replicates[key])  # resamples are those of every run
    pairs = [pick(cell.rows, method="uraenas", metric="nll", members=3).value for cell in (first, other)]
    assert pairs[0] != pairs[1]  # other subsets of the members


# Evaluation sets


def test_sets_are_the_clean_one_and_every_shift_at_every_severity() -> None:
    rng = np.random.default_rng(0)
    test = LabelledImages((rng.random((6, 8, 8, 1)) * 255).astype(np.uint8), truth(6))
    settings = EvaluateSettings(suite="basic", severities=(1, 5))
    found = list(evaluation_sets("toy", test, settings))
    assert len(found) == cell_count(test, settings) == 1 + 4 * 2
    assert (found[0].shift, found[0].severity, found[0].name) == ("none", 0, "toy")
    assert found[0].part is test
    assert len({where.name for where in found}) == len(found)
    for where in found[1:]:
        assert where.part.images.shape == test.images.shape
        assert where.part.images.dtype == np.uint8
        assert (where.part.images != test.images).any()
        np.testing.assert_array_equal(where.part.labels, test.labels)
    clean_only = EvaluateSettings(suite="none")
    assert len(list(evaluation_sets("toy", test, clean_only))) == cell_count(test, clean_only) == 1


def test_float_images_are_shifted_in_their_own_units() -> None:
    rng = np.random.default_rng(0)
    whole = (rng.random((6, 8, 8, 1)) * 255).astype(np.uint8)
    settings = EvaluateSettings(suite="basic", severities=(3,))
    as_bytes, as_floats = (
        list(evaluation_sets("toy", LabelledImages(images, truth(6)), settings))
        for images in (whole, whole.astype(np.float32) / 255)
    )
    for ours, theirs in zip(as_floats[1:], as_bytes[1:], strict=True):
        assert ours.part.images.dtype == np.float32
        np.testing.assert_allclose(ours.part.images, theirs.part.images / 255, atol=1e-6)
