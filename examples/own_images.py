"""Train on a folder of images with one sub-folder per class, then predict and find the doubtful ones.

    python examples/own_images.py [FOLDER]

Without a folder, one is made from scikit-learn's digits, so that the example runs as it stands.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline


def digits_as_folder(root: Path) -> Path:
    """600 small PNG files in ten sub-folders."""
    digits = load_digits()
    for number, (image, label) in enumerate(zip(digits.images[:600], digits.target[:600], strict=True)):
        folder = root / f"digit {label}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(image * 255 / 16)).save(folder / f"{number:04d}.png")
    return root


what, _, without = (__doc__ or "").partition("\n\n    python examples/own_images.py [FOLDER]\n\n")
parser = argparse.ArgumentParser(description=what, epilog=without)
parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="one sub-folder per class")
given = parser.parse_args().folder

with tempfile.TemporaryDirectory() as scratch:
    folder = given or digits_as_folder(Path(scratch) / "images")
    config = preset(
        "digits",
        {
            "data.name": str(folder),
            "data.image_size": 32 if given else 8,
            "methods": "uraenas",
            "ensemble.members": 4,
            "train.sampled.architectures": 2,
            "train.epochs": 24,
            "search.epochs": 8,
            "evaluate.suite": "none",
        },
    )
    pipeline = Pipeline.start(Path(scratch) / "run", config)
    with pipeline.run.held():
        pipeline.train(pipeline.search())
        metrics = pipeline.evaluate()

    ensemble, test = pipeline.run.ensemble("uraenas"), pipeline.task.dataset.test
    accuracy = next(
        row.value for row in metrics.rows if row.metric == "accuracy" and row.members == len(ensemble)
    )
    print(f"{ensemble}: test accuracy {accuracy:.3f} on {len(test)} images")
    uncertainty = ensemble.uncertainty(test.images)
    names = test.names or [f"image {number}" for number in range(len(test))]
    print("least certain images (total, data, weights, architecture):")
    for number in uncertainty.total.argsort(descending=True)[:5].tolist():
        parts = (uncertainty.total, uncertainty.data, uncertainty.weights, uncertainty.architecture)
        print("  " + "  ".join(f"{float(part[number]):.3f}" for part in parts) + f"  {names[number]}")
