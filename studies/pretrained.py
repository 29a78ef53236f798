"""How accurate, calibrated and wary is a shipped CIFAR-10 model, as it is stored?

    python studies/pretrained.py [--run cifar10] [--images 10000] [--corrupted 200] [--outside pictures.npz noise.npz]
    python studies/pretrained.py --file cifar10-one.onnx    # of an exported file

On the first test images, with the mean uncertainty by source; on so many of each of CIFAR-10-C's 95 cells, each cell
its own test images; and of the first 250 images of each file and of the first 1,000 test images, the share called
foreign. Predicts with its temperature, as every user does: ten members in float32 about 20 images a second on one idle
x86 core at 2.5 GHz.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import torch

from uraenas import Run, load_dataset
from uraenas.data import LabelledImages
from uraenas.deploy import Exported
from uraenas.ensemble.held_out import SHARE
from uraenas.evaluation import METRICS, SOURCES
from uraenas.shifts import SUITES, corrupt

Says = Callable[
    [np.ndarray], dict[str, np.ndarray]
]  # probabilities [N, K]; p-values and uncertainty by source [N]

SEVERITIES = (3, 1, 5, 2, 4)  # so that a study which is cut off has seen a middle one
APART = 100  # where the images of a cell begin after those of the one before


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", default="cifar10", help="of the package, or a directory")
    parser.add_argument("--file", default="", help="an ONNX file in place of a run")
    parser.add_argument("--images", type=int, default=10_000, help="clean ones, from the first on")
    parser.add_argument("--corrupted", type=int, default=0, help="of each corruption and severity")
    parser.add_argument("--outside", nargs="*", default=[], help=".npz files of `images`")
    chosen = parser.parse_args()
    test = load_dataset("cifar10").test
    says = by_file(chosen.file) if chosen.file else by_run(chosen.run)
    if chosen.images:
        show("clean", measured(says, test.take(np.arange(chosen.images))))
    if chosen.corrupted:
        rows = []
        for name, part in cells(test, chosen.corrupted):
            rows.append(measured(says, part))
            show(name, rows[-1])
        show(f"mean of {len(rows)}", {name: float(np.mean([row[name] for row in rows])) for name in rows[0]})
    sets = {file: np.load(file)["images"][:250] for file in chosen.outside}
    for name, images in {**sets, "test": test.images[:1000]}.items() if sets else ():
        foreign = (says(images)["p_value"] <= SHARE).mean()
        print(f"{name}: {100 * foreign:.1f} % of {len(images)} foreign", flush=True)


def by_run(name: str) -> Says:
    ensemble = Run.find(name).ensemble()
    measures = ensemble.measures

    def says(images: np.ndarray) -> dict[str, np.ndarray]:
        members, p_value = ensemble.look(images)
        split = measures.split(members, ensemble.functions)
        probabilities = measures.scaled(measures.mean(members), ensemble.temperature).exp()
        found = {source: getattr(split, source).numpy() for source in SOURCES}
        return {"probabilities": probabilities.numpy(), "p_value": np.asarray(p_value), **found}

    return says


def by_file(path: str) -> Says:
    model = Exported(path)

    def says(images: np.ndarray) -> dict[str, np.ndarray]:
        parts = [model(part) for part in np.array_split(images, max(1, len(images) // 256))]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    return says


def cells(test: LabelledImages, count: int) -> Iterator[tuple[str, LabelledImages]]:
    """Each corruption at each severity, of `count` test images."""
    places = [(severity, name) for severity in SEVERITIES for name in SUITES["cifar10-c"]]
    for number, (severity, name) in enumerate(places):
        part = test.take((np.arange(count) + APART * number) % len(test))
        yield f"{name} {severity}", LabelledImages(corrupt(part.images, name, severity, seed=0), part.labels)


def measured(says: Says, part: LabelledImages) -> dict[str, float]:
    found = says(part.images)
    log_p = torch.from_numpy(np.log(np.maximum(found["probabilities"], 1e-12)))
    labels = torch.from_numpy(part.labels)
    figures = {name: METRICS[name](log_p, labels) for name in ("accuracy", "ece", "nll")}
    return {**figures, **{source: float(found[source].mean()) for source in SOURCES}}


def show(name: str, values: dict[str, float]) -> None:
    print(f"{name}: " + ", ".join(f"{metric} {value:.4f}" for metric, value in values.items()), flush=True)


if __name__ == "__main__":
    main()
