"""Loops without learning: batch-norm statistics of new weights, and what a trained network sees of its images."""

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.data import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine
from uraenas.ensemble import Member
from uraenas.ensemble.statistics import measured_statistics
from uraenas.spaces import Apply, Architecture, Draw, Network, Passage, Space, Stack, Tensors
from uraenas.weights import Seen

BATCHES = 32  # at most, of those whose statistics are averaged
LOOK = 500  # images at a time


@torch.no_grad()
def measure_statistics(
    architecture: Architecture,
    weights: Tensor,
    space: Space,
    loader: Loader,
    engine: Engine,
    key: int,
    number: int,
) -> Tensor:
    """The mean over some training batches, of images that the chain of this number learns from."""
    stack = Stack([architecture], space).to(engine.device, engine.dtype).train()
    drawn = loader.draw([key], epoch=0, numbers=[number])
    batches = (loader.batch_at(drawn, position)[0] for position in range(min(BATCHES, loader.steps)))
    return measured_statistics(stack, weights, batches, engine)


@torch.no_grad()
def seen_by(
    member: Member, space: Space, part: LabelledImages, normalisation: Normalisation, engine: Engine
) -> Seen:
    """What the last layer reads and gives for these images, in evaluation and as they are."""
    layout = member.kind.layout
    stack = Stack([member.architecture], space, layout).to(engine.device, engine.dtype).eval()
    stack.put(0, member.weights, member.statistics)
    last = stack.weight_layouts[0].last.name.removesuffix(".weight")
    read: list[Tensor] = []

    def layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
        if name == last:
            read.append(x.to(engine.dtype))
        return apply(x, weight)

    def forward(network: Network, weights: Tensors, draw: Draw) -> Tensor:
        return network(weights, Passage(layer=layer))

    normalise, given, nothing = normalisation.on(engine.device, engine.dtype), [], Draw(torch.tensor(0))
    with engine.threads(), engine.autocast():
        for start in range(0, len(part), LOOK):
            images = normalise(torch.from_numpy(part.images[start : start + LOOK]).to(engine.device))
            given.append(stack.run([0], stack.weights, images, forward, [nothing])[0].to(engine.dtype))
    if not read:
        raise UraenasError(f"{space.name} does not call a passage at its last layer, {last}")
    weights = None if part.weights is None else torch.from_numpy(part.weights / part.weights.mean())
    return Seen(torch.cat(read).cpu(), torch.cat(given).cpu(), weights, normalisation.target)
