"""Metrics of predicted numbers as pure functions, in float64.

A prediction is a mixture of M Gaussians of equal weight for each of N rows, [M, N, 2]: mean μ and log-variance. Its
distribution function is F(y) = mean_m Φ((y − μ_m)/σ_m); the probability integral transform of a row is F at its label.
What is said of single rows may be of T targets at once, [M, N, T, 2] with labels [N, T]; then it is [N, T].
"""

import math
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from uraenas.evaluation.calibration import least_nll
from uraenas.evaluation.metrics import UncertaintyBySource, groups_of
from uraenas.evaluation.temperature import Temperature

COVERAGES = (50, 80, 90, 95)  # of intervals, in percent
# At which F is held against how often it is right.
LEVELS = torch.arange(0.05, 0.96, 0.05, dtype=torch.float64)
STEPS = 60  # of a bisection: an interval is halved so often
MOST_RATIO = 10.0  # of the variance between members to their own, in one row
LEAST_ERROR = 0.5  # of more members, relative to fewer: a noisy estimate takes away no more
SPREAD = 0.5  # of ln T before any row is seen: few temperatures lie outside 0.37 … 2.7
METRICS = (
    "rmse",
    "mae",
    "nll",
    "crps",
    *(f"coverage{share}" for share in COVERAGES),
    *(f"width{share}" for share in COVERAGES),
    "calibration_error",
)


def moments(mixture_MN2: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance [N], by the law of total variance."""
    mean_MN, variance_MN = mixture_MN2[..., 0], mixture_MN2[..., 1].exp()
    return mean_MN.mean(dim=0), variance_MN.mean(dim=0) + mean_MN.var(dim=0, correction=0)


def scaled(mixture_MN2: Tensor, temperature: Temperature) -> Tensor:
    """The mixture stretched about its mean, so that its variance is `temperature` times as large."""
    if isinstance(temperature, tuple):
        own = zip(mixture_MN2.unbind(dim=-2), temperature, strict=True)
        return torch.stack([scaled(one, factor) for one, factor in own], dim=-2)
    centre_N = mixture_MN2[..., 0].mean(dim=0)
    mean = centre_N + math.sqrt(temperature) * (mixture_MN2[..., 0] - centre_N)
    return torch.stack([mean, mixture_MN2[..., 1] + math.log(temperature)], dim=-1)


def log_density(mixture_MN2: Tensor, labels_N: Tensor) -> Tensor:
    """log of the mixture's density at the labels [N]."""
    return torch.logsumexp(_log_densities(mixture_MN2, labels_N), dim=0) - math.log(len(mixture_MN2))


def _log_densities(mixture_MN2: Tensor, labels_N: Tensor) -> Tensor:
    mean, log_variance = mixture_MN2.double().unbind(dim=-1)
    return -0.5 * (math.log(2 * math.pi) + log_variance + (labels_N - mean) ** 2 * torch.exp(-log_variance))


def crps(mixture_MN2: Tensor, labels_N: Tensor) -> Tensor:
    """The continuous ranked probability score [N], ∫ (F(x) − 1[x ≥ y])² dx, of a mixture (Grimit and others, 2006).

    mean_m A(y − μ_m, σ_m²) − ½ mean_mk A(μ_m − μ_k, σ_m² + σ_k²),     A(d, v) = 2 √v φ(d/√v) + d (2 Φ(d/√v) − 1)
    """
    mean, log_variance = mixture_MN2.double().unbind(dim=-1)
    variance = log_variance.exp()
    apart = torch.zeros_like(labels_N, dtype=torch.float64)
    for m in range(len(mean)):  # one after another: all pairs at once would take M² N numbers
        apart += _absolute(mean[m] - mean, variance[m] + variance).mean(dim=0) / len(mean)
    return _absolute(labels_N - mean, variance).mean(dim=0) - 0.5 * apart


def _absolute(difference: Tensor, variance: Tensor) -> Tensor:
    """E |X| of X ~ N(difference, variance)."""
    deviation = variance.sqrt()
    z = difference / deviation
    density = torch.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return 2 * deviation * density + difference * torch.erf(z / math.sqrt(2))


def distribution(mixture_MN2: Tensor, values_N: Tensor) -> Tensor:
    """F at one value for each row [N]."""
    mean, log_variance = mixture_MN2.double().unbind(dim=-1)
    return torch.special.ndtr((values_N - mean) * torch.exp(-0.5 * log_variance)).mean(dim=0)


def quantile(mixture_MN2: Tensor, share: float) -> Tensor:
    """The value up to which the mixture has this share [N], by bisection."""
    mean, log_variance = mixture_MN2.double().unbind(dim=-1)
    deviation = torch.exp(0.5 * log_variance)
    z = float(torch.special.ndtri(torch.tensor(share, dtype=torch.float64)))
    of_members = mean + z * deviation
    low, high = of_members.amin(dim=0), of_members.amax(dim=0)  # it lies between members'
    for _ in range(STEPS if len(mean) > 1 else 0):
        middle = (low + high) / 2
        below = distribution(mixture_MN2, middle) < share
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def interval(mixture_MN2: Tensor, coverage: float) -> Tensor:
    """The central interval of this probability [N, 2]."""
    tail = (1 - coverage) / 2
    return torch.stack([quantile(mixture_MN2, tail), quantile(mixture_MN2, 1 - tail)], dim=-1)


def calibration_error(transform_N: Tensor) -> float:
    """Mean over levels of |share of rows with F(y) ≤ level − level|."""
    found = (transform_N[:, None] <= LEVELS.to(transform_N.device)).double().mean(dim=0)
    return float((found - LEVELS.to(found.device)).abs().mean())


def per_row(mixture_MN2: Tensor, labels_N: Tensor) -> dict[str, Tensor]:
    """What metrics are means of [N]; `squared` errors are those of rmse."""
    mean_N, _ = moments(mixture_MN2.double())
    transform = distribution(mixture_MN2, labels_N)
    inside = {f"coverage{c}": ((transform - 0.5).abs() <= c / 200).double() for c in COVERAGES}
    return {
        "squared": (labels_N - mean_N) ** 2,
        "mae": (labels_N - mean_N).abs(),
        "nll": -log_density(mixture_MN2, labels_N),
        "crps": crps(mixture_MN2, labels_N),
        **inside,
    }


def metrics_of(mixture_MN2: Tensor, labels_N: Tensor) -> dict[str, float]:
    """Each of METRICS."""
    means = {name: float(values.mean()) for name, values in per_row(mixture_MN2, labels_N).items()}
    means["rmse"] = math.sqrt(means.pop("squared"))
    for share in COVERAGES:
        ends = interval(mixture_MN2, share / 100)
        means[f"width{share}"] = float((ends[:, 1] - ends[:, 0]).mean())
    means["calibration_error"] = calibration_error(distribution(mixture_MN2, labels_N))
    return {name: means[name] for name in METRICS}


def of_subsets(mixture_MN2: Tensor, labels_N: Tensor, subsets_SM: Tensor) -> dict[str, Tensor]:
    """RMSE, MAE and NLL of ensembles of some members [S]."""
    weights_SM = subsets_SM / subsets_SM.sum(dim=1, keepdim=True)
    errors_SN = labels_N - weights_SM @ mixture_MN2[..., 0]
    densities_MN = _log_densities(mixture_MN2, labels_N)
    log_SN = torch.logsumexp(densities_MN + weights_SM.log()[..., None], dim=1)
    return {
        "rmse": (errors_SN**2).mean(dim=1).sqrt(),
        "mae": errors_SN.abs().mean(dim=1),
        "nll": -log_SN.mean(dim=1),
    }


def variance_by_source(mixture_MN2: Tensor, architectures: Sequence[Hashable]) -> UncertaintyBySource:
    """Split the predictive variance into data, weights and architecture: the law of total variance, twice.

    With μ_g the mean of the n_g members of architecture g, and μ that of all M:

        total        = mean_m σ_m² + Var_m μ_m
        architecture = Σ_g (n_g/M) (μ_g − μ)²
        weights      = Σ_g (n_g/M) mean_{m in g} (μ_m − μ_g)²
        data         = mean_m σ_m²
    """
    mean_MN, log_variance_MN = mixture_MN2.double().unbind(dim=-1)
    centre_N, data = mean_MN.mean(dim=0), log_variance_MN.exp().mean(dim=0)
    between, within = torch.zeros_like(data), torch.zeros_like(data)
    for members in groups_of(architectures):
        share, own_N = len(members) / len(mean_MN), mean_MN[members].mean(dim=0)
        between += share * (own_N - centre_N) ** 2
        within += share * ((mean_MN[members] - own_N) ** 2).mean(dim=0)
    return UncertaintyBySource(data + within + between, data, weights=within, architecture=between)


def fit_temperature(mixture_MN2: Tensor, labels_N: Tensor, weights_N: Tensor | None = None) -> float:
    """The temperature of least NLL; rows count as much as their weights say."""

    def log_likelihood(temperature: float) -> Tensor:
        return log_density(scaled(mixture_MN2, temperature), labels_N)

    return least_nll(log_likelihood, len(labels_N), weights_N, SPREAD)


def temperature_of_more(temperature: float, mixture_RN2: Tensor, members: int) -> float:
    """The temperature of a mixture of M `members`, where it was fitted to R of them on rows that only R have not seen.

    Let a = τ²/σ² be the members' variance about their mean over their own, V_R = 1 + a (1 − 1/R) what R of them predict
    in units of σ², and E_R = T_R V_R the squared error that was found. The mean of M errs less, and V_M is larger:

        T_M = E_M / V_M,     E_M = E_R − a (1/R − 1/M),     V_M = 1 + a (1 − 1/M)
    """
    count = len(mixture_RN2)
    if count == members or count == 1:
        return temperature
    between_N, own_N = mixture_RN2[..., 0].var(dim=0), mixture_RN2[..., 1].exp().mean(dim=0)
    ratio = float((between_N / own_N).clamp_max(MOST_RATIO).mean())  # no row outweighs all others
    found = temperature * (1 + ratio * (1 - 1 / count))
    smaller = max(found - ratio * (1 / count - 1 / members), LEAST_ERROR * found)
    return smaller / (1 + ratio * (1 - 1 / members))


def residuals(mixture_MN2: Tensor, labels_N: Tensor) -> Tensor:
    """|y − mean| in standard deviations [N]: the conformal score of a row."""
    mean_N, variance_N = moments(mixture_MN2.double())
    return (labels_N - mean_N).abs() / variance_N.sqrt()
