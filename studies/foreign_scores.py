"""Every score by which an image may look foreign, alone and joined, of one run's ensemble: which should be the default?

    python studies/foreign_scores.py RUN METHOD NAME=FILE.npz … [--choose] [--save SCORES.npz]

AUROC against the test images (with --choose against held-out ones, so that choices leave the test images alone) and, in
brackets, the share turned away at 5 % of the held-out images. Scores: what the prediction says (1 − probability, total
uncertainty, mutual information, energy), and distances at the first and last level of the members' networks:
Mahalanobis to the nearest class, that less the distance to all images (relative), to the tenth nearest neighbour of
unit features, and to the neighbour that one in 25 training images is nearer than, by all members' last features as one
vector (neighbours). `a + b` joins two by Fisher's sum of log ranks.
"""

import argparse
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.covariance import ledoit_wolf
from torch import Tensor

from uraenas import Run
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import MembersPredictor
from uraenas.evaluation.metrics import separation
from uraenas.run import location
from uraenas.run.task import prepare

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
JOINED = (
    "total + first + last",
    "total + first + last + relative",
    "total + first + relative + relative",
    "energy + first + last + relative",
    "energy + first + relative",
    "total + energy + first + last + relative",
    "total + last",
    "energy + first + last",
    "energy + last",
    "total + relative",
    "total + first + relative",
    "total + first + kNN",
    "total + kNN",
    "total + total + first + last",
    "total + energy + first + last",
)


class WithLogits(MembersPredictor):
    """Logits in place of log-probabilities: energy needs them."""

    def _log_p(self, logits_SNK: Tensor, group: Sequence[Sequence[int]]) -> Tensor:
        return logits_SNK.float()


def mahalanobis(features: Tensor, means: Tensor, precision: Tensor) -> Tensor:
    apart = features[:, None] - means
    return torch.einsum("nkf,fg,nkg->nk", apart, precision, apart).amin(dim=1)


def fitted(features: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Means of the classes with the inverse covariance within them, and the same of all images."""
    found = []
    for groups in (labels, torch.zeros_like(labels)):
        _, places = groups.unique(return_inverse=True)
        means = torch.stack([features[places == k].mean(dim=0) for k in range(int(places.max()) + 1)])
        covariance, _ = ledoit_wolf((features - means[places]).cpu().numpy(), assume_centered=True)
        found.append((means, torch.linalg.inv(torch.from_numpy(covariance).double().to(DEVICE))))
    return found


def unit(features: Tensor) -> Tensor:
    return features / features.norm(dim=1, keepdim=True)


def to_neighbour(which: int, new: Tensor, known: Tensor) -> Tensor:
    """The distance to the nearest, second nearest, …"""
    return torch.cdist(new, known).kthvalue(which, dim=1).values


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="a run directory, or cifar10, which comes with the package")
    parser.add_argument("method")
    parser.add_argument("sets", nargs="*", metavar="NAME=FILE.npz")
    parser.add_argument("--choose", action="store_true", help="compare with held-out images")
    parser.add_argument("--save", help="keep the scores of every image in this file, as SET/SCORE")
    given = parser.parse_args()
    run = Run(location.found(given.run))
    ensemble, task = run.ensemble(given.method), prepare(run.config())
    engine = Engine(EngineSettings(device=DEVICE, precision="float32"))
    predictor = WithLogits(ensemble.members, ensemble.space, ensemble.normalisation, engine)
    random = np.random.default_rng(0)
    train = random.permutation(len(task.train))[:5000]
    images = {"held out": task.held_out.images}
    if not given.choose:
        images["test"] = task.dataset.test.images
    own = "held out" if given.choose else "test"
    shape = task.dataset.test.images.shape[1:]  # grey images may be stored without a channel
    for other in given.sets:
        name, file = other.split("=")
        images[name] = np.load(file)["images"].reshape(-1, *shape)
    seen = predictor.look(task.train.images[train])[1]
    labels = torch.from_numpy(task.train.labels[train]).to(DEVICE)
    levels = [[level.double().to(DEVICE) for level in member] for member in seen]
    gauss = [[fitted(level, labels) for level in member] for member in levels]
    together = unit(torch.cat([member[1] for member in levels], dim=1))
    scores: dict[str, dict[str, np.ndarray]] = {}
    for name, these in images.items():
        logits, features = predictor.look(these)
        p = logits.double().softmax(dim=-1)
        mean = p.mean(dim=0)
        entropy = torch.special.entr(mean).sum(dim=-1)
        found = {
            "1 − p": 1 - mean.amax(dim=-1),
            "total": entropy,
            "mutual": entropy - torch.special.entr(p).sum(dim=-1).mean(dim=0),
            "energy": -logits.double().logsumexp(dim=-1).mean(dim=0),
        }
        for m, member in enumerate(features):
            for place, word in ((0, "first"), (1, "last")):
                new = member[place].double().to(DEVICE)
                near, all_ = (mahalanobis(new, *one) for one in gauss[m][place])
                parts = {word: near}
                if word == "last":
                    parts |= {
                        "relative": near - all_,
                        "kNN": to_neighbour(10, unit(new), unit(levels[m][place])),
                    }
                for word_, value in parts.items():
                    found[word_] = found.get(word_, 0) + value.cpu() / len(features)
        joint = unit(torch.cat([member[1].double() for member in features], dim=1).to(DEVICE))
        found["neighbours"] = to_neighbour(1 + len(together) // 25, joint, together).cpu()
        scores[name] = {word: value.numpy() for word, value in found.items()}
    if given.save:
        kept = {f"{name}/{word}": value for name, of_set in scores.items() for word, value in of_set.items()}
        np.savez(given.save, **kept)  # type: ignore[arg-type]
    for words in JOINED:
        for of_set in scores.values():
            of_set[words] = np.sum(
                [
                    -np.log(1 + len(held) - np.searchsorted(np.sort(held), of_set[word]))
                    for word, held in ((word, scores["held out"][word]) for word in words.split(" + "))
                ],
                axis=0,
            )
    names = [name for name in images if name not in ("held out", "test")]
    print("| score |", " | ".join(names), "| false alarms |")
    for word, held in scores["held out"].items():
        limit = np.quantile(held, 0.95)
        cells = []
        for name in names:
            ours, theirs = (torch.from_numpy(scores[one][word]) for one in (own, name))
            turned_away = 100 * (scores[name][word] > limit).mean()
            cells.append(f"{100 * separation(ours, theirs)['auroc']:.1f} ({turned_away:.0f})")
        print(
            f"| {word} |",
            " | ".join(cells),
            f"| {100 * (scores[own][word] > limit).mean():.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
