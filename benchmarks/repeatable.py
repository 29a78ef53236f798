"""What `engine.repeatable` costs on a GPU, where PyTorch's kernels train (12 channels do not fit the own ones).

    python benchmarks/repeatable.py

Two captured stacks of four members, one of each kind, timed in turns.
"""

import argparse
import statistics

from random_stack import captured_stack, genotypes, milliseconds

from uraenas.engine import Engine, EngineSettings
from uraenas.learning.train import StackOfChains
from uraenas.spaces import CellSpace

MEMBERS, STEPS, ROUNDS = 4, 10, 9


def stack(repeatable: bool) -> StackOfChains:
    """Captured before the next engine is made, whose choice of algorithms is for the whole process."""
    space = CellSpace(channels=12)
    engine = Engine(EngineSettings(device="cuda", repeatable=repeatable))
    return captured_stack(genotypes("uniform", MEMBERS, space), space, engine)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    stacks = {"as it comes": stack(False), "repeatable": stack(True)}
    times: dict[str, list[float]] = {name: [] for name in stacks}
    for _ in range(ROUNDS):
        for name, each in stacks.items():
            times[name].append(milliseconds(each.one_step, STEPS)[0])
    for name, found in times.items():
        print(f"{name}: {statistics.median(found):.2f} ms a step, {min(found):.2f} to {max(found):.2f}")


if __name__ == "__main__":
    main()
