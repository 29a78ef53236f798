"""Temperature scaling of an ensemble's mean prediction, fitted on held-out data."""

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from uraenas.metrics import nll


def scale(log_probabilities_NK: Tensor, temperature: float) -> Tensor:
    """Log-probabilities divided by the temperature and normalised anew."""
    return torch.log_softmax(log_probabilities_NK.double() / temperature, dim=1)


def fit_temperature(log_probabilities_NK: Tensor, labels_N: Tensor) -> float:
    """The temperature of least NLL, within 0.05 … 20."""
    # A member can give a class probability 0 in float32; a floor keeps the fit finite.
    floored = log_probabilities_NK.double().clamp_min(-100)
    found = minimize_scalar(
        lambda log_t: nll(scale(floored, math.exp(log_t)), labels_N),
        bounds=(math.log(0.05), math.log(20)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return math.exp(found.x)
