"""The nested estimate of what architectures do."""

import math
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import t

from uraenas.evaluation.architecture import ArchitectureEffect, architecture_effect, effects_of
from uraenas.evaluation.row import Row


def members(effect: float, seed: int, kinds: int = 5, copies: int = 2) -> tuple[torch.Tensor, list, list]:
    """Log-probabilities of chains whose logits are an architecture's, times `effect`, plus their own."""
    random = np.random.default_rng(seed)
    of_kind = effect * random.normal(size=(kinds, 1, 40, 3))
    own = random.normal(size=(kinds, copies, 40, 3))
    logits = torch.from_numpy((of_kind + own).reshape(kinds * copies, 40, 3))
    architectures = [f"a{k}" for k in range(kinds) for _ in range(copies)]
    return logits.log_softmax(dim=-1), architectures, [f"c{n}" for n in range(kinds * copies)]


def plain(log_p: torch.Tensor, kinds: list, left_out: str = "") -> float:
    p = log_p.exp().numpy()
    sorts: dict[bool, list[float]] = {True: [], False: []}
    for a in range(len(p)):
        for b in range(a):
            if left_out not in (kinds[a], kinds[b]):
                # SciPy's is the square root of the divergence.
                apart = np.mean([jensenshannon(x, y) ** 2 for x, y in zip(p[a], p[b], strict=True)])
                sorts[kinds[a] == kinds[b]].append(float(apart))
    return float(np.mean(sorts[False]) - np.mean(sorts[True]))


@pytest.mark.parametrize(
    ("kinds", "copies", "kept"), [(5, 2, range(10)), (3, 3, (0, 1, 2, 3, 4, 6))], ids=["even", "uneven"]
)
def test_against_a_plain_version(kinds: int, copies: int, kept: Sequence[int]) -> None:
    log_p, *names = members(1.0, 1, kinds, copies)
    log_p, (own, chains) = log_p[list(kept)], ([one[c] for c in kept] for one in names)
    found = architecture_effect(log_p, own, chains)
    assert found is not None
    whole = plain(log_p, own)
    pseudo = [kinds * whole - (kinds - 1) * plain(log_p, own, one) for one in dict.fromkeys(own)]
    half = t.ppf(0.975, kinds - 1) * np.std(pseudo, ddof=1) / math.sqrt(kinds)
    assert (found.value, found.low, found.high) == pytest.approx(
        (whole, whole - half, whole + half), abs=1e-12
    )


def test_it_is_nothing_in_expectation_where_architectures_do_not_matter() -> None:
    found = [architecture_effect(*members(0.0, seed)) for seed in range(60)]
    values = np.array([one.value for one in found if one])
    assert len(values) == 60
    assert abs(values.mean()) < 3 * values.std() / math.sqrt(60)
    covered = [one.low <= 0 <= one.high for one in found if one]
    assert np.mean(covered) > 0.85


def test_it_is_found_where_they_matter() -> None:
    found = architecture_effect(*members(3.0, seed=2))
    assert found is not None
    assert found.low > 0
    assert "differ more than initialisations of one do" in str(found)


def test_members_of_a_chain_count_as_one() -> None:
    log_p, kinds, chains = members(1.0, seed=3)
    doubled = log_p.repeat_interleave(2, dim=0)
    twice = [[one for one in names for _ in range(2)] for names in (kinds, chains)]
    found, expected = architecture_effect(doubled, *twice), architecture_effect(log_p, kinds, chains)
    assert found is not None
    assert expected is not None
    assert astuple(found) == pytest.approx(astuple(expected), rel=1e-12)


@pytest.mark.parametrize(("copies", "kinds"), [(1, 6), (6, 1), (2, 2)])
def test_without_both_sorts_of_pairs_nothing_is_said(copies: int, kinds: int) -> None:
    assert architecture_effect(*members(1.0, 4, kinds, copies)) is None


def test_rows_bring_it_back() -> None:
    def row(metric: str, value: float) -> Row:
        return Row("uraenas", "digits", "none", 0, metric, value, 4, "raw", 0)

    rows = [row(f"architecture_effect_{k}", v) for k, v in (("value", 0.01), ("low", -0.01), ("high", 0.03))]
    found = effects_of([row("accuracy", 0.9), *rows])["uraenas"]
    assert str(found) == (
        "it is not clear that architectures differ more than initialisations of one do "
        "(0.0100 nats, 95 % interval -0.0100 to 0.0300)"
    )


def test_that_nothing_was_found_is_not_taken_for_nothing_being_there() -> None:
    """Of a small true difference five architectures often have an interval that holds 0."""
    found = [one for seed in range(20) if (one := architecture_effect(*members(0.2, seed)))]
    unclear = [str(one) for one in found if one.low <= 0 < one.high]
    assert unclear
    assert all("not clear" in words and "no more" not in words for words in unclear)
    assert "differ no more" in str(ArchitectureEffect(-0.02, -0.03, -0.01))


def test_rows_that_lack_a_part_of_it_say_nothing() -> None:
    bogus = [
        Row("uraenas", "digits", "none", 0, f"architecture_effect_{k}", 1.0, 4, "raw", 0)
        for k in ("value", "x")
    ]
    assert effects_of(bogus) == {}
