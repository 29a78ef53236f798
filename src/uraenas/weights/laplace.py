"""Last-layer Laplace: a Gaussian over the last layer's weights, around a point estimate, fitted after training.

The last layer's weights W, its bias as a further column, read features φ_n. With Λ_n the Hessian of the loss of image n
in what the layer gives (of classes diag(p_n) − p_n p_nᵀ; the target knows it), and a prior N(0, 1/δ) on W, the
posterior's precision is

    P = Σ_n φ_n φ_nᵀ ⊗ Λ_n + δ I        (generalised Gauss–Newton; full)
      ≈ N · A ⊗ G + δ I                 (Kronecker: A = mean φ φᵀ, G = mean Λ).

δ maximises the marginal likelihood, ½ D log δ − ½ log det P − ½ δ ‖W‖². A member is a draw of W; the rest of the
network is the point estimate, so that the chains are those of `point`.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import require_not_negative, require_range, unknown
from uraenas.spaces import Draw, Entry, Layout, Network, Tensors
from uraenas.weights.descending import OneCosine
from uraenas.weights.masks import MOST_DRAWS
from uraenas.weights.method import Changes, Seen

CURVATURES = ("kronecker", "full")
ROWS, COLUMNS, DEVIATION, WHOLE = (f".laplace.{part}" for part in ("rows", "columns", "deviation", "whole"))
LEAST, MOST = -12.0, 18.0  # of log δ
MOST_NUMBERS = 10_000_000  # of the Hessians of images that are looked at together

Parts = Iterator[tuple[Tensor, Tensor]]  # features [N, F] and Hessians [N, K, K] of some images at a time


@dataclass(frozen=True)
class Laplace(OneCosine):
    """Last-layer Laplace: members are draws of a point estimate's last layer."""

    # how Laplace sees the last layer's Hessian: as a Kronecker product, or in full
    curvature: str = "kronecker"
    precision: float = 0.0  # of Laplace's prior on the last layer; 0: by marginal likelihood
    draws: int = 10  # members that Laplace gives for one chain

    section: ClassVar[str] = "point"
    of_members: ClassVar[tuple[str, ...]] = ("curvature", "precision", "draws")
    trajectory: ClassVar[str] = "point"
    objective = None

    def check_own(self) -> None:
        if self.curvature not in CURVATURES:
            raise unknown("curvature", self.curvature, CURVATURES)
        require_not_negative("precision", self.precision)
        require_range("draws", self.draws, 1, MOST_DRAWS)

    @property
    def changes(self) -> Changes:
        return Changes(fit=self._fit, fitted=self._with_posterior, as_plain=drawn_last, in_one_pass=True)

    def _with_posterior(self, layout: Layout) -> Layout:
        name, (classes, features) = layout.last.name, layout.last.shape
        features += layout.last_bias is not None
        shapes = {ROWS: (classes, classes), COLUMNS: (features, features), DEVIATION: (classes, features)}
        if self.curvature == "full":
            shapes = {WHOLE: (classes * features, classes * features)}
        own = (Entry(f"{name}{part}", shape, prior=False) for part, shape in shapes.items())
        return Layout((*layout.entries, *own))

    def _fit(self, weights: Tensors, layout: Layout, seen: Seen) -> Tensors:
        last, bias = layout.last.name, layout.last_bias
        columns = [weights[last].double()]
        features = seen.features.double()
        if bias is not None:
            columns.append(weights[bias.name].double()[:, None])
            features = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
        parts = _in_parts(features, seen)
        found = POSTERIORS[self.curvature](torch.cat(columns, dim=1), parts, self.precision)
        return {f"{last}{part}": tensor for part, tensor in found.items()}

    def forward(self, network: Network, weights: Tensors, draw: Draw) -> Tensor:
        if draw.number is None:
            return network(weights)
        (last,) = (
            name.removesuffix(part) for name in weights for part in (WHOLE, ROWS) if name.endswith(part)
        )
        return network(_moved(weights, last, f"{last.removesuffix('.weight')}.bias", draw))

    @property
    def members_per_chain(self) -> int:
        return self.draws


def drawn_last(weights: Tensors, layout: Layout, draw: Draw) -> Tensors:
    """The network with a draw of its last layer."""
    bias = layout.last_bias
    return _moved(weights, layout.last.name, bias.name if bias else "", draw)


def _moved(weights: Tensors, last: str, bias: str, draw: Draw) -> Tensors:
    posterior = {name.removeprefix(last): one for name, one in weights.items() if name.startswith(last)}
    weight = weights[last]
    apart = step_from(posterior, len(weight), draw.key)
    moved = {last: weight + apart[:, : weight.shape[1]]}
    if apart.shape[1] > weight.shape[1]:
        moved[bias] = weights[bias] + apart[:, -1]
    return {**weights, **moved}


def _in_parts(features_NF: Tensor, seen: Seen) -> Parts:
    """Images, some at a time: all their Hessians at once would be N K² numbers."""
    some = max(1, MOST_NUMBERS // seen.logits.shape[1] ** 2)
    for start in range(0, len(features_NF), some):
        part = slice(start, start + some)
        hessians = seen.target.hessians(seen.logits[part].double())
        if seen.weights is not None:
            hessians = hessians * seen.weights[part].double()[:, None, None]
        yield features_NF[part], hessians


def kronecker(weight_KF: Tensor, parts: Parts, precision: float) -> Tensors:
    """Eigenvectors of both factors, and the deviation along each pair of them."""
    classes, size = weight_KF.shape
    count, a, g = 0, weight_KF.new_zeros(size, size), weight_KF.new_zeros(classes, classes)
    for features_NF, hessians_NKK in parts:
        count += len(features_NF)
        a += features_NF.T @ features_NF
        g += hessians_NKK.sum(dim=0)
    a, columns = torch.linalg.eigh(a / count)
    g, rows = torch.linalg.eigh(g / count)
    curvature_KF = count * torch.outer(g.clamp_min(0), a.clamp_min(0))
    precision = precision or likeliest_precision(curvature_KF, float(weight_KF.square().sum()))
    return {ROWS: rows, COLUMNS: columns, DEVIATION: (curvature_KF + precision).rsqrt()}


def full(weight_KF: Tensor, parts: Parts, precision: float) -> Tensors:
    """A square root of the covariance of the flattened weights."""
    (classes, features), size = weight_KF.shape, weight_KF.numel()
    hessian = weight_KF.new_zeros(classes, features, classes, features)
    for features_NF, hessians_NKK in parts:
        for k, other in itertools.product(range(classes), repeat=2):  # all at once would take N F² numbers
            hessian[k, :, other] += features_NF.T @ (features_NF * hessians_NKK[:, k, other, None])
    curvature, directions = torch.linalg.eigh(hessian.view(size, size))
    curvature = curvature.clamp_min(0)
    precision = precision or likeliest_precision(curvature, float(weight_KF.square().sum()))
    return {WHOLE: directions * (curvature + precision).rsqrt()}


POSTERIORS = {"kronecker": kronecker, "full": full}


def likeliest_precision(curvature: Tensor, square: float) -> float:
    """The δ that maximises the marginal likelihood, given the Hessian's eigenvalues and ‖W‖²."""

    def unlikely(log_precision: float) -> float:
        precision = math.exp(log_precision)
        determinant = float(torch.log(curvature + precision).sum())
        return determinant - curvature.numel() * log_precision + square * precision

    from scipy.optimize import minimize_scalar  # takes as long to import as all of this package

    return math.exp(minimize_scalar(unlikely, bounds=(LEAST, MOST), method="bounded").x)


def step_from(posterior: Tensors, classes: int, key: Tensor) -> Tensor:
    """A draw of the last layer's weights and bias, less their mean [K, F]."""
    if WHOLE in posterior:
        whole = posterior[WHOLE]
        return (whole @ draws.normal(key, len(whole), whole.dtype)).view(classes, -1)
    rows, columns, deviation = (posterior[part] for part in (ROWS, COLUMNS, DEVIATION))
    drawn = draws.normal(key, deviation.numel(), deviation.dtype).view(deviation.shape)
    return rows @ (deviation * drawn) @ columns.T
