"""Chains that differ only in how they sample explore once, and end as if each had been alone."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from short_runs import FEW, assert_same_members, trained

from uraenas.learning.chains import ChainSpec, initial_chain
from uraenas.report import build
from uraenas.report.reading import read
from uraenas.report.sections.cost import cost_of
from uraenas.run import forecast
from uraenas.run.checkpoints import Checkpoints, read_chain
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.spaces import CellSpace, Shape
from uraenas.weights import WEIGHTS

STEPS = 8  # of an epoch
METHODS = "uraenas,uraenas-a,drnas,uraenas-w,snapshot"
CHANGES = {"train.epochs": 5, "train.sampling.temperature": 0.1, "ensemble.members": 1}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("runs") / "together", METHODS, **CHANGES)


@pytest.mark.parametrize("method", ["uraenas-a", "uraenas-w", "snapshot"])
def test_members_are_those_of_a_run_with_that_method_alone(
    together: Run, tmp_path: Path, method: str
) -> None:
    own = {key: v for key, v in CHANGES.items() if key in preset("tiny").only(method).values}
    alone = trained(tmp_path / "alone", method, search_of=together, **own)
    assert_same_members(together, alone, method)
    for chain in {member.origin.chain for member in alone.ensemble(method).members}:
        histories = [read_chain(run, chain).history for run in (together, alone)]
        assert histories[0] == histories[1]


def test_kinds_differ_after_their_exploration(together: Run) -> None:
    point, sampled = (together.ensemble(method).members[0] for method in ("uraenas-a", "uraenas"))
    assert point.architecture == sampled.architecture
    assert not torch.equal(point.weights, sampled.weights)
    for chain in ("sampled-point-00", "sampled-sghmc-00"):
        assert len(read_chain(together, chain).history) == 5


def test_what_is_shared_is_paid_once_and_charged_to_each(together: Run) -> None:
    costs = together.costs.read()
    leader, follower = costs["chains/sampled-sghmc-00"], costs["chains/sampled-point-00"]
    assert follower["images"] * 5 == leader["images"]
    assert follower["images"] + follower["shared_images"] == leader["images"]
    assert "shared_images" not in leader
    facts = read(together)
    joint, alone = cost_of(facts, "uraenas"), cost_of(facts, "uraenas-a")
    assert joint is not None
    assert alone is not None
    assert joint.images == alone.images


def test_who_was_given_an_architecture_does_not_pay_for_the_search(together: Run, tmp_path: Path) -> None:
    text = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
    run = trained(tmp_path / "run", "drnas,uraenas", together, **{"train.expected.genotype": text})
    given, joint = (cost_of(read(run), name) for name in ("drnas", "uraenas"))
    assert given is not None
    assert joint is not None
    assert given.search == 0 < joint.search
    assert f"were given theirs: {text}" in build([(run, None)]).replace("<wbr>", "")


def test_a_sampling_stage_of_short_cosines_is_resumed_and_shared_like_any_other(
    together: Run, tmp_path: Path
) -> None:
    short = {
        "train.epochs": 7,
        "train.sampling.exploration": 0.5,
        "train.sampling.peak": 0.5,
        "train.sampling.samples": 2,
    }
    run = trained(tmp_path / "run", "uraenas-w,snapshot,drnas", together, **short)
    chain = "expected-sghmc-00"
    samples = run.chains.samples(chain)
    assert [one.origin.epoch for one in samples] == [6, 4]
    assert run.costs.read()["chains/expected-snapshot-00"]["shared_images"] > 0
    assert run.costs.read()["chains/expected-point-00"]["shared_images"] > 0
    run.chains.sample_path(chain, 4).unlink()
    shutil.rmtree(tmp_path / "run" / "methods" / "uraenas-w")
    pipeline = Pipeline.resume(tmp_path / "run")
    pipeline.train(pipeline.search())
    again = run.chains.samples(chain)
    assert len(again) == 2
    assert all(torch.equal(one.weights, other.weights) for one, other in zip(again, samples, strict=True))


def test_a_run_that_is_stopped_among_those_that_follow_ends_as_if_it_had_not_been(
    together: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "PAUSE", 0.0)  # hear of every step, however fast
    followers = [name for name, cost in together.costs.read().items() if "shared_images" in cost]
    stopped = []

    def stop(stage: str, done: float, total: float, *_: object) -> None:
        if stage == "train" and total - (len(followers) - 1) * STEPS < done < total:
            stopped.append((done, total))
            raise KeyboardInterrupt

    config = preset("tiny", {**FEW, **CHANGES, "methods": METHODS, "engine.checkpoint_seconds": 1000})
    pipeline = Pipeline.start(tmp_path / "run", config, stop, search_of=together)
    searched = pipeline.search()
    with pytest.raises(KeyboardInterrupt):
        pipeline.train(searched)
    assert len(stopped) == 1  # some of them had gone on, others not
    begun = [name for name in followers if pipeline.run.has(f"{name}/state.safetensors")]
    assert 0 < len(begun) < len(followers)
    pipeline = Pipeline.resume(tmp_path / "run")
    pipeline.train(pipeline.search())
    for method in METHODS.split(","):
        assert_same_members(together, pipeline.run, method)
    costs = pipeline.run.costs.read()
    for name in followers:
        assert costs[name]["images"] == together.costs.read()[name]["images"]


def test_a_method_added_later_goes_on_from_what_was_explored(together: Run, tmp_path: Path) -> None:
    trained(tmp_path / "run", "uraenas", together, **CHANGES)
    run = trained(tmp_path / "run", "uraenas,uraenas-a", **CHANGES)
    assert_same_members(run, together, "uraenas-a")
    assert run.costs.read()["chains/sampled-point-00"]["shared_images"] > 0


# What is kept for others of a root

SMALL = CellSpace(channels=4, cells=1, shape=Shape(8, 8))
EPOCHS = 5


def begun(path: Path) -> Run:
    """A run with settings, and nothing else."""
    run = Run(path)
    run.write_config(preset("tiny"))
    return run


def spec(kind: str, **changes: float) -> ChainSpec:
    """A chain of this kind; point, sghmc and snapshot have four first epochs in common."""
    own = {} if kind == "point" else {"cycles": 1, "samples": 1, **changes}
    return ChainSpec("sampled", WEIGHTS[kind].make(own), 0, SMALL.architecture((3,) * 6))


def test_a_restarted_chain_leaves_nothing_for_its_siblings(tmp_path: Path) -> None:
    kept = Checkpoints(begun(tmp_path), EPOCHS, SMALL, seed=0)
    first, sibling = spec("sghmc"), spec("point")
    state = replace(initial_chain(first, SMALL, 0), epoch=4, restarts=1)
    kept.store_explored(state)
    assert kept.chain(sibling).epoch == 0
    kept.store_explored(replace(state, restarts=0))
    assert kept.chain(sibling).epoch == 4


def test_who_explored_goes_on_from_there_and_owes_nobody(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.costs.add({"chains/sampled-sghmc-00": {"seconds": 8.0, "images": 400}})
    kept = Checkpoints(run, EPOCHS, SMALL, seed=0)
    first, sibling = spec("sghmc"), spec("point")
    kept.store_explored(replace(initial_chain(first, SMALL, 0), epoch=4))
    for _ in range(2):  # a kill may make it start twice
        assert kept.chain(first).epoch == kept.chain(sibling).epoch == 4
        assert run.costs.read() == {
            "chains/sampled-sghmc-00": {"seconds": 8.0, "images": 400},
            "chains/sampled-point-00": {"shared_seconds": 8.0, "shared_images": 400},
        }
    (tmp_path / "chains/explored/sampled-00-0004.safetensors").unlink()
    assert kept.chain(sibling).epoch == 0
    assert "chains/sampled-point-00" not in run.costs.read()


def test_an_explored_state_of_another_course_is_not_used(tmp_path: Path) -> None:
    kept = Checkpoints(begun(tmp_path), EPOCHS, SMALL, seed=0)
    kept.store_explored(replace(initial_chain(spec("sghmc"), SMALL, 0), epoch=4))
    assert kept.chain(spec("snapshot")).epoch == 4
    for other in ({"exploration": 0.4}, {"step_size": 0.05}, {"momentum": 0.5}, {"floor": 0.01}):
        assert kept.chain(spec("snapshot", **other)).epoch == 0, other
    assert Checkpoints(Run(tmp_path), 10, SMALL, seed=0).chain(spec("snapshot")).epoch == 0
