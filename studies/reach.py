"""From which distance on should an image be foreign whatever its ranks? What each answer turns away at 5 %.

    python studies/reach.py RUN METHOD TRAIN.npz:x_train:3000 test=TEST.npz:x_test:3000 NAME=FILE.npz:images:200 …

Each set of images is FILE:ARRAY:COUNT, so many drawn with seed 0. Reach is the distance that so many of the training
images have: 99 in 100; all but one in n + 1, if that is more (taken; n held-out images have ranks); or infinite, which
leaves ranks alone.
"""

import argparse
import math

import numpy as np
import torch

from uraenas import Run
from uraenas.ensemble.joining import conformal_p_values
from uraenas.ensemble.known import REACH, distances_of, reach_of
from uraenas.run import location


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="a run directory, or cifar10, which comes with the package")
    parser.add_argument("method")
    parser.add_argument("train", metavar="FILE:ARRAY:COUNT")
    parser.add_argument("sets", nargs="+", metavar="NAME=FILE:ARRAY:COUNT")
    given = parser.parse_args()
    ensemble = Run(location.found(given.run)).ensemble(given.method)
    known, predictor = ensemble.require_known(), ensemble.plain_predictor("auto")
    random = np.random.default_rng(0)

    def drawn(where: str) -> np.ndarray:
        file, array, count = where.rsplit(":", 2)
        images = np.load(file)[array]
        images = images[..., None] if images.ndim == 3 else images
        return images[np.sort(random.permutation(len(images))[: int(count)])]

    features = predictor.look(drawn(given.train))[1]
    counts = {"99 in 100": round(1 / (1 - REACH)) - 1, "all but one in n + 1": known.images}
    reaches = {name: reach_of(known.seen, features, count) for name, count in counts.items()}
    reaches["ranks alone"] = dict.fromkeys(distances_of(known.seen, features), torch.tensor(math.inf))
    scores = {}
    for named in given.sets:
        name, where = named.split("=", 1)
        scores[name] = known.stacked(known.scores_of(*predictor.look(drawn(where))))
    print("| reach |", " | ".join(scores), "|")
    for name, reach in reaches.items():
        by_score = torch.stack([reach.get(score, torch.tensor(math.inf)).double() for score in known.names])
        stacked = known.stacked(known.scores)
        shares = [
            float((conformal_p_values(stacked, new, by_score, known.ranked) <= 0.05).double().mean())
            for new in scores.values()
        ]
        print(f"| {name} |", " | ".join(f"{100 * share:.1f} %" for share in shares), "|")


if __name__ == "__main__":
    main()
