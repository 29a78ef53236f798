"""Random numbers as a function of (seed, purpose, chain, step) instead of a running state.

A word of randomness is SplitMix64 of a key plus a counter, written in tensor operations, so that the CPU and the GPU
draw the same bits, a step can be captured in a graph, a chain draws the same alone or in a stack, and there is
nothing to checkpoint. On a GPU one kernel takes the place of these operations (`draws_on_gpu.py`).
"""

import hashlib
import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from uraenas.base.kernels import kernels_in

GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed word
FIRST = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
SECOND = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB
_WORD = (1 << 64) - 1


def key(seed: int, *purpose: int | str) -> int:
    """One signed 64-bit key for this seed and purpose."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _mix(word: Tensor) -> Tensor:
    word = (word ^ ((word >> 30) & 0x3FFFFFFFF)) * FIRST  # the masks make the arithmetic shifts logical ones
    word = (word ^ ((word >> 27) & 0x1FFFFFFFFF)) * SECOND
    return word ^ ((word >> 31) & 0x1FFFFFFFF)


def _own(key: Tensor) -> Any:
    """The kernels that draw for this key, or nothing."""
    one_each = key.dim() == 0 or key.shape[-1] == 1
    fits = key.is_cuda and one_each and key.is_contiguous()
    return kernels_in("uraenas.base.draws_on_gpu") if fits else None


def at(key: int | Tensor, step: int | Tensor, device: torch.device | None = None) -> Tensor:
    """The key of one step: a function of tensors, so that a captured graph can count steps by itself."""
    if not isinstance(key, Tensor):
        key = torch.tensor(key).to(device or torch.device("cpu"))
    if not isinstance(step, Tensor):
        own, number = _own(key), _mixed(step * GOLDEN)
        return own.at(key, None, number) if own else _mix(key + number)
    own = _own(key) if step.is_cuda and step.dim() == 0 else None
    return own.at(key, step, 0) if own else _mix(key + _mix(step * GOLDEN))


@lru_cache(maxsize=4096)  # places in networks are few, steps are many
def _mixed(word: int) -> int:
    """`_mix` of a number that the host knows: on a GPU that spares a dozen small kernels for each key."""
    word &= _WORD
    word = (word ^ word >> 30) * FIRST & _WORD
    word = (word ^ word >> 27) * SECOND & _WORD
    word ^= word >> 31
    return word - (word >> 63 << 64)  # as a signed word


def words(key: Tensor, count: int) -> Tensor:
    """`count` random 64-bit words; for keys [n, 1] so many for each, here and in what is drawn from words."""
    if own := _own(key):
        return own.words(key, count)
    counter = torch.arange(1, count + 1, dtype=torch.int64, device=key.device)
    return _mix(key + counter * GOLDEN)


def uniform(key: Tensor, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Uniform on the open interval (0, 1)."""
    if own := _own(key):
        return own.uniform(key, count, dtype)
    # One bit less than the mantissa holds, so that adding ½ is exact.
    bits = 52 if dtype == torch.float64 else 23
    word = (words(key, count) >> (64 - bits)) & ((1 << bits) - 1)
    return (word.to(dtype) + 0.5) * 2.0**-bits


def integers(key: Tensor, count: int, below: int) -> Tensor:
    """Uniform on 0 … below-1."""
    high = (words(key, count) >> 32) & 0xFFFFFFFF
    return (high * below) >> 32


def coins(key: Tensor, count: int, chance: float) -> Tensor:
    """True with this chance, to a 65,536th; four from each word, since masks take many."""
    below = _below(chance)
    if own := _own(key):
        return own.coins(key, count, below)
    sixteen = words(key, (count + 3) // 4).view(torch.int16)[:count]  # −2^15 … 2^15 − 1
    return sixteen < below if below < 2**15 else sixteen == sixteen  # which 16 bits cannot hold


def _below(chance: float) -> int:
    """What 16 bits, as a signed number, lie below with this chance."""
    return round(chance * 2**16) - 2**15


def masked(key: Tensor, x: Tensor, axes: int, each: bool, chance: float, scaled: bool) -> Tensor:
    """Values [N, …] that a coin keeps, others 0; kept ones divided by their chance if scaled.

    A coin is of a place along the first `axes` axes: 1, 2 or all. Unless each image has its own, all share those of the
    first.
    """
    if own := _own(key):
        return own.masked(key, x, axes, each, _below(chance), 1 / chance if scaled else 1.0)
    shape = (x.shape[0] if each else 1, *x.shape[1:axes])
    mask = coins(key, math.prod(shape), chance).view(*shape, *(1 for _ in x.shape[axes:])).to(x.dtype)
    return x * (mask / chance if scaled else mask)


def permutation(key: Tensor, count: int) -> Tensor:
    """A random order of 0 … count-1."""
    return torch.argsort(words(key, count), stable=True)


def normal(key: Tensor, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal, two numbers from each word (Box and Muller)."""
    if own := _own(key):
        return own.normal(key, count, dtype)
    word = words(key, (count + 1) // 2)
    high, low = (word >> 32) & 0xFFFFFFFF, word & 0xFFFFFFFF
    radius = torch.sqrt(-2 * torch.log((high.to(dtype) + 1) * 2.0**-32))
    angle = low.to(dtype) * (2 * math.pi * 2.0**-32)
    return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], dim=-1)[..., :count]


_PROPOSALS = 16  # each is accepted with probability > 0.95, so none is with probability < 1e-20


def log_gamma(key: Tensor, shape: Tensor) -> Tensor:
    """Log of a Gamma(shape, 1) draw, elementwise, in float64: for tiny shapes the draw itself underflows.

    Marsaglia and Tsang, with a fixed number of proposals.

    For shape < 1 the draw is Gamma(shape + 1) · U^(1/shape), so shape + 1 is used throughout.
    """
    shape = shape.to(torch.float64)
    count = shape.numel()
    z = normal(at(key, 0), _PROPOSALS * count, torch.float64).view(_PROPOSALS, count)
    u = uniform(at(key, 1), _PROPOSALS * count, torch.float64).view(_PROPOSALS, count)
    boost = uniform(at(key, 2), count, torch.float64)
    d = shape.reshape(-1) + 2 / 3
    v = (1 + z / torch.sqrt(9 * d)).clamp_min(0) ** 3
    accepted = (v > 0) & (torch.log(u) < z**2 / 2 + d - d * v + d * torch.log(v.clamp_min(1e-300)))
    first = accepted.to(torch.int64).argmax(dim=0, keepdim=True)
    drawn = (d * v).gather(0, first).squeeze(0)
    return (torch.log(drawn) + torch.log(boost) / shape.reshape(-1)).view(shape.shape)
