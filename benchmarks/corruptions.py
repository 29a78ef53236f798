"""Seconds that each corruption takes for n images at all five severities, beside a plain one-image-at-a-time way.

    python benchmarks/corruptions.py [--images 1000] [--plain 10] [--json]

One core; `uraenas corrupt` uses all of them. The plain way is the tests' own, written from the recipe, with its
time scaled from a few images to n.
"""

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np

from uraenas.shifts import SHIFTS, corrupt
from uraenas.shifts.draws import Draws

SEVERITIES = range(1, 6)


def main() -> None:
    """Time every corruption and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1000, help="how many images to time")
    parser.add_argument("--plain", type=int, default=10, help="how many of them the plain way gets")
    parser.add_argument("--json", action="store_true", help="rows for machines")
    arguments = parser.parse_args()
    rows = [row(name, arguments.images, arguments.plain) for name in SHIFTS]
    if arguments.json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    print(f"seconds for {arguments.images} images of 32×32×3 at five severities, one core")
    print(f"{'corruption':<20}{'plain':>10}{'uraenas':>10}{'ratio':>8}")
    for entry in [*rows, total(rows)]:
        print(f"{entry['task']:<20}{entry['plain']:>10.2f}{entry['engine']:>10.2f}{entry['ratio']:>8.1f}")


def row(name: str, count: int, plain_count: int) -> dict:
    """One corruption: seconds of the plain way and of ours."""
    images = pictures(count)
    corrupt(images[:1], name, 1, seed=0)  # reads textures and loads libraries, which is not its time
    start = time.perf_counter()
    for severity in SEVERITIES:
        corrupt(images, name, severity, seed=0)
    ours = time.perf_counter() - start
    plain = plain_seconds(name, images[:plain_count]) * count / plain_count
    return {"task": name, "plain": plain, "engine": ours, "unit": "s", "ratio": plain / ours}


def plain_seconds(name: str, images: np.ndarray) -> float:
    """Seconds of the plain implementation for these images."""
    folder = str(Path(__file__).parents[1] / "tests" / "shifts")
    if folder not in sys.path:
        sys.path.append(folder)
    plain = getattr(importlib.import_module("plain_corruptions"), name)
    start = time.perf_counter()
    for severity in SEVERITIES:
        draws = Draws(0, name, severity)
        for position, image in enumerate(images):
            plain(image, severity, draws.for_image(position))
    return time.perf_counter() - start


def total(rows: list[dict]) -> dict:
    """The whole suite."""
    plain, ours = sum(entry["plain"] for entry in rows), sum(entry["engine"] for entry in rows)
    return {"task": "all 19", "plain": plain, "engine": ours, "ratio": plain / ours}


def pictures(count: int) -> np.ndarray:
    """Smooth random images: corruptions take as long on them as on photographs."""
    coarse = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    return coarse.repeat(4, axis=1).repeat(4, axis=2)


if __name__ == "__main__":
    main()
