"""Runs made up in a temporary directory: the files of a real one, without training anything."""

from pathlib import Path

import numpy as np
import torch

from uraenas.architecture import ArchitectureDistribution
from uraenas.data.dataset import LabelledImages
from uraenas.evaluate import EvaluateSettings, EvaluationSet, Evaluator, Judged
from uraenas.base.files import write_tensors
from uraenas.methods import METHODS
from uraenas.run import Run
from uraenas.spaces import Genotype
from uraenas.summarise import summarise

SHIFTS = ("gaussian_noise", "contrast")
Source = tuple[Run, LabelledImages]


def write_run(
    path: Path,
    methods: tuple[str, ...] = ("drnas", "uraenas", "deep-ensemble"),
    members: int = 3,
    images: int = 120,
    classes: int = 10,
    shifts: tuple[str, ...] = SHIFTS,
    severities: tuple[int, ...] = (1, 5),
    bootstrap: int = 20,
    keep_predictions: bool = True,
    seed: int = 0,
    side: int = 8,
    shifted_images: int | None = None,  # fewer than on the clean set save time; the page cannot tell
) -> Source:
    generator = torch.Generator().manual_seed(seed)
    run, test = Run(path), _test_set(images, classes, side, seed)
    names = [f"class <{k}> & co" if k == 0 else f"class {k}" for k in range(classes)]
    settings = EvaluateSettings(bootstrap=bootstrap, subsets=2, severities=severities)
    kinds = {name: _members(run, name, members, generator) for name in methods}
    evaluator, cells = Evaluator(settings, seed), []
    for place in [("none", 0), *((shift, s) for shift in shifts for s in severities)]:
        part = test if place[0] == "none" else test.take(np.arange(shifted_images or images))
        where = EvaluationSet("demo", *place, part)
        judged = {
            name: Judged(_predictions(part, classes, len(kind[0]), place[1], generator), *kind, 1.3)
            for name, kind in kinds.items()
        }
        cells.append(evaluator.cell(where, judged))
        if keep_predictions and place[0] == "none":
            for name, one in judged.items():
                file = f"methods/{name}/predictions/demo.safetensors"
                run.write_tensors(file, {"log_probabilities": one.log_probabilities_MNK}, {})
    run.write_outcome(*summarise(cells))
    _describe(run, methods, names, images, bootstrap, seed, side)
    _search(run, generator)
    return run, test


def _test_set(images: int, classes: int, side: int, seed: int) -> LabelledImages:
    draw = np.random.default_rng(seed)
    pixels = draw.integers(0, 256, (images, side, side, 3), dtype=np.uint8)
    return LabelledImages(pixels, draw.integers(0, classes, images))


def _members(run: Run, method: str, members: int, generator: torch.Generator) -> tuple[list, list]:
    row = METHODS[method]
    genotypes, chains = [], []
    expected = Genotype.from_indices((3, 1, 3, 1, 4, 2))
    for m in range(1 if row.single else members):
        drawn = Genotype.from_indices(torch.randint(5, (6,), generator=generator).tolist())
        genotypes.append(expected if row.architecture == "expected" else drawn)
        chains.append(f"{row.architecture}-{row.weights}-{m:02d}")
        header = {"genotype": str(genotypes[-1]), "chain": chains[-1], "epoch": "1"}
        write_tensors(run.members_folder(method) / f"{m:03d}.safetensors", {"w": torch.zeros(1)}, header)
    run.costs.add({f"chains/{chain}": {"seconds": 2.5, "images": 1000} for chain in chains})
    run.costs.add({f"members/{method}": {"seconds": 1.2}})
    return genotypes, chains


def _predictions(
    test: LabelledImages, classes: int, members: int, severity: int, generator: torch.Generator
) -> torch.Tensor:
    """Members that see the label through noise; the more of it, the higher the severity."""
    logits = torch.randn(members, len(test), classes, generator=generator) * (1 + 0.3 * severity)
    logits[:, torch.arange(len(test)), torch.from_numpy(test.labels)] += 2.5
    return torch.log_softmax(logits, dim=-1)


def _describe(
    run: Run, methods: tuple[str, ...], names: list[str], images: int, bootstrap: int, seed: int, side: int
) -> None:
    config = {"seed": seed, "methods": list(methods), "evaluate.baseline": "deep-ensemble"}
    run.write_json("config.json", {**config, "evaluate.bootstrap": bootstrap, "train.step_size": 0.1})
    run.write_json("environment.json", {"uraenas": "0.1.0", "device": "test"})
    facts = {"classes": names, "image": [side, side, 3], "training_images": 900, "held_out_images": 100}
    run.write_json("data.json", {**facts, "test_images": images, "blake2b": "00"})


def _search(run: Run, generator: torch.Generator) -> None:
    concentration = torch.rand(6, 5, generator=generator, dtype=torch.float64) * 3 + 0.2
    genotype = str(ArchitectureDistribution(concentration).expected_genotype())
    history = [
        {"epoch": k, "entropy": -19.1 - k, "validation_loss": 2.0 - 0.1 * k, "train_loss": 1.5}
        for k in range(4)
    ]
    run.write_tensors(
        "search/architecture.safetensors",
        {"concentration": concentration},
        {"genotype": genotype, "epochs": 4, "history": history},
    )
    run.costs.add({"search": {"seconds": 7.0, "images": 4000}})
