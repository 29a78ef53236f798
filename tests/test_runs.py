"""Whole runs through the command line: the result, resuming after a kill, and bad input."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch

import uraenas as uraenas_package
from uraenas.checkpoints import SampleWriter
from uraenas.config import Config, override, preset
from uraenas.ensemble import Ensemble, Member
from uraenas.base.errors import UraenasError
from uraenas.methods import METHODS
from uraenas.run import Run
from uraenas.stages import Pipeline

COMMAND = [sys.executable, "-m", "uraenas.cli"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def uraenas(*arguments: str | Path) -> subprocess.CompletedProcess:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)


def run_tiny(out: Path, *more: str) -> subprocess.CompletedProcess:
    return uraenas("run", "--preset", "tiny", "--set", "engine.checkpoint_seconds=0", *more, "--out", out)


def metrics_of(folder: Path) -> dict:
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """One undisturbed run, for all tests that only look."""
    out = tmp_path_factory.mktemp("runs") / "undisturbed"
    done = run_tiny(out)
    assert done.returncode == 0, done.stderr
    return out


def test_a_run_leaves_everything_that_the_design_promises(finished):
    for name in ("config.json", "environment.json", "log.jsonl", "metrics.json", "cost.json", "report.html"):
        assert (finished / name).exists(), name
    assert (finished / "search" / "architecture.safetensors").exists()
    history = (finished / "search" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in history] == [0, 1]
    for method, members in (("drnas", 1), ("uraenas", 2), ("deep-ensemble", 2)):
        assert len(Ensemble.load(finished / "methods" / method / "members")) == members
        assert (finished / "methods" / method / "predictions" / "digits.safetensors").exists()
        assert json.loads((finished / "cost.json").read_text())[f"members/{method}"]["seconds"] > 0
    rows = metrics_of(finished)["rows"]
    keys = {"method", "dataset", "shift", "severity", "metric", "value", "members", "calibration", "seed"}
    assert all(keys <= set(row) for row in rows)
    assert {row["shift"] for row in rows} >= {"none", "mean4", "gaussian_noise"}
    assert not list(finished.rglob("*.tmp"))


def test_the_same_command_again_changes_nothing(finished):
    before = (finished / "metrics.json").read_bytes()
    chains = {path: path.stat().st_mtime_ns for path in finished.glob("chains/*/samples/*")}
    again = run_tiny(finished)
    assert again.returncode == 0, again.stderr
    assert (finished / "metrics.json").read_bytes() == before
    assert {path: path.stat().st_mtime_ns for path in finished.glob("chains/*/samples/*")} == chains


def test_one_chain_serves_drnas_and_the_deep_ensemble(finished):
    drnas = Ensemble.load(finished / "methods/drnas/members")
    deep = Ensemble.load(finished / "methods/deep-ensemble/members")
    assert drnas.members[0].origin == deep.members[0].origin
    assert (drnas.members[0].weights == deep.members[0].weights).all()
    assert Run(finished).chains() == [
        "expected-point-00",
        "expected-point-01",
        "sampled-sampled-00",
        "sampled-sampled-01",
    ]


@pytest.mark.parametrize(
    ("stage", "number", "code"), [("search", signal.SIGTERM, 143), ("train", signal.SIGINT, 130)]
)
def test_a_signal_leaves_a_checkpoint_and_one_line(finished, tmp_path, stage, number, code):
    """No checkpoint is due for an hour, so that the one that is found was written because of the signal."""
    out = tmp_path / "stopped"
    more = ["--set", "engine.checkpoint_seconds=3600", "--json", "--out", str(out)]
    command = [*COMMAND, "run", "--preset", "tiny", *more]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    cost = "search" if stage == "search" else "chains/"
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if (out / "cost.json").exists() and f'"{cost}' in (out / "cost.json").read_text():
            break  # the first epoch of the stage is over
        time.sleep(0.005)
    process.send_signal(number)
    _, told = process.communicate(timeout=10)
    assert process.returncode == code
    line = f"stopped by {number.name}; {out} holds its state, and the same command goes on from there"
    assert told == f"uraenas: {line}\n"
    assert list(out.glob("search/state.safetensors" if stage == "search" else "chains/*/state.safetensors"))
    assert not list(out.rglob("*.tmp"))
    again = run_tiny(out)
    assert again.returncode == 0, again.stderr
    assert metrics_of(out) == metrics_of(finished)


def test_stages_one_by_one_give_the_same_result(finished, tmp_path):
    out = tmp_path / "stages"
    config = override(preset("tiny"), {})
    Pipeline.start(out, config)
    for stage in ("search", "train", "evaluate", "report"):
        done = uraenas(stage, out, "--json")
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)
    assert metrics_of(out) == metrics_of(finished)
    shown = json.loads(uraenas("show", out, "--json").stdout)
    assert shown["stages"]["evaluate"] == "done"
    assert len(shown["members"]["uraenas"]) == 2


def test_methods_that_are_trained_but_not_asked_for_are_named(finished, tmp_path):
    out = tmp_path / "copy"
    shutil.copytree(finished, out)
    done = uraenas("run", "--preset", "tiny", "--methods", "uraenas", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "not asked for: deep-ensemble, drnas (--methods)" in done.stdout


def test_the_version_is_that_of_the_package():
    assert uraenas("--version").stdout.strip() == uraenas_package.__version__ == version("uraenas")


def test_the_table_of_the_paper_is_printed(finished):
    printed = run_tiny(finished).stdout
    for word in ("Acc", "ECE", "NLL", "cAcc", "cECE", "cNLL", "Dis", "drnas", "uraenas", "deep-ensemble"):
        assert word in printed
    as_json = uraenas("report", finished, "--format", "md", "--json").stdout
    assert json.loads(as_json) == {"table": uraenas("report", finished, "--format", "md").stdout}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "trian.epochs=3"], ["trian.epochs", "train.epochs"]),
        (["--set", "train.epochs=three"], ["train.epochs", "three", "whole number"]),
        (["--set", "train.epochs=-1"], ["train.epochs", "-1"]),
        (["--set", "train.epochs"], ["key=value"]),
        (["--methods", "uranas"], ["uranas", "uraenas"]),
        (["--preset", "digit"], ["digit", "digits"]),
        (["--presett", "tiny"], ["--presett", "--preset"]),
        (["--set", "data.name=nowhere.npz"], ["nowhere.npz"]),
        (["--set", "train.weight_samples=1", "--set", "train.cycles=2"], ["weight_samples", "2 cycles"]),
        (["--set", "network.channels=1000000000"], ["network.channels", "1,024"]),
        (
            ["--set", "network.channels=1024", "--set", "network.cells=100"],
            ["parameters", "GB", "network.cells"],
        ),
    ],
)
def test_bad_input_is_one_clear_line_and_writes_nothing(tmp_path, arguments, words):
    out = tmp_path / "bad"
    done = uraenas("run", *arguments, "--out", out)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert not out.exists()


def test_other_settings_are_refused_with_the_difference_shown(finished):
    before = (finished / "config.json").read_bytes()
    done = run_tiny(finished, "--set", "train.epochs=4")
    assert done.returncode == 2
    assert "train.epochs was 2 and is now 4" in done.stderr
    assert (finished / "config.json").read_bytes() == before


def test_a_damaged_file_is_named(finished, tmp_path):
    out = tmp_path / "damaged"
    Pipeline.start(out, override(preset("tiny"), {}))
    search = out / "search" / "architecture.safetensors"
    search.parent.mkdir()
    content = bytearray((finished / "search" / "architecture.safetensors").read_bytes())
    content[-3] ^= 1
    search.write_bytes(content)
    done = uraenas("train", out)
    assert done.returncode == 2
    assert "architecture.safetensors is damaged" in done.stderr


def test_a_folder_with_other_things_in_it_is_not_written_to(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    done = run_tiny(tmp_path)
    assert done.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_run_in_use_is_left_alone(tmp_path):
    pipeline = Pipeline.start(tmp_path / "run", override(preset("tiny"), {}))
    with pipeline.run.held():
        done = uraenas("search", tmp_path / "run")
    assert done.returncode == 2
    assert f"process {os.getpid()}" in done.stderr


def test_the_directory_of_a_killed_process_can_be_taken_over(finished, tmp_path):
    """Two processes on one run: the second is told who works there, and goes on with the work when that is dead."""
    out = tmp_path / "run"
    command = [*COMMAND, "run", "--preset", "tiny", "--json", "--out", str(out)]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as first:
        deadline = time.monotonic() + 300
        while not (out / "cost.json").exists() and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        first.send_signal(signal.SIGSTOP)  # it holds the directory and cannot finish meanwhile
        refused = uraenas("search", out)
        first.kill()
    assert refused.returncode == 2
    assert f"is in use by process {first.pid}" in refused.stderr
    done = run_tiny(out)
    assert done.returncode == 0, done.stderr
    assert metrics_of(out) == metrics_of(finished)


FULL_DISK = """
mount -t tmpfs -o size=200k tmpfs "$1" || exit 77
cp -r "$2" "$1/run"
"$3" -m uraenas.cli run --preset tiny --json --out "$1/run" > "$2/first.out" 2> "$2/first.err"
echo $? > "$2/first.code"
mount -o remount,size=50m "$1"
"$3" -m uraenas.cli run --preset tiny --json --out "$1/run" > "$2/second.out"
"""


def test_a_disk_that_fills_up_in_training_costs_nothing_but_time(finished, tmp_path):
    """On a file system of 200 kB, with the search done; then it is made larger."""
    disk, start = tmp_path / "disk", tmp_path / "start"
    disk.mkdir()
    shutil.copytree(finished / "search", start / "search")
    for name in ("config.json", "data.json"):
        shutil.copy(finished / name, start)
    script = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        FULL_DISK,
        "sh",
        disk,
        start,
        sys.executable,
    ]
    done = subprocess.run(script, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine does not allow a file system to be mounted")
    assert (start / "first.code").read_text() == "2\n"
    line = (start / "first.err").read_text()
    assert line.splitlines()[-1].startswith(f"uraenas: cannot write {disk}/run/chains/")
    assert line.endswith(": No space left on device\n")
    assert line.count("\n") == 1
    assert done.returncode == 0, done.stderr
    ended = json.loads((start / "second.out").read_text())
    assert {key: value for key, value in ended.items() if key != "run"} == {
        key: value for key, value in metrics_of(finished).items() if key != "checksum"
    }


def test_labels_of_too_few_examples_are_named(tmp_path):
    images = np.zeros((21, 8, 8, 1), np.uint8)
    labels = np.array([0] * 10 + [1] * 10 + [2])
    np.savez(tmp_path / "few.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    done = uraenas(
        "run", "--preset", "tiny", "--set", f"data.name={tmp_path / 'few.npz'}", "--out", tmp_path / "run"
    )
    assert done.returncode == 2
    assert "'2'" in done.stderr


def test_every_method_can_be_the_only_one():
    for name in METHODS:
        assert override(Config(), {"methods": name}).methods == (name,)


def test_data_that_changed_under_a_run_are_refused(tmp_path):
    def store(value: int) -> None:
        images = np.full((40, 8, 8, 1), value, np.uint8)
        labels = np.tile(np.arange(2), 20)
        np.savez(tmp_path / "data.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)

    config = override(preset("tiny"), {"data.name": str(tmp_path / "data.npz")})
    store(1)
    Pipeline.start(tmp_path / "run", config)
    store(2)
    with pytest.raises(UraenasError, match="other images"):
        Pipeline.resume(tmp_path / "run")


def test_a_chain_led_astray_by_its_last_step_gives_no_member(tmp_path):
    changes = {"methods": "uraenas", "train.epochs": 1, "train.batch": 16, "train.exploration": 0.98}
    config = override(preset("tiny"), {**changes, "train.temperature": 1e40})
    pipeline = Pipeline.start(tmp_path / "run", config)
    with pytest.raises(UraenasError, match="every chain of uraenas diverged"):
        pipeline.train(pipeline.search())
    assert "sample dropped" in (tmp_path / "run" / "log.jsonl").read_text()


def test_chains_that_diverge_are_restarted_and_the_report_says_so(tmp_path):
    out = tmp_path / "run"
    changes = ("train.step_size=100", "train.batch=64", "evaluate.suite=none", "evaluate.bootstrap=0")
    done = run_tiny(
        out, "--methods", "random-ensemble", *(word for one in changes for word in ("--set", one))
    )
    assert done.returncode == 0, done.stderr
    diverged = metrics_of(out)["diverged"]
    assert {one["chain"] for one in diverged} == {"uniform-point-00", "uniform-point-01"}
    costs = json.loads((out / "cost.json").read_text())
    for one in diverged:
        assert one["given_up"] == ""
        assert costs[f"chains/{one['chain']}"]["restarts"] == one["restarts"] > 0
        assert (
            f"{one['chain']} was restarted with a smaller step ({one['restarts']} time"
            in (out / "report.html").read_text()
        )
    assert (out / "log.jsonl").read_text().count("chain diverged") == sum(one["restarts"] for one in diverged)
    assert "0 of them diverged" in uraenas("show", out).stdout


def test_a_known_architecture_is_trained_without_a_search(tmp_path):
    out = tmp_path / "run"
    text = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
    changes = (f"train.genotype={text}", "evaluate.suite=none", "evaluate.bootstrap=0")
    done = run_tiny(
        out, "--methods", "drnas,deep-ensemble", *(word for one in changes for word in ("--set", one))
    )
    assert done.returncode == 0, done.stderr
    assert not (out / "search").exists()
    assert "search" not in json.loads((out / "cost.json").read_text())
    shown = json.loads(uraenas("show", out, "--json").stdout)
    assert shown["stages"]["search"] == "not needed"
    assert {one["genotype"] for members in shown["members"].values() for one in members} == {text}


@pytest.mark.parametrize("setting", ["evaluate.outside=nowhere.npz", "evaluate.suite=nowhere"])
def test_what_evaluation_cannot_do_is_said_before_training(tmp_path, setting):
    done = run_tiny(tmp_path / "run", "--set", setting)
    assert done.returncode == 2
    assert not (tmp_path / "run").exists()


def test_a_beginning_that_was_killed_can_begin_again(tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "lock").touch()
    (out / ".config.json.abc.tmp").touch()
    Pipeline.start(out, override(preset("tiny"), {}))
    assert (out / "config.json").exists()


def test_a_file_in_the_place_of_a_run_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    done = run_tiny(tmp_path / "file")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_second_process_leaves_the_settings_of_the_first(tmp_path):
    pipeline = Pipeline.start(tmp_path / "run", override(preset("tiny"), {}))
    before = (tmp_path / "run" / "config.json").read_bytes()
    with pipeline.run.held():
        assert run_tiny(tmp_path / "run", "--methods", "drnas").returncode == 2
    assert (tmp_path / "run" / "config.json").read_bytes() == before


def test_a_run_that_another_process_began_meanwhile_is_not_gone_on_with(tmp_path, monkeypatch):
    """It looked at the directory, and the other has come and gone before it holds it."""
    out = tmp_path / "run"
    check = Pipeline.check_evaluation

    def slowly(self):
        monkeypatch.setattr(Pipeline, "check_evaluation", check)
        Pipeline.start(out, override(preset("tiny"), {"train.epochs": 4}))
        check(self)

    monkeypatch.setattr(Pipeline, "check_evaluation", slowly)
    with pytest.raises(UraenasError, match=r"train\.epochs was 4 and is now 2"):
        Pipeline.start(out, override(preset("tiny"), {}))
    assert Run(out).read_json("config.json")["train.epochs"] == 4


def test_samples_are_in_the_order_of_their_epochs(finished, tmp_path):
    sample = Member.load(finished / "chains/sampled-sampled-00/samples/0001.safetensors")
    skeleton, run = Run(finished).ensemble("uraenas").skeleton, Run(tmp_path)
    for epoch in (9_998, 10_001, 9_999, 10_000):
        member = replace(sample, origin=replace(sample.origin, epoch=epoch))
        member.save(run.sample_path("sampled-sampled-00", epoch), skeleton)
    assert [one.origin.epoch for one in run.samples("sampled-sampled-00")] == [10_001, 10_000, 9_999, 9_998]


def test_a_sample_that_cannot_be_written_is_told_whenever_a_state_is_to_be_stored(finished, tmp_path):
    sample = Member.load(finished / "chains/sampled-sampled-00/samples/0001.safetensors")
    (tmp_path / "chains").touch()  # where the folder should be
    with SampleWriter(Run(tmp_path), Run(finished).ensemble("uraenas").skeleton) as writer:
        writer.add(sample)
        for _ in range(2):
            with pytest.raises(UraenasError, match="cannot write"):
                writer.finish()


def test_a_method_that_is_not_trained_yet_is_not_called_unknown(finished, tmp_path):
    out = tmp_path / "half"
    shutil.copytree(finished, out)
    shutil.rmtree(out / "methods" / "uraenas")
    done = uraenas("evaluate", out)
    assert done.returncode == 2
    assert f"holds no trained uraenas; run: uraenas train {out}" in done.stderr


def test_a_lost_sample_is_made_again(finished, tmp_path):
    out = tmp_path / "lost"
    shutil.copytree(finished, out)
    shutil.rmtree(out / "methods" / "uraenas")
    lost = out / "chains" / "sampled-sampled-00" / "samples" / "0001.safetensors"
    before = Member.load(lost)
    lost.unlink()
    assert uraenas("train", out).returncode == 0
    assert torch.equal(Member.load(lost).weights, before.weights)
    assert len(Ensemble.load(out / "methods" / "uraenas" / "members")) == 2


def test_state_files_of_other_versions_are_gone_on_with_or_named(finished, tmp_path):
    """One without the count of restarts, as the first version wrote it; one that lacks what cannot be guessed."""
    out = tmp_path / "old"
    shutil.copytree(finished, out)
    shutil.rmtree(out / "methods")
    file = "chains/sampled-sampled-00/state.safetensors"
    tensors, header = Run(out).read_tensors(file)
    del header["restarts"]
    Run(out).write_tensors(file, tensors, header)
    assert uraenas("train", out).returncode == 0
    del header["history"]
    Run(out).write_tensors(file, tensors, header)
    shutil.rmtree(out / "methods")  # so that the chain is asked for
    for command in ("train", "show"):
        done = uraenas(command, out)
        assert done.returncode == 2
        assert f"{file} lacks history: another version of uraenas wrote it" in done.stderr


@pytest.mark.parametrize("content", ["[]", '{"rows": 5}', '{"rows": [{}]}', "{"])
def test_damaged_metrics_are_one_line(finished, tmp_path, content):
    out = tmp_path / "damaged"
    shutil.copytree(finished, out)
    (out / "metrics.json").write_text(content)
    for arguments in (("report", out, "--format", "csv"), ("report", out)):
        done = uraenas(*arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1


def test_without_a_terminal_progress_comes_in_lines(finished, tmp_path):
    out = tmp_path / "again"
    shutil.copytree(finished, out)
    shutil.rmtree(out / "methods")
    shutil.rmtree(out / "chains")
    done = uraenas("train", out)
    lines = [line.split() for line in done.stderr.splitlines()]
    assert lines[0] == ["train", "0", "of", lines[0][3]]
    assert lines[-1] == ["train", lines[0][3], "of", lines[0][3]]
    assert len(lines) <= 11


def test_no_command_shows_the_help_alone():
    done = uraenas()
    assert done.returncode == 2
    assert "Usage" in done.stdout
    assert done.stderr == ""
