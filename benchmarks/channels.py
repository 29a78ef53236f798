"""How fast a stack trains by `network.channels`, on one GPU: own kernels where they fit, beside PyTorch's operations.

    python benchmarks/channels.py [--channels 8 16 24 32 48 64 128] [--members 10] [--json]

Random images, batch 256 per member, five cells per stage, likely genotypes. Where the members do not fit into memory,
half of them are tried. `loss` is the mean of all steps and members: the two ways should agree about it.
"""

import argparse
import json
import sys
import time
from typing import Any

import torch
from random_stack import BATCH, captured_stack, genotypes, milliseconds

from uraenas.engine import Engine, EngineSettings, naming_want_of_memory
from uraenas.spaces import CellSpace

Row = dict[str, Any]
COLUMNS = {  # heading and format, by key
    "channels": ("channels", ">8"),
    "way": ("way", "<12"),
    "members": ("members", ">8"),
    "milliseconds": ("ms a step", ">10.2f"),
    "spread": ("spread", ">8.2f"),
    "member_images_per_second": ("images/s", ">10,.0f"),
    "memory_gb": ("GB", ">7.1f"),
    "ready_seconds": ("ready, s", ">9.1f"),
    "loss": ("loss", ">7.3f"),
}


def measure(channels: int, kernels: bool, members: int) -> Row | None:
    """One row, of as many members as fit into memory; None where own kernels were asked for and do not fit."""
    engine = Engine(EngineSettings(device="cuda", kernels=kernels))
    space = CellSpace(channels=channels)
    if why := engine.why_no_kernels(space):
        print(f"{channels} channels, own kernels: {why}", file=sys.stderr)
        return None
    way = "own kernels" if kernels else "PyTorch"
    while True:
        engine.release_memory()
        torch.cuda.reset_peak_memory_stats()
        try:
            with naming_want_of_memory():
                return {"channels": channels, "way": way} | timed(space, engine, members)
        except torch.OutOfMemoryError:
            print(f"{channels} channels, {way}: {members} members do not fit into memory", file=sys.stderr)
            if members == 1:
                raise
        members //= 2


def timed(space: CellSpace, engine: Engine, members: int) -> Row:
    """Captured steps of so many members."""
    start = time.perf_counter()
    stack = captured_stack(genotypes("likely", members, space), space, engine)
    ready = time.perf_counter() - start
    median, spread = milliseconds(stack.one_step)
    return {
        "members": members,
        "milliseconds": median,
        "spread": spread,
        "member_images_per_second": 1e3 * members * BATCH / median,
        "memory_gb": torch.cuda.max_memory_allocated() / 1e9,
        "ready_seconds": ready,
        "loss": float(stack.losses.mean() / stack.step),
    }


def line(row: Row) -> str:
    return " ".join(format(row[key], form) for key, (_, form) in COLUMNS.items())


def heading() -> str:
    words = ((words, form.split(".")[0].rstrip(",")) for words, form in COLUMNS.values())
    return " ".join(format(word, form) for word, form in words)


def main() -> None:
    """Measure every width in both ways, and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--channels", type=int, nargs="+", default=[8, 16, 24, 32, 48, 64, 128])
    parser.add_argument("--members", type=int, default=10, help="at most so many side by side")
    parser.add_argument("--json", action="store_true", help="rows for machines")
    options = parser.parse_args()
    rows: list[Row] = []
    for channels in options.channels:
        for kernels in (True, False):
            if row := measure(channels, kernels, options.members):
                rows.append(row)
                print(line(row), file=sys.stderr, flush=True)
    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    if options.json:
        print(json.dumps({**machine, "rows": rows}, indent=1))
        return
    print(", ".join(machine.values()), heading(), *map(line, rows), sep="\n")


if __name__ == "__main__":
    main()
