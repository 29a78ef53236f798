"""What `engine.repeatable` costs on a GPU, where PyTorch's kernels train (12 channels do not fit the own ones).

python benchmarks/repeatable.py    two captured stacks, one of each kind, timed in turns
"""

import statistics
import time

import numpy as np
import torch

from uraenas.architecture import uniform
from uraenas.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.spaces import Skeleton
from uraenas.train import StackOfChains

MEMBERS, STEPS, ROUNDS = 4, 10, 9


def stack(repeatable: bool) -> StackOfChains:
    """Random images, genotypes drawn uniformly, warmed up and captured."""
    engine = Engine(EngineSettings(device="cuda", repeatable=repeatable))
    images = np.random.default_rng(0).integers(0, 256, (5_000, 32, 32, 3), dtype=np.uint8)
    part = LabelledImages(images, np.arange(5_000) % 10)
    loader = Loader(part, Normalisation.of(images), 256, 4, True, engine.device, engine.dtype)
    skeleton = Skeleton(channels=12)
    genotypes, _ = uniform().sample_genotypes(MEMBERS, seed=0)
    chains = [
        initial_chain(ChainSpec("uniform", "point", n, g), skeleton, 0) for n, g in enumerate(genotypes)
    ]
    rule = TrainSettings(epochs=1000).rule("point", loader.steps, loader.count)
    made = StackOfChains(chains, rule, skeleton, loader, engine, seed=0)
    for _ in range(5):  # the fourth call captures
        made.one_step()
    return made


def milliseconds(timed: StackOfChains) -> float:
    """Of one step."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        timed.one_step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / STEPS


def main() -> None:
    """Print both."""
    stacks = {"as it comes": stack(False), "repeatable": stack(True)}
    times: dict[str, list[float]] = {name: [] for name in stacks}
    for _ in range(ROUNDS):
        for name, each in stacks.items():
            times[name].append(milliseconds(each))
    for name, found in times.items():
        print(f"{name}: {statistics.median(found):.2f} ms a step, {min(found):.2f} to {max(found):.2f}")


if __name__ == "__main__":
    main()
