"""Members that are the mean of a chain's samples."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.learning.statistics import measure_statistics
from uraenas.run.config import override
from uraenas.run.directory import Run
from uraenas.run.export import export
from uraenas.run.pipeline import Pipeline

CHAIN = "sampled-sghmc-00"


def chosen(out: Path, source: Run, **changes: object) -> Run:
    """Means from the chains of another run."""
    pipeline = Pipeline.start(out, override(source.config(), changes), chains_of=source)
    pipeline.choose(pipeline.search())
    return pipeline.run


@pytest.fixture(scope="module")
def means(sampled_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return chosen(tmp_path_factory.mktemp("means") / "run", sampled_run, methods="uraenas-swa,drnas")


def test_a_run_has_one_member_from_each_cycle(means: Run, uraenas: Callable) -> None:
    members = means.ensemble("uraenas-swa").members
    origins = [(one.origin.chain, one.origin.cycle, one.origin.epoch, one.origin.samples) for one in members]
    assert origins == [
        (CHAIN, 1, 7, 2),
        ("sampled-sghmc-01", 1, 7, 2),
        (CHAIN, 0, 3, 2),
        ("sampled-sghmc-01", 0, 3, 2),
    ]
    assert {one.kind.name for one in members} == {"swa"}
    assert {one.origin.samples for one in means.ensemble("drnas").members} == {1}
    shown = uraenas("show", means.path, "--members").stdout
    assert shown.count("mean of 2, epoch 7") == shown.count("mean of 2, epoch 3") == 2


def test_its_weights_are_the_mean_and_its_statistics_are_measured_anew(means: Run) -> None:
    member = means.ensemble("uraenas-swa").members[0]
    samples = {one.origin.epoch: one.weights for one in means.chains.samples(CHAIN)}
    torch.testing.assert_close(member.weights, (samples[6] + samples[7]) / 2)
    pipeline = Pipeline.resume(means.path)
    loader = pipeline.task.loader(pipeline.task.train, pipeline.config.train.batch, pipeline.engine)
    key = draws.key(0, "statistics", CHAIN, 1)
    made_of = (member.architecture, member.weights, pipeline.task.space)
    assert torch.equal(member.statistics, measure_statistics(*made_of, loader, pipeline.engine, key, 0))


def test_a_mean_in_the_place_of_a_sample_is_refused(means: Run, tmp_path: Path) -> None:
    run = Run(shutil.copytree(means.path, tmp_path / "run"))
    place = run.chains.sample_path(CHAIN, 7)
    place.unlink()
    shutil.copy(run.members_folder("uraenas-swa") / "000.safetensors", place)
    with pytest.raises(UraenasError, match="is another sample, put in its place"):
        run.chains.samples(CHAIN)


def again(run: Run) -> None:
    """As after a stop that came before the members were vouched for."""
    (run.members_folder("uraenas-swa") / "ensemble.json").unlink()
    pipeline = Pipeline.resume(run.path)
    pipeline.train(pipeline.search())


def test_members_that_were_not_vouched_for_are_made_again_and_the_same(means: Run, tmp_path: Path) -> None:
    run = Run(shutil.copytree(means.path, tmp_path / "run"))
    before = run.ensemble("uraenas-swa").identity
    again(run)
    assert run.ensemble("uraenas-swa").identity == before


@pytest.mark.parametrize("factor", [1e3, 1e25, torch.inf])
def test_a_sample_that_went_astray_is_left_out_of_the_mean(means: Run, tmp_path: Path, factor: float) -> None:
    run = Run(shutil.copytree(means.path, tmp_path / "run"))
    bad = next(one for one in run.chains.samples(CHAIN) if one.origin.epoch == 7)
    space = run.ensemble("uraenas-swa").space
    replace(bad, weights=bad.weights * factor).save(run.chains.sample_path(CHAIN, 7), space)
    again(run)
    member = run.ensemble("uraenas-swa").members[0]
    assert (member.origin.epoch, member.origin.samples) == (6, 1)
    assert "sample dropped" in (run.path / "log.jsonl").read_text()


def test_means_can_be_selected_greedily_and_handed_on_in_half_precision(
    sampled_run: Run, tmp_path: Path
) -> None:
    two = {"ensemble.members": 2, "ensemble.selection": "greedy"}
    run = chosen(tmp_path / "run", sampled_run, methods="uraenas-swa", **two)
    members = run.ensemble("uraenas-swa").members
    assert [one.origin.samples for one in members] == [2, 2]
    copied = export(run, tmp_path / "small").ensemble("uraenas-swa").members
    assert [(one.origin, one.kind) for one in copied] == [(one.origin, one.kind) for one in members]
    torch.testing.assert_close(copied[0].weights, members[0].weights, rtol=1e-3, atol=1e-5)
    assert torch.equal(copied[0].statistics, members[0].statistics)
