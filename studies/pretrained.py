"""How accurate and calibrated is the shipped CIFAR-10 ensemble, as it is stored, on the test images?

    python studies/pretrained.py [--images 10000]

Predicts in float32, as every user does. All ten thousand take 13 minutes on two ARM cores.
"""

import argparse

import numpy as np
import torch

from uraenas import Run, load_dataset
from uraenas.evaluation import METRICS, calibration, metrics


def main() -> None:
    """Print accuracy, ECE and NLL, as predicted and temperature-scaled."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=10_000, help="how many, from the first on")
    count = parser.parse_args().images
    test = load_dataset("cifar10").test.take(np.arange(count))
    ensemble = Run.pretrained("cifar10").ensemble()
    raw = metrics.mixture(ensemble.member_log_probabilities(test.images))
    labels = torch.from_numpy(test.labels)
    scaled = calibration.scale(raw, ensemble.temperature)
    for words, prediction in (("as predicted", raw), (f"temperature {ensemble.temperature:.3f}", scaled)):
        values = {name: METRICS[name](prediction, labels) for name in ("accuracy", "ece", "nll")}
        print(f"{words}: " + ", ".join(f"{name} {value:.4f}" for name, value in values.items()))


if __name__ == "__main__":
    main()
