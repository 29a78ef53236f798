"""Architectures that differ in a dead edge alone compute the same, and count as one where uncertainty is split."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from uraenas.base import draws
from uraenas.data import digits
from uraenas.ensemble import Ensemble, Member, Origin, Owner
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

# Nothing arrives at node 1, so what leaves it is dead.
TWINS = (
    "|none~0|+|nor_conv_3x3~0|none~1|+|skip_connect~0|none~1|nor_conv_1x1~2|",
    "|none~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_1x1~2|",
)
OTHER = "|none~0|+|nor_conv_3x3~0|none~1|+|none~0|none~1|nor_conv_1x1~2|"
DIGITS = digits().test.images[:20]


def ensemble_of(like: Ensemble, *architectures: str) -> Ensemble:
    """Members of these architectures, with weights of their own."""
    members = []
    for number, text in enumerate(architectures):
        one = like.space.parse(text)
        weights = like.space.weight_layout(one).initial(draws.key(number, "weights"))
        statistics = like.space.statistics_layout(one).initial()
        members.append(Member(one, weights, statistics, Origin(f"sampled-point-{number:02d}", 1, 0, 18)))
    return replace(like, members=tuple(members))


@pytest.fixture(scope="module")
def run(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose joint ensemble is a pair of twins."""
    run = Run(shutil.copytree(finished_run, tmp_path_factory.mktemp("twins") / "run"))
    twins = ensemble_of(run.ensemble("uraenas"), *TWINS)
    shutil.rmtree(run.members_folder("uraenas"))
    twins.save(run.members_folder("uraenas"), owner=Owner(run.identity, "uraenas"))
    return run


def test_an_ensemble_counts_them_as_one(run: Run) -> None:
    twins = run.ensemble("uraenas")
    assert len({member.architecture for member in twins.members}) == 2
    assert len(set(twins.functions)) == 1
    split = twins.uncertainty(DIGITS)
    assert split.architecture.abs().max() < 1e-12
    assert split.weights.min() > 1e-6
    others = ensemble_of(twins, TWINS[0], OTHER).uncertainty(DIGITS)
    assert others.architecture.min() > 1e-6
    assert others.weights.abs().max() < 1e-12


def test_an_evaluation_counts_them_as_one(run: Run) -> None:
    config = preset("tiny", {"evaluate.suite": "none", "methods": "uraenas"})
    rows = Pipeline.start(run.path, config).evaluate().rows
    value = {row.metric: row.value for row in rows if row.members == 2 and row.calibration == "raw"}
    assert value["architecture_uncertainty"] == pytest.approx(0, abs=1e-12)
    assert value["weight_uncertainty"] == pytest.approx(value["chain_uncertainty"])
    assert value["weight_uncertainty"] > 1e-6


def test_a_prediction_counts_them_as_one(run: Run, tmp_path: Path, uraenas: Callable) -> None:
    Image.fromarray(DIGITS[0, :, :, 0]).save(tmp_path / "digit.png")
    done = uraenas("predict", run.path, tmp_path / "digit.png", "--method", "uraenas", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["predictions"]
    assert row["architecture"] == pytest.approx(0, abs=1e-12)
    assert row["weights"] > 1e-6
