"""The shipped CIFAR-10 ensemble as it is stored, on the test images: accuracy, ECE, NLL. 13 minutes on two ARM cores.

python benchmarks/pretrained.py [--images N]
"""

import argparse

import numpy as np
import torch

from uraenas import Run, calibration, load_dataset, metrics


def main() -> None:
    """Predict in float32, as every user does, and print the figures as predicted and temperature-scaled."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=10_000)
    count = parser.parse_args().images
    test = load_dataset("cifar10").test.take(np.arange(count))
    ensemble = Run.pretrained("cifar10").ensemble()
    raw = metrics.mixture(ensemble.member_log_probabilities(test.images))
    labels = torch.from_numpy(test.labels)
    scaled = calibration.scale(raw, ensemble.temperature)
    for words, prediction in (("as predicted", raw), (f"temperature {ensemble.temperature:.3f}", scaled)):
        values = {name: metrics.METRICS[name](prediction, labels) for name in ("accuracy", "ece", "nll")}
        print(f"{words}: " + ", ".join(f"{name} {value:.4f}" for name, value in values.items()))


if __name__ == "__main__":
    main()
