"""Metrics against torchmetrics and brute force, and the split of uncertainty by its source."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from uraenas.base import draws
from uraenas.evaluation import MEASURES, metrics


def predictions(count: int, classes: int, key: int = 0, sharpness: float = 2.0) -> tuple[Tensor, Tensor]:
    """Log-probabilities [N, K] and labels that they are somewhat right about."""
    logits = sharpness * draws.normal(draws.at(key, 0), count * classes, torch.float64).view(count, classes)
    noise = draws.uniform(draws.at(key, 1), count * classes, torch.float64).view(count, classes)
    labels = (logits - torch.log(-torch.log(noise))).argmax(dim=1)  # drawn from the predicted distribution
    return torch.log_softmax(1.5 * logits, dim=1), labels  # and then made overconfident


def member_predictions(members: int, count: int, classes: int, key: int = 0) -> Tensor:
    flat = draws.normal(draws.at(key, 0), members * count * classes, torch.float64)
    return torch.log_softmax(2 * flat.view(members, count, classes), dim=-1)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("key", range(3))
def test_accuracy_and_calibration_error_agree_with_torchmetrics(classes: int, key: int) -> None:
    import torchmetrics.functional.classification as reference  # more than a second, for one worker alone

    log_p, labels = predictions(500, classes, key)
    p = log_p.exp()
    expected = reference.multiclass_accuracy(p, labels, classes, average="micro")
    assert metrics.accuracy(log_p, labels) == pytest.approx(float(expected), abs=1e-6)
    expected = reference.multiclass_calibration_error(p, labels, classes, n_bins=15, norm="l1")
    assert metrics.ece(log_p, labels) == pytest.approx(float(expected), abs=1e-6)
    assert metrics.ece(log_p, labels) > 0.01


def test_nll_and_brier_agree_with_brute_force() -> None:
    log_p, labels = predictions(60, 4)
    p, truth = log_p.exp().tolist(), labels.tolist()
    nll = sum(-math.log(row[label]) for row, label in zip(p, truth, strict=True)) / 60
    brier = (
        sum((row[k] - (k == label)) ** 2 for row, label in zip(p, truth, strict=True) for k in range(4)) / 60
    )
    assert metrics.nll(log_p, labels) == pytest.approx(nll, abs=1e-12)
    assert metrics.brier(log_p, labels) == pytest.approx(brier, abs=1e-12)


def test_adaptive_ece_puts_the_same_number_of_images_into_every_bin() -> None:
    log_p, labels = predictions(150, 5)
    p = log_p.exp().numpy()
    order = np.argsort(p.max(axis=1))
    right = (p.argmax(axis=1) == labels.numpy())[order]
    confidence = p.max(axis=1)[order]
    expected = sum(
        abs(confidence[start : start + 10].mean() - right[start : start + 10].mean()) * 10 / 150
        for start in range(0, 150, 10)
    )
    assert metrics.adaptive_ece(log_p, labels) == pytest.approx(expected, abs=1e-12)


def test_a_perfectly_calibrated_prediction_has_no_calibration_error() -> None:
    log_p = torch.log(torch.tensor([[0.75, 0.25]], dtype=torch.float64)).expand(4, 2)
    labels = torch.tensor([0, 0, 0, 1])
    assert metrics.ece(log_p, labels) == pytest.approx(0, abs=1e-12)
    assert metrics.adaptive_ece(log_p, labels) == pytest.approx(0, abs=1e-12)  # though bins part equals


def test_certainty_is_in_the_last_bin_and_costs_its_error() -> None:
    log_p = torch.log(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]))
    labels = torch.tensor([0, 1, 0, 1])
    assert metrics.ece(log_p, labels) == pytest.approx(0.25)
    assert metrics.adaptive_ece(log_p, labels) == pytest.approx(0.25)
    assert metrics.accuracy(log_p, labels) == 0.75
    assert metrics.brier(log_p, labels) == pytest.approx(0.5)
    assert metrics.nll(log_p, labels) == math.inf
    assert metrics.nll(log_p[:3], labels[:3]) == 0


def test_a_confidence_on_the_edge_of_two_bins_is_in_the_lower_one() -> None:
    places = torch.arange(1, 16, dtype=torch.float64)
    confidence = places / 15
    log_p = torch.stack([confidence, *[(1 - confidence) / 20] * 20], dim=1).log()
    bins, _, _ = metrics.confidence_bins(log_p, torch.zeros(15, dtype=torch.int64))
    assert bins.tolist() == list(range(15))


def test_what_is_not_a_number_has_no_metrics() -> None:
    log_p, labels = predictions(8, 3)
    log_p[2] = torch.nan
    found = metrics.of_each(log_p[None], labels)
    assert all(math.isnan(found[name]) for name in ("nll", "ece", "brier"))


# Risk against coverage


def aurc_by_brute_force(confidence: list[float], right: list[bool]) -> float:
    """Mean over all orders that sort by confidence, ties in every order."""
    orders = [
        order
        for order in itertools.permutations(range(len(right)))
        if all(confidence[a] >= confidence[b] for a, b in itertools.pairwise(order))
    ]
    areas = []
    for order in orders:
        wrong = np.cumsum([not right[i] for i in order])
        areas.append(np.mean(wrong / np.arange(1, len(right) + 1)))
    return float(np.mean(areas))


@settings(max_examples=60, deadline=None)
@given(images=st.lists(st.tuples(st.sampled_from([0.6, 0.7, 0.9]), st.booleans()), min_size=1, max_size=6))
def test_aurc_is_the_mean_over_all_orders_of_equally_confident_images(
    images: list[tuple[float, bool]],
) -> None:
    confidence, right = [c for c, _ in images], [r for _, r in images]
    log_p = torch.log(torch.tensor([[c, 1 - c] for c in confidence], dtype=torch.float64))
    labels = torch.tensor([0 if r else 1 for r in right])
    assert metrics.aurc(log_p, labels) == pytest.approx(aurc_by_brute_force(confidence, right), abs=1e-12)


@pytest.mark.parametrize("name", metrics.METRICS)
def test_no_metric_depends_on_the_order_of_the_data(name: str) -> None:
    log_p, labels = predictions(200, 3)
    log_p = torch.log_softmax((log_p / 2).round(), dim=1)  # many ties, some too sure and some not enough
    order = draws.permutation(draws.at(5, 0), 200)
    found = metrics.METRICS[name](log_p, labels)
    assert metrics.METRICS[name](log_p[order], labels[order]) == pytest.approx(found, abs=1e-12)


# Members


def test_the_mixture_is_of_probabilities_not_of_logits() -> None:
    log_p = torch.log(torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]], dtype=torch.float64))
    torch.testing.assert_close(metrics.mixture(log_p).exp(), torch.tensor([[0.6, 0.4]], dtype=torch.float64))
    many = member_predictions(5, 20, 4)
    torch.testing.assert_close(metrics.mixture(many), many.exp().mean(dim=0).log(), rtol=0, atol=1e-12)
    averaged_logits = torch.log_softmax(many.mean(dim=0), dim=-1)
    assert (metrics.mixture(many) - averaged_logits).abs().max() > 0.1


def test_a_mixture_of_zeros_is_zero_and_half_a_zero_is_half() -> None:
    log_p = torch.log(torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]]))
    mixed = metrics.mixture(log_p)
    torch.testing.assert_close(mixed.exp(), torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64))
    assert metrics.entropy(mixed).item() == pytest.approx(math.log(2))
    assert metrics.entropy(log_p).tolist() == [[0.0], [0.0]]
    split = metrics.uncertainty_by_source(log_p, ["a", "b"])
    assert split.architecture.item() == pytest.approx(math.log(2))
    assert all(
        torch.isfinite(part).all() for part in (split.total, split.data, split.weights, split.architecture)
    )


def test_disagreement_is_the_mean_over_pairs_of_members() -> None:
    log_p = member_predictions(4, 50, 3)
    chosen = log_p.argmax(dim=-1).tolist()
    pairs = list(itertools.combinations(range(4), 2))
    expected = sum(
        sum(a != b for a, b in zip(chosen[m], chosen[n], strict=True)) / 50 for m, n in pairs
    ) / len(pairs)
    assert metrics.disagreement(log_p) == pytest.approx(expected, abs=1e-12)
    matrix = metrics.disagreement_matrix(log_p)
    assert torch.equal(matrix, matrix.T)
    assert (matrix.diagonal() == 0).all()
    assert metrics.disagreement(log_p[:1]) == 0


def test_the_disagreement_of_some_members_is_that_of_these_alone() -> None:
    log_p = member_predictions(5, 60, 3)
    subsets = torch.tensor([[1, 1, 0, 0, 1], [1, 0, 1, 1, 0]], dtype=torch.float64)
    found = MEASURES["classes"].of_subsets(log_p, torch.zeros(60, dtype=torch.int64), subsets)["disagreement"]
    for subset, value in zip(subsets.bool(), found.tolist(), strict=True):
        assert value == pytest.approx(metrics.disagreement(log_p[subset]))


def test_metrics_of_float32_predictions_are_computed_in_float64() -> None:
    log_p, labels = predictions(300, 10)
    for name, metric in metrics.METRICS.items():
        assert metric(log_p.float(), labels) == pytest.approx(metric(log_p, labels), abs=1e-5), name
    assert metrics.mixture(log_p.float()[None]).dtype == torch.float64


# Uncertainty by source


def parts_by_brute_force(log_p: np.ndarray, labels: list[int]) -> dict[str, np.ndarray]:
    def entropy(p: np.ndarray) -> np.ndarray:
        return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=-1)

    p = np.exp(log_p)
    weighted = [(np.mean(np.array(labels) == g), p[np.array(labels) == g]) for g in sorted(set(labels))]
    architecture = entropy(p.mean(axis=0)) - sum(w * entropy(q.mean(axis=0)) for w, q in weighted)
    weights = sum(w * (entropy(q.mean(axis=0)) - entropy(q).mean(axis=0)) for w, q in weighted)
    return {
        "total": entropy(p.mean(axis=0)),
        "data": entropy(p).mean(axis=0),
        "weights": weights,
        "architecture": architecture,
    }


ensembles = st.tuples(
    st.lists(st.integers(0, 3), min_size=1, max_size=7),  # genotype of each member
    st.integers(2, 5),  # classes
    st.integers(0, 10_000),  # key
    st.sampled_from([0.01, 1.0, 30.0, 900.0]),  # sharpness; at 900 probabilities are exactly 0
)


def ensemble_predictions(members: int, classes: int, key: int, sharpness: float) -> Tensor:
    logits = draws.normal(draws.at(key, 0), members * 4 * classes, torch.float64).view(members, 4, classes)
    return torch.log_softmax(sharpness * logits, dim=-1)


@settings(max_examples=150, deadline=None)
@given(ensemble=ensembles)
def test_the_parts_of_uncertainty_are_not_negative_and_add_up(ensemble: tuple) -> None:
    genotypes, classes, key, sharpness = ensemble
    log_p = ensemble_predictions(len(genotypes), classes, key, sharpness)
    split = metrics.uncertainty_by_source(log_p, genotypes)
    for name, expected in parts_by_brute_force(log_p.numpy(), genotypes).items():
        part = getattr(split, name)
        assert part.dtype == torch.float64
        assert (part >= 0).all(), name
        np.testing.assert_allclose(part.numpy(), expected, atol=1e-10, rtol=0)
    gap = split.total - (split.data + split.weights + split.architecture)
    assert gap.abs().max() < 1e-10
    assert torch.equal(split.model, split.weights + split.architecture)
    assert (split.total <= math.log(classes) + 1e-12).all()


@settings(max_examples=40, deadline=None)
@given(ensemble=ensembles)
def test_equal_genotypes_leave_nothing_to_architecture_and_distinct_ones_nothing_to_weights(
    ensemble: tuple,
) -> None:
    genotypes, classes, key, sharpness = ensemble
    log_p = ensemble_predictions(len(genotypes), classes, key, sharpness)
    assert metrics.uncertainty_by_source(log_p, ["same"] * len(genotypes)).architecture.abs().max() < 1e-12
    assert metrics.uncertainty_by_source(log_p, range(len(genotypes))).weights.abs().max() < 1e-12


def test_the_split_does_not_depend_on_the_order_of_members() -> None:
    log_p, genotypes = member_predictions(6, 10, 4), ["a", "b", "a", "c", "b", "a"]
    order = [5, 3, 0, 4, 2, 1]
    split = metrics.uncertainty_by_source(log_p, genotypes)
    shuffled = metrics.uncertainty_by_source(log_p[order], [genotypes[m] for m in order])
    torch.testing.assert_close(split.architecture, shuffled.architecture, atol=1e-12, rtol=0)
    torch.testing.assert_close(split.weights, shuffled.weights, atol=1e-12, rtol=0)
    assert split.architecture.min() > 1e-3
    assert split.weights.min() > 1e-3


# Telling images from elsewhere


@settings(max_examples=60, deadline=None)
@given(
    inside=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    outside=st.lists(st.integers(0, 6), min_size=1, max_size=12),
)
def test_separation_agrees_with_counting_pairs(inside: list[int], outside: list[int]) -> None:
    found = metrics.separation(torch.tensor(inside).float(), torch.tensor(outside).float())
    pairs = [(o > i) + 0.5 * (o == i) for i in inside for o in outside]
    assert found["auroc"] == pytest.approx(sum(pairs) / len(pairs))
    threshold = min(t for t in inside if np.mean(np.array(inside) <= t) >= 0.95)
    assert found["fpr95"] == pytest.approx(np.mean(np.array(outside) <= threshold))
    assert 0 <= found["aupr"] <= 1


def test_a_threshold_that_is_to_accept_95_in_100_accepts_no_fewer() -> None:
    inside, between = torch.arange(10.0), torch.full((3,), 8.9)  # 9 of 10 are below, which is too few
    assert metrics.separation(inside, between)["fpr95"] == 1.0


def test_infinite_scores_are_the_largest_and_what_is_undefined_is_no_number() -> None:
    inside, infinite = torch.arange(40.0), torch.full((3,), math.inf)
    assert metrics.separation(inside, infinite) == {"auroc": 1.0, "aupr": 1.0, "fpr95": 0.0}
    for outside in (torch.tensor([1.0, math.nan]), torch.zeros(0)):
        assert all(map(math.isnan, metrics.separation(inside, outside).values()))


def test_separation_of_sets_that_lie_apart_is_perfect() -> None:
    inside, outside = torch.linspace(0, 1, 40), torch.linspace(2, 3, 30)
    assert metrics.separation(inside, outside) == {"auroc": 1.0, "aupr": 1.0, "fpr95": 0.0}


@pytest.mark.parametrize(
    ("genotypes", "undefined"),
    [("a", {"weights", "architecture"}), ("aa", {"architecture"}), ("ab", {"weights"}), ("aab", set())],
)
def test_parts_of_uncertainty_that_members_cannot_tell_are_named(genotypes: str, undefined: set) -> None:
    assert set(metrics.undefined_sources(genotypes)) == undefined


def test_a_subset_without_the_surest_member_keeps_its_own_probabilities() -> None:
    log_p = torch.tensor([[[-2000.0, 0.0]], [[0.0, -3000.0]]], dtype=torch.float64)
    for subset, expected in (((1.0, 0.0), log_p[0]), ((0.0, 1.0), log_p[1]), ((1.0, 1.0), None)):
        found = metrics.mixtures(log_p, torch.tensor([subset], dtype=torch.float64))[0]
        torch.testing.assert_close(found, metrics.mixture(log_p) if expected is None else expected)
    impossible = torch.tensor([[[0.0, -math.inf]]] * 2, dtype=torch.float64)
    found = metrics.mixtures(impossible, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(found, impossible)


@pytest.mark.parametrize("name", metrics.METRICS)
def test_a_prediction_that_is_no_number_has_no_metric(name: str) -> None:
    log_p, labels = predictions(20, 3)
    log_p[4] = math.nan
    assert math.isnan(metrics.METRICS[name](log_p, labels))
