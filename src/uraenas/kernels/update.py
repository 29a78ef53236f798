# mypy: disable-error-code="no-untyped-def"
"""One step of all members' weights: the rules of `inference`, noise drawn inside as in `draws.normal`.

Each member has its own step size, noise and key; numbers that change from step to step are read from the device, so
that a captured graph never goes stale.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor


class Update:
    """w and v move in place, from the gradient of the mean loss plus decay · w (the prior's part).

    Nesterov:  v ← μ v + ∇,           w ← w − α (∇ + μ v)
    Langevin:  v ← μ v − α ∇ + σ ε,   w ← w + v
    """

    def __init__(
        self, sizes: Sequence[int], momentum: float, decay: float, nesterov: bool, device: torch.device
    ) -> None:
        self.momentum, self.decay, self.nesterov = momentum, decay, nesterov
        starts = [sum(sizes[:m]) for m in range(len(sizes))]
        self.places = torch.tensor(list(zip(starts, sizes, strict=True)), dtype=torch.int64, device=device)
        self.grid = (triton.cdiv(max(sizes), 1024), len(sizes))

    def __call__(
        self,
        weights: Tensor,
        velocity: Tensor,
        gradient: Tensor,
        step_size_M: Tensor,
        deviation_M: Tensor,
        key_M: Tensor,
    ) -> None:
        """`key_M` is `draws.at(key, step)` of each member; `deviation_M` is σ, 0 where nothing is to be drawn."""
        _update[self.grid](
            weights, velocity, gradient, self.places, step_size_M, deviation_M, key_M, self.momentum, self.decay,
            NESTEROV=self.nesterov, BLOCK=1024,
        )  # fmt: skip


@triton.jit
def _mix(word):
    """SplitMix64's finaliser, as in `draws`."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB
    return word ^ (word >> 31)


@triton.jit
def _normal(key, place, size):
    """Number `place` of `draws.normal(key, size)`."""
    half = (size + 1) // 2
    second = place >= half
    counter = tl.where(second, place - half, place) + 1
    word = _mix(key + counter.to(tl.uint64) * 0x9E3779B97F4A7C15)
    high, low = (word >> 32).to(tl.uint32), (word & 0xFFFFFFFF).to(tl.uint32)
    radius = tl.sqrt(-2 * tl.log((high.to(tl.float32) + 1) * 2.3283064365386963e-10))
    angle = low.to(tl.float32) * 1.4629180792671596e-09  # 2π / 2³²
    return radius * tl.where(second, tl.sin(angle), tl.cos(angle))


@triton.jit
def _update(
    weights, velocity, gradient, places, step_sizes, deviations, keys, momentum, decay,
    NESTEROV: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1)
    start, size = tl.load(places + 2 * member), tl.load(places + 2 * member + 1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    present = place < size
    w = tl.load(weights + start + place, mask=present, other=0.0)
    v = tl.load(velocity + start + place, mask=present, other=0.0)
    g = tl.load(gradient + start + place, mask=present, other=0.0) + decay * w
    step_size = tl.load(step_sizes + member)
    if NESTEROV:
        v = momentum * v + g
        w -= step_size * (g + momentum * v)
    else:
        v = momentum * v - step_size * g
        deviation = tl.load(deviations + member)
        if deviation > 0:
            v += deviation * _normal(
                tl.load(keys + member).to(tl.uint64, bitcast=True), place.to(tl.int64), size
            )
        w += v
    tl.store(weights + start + place, w, mask=present)
    tl.store(velocity + start + place, v, mask=present)
