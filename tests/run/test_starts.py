"""Chains that start from another run's members."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.data import Dataset, LabelledImages
from uraenas.learning.chains import initial_chain, plan_chains
from uraenas.run.config import override
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.starts import starts_of
from uraenas.spaces import CellSpace, Shape

BEST = CellSpace().parse(
    "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
)


@pytest.fixture
def source(finished_run: Path) -> Run:
    return Run(finished_run)


def other_images(channels: int) -> Dataset:
    """Three classes of 12 × 12 pixels."""
    random = np.random.default_rng(0)
    parts = [
        LabelledImages(
            random.integers(0, 256, (n, 12, 12, channels), dtype=np.uint8), np.arange(n, dtype=np.int64) % 3
        )
        for n in (60, 30)
    ]
    return Dataset("others", *parts, classes=("a", "b", "c"), padding=0, flip=False)


def test_a_run_starts_from_members_with_a_new_head(source: Run, tmp_path: Path) -> None:
    config = override(source.config(), {"train.sampled.start": str(source.path), "methods": "uraenas"})
    pipeline = Pipeline.start(tmp_path / "run", config, dataset=other_images(1))
    specs, _ = plan_chains(
        config.method("uraenas"), config.ensemble, pipeline.task.space, None, 0, pipeline.task.starts
    )
    members = source.ensemble().members
    assert [spec.architecture for spec in specs] == [member.architecture for member in members[: len(specs)]]
    space, theirs = pipeline.task.space, source.ensemble().space
    for spec, member in zip(specs, members, strict=False):
        state = initial_chain(spec, space, 0)
        new = space.weight_layout(spec.architecture).views(state.tensors["weights"])
        old = theirs.weight_layout(spec.architecture).views(member.weights)
        head = {name for name in new if new[name].shape != old[name].shape}
        assert head == {"classifier.weight", "classifier.bias"}
        assert all(torch.equal(new[name], old[name]) for name in set(new) - head)
        assert torch.equal(state.tensors["statistics"], member.statistics)
    assert not pipeline.forecast().seconds["search"]
    assert pipeline.search() is None  # nothing would be drawn from it
    pipeline.train(None)
    assert len(pipeline.run.ensemble("uraenas")) == config.ensemble.members
    assert pipeline.run.chains.names()[0].startswith("sampled-")


def test_networks_that_have_learned_from_what_is_tested_on_now_are_refused(
    source: Run, tmp_path: Path
) -> None:
    """As when images are added to a folder that is divided anew each time."""
    first = other_images(1)
    began = Pipeline.start(
        tmp_path / "first", override(source.config(), {"methods": "uraenas"}), dataset=first
    )
    began.train(began.search())
    config = override(began.config, {"train.sampled.start": str(began.run.path)})
    learned, fresh = began.task.train, other_images(1).test
    unseen = LabelledImages(255 - fresh.images, fresh.labels)

    def going_on(name: str, test: LabelledImages, held_out: LabelledImages) -> Pipeline:
        more = replace(first, train=learned, test=test, validation=held_out)
        return Pipeline.start(tmp_path / name, config, dataset=more)

    with pytest.raises(
        UraenasError, match="has seen 20 of the 20 test images; keep held-out and test images apart"
    ):
        going_on("tested", learned.take(np.arange(20)), unseen)
    with pytest.raises(UraenasError, match="has seen 12 of the 12 held-out images"):
        going_on("held-out", unseen, learned.take(np.arange(12)))
    assert not (tmp_path / "tested").exists()
    going_on("apart", first.test, unseen)  # which nothing was learned from
    others = replace(first, train=LabelledImages(255 - first.train.images, first.train.labels))
    second = Pipeline.start(tmp_path / "second", config, dataset=others)
    second.train(second.search())
    later = override(config, {"train.sampled.start": str(second.run.path)})
    with pytest.raises(UraenasError, match=r"of .*first has seen 20 of the 20 test images"):
        Pipeline.start(tmp_path / "later", later, dataset=replace(others, test=learned.take(np.arange(20))))
    began.run.write_data(replace(began.run.data(), learned=""))  # as it was before there were marks
    going_on("unknown", learned.take(np.arange(20)), unseen)


def test_networks_that_have_seen_what_is_tested_on_now_are_refused_also_where_images_have_another_size(
    source: Run, tmp_path: Path
) -> None:
    random, folder = np.random.default_rng(0), tmp_path / "photos"
    for place in (folder / label / f"{n}.png" for label in ("cat", "dog") for n in range(20)):
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (24, 24), dtype=np.uint8)).save(place)
    own = {"methods": "uraenas", "data.name": str(folder), "data.image_size": 12}
    began = Pipeline.start(tmp_path / "first", override(source.config(), own))
    began.train(began.search())
    config = override(began.config, {"train.sampled.start": str(began.run.path), "data.image_size": 16})
    Pipeline.checked(tmp_path / "larger", config)  # of the same seed, so the same files are held out
    with pytest.raises(UraenasError, match=r"has seen \d of the \d held-out images"):
        Pipeline.checked(tmp_path / "another", override(config, {"seed": 1}))
    with pytest.raises(UraenasError, match=r"search of .* has seen \d of the \d held-out images"):
        Pipeline.checked(
            tmp_path / "another",
            override(began.config, {"data.image_size": 16, "seed": 1}),
            search_of=began.run,
        )
    Image.fromarray(random.integers(0, 256, (24, 24, 3), dtype=np.uint8)).save(folder / "cat" / "a.png")
    with pytest.raises(UraenasError, match=r"has seen \d of the \d (held-out|test) images"):
        Pipeline.checked(tmp_path / "added", config)  # in colour now, and divided anew


def test_colours_become_grey(tmp_path: Path) -> None:
    source = Run.pretrained("cifar10")
    ensemble = source.ensemble()
    (start, *_) = starts_of(source, CellSpace(shape=Shape(28, 28, 1, 10)), 0)
    views = CellSpace(shape=Shape(28, 28, 1, 10)).weight_layout(start.architecture).views(start.weights)
    theirs = ensemble.space.weight_layout(start.architecture).views(ensemble.members[0].weights)
    torch.testing.assert_close(views["stem.weight"], theirs["stem.weight"].sum(dim=1, keepdim=True))
    assert torch.equal(views["classifier.weight"], theirs["classifier.weight"])


@pytest.mark.parametrize("network", [{"cells": 1}, {"channels": 8}, {"cells": 6}])
def test_other_networks_are_refused_with_the_settings_that_fit(network: dict[str, int]) -> None:
    source = Run.pretrained("cifar10")
    with pytest.raises(UraenasError, match=r"--set network.channels=16 --set network.cells=5"):
        starts_of(source, CellSpace(**network), 0)


def test_another_space_is_refused(source: Run) -> None:
    with pytest.raises(UraenasError, match="another space"):
        starts_of(source, CellSpace(nodes=5, name="five"), 0)


def test_chains_of_a_given_architecture_do_not_start_there(source: Run) -> None:
    config = override(source.config(), {"methods": "deep-ensemble", "train.expected.genotype": str(BEST)})
    starts = starts_of(source, source.ensemble().space, 0)
    specs, _ = plan_chains(
        config.method("deep-ensemble"), config.ensemble, source.ensemble().space, None, 0, starts
    )
    assert {spec.architecture for spec in specs} == {BEST}
    assert all(spec.start is None for spec in specs)


def test_what_has_seen_the_images_that_are_held_out_now_is_refused_also_where_folds_have_shown_them(
    source: Run, tmp_path: Path
) -> None:
    """With folds no image is held out from all: neither search nor networks of such a run suit where some are."""
    config = override(source.config(), {"methods": "uraenas"})
    folded = Pipeline.start(tmp_path / "folded", override(config, {"train.folds": 2}), search_of=source)
    folded.train(folded.search())
    with pytest.raises(UraenasError, match=r"search of .* does not fit: train.folds was 2 and is now 0"):
        Pipeline.checked(tmp_path / "run", config, search_of=folded.run)
    start = {"train.sampled.start": str(folded.run.path)}
    with pytest.raises(UraenasError, match=r"training .* does not fit: train.folds was 2 and is now 0"):
        Pipeline.checked(tmp_path / "run", override(config, start))
    for before in (folded.run, source):
        start = {"train.sampled.start": str(before.path), "train.folds": 2}
        with pytest.raises(UraenasError, match="have learned from what chains leave out now"):
            Pipeline.checked(tmp_path / "run", override(config, start))
    Pipeline.checked(tmp_path / "run", override(config, {"train.folds": 3}), search_of=folded.run)
