"""Chains that differ only in how they sample explore once, and end as if each had been alone."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from uraenas.chains import ChainSpec, TrainSettings, in_turns, initial_chain
from uraenas.checkpoints import Checkpoints
from uraenas.config import Config, override, preset
from uraenas.base.errors import UraenasError
from uraenas.methods import Architectures, Weights
from uraenas.report import build
from uraenas.report.reading import read
from uraenas.report.sections.cost import cost_of
from uraenas.run import Run
from uraenas.spaces import Genotype, Skeleton
from uraenas.stages import Pipeline

METHODS = "uraenas,uraenas-a,drnas,uraenas-w,snapshot"
CHANGES = {"train.epochs": 5, "train.weight_samples": 1, "train.temperature": 0.1, "evaluate.suite": "none"}


def trained(out: Path, methods: str, **changes: object) -> tuple[Run, Config]:
    config = override(preset("tiny"), {**CHANGES, "methods": methods, **changes})
    pipeline = Pipeline.start(out, config)
    pipeline.train(pipeline.search())
    pipeline.evaluate()
    return pipeline.run, config


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("runs") / "together", METHODS)[0]


@pytest.mark.parametrize("method", ["uraenas-a", "snapshot", "drnas"])
def test_members_are_those_of_a_run_with_that_method_alone(
    together: Run, tmp_path: Path, method: str
) -> None:
    alone, _ = trained(tmp_path / "alone", method)
    pairs = zip(together.ensemble(method).members, alone.ensemble(method).members, strict=True)
    for one, other in pairs:
        assert one.origin == other.origin
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(one.statistics, other.statistics)
    for chain in {member.origin.chain for member in alone.ensemble(method).members}:
        assert together.read_chain(chain)[1]["history"] == alone.read_chain(chain)[1]["history"]


def test_kinds_differ_after_their_exploration(together: Run) -> None:
    point, sampled = (together.ensemble(method).members[0] for method in ("uraenas-a", "uraenas"))
    assert point.genotype == sampled.genotype
    assert not torch.equal(point.weights, sampled.weights)
    for chain in ("sampled-point-00", "sampled-sampled-00"):
        assert len(together.read_chain(chain)[1]["history"]) == 5


def test_what_is_shared_is_paid_once_and_charged_to_each(together: Run) -> None:
    costs = together.costs.read()
    leader, follower = costs["chains/sampled-sampled-00"], costs["chains/sampled-point-00"]
    assert follower["images"] * 5 == leader["images"]
    assert follower["images"] + follower["shared_images"] == leader["images"]
    assert "shared_images" not in leader
    facts = read(together)
    joint, alone = cost_of(facts, "uraenas"), cost_of(facts, "uraenas-a")
    assert joint is not None
    assert alone is not None
    assert joint.images == alone.images


def test_who_was_given_an_architecture_does_not_pay_for_the_search(tmp_path: Path) -> None:
    text = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
    run, _ = trained(tmp_path / "run", "drnas,uraenas", **{"train.genotype": text})
    given, joint = (cost_of(read(run), name) for name in ("drnas", "uraenas"))
    assert given is not None
    assert joint is not None
    assert given.search == 0 < joint.search
    assert f"were given theirs: {text}" in build([(run, None)])


def test_a_sampling_stage_of_short_cosines_is_resumed_and_shared_like_any_other(tmp_path: Path) -> None:
    short = {
        "train.epochs": 7,
        "train.exploration": 0.5,
        "train.sampling_peak": 0.5,
        "train.weight_samples": 2,
        "train.members": 2,
    }
    run, _ = trained(tmp_path / "run", "uraenas-w,snapshot,deep-ensemble", **short)
    chain = "expected-sampled-00"
    samples = run.samples(chain)
    assert [one.origin.epoch for one in samples] == [6, 4]
    assert run.costs.read()["chains/expected-snapshot-00"]["shared_images"] > 0
    assert run.costs.read()["chains/expected-point-00"]["shared_images"] > 0
    run.sample_path(chain, 4).unlink()
    shutil.rmtree(tmp_path / "run" / "methods" / "uraenas-w")
    pipeline = Pipeline.resume(tmp_path / "run")
    pipeline.train(pipeline.search())
    again = run.samples(chain)
    assert len(again) == 2
    assert all(torch.equal(one.weights, other.weights) for one, other in zip(again, samples, strict=True))


def test_a_run_that_is_stopped_among_those_that_follow_ends_as_if_it_had_not_been(
    together: Run, tmp_path: Path
) -> None:
    followers = [name for name, cost in together.costs.read().items() if "shared_images" in cost]
    stopped = []

    def stop(stage: str, done: int, total: int) -> None:
        if stage == "train" and total - len(followers) < done < total:
            stopped.append((done, total))
            raise KeyboardInterrupt

    config = override(preset("tiny"), {**CHANGES, "methods": METHODS, "engine.checkpoint_seconds": 1000})
    pipeline = Pipeline.start(tmp_path / "run", config, stop)
    distribution = pipeline.search()
    with pytest.raises(KeyboardInterrupt):
        pipeline.train(distribution)
    assert len(stopped) == 1  # some of them had gone on, others not
    begun = [name for name in followers if pipeline.run.has(f"{name}/state.safetensors")]
    assert 0 < len(begun) < len(followers)
    pipeline = Pipeline.resume(tmp_path / "run")
    pipeline.train(pipeline.search())
    for method in METHODS.split(","):
        pairs = zip(together.ensemble(method).members, pipeline.run.ensemble(method).members, strict=True)
        assert all(torch.equal(one.weights, other.weights) for one, other in pairs)
    costs = pipeline.run.costs.read()
    for name in followers:
        assert costs[name]["images"] == together.costs.read()[name]["images"]


def test_a_method_added_later_goes_on_from_what_was_explored(tmp_path: Path) -> None:
    trained(tmp_path / "run", "uraenas")
    run, _ = trained(tmp_path / "run", "uraenas,uraenas-a")
    assert run.costs.read()["chains/sampled-point-00"]["shared_images"] > 0


@pytest.mark.parametrize(
    ("changes", "point", "sampled"),
    [
        ({}, 160, 160),
        ({"cycles": 4}, 0, 40),
        ({"sampler_step_size": 0.05}, 0, 160),
        ({"sampler": "sgld"}, 0, 160),
        ({"exploration": 1.0}, 188, 188),
        ({"exploration": 0.5}, 100, 100),
        ({"weight_samples": 100}, 100, 100),
        ({"weight_samples": 200}, 0, 0),
        ({"exploration": 0.0}, 0, 0),
    ],
)
def test_kinds_move_alike_while_all_explore_in_equal_steps(changes: dict, point: int, sampled: int) -> None:
    settings = replace(TrainSettings(cycles=1), **changes)
    assert settings.epochs_alike("point") == point
    assert settings.epochs_alike("sampled") == settings.epochs_alike("snapshot") == sampled


SMALL = Skeleton(channels=4, cells=1, height=8, width=8)
SHORT = TrainSettings(epochs=5, cycles=1, weight_samples=1)


def spec(architecture: Architectures, weights: Weights, number: int = 0) -> ChainSpec:
    return ChainSpec(architecture, weights, number, Genotype.from_indices((3,) * 6))


def test_the_first_of_each_root_goes_first() -> None:
    asked = [
        spec("sampled", "sampled"),
        spec("sampled", "sampled", 1),
        spec("sampled", "point", 1),
        spec("expected", "point"),
    ]
    first, later = in_turns(asked, TrainSettings(cycles=1))
    assert [s.name for s in first] == ["sampled-sampled-00", "sampled-sampled-01", "expected-point-00"]
    assert [s.name for s in later] == ["sampled-point-01"]
    assert in_turns(asked, TrainSettings(cycles=4)) == (asked, [])


def test_a_restarted_chain_leaves_nothing_for_its_siblings(tmp_path: Path) -> None:
    kept = Checkpoints(Run(tmp_path), SHORT, SMALL, seed=0)
    first, sibling = spec("sampled", "sampled"), spec("sampled", "point")
    state = replace(initial_chain(first, SMALL, 0), epoch=4, restarts=1)
    kept.store_explored(state)
    assert kept.chain(sibling).epoch == 0
    kept.store_explored(replace(state, restarts=0))
    assert kept.chain(sibling).epoch == 4


def test_who_explored_goes_on_from_there_and_owes_nobody(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.costs.add({"chains/sampled-sampled-00": {"seconds": 8.0, "images": 400}})
    kept = Checkpoints(run, SHORT, SMALL, seed=0)
    first, sibling = spec("sampled", "sampled"), spec("sampled", "point")
    kept.store_explored(replace(initial_chain(first, SMALL, 0), epoch=4))
    for _ in range(2):  # a kill may make it start twice
        assert kept.chain(first).epoch == kept.chain(sibling).epoch == 4
        assert run.costs.read() == {
            "chains/sampled-sampled-00": {"seconds": 8.0, "images": 400},
            "chains/sampled-point-00": {"shared_seconds": 8.0, "shared_images": 400},
        }
    (tmp_path / "chains/explored/sampled-00.safetensors").unlink()
    assert kept.chain(sibling).epoch == 0
    assert "chains/sampled-point-00" not in run.costs.read()


def test_an_explored_state_of_another_length_is_not_used(tmp_path: Path) -> None:
    first, sibling = spec("sampled", "sampled"), spec("sampled", "snapshot")
    kept = Checkpoints(Run(tmp_path), SHORT, SMALL, seed=0)
    kept.store_explored(replace(initial_chain(first, SMALL, 0), epoch=4))
    other = Checkpoints(Run(tmp_path), replace(SHORT, exploration=0.4), SMALL, seed=0)
    assert other.chain(sibling).epoch == 0


def test_a_velocity_of_an_older_version_is_refused(tmp_path: Path) -> None:
    run, old = Run(tmp_path), spec("sampled", "point")
    kept = Checkpoints(run, SHORT, SMALL, seed=0)
    state = replace(initial_chain(old, SMALL, 0), epoch=2)
    header = {"genotype": str(old.genotype), "epoch": 2, "history": [], "failure": "", "restarts": 0}
    run.write_tensors("chains/sampled-point-00/state.safetensors", state.tensors, header)
    with pytest.raises(UraenasError, match="another rule"):
        kept.chain(old)
    kept.store_chain(state)
    assert kept.chain(old).epoch == 2
