"""Whole runs: what they leave, what chains they share, and how they mend what is lost or diverges."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from uraenas.base.errors import UraenasError
from uraenas.base.files import read_tensors, write_tensors
from uraenas.ensemble import Ensemble, Member
from uraenas.run.checkpoints import SampleWriter
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

CHAIN = "sampled-sghmc-00"


def run_tiny(uraenas, out: Path, methods: str, *assignments: str):
    """A tiny run of these methods, on clean images alone."""
    changes = (*assignments, "evaluate.suite=none", "evaluate.bootstrap=0")
    sets = [word for one in changes for word in ("--set", one)]
    done = uraenas("run", "--preset", "tiny", "--methods", methods, *sets, "--out", out)
    assert done.returncode == 0, done.stderr
    return done


def test_a_run_leaves_everything_that_the_design_promises(finished_run):
    for name in ("config.json", "environment.json", "log.jsonl", "metrics.json", "cost.json", "report.html"):
        assert (finished_run / name).exists(), name
    assert (finished_run / "search" / "architecture.safetensors").exists()
    history = (finished_run / "search" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in history] == [0, 1]
    costs = json.loads((finished_run / "cost.json").read_text())
    for method, members in (("drnas", 1), ("uraenas", 2), ("deep-ensemble", 2)):
        assert len(Ensemble.load(finished_run / "methods" / method / "members")) == members
        assert (finished_run / "methods" / method / "predictions" / "digits.safetensors").exists()
        assert costs[f"members/{method}"]["seconds"] > 0
    rows = json.loads((finished_run / "metrics.json").read_text())["rows"]
    keys = {"method", "dataset", "shift", "severity", "metric", "value", "members", "calibration", "seed"}
    assert all(keys <= set(row) for row in rows)
    assert {row["shift"] for row in rows} >= {"none", "mean4", "gaussian_noise"}
    assert not list(finished_run.rglob("*.tmp"))


def test_one_chain_serves_drnas_and_the_deep_ensemble(finished_run):
    drnas = Ensemble.load(finished_run / "methods/drnas/members")
    deep = Ensemble.load(finished_run / "methods/deep-ensemble/members")
    assert drnas.members[0].origin == deep.members[0].origin
    assert (drnas.members[0].weights == deep.members[0].weights).all()
    assert Run(finished_run).chains.names() == [
        "expected-point-00",
        "expected-point-01",
        "sampled-sghmc-00",
        "sampled-sghmc-01",
    ]


def test_a_known_architecture_is_trained_without_a_search(uraenas, tmp_path):
    out = tmp_path / "run"
    text = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
    run_tiny(uraenas, out, "drnas,deep-ensemble", f"train.expected.genotype={text}", "data.limit=100")
    assert not (out / "search").exists()
    assert "search" not in json.loads((out / "cost.json").read_text())
    shown = json.loads(uraenas("show", out, "--json").stdout)
    assert shown["stages"]["search"] == "not needed"
    assert {one["architecture"] for members in shown["members"].values() for one in members} == {text}


def test_a_chain_led_astray_by_its_last_step_gives_no_member(finished_run, tmp_path):
    changes = {
        "methods": "uraenas",
        "train.epochs": 1,
        "train.batch": 16,
        "train.sampling.exploration": 0.98,
        "train.sampling.temperature": 1e40,
    }
    pipeline = Pipeline.start(tmp_path / "run", preset("tiny", changes), search_of=Run(finished_run))
    with pytest.raises(UraenasError, match="every chain of uraenas diverged"):
        pipeline.train(pipeline.search())
    assert "sample dropped" in (tmp_path / "run" / "log.jsonl").read_text()


def test_chains_that_diverge_are_restarted_and_the_report_says_so(uraenas, tmp_path):
    out = tmp_path / "run"
    run_tiny(uraenas, out, "random-ensemble", "train.point.step_size=100", "train.batch=64", "data.limit=200")
    diverged = Run(out).metrics().diverged
    assert {one.chain for one in diverged} == {"uniform-point-00", "uniform-point-01"}
    costs, page = json.loads((out / "cost.json").read_text()), (out / "report.html").read_text()
    for one in diverged:
        assert one.given_up == ""
        assert costs[f"chains/{one.chain}"]["restarts"] == one.restarts > 0
        assert f"{one.chain} was restarted with a smaller step ({one.restarts} time" in page
    assert (out / "log.jsonl").read_text().count("chain diverged") == sum(one.restarts for one in diverged)
    assert "2 chains, 2 of them diverged and 0 given up" in uraenas("show", out).stdout


def test_a_lost_sample_is_made_again(own_run):
    shutil.rmtree(own_run / "methods" / "uraenas")
    lost = Run(own_run).chains.sample_path(CHAIN, 1)
    before = Member.load(lost)
    lost.unlink()
    pipeline = Pipeline.resume(own_run)
    pipeline.train(pipeline.search())
    assert torch.equal(Member.load(lost).weights, before.weights)
    assert len(Run(own_run).ensemble("uraenas")) == 2


def test_a_state_that_lacks_something_is_named_and_mended_as_told(own_run, uraenas):
    shutil.rmtree(own_run / "methods" / "uraenas")  # so that the chain is asked for
    file = Run(own_run).chains.file(CHAIN)
    tensors, header = Run(own_run).read_tensors(file)
    less = {name: value for name, value in header.stored.items() if name != "history"}
    Run(own_run).write_tensors(file, tensors, less)
    done = uraenas("train", own_run)
    assert done.returncode == 2
    assert f"history is missing; delete it and run: uraenas train {own_run}" in done.stderr
    (own_run / file).unlink()
    assert uraenas("train", own_run).returncode == 0


def test_samples_are_in_the_order_of_their_epochs(finished_run, tmp_path):
    sample = Run(finished_run).chains.samples(CHAIN)[0]
    space, run = Run(finished_run).ensemble("uraenas").space, Run(tmp_path)
    run.write_config(Run(finished_run).config(), copy_of=Run(finished_run))
    for epoch in (9_998, 10_001, 9_999, 10_000):
        member = replace(sample, origin=replace(sample.origin, epoch=epoch))
        member.save(run.chains.sample_path(CHAIN, epoch), space)
    assert [one.origin.epoch for one in run.chains.samples(CHAIN)] == [10_001, 10_000, 9_999, 9_998]


@pytest.mark.parametrize(
    "changes", [{"name": "nowhere"}, {"settings": {"cycle": 1}}, {"settings": {"cycles": "x"}}]
)
def test_a_member_of_an_unknown_kind_is_refused_when_it_is_read(finished_run, tmp_path, changes):
    tensors, header = read_tensors(Run(finished_run).chains.sample_path(CHAIN, 1))
    kind = {**json.loads(header["kind"]), **changes}
    write_tensors(tmp_path / "member", tensors, {**header, "kind": json.dumps(kind)})
    with pytest.raises(UraenasError, match=r"unknown kind of weights|there is a field 'cycle'|cycles is 'x'"):
        Member.load(tmp_path / "member")


def test_a_sample_that_cannot_be_written_is_told_whenever_a_state_is_to_be_stored(finished_run, tmp_path):
    sample = Run(finished_run).chains.samples(CHAIN)[0]
    (tmp_path / "chains").touch()  # where the folder should be
    Run(tmp_path).write_config(Run(finished_run).config())
    with SampleWriter(Run(tmp_path), Run(finished_run).ensemble("uraenas").space) as writer:
        writer.add(sample)
        for _ in range(2):
            with pytest.raises(UraenasError, match="cannot write"):
                writer.finish()
