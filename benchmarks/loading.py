"""What the checks cost when the ensemble that comes with the package is loaded: with and without them, in turn.

Left out in turn: that a header promises what the file has, and that weights are finite. The checksum stays in both.
"""

import argparse
import json
import statistics
import time

import torch

from uraenas import Run
from uraenas.base import files
from uraenas.ensemble import Member


def seconds() -> float:
    start = time.process_time()
    Run.pretrained().ensemble()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    checks = files._checked_header, Member.is_finite
    unchecked = (lambda path, text, room: json.loads(text)[files.METADATA]), property(lambda member: True)
    found: dict[str, list[float]] = {"checked": [], "unchecked": []}
    seconds()
    for _ in range(options.rounds):
        for name, (header, finite) in {"checked": checks, "unchecked": unchecked}.items():
            files._checked_header, Member.is_finite = header, finite  # type: ignore[method-assign, assignment]
            found[name].append(seconds())
    medians = {name: statistics.median(times) for name, times in found.items()}
    shares = [one / other - 1 for one, other in zip(*found.values(), strict=True)]
    facts = {
        "rounds": options.rounds,
        **{f"{name}, median in ms": round(1e3 * one, 1) for name, one in medians.items()},
        **{f"{name}, least in ms": round(1e3 * min(times), 1) for name, times in found.items()},
        "share of the checks, median": round(statistics.median(shares), 4),
        "quartiles": [round(one, 4) for one in statistics.quantiles(shares)[::2]],
    }
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
