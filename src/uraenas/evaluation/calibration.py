"""Temperature scaling of an ensemble's mean prediction, fitted on held-out data."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

SPREAD = 0.25  # of ln T before any image is seen: few temperatures lie outside 0.6 … 1.6


def scale(log_probabilities_NK: Tensor, temperature: float) -> Tensor:
    """Log-probabilities divided by the temperature and normalised anew."""
    return torch.log_softmax(log_probabilities_NK.double() / temperature, dim=1)


def fit_temperature(log_probabilities_NK: Tensor, labels_N: Tensor, weights_N: Tensor | None = None) -> float:
    """The temperature of least NLL; images count as much as their weights say."""
    # A member can give a class probability 0 in float32; a floor keeps the fit finite.
    floored = log_probabilities_NK.double().clamp_min(-100)

    def log_likelihood(temperature: float) -> Tensor:
        return scale(floored, temperature).gather(1, labels_N[:, None]).squeeze(1)

    return least_nll(log_likelihood, len(labels_N), weights_N, SPREAD)


def least_nll(
    log_likelihood: Callable[[float], Tensor], examples: int, weights_N: Tensor | None, spread: float
) -> float:
    """The temperature, within 0.05 … 20, at which these log-likelihoods [N] have the largest weighted mean.

    A handful of examples says little, and where all of them are classified right, NLL would want unlimited confidence.
    So ln T is taken to be normal around 0, with this spread; a hundred examples outweigh that.
    """
    from scipy.optimize import minimize_scalar  # half a second to import, and needed by training alone

    weights_N = torch.ones(examples) if weights_N is None else weights_N
    shares_N = weights_N.double() / weights_N.double().sum().clamp_min(1e-300)  # all 0: nothing is known

    def loss(log_temperature: float) -> float:
        prior = 0.5 * (log_temperature / spread) ** 2 / max(1, examples)
        return prior - float((log_likelihood(math.exp(log_temperature)) * shares_N).sum())

    bounds = (math.log(0.05), math.log(20))
    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6}).x)
