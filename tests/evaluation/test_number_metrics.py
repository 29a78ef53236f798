"""Predicted numbers: metrics against integrals, the law of total variance, intervals that keep their word."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from uraenas.data.targets import Numbers, Several
from uraenas.ensemble.residuals import Residuals
from uraenas.evaluation import MEASURES, measures_of, numbers

MEASURED = MEASURES["numbers"]


def mixture(members: int = 3, rows: int = 4, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    mean = torch.randn(members, rows, generator=random, dtype=torch.float64)
    return torch.stack([mean, torch.randn(members, rows, generator=random, dtype=torch.float64) - 1], dim=-1)


LABELS = torch.tensor([0.3, -1.2, 2.0, 0.0], dtype=torch.float64)


def density(one: torch.Tensor, x: float) -> float:
    means, logs = one.unbind(dim=-1)
    return float(np.mean(stats.norm.pdf(x, means.numpy(), np.exp(0.5 * logs.numpy()))))


def test_density_and_distribution_are_those_of_the_mixture() -> None:
    found = mixture()
    for n, label in enumerate(LABELS.tolist()):
        one = found[:, n]
        assert numbers.log_density(found, LABELS)[n].exp().item() == pytest.approx(density(one, label))
        below, _ = integrate.quad(lambda x, one=one: density(one, x), -30, label)
        assert numbers.distribution(found, LABELS)[n].item() == pytest.approx(below, abs=1e-7)


def test_crps_is_the_integral_it_stands_for() -> None:
    found = mixture()
    for n, label in enumerate(LABELS.tolist()):
        one = found[:, n : n + 1]

        def gap(x: float, one: torch.Tensor = one, label: float = label) -> float:
            below = float(numbers.distribution(one, torch.tensor([x], dtype=torch.float64)))
            return (below - (x >= label)) ** 2

        expected = sum(integrate.quad(gap, *ends, limit=200)[0] for ends in ((-20, label), (label, 20)))
        assert numbers.crps(found, LABELS)[n].item() == pytest.approx(expected, abs=1e-5)


def test_quantiles_turn_the_distribution_round() -> None:
    found = mixture(members=5)
    for share in (0.025, 0.5, 0.9):
        values = numbers.quantile(found, share)
        torch.testing.assert_close(numbers.distribution(found, values), torch.full_like(values, share))


def test_the_law_of_total_variance_holds_and_each_part_is_what_its_name_says() -> None:
    found = mixture(members=6)
    split = numbers.variance_by_source(found, ["a", "a", "b", "b", "b", "c"])
    torch.testing.assert_close(split.data + split.weights + split.architecture, split.total)
    torch.testing.assert_close(split.total, numbers.moments(found)[1])
    torch.testing.assert_close(split.data, found[..., 1].exp().mean(dim=0))
    alone = numbers.variance_by_source(found, ["a"] * 6)
    assert float(alone.architecture.abs().max()) < 1e-15
    apart = numbers.variance_by_source(found, list("abcdef"))
    assert float(apart.weights.abs().max()) < 1e-15
    torch.testing.assert_close(apart.architecture, alone.weights)


def test_a_temperature_stretches_the_mixture_and_the_fitted_one_has_the_least_nll() -> None:
    random = torch.Generator().manual_seed(1)
    labels = 3 * torch.randn(2000, generator=random, dtype=torch.float64)
    told = torch.zeros(2, 2000, 2, dtype=torch.float64)
    told[1, :, 0] = 0.1
    mean, variance = numbers.moments(told)
    stretched = numbers.moments(numbers.scaled(told, 4.0))
    torch.testing.assert_close(stretched[0], mean)
    torch.testing.assert_close(stretched[1], 4 * variance)
    fitted = MEASURED.fit(told, labels)
    assert fitted == pytest.approx(9, rel=0.1)
    values = [MEASURED.of(numbers.scaled(told, fitted * step), labels)["nll"] for step in (0.8, 1.0, 1.25)]
    assert min(values) == values[1]


def test_a_few_rows_move_the_temperature_less_than_many() -> None:
    for count, (low, high) in ((3, (1.5, 3)), (3000, (8.9, 9))):
        told = torch.zeros(1, count, 2, dtype=torch.float64)
        labels = torch.full((count,), 3.0, dtype=torch.float64)  # three deviations off: T = 9
        assert low < numbers.fit_temperature(told, labels) < high


def test_metrics_of_a_true_prediction_are_those_of_its_distribution() -> None:
    random = torch.Generator().manual_seed(2)
    labels = 5 + 2 * torch.randn(4000, generator=random, dtype=torch.float64)
    told = torch.tensor([5.0, 2 * math.log(2)], dtype=torch.float64).expand(1, 4000, 2)
    found = MEASURED.of(told, labels)
    assert found["rmse"] == pytest.approx(2, rel=0.03)
    assert found["nll"] == pytest.approx(math.log(2) + 0.5 * math.log(2 * math.pi * math.e), rel=0.02)
    assert found["crps"] == pytest.approx(2 / math.sqrt(math.pi), rel=0.03)  # of a Gaussian
    for share in numbers.COVERAGES:
        assert found[f"coverage{share}"] == pytest.approx(share / 100, abs=0.02)
        assert found[f"width{share}"] == pytest.approx(4 * stats.norm.ppf(0.5 + share / 200), rel=1e-6)
    assert found["calibration_error"] < 0.02


def test_bootstrap_and_subsets_agree_with_the_whole() -> None:
    found = mixture(members=4)
    whole = MEASURED.of(found, LABELS)
    resampled = MEASURED.bootstrap(found, LABELS, torch.ones(1, 4))
    for name in ("rmse", "mae", "nll", "crps", "coverage90"):
        assert float(resampled[name]) == pytest.approx(whole[name])
    subsets = MEASURED.of_subsets(found, LABELS, torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 1]]).double())
    part = MEASURED.of(found[[0, 3]], LABELS)
    for name, values in subsets.items():
        assert values.tolist() == pytest.approx([whole[name], part[name]])


@pytest.mark.parametrize("apart", [0.0, 1.0])
@pytest.mark.parametrize("panels", [1, 2, 5])
def test_conformal_intervals_hold_as_many_new_numbers_as_they_promise(panels: int, apart: float) -> None:
    """On average over held-out sets, whatever the prediction is worth: here deviations are ten times too small."""
    random = torch.Generator().manual_seed(3)
    judged_by, held = torch.arange(40) % panels, []
    for _ in range(200):
        labels = torch.randn(140, generator=random, dtype=torch.float64)
        wrong = apart * torch.arange(panels, dtype=torch.float64)  # each panel is off by as much everywhere
        told = torch.stack([wrong, torch.full_like(wrong, 2 * math.log(0.1))], dim=1)
        kept = Residuals.of(
            told[judged_by][None], labels[:40], torch.ones(40), judged_by, torch.arange(panels)
        )
        ends = kept.interval(told[:, None].expand(panels, 100, 2), 0.9)
        held.append(float(((labels[40:] >= ends[:, 0]) & (labels[40:] <= ends[:, 1])).double().mean()))
    assert np.mean(held) + 0.01 >= 0.9
    assert np.mean(held) < (0.93 if panels % 2 and (panels == 1 or not apart) else 1)


def test_where_few_of_many_panels_are_lost_the_interval_is_that_of_the_others() -> None:
    labels, judged_by = (
        torch.randn(500, generator=torch.Generator().manual_seed(0)).double(),
        torch.arange(500) % 5,
    )
    told = torch.tensor([0.0, 0.0, 0.0, 50.0, -50.0]).double()
    told = torch.stack([told, torch.zeros_like(told)], dim=1)
    kept = Residuals.of(told[judged_by][None], labels, torch.ones(500), judged_by, torch.arange(5))
    ((low, high),) = kept.interval(told[:, None], 0.9).tolist()
    assert (low, high) == pytest.approx((-1.64, 1.64), abs=0.2)


@pytest.mark.parametrize(("panels", "ends"), [(1, (-1, 1)), (2, (-1, 11)), (3, (9, 11)), (4, (9, 21))])
def test_the_ends_are_medians_of_the_panels_and_the_outer_ones_of_two(
    panels: int, ends: tuple[float, float]
) -> None:
    """Panel k says 10 k ± 1: each of its nine rows is one deviation off."""
    told = torch.stack([10.0 * torch.arange(panels), torch.zeros(panels)], dim=1).double()
    judged_by = torch.arange(9 * panels) % panels
    said = told[judged_by][None]
    kept = Residuals.of(said, said[0, :, 0] + 1, torch.ones(9 * panels), judged_by, torch.arange(panels))
    assert tuple(kept.interval(told[:, None], 0.9)[0].tolist()) == pytest.approx(ends)


def test_rows_that_a_choice_has_seen_do_not_count_for_intervals() -> None:
    said = torch.zeros(1, 18, 2, dtype=torch.float64)
    labels, apart = torch.ones(18, dtype=torch.float64), torch.arange(18) < 9
    labels[~apart] = 100.0
    one = torch.zeros(1, dtype=torch.int64)
    kept = Residuals.of(said, labels, apart, one.expand(18), one)
    assert kept.interval(said[:, :1], 0.9).tolist() == [[-1, 1]]


def test_an_interval_holds_everything_where_rows_are_too_few() -> None:
    one = torch.zeros(1, dtype=torch.int64)
    kept = Residuals.of(mixture(members=1), LABELS, torch.ones(4), one.expand(4), one)
    assert kept.interval(mixture(members=1), 0.9).isinf().all()


@pytest.mark.parametrize(("between", "own"), [(0.3, 0.7), (0.8, 0.7)])
def test_a_temperature_of_few_members_becomes_that_of_many(between: float, own: float) -> None:
    random = torch.Generator().manual_seed(0)
    labels = torch.randn(4000, generator=random).double()
    means = between * torch.randn(20, 4000, generator=random).double()
    mixture = torch.stack([means, torch.full_like(means, 2 * math.log(own))], dim=-1)
    few, many = (numbers.fit_temperature(mixture[:count], labels) for count in (4, 20))
    mended = numbers.temperature_of_more(few, mixture[:4], 20)
    assert abs(mended - many) < 0.25 * (few - many)
    assert numbers.temperature_of_more(few, mixture[:4], 4) == few


def test_several_targets_are_measured_each_as_if_alone_and_as_a_mean_that_knows_no_unit() -> None:
    members = torch.cat([mixture(seed=1), mixture(seed=2)], dim=-1)
    labels = torch.stack([LABELS, LABELS.flip(0)], dim=1)
    functions, chains = ["a", "a", "b"], ["0", "1", "2"]
    counts, subsets = torch.tensor([[1.0, 0, 2, 1]]), torch.tensor([[1.0, 0, 1]], dtype=torch.float64)

    def found(unit: float) -> tuple[dict, tuple]:
        """Where the second target is in another unit."""
        said, true = members.clone(), labels.clone()
        said[..., 2], said[..., 3] = said[..., 2] * unit, said[..., 3] + 2 * math.log(unit)
        true[:, 1] *= unit
        measures = measures_of(Several((Numbers("x", 0, 2.0), Numbers("y", 0, 3.0 * unit))))
        temperature = measures.fit(measures.mean(said), true)
        scaled = measures.scaled(measures.mean(said), temperature)
        metrics = measures.of(scaled, true) | measures.of_members(said, functions, chains)
        metrics |= {f"b.{key}": float(one) for key, one in measures.bootstrap(scaled, true, counts).items()}
        metrics |= {f"s.{key}": float(one) for key, one in measures.of_subsets(said, true, subsets).items()}
        metrics["uncertainty"] = float(measures.uncertainty(said).sum())
        assert set(measures.names) <= set(metrics)
        return metrics, temperature

    metrics, temperature = found(1.0)
    for k, name in enumerate("xy"):
        said, true = members[..., 2 * k : 2 * k + 2], labels[:, k]
        assert temperature[k] == MEASURED.fit(said, true)
        alone = MEASURED.of(MEASURED.scaled(said, temperature[k]), true)
        assert {key: metrics[f"{name}.{key}"] for key in alone} == alone
    assert metrics["rmse"] == pytest.approx((metrics["x.rmse"] / 2 + metrics["y.rmse"] / 3) / 2)
    variances = [float(MEASURED.uncertainty(said).sum()) for said in members.split(2, dim=-1)]
    assert metrics["uncertainty"] == pytest.approx((variances[0] / 4 + variances[1] / 9) / 2)
    other, _ = found(1000.0)
    means = [key for key in metrics if "y" not in key.split(".")]  # all that is not said of the second alone
    assert len(means) > 20
    assert {key: other[key] for key in means} == pytest.approx({key: metrics[key] for key in means}, rel=1e-5)


def test_intervals_of_several_targets_are_those_of_each_alone() -> None:
    said = torch.stack([mixture(rows=40, seed=1), mixture(rows=40, seed=2)], dim=2)
    labels = torch.randn(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    which = torch.ones(40), torch.zeros(40), torch.zeros(3)
    both = Residuals.of(said, labels, *which)
    assert both.is_sound
    for k, ends in enumerate(both.interval(said, 0.8).unbind(dim=1)):
        alone = Residuals.of(said[:, :, k], labels[:, k], *which)
        assert torch.equal(ends, alone.interval(said[:, :, k], 0.8))
    again = Residuals.from_tensors(both.tensors())
    assert torch.equal(again.interval(said, 0.8), both.interval(said, 0.8))
