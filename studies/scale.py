"""How long do many chains take on many devices, and what limits it?

    python studies/scale.py RUN [--bandwidth 1e9] [--every 10] [--draws 5]

Measured: seconds of a chain in a full stack (RUN's cost.json), bytes of a checkpoint and a sample, and the constants
below, each with its source. Simulated: everything past one device. Architectures are drawn from those that RUN's search
drew (its genotypes.json), and chains take as long as these have multiplications. Chains are packed by the same function
that packs a run's, and stacks go to whichever device is free, the dearest first. Assumed: the bandwidth of the shared
file system, and that workers on many nodes are ready as soon as on two.
"""

import argparse
import heapq
import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from uraenas.learning.chains import ChainSpec
from uraenas.run.directory import Run
from uraenas.run.places.packing import Unit, pack
from uraenas.spaces import Shape
from uraenas.weights import WEIGHTS

CHAINS, DEVICES = (10, 100, 1000), (1, 8, 64, 512)
# Member-images per second by the size of a stack, likely genotypes, batch 256, one H200: docs/performance.md.
RATES = {1: 87.8e3, 10: 111.5e3}
RAY_START = (
    28.0  # seconds from the first call to workers that are ready; two nodes on two loaded cores, Ray 2.60
)
CAPTURE = 5.0  # seconds to the first captured step with a filled cache; one H200: docs/performance.md
SHAPE = Shape(32, 32, 3, 10)  # CIFAR-10
IMAGES = 60_000 * 32 * 32 * 3  # bytes that each worker reads once: CIFAR-10


@dataclass(frozen=True)
class Measured:
    """What is known of a run's chains."""

    seconds: float  # of one, in a full stack
    relative: list[float]  # of its architectures, mean 1
    checkpoint: int  # bytes
    sample: int
    samples: int  # of a chain
    stack: int


def measured(run: Run) -> Measured:
    config, costs = run.config(), run.costs.read()
    chains = [
        spent for item, spent in costs.items() if item.startswith("chains/") and "shared_seconds" not in spent
    ]
    space = replace(config.network, shape=SHAPE)
    drawn = json.loads((run.path / "genotypes.json").read_text())
    found = [space.cost(space.parse(text)) for text in drawn.values()]
    mean = statistics.fmean(one.multiply_adds for one in found)
    parameters = round(statistics.fmean(one.parameters for one in found))
    weights = config.method(config.methods[0]).weights
    cycle = weights.cycle(config.train.epochs, 1)
    return Measured(
        statistics.fmean(spent["seconds"] for spent in chains),
        [one.multiply_adds / mean for one in found],
        4 * parameters * (1 + len(weights.state)),
        4 * parameters,
        sum(map(cycle.collects_after, range(config.train.epochs))),
        config.engine.stack,
    )


def units_of(facts: Measured, count: int, devices: int, draw: random.Random) -> list[Unit]:
    """So many chains with architectures like the run's, packed as a run packs them; costs in seconds."""
    kind = WEIGHTS["point"].make({})
    specs = [ChainSpec("sampled", kind, number, "") for number in range(count)]
    costs = {spec.name: facts.seconds * draw.choice(facts.relative) for spec in specs}
    return pack(specs, costs, epochs=1, workers=devices, stack=facts.stack)


def slower(size: int, stack: int) -> float:
    """How much longer a chain takes in a smaller stack; between the measured sizes, linear in 1/size."""
    share = (1 / size - 1 / stack) / (1 - 1 / stack) if stack > 1 else 0.0
    return 1 + share * (RATES[10] / RATES[1] - 1)


def simulated(
    facts: Measured, units: Sequence[Unit], devices: int, bandwidth: float, every: float
) -> dict[str, float]:
    """Seconds until the last stack is through, and what goes to the run directory on the way."""
    busy = min(devices, len(units))
    begin = RAY_START + CAPTURE + IMAGES * busy / bandwidth
    free = [begin] * devices
    heapq.heapify(free)
    largest = max(len(unit.items) for unit in units)
    writing = largest * facts.checkpoint * busy / bandwidth  # seconds of one checkpoint, all at once
    for unit in sorted(units, key=lambda one: -one.cost):
        seconds = unit.cost * slower(len(unit.items), facts.stack) * (1 + writing / every)
        heapq.heappush(free, heapq.heappop(free) + seconds)
    chains = sum(len(unit.items) for unit in units)
    return {
        "seconds": max(free),
        "traffic": largest * facts.checkpoint * busy / every,
        "samples": chains * facts.samples * facts.sample,
        "begin": begin,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument(
        "--bandwidth", type=float, default=1e9, help="bytes a second, of the shared file system"
    )
    parser.add_argument("--every", type=float, default=10.0, help="engine.checkpoint_seconds")
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    facts = measured(Run(options.run))
    print(json.dumps({"measured": vars(facts), "assumed bandwidth": options.bandwidth}))
    alone: dict[tuple[int, int], float] = {}
    for count in CHAINS:
        for devices in DEVICES:
            found = []
            for number in range(options.draws):
                units = units_of(facts, count, devices, random.Random(number))
                found.append(simulated(facts, units, devices, options.bandwidth, options.every))
                if devices == 1:
                    alone[count, number] = found[-1]["seconds"]
            shares = [alone[count, n] / devices / one["seconds"] for n, one in enumerate(found)]
            row = {
                "chains": count,
                "devices": devices,
                "simulated": devices > 1 or count > facts.stack,
                "hours": round(statistics.fmean(one["seconds"] for one in found) / 3600, 3),
                "spread": round(statistics.stdev(one["seconds"] for one in found) / 3600, 3),
                "efficiency": round(statistics.fmean(shares), 3),
                "start, s": round(found[0]["begin"]),
                "checkpoints, MB/s": round(found[0]["traffic"] / 1e6),
                "samples, GB": round(found[0]["samples"] / 1e9, 1),
            }
            print(json.dumps(row))


if __name__ == "__main__":
    main()
