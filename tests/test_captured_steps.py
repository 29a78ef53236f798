"""A step can be captured as a GPU graph: it never copies from the host and never waits for the device.

There is no GPU here; PyTorch's meta device runs the same code with shapes only, and refuses to be read.
"""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from uraenas.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.search import Search, SearchSettings
from uraenas.spaces import Genotype, Skeleton
from uraenas.train import StackOfChains

SKELETON = Skeleton(channels=4, cells=1, height=8, width=8, image_channels=1, classes=3)
GENOTYPES = (
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|",
    "|skip_connect~0|+|avg_pool_3x3~0|nor_conv_3x3~1|+|none~0|nor_conv_1x1~1|skip_connect~2|",
)


class HostTraffic(TorchDispatchMode):
    """Notes every operation that moves data between host and device."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        inputs = [
            leaf for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        ]
        outputs = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        devices = {tensor.device.type for tensor in (*inputs, *outputs)}
        if "_local_scalar_dense" in str(function) or (len(devices) > 1 and "autograd" not in str(function)):
            self.seen.append(str(function))
        return result


@pytest.fixture
def pretended_gpu(monkeypatch):
    """An engine on a device that can be neither read nor written from the host."""
    monkeypatch.setattr(Engine, "capture", lambda self, step: step)
    monkeypatch.setattr(torch, "_dirichlet_grad", lambda x, *_: torch.empty_like(x))  # has no meta form
    engine = Engine(EngineSettings(device="cpu", precision="float32"))
    engine.device = torch.device("meta")
    return engine


def loader(engine: Engine, flip: bool = True) -> Loader:
    random = np.random.default_rng(0)
    part = LabelledImages(random.integers(0, 256, (12, 8, 8, 1), dtype=np.uint8), np.arange(12) % 3)
    return Loader(part, Normalisation((0.5,), (0.2,)), 4, 1, flip, engine.device, engine.dtype)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("regulariser", ["l2", "kl"])
def test_a_search_step_stays_on_the_device(pretended_gpu, noisy, regulariser):
    settings = SearchSettings(epochs=2, cycles=1, regulariser=regulariser)
    parts = loader(pretended_gpu), loader(pretended_gpu)
    searching = Search(settings, SKELETON, *parts, pretended_gpu, seed=0)
    with HostTraffic() as traffic:
        searching._step(noisy)
    assert traffic.seen == []


@pytest.mark.parametrize("weights", ["point", "sampled"])
def test_a_training_step_stays_on_the_device(pretended_gpu, weights):
    images = loader(pretended_gpu)
    rule = TrainSettings(epochs=4, cycles=2, weight_samples=2).rule(weights, images.steps, images.count)
    specs = [ChainSpec("sampled", weights, n, Genotype.from_string(text)) for n, text in enumerate(GENOTYPES)]
    chains = [initial_chain(spec, SKELETON, 0) for spec in specs]
    stack = StackOfChains(chains, rule, SKELETON, images, pretended_gpu, seed=0)
    with HostTraffic() as traffic:
        stack._step(exploring=weights == "point")
    assert traffic.seen == []


def test_the_watch_sees_a_copy(pretended_gpu):
    with HostTraffic() as traffic:
        torch.zeros(3, device=pretended_gpu.device) + torch.ones(3).to(pretended_gpu.device)
    assert traffic.seen
