"""Temperature scaling recovers a known temperature and keeps the ranking of classes."""

import math

import pytest
import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.evaluation.calibration import fit_temperature, scale
from uraenas.evaluation.metrics import nll


def honest(count: int = 20_000, classes: int = 5, key: int = 0) -> tuple[Tensor, Tensor]:
    """Log-probabilities with labels drawn from exactly these probabilities."""
    logits = 1.5 * draws.normal(draws.at(key, 0), count * classes, torch.float64).view(count, classes)
    uniform = draws.uniform(draws.at(key, 1), count * classes, torch.float64).view(count, classes)
    return torch.log_softmax(logits, dim=1), (logits - torch.log(-torch.log(uniform))).argmax(dim=1)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_a_known_temperature_is_recovered(temperature: float) -> None:
    log_p, labels = honest()
    distorted = torch.log_softmax(log_p * temperature, dim=1)
    assert fit_temperature(distorted, labels) == pytest.approx(temperature, rel=0.03)


def test_the_fit_is_where_nll_is_least() -> None:
    log_p, labels = honest()
    best = fit_temperature(log_p, labels)
    least = nll(scale(log_p, best), labels)
    assert all(nll(scale(log_p, best * factor), labels) > least for factor in (0.9, 0.97, 1.03, 1.1))


def test_scaling_gives_normalised_log_probabilities_in_the_same_order() -> None:
    log_p, _ = honest(count=50)
    for temperature in (0.1, 1.0, 7.0):
        scaled = scale(log_p.float(), temperature)
        assert scaled.dtype == torch.float64
        torch.testing.assert_close(scaled.exp().sum(dim=1), torch.ones(50, dtype=torch.float64))
        assert torch.equal(scaled.argsort(dim=1), log_p.float().argsort(dim=1))
    torch.testing.assert_close(scale(log_p, 1.0), log_p)


def test_a_set_that_is_all_right_does_not_ask_for_unlimited_confidence() -> None:
    log_p = torch.log_softmax(torch.tensor([[5.0, 0.0]] * 1000), dim=1)
    assert 0.5 < fit_temperature(log_p, torch.zeros(1000, dtype=torch.int64)) < 1


def test_few_images_do_not_make_good_predictions_worse() -> None:
    """Mean over a hundred held-out sets of fifty, of predictions that need no scaling."""
    lost = []
    for key in range(100):
        log_p, labels = honest(count=550, key=key)
        temperature = fit_temperature(log_p[:50], labels[:50])
        lost.append(nll(scale(log_p[50:], temperature), labels[50:]) - nll(log_p[50:], labels[50:]))
    assert sum(lost) / len(lost) < 0.007  # 0.012 nats without a prior


@pytest.mark.parametrize(("label", "few", "many"), [(0, (0.8, 0.99), (0.1, 0.2)), (1, (1.5, 4), (19, 20))])
def test_a_few_images_move_the_temperature_less_than_many(
    label: int, few: tuple[float, float], many: tuple[float, float]
) -> None:
    """All right with little confidence, or all wrong with much of it."""
    margin = 1.0 if label == 0 else 3.0
    for count, (low, high) in ((5, few), (5000, many)):
        log_p = torch.log_softmax(torch.tensor([[margin, 0.0]] * count), dim=1)
        assert low < fit_temperature(log_p, torch.full((count,), label)) < high


def test_a_probability_of_zero_for_the_true_class_does_not_break_the_fit() -> None:
    log_p = torch.log(torch.tensor([[1.0, 0.0], [0.7, 0.3], [0.2, 0.8]], dtype=torch.float64))
    assert math.isfinite(fit_temperature(log_p, torch.tensor([1, 0, 1])))


def test_images_of_weight_0_do_not_count() -> None:
    generator = torch.Generator().manual_seed(3)
    log_p = torch.log_softmax(3 * torch.randn(200, 4, generator=generator, dtype=torch.float64), dim=1)
    labels = log_p.argmax(dim=1)
    labels[100:] = (labels[100:] + 1) % 4  # the second half is all wrong
    weights = torch.cat([torch.ones(100), torch.zeros(100)])
    assert fit_temperature(log_p, labels, weights) < 0.5 < 1 < fit_temperature(log_p, labels)
    for even in (1.0, 3.0):
        assert fit_temperature(log_p, labels, torch.full((200,), even)) == fit_temperature(log_p, labels)
    assert fit_temperature(log_p, labels, torch.zeros(200)) == pytest.approx(1)
