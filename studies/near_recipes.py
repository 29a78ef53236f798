"""Which training notices classes that were left out? Four recipes, two members each, in one stack.

    python studies/foreign_sets.py without 3 7 --cifar CIFAR --out FOREIGN
    python studies/near_recipes.py FOREIGN CIFAR 3-7 OUT [--epochs 50] [--set key=value …]

Recipes: with TrivialAugment or without, and with cross-entropy of the logits or of logits of one length (LogitNorm; Wei
and others, 2022), which the package does not have: the loss is changed here. AUROC in percent of held-out images
against 2,000 training images of the classes that were left out: neither is used by the table of results/foreign. Scores
are those of `foreign_scores.py`, by recipe.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from foreign_scores import DEVICE, WithLogits, fitted, mahalanobis
from foreign_sets import cifar
from torch import Tensor

from uraenas import Run
from uraenas.data import targets
from uraenas.engine import Engine, EngineSettings
from uraenas.evaluation.metrics import separation
from uraenas.learning import recipes
from uraenas.run.config import parse_assignments, preset
from uraenas.run.pipeline import Pipeline
from uraenas.run.task import prepare
from uraenas.spaces import Architecture

AUGMENTED, EACH, LENGTH = ("none", "trivial"), 2, 1 / 0.04
MEMBERS = 2 * len(AUGMENTED) * EACH
NORMALISED = [m % 2 == 1 for m in range(MEMBERS)]
KIND = [(m // 2) % len(AUGMENTED) for m in range(MEMBERS)]

_plain_loss = targets.Classes.loss


def _loss(self: targets.Classes, outputs: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """Half of the members' logits have one length."""
    if len(outputs) == MEMBERS and outputs.requires_grad:
        chosen = torch.tensor(NORMALISED).to(outputs.device)[:, None, None]
        unit = torch.nn.functional.normalize(outputs.float(), dim=-1) * LENGTH
        outputs = torch.where(chosen, unit.to(outputs.dtype), outputs)
    return _plain_loss(self, outputs, labels, weights)


def _draw(self: recipes.Same, chains: Mapping[int, Architecture], *_: object) -> list[recipes.Recipe]:
    return [recipes.Recipe(augmentation=(KIND[number] + 0.5) / len(AUGMENTED)) for number in chains]


def scores_of(logits_MNK: Tensor, last: list[Tensor], known: list, theirs: list[Tensor]) -> dict[str, Tensor]:
    """Scores [N] of members together."""
    p = logits_MNK.softmax(dim=-1).mean(dim=0)
    near, whole = (
        torch.stack([mahalanobis(own, *one[k]) for own, one in zip(last, known, strict=True)]) for k in (0, 1)
    )
    neighbour = [
        torch.cdist(_unit(own), _unit(other)).kthvalue(10, dim=1).values
        for own, other in zip(last, theirs, strict=True)
    ]
    return {
        "1 − p": 1 - p.amax(dim=-1),
        "total": torch.special.entr(p).sum(dim=-1),
        "energy": -logits_MNK.logsumexp(dim=-1).mean(dim=0),
        "last": near.mean(dim=0),
        "relative": (near - whole).mean(dim=0),
        "kNN": torch.stack(neighbour).mean(dim=0),
    }


def _unit(features: Tensor) -> Tensor:
    return features / features.norm(dim=1, keepdim=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("foreign", type=Path)
    parser.add_argument("cifar", type=Path)
    parser.add_argument("left_out")
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    targets.Classes.loss, recipes.Same.draw = _loss, _draw  # type: ignore[assignment,method-assign]
    values = {
        "methods": "deep-ensemble",
        "ensemble.members": MEMBERS,
        "data.name": str(given.foreign / f"without-{given.left_out}.npz"),
        "data.flip": "on",
        "train.epochs": given.epochs,
        "train.augmentation": ",".join(AUGMENTED),
        "evaluate.suite": "none",
        "engine.stack": 16,
    }
    config = preset("cifar10-fast", {**values, **parse_assignments(given.set)})
    pipeline = Pipeline.start(given.out, config, search_of=Run.pretrained("cifar10"))
    pipeline.train(pipeline.search())

    ensemble, task = Run(given.out).ensemble("deep-ensemble"), prepare(config)
    engine = Engine(EngineSettings(device=DEVICE, precision="float32"))
    predictor = WithLogits(ensemble.members, ensemble.space, ensemble.normalisation, engine)
    random = np.random.default_rng(0)
    train = random.permutation(len(task.train))[:5000]
    parts = cifar(given.cifar)
    outside = np.isin(parts["y_train"], [int(k) for k in given.left_out.split("-")])
    left = parts["x_train"][random.permutation(np.flatnonzero(outside))[:2000]]

    def look(images: np.ndarray) -> tuple[Tensor, list[Tensor]]:
        logits, features = predictor.look(images)
        return logits.double().to(DEVICE), [own[1].double().to(DEVICE) for own in features]

    labels = torch.from_numpy(task.train.labels[train]).to(DEVICE)
    theirs = look(task.train.images[train])[1]
    known = [fitted(own, labels) for own in theirs]
    seen = [look(images) for images in (task.held_out.images, left)]
    truth = torch.from_numpy(task.held_out.labels).to(DEVICE)
    for kind, word in enumerate(AUGMENTED):
        for normalised in (False, True):
            own = [m for m in range(MEMBERS) if (KIND[m], NORMALISED[m]) == (kind, normalised)]
            right = (seen[0][0][own].argmax(dim=-1) == truth).double().mean()
            ours, others = [known[m] for m in own], [theirs[m] for m in own]
            inside, other = (
                scores_of(logits[own], [last[m] for m in own], ours, others) for logits, last in seen
            )
            cells = [
                f"{name} {100 * separation(inside[name].cpu(), other[name].cpu())['auroc']:.1f}"
                for name in inside
            ]
            loss = "LogitNorm" if normalised else "cross-entropy"
            print(f"{word}, {loss}: accuracy {100 * right:.1f}; {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
