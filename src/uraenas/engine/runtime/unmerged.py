"""Convolutions whose outputs are cut apart, each part as a convolution of its own.

PyTorch runs those that read one map as one convolution, which saves calls. ONNX Runtime keeps maps in blocks of
channels from one convolution to the next, with sums and ReLUs between them, but knows no cut of blocks: it would undo
them before each and make them again after it, which takes a quarter of the time.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor

from uraenas.engine.runtime.recording import Named, Recording, Step, names_in, needed

CONVOLUTION, CUT = "aten.convolution.default", "aten.split.Tensor"
CHANNELS = 1


def unmerged(found: Recording) -> Recording:
    """The same outputs; a convolution that is read by nothing but a cut of its channels is gone, and so is the cut."""
    reads = Counter(name for step in found.steps for name in names_in(step.arguments))
    reads.update(found.outputs)
    made = {name: step for step in found.steps for name in step.results}
    cuts = {
        cut.arguments[0].name: cut
        for cut in found.steps
        if cut.operation == CUT
        and (conv := made.get(cut.arguments[0].name)) is not None
        and _can_be_cut(conv, cut, found)
        and reads[cut.arguments[0].name] == 1
    }
    steps: list[Step] = []
    constants = dict(found.constants)
    for step in found.steps:
        if step.results[0] in cuts:
            steps += _parts(step, cuts[step.results[0]], constants)
        elif step.operation != CUT or step.arguments[0].name not in cuts:
            steps.append(step)
    return needed(Recording(steps, constants, found.outputs))


def _can_be_cut(conv: Step, cut: Step, found: Recording) -> bool:
    if conv.operation != CONVOLUTION or (*cut.arguments, 0)[2] != CHANNELS:
        return False
    *_, transposed, _, groups = conv.arguments
    weights = [one.name for one in conv.arguments[1:3] if one is not None]
    return not transposed and groups == 1 and all(name in found.constants for name in weights)


def _parts(conv: Step, cut: Step, constants: dict[str, Tensor]) -> Iterator[Step]:
    """A convolution for each part of the cut; its slices of the weights become constants."""
    x, weight, bias, *rest = conv.arguments
    first = 0
    for place, (name, sample) in enumerate(zip(cut.results, cut.sample, strict=True)):
        own: list[Any] = []
        for whole in (weight, bias):
            if whole is None:
                own.append(None)
                continue
            head, dot, kind = whole.name.rpartition("_")
            part = f"{head}_{place}{dot}{kind}"
            constants[part] = constants[whole.name][first : first + sample.shape[CHANNELS]]
            own.append(Named(part))
        first += sample.shape[CHANNELS]
        yield replace(conv, arguments=(x, *own, *rest), results=(name,), sample=(sample,))
