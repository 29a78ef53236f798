"""Metrics as pure functions of log-probabilities and labels, in float64.

Shapes: M members, N images, K classes. Entropies are in nats.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

BINS = 15
SOURCES = ("total", "data", "weights", "architecture")  # of uncertainty


def mixture(log_probabilities_MNK: Tensor) -> Tensor:
    """Log of the members' mean probability [N, K]: probabilities are averaged, never logits."""
    return torch.logsumexp(log_probabilities_MNK.double(), dim=0) - math.log(len(log_probabilities_MNK))


def accuracy(log_probabilities_NK: Tensor, labels_N: Tensor) -> float:
    return float(confidence_bins(log_probabilities_NK, labels_N)[2].mean())


def nll(log_probabilities_NK: Tensor, labels_N: Tensor) -> float:
    """Mean negative log-likelihood of the true class."""
    return float(nll_per_image(log_probabilities_NK, labels_N).mean())


def nll_per_image(log_probabilities: Tensor, labels_N: Tensor) -> Tensor:
    """Of predictions [..., N, K]."""
    return -_at_label(log_probabilities.double(), labels_N)


def brier(log_probabilities_NK: Tensor, labels_N: Tensor) -> float:
    """Mean squared distance between predicted and true distribution, in 0 … 2."""
    return float(brier_per_image(log_probabilities_NK, labels_N).mean())


def brier_per_image(log_probabilities: Tensor, labels_N: Tensor) -> Tensor:
    """Of predictions [..., N, K]."""
    p = log_probabilities.double().exp()
    return (p**2).sum(dim=-1) - 2 * _at_label(p, labels_N) + 1


def _at_label(values: Tensor, labels_N: Tensor) -> Tensor:
    return values.gather(-1, labels_N.expand(values.shape[:-1])[..., None]).squeeze(-1)


def confidence_bins(log_probabilities: Tensor, labels_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of predictions [..., N, K], per image: equal-width confidence bin, confidence, and 1.0 where it is right.

    Of a prediction that is no number, NaN: it is neither right nor wrong.
    """
    log_confidence, predicted = log_probabilities.double().max(dim=-1)
    confidence = log_confidence.exp().clamp(max=1.0)
    bins = (confidence * BINS).ceil().long().clamp(1, BINS) - 1  # bins are open below and closed above
    return bins, confidence, (predicted == labels_N).double() + 0 * confidence


def ece(log_probabilities_NK: Tensor, labels_N: Tensor) -> float:
    """Expected calibration error of the top probability, 15 equal-width bins."""
    return float(of_each(log_probabilities_NK[None], labels_N)["ece"])


def of_each(log_probabilities_SNK: Tensor, labels_N: Tensor) -> dict[str, Tensor]:
    """Accuracy, NLL, ECE and Brier score of S predictions at once [S]."""
    bins_SN, confidence_SN, right_SN = confidence_bins(log_probabilities_SNK, labels_N)
    # Summed as whole numbers of 2^-40, so that the order in which a GPU adds them does not matter.
    gaps_SB = torch.zeros(len(bins_SN), BINS, dtype=torch.int64, device=bins_SN.device)
    gaps_SB.scatter_add_(1, bins_SN, ((confidence_SN - right_SN) * 2**40).round().long())
    return {
        "accuracy": right_SN.mean(dim=1),
        "nll": nll_per_image(log_probabilities_SNK, labels_N).mean(dim=1),
        "ece": gaps_SB.abs().sum(dim=1).double() / 2**40 / len(labels_N)
        + 0 * confidence_SN.sum(dim=1),  # NaN stays NaN
        "brier": brier_per_image(log_probabilities_SNK, labels_N).mean(dim=1),
    }


def mixtures(log_probabilities_MNK: Tensor, subsets_SM: Tensor) -> Tensor:
    """The mixture of each of S subsets of the members [S, N, K]; row s of `subsets` is 1 for a member in it, else 0."""
    log_p_MNK = log_probabilities_MNK.double()
    largest_NK = log_p_MNK.max(dim=0).values.clamp_min(-1e300)  # −∞ less −∞ would be NaN
    weights_SM = subsets_SM.double() / subsets_SM.sum(dim=1, keepdim=True)
    p_SNK = torch.einsum("sm,mnk->snk", weights_SM, (log_p_MNK - largest_NK).exp())
    found_SNK = p_SNK.clamp_min(1e-300).log() + largest_NK
    lost_SNK = p_SNK < 1e-290  # so much surer is a member that is not in the subset
    if not lost_SNK.any():
        return found_SNK
    exact_SNK = torch.stack([mixture(log_p_MNK[own_M > 0]) for own_M in subsets_SM])
    return torch.where(lost_SNK, exact_SNK, found_SNK)


def adaptive_ece(log_probabilities_NK: Tensor, labels_N: Tensor) -> float:
    """Expected calibration error with 15 bins of equal mass.

    Images of equal confidence count alike, whichever bins they fall into: the order of the data does not matter.
    """
    _, confidence_N, right_N = confidence_bins(log_probabilities_NK, labels_N)
    confidence_N, right_N = confidence_N.cpu(), right_N.cpu()  # a GPU sums in any order
    gaps = _in_order_of(confidence_N, confidence_N - right_N).tensor_split(BINS)
    return float(sum(gap.sum().abs() for gap in gaps) / len(labels_N))


def aurc(log_probabilities_NK: Tensor, labels_N: Tensor) -> float:
    """Area under the risk–coverage curve: mean error among the n most confident, averaged over n = 1 … N.

    Images of equal confidence count as if in random order, so the order of the data does not matter.
    """
    _, confidence_N, right_N = confidence_bins(log_probabilities_NK, labels_N)
    return float(risk_at_coverage(confidence_N.cpu(), right_N.cpu()).mean())  # a GPU sums in any order


def risk_at_coverage(confidence_N: Tensor, right_N: Tensor) -> Tensor:
    """Error rate among the n most confident images, n = 1 … N."""
    expected_wrong_N = _in_order_of(-confidence_N, 1 - right_N)  # most confident first
    covered_N = torch.arange(1, len(right_N) + 1, dtype=torch.float64, device=right_N.device)
    return expected_wrong_N.cumsum(0) / covered_N


def _in_order_of(key_N: Tensor, values_N: Tensor) -> Tensor:
    """The values in the order of their keys, smallest first; those of equal keys become their mean."""
    keys, group_N = torch.unique(key_N, return_inverse=True)
    empty = torch.zeros(len(keys), dtype=torch.float64, device=values_N.device)
    size = empty.index_add(0, group_N, torch.ones_like(values_N))
    total = empty.index_add(0, group_N, values_N)
    return (total / size).repeat_interleave(size.long())


def disagreement(log_probabilities_MNK: Tensor) -> float:
    """Mean over member pairs of the share of images on which their classes differ; 0 for one member."""
    matrix = disagreement_matrix(log_probabilities_MNK)
    return float(matrix.sum() / max(1, len(matrix) * (len(matrix) - 1)))


def disagreement_matrix(log_probabilities_MNK: Tensor) -> Tensor:
    """Share of images on which members m and n name different classes [M, M]."""
    predicted_MN = log_probabilities_MNK.argmax(dim=2)
    return (predicted_MN[:, None] != predicted_MN[None]).double().mean(dim=2)


def entropy(log_probabilities: Tensor) -> Tensor:
    """Shannon entropy over the last dimension; a class of probability 0 adds nothing."""
    log_p = log_probabilities.double()
    return -(log_p.exp() * log_p.clamp_min(-1e300)).sum(dim=-1)  # 0 · −1e300 is 0, where 0 · −∞ would be NaN


@dataclass(frozen=True)
class UncertaintyBySource:
    """Per image: total = data + weights + architecture; of classes entropy in nats, of numbers variance."""

    total: Tensor  # of the mean prediction
    data: Tensor  # the mean of the members' own
    weights: Tensor  # what members of one architecture do not agree on
    architecture: Tensor  # what architectures do not agree on

    @property
    def model(self) -> Tensor:
        """What the members do not agree on; of classes the mutual information."""
        return self.weights + self.architecture


def uncertainty_by_source(
    log_probabilities_MNK: Tensor, genotypes: Sequence[Hashable]
) -> UncertaintyBySource:
    """Split predictive entropy into data, weights and architecture.

    With p_g the mean prediction of the n_g members of genotype g, and p the mean of all M:

        total        = H(p)
        architecture = H(p) − Σ_g (n_g/M) H(p_g)
        weights      = Σ_g (n_g/M) [H(p_g) − mean_{m in g} H(p_m)]
        data         = mean_m H(p_m)

    All parts are ≥ 0 because entropy is concave, and they add up exactly with these genotype weights only.
    """
    log_p_MNK = log_probabilities_MNK.double()
    members = len(log_p_MNK)
    total = entropy(mixture(log_p_MNK))
    data = entropy(log_p_MNK).mean(dim=0)
    within = sum(
        (len(group) / members * entropy(mixture(log_p_MNK[group])) for group in groups_of(genotypes)),
        start=torch.zeros_like(total),
    )
    return UncertaintyBySource(
        total, data, weights=(within - data).clamp_min(0), architecture=(total - within).clamp_min(0)
    )


def groups_of(keys: Iterable[Hashable]) -> list[list[int]]:
    """The positions of equal keys together, in the order in which keys come first."""
    found: dict[Hashable, list[int]] = {}
    for position, key in enumerate(keys):
        found.setdefault(key, []).append(position)
    return list(found.values())


def undefined_sources(genotypes: Sequence[Hashable]) -> dict[str, str]:
    """The parts of uncertainty that these members cannot tell, which are 0 for want of anything else, and why."""
    found = {}
    if len(set(genotypes)) == len(genotypes):
        found["weights"] = "no architecture has two members"
    if len(set(genotypes)) == 1:
        found["architecture"] = "all members have one architecture"
    return found


def separation(inside_N: Tensor, outside_N: Tensor) -> dict[str, float]:
    """How well a score that should be larger outside tells two sets apart.

    `auroc` and `aupr` take outside as the positive class. `fpr95` is the share of outside images still accepted at
    the lowest threshold that accepts at least 95 % of those inside. Scores may be infinite. Where one is NaN, or a set
    is empty, all three are NaN.
    """
    # A second to import, and seldom asked for.
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores = torch.cat([inside_N, outside_N]).double()
    if scores.isnan().any() or len(inside_N) == 0 or len(outside_N) == 0:
        return dict.fromkeys(("auroc", "aupr", "fpr95"), math.nan)
    places = torch.unique(scores, return_inverse=True)[1]  # in order, as scores are, and finite
    outside = np.repeat([False, True], [len(inside_N), len(outside_N)])
    place = math.ceil(0.95 * len(inside_N) - 1e-9)
    threshold = inside_N.double().sort().values[place - 1]
    return {
        "auroc": float(roc_auc_score(outside, places.numpy())),
        "aupr": float(average_precision_score(outside, places.numpy())),
        "fpr95": float((outside_N.double() <= threshold).double().mean()),
    }


# The metrics of an ensemble's mean prediction, by the name they carry in metrics.json.
METRICS = {
    "accuracy": accuracy,
    "nll": nll,
    "ece": ece,
    "adaptive_ece": adaptive_ece,
    "brier": brier,
    "aurc": aurc,
}
