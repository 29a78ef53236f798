"""Members that are the mean of a chain's samples."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from test_predict import uraenas
from test_shared_exploration import trained
from uraenas.base import draws
from uraenas.average import BATCHES, mean_of, measure_statistics
from uraenas.data import load_dataset
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import Member, Origin
from uraenas.handover import export
from uraenas.networks import Stack, statistics_layout
from uraenas.spaces import Genotype, Skeleton
from uraenas.stages import Pipeline

CELL = Genotype.from_string(
    "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|skip_connect~1|nor_conv_3x3~2|"
)
ENGINE = Engine(EngineSettings(device="cpu", precision="float64"))
SKELETON = Skeleton(channels=4, cells=1, classes=10, image_channels=1, height=8, width=8)


@pytest.fixture(scope="module")
def loader() -> Loader:
    train = load_dataset("digits").train
    return Loader(train, Normalisation.of(train.images), 64, 1, False, ENGINE.device, ENGINE.dtype)


def sample(number: int, chain: str = "sampled-sampled-00") -> Member:
    stack = Stack([CELL], SKELETON).to(ENGINE.device, ENGINE.dtype)
    stack.initialise([draws.key(number, "weights")])
    return Member(CELL, *stack.take(0), Origin(chain, 10 + number, 0, 100, 1.0))


def test_its_weights_are_the_mean_and_its_statistics_those_of_its_own_maps(loader: Loader) -> None:
    samples = [sample(2), sample(1), sample(0)]
    mean = mean_of(samples, SKELETON, loader, ENGINE, seed=3)
    torch.testing.assert_close(mean.weights, sum(one.weights for one in samples) / 3)
    assert mean.origin == replace(samples[0].origin, samples=3)

    stem = mean.tensors(SKELETON)["stem.weight"]
    drawn = loader.draw([draws.key(3, "statistics", "sampled-sampled-00", 0)], epoch=0)
    batches = [loader.batch_at(drawn, k)[0][0] for k in range(min(BATCHES, loader.steps))]
    maps = [F.conv2d(images, stem, padding=1).movedim(1, 0).flatten(1) for images in batches]
    found = mean.tensors(SKELETON)
    torch.testing.assert_close(found["stem.norm.mean"], torch.stack([m.mean(1) for m in maps]).mean(0))
    torch.testing.assert_close(found["stem.norm.variance"], torch.stack([m.var(1) for m in maps]).mean(0))


def test_statistics_of_a_single_batch_make_prediction_the_same_as_training(loader: Loader) -> None:
    """The whole network: with a batch's own statistics at every norm, it predicts what it computes in training."""
    one = replace_steps(loader, 1)
    member = sample(0)
    statistics = measure_statistics(CELL, member.weights, SKELETON, one, ENGINE, key=5)
    stack = Stack([CELL], SKELETON).to(ENGINE.device, ENGINE.dtype)
    images = one.batch_at(one.draw([5], 0), 0)[0]
    stack.put(0, member.weights, statistics)
    torch.testing.assert_close(
        stack.eval()(images), stack.train()(images), rtol=0.02, atol=0.02
    )  # n and n − 1
    layout = statistics_layout(CELL, SKELETON)
    assert all(value.gt(0).all() for name, value in layout.views(statistics).items() if "variance" in name)


def replace_steps(loader: Loader, steps: int) -> Loader:
    """The same images in so many batches an epoch."""
    copy = object.__new__(Loader)
    copy.__dict__ |= loader.__dict__ | {"steps": steps}
    return copy


def test_one_sample_is_its_own_mean(loader: Loader) -> None:
    alone = sample(0)
    assert mean_of([alone], SKELETON, loader, ENGINE, seed=0) is alone


SETTINGS = {
    "train.epochs": 8,
    "train.cycles": 2,
    "train.exploration": 0.5,
    "train.weight_samples": 4,
    "train.members": 4,
    "train.architectures": 2,
    "train.average_samples": True,
}


def test_a_run_has_one_member_from_each_cycle(tmp_path: Path) -> None:
    run, _ = trained(tmp_path / "run", "uraenas,deep-ensemble", **SETTINGS)
    members = run.ensemble("uraenas").members
    origins = [(one.origin.chain, one.origin.cycle, one.origin.epoch, one.origin.samples) for one in members]
    assert origins == [
        ("sampled-sampled-00", 1, 7, 2),
        ("sampled-sampled-01", 1, 7, 2),
        ("sampled-sampled-00", 0, 3, 2),
        ("sampled-sampled-01", 0, 3, 2),
    ]
    samples = {one.origin.epoch: one.weights for one in run.samples("sampled-sampled-00")}
    torch.testing.assert_close(members[0].weights, (samples[6] + samples[7]) / 2)
    assert {one.origin.samples for one in run.ensemble("deep-ensemble").members} == {1}
    shown = uraenas("show", run.path).stdout
    assert shown.count("mean of 2, epoch 7") == shown.count("mean of 2, epoch 3") == 2

    (run.members_folder("uraenas") / "ensemble.json").unlink()  # cut off before its members were vouched for
    pipeline = Pipeline.resume(tmp_path / "run")
    pipeline.train(pipeline.search())
    again = run.ensemble("uraenas").members
    for one, other in zip(members, again, strict=True):
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(one.statistics, other.statistics)


@pytest.mark.parametrize("factor", [1e3, 1e25, torch.inf])
def test_a_sample_that_went_astray_is_left_out_of_the_mean(tmp_path: Path, factor: float) -> None:
    run, _ = trained(tmp_path / "run", "uraenas", **SETTINGS)
    bad = next(one for one in run.samples("sampled-sampled-00") if one.origin.epoch == 7)
    spoilt = replace(bad, weights=bad.weights * factor)
    spoilt.save(run.sample_path("sampled-sampled-00", 7), run.ensemble("uraenas").skeleton)
    (run.members_folder("uraenas") / "ensemble.json").unlink()
    pipeline = Pipeline.resume(tmp_path / "run")
    pipeline.train(pipeline.search())
    member = run.ensemble("uraenas").members[0]
    assert (member.origin.epoch, member.origin.samples) == (6, 1)
    assert "sample dropped" in (run.path / "log.jsonl").read_text()


def test_means_can_be_selected_greedily_and_handed_on_in_half_precision(tmp_path: Path) -> None:
    run, _ = trained(
        tmp_path / "run", "uraenas", **{**SETTINGS, "train.members": 2, "train.selection": "greedy"}
    )
    members = run.ensemble("uraenas").members
    assert [one.origin.samples for one in members] == [2, 2]
    copied = export(run, tmp_path / "small").ensemble("uraenas").members
    assert [one.origin for one in copied] == [one.origin for one in members]
    torch.testing.assert_close(copied[0].weights, members[0].weights, rtol=1e-3, atol=1e-5)
    assert torch.equal(copied[0].statistics, members[0].statistics)
