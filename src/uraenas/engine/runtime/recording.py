"""What a module computes, noted down operation by operation while it computes it.

PyTorch's own exporter takes minutes for an ensemble of ten. A network here is a fixed list of operations, so one pass
on a few images shows all of them; parity on other numbers of images is checked afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from uraenas.base.errors import UraenasError


@dataclass(frozen=True)
class Step:
    """One operation: its name, what it was given (tensors by name), and the names of what it returned."""

    operation: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    results: tuple[str, ...]
    sample: tuple[Tensor, ...]  # what came out


@dataclass(frozen=True)
class Named:
    """A tensor among arguments, by its name."""

    name: str


@dataclass
class Recording:
    """The steps from the input to the outputs, and the constants they use."""

    steps: list[Step] = field(default_factory=list)
    constants: dict[str, Tensor] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


def record(module: nn.Module, images: Tensor) -> Recording:
    """The steps from these images, called `images`, to the outputs. What does not depend on them is constant."""
    mode = _Recorder(module)
    mode.follow(images, "images")
    with torch.no_grad(), mode:
        outputs = module(images)
    return needed(replace(mode.found, outputs=tuple(mode.names[id(one)] for one in outputs)))


def needed(found: Recording) -> Recording:
    """Without steps and constants that no output depends on."""
    wanted = set(found.outputs)
    steps = []
    for step in reversed(found.steps):
        if wanted.intersection(step.results):
            steps.append(step)
            wanted.update(names_in((*step.arguments, *step.options.values())))
    constants = {name: one for name, one in found.constants.items() if name in wanted}
    return Recording(steps[::-1], constants, found.outputs)


def names_in(arguments: Any) -> Iterator[str]:
    """Of all tensors among these arguments."""
    for one in arguments:
        if isinstance(one, Named):
            yield one.name
        elif isinstance(one, list | tuple):
            yield from names_in(one)


class _Recorder(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; to make sure of it PyTorch would import its compiler, for seconds."""
        return False

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.found = Recording()
        self.names: dict[int, str] = {}
        self.kept: list[Tensor] = []  # so that no other tensor gets the identity of one that is gone
        self.buffers = {id(buffer): name for name, buffer in module.named_buffers()}

    def follow(self, tensor: Tensor, name: str) -> None:
        self.names[id(tensor)] = name
        self.kept.append(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        results = func(*args, **given)
        if not any(self._depends(one) for one in (*args, *given.values())):
            return results
        if func._schema.is_mutable:
            raise UraenasError(f"{func} changes a tensor in place and cannot be exported")
        tensors = tuple(results) if isinstance(results, tuple | list) else (results,)
        number = len(self.found.steps)
        names = tuple(f"s{number}_{place}" for place in range(len(tensors)))
        step_arguments = tuple(self._named(one) for one in args)
        options = {key: self._named(one) for key, one in given.items()}
        self.found.steps.append(Step(str(func), step_arguments, options, names, tensors))
        for tensor, name in zip(tensors, names, strict=True):
            self.follow(tensor, name)
        return results

    def _depends(self, argument: Any) -> bool:
        if isinstance(argument, list | tuple):
            return any(self._depends(one) for one in argument)
        return isinstance(argument, Tensor) and id(argument) in self.names

    def _named(self, argument: Any) -> Any:
        if isinstance(argument, list | tuple):
            return [self._named(one) for one in argument]
        if not isinstance(argument, Tensor):
            return argument
        if id(argument) not in self.names:
            return Named(self._constant(argument))
        return Named(self.names[id(argument)])

    def _constant(self, tensor: Tensor) -> str:
        name = self.buffers.get(id(tensor), f"constant_{len(self.kept)}")
        if name not in self.found.constants:
            self.found.constants[name] = tensor.detach().contiguous()
            self.kept.append(tensor)
            self.buffers[id(tensor)] = name
        return name
