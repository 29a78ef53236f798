"""How fast a stack trains by the size of its images, on a CPU: with the stem that halves large images, and without.

    OMP_NUM_THREADS=1 python benchmarks/image_sizes.py [--sizes 32 64 128 224] [--channels 8] [--cells 1] [--json]

Random images in colour, batch 32 per member, likely genotypes; a step is gather, crop, normalise, forward, backward and
update. Processor time is measured, on one thread, and the cases take turns, so that other work on the machine matters
little.
"""

import argparse
import json
import platform
import time
from typing import Any

import numpy as np
import torch
from random_stack import genotypes

from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.learning.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.learning.train import StackOfChains, Training
from uraenas.spaces import CellSpace, Shape
from uraenas.weights import Point

BATCH, IMAGES = 32, 64


def stack_of(space: CellSpace, members: int) -> StackOfChains:
    """Point estimates at their beginning, on random images of the space's shape."""
    random, shape = np.random.default_rng(0), space.shape
    of_images = (IMAGES, shape.height, shape.width, shape.channels)
    images = random.integers(0, 256, of_images, dtype=np.uint8)
    part = LabelledImages(images, random.integers(0, shape.classes, IMAGES))
    engine = Engine(EngineSettings(device="cpu"))
    loader = Loader(
        part, Normalisation.of(images), BATCH, shape.height // 8, True, engine.device, engine.dtype
    )
    chosen = genotypes("likely", members, space)
    specs = [ChainSpec("uniform", Point(), n, genotype) for n, genotype in enumerate(chosen)]
    chains = [initial_chain(spec, space, 0) for spec in specs]
    return StackOfChains(chains, Training(TrainSettings(), space, loader, engine, 0))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 128, 224])
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--cells", type=int, default=1)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15, help="timed, after one to warm up")
    parser.add_argument("--json", action="store_true", help="rows for machines")
    options = parser.parse_args()

    cases: dict[tuple[int, int], StackOfChains] = {}
    for size in options.sizes:
        made = CellSpace(options.channels, options.cells, shape=Shape(size, size))
        for halvings in sorted({0, made.skeleton.halvings}):
            space = CellSpace(options.channels, options.cells, halvings, shape=made.shape)
            cases[size, halvings] = stack_of(space, options.members)
    seconds: dict[tuple[int, int], list[float]] = {case: [] for case in cases}
    for _ in range(options.steps + 1):
        for case, stack in cases.items():
            start = time.process_time()
            stack.one_step()
            seconds[case].append(time.process_time() - start)

    rows: list[dict[str, Any]] = []
    for (size, halvings), measured in seconds.items():
        low, median, high = (np.quantile(measured[1:], q).item() for q in (0.25, 0.5, 0.75))
        images = options.members * BATCH
        rates = [images / one for one in (median, high, low)]
        rows.append({"size": size, "halvings": halvings, "images_per_second": rates})
    machine = {"cpu": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
    if options.json:
        print(json.dumps({**machine, "torch": torch.__version__, "rows": rows}, indent=1))
        return
    first = rows[0]["images_per_second"][0]
    print("size  halvings  member-images/s (quartiles)  part of the first")
    for row in rows:
        rate, low, high = row["images_per_second"]
        print(
            f"{row['size']:4}  {row['halvings']:8}  {rate:7.1f} ({low:.1f} to {high:.1f})  {rate / first:.3f}"
        )


if __name__ == "__main__":
    main()
