"""Searches in a supernet: how what is learned moves, against plain second versions of their rules."""

from typing import Any

import numpy as np
import pytest
import torch

from uraenas.architectures import DISTRIBUTIONS
from uraenas.base import draws

KEY = draws.key(6, "plain steps")
SHAPE = (3, 4)
STEPS = 8


def by_adam(
    value: np.ndarray, moments: tuple[Any, Any], slope: np.ndarray, step: int, step_size: float
) -> tuple[np.ndarray, tuple[Any, Any]]:
    """The next value and moments, with betas 0.5 and 0.999."""
    first, second = 0.5 * moments[0] + 0.5 * slope, 0.999 * moments[1] + 0.001 * slope**2
    mean, square = first / (1 - 0.5 ** (step + 1)), second / (1 - 0.999 ** (step + 1))
    return value - step_size * mean / (np.sqrt(square) + 1e-8), (first, second)


@pytest.mark.parametrize("name", ["darts", "snas", "gdas"])
def test_logits_move_by_adam_and_decay_towards_the_uniform_distribution(name: str) -> None:
    here, numbers = DISTRIBUTIONS[name].make({"step_size": 0.1, "decay": 0.5}), np.random.default_rng(0)
    state = here.initial((4,) * 3, KEY)
    logits, moments = state["logits"].numpy(), (0.0, 0.0)
    for step in range(STEPS):
        slope = numbers.normal(size=SHAPE)
        state = here.update(state, {"logits": torch.from_numpy(slope)}, torch.tensor(step))
        logits, moments = by_adam(logits, moments, slope + 0.5 * logits, step, 0.1)
        assert np.abs(state["logits"].numpy() - logits).max() < 1e-12


def test_balenas_moves_as_vadam_does() -> None:
    settings = {"step_size": 0.1, "images": 50, "precision": 3.0, "first_precision": 8.0}
    here, numbers = DISTRIBUTIONS["balenas"].make(settings), np.random.default_rng(1)
    state = here.initial((4,) * 3, KEY)
    mean, moment, square = state["mean"].numpy(), 0.0, np.full(SHAPE, (8 - 3) / 50)
    for step in range(STEPS):
        noise = draws.normal(draws.at(KEY, step), 12, torch.float64).view(SHAPE).numpy()
        logits = mean + noise / np.sqrt(50 * square + 3)
        mixing = here.mixing(state, draws.at(KEY, step), torch.tensor(0.0)).numpy()
        assert np.abs(mixing - np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).max() < 1e-12
        slope = numbers.normal(size=SHAPE)
        state = here.update(state, {"mean": torch.from_numpy(slope)}, torch.tensor(step))
        moment = 0.5 * moment + 0.5 * (slope + 3 / 50 * mean)
        square = 0.999 * square + 0.001 * slope**2
        scale = np.sqrt(square / (1 - 0.999 ** (step + 1))) + 3 / 50
        mean = mean - 0.1 * moment / (1 - 0.5 ** (step + 1)) / scale
        assert np.abs(state["mean"].numpy() - mean).max() < 1e-12


def test_bayesnas_moves_down_loss_and_priors_and_its_relevance_follows_the_laplace_approximation() -> None:
    """On a loss that is linear in the mixing weights u w; its Hessian is N times 5 times the mean squared slope."""
    settings = {"step_size": 0.05, "images": 40, "batch": 5, "variance": 0.7, "rate": 0.3}
    here, numbers = DISTRIBUTIONS["bayesnas"].make(settings), np.random.default_rng(2)
    state = here.initial((4,) * 3, KEY)
    value = {"switch": state["switch"].numpy(), "gate": state["gate"].numpy()}
    prior = {name: np.full_like(one, 0.7) for name, one in value.items()}
    moments: dict[str, Any] = dict.fromkeys(value, (0.0, 0.0))
    curvature, variance = dict.fromkeys(value, 0.0), dict[str, np.ndarray]()
    for step in range(STEPS):
        slope = numbers.normal(size=SHAPE)
        own = {name: state[name].clone().requires_grad_() for name in value}
        mixing = here.mixing({**state, **own}, KEY, torch.tensor(0.0))
        loss = (mixing * torch.from_numpy(slope)).sum() + here.penalty({**state, **own})
        gradients = dict(zip(own, torch.autograd.grad(loss, list(own.values())), strict=True))
        state = here.update(state, gradients, torch.tensor(step))
        of_loss = {
            "switch": slope * value["gate"],
            "gate": (slope * value["switch"]).sum(axis=1, keepdims=True),
        }
        for name, old in list(value.items()):
            downhill = of_loss[name] + old / (40 * prior[name])
            new, moments[name] = by_adam(old, moments[name], downhill, step, 0.05)
            value[name] = np.maximum(new, 0)
            curvature[name] = 0.999 * curvature[name] + 0.001 * of_loss[name] ** 2
            hessian = 5 * curvature[name] / (1 - 0.999 ** (step + 1))
            variance[name] = 1 / (1 / prior[name] + 40 * hessian)
        prior["gate"] = 0.7 * prior["gate"] + 0.3 * (value["gate"] ** 2 + variance["gate"])
        left = 1 - np.minimum(prior["switch"] / prior["gate"], 1)
        relevance = np.minimum((value["switch"] * left) ** 2 + variance["switch"], prior["gate"])
        prior["switch"] = 0.7 * prior["switch"] + 0.3 * relevance
        found = {"switch": value["switch"], "relevance": prior["switch"], "variance": variance["switch"]}
        found |= {"gate": value["gate"], "gate_relevance": prior["gate"], "gate_variance": variance["gate"]}
        for name, expected in found.items():
            assert np.abs(state[name].numpy() - expected).max() < 1e-12, name
    assert (value["switch"] == 0).any()
    assert np.abs(here.spread(state).numpy() - np.sqrt(variance["switch"])).max() < 1e-12
