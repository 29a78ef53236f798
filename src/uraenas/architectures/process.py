"""A Gaussian process of how well queries did, and draws of it: what Bayesian optimisation asks by.

    f ~ GP(0, k),   k(a, b) = exp(−|a − b|²/2ℓ²)

The process is of normal scores of the values' ranks, so that one network that learns nothing does not stretch the
scale. ℓ and the noise are those of the largest marginal likelihood.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.base import draws

LENGTHS = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
NOISES = (0.01, 0.1, 0.3)  # variances; that of the process is 1


def functions(
    places: np.ndarray,
    values: Tensor,
    candidates: np.ndarray,
    count: int,
    key: Tensor,
    temperature: float = 1.0,
    noises: tuple[float, ...] = NOISES,
) -> Tensor:
    """`count` draws of the function at these candidates [C, count], after values at places; T scales its variance."""
    scores = _normal_scores(values.numpy())
    process = _fitted(places.tobytes(), scores.tobytes(), len(scores), noises)
    mean, covariance = (torch.from_numpy(part) for part in process.predict(candidates, return_cov=True))
    root = torch.linalg.cholesky(covariance + 1e-6 * torch.eye(len(mean), dtype=torch.float64))
    noise = draws.normal(key, len(mean) * count, torch.float64).view(len(mean), count)
    return mean[:, None] + temperature**0.5 * root @ noise


def distinct(functions: Tensor) -> list[int]:
    """For each function [C, F] its best candidate that no earlier one has taken."""
    taken: list[int] = []
    for column in functions.T:
        order = torch.argsort(column, descending=True, stable=True).tolist()
        taken += [place for place in order if place not in taken][:1]
    return taken


@lru_cache(maxsize=4)  # many draws are made from one process
def _fitted(stored_places: bytes, stored_values: bytes, count: int, noises: tuple[float, ...]) -> Any:
    """The process of the largest marginal likelihood, among a few lengths and noises."""
    from sklearn.gaussian_process import GaussianProcessRegressor  # takes a second
    from sklearn.gaussian_process.kernels import RBF

    places, values = np.frombuffer(stored_places).reshape(count, -1), np.frombuffer(stored_values)
    fits = [
        GaussianProcessRegressor(RBF(length), alpha=noise, optimizer=None).fit(places, values)
        for length in LENGTHS
        for noise in noises
    ]
    return max(fits, key=lambda fit: fit.log_marginal_likelihood_value_)


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Φ⁻¹((rank − ½)/n)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    return ndtri((rankdata(values) - 0.5) / len(values))
