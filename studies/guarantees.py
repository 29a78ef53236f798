"""Do prediction sets and promised risks hold on CIFAR-10? The shipped ensemble, a thousand random splits.

    python studies/guarantees.py --predictions predictions.safetensors [--splits 1000] [--out FILE]

Held-out and test images are put together and divided anew, at random: as many held-out images as the run has, half of
them for the temperature and half apart, and the rest to test on. What members predict is computed once and kept in the
file that `--predictions` names; on one CPU core that takes half an hour.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas import Run
from uraenas.base import draws
from uraenas.base.files import read_tensors, write_tensors
from uraenas.ensemble import Ensemble
from uraenas.ensemble.held_out import HeldOut, drawn_apart
from uraenas.evaluation import calibration, conformal, metrics
from uraenas.evaluation.sets import SEED
from uraenas.run.task import prepare
from uraenas.shifts import corrupt

COVERAGES = (0.9, 0.95, 0.99)
RISKS = (0.01, 0.02, 0.05)
CERTAINTY = 0.95
SHIFTS = (("gaussian_noise", 3), ("fog", 3), ("contrast", 3), ("jpeg_compression", 3))
SHIFTED = 500  # of the first test images, under each shift
Figures = dict[str, list[float]]


def predicted(run: Run, path: Path) -> dict[str, Tensor]:
    """The ensemble's mean prediction for held-out, test and shifted images, and their labels."""
    if not path.exists():
        ensemble, task = run.ensemble(), prepare(run.config())
        test = task.dataset.test
        found: dict[str, Tensor] = {}
        parts = {"held-out": (task.held_out.images, task.held_out.labels), "test": (test.images, test.labels)}
        few = test.take(np.arange(SHIFTED))
        for shift, severity in SHIFTS:
            parts[f"{shift}-{severity}"] = (corrupt(few.images, shift, severity, SEED), few.labels)
        for name, (images, labels) in parts.items():
            found |= {f"{name}.log_p": _mean(ensemble, images), f"{name}.labels": torch.from_numpy(labels)}
        write_tensors(path, found, {})
    return read_tensors(path)[0]


def _mean(ensemble: Ensemble, images: np.ndarray) -> Tensor:
    return metrics.mixture(ensemble.member_log_probabilities(images))


def split(log_p: Tensor, labels: Tensor, held_out: int, number: int) -> tuple[HeldOut, float, Tensor]:
    """What one split's held-out images promise, its temperature, and which images are left to test on."""
    order = draws.permutation(draws.at(draws.key(0, "splits"), number), len(labels))
    own, rest = order[:held_out], order[held_out:]
    apart = drawn_apart(held_out, number)
    temperature = calibration.fit_temperature(log_p[own][~apart], labels[own][~apart])
    return HeldOut.of(calibration.scale(log_p[own], temperature), labels[own], apart), temperature, rest


def sets_of(known: HeldOut, probability: Tensor, labels: Tensor, figures: Figures) -> None:
    for coverage in COVERAGES:
        sets = conformal.prediction_sets(probability, known.quantile(coverage))
        covered = sets.gather(1, labels[:, None]).squeeze(1).double()
        sizes = sets.sum(dim=1).double()
        by_class = [float(covered[labels == k].mean()) for k in range(probability.shape[1])]
        _add(figures, f"coverage {coverage:g}", float(covered.mean()))
        _add(figures, f"size {coverage:g}", float(sizes.mean()))
        _add(figures, f"one class {coverage:g}", float((sizes == 1).double().mean()))
        _add(figures, f"least covered class {coverage:g}", min(by_class))


def risks_of(known: HeldOut, probability: Tensor, labels: Tensor, everyone: tuple, figures: Figures) -> None:
    """Errors among the answered: of the split's test images, and of all images, which the split was drawn from."""
    for risk in RISKS:
        threshold = known.threshold(risk, CERTAINTY)
        for name, (p, y) in (("test", (probability, labels)), ("all", everyone)):
            confidence, label = p.max(dim=1)
            answered = confidence >= threshold.confidence
            wrong = (label != y)[answered].double()
            error = float(wrong.mean()) if len(wrong) else 0.0
            _add(figures, f"{name}: error at {risk:g}", error)
            _add(figures, f"{name}: kept at {risk:g}", float(error <= risk))
        _add(
            figures,
            f"answered at {risk:g}",
            float((probability.amax(dim=1) >= threshold.confidence).double().mean()),
        )


def _add(figures: Figures, name: str, value: float) -> None:
    figures.setdefault(name, []).append(value)


def over_splits(stored: dict[str, Tensor], splits: int) -> dict[str, Any]:
    """Mean, standard deviation and range of each figure."""
    log_p = torch.cat([stored["held-out.log_p"], stored["test.log_p"]])
    labels = torch.cat([stored["held-out.labels"], stored["test.labels"]])
    figures: Figures = {}
    for number in range(splits):
        known, temperature, rest = split(log_p, labels, len(stored["held-out.labels"]), number)
        probability = calibration.scale(log_p, temperature).exp()
        sets_of(known, probability[rest], labels[rest], figures)
        risks_of(known, probability[rest], labels[rest], (probability, labels), figures)
    return {
        name: {
            "mean": float(np.mean(values)),
            "deviation": float(np.std(values, ddof=1)),
            "least": min(values),
            "most": max(values),
        }
        for name, values in figures.items()
    }


def as_shipped(run: Run, stored: dict[str, Tensor]) -> dict[str, Any]:
    """What the shipped ensemble's own promises come to, on test images and, without promise, on shifted ones."""
    ensemble = run.ensemble()
    known, found = ensemble.require_known().of_classes, {}
    for name in ("test", *(f"{shift}-{severity}" for shift, severity in SHIFTS)):
        probability = calibration.scale(stored[f"{name}.log_p"], ensemble.temperature).exp()
        labels = stored[f"{name}.labels"]
        figures: Figures = {}
        sets_of(known, probability, labels, figures)
        risks_of(known, probability, labels, (probability, labels), figures)
        own = {key: value[0] for key, value in figures.items() if not key.startswith("all")}
        found[name] = {"images": len(labels), **own}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--predictions", type=Path, required=True, help="where predictions are kept")
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--out", type=Path, help="where to write all figures, as JSON")
    options = parser.parse_args()
    run = Run.pretrained("cifar10")
    stored = predicted(run, options.predictions)
    found = {"splits": options.splits, "over splits": over_splits(stored, options.splits)}
    found["as shipped"] = as_shipped(run, stored)
    for name, row in found["over splits"].items():
        print(
            f"{name:32} {row['mean']:.4f} ± {row['deviation']:.4f}  ({row['least']:.4f} to {row['most']:.4f})"
        )
    for name, row in found["as shipped"].items():
        print(name, {key: round(value, 4) for key, value in row.items()})
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
