"""Where chains leave out parts in turn, a row is judged by members that were not trained on it, and by no others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from uraenas.data import Dataset, digits
from uraenas.ensemble import Member
from uraenas.run.config import preset
from uraenas.run.members import panels_of, said_by
from uraenas.run.pipeline import Pipeline

CELL = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|skip_connect~1|nor_conv_3x3~2|"


def test_every_row_is_judged_by_the_members_that_left_it_out() -> None:
    fold, numbers = np.array([2, 0, 1, 1, 0, 2, 0]), [0, 1, 2, 3, 4, 5]
    panels = panels_of(numbers, fold, len(fold))
    rows = torch.cat([panel.images for panel in panels])
    assert sorted(rows.tolist()) == list(range(7))
    # Each member says its own number.
    said = said_by(panels, torch.arange(6.0)[:, None, None].expand(6, 7, 1))
    for place, row in enumerate(rows.tolist()):
        assert said[:, place, 0].tolist() == [n for n in numbers if n % 3 == fold[row]]


def test_rows_that_no_chain_has_left_out_are_not_judged_and_panels_are_of_one_size() -> None:
    fold = np.array([0, 1, 2, 0])
    panels = panels_of([0, 3, 1], fold, 4)  # nobody has left out part 2, and two have left out part 0
    assert [panel.members for panel in panels] == [[0, 1], [2]]
    assert torch.cat([panel.images for panel in panels]).tolist() == [0, 3, 1]
    assert said_by(panels, torch.zeros(3, 4, 2)).shape == (1, 3, 2)
    (everyone,) = panels_of([0, 0, 5], None, 4)
    assert (everyone.members, everyone.images.tolist()) == ([0, 1, 2], [0, 1, 2, 3])


def test_what_comes_to_weights_after_training_knows_nothing_of_images_that_the_chain_left_out(
    tmp_path: Path,
) -> None:
    """Statistics of means, and Laplace's Gaussian: turning one part's images around changes only those of others."""
    changes = {
        "methods": "deep-ensemble-swa,laplace",
        "train.expected.genotype": CELL,
        "train.folds": 2,
        "train.epochs": 4,
        "train.sampling.samples": 2,
        "train.sampling.exploration": 0.5,
        "train.point.draws": 1,
        "data.limit": 60,
    }

    def members(name: str, data: Dataset) -> dict[str, list[Member]]:
        pipeline = Pipeline.start(tmp_path / name, preset("tiny", changes), dataset=data)
        fold = pipeline.task.fold
        assert fold is not None
        turned.append(pipeline.task.train.images[fold == 0][:, ::-1])
        pipeline.train(None)
        return {one: list(pipeline.run.ensemble(one).members) for one in pipeline.config.methods}

    data, turned = digits(), list[np.ndarray]()
    as_they_are = members("as they are", data)
    # The images of part 0, wherever they stand among those that the dataset has.
    parts = {image.tobytes() for image in turned[0][:, ::-1]}
    images = data.train.images.copy()
    own = [place for place, image in enumerate(images) if image.tobytes() in parts]
    images[own] = images[own][:, ::-1]
    otherwise = members("turned", replace(data, train=replace(data.train, images=images)))
    assert not np.array_equal(turned[0], turned[1])
    for name, found in as_they_are.items():
        for number, (before, after) in enumerate(zip(found, otherwise[name], strict=True)):
            alike = (
                torch.equal(before.weights, after.weights),
                torch.equal(before.statistics, after.statistics),
            )
            assert alike == ((True, True) if number % 2 == 0 else (False, False)), (name, number)
