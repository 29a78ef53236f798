"""Cell networks as a textbook would write them: one module per operation, nothing merged, nothing shared.

They know of the package only a genotype's operations, the sizes of a space, and the names in a weight layout, for
copying weights over.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from uraenas.spaces import CellSpace, Genotype, Layout

ENDS = {  # of the edges, by how many there are
    6: [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)],
    10: [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3), (0, 4), (1, 4), (2, 4), (3, 4)],
}
KERNELS = {"nor_conv_1x1": 1, "nor_conv_3x3": 3}

# Layout name → the tensors that lie there one after the other.
Named = dict[str, list[Tensor]]


class ReLUConvBN(nn.Module):
    def __init__(
        self, channels_in: int, channels: int, kernel: int, stride: int = 1, affine: bool = True
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels, affine=affine)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(torch.relu(x)))


class Pool(nn.Module):
    """The mean over the 3 × 3 neighbours that exist."""

    def forward(self, x: Tensor) -> Tensor:
        padded, ones = (nn.functional.pad(t, (1, 1, 1, 1)) for t in (x, torch.ones_like(x)))
        height, width = x.shape[2:]
        shifts = [(i, j) for i in range(3) for j in range(3)]
        total, count = (
            sum(t[:, :, i : i + height, j : j + width] for i, j in shifts) for t in (padded, ones)
        )
        return total / count


def operation(name: str, channels: int, affine: bool = True) -> nn.Module:
    if name in KERNELS:
        return ReLUConvBN(channels, channels, KERNELS[name], affine=affine)
    return Pool() if name == "avg_pool_3x3" else nn.Identity()


class Reduction(nn.Module):
    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.first = ReLUConvBN(channels_in, channels, 3, stride=2)
        self.second = ReLUConvBN(channels, channels, 3)
        self.shortcut = nn.Conv2d(channels_in, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        rows = [x[:, :, i : i + 2].mean(dim=2) for i in range(0, x.shape[2], 2)]
        halved = torch.stack(rows, dim=2)
        columns = [halved[:, :, :, j : j + 2].mean(dim=3) for j in range(0, x.shape[3], 2)]
        return self.second(self.first(x)) + self.shortcut(torch.stack(columns, dim=3))


class PlainCell(nn.Module):
    """One module on every edge that lies on a path from input to output."""

    def __init__(self, genotype: Genotype, channels: int) -> None:
        super().__init__()
        self.ends = ends = ENDS[len(genotype.operations)]
        self.last = ends[-1][1]
        present = [e for e in range(len(ends)) if genotype.operations[e] != "none"]

        def leads(start: int, end: int) -> bool:
            return start == end or any(ends[e][0] == start and leads(ends[e][1], end) for e in present)

        self.edges = nn.ModuleDict(
            {
                str(e): operation(genotype.operations[e], channels)
                for e in present
                if leads(0, ends[e][0]) and leads(ends[e][1], self.last)
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        nodes: list = [x] + [0] * self.last
        for e, module in self.edges.items():
            source, target = self.ends[int(e)]
            nodes[target] = nodes[target] + module(nodes[source])
        return nodes[-1]


class MixedCell(nn.Module):
    """All operations on every edge, added with the weights of that edge."""

    def __init__(self, space: CellSpace, channels: int) -> None:
        super().__init__()
        self.operations, self.ends = space.operations, ENDS[len(space.decisions)]
        self.edges = nn.ModuleList(
            nn.ModuleList(operation(name, channels, affine=False) for name in self.operations)
            for _ in self.ends
        )
        self.mixing: Tensor

    def forward(self, x: Tensor) -> Tensor:
        nodes: list = [x] + [0] * self.ends[-1][1]
        for e, (source, target) in enumerate(self.ends):
            for o, name in enumerate(self.operations):
                if name != "none":
                    nodes[target] = nodes[target] + self.mixing[e, o] * self.edges[e][o](nodes[source])
        return nodes[-1]


class PlainNetwork(nn.Module):
    """Stem, three stages of cells with reductions between them, classifier."""

    def __init__(self, space: CellSpace, cell: Callable[[int], nn.Module]) -> None:
        super().__init__()
        channels = space.channels
        stride = 2 if space.halvings > 0 else 1
        self.stem = nn.Conv2d(space.shape.channels, channels, 3, stride, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(channels)
        more = range(1, space.halvings)
        self.more_stem = nn.ModuleList(ReLUConvBN(channels, channels, 3, stride=2) for _ in more)
        blocks: list[nn.Module] = []
        for stage in range(3):
            if stage:
                blocks.append(Reduction(channels, 2 * channels))
                channels *= 2
            blocks += [cell(channels) for _ in range(space.cells)]
        self.blocks = nn.ModuleList(blocks)
        self.head_norm = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, space.shape.classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem_norm(self.stem(x))
        for module in self.more_stem:
            x = module(x)
        for block in self.blocks:
            x = block(x)
        return self.classifier(torch.relu(self.head_norm(x)).mean(dim=(2, 3)))


def plain_member(genotype: Genotype, space: CellSpace) -> PlainNetwork:
    return PlainNetwork(space, lambda channels: PlainCell(genotype, channels))


def plain_supernet(space: CellSpace) -> PlainNetwork:
    return PlainNetwork(space, lambda channels: MixedCell(space, channels))


def named_tensors(network: PlainNetwork) -> Named:
    """The network's parameters and running statistics under the names that our layouts give them."""
    named: Named = {"stem.weight": [network.stem.weight]}

    def norm(name: str, module: nn.BatchNorm2d) -> None:
        found = {"scale": module.weight, "shift": module.bias}
        found |= {"mean": module.running_mean, "variance": module.running_var}
        for part, tensor in found.items():
            if tensor is not None:
                named.setdefault(f"{name}.{part}", []).append(tensor)

    def convolution(name: str, module: ReLUConvBN) -> None:
        named.setdefault(f"{name}.weight", []).append(module.conv.weight)
        norm(f"{name}.norm", module.norm)

    norm("stem.norm", network.stem_norm)
    for number, module in enumerate(network.more_stem, start=1):
        convolution(f"stem{number}", module)
    cells = reductions = 0
    for block in network.blocks:
        if isinstance(block, Reduction):
            reductions += 1
            convolution(f"reduce{reductions}.first", block.first)
            convolution(f"reduce{reductions}.second", block.second)
            named[f"reduce{reductions}.shortcut.weight"] = [block.shortcut.weight]
            continue
        for e, (source, _) in enumerate(block.ends):  # sorted by target, as the outputs of a group are
            if isinstance(block, PlainCell):
                modules = [block.edges[str(e)]] if str(e) in block.edges else []
            else:
                modules = list(block.edges[e])
            for module in modules:
                if isinstance(module, ReLUConvBN):
                    convolution(f"cell{cells}.from{source}.conv{module.conv.kernel_size[0]}", module)
        cells += 1
    norm("head.norm", network.head_norm)
    return {
        **named,
        "classifier.weight": [network.classifier.weight],
        "classifier.bias": [network.classifier.bias],
    }


@torch.no_grad()
def copy_in(network: PlainNetwork, layout: Layout, flat: Tensor) -> None:
    """Fill the network with what lies in a flat vector."""
    named = named_tensors(network)
    for name, tensor in layout.views(flat).items():
        for part, piece in zip(named[name], tensor.chunk(len(named[name])), strict=True):
            part.copy_(piece)


def copy_out(network: PlainNetwork, layout: Layout, gradients: bool = False) -> Tensor:
    """The flat vector of the network's tensors, or of their gradients."""
    named = named_tensors(network)
    parts = [part.grad if gradients else part for entry in layout.entries for part in named[entry.name]]
    return torch.cat([part.detach().reshape(-1) for part in parts])
