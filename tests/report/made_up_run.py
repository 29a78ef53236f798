"""Runs made up in a temporary directory: the files of a real one, without training anything."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from uraenas.architectures import Dirichlet, Searched
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Normalisation
from uraenas.ensemble import Ensemble, Kind, Member, Origin, Owner
from uraenas.evaluation import Cell, EvaluationSet, Evaluator, Judged, summarise
from uraenas.run.config import Config, build, measuring
from uraenas.run.directory import Run
from uraenas.run.facts import DataFacts
from uraenas.spaces import Architecture, Shape, Space

SHIFTS = ("gaussian_noise", "contrast")
Source = tuple[Run, LabelledImages]
MakeRun = Callable[..., Source]


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
    same_shifts: bool = False,  # the rows of all shifts are equal, which saves time where their number matters
    space: str = "nasbench201",
) -> Source:
    generator = torch.Generator().manual_seed(seed)
    run, test = Run(path), _test_set(images, classes, side, seed)
    config = build(
        {
            "seed": seed,
            "methods": methods,
            "network.space": space,
            "network.channels": 1,
            "network.cells": 1,
            "evaluate.bootstrap": bootstrap,
            "evaluate.subsets": 2,
            "evaluate.severities": severities,
        }
    )
    of_images = replace(config.network, shape=Shape(side, side, 3, classes))
    run.write_config(config)
    run.write_environment({"uraenas": "0.1.0", "device": "test"})
    names = ("class <0> & co", *(f"class {k}" for k in range(1, classes)))
    run.write_data(DataFacts(names, (side, side, 3), False, 0, 900, 100, images, f"{images:04x}"))
    kinds = {name: _members(run, config, name, members, of_images, generator) for name in methods}
    evaluator, cells = Evaluator(config.evaluate, seed), []
    for place in [("none", 0), *((shift, s) for shift in shifts for s in severities)]:
        if same_shifts and len(cells) > 1:
            cells.append(_elsewhere(cells[1], *place))
            continue
        judged = {
            name: Judged(_predictions(test, classes, len(kind[0]), place[1], generator), *kind, 1.3)
            for name, kind in kinds.items()
        }
        cells.append(evaluator.cell(EvaluationSet("demo", *place, test), judged))
        if keep_predictions and place[0] == "none":
            for name, one in judged.items():
                file = run.predictions_file(name, "demo")
                run.write_tensors(file, {"log_probabilities": one.log_probabilities_MNK}, {})
    metrics, replicates = summarise(cells)
    run.write_outcome(replace(metrics, settings=measuring(config)), replicates)
    _search(run, of_images, generator)
    return run, test


def _test_set(images: int, classes: int, side: int, seed: int) -> LabelledImages:
    draw = np.random.default_rng(seed)
    pixels = draw.integers(0, 256, (images, side, side, 3), dtype=np.uint8)
    return LabelledImages(pixels, draw.integers(0, classes, images))


def _members(
    run: Run, config: Config, name: str, members: int, space: Space, generator: torch.Generator
) -> tuple[list[str], list[str]]:
    """The functions and the chains of a method's members, whose files and costs are written."""
    method = config.method(name)
    functions, chains, made = [], [], []
    for m in range(1 if method.row.single else members):
        expected = space.architecture([(3, 1, 3, 2)[d % 4] for d in range(len(space.decisions))])
        architecture = expected if method.row.source == "expected" else _drawn(space, generator)
        origin = Origin(f"{method.chains}{m:02d}", 1, 0, 10)
        kind = Kind.of(method.row.weights, method.weights)
        weights = kind.layout(space.weight_layout(architecture))
        sizes = (weights.size, space.statistics_layout(architecture).size)
        member = Member(architecture, *map(torch.zeros, sizes), origin, kind)
        made.append(member)
        functions.append(space.canonical(architecture))
        chains.append(origin.chain)
    units = Normalisation((0.0,) * 3, (1.0,) * 3)
    names = tuple(f"class {k}" for k in range(space.shape.classes))
    Ensemble(tuple(made), space, units, names).save(run.members_folder(name), owner=Owner(run.identity, name))
    run.costs.add({f"chains/{chain}": {"seconds": 2.5, "images": 1000} for chain in chains})
    run.costs.add({f"members/{name}": {"seconds": 1.2}})
    run.write_losses({chain: [2.3, 1.5 + 0.1 * number, 1.1] for number, chain in enumerate(chains)})
    return functions, chains


def _drawn(space: Space, generator: torch.Generator) -> Architecture:
    options = [len(decision.options) for decision in space.decisions]
    return space.architecture([int(torch.randint(most, (1,), generator=generator)) for most in options])


def _predictions(
    test: LabelledImages, classes: int, members: int, severity: int, generator: torch.Generator
) -> torch.Tensor:
    """Members that see the label through noise; the more of it, the higher the severity."""
    logits = torch.randn(members, len(test), classes, generator=generator) * (1 + 0.3 * severity)
    logits[:, torch.arange(len(test)), torch.from_numpy(test.labels)] += 2.5
    return torch.log_softmax(logits, dim=-1)


def _elsewhere(cell: Cell, shift: str, severity: int) -> Cell:
    rows = [row._replace(shift=shift, severity=severity) for row in cell.rows]
    return replace(cell, shift=shift, severity=severity, rows=rows)


def _search(run: Run, space: Space, generator: torch.Generator) -> None:
    options = [len(decision.options) for decision in space.decisions]
    raw = torch.rand(len(options), max(options), generator=generator, dtype=torch.float64) * 3.8 - 1.6
    uniform = -sum(math.lgamma(most) for most in options)
    history: list[dict[str, Any]] = [
        {"epoch": k, "entropy": uniform - k, "validation_loss": 2.0 - 0.1 * k, "train_loss": 1.5}
        for k in range(4)
    ]
    run.write_searched(Searched(space, Dirichlet(), {"raw": raw}, history), "dirichlet", epochs=4, seed=0)
    run.costs.add({"search": {"seconds": 7.0, "images": 4000}})
