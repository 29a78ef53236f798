"""What the scripts here time: stacks of chains of drawn genotypes on random images, and milliseconds of a call."""

import statistics
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch

from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine
from uraenas.learning.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.learning.train import StackOfChains, Training
from uraenas.spaces import CellSpace, Genotype
from uraenas.spaces.cells import CONVOLUTIONS
from uraenas.weights import Point

BATCH, IMAGES = 256, 50_000
READY = 5  # steps until one is captured, and has run as captured
KINDS = {  # how likely none, skip, 1×1, 3×3 and pool are
    "uniform": (1.0, 1.0, 1.0, 1.0, 1.0),
    "likely": (0.05, 0.15, 0.2, 0.55, 0.05),  # like draws from a searched distribution
    "heaviest": (0.0, 0.0, 0.0, 1.0, 0.0),
}


def genotypes(kind: str, count: int, space: CellSpace) -> list[Genotype]:
    """Connected genotypes, all different but for copies of the heaviest."""
    generator = torch.Generator().manual_seed(1)
    found: list[Genotype] = []
    while len(found) < count:
        drawn = torch.multinomial(torch.tensor(KINDS[kind]), 6, replacement=True, generator=generator)
        genotype = space.architecture(drawn.tolist())
        if space.is_valid(genotype) and (kind == "heaviest" or genotype not in found):
            found.append(genotype)
    return found


def convolution_counts(chosen: Sequence[Genotype]) -> str:
    """Live convolutions per cell, on average."""
    live = [[one.operations[edge] for edge in one.live_edges] for one in chosen]
    return ", ".join(f"{sum(o.count(name) for o in live) / len(live):.1f} {name}" for name in CONVOLUTIONS)


@cache
def random_images() -> tuple[LabelledImages, Normalisation]:
    """As many and as large as CIFAR-10's."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (IMAGES, 32, 32, 3), dtype=np.uint8)
    return LabelledImages(images, random.integers(0, 10, IMAGES)), Normalisation.of(images)


def stack_of(chosen: Sequence[Genotype], space: CellSpace, engine: Engine) -> StackOfChains:
    """Point estimates of these genotypes at their beginning."""
    part, normalisation = random_images()
    loader = Loader(part, normalisation, BATCH, 4, True, engine.device, engine.dtype)
    specs = [ChainSpec("uniform", Point(), n, genotype) for n, genotype in enumerate(chosen)]
    chains = [initial_chain(spec, space, 0) for spec in specs]
    return StackOfChains(chains, Training(TrainSettings(), space, loader, engine, 0))


def captured_stack(chosen: Sequence[Genotype], space: CellSpace, engine: Engine) -> StackOfChains:
    """One whose steps are captured."""
    made = stack_of(chosen, space, engine)
    for _ in range(READY):
        made.one_step()
    torch.cuda.synchronize()
    return made


def milliseconds(run: Callable[[], None], repeats: int = 15) -> tuple[float, float]:
    """Median and spread (largest minus smallest) of a call on the GPU, after two warm-ups."""
    times = []
    for _ in range(repeats + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[2:]), max(times[2:]) - min(times[2:])
