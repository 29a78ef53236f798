"""`uraenas members`: other members from the chains of a finished run, without training."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from short_runs import assert_same_members, trained

from uraenas.base.files import checksum_of
from uraenas.run.directory import Run
from uraenas.run.training import ChainRunner

CHAINS = ("sampled-sghmc-00", "sampled-sghmc-01")


def contents(folder: Path) -> dict[str, str]:
    """Every file, and what it holds."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): checksum_of(path) for path in files}


@pytest.fixture(autouse=True)
def untouched(sampled_run: Run) -> Iterator[None]:
    """Whatever is made of it, the run that has the chains stays as it is, byte for byte."""
    before = contents(sampled_run.path)
    yield
    assert contents(sampled_run.path) == before


@pytest.fixture
def choose(
    sampled_run: Run, tmp_path: Path, uraenas: Callable, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Run]:
    """`choose("methods", key=value, …)` → the new run; no chain may be trained for it."""

    def trains(self: ChainRunner, specs: object) -> None:
        raise AssertionError("a chain was trained")

    monkeypatch.setattr(ChainRunner, "run_all", trains)

    def call(methods: str, **changes: object) -> Run:
        sets = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
        done = uraenas("members", sampled_run.path, "--out", tmp_path / "new", "--methods", methods, *sets)
        assert done.returncode == 0, done.stderr
        return Run(tmp_path / "new")

    return call


def origins(run: Run, method: str) -> list[tuple[str, int, int]]:
    members = run.ensemble(method).members
    return [(one.origin.chain, one.origin.epoch, one.origin.samples) for one in members]


def test_another_number_of_members(sampled_run: Run, choose: Callable) -> None:
    run = choose("uraenas", **{"ensemble.members": 6})
    in_turn = [(chain, epoch, 1) for epoch in (7, 6, 3) for chain in CHAINS]
    assert origins(run, "uraenas") == in_turn
    assert origins(sampled_run, "uraenas") == in_turn[:4]
    pairs = zip(run.ensemble("uraenas").members, sampled_run.ensemble("uraenas").members, strict=False)
    assert all(one.identity == other.identity for one, other in pairs)
    assert run.metrics().settings == sampled_run.metrics().settings
    assert {row.members for row in run.metrics().rows} == set(range(1, 7))
    assert run.has("report.html")


def test_members_are_those_of_a_run_that_was_trained_with_these_settings(
    sampled_run: Run, samples: dict, tmp_path: Path, uraenas: Callable
) -> None:
    """Greedy selection, and means of the chains' samples."""
    changes = {"ensemble.members": 3, "ensemble.selection": "greedy"}
    methods = "uraenas,uraenas-swa"
    sets = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    done = uraenas("members", sampled_run.path, "--out", tmp_path / "new", "--methods", methods, *sets)
    assert done.returncode == 0, done.stderr
    run = Run(tmp_path / "new")
    expected = trained(tmp_path / "trained", methods, sampled_run, **{**samples, **changes})
    for method in methods.split(","):
        assert_same_members(run, expected, method)
    assert run.metrics() == expected.metrics()
    assert {samples for _, _, samples in origins(run, "uraenas-swa")} == {2}


def test_means_of_fewer_samples(sampled_run: Run, choose: Callable) -> None:
    run = choose("uraenas-swa", **{"train.sampling.mean_of": 1})
    assert origins(run, "uraenas-swa") == [(chain, epoch, 1) for epoch in (7, 3) for chain in CHAINS]
    newest = sampled_run.chains.samples(CHAINS[0])[0]
    assert run.ensemble("uraenas-swa").members[0].identity == newest.identity


def test_search_chains_and_what_they_cost_are_taken_over(sampled_run: Run, choose: Callable) -> None:
    run = choose("uraenas,drnas", **{"ensemble.members": 2})
    assert_same_members(run, sampled_run, "drnas")
    ours, theirs = contents(run.path), contents(sampled_run.path)
    shared = [name for name in theirs if name.startswith("chains/")]
    assert shared
    assert run.searched().expected == sampled_run.searched().expected
    assert all(ours[name] == theirs[name] for name in shared)
    costs, before = run.costs.read(), sampled_run.costs.read()
    spent = [item for item in before if item == "search" or item.startswith("chains/")]
    assert {item: costs[item] for item in spent} == {item: before[item] for item in spent}
    events = [json.loads(line)["event"] for line in (run.path / "log.jsonl").read_text().splitlines()]
    assert "chains taken over" in events
    assert "searched" not in events


def test_the_same_command_again_changes_nothing(choose: Callable) -> None:
    run = choose("uraenas-swa")
    members, costs = contents(run.path / "methods"), run.costs.read()
    choose("uraenas-swa")
    assert contents(run.path / "methods") == members
    again = run.costs.read()
    assert {k: v for k, v in again.items() if "/" in k} == {k: v for k, v in costs.items() if "/" in k}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("--set", "train.epochs=10"), "does not fit: train.epochs was 8 and is now 10"),
        (("--set", "seed=1"), "does not fit: seed was 0 and is now 1"),
        (("--set", "train.sampling.temperature=0.2"), "does not fit: train.sampling.temperature was 0.1"),
        (("--set", "search.epochs=4"), "does not fit: search.epochs was 2 and is now 4"),
    ],
)
def test_settings_that_would_need_training_are_refused_and_nothing_is_written(
    sampled_run: Run, tmp_path: Path, uraenas: Callable, changes: tuple[str, ...], words: str
) -> None:
    done = uraenas("members", sampled_run.path, "--out", tmp_path / "new", *changes)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("asked", "chain"),
    [
        (("--methods", "snapshot"), "expected-snapshot-00"),
        (("--methods", "random-ensemble"), "uniform-point-00"),
        (("--methods", "deep-ensemble"), "expected-point-01"),
        (("--methods", "uraenas", "--set", "ensemble.members=9"), "sampled-sghmc-02"),
    ],
)
def test_a_method_whose_chains_are_not_there_is_refused(
    sampled_run: Run, tmp_path: Path, uraenas: Callable, asked: tuple[str, ...], chain: str
) -> None:
    done = uraenas("members", sampled_run.path, "--out", tmp_path / "new", *asked)
    assert done.returncode == 2
    assert f"has no finished chain {chain}, which {asked[1]} needs" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_command_that_was_refused_can_be_mended(
    sampled_run: Run, choose: Callable, uraenas: Callable
) -> None:
    new = choose("drnas").path
    assert uraenas("members", sampled_run.path, "--out", new, "--methods", "snapshot").returncode == 2
    assert_same_members(choose("uraenas"), sampled_run, "uraenas")


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path, uraenas: Callable) -> None:
    done = uraenas("members", tmp_path, "--out", tmp_path / "new")
    assert (done.returncode, (tmp_path / "new").exists()) == (2, False)
    assert "is not a run directory" in done.stderr
