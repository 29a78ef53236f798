"""Members that are draws, in a run: as many passes as were asked for, few files, and the same after a second look."""

from pathlib import Path

import pytest
from short_runs import trained

from uraenas.report.reading import read
from uraenas.report.sections.cost import cost_of
from uraenas.run.config import override
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

GENOTYPE = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
FILES = {"mc-dropout": 1, "laplace": 1, "multi-swag": 2, "mimo": 1, "deep-ensemble": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    more = {"ensemble.members": 2, "train.expected.genotype": GENOTYPE, "data.limit": 100}
    return trained(tmp_path_factory.mktemp("kinds") / "run", ",".join(FILES), **more)


@pytest.mark.parametrize("method", FILES)
def test_members_are_passes_and_draws_of_one_network_share_a_file(run: Run, method: str) -> None:
    ensemble = run.ensemble(method)
    assert len(ensemble) == 2
    assert len(list(run.members_folder(method).glob("0*.safetensors"))) == FILES[method]
    facts = run.member_facts(method)
    assert [one.draw for one in facts] == [member.draw for member in ensemble.members]
    assert cost_of(read(run), method).parameters == ensemble.parameters


def test_laplace_takes_the_chains_of_the_deep_ensemble_and_pays_for_its_own_alone(run: Run) -> None:
    assert {one.origin.chain for one in run.member_facts("laplace")} == {"expected-point-00"}
    assert cost_of(read(run), "laplace").chains == 1
    assert cost_of(read(run), "deep-ensemble").chains == 2


def test_chains_give_the_same_members_again_and_more_draws_without_training(run: Run, tmp_path: Path) -> None:
    again = override(run.config(), {"methods": "mc-dropout,laplace"})
    pipeline = Pipeline.start(tmp_path / "again", again, chains_of=run)
    pipeline.choose(None)
    for method in again.methods:
        assert pipeline.run.ensemble(method).identity == run.ensemble(method).identity
    more = override(again, {"ensemble.members": 5})
    pipeline = Pipeline.start(tmp_path / "more", more, chains_of=run)
    pipeline.choose(None)
    assert [one.draw for one in pipeline.run.ensemble("mc-dropout").members] == list(range(5))
