"""Prediction sets and bounded risks: the textbook's definitions, and promises that hold over a thousand splits."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom

from uraenas.base.errors import UraenasError
from uraenas.ensemble.held_out import HeldOut, drawn_apart
from uraenas.ensemble.residuals import Residuals
from uraenas.ensemble.threshold import estimated, promised
from uraenas.evaluation import conformal

CLASSES = 5


def images(random: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Overconfident predictions [N, K], and labels drawn from flatter ones."""
    logits = torch.from_numpy(random.normal(size=(count, CLASSES)) * 4)
    labels = torch.multinomial(
        torch.softmax(logits, dim=1), 1, generator=torch.Generator().manual_seed(int(random.integers(2**31)))
    )
    return torch.softmax(2 * logits, dim=1), labels[:, 0]


def held_out(random: np.random.Generator, count: int, seed: int = 0) -> HeldOut:
    probability, labels = images(random, count)
    return HeldOut.of(probability.log(), labels, drawn_apart(count, seed))


@pytest.mark.parametrize("regularisation", [0.0, 0.01, 0.3])
def test_sets_are_those_of_a_plain_loop(regularisation: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformal, "REGULARISATION", regularisation)
    probability, _ = images(np.random.default_rng(0), 40)
    for row, found in zip(probability, conformal.prediction_sets(probability, 0.8), strict=True):
        ranked = sorted(range(CLASSES), key=lambda k: (-float(row[k]), k))
        scores = [sum(float(row[j]) for j in ranked[:r]) + regularisation * r for r in range(CLASSES)]
        assert {ranked[r] for r in range(CLASSES) if scores[r] <= 0.8} == set(
            torch.nonzero(found)[:, 0].tolist()
        )
        assert found[ranked[0]]  # never empty


def test_the_true_classes_scores_are_those_of_their_sets() -> None:
    probability, labels = images(np.random.default_rng(1), 50)
    found = HeldOut.of(probability.log(), labels, torch.ones(50))
    scores = conformal.regularised(found.before, found.rank)
    for q in (0.0, 0.4, 0.9, 1.0):
        inside = conformal.prediction_sets(probability, q)[torch.arange(50), labels]
        assert torch.equal(inside, scores <= q)
    assert torch.equal(found.right, (found.rank == 0).float())


@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("counts", [[19], [14], [3], [27, 28, 28, 26, 30], [1, 1, 1, 1, 1], [90, 2]])
def test_groups_together_miss_as_much_as_they_may_and_hardly_less(counts: list[int], coverage: float) -> None:
    places = conformal.conformal_places(counts, coverage)
    missed = [(count + 1 - place) / (count + 1) for count, place in zip(counts, places, strict=True)]
    assert min(places) >= 1
    assert min(missed) >= 0
    assert sum(missed) <= len(counts) * (1 - coverage) + 1e-6
    least = len(counts) * (1 - coverage) - 1 / (min(counts) + 1)
    assert sum(missed) > least or max(places) == 1  # no score is smaller than the smallest
    if len(counts) == 1:
        assert places == [math.ceil((counts[0] + 1) * coverage - 1e-9)]


def test_what_whole_places_leave_over_goes_to_the_largest_group() -> None:
    """Of 30 scores 3.1 may be beyond, of 12 scores 1.3: together there is room for one more, where it is used best."""
    assert conformal.conformal_places([12, 30, 12, 12, 12], 0.9) == [12, 27, 12, 12, 12]


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("groups", [1, 2, 3, 5, 8])
def test_the_least_number_of_images_is_the_first_that_gives_most_groups_an_end(
    groups: int, coverage: float
) -> None:
    def has_ends(each: int) -> bool:
        places = conformal.conformal_places([each] * groups, coverage)
        return sum(place <= each for place in places) > groups // 2

    each = next(each for each in range(1, 1000) if has_ends(each))
    assert conformal.least_for_coverage(coverage, groups) == groups * each


@pytest.mark.parametrize(
    ("panels", "needed", "setting"), [(1, "99", "a larger data.apart"), (5, "295", "data.apart")]
)
def test_a_doubt_names_the_rows_their_number_and_what_changes_it(
    panels: int, needed: str, setting: str
) -> None:
    rows = 120 if panels == 5 else 40
    judged_by = torch.arange(rows) % panels
    found = Residuals.of(
        torch.zeros(1, rows, 2), torch.ones(rows), torch.ones(rows), judged_by, torch.arange(panels)
    )
    assert not found.doubts_of_coverage(0.9, "row")
    (said,) = found.doubts_of_coverage(0.99, "row")
    assert f"{rows} held-out rows" in said
    assert ("in 5 folds" in said) == (panels == 5)
    assert f"needed: {needed} (more rows in all, or {setting}" in said


def test_a_quantile_counts_the_new_image_too() -> None:
    scores = torch.arange(1.0, 20.0)  # 19 images
    assert conformal.conformal_quantile(scores, 0.95) == 19
    assert conformal.conformal_quantile(scores, 0.9) == 18
    assert conformal.conformal_quantile(scores, 0.5) == 10
    assert conformal.conformal_quantile(scores, 0.96) == math.inf
    assert conformal.conformal_quantile(scores[:0], 0.5) == math.inf
    with pytest.raises(UraenasError, match="coverage = 1 is out of range"):
        conformal.conformal_quantile(scores, 1)


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_coverage_holds_over_a_thousand_splits(coverage: float) -> None:
    random = np.random.default_rng(2)
    splits, n, new = 1000, 60, 20
    probability, labels = images(random, splits * (n + new))
    covered = []
    for p, y in zip(probability.split(n + new), labels.split(n + new), strict=True):
        known = HeldOut.of(p[:n].log(), y[:n], torch.ones(n))
        sets = conformal.prediction_sets(p[n:], known.quantile(coverage))
        covered.append(float(sets[torch.arange(new), y[n:]].double().mean()))
    mean, error = np.mean(covered), np.std(covered) / splits**0.5
    assert mean >= coverage - 4 * error
    # Near the promise: equal scores cost little here.
    assert mean <= coverage + 1 / (n + 1) + 0.01 + 4 * error


def test_the_p_values_are_those_of_the_binomial_test() -> None:
    wrong, n = torch.tensor([0, 3, 12, 0, 7]), torch.tensor([59, 200, 40, 0, 7])
    np.testing.assert_allclose(conformal.risk_p_values(wrong, n, 0.1), binom.cdf(wrong, n, 0.1), rtol=1e-12)
    wrong, n = torch.tensor([0, 40, 260, 400, 5000]), torch.tensor([5000, 2500, 5000, 5000, 5000])
    np.testing.assert_allclose(conformal.risk_p_values(wrong, n, 0.05), binom.cdf(wrong, n, 0.05), rtol=1e-9)
    assert conformal.least_images(0.05, 0.95) == 59  # the rule of three
    assert 0.95**59 <= 0.05 < 0.95**58


@pytest.mark.parametrize(("risk", "certainty"), [(0.1, 0.9), (0.05, 0.8)])
def test_the_risk_is_kept_as_often_as_promised(risk: float, certainty: float) -> None:
    """The true risk of each threshold comes from many images of the same kind."""
    random = np.random.default_rng(3)
    p, y = images(random, 100_000)
    everyone = HeldOut.of(p.log(), y, torch.ones(len(y)))
    order = everyone.confidence.argsort(descending=True)
    ranked, risks = everyone.confidence[order], (1 - everyone.right[order]).cumsum(0)
    splits, n, broken, answered = 1000, 300, 0, 0
    chosen = torch.from_numpy(random.integers(0, len(y), (splits, n)))
    for which in chosen:
        confidence, right = everyone.confidence[which], everyone.right[which]
        halves = [(confidence[part], right[part]) for part in (slice(0, 150), slice(150, n))]
        found = promised(halves[0], halves[1], risk, certainty)
        passing = int((ranked >= found.confidence).sum())
        answered += found.passing
        broken += passing > 0 and float(risks[passing - 1]) / passing > risk
    allowed = 1 - certainty
    assert broken / splits <= allowed + 4 * (allowed * certainty / splits) ** 0.5
    assert answered / splits > 20  # of 150; a promise kept by silence is worth nothing


def test_few_images_promise_nothing_and_say_so() -> None:
    found = held_out(np.random.default_rng(4), 60).threshold(0.05)
    assert found.certainty == 0
    assert "as an estimate, not promised" in str(found)
    many = held_out(np.random.default_rng(4), 2000).threshold(0.2, 0.9)
    assert many.certainty == 0.9
    assert many.images == 1000
    assert "risk at most 20 % with a certainty of 90 %" in str(many)
    assert binom.cdf(many.wrong, many.passing, 0.2) <= 0.1
    nothing = held_out(np.random.default_rng(4), 2000).threshold(0.001, 0.6)
    assert (nothing.confidence > 1, nothing.passing) == (True, 0)
    assert "abstain always" in str(nothing)
    other = held_out(np.random.default_rng(4), 2000).threshold(nothing.possible, 0.6)
    assert other.passing > 0  # what it names instead is possible
    assert f"; {100 * nothing.possible:g} % would be possible" in str(nothing)
    assert many.possible == 0
    with pytest.raises(UraenasError, match="certainty = 1 is out of range"):
        held_out(np.random.default_rng(4), 60).threshold(0.05, 1)


def test_an_estimated_threshold_does_not_part_images_of_one_confidence() -> None:
    """Two of the four that are less sure are wrong: half of them in any order would do, and all of them do not."""
    confidence = torch.tensor([0.5, 0.9, 0.5, 0.5, 0.5], dtype=torch.float64)
    right = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    found = estimated(confidence, right, 0.3)
    assert (found.confidence, found.passing, found.wrong) == (0.9, 1, 0)
    assert estimated(confidence, right, 0.4).passing == 5
    one_of_nine = torch.arange(9) > 0  # whose share, summed over nine equals, is rounded up
    assert estimated(torch.full((9,), 0.9), one_of_nine.double(), 1 / 9).passing == 9


def test_half_of_the_images_is_apart_and_another_seed_draws_another_half() -> None:
    first, second = drawn_apart(101, 0), drawn_apart(101, 1)
    assert (int(first.sum()), int(second.sum())) == (50, 50)
    assert not torch.equal(first, second)
    assert torch.equal(first, drawn_apart(101, 0))
    assert not drawn_apart(1, 0).any()


def test_images_that_are_called_foreign_are_not_answered_so_their_errors_do_not_count() -> None:
    found = held_out(np.random.default_rng(4), 2000)
    foreign = torch.arange(2000) % 10 == 0
    spoiled = replace(found, right=found.right * ~foreign, p_value=torch.where(foreign, 1 / 32, 0.5).double())
    alone = HeldOut(**{name: one[~foreign] for name, one in found.tensors().items()})
    assert spoiled.threshold(0.2, 0.9) == alone.threshold(0.2, 0.9)
    assert spoiled.threshold(0.2, 0.9, share=1 / 32) == alone.threshold(0.2, 0.9)  # p ≤ share is foreign
    assert spoiled.threshold(0.2, 0.9, share=0.005) != alone.threshold(0.2, 0.9)
