"""Other ways to predict with the same members, none of which trains: their figures stand beside the plain ones."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.data.loader import Normalisation
from uraenas.engine import Engine
from uraenas.ensemble.member import Member
from uraenas.ensemble.networks import draw_of, layout_of, weights_of
from uraenas.ensemble.shared import SharedPredictor
from uraenas.ensemble.statistics import measured_statistics
from uraenas.spaces import Space, Stack

BATCH = 500  # images, at most, whose statistics are one batch's


def predicted(
    way: str, predictor: SharedPredictor, images: np.ndarray, flip: bool, padding: int
) -> dict[str, Tensor]:
    """Log-probabilities [M, N, K] by ensemble, in one of the ways of `TEST_TIME`."""
    if way == "statistics":
        return adapted(predictor, images)(images)
    return over_views(predictor, images, flip, padding)


def passes(way: str, flip: bool, padding: int) -> int:
    """How often members see an image in this way."""
    return 2 if way == "statistics" else (5 if padding else 1) * (2 if flip else 1)


def require_possible(ways: Sequence[str], space: Space, flip: bool, padding: int) -> None:
    """Refuse ways in which networks of this space cannot predict images that were trained on like this."""
    if "views" in ways and not (flip or padding):
        raise UraenasError(
            "these are neither mirrored nor moved in training, so they have no other views; leave views out "
            "(evaluate.test_time)"
        )
    some = space.architecture([0] * len(space.decisions))
    if "statistics" in ways and not space.statistics_layout(some).size:
        raise UraenasError("these networks have no batch norm; leave statistics out (evaluate.test_time)")


def over_views(predictor: SharedPredictor, images: np.ndarray, flip: bool, padding: int) -> dict[str, Tensor]:
    """Of each member the mean over views of an image, as training has shown them."""
    total: dict[str, Tensor] = {}
    count = 0
    for view in views(images, flip, padding):
        for name, log_p in predictor(view).items():
            total[name] = torch.logaddexp(total[name], log_p) if name in total else log_p
        count += 1
    return {name: one - np.log(count) for name, one in total.items()}


def views(images: np.ndarray, flip: bool, padding: int) -> Iterator[np.ndarray]:
    """The images [N, H, W, C], moved by half of what training moves them, and all of these mirrored."""
    height, width = images.shape[1:3]
    far = (padding + 1) // 2
    border = np.pad(images, ((0, 0), (far, far), (far, far), (0, 0)))  # black, as in training
    for down, right in dict.fromkeys(((0, 0), (-far, 0), (far, 0), (0, -far), (0, far))):
        moved = border[:, far + down : far + down + height, far + right : far + right + width]
        yield np.ascontiguousarray(moved)
        if flip:
            yield np.ascontiguousarray(moved[:, :, ::-1])


def adapted(predictor: SharedPredictor, images: np.ndarray) -> SharedPredictor:
    """The same members with batch norms that know these images alone, all of them at once; labels are not needed."""
    first = next(iter(predictor.ensembles.values()))
    return predictor.with_members(
        {
            identity: with_statistics_of(images, member, first.space, first.normalisation, predictor.engine)
            for identity, member in predictor.distinct.items()
        }
    )


def with_statistics_of(
    images: np.ndarray, member: Member, space: Space, normalisation: Normalisation, engine: Engine
) -> Member:
    """A member whose batch norms have the statistics of these images.

    A batch is every so-many-th image: all are as large, and have all classes, also where one comes after another.
    """
    forward, where = member.kind.forward, (engine.device, engine.dtype)
    stack = Stack([member.architecture], space, layout_of(member)).to(*where).train()
    normalise = normalisation.on(engine.device, engine.dtype)
    count = -(-len(images) // BATCH)
    batches = (
        normalise(torch.from_numpy(np.array(images[first::count])).to(engine.device))
        for first in range(count)
    )
    drawn = (draw_of(member, engine.device),) if forward else ()
    weights = weights_of([member], space, *where)
    found = measured_statistics(stack, weights, batches, engine, forward, drawn)
    return replace(member, statistics=found.to(member.statistics))
