"""How accurate, calibrated and wary is the shipped CIFAR-10 ensemble, as it is stored?

    python studies/pretrained.py [--images 10000] [--corrupted 200] [--outside pictures.npz noise.npz]

On the first test images; on so many of each of CIFAR-10-C's 95 cells, each cell its own test images; and of the first
250 images of each file and of the first 1,000 test images, the share called foreign. Predicts in float32 with its
temperature, as every user does: about 20 images a second on one idle x86 core at 2.5 GHz.
"""

import argparse
from collections.abc import Iterator

import numpy as np
import torch

from uraenas import Run, load_dataset
from uraenas.data import LabelledImages
from uraenas.ensemble import Ensemble
from uraenas.evaluation import METRICS
from uraenas.shifts import SUITES, corrupt

SEVERITIES = (3, 1, 5, 2, 4)  # so that a study which is cut off has seen a middle one
APART = 100  # where the images of a cell begin after those of the one before


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=10_000, help="clean ones, from the first on")
    parser.add_argument("--corrupted", type=int, default=0, help="of each corruption and severity")
    parser.add_argument("--outside", nargs="*", default=[], help=".npz files of `images`")
    chosen = parser.parse_args()
    test, ensemble = load_dataset("cifar10").test, Run.pretrained("cifar10").ensemble()
    if chosen.images:
        show("clean", measured(ensemble, test.take(np.arange(chosen.images))))
    if chosen.corrupted:
        rows = []
        for name, part in cells(test, chosen.corrupted):
            rows.append(measured(ensemble, part))
            show(name, rows[-1])
        show(f"mean of {len(rows)}", {name: float(np.mean([row[name] for row in rows])) for name in rows[0]})
    sets = {file: np.load(file)["images"][:250] for file in chosen.outside}
    for name, images in {**sets, "test": test.images[:1000]}.items() if sets else ():
        print(
            f"{name}: {100 * ensemble.is_foreign(images).mean():.1f} % of {len(images)} foreign", flush=True
        )


def cells(test: LabelledImages, count: int) -> Iterator[tuple[str, LabelledImages]]:
    """Each corruption at each severity, of `count` test images."""
    places = [(severity, name) for severity in SEVERITIES for name in SUITES["cifar10-c"]]
    for number, (severity, name) in enumerate(places):
        part = test.take((np.arange(count) + APART * number) % len(test))
        yield f"{name} {severity}", LabelledImages(corrupt(part.images, name, severity, seed=0), part.labels)


def measured(ensemble: Ensemble, part: LabelledImages) -> dict[str, float]:
    log_p = torch.from_numpy(np.log(np.maximum(ensemble.predict_proba(part.images), 1e-12)))
    return {name: METRICS[name](log_p, torch.from_numpy(part.labels)) for name in ("accuracy", "ece", "nll")}


def show(name: str, values: dict[str, float]) -> None:
    print(f"{name}: " + ", ".join(f"{metric} {value:.4f}" for metric, value in values.items()), flush=True)


if __name__ == "__main__":
    main()
