"""Promises from n held-out images that hold whatever the prediction is worth: sets of classes, and a bounded risk.

Prediction sets are RAPS (Angelopoulos and others, 2021), with APS (Romano and others, 2020) as λ = 0. Class k of rank r
has the score

    s_k = sum of the probabilities of all classes more probable than k  +  λ · max(0, r − 1)

and the set of an image holds all classes with s_k ≤ q, where q is the ⌈(n + 1)·c⌉-th smallest score that true classes
of held-out images have. If the new image is like the held-out ones, its true class is in the set with a probability of
at least c. Scores are not randomised: the same image has the same set, and the most probable class is always in it.

A bounded risk is a binomial test. Of n images that pass a threshold k are wrong; P(Bin(n, r) ≤ k) is a p-value of "more
than the share r of such images is wrong".
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from uraenas.base.errors import require_share

REGULARISATION = 0.01  # λ: what one more class costs; small beside the probability of a class that matters


def set_scores(probability_NK: Tensor) -> tuple[Tensor, Tensor]:
    """Of each class [N, K]: the sum of the probabilities of more probable classes, and its rank, 0 for the first."""
    order_NK = probability_NK.argsort(dim=1, descending=True, stable=True)
    ranked_NK = probability_NK.double().gather(1, order_NK)
    rank_NK = torch.arange(probability_NK.shape[1]).expand_as(order_NK)
    before_NK = ranked_NK.cumsum(dim=1) - ranked_NK
    empty = torch.empty_like(ranked_NK)
    return empty.scatter(1, order_NK, before_NK), torch.empty_like(order_NK).scatter(1, order_NK, rank_NK)


def regularised(before: Tensor, rank: Tensor) -> Tensor:
    """The score of RAPS."""
    return before + REGULARISATION * rank


def conformal_places(counts: Sequence[int], coverage: float) -> list[int]:
    """The place of each group's quantile among its n sorted scores, so that groups miss 1 − c on average; n + 1: none.

    The k-th smallest is exceeded with a probability of (n + 1 − k) / (n + 1). What whole places leave over of 1 − c
    goes to the largest groups. Of one group this is ⌈(n + 1)·c⌉.
    """
    require_share("coverage", coverage)
    beyond = [math.floor((count + 1) * (1 - coverage) + 1e-9) for count in counts]
    left = sum(1 - coverage - own / (count + 1) for own, count in zip(beyond, counts, strict=True)) + 1e-9
    for group in sorted(range(len(counts)), key=lambda group: -counts[group]):
        if (step := 1 / (counts[group] + 1)) <= left and beyond[group] < counts[group]:
            beyond[group] += 1
            left -= step
    return [count + 1 - own for own, count in zip(beyond, counts, strict=True)]


def least_for_coverage(coverage: float, groups: int = 1) -> int:
    """How many images, in groups of one size, give more than half of the groups a quantile that is finite.

    That takes ⌊K/2⌋ + 1 steps of 1 / (n + 1) out of K (1 − c).
    """
    steps = groups // 2 + 1
    return groups * max(1, math.ceil(steps / (groups * (1 - coverage)) - 1e-9) - 1)


def conformal_quantile(scores_n: Tensor, coverage: float) -> float:
    """The ⌈(n + 1)·c⌉-th smallest score; infinite where n images are too few to promise this coverage."""
    (place,) = conformal_places([len(scores_n)], coverage)
    return math.inf if place > len(scores_n) else float(scores_n.double().sort().values[place - 1])


def prediction_sets(probability_NK: Tensor, quantile: float) -> Tensor:
    """Whether each class is in the image's set [N, K]."""
    return regularised(*set_scores(probability_NK)) <= quantile


def risk_p_values(wrong: Tensor, images: Tensor, risk: float) -> Tensor:
    """Of "more than this share is wrong", where of so many images so many are: P(Bin(n, r) ≤ k).

    Summed here, since SciPy's takes half a second to import, and every prediction asks for it. One term follows from
    the one before, P(j) = P(j − 1) · (n − j + 1)/j · r/(1 − r), from P(0) = (1 − r)^n on; by logarithms, of which sums
    do not run out of range.
    """
    wrong_T1, images_T1 = wrong.double()[:, None], images.double()[:, None]
    place_1K = torch.arange(1, int(wrong.max()) + 1 if len(wrong) else 1, dtype=torch.float64)[None]
    ratio_TK = (images_T1 - place_1K + 1) / place_1K * (risk / (1 - risk))
    first_T1 = images_T1 * math.log1p(-risk)
    later_TK = first_T1 + ratio_TK.clamp(min=0).log().cumsum(dim=1)
    later_TK = later_TK.masked_fill(place_1K > wrong_T1, -math.inf)
    return torch.cat([first_T1, later_TK], dim=1).logsumexp(dim=1).exp().clamp(max=1)


def least_images(risk: float, certainty: float) -> int:
    """How many images, all of them right, promise this risk: (1 − r)^n ≤ 1 − certainty."""
    return math.ceil(math.log1p(-certainty) / math.log1p(-risk) - 1e-9)
