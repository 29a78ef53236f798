"""Do networks that also learn how an image is turned notice more foreign ones? (Hendrycks, 2019; Lee and others, 2020)

    python studies/turned.py make without-3-7.npz turned-3-7.npz [--mirrored] [--choose]
    uraenas run turned-3-7.npz --methods deep-ensemble --set data.flip=off …
    python studies/turned.py judge RUN METHOD NAME=FILE.npz …

`make` turns every image four ways; a label is class · 4 + turn. Mirrored copies stand in for random flips, which would
make a label false. --choose: a tenth of the training images take the place of the test images. `judge` prints the
accuracy, and AUROC of foreign images against the test images, by the upright view alone, whose other turns' logits are
cut off (so it costs what an ordinary network does), and by all four views. Scores are those of `foreign_scores.py`, and
how well an image's turn is told: the mean of −log p(turn).
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from foreign_scores import DEVICE, WithLogits, fitted, mahalanobis
from torch import Tensor

from uraenas import Run
from uraenas.engine import Engine, EngineSettings
from uraenas.evaluation.metrics import separation
from uraenas.run.task import prepare

TURNS = 4
FITTED = 5000  # training images that distances are measured to


def turned(images: np.ndarray, turn: int) -> np.ndarray:
    return np.rot90(images, turn, axes=(1, 2))


def make(source: Path, out: Path, mirrored: bool, choose: bool) -> None:
    with np.load(source) as arrays:
        parts = {name: arrays[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    if choose:
        order = np.random.default_rng(0).permutation(len(parts["y_train"]))
        for name in ("x", "y"):
            known = parts[f"{name}_train"]
            parts[f"{name}_test"], parts[f"{name}_train"] = np.split(known[order], [len(known) // 10])
    found = {}
    for part, copies in (("train", (1, -1) if mirrored else (1,)), ("test", (1,))):
        ways = [(turn, step) for turn in range(TURNS) for step in copies]
        images, labels = parts[f"x_{part}"], parts[f"y_{part}"]
        found[f"x_{part}"] = np.concatenate([turned(images[:, :, ::step], turn) for turn, step in ways])
        found[f"y_{part}"] = np.concatenate([TURNS * labels + turn for turn, _ in ways])
    np.savez(out, **found)  # type: ignore[arg-type]


class Views:
    """What members say of images: log p(class, turn) of each view, and their features."""

    def __init__(self, predictor: WithLogits, images: np.ndarray) -> None:
        self.log_p, self.features = [], []
        for turn in range(TURNS):
            logits, features = predictor.look(np.ascontiguousarray(turned(images, turn)))
            self.log_p.append(logits.double().log_softmax(dim=-1).unflatten(-1, (-1, TURNS))[..., turn])
            self.features.append([[level.double().to(DEVICE) for level in own] for own in features])

    def classes(self, views: int) -> Tensor:
        """p(class), given that these views are turned as they are, the members' mean [N, K]."""
        given = [log_p.softmax(dim=-1).mean(dim=0).log() for log_p in self.log_p[:views]]
        return torch.stack(given).mean(dim=0).softmax(dim=-1)


def scores_of(seen: Views, known: Views, labels: Tensor, views: int) -> dict[str, Tensor]:
    p = seen.classes(views)
    found = {"1 − p": 1 - p.amax(dim=-1), "total": torch.special.entr(p).sum(dim=-1)}
    told = [log_p.logsumexp(dim=-1).exp().mean(dim=0).log() for log_p in seen.log_p[:views]]
    found["turn"] = -torch.stack(told).mean(dim=0)
    for view in range(views):
        for own, theirs in zip(seen.features[view], known.features[view], strict=True):
            for place, word in ((0, "first"), (1, "last")):
                near, whole = (mahalanobis(own[place], *one).cpu() for one in fitted(theirs[place], labels))
                found[word] = found.get(word, 0) + near
                found[f"relative {word}"] = found.get(f"relative {word}", 0) + near - whole
    return found


def judge(run: Run, method: str, sets: list[str]) -> None:
    ensemble, task = run.ensemble(method), prepare(run.config())
    engine = Engine(EngineSettings(device=DEVICE, precision="float32"))
    predictor = WithLogits(ensemble.members, ensemble.space, ensemble.normalisation, engine)
    upright = np.flatnonzero(task.train.labels % TURNS == 0)
    some = np.random.default_rng(0).permutation(upright)[:FITTED]
    labels = torch.from_numpy(task.train.labels[some] // TURNS).to(DEVICE)
    test = task.dataset.test.labels % TURNS == 0
    known, own = Views(predictor, task.train.images[some]), Views(predictor, task.dataset.test.images[test])
    truth = torch.from_numpy(task.dataset.test.labels[test] // TURNS)
    others = {}
    for named in sets:
        name, file = named.split("=")
        images = np.load(file)["images"].reshape(-1, *task.train.images.shape[1:])
        others[name] = Views(predictor, images)
    print("| views | score |", " | ".join(others), "|")
    for views in (1, TURNS):
        right = (own.classes(views).argmax(dim=-1) == truth).double().mean()
        print(f"{views} of {TURNS} views: accuracy {100 * right:.1f}")
        inside = scores_of(own, known, labels, views)
        outside = {name: scores_of(seen, known, labels, views) for name, seen in others.items()}
        for word, score in inside.items():
            cells = [100 * separation(score, theirs[word])["auroc"] for theirs in outside.values()]
            print(f"| {views} | {word} |", " | ".join(f"{cell:.1f}" for cell in cells), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    making, judging = commands.add_parser("make"), commands.add_parser("judge")
    making.add_argument("source", type=Path)
    making.add_argument("out", type=Path)
    making.add_argument("--mirrored", action="store_true")
    making.add_argument("--choose", action="store_true")
    judging.add_argument("run")
    judging.add_argument("method")
    judging.add_argument("sets", nargs="*", metavar="NAME=FILE.npz")
    given = parser.parse_args()
    if given.command == "make":
        make(given.source, given.out, given.mirrored, given.choose)
    else:
        judge(Run(given.run), given.method, given.sets)


if __name__ == "__main__":
    main()
