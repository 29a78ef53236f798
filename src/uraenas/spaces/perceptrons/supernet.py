"""The network with all options at once. Options share weights: a narrow layer is the first units of the widest.

    z_k = A_k h_{k−1} + Σ_j θ(skip from j) B_kj h_j + b_k
    h_k = θ(identity) h_{k−1} + Σ_a φ_a(z_k) ∘ Σ_w θ(a, w) mask_w

With θ at a corner of the simplex it is that architecture's own network.
"""

from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.spaces.layout import Entry, Layout, Tensors
from uraenas.spaces.perceptrons.network import ACTIVATIONS
from uraenas.spaces.perceptrons.wiring import reached


@cache
def supernet_layout(nodes: int, widest: int, inputs: int, outputs: int) -> Layout:
    entries: list[Entry] = []
    for k in range(1, nodes + 2):
        name, rows, role = _named(k, nodes, widest, outputs)
        for j in (k - 1, *reached(k)):
            columns = inputs if j == 0 else max(inputs, widest)
            entries.append(Entry(f"{name}.from{j}.weight", (rows, columns), columns**-0.5, role=role))
        entries.append(Entry(f"{name}.bias", (rows,), role=role))
    return Layout(tuple(entries))


def _named(k: int, nodes: int, widest: int, outputs: int) -> tuple[str, int, str]:
    return ("out", outputs, "logits") if k == nodes + 1 else (f"node{k}", widest, "")


def forward(
    activations: Sequence[str], widths: Sequence[int], nodes: int, weights: Tensors, x: Tensor, mixing: Tensor
) -> Tensor:
    """Outputs [N, K] of rows [N, D]; mixing has a row for each decision: of a node, then of the skips into it."""
    widest = max(widths)
    room = max(x.shape[1], widest)
    units = torch.arange(widest, device=x.device)
    masks = torch.stack([units < width for width in widths]).to(x.dtype)  # [widths, W]
    values, row = [x], 0
    for k in range(1, nodes + 1):
        options = mixing[row]
        z = _read(f"node{k}", values, weights, mixing, row + 1)
        row += 1 + len(reached(k))
        shares = options[1 : 1 + len(activations) * len(widths)].view(len(activations), len(widths)) @ masks
        mixed = [ACTIVATIONS[one](z) * share for one, share in zip(activations, shares, strict=True)]
        passed = options[0] * values[k - 1]
        values.append(
            F.pad(passed, (0, room - passed.shape[1]))
            + F.pad(sum(mixed[1:], start=mixed[0]), (0, room - widest))
        )
    return _read("out", values, weights, mixing, row)


def _read(name: str, values: Sequence[Tensor], weights: Tensors, mixing: Tensor, row: int) -> Tensor:
    """What the next layer makes of the last value and, by its skips, of those before; of these θ begins at `row`."""
    k = len(values)
    z = F.linear(values[-1], weights[f"{name}.from{k - 1}.weight"], weights[f"{name}.bias"])
    for place, j in enumerate(reached(k), start=row):
        z = z + mixing[place, 1] * F.linear(values[j], weights[f"{name}.from{j}.weight"])
    return z
