"""Does the architecture matter, or just another initialisation? The nested estimate, and what may be said of it."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from uraenas.evaluation.metrics import entropy, groups_of, mixture
from uraenas.evaluation.row import Row, sizes_of

PREFIX = "architecture_effect_"  # of the metrics in rows


@dataclass(frozen=True)
class ArchitectureEffect:
    """How much more networks of two architectures differ than two networks of one, in nats, with a 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        found = f"{self.value:.4f} nats, 95 % interval {self.low:.4f} to {self.high:.4f}"
        if self.low > 0:
            return f"architectures differ more than initialisations of one do ({found})"
        if self.high <= 0:
            return f"architectures differ no more than initialisations of one do ({found})"
        return f"it is not clear that architectures differ more than initialisations of one do ({found})"


def architecture_effect(
    log_probabilities_MNK: Tensor, architectures: Sequence[Hashable], chains: Sequence[Hashable]
) -> ArchitectureEffect | None:
    """The nested estimate: what architectures add to what another initialisation of the same one does.

    A pair of chains differs by the Jensen-Shannon divergence of their mean predictions, averaged over images. The
    estimate is the mean over pairs of two architectures less that over pairs of one; it is 0 in expectation where the
    architecture does not matter. The interval is Student's, from leaving out each architecture in turn. None without
    pairs of both sorts, or with fewer than three architectures.
    """
    places = groups_of(chains)
    if len(places) < 4:
        return None
    log_p_CNK = torch.stack([mixture(log_probabilities_MNK[ms].double()) for ms in places])
    own = [architectures[ms[0]] for ms in places]
    distances_CC = _divergences(log_p_CNK)
    whole = _between_less_within(distances_CC, own)
    kinds = list(dict.fromkeys(own))
    if whole is None or len(kinds) < 3:
        return None
    without = [_between_less_within(distances_CC, own, left_out=one) for one in kinds]
    if any(one is None for one in without):  # the only pair of one architecture was left out
        return None
    count = len(kinds)
    pseudo = torch.tensor(
        [count * whole - (count - 1) * one for one in without if one is not None], dtype=torch.float64
    )
    from scipy.special import stdtrit  # takes as long to import as all of this package

    half = float(stdtrit(count - 1, 0.975) * pseudo.std() / math.sqrt(count))
    return ArchitectureEffect(whole, whole - half, whole + half)


def _divergences(log_p_CNK: Tensor) -> Tensor:
    """Between each two chains, the mean over images [C, C]."""
    entropies_C = entropy(log_p_CNK).mean(dim=1)
    count = len(log_p_CNK)
    found = torch.zeros(count, count, dtype=torch.float64)
    for a in range(count):
        for b in range(a):
            middle = entropy(mixture(log_p_CNK[[a, b]])).mean()
            found[a, b] = found[b, a] = middle - (entropies_C[a] + entropies_C[b]) / 2
    return found


def _between_less_within(
    distances_CC: Tensor, architectures: Sequence[Hashable], left_out: Hashable = None
) -> float | None:
    kept = [c for c, one in enumerate(architectures) if one != left_out]
    pairs = [(a, b) for a in kept for b in kept if b < a]
    within = [float(distances_CC[a, b]) for a, b in pairs if architectures[a] == architectures[b]]
    between = [float(distances_CC[a, b]) for a, b in pairs if architectures[a] != architectures[b]]
    if not within or not between:
        return None
    return sum(between) / len(between) - sum(within) / len(within)


def effects_of(rows: Iterable[Row]) -> dict[str, ArchitectureEffect]:
    """By method, on the clean set, where the rows know it."""
    rows = list(rows)
    full, found = sizes_of(rows), dict[str, dict[str, float]]()
    for row in rows:
        if row.metric.startswith(PREFIX) and row.shift == "none" and row.members == full[row.method]:
            found.setdefault(row.method, {})[row.metric.removeprefix(PREFIX)] = row.value
    names = {field.name for field in fields(ArchitectureEffect)}
    return {method: ArchitectureEffect(**values) for method, values in found.items() if set(values) == names}
