"""One p-value of several scores, by which an image may look foreign.

It is conformal. The held-out images and the new one are ranked by each score; Fisher's sum of log ranks joins the
scores; p is the share of these images, the new one among them, whose sum is no smaller. If the new image is like the
held-out ones, p ≤ a happens with a probability of at most a, whatever the scores are worth.

Of n held-out images ranks know no more than "stranger than all n": with few of them, one score that is beyond measure
could not outweigh others that see nothing. So where an image is farther than nearly all training images, with S scores,

    S · log(n + 1) · log₂(score / reach),     reach: of 99 in 100 training images, or of all but one in n + 1 of them,

whichever is more, is added: at twice their reach it outweighs all ranks. It depends on one image alone, so the promise
stands.

Some scores tell no more than that: only the first `ranked` of them have ranks.
"""

import math

import numpy as np
import torch
from torch import Tensor

CHUNK = 2**22  # numbers at once where new images meet held-out ones
TIE = 1e-9  # sums of logarithms that differ by less are equal


def conformal_p_values(
    held_out_Sn: Tensor, new_SN: Tensor, reach_S: Tensor | None = None, ranked: int | None = None
) -> Tensor:
    """Of each new image [N]: the share of the held-out images and itself whose scores, joined, are no smaller."""
    count = held_out_Sn.shape[1]
    beyond_N, beyond_n = beyond(new_SN, reach_S, count), beyond(held_out_Sn, reach_S, count)
    held_out_Sn, new_SN = held_out_Sn[:ranked], new_SN[:ranked]
    in_order = held_out_Sn.sort(dim=1).values
    # As large or larger, itself among them.
    above_Sn = count - torch.searchsorted(in_order, held_out_Sn.contiguous())
    own_SN = count - torch.searchsorted(in_order, new_SN.contiguous()) + 1
    joined_N = beyond_N - own_SN.double().log().sum(dim=0)
    found = []
    step = max(1, CHUNK // held_out_Sn.numel())
    for first in range(0, new_SN.shape[1], step):
        new = new_SN[:, first : first + step, None]
        ranks = above_Sn[:, None] + (new >= held_out_Sn[:, None])
        theirs = beyond_n - ranks.double().log().sum(dim=0)
        found.append((theirs >= joined_N[first : first + step, None] - TIE).sum(dim=1))
    return (
        (torch.cat(found) + 1).double() / (count + 1) if found else new_SN.new_zeros(0, dtype=torch.float64)
    )


def mutual_p_values(scores_Sn: Tensor, reach_S: Tensor | None, ranked: int | None) -> Tensor:
    """Of each image, the conformal p-value with all others as the held-out ones [n].

    Left out and put back as the new one, an image leaves all ranks as they are. So p is the share of all images, itself
    among them, whose sum of log ranks is no smaller.
    """
    count = scores_Sn.shape[1]
    beyond_n, scores_Sn = beyond(scores_Sn, reach_S, count - 1), scores_Sn[:ranked]
    above_Sn = count - torch.searchsorted(scores_Sn.sort(dim=1).values, scores_Sn.contiguous())
    joined_n = beyond_n - above_Sn.double().log().sum(dim=0)
    smaller_n = torch.searchsorted(joined_n.sort().values, joined_n - TIE)
    return (count - smaller_n).double() / count


def joined_scores(
    held_out_Sn: Tensor, new_SN: Tensor, reach_S: Tensor | None = None, ranked: int | None = None
) -> Tensor:
    """Fisher's sum of log ranks [N], ranks interpolated between held-out images and falling on beyond the last one."""
    total = beyond(new_SN, reach_S, held_out_Sn.shape[1])
    for held_out, new in zip(held_out_Sn[:ranked], new_SN[:ranked], strict=True):
        known = held_out[torch.isfinite(held_out)].sort().values
        ranks = torch.arange(len(known), 0, -1, dtype=torch.float64)
        rank = torch.from_numpy(np.interp(new.numpy(), known.numpy(), ranks.numpy()))
        farther = (new - known[-1]).clamp_min(0) / (known[-1] - known[len(known) // 2]).clamp_min(1e-300)
        total += (1 + farther).log() - rank.log()
    return total


def beyond(scores_SN: Tensor, reach_S: Tensor | None, count: int) -> Tensor:
    """What is added to sums of log ranks [N] where images are farther than nearly all training images."""
    if reach_S is None:
        return scores_SN.new_zeros(scores_SN.shape[1], dtype=torch.float64)
    ratio_SN = scores_SN.double() / reach_S.double().clamp_min(1e-12)[:, None]
    doublings_SN = ratio_SN.nan_to_num(nan=0.0, posinf=math.inf).clamp_min(1).log2()
    return len(scores_SN) * math.log(count + 1) * doublings_SN.sum(dim=0)
