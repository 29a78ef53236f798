"""A step can be captured as a GPU graph: it never copies from the host and never waits for the device.

There is no GPU here; PyTorch's meta device runs the same code with shapes only, and refuses to be read.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from uraenas.architectures import DISTRIBUTIONS, Dirichlet
from uraenas.base import draws
from uraenas.data.augment import AUGMENTATIONS, Augmentation, augmented
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.learning.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.learning.search import SUPERNET_WEIGHTS, Search, SearchParts, SearchSettings
from uraenas.learning.train import StackOfChains, Training
from uraenas.spaces import CellSpace, Shape
from uraenas.weights import WEIGHTS

SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 3))
GENOTYPES = (
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|",
    "|skip_connect~0|+|avg_pool_3x3~0|nor_conv_3x3~1|+|none~0|nor_conv_1x1~1|skip_connect~2|",
)
CYCLES = {"cycles": 2, "samples": 2, "exploration": 0.5}


class HostTraffic(TorchDispatchMode):
    """Notes every operation that moves data between host and device."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        devices = {
            tensor.device.type for tensor in tensors_in((args, tuple((kwargs or {}).values()), result))
        }
        if function is torch.ops.aten._local_scalar_dense.default or len(devices) > 1:
            self.seen.append(str(function))
        return result


class ShapesOnly(TorchDispatchMode):
    """Remembers what shapes an operation gives for what shapes; PyTorch works them out in Python every time."""

    known: ClassVar[dict[Any, Any]] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not gives_new_tensors(function):
            return function(*args, **kwargs)
        asked = function, form_of(args), form_of(tuple(kwargs.items()))
        if asked in self.known:
            return as_new(self.known[asked])
        result = function(*args, **kwargs)
        if all(tensor.is_meta for tensor in tensors_in((args, tuple(kwargs.values()), result))):
            self.known[asked] = result
        return result


@cache
def gives_new_tensors(function: Any) -> bool:
    """Whether it gives tensors, and neither changes what it is given nor hands it back."""
    schema = function._schema
    own = all(value.alias_info is None for value in (*schema.arguments, *schema.returns))
    return own and all(isinstance(value.type, torch.TensorType) for value in schema.returns)


def as_new(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return tuple(map(as_new, value)) if isinstance(value, tuple) else value


def form_of(value: object) -> object:
    """All that the shape of a result can depend on."""
    if isinstance(value, torch.Tensor):
        return value.device, value.dtype, value.shape, value.stride(), value.storage_offset()
    if isinstance(value, tuple | list):
        return tuple(map(form_of, value))
    return type(value), value


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)


@pytest.fixture
def pretended_gpu(monkeypatch):
    """An engine on a device that can be neither read nor written from the host."""
    monkeypatch.setattr(Engine, "capture", lambda self, step: step)
    monkeypatch.setattr(torch, "_dirichlet_grad", lambda x, *_: torch.empty_like(x))  # has no meta form
    engine = Engine(EngineSettings(device="cpu", precision="float32"))
    engine.device, engine.workers = torch.device("meta"), None
    with ShapesOnly():
        yield engine


def loader(engine: Engine, flip: bool = True, augmentations: Sequence[Augmentation] = ()) -> Loader:
    random = np.random.default_rng(0)
    part = LabelledImages(random.integers(0, 256, (12, 8, 8, 1), dtype=np.uint8), np.arange(12) % 3)
    plain = Normalisation((0.5,), (0.2,))
    return Loader(part, plain, 4, 1, flip, engine.device, engine.dtype, augmentations, SPACE.shape.classes)


def quiet_and_noisy_steps(runs: Search | StackOfChains) -> list[str]:
    """What passes between host and device in a step of each kind that the run has."""
    cycle = runs.pace.cycle
    kinds = {cycle.samples_at(step): step for step in range(cycle.steps)}
    with HostTraffic() as traffic:
        for step in kinds.values():
            runs.one_step(step)
    return traffic.seen


@pytest.mark.parametrize(("weights", "regulariser"), [("sghmc", "kl"), ("point", "l2")])
def test_a_search_step_stays_on_the_device(pretended_gpu, weights, regulariser):
    row = SUPERNET_WEIGHTS[weights]
    rule = row.make({name: value for name, value in CYCLES.items() if name in row.settings})
    parts = SearchParts(SearchSettings(epochs=8), Dirichlet(regulariser=regulariser), rule)
    loaders = loader(pretended_gpu), loader(pretended_gpu)
    searching = Search(parts, SPACE, *loaders, pretended_gpu, seed=0)
    assert quiet_and_noisy_steps(searching) == []


@pytest.mark.parametrize(
    ("name", "order"),
    [(name, 1) for name, row in DISTRIBUTIONS.items() if row.made.loop == "supernet"] + [("darts", 2)],
)
def test_a_step_of_every_distribution_stays_on_the_device(pretended_gpu, name, order):
    settings = SearchSettings(epochs=8, order=order)
    parts = SearchParts(settings, DISTRIBUTIONS[name].make(), SUPERNET_WEIGHTS["point"].make())
    loaders = loader(pretended_gpu), loader(pretended_gpu)
    searching = Search(parts, SPACE, *loaders, pretended_gpu, seed=0)
    assert quiet_and_noisy_steps(searching) == []


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_training_step_stays_on_the_device(pretended_gpu, name):
    row = WEIGHTS[name]
    rule = row.make({key: value for key, value in CYCLES.items() if key in row.settings})
    specs = [ChainSpec("sampled", rule, n, SPACE.parse(text)) for n, text in enumerate(GENOTYPES)]
    chains = [initial_chain(spec, SPACE, 0) for spec in specs]
    images = loader(pretended_gpu)
    stack = StackOfChains(chains, Training(TrainSettings(epochs=8), SPACE, images, pretended_gpu, 0))
    assert quiet_and_noisy_steps(stack) == []


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_augmentation_stays_on_the_device_and_leaves_the_step_there(pretended_gpu, name):
    part = AUGMENTATIONS[name].make()
    images = loader(pretended_gpu, augmentations=[part])
    key = draws.at(1, 0, pretended_gpu.device)
    with HostTraffic() as traffic:
        changed, labels = augmented(part, images.images, images.labels, key)
    assert traffic.seen == []
    assert (changed.device.type, labels.device.type) == ("meta", "meta")
    specs = [ChainSpec("sampled", WEIGHTS["point"].make(), 0, SPACE.parse(GENOTYPES[0]))]
    chains = [initial_chain(spec, SPACE, 0) for spec in specs]
    stack = StackOfChains(chains, Training(TrainSettings(epochs=8), SPACE, images, pretended_gpu, 0))
    assert quiet_and_noisy_steps(stack) == []


def test_the_watch_sees_a_copy(pretended_gpu):
    with HostTraffic() as traffic:
        torch.zeros(3, device=pretended_gpu.device) + torch.ones(3).to(pretended_gpu.device)
    assert traffic.seen
