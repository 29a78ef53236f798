"""What the loop that kills workers asks of a run, and refuses."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from uraenas.run.directory import Run

sys.path.append(str(Path(__file__).parents[2] / "tools"))
from worker_kills import images, require_unchanged


def again(run: Run, chain: str, epochs: float) -> None:
    """So many epochs of a chain, done once more."""
    epoch = max(images(run).values()) / run.config().train.epochs
    run.costs.add({f"chains/{chain}": {"images": epochs * epoch}})


def die(run: Run, chain: str) -> None:
    run.log("worker died", worker="worker-1", why="was ended by SIGKILL", unit=[chain])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run, one, other: None, None),
        (lambda run, one, other: (die(run, one), again(run, one, 1)), None),
        (lambda run, one, other: again(run, one, 1), "1 epochs of .* were done twice, after 0 deaths at it"),
        (lambda run, one, other: (die(run, one), again(run, one, 1.5)), "1.5 epochs of .*, after 1 deaths"),
        (lambda run, one, other: (die(run, one), again(run, other, 1)), "1 epochs of .*, after 0 deaths"),
        (lambda run, one, other: die(run, "digits-fog-1"), None),  # at an evaluation set
    ],
)
def test_a_death_may_cost_an_epoch_of_what_it_struck_and_no_more(
    finished_run: Path, tmp_path: Path, change: Callable[[Run, str, str], object], words: str | None
) -> None:
    run = Run(shutil.copytree(finished_run, tmp_path / "run"))
    change(run, *run.chains.names()[:2])
    if words is None:
        require_unchanged(run, Run(finished_run))
        return
    with pytest.raises(SystemExit, match=words) as ended:
        require_unchanged(run, Run(finished_run))
    assert isinstance(ended.value.code, str)  # which ends a command with 1


def test_metrics_are_compared_byte_for_byte(finished_run: Path, tmp_path: Path) -> None:
    run = Run(shutil.copytree(finished_run, tmp_path / "run"))
    file = run.path / "metrics.json"
    file.write_text(json.dumps(json.loads(file.read_text())))
    with pytest.raises(SystemExit, match=r"metrics\.json is not that of an undisturbed run"):
        require_unchanged(run, Run(finished_run))
