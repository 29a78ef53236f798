"""The commands that make a run or look at one: what they print, what they leave, what they refuse in one line."""

import json
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import uraenas as package
from uraenas.evaluation import Diverged
from uraenas.run.advice import on_members
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.show import summary


def assert_one_line(done, *words: str) -> None:
    """The words are in the one line on standard error, and the exit code says that the user can mend it."""
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


def test_the_version_is_that_of_the_package(uraenas):
    assert uraenas("--version").stdout.strip() == package.__version__ == version("uraenas")


def test_no_command_shows_the_help_alone(uraenas):
    done = uraenas()
    assert done.returncode == 2
    assert "Usage" in done.stdout
    assert done.stderr == ""


def test_the_same_command_again_prints_the_table_of_the_paper_and_changes_nothing(uraenas, own_run):
    def times():
        return {path: path.stat().st_mtime_ns for path in own_run.glob("chains/*/samples/*")}

    before, chains = (own_run / "metrics.json").read_bytes(), times()
    again = uraenas("run", "--preset", "tiny", "--out", own_run)
    assert again.returncode == 0, again.stderr
    for word in ("Acc", "ECE", "NLL", "cAcc", "cECE", "cNLL", "Dis", "drnas", "uraenas", "deep-ensemble"):
        assert word in again.stdout
    assert "; cAcc: accuracy on shifted images, and so cECE, cNLL; Dis: " in " ".join(again.stdout.split())
    assert (own_run / "metrics.json").read_bytes() == before
    assert times() == chains


def test_a_table_is_the_same_in_json(uraenas, finished_run):
    table = uraenas("report", finished_run, "--format", "md").stdout
    assert json.loads(uraenas("report", finished_run, "--format", "md", "--json").stdout) == {"table": table}


def test_methods_that_are_trained_but_not_asked_for_are_named(uraenas, own_run):
    changes = ("--set", "evaluate.suite=none")
    done = uraenas("run", "--preset", "tiny", "--methods", "uraenas", *changes, "--out", own_run)
    assert done.returncode == 0, done.stderr
    assert "not asked for: deep-ensemble, drnas (--methods)" in done.stdout


def test_members_that_are_missing_and_temperatures_far_from_1_are_told(uraenas, own_run, monkeypatch):
    said = ("run", "--preset", "tiny", "--out", own_run)
    run = Run(own_run)
    config, metrics = run.config(), run.metrics()
    sizes = {"uraenas": 2, "deep-ensemble": 1, "drnas": 1}
    rows = [row for row in metrics.rows if row.members <= sizes[row.method]]
    gone = [
        Diverged(f"{chain}-0{number}", 20, "loss above 100")
        for chain in ("expected-point", "sampled-sghmc")
        for number in range(2)
    ]
    near = dict.fromkeys(metrics.temperatures, 1.9)
    few = replace(metrics, rows=rows, temperatures={**near, "drnas": (0.6, 2.345), "uraenas": 0.4})
    assert on_members(config, replace(few, temperatures=near)) == []
    missing, far = on_members(config, replace(few, diverged=gone))
    assert missing.startswith("deep-ensemble has 1 of 2 members: 2 chains diverged and had")
    assert "far from 1, by held-out data: 2.35 of drnas, 0.4 of uraenas; do not trust" in far
    assert on_members(config, replace(few, diverged=[replace(one, given_up="") for one in gone])) == [far]
    monkeypatch.setattr("uraenas.run.advice.FAR", 1)
    again = uraenas(*said)
    assert again.stderr.count("note: temperatures far from 1, by held-out data: ") == 1
    assert "far from 1" not in uraenas(*said, "--json").stderr


def test_a_run_is_measured_otherwise_but_not_trained_otherwise(uraenas, own_run):
    before = summary(own_run)["dates"]
    done = uraenas(
        "evaluate", own_run, "--set", "evaluate.suite=none", "--set", "evaluate.bootstrap=0", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert {row["shift"] for row in json.loads(done.stdout)["rows"]} == {"none"}
    assert Run(own_run).config().evaluate.suite == "none"
    after = summary(own_run)["dates"]
    assert (after["begun"], after["last"] > before["last"]) == (before["begun"], True)
    assert_one_line(uraenas("evaluate", own_run, "--set", "train.epochs=9"), "train.epochs")


def test_stages_one_by_one_give_the_same_result(uraenas, short_run, tmp_path):
    out = tmp_path / "stages"
    Pipeline.start(out, preset("tiny", {"data.limit": 100, "evaluate.suite": "none"}))
    assert uraenas("search", out, "--json").returncode == 0
    assert_comes_in_lines(uraenas("train", out).stderr)
    for stage in ("search", "train", "evaluate", "report"):  # two of them again, which are done
        done = uraenas(stage, out, "--json")
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)
    assert (out / "metrics.json").read_bytes() == (short_run / "metrics.json").read_bytes()
    shown = json.loads(uraenas("show", out, "--json").stdout)
    assert shown["stages"]["evaluate"] == "done"
    assert len(shown["members"]["uraenas"]) == 2


def assert_comes_in_lines(told):
    """Progress, where there is no terminal."""
    lines = [line.split() for line in told.splitlines()]
    training = [line for line in lines if line[0] == "train"]
    total = training[0][3]  # in steps
    assert training[0] == ["train", "0", "of", total]
    assert training[-1][:4] == ["train", total, "of", f"{total};"]
    assert "epochs, mean loss" in " ".join(training[-1][4:])
    assert len(training) <= 11
    assert lines[-1] == ["members", "3", "of", "3"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "trian.epochs=3"], ["trian.epochs", "train.epochs"]),
        (["--set", "train.epochs=three"], ["train.epochs", "three", "whole number"]),
        (["--set", "train.epochs=-1"], ["train.epochs", "-1"]),
        (["--set", "train.epochs"], ["key=value"]),
        (["--set", "data.flip=yes"], ["data.flip = 'yes'", "auto, on, off"]),
        (["--methods", "uranas"], ["uranas", "uraenas"]),
        (["--preset", "digit"], ["digit", "digits"]),
        (["--presett", "tiny"], ["--presett", "--preset"]),
        (["--set", "data.name=nowhere.npz"], ["nowhere.npz"]),
        (["nowhere.npz"], ["nowhere.npz"]),
        (["photos", "--set", "data.name=pictures"], ["named twice", "photos", "pictures"]),
        (
            ["--methods", "drnas", "--set", "train.sampling.cycles=2"],
            ["train.sampling.cycles is no setting of drnas", "uraenas-w"],
        ),
        (["--set", "train.sampling.samples=17"], ["train.sampling.samples", "1 … 16"]),
        (["--set", "network.channels=1000000000"], ["network.channels", "1,024"]),
        (
            ["--set", "network.channels=1024", "--set", "network.cells=100"],
            ["parameters", "GB", "network.cells"],
        ),
        (["--set", "evaluate.outside=nowhere.npz"], ["nowhere.npz"]),
        (["--set", "evaluate.suite=nowhere"], ["nowhere"]),  # before anything is trained
    ],
)
def test_bad_input_is_one_clear_line_and_writes_nothing(uraenas, tmp_path, arguments, words):
    assert_one_line(uraenas("run", *arguments, "--out", tmp_path / "bad"), *words)
    assert not (tmp_path / "bad").exists()


def test_a_run_does_not_lie_among_classes_of_images(uraenas, tmp_path, monkeypatch):
    """The next command would take it for a class."""
    for name in ("bright", "dark"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "photos")
    assert_one_line(uraenas("run", "."), "runs/photos is among the classes of .", "--out")
    assert_one_line(uraenas("run", tmp_path / "photos", "--out", "mine"), "mine is among the classes")
    assert sorted(one.name for one in Path().iterdir()) == ["bright", "dark"]
    assert_one_line(uraenas("run", ".", "--out", "../runs"), "bright")  # has no images


def test_a_run_is_not_taken_for_images(uraenas, finished_run, tmp_path):
    assert_one_line(uraenas("run", finished_run, "--out", tmp_path / "new"), "is a run, not images")


def test_a_class_of_too_few_examples_is_counted_as_the_user_counts(uraenas, tmp_path):
    images = np.zeros((22, 8, 8, 1), np.uint8)
    labels = np.array([0] * 10 + [1] * 10 + [2] * 2)
    np.savez(tmp_path / "few.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    done = uraenas("run", "--set", f"data.name={tmp_path / 'few.npz'}", "--out", tmp_path / "run")
    assert_one_line(done, "class '2' has 2 training image(s); needed: 3")


def test_other_settings_are_refused_with_the_difference_shown(uraenas, own_run):
    before = (own_run / "config.json").read_bytes()
    done = uraenas("run", "--preset", "tiny", "--set", "train.epochs=4", "--out", own_run)
    assert_one_line(done, "train.epochs was 2 and is now 4")
    assert (own_run / "config.json").read_bytes() == before


def test_a_damaged_file_is_named(uraenas, own_run):
    shutil.rmtree(own_run / "methods")
    search = own_run / "search" / "architecture.safetensors"
    content = bytearray(search.read_bytes())
    content[-3] ^= 1
    search.write_bytes(content)
    assert_one_line(uraenas("train", own_run), "architecture.safetensors is damaged")


@pytest.mark.parametrize("content", ["[]", '{"rows": 5}', '{"rows": [{}]}', "{"])
def test_damaged_metrics_are_one_line(uraenas, own_run, content):
    (own_run / "metrics.json").write_text(content)
    for form in ("csv", "html"):
        assert_one_line(uraenas("report", own_run, "--format", form), "metrics.json is damaged")


@pytest.mark.parametrize("kind", ["folder of other things", "file"])
def test_what_is_no_run_is_not_written_to(uraenas, tmp_path, kind):
    (tmp_path / "thesis.txt").write_text("years of work")
    out = tmp_path if kind == "folder of other things" else tmp_path / "thesis.txt"
    assert_one_line(uraenas("run", "--preset", "tiny", "--out", out))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_method_that_is_not_trained_yet_is_not_called_unknown(uraenas, own_run):
    shutil.rmtree(Run(own_run).members_folder("uraenas"))
    done = uraenas("evaluate", own_run)
    assert done.returncode == 2
    assert f"holds no trained uraenas; run: uraenas train {own_run}" in done.stderr
