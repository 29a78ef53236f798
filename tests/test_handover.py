"""A small copy of a run predicts and can be gone on with; a run can begin from another's search."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from test_runs import run_tiny, uraenas
from uraenas import Run, UraenasError, load_dataset
from uraenas.base.files import read_tensors
from uraenas.handover import export

DIGITS = load_dataset("digits").test.images[:40]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run, for all tests that only look."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    done = run_tiny(out)
    assert done.returncode == 0, done.stderr
    return out


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def test_a_copy_is_small_and_predicts_the_same_to_half_precision(finished, tmp_path):
    done = uraenas("export", finished, "--out", tmp_path / "small", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    whole, copy = Run(finished), Run(tmp_path / "small")
    assert facts["methods"] == whole.trained == copy.trained
    assert facts["bytes"] == size(copy.path) < size(finished) / 3
    for name in copy.trained:
        members = copy.path / "methods" / name / "members"
        kinds = {tensor.dtype for tensor in read_tensors(members / "000.safetensors")[0].values()}
        assert kinds == {torch.float16, torch.float32}
        expected, found = (run.ensemble(name).predict_proba(DIGITS) for run in (whole, copy))
        assert np.abs(found - expected).max() < 0.02
        assert copy.threshold(0.05, name) == whole.threshold(0.05, name)
    assert not (copy.path / "chains").exists()
    assert copy.metrics() == whole.metrics()
    before = (copy.path / "report.html").read_text()
    assert uraenas("report", copy.path).returncode == 0
    after = (copy.path / "report.html").read_text()
    assert [before.count(f"<{tag}") for tag in ("svg", "section", "table", "image")] == [
        after.count(f"<{tag}") for tag in ("svg", "section", "table", "image")
    ]  # nothing is lost of it


def test_a_copy_in_full_precision_predicts_the_same(finished, tmp_path):
    copy = export(Run(finished), tmp_path / "whole", half=False)
    expected, found = (run.ensemble().predict_proba(DIGITS) for run in (Run(finished), copy))
    assert np.array_equal(found, expected)


def test_a_run_goes_on_from_a_copy_and_judges_its_members_as_they_are_stored(finished, tmp_path):
    out = tmp_path / "on"
    export(Run(finished), out, ["uraenas"])
    before = Run(out).ensemble().predict_proba(DIGITS)
    done = run_tiny(out, "--methods", "uraenas,drnas")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(Run(out).ensemble().predict_proba(DIGITS), before)  # not trained again
    found, expected = (
        {
            name: [row["value"] for row in Run(path).metrics()["rows"] if row["method"] == name]
            for name in ("drnas", "uraenas")
        }
        for path in (out, finished)
    )
    assert found["drnas"] == expected["drnas"]  # the same chain as in the whole run
    assert found["uraenas"] != expected["uraenas"]
    assert found["uraenas"] == pytest.approx(expected["uraenas"], abs=0.02)


def test_a_member_and_its_copy_in_half_precision_are_two(finished, tmp_path):
    """`drnas` is the first chain of the deep ensemble, which is trained anew."""
    out, whole = tmp_path / "on", Run(finished)
    export(whole, out, ["drnas"])
    assert run_tiny(out, "--methods", "drnas,deep-ensemble").returncode == 0
    found, expected = (
        [row["value"] for row in run.metrics()["rows"] if row["method"] == "deep-ensemble"]
        for run in (Run(out), whole)
    )
    assert found == expected
    costs = [run.costs.read()["chains/expected-point-00"]["images"] for run in (Run(out), whole)]
    assert costs[0] == costs[1]  # what the copy says of a chain that stayed behind is not added to


def test_what_is_known_of_chains_that_stayed_behind_is_kept(finished, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(finished, source)
    known = [{"chain": "sampled-sampled-00", "restarts": 1, "given_up": ""}]
    Run(source).write_json("metrics.json", {**Run(source).metrics(), "diverged": known})
    copy = export(Run(source), tmp_path / "copy", ["uraenas"])
    assert uraenas("evaluate", copy.path).returncode == 0
    assert copy.metrics()["diverged"] == known


def test_cells_of_another_version_are_measured_anew(finished, tmp_path):
    """They do not say what they were made from."""
    old = tmp_path / "old"
    shutil.copytree(finished, old)
    run = Run(old)
    for path in old.glob("methods/*/evaluation/*.safetensors"):
        name = str(path.relative_to(old))
        tensors, header = run.read_tensors(name)
        other = {key: value + 1 for key, value in tensors.items()}
        run.write_tensors(name, other, {key: value for key, value in header.items() if key != "made_from"})
    assert uraenas("evaluate", old).returncode == 0
    assert run.metrics() == Run(finished).metrics()


def test_methods_are_chosen_and_unknown_ones_refused(finished, tmp_path):
    copy = export(Run(finished), tmp_path / "one", ["drnas"])
    assert copy.trained == copy.read_json("config.json")["methods"] == ["drnas"]
    with pytest.raises(UraenasError, match="Did you mean 'drnas'"):
        export(Run(finished), tmp_path / "two", ["drna"])
    assert not (tmp_path / "two").exists()


def test_what_is_there_is_not_overwritten(finished, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("dear")
    (tmp_path / ".new.tmp").mkdir()
    done = uraenas("export", finished, "--out", tmp_path / "mine")
    assert done.returncode == 2
    assert "exists and is not empty" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    export(Run(finished), tmp_path / "new", ["drnas", "drnas"])
    assert Run(tmp_path / "new").trained == ["drnas"]
    assert (tmp_path / ".new.tmp").is_dir()


def test_places_where_a_copy_cannot_be(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "file").write_text("")
    for target in (".", "", "link", "file"):
        with pytest.raises(UraenasError, match="cannot become a run directory"):
            export(Run(finished), target)
    with pytest.raises(UraenasError, match="lies in the run itself"):
        export(Run(finished), finished / "copy")
    with pytest.raises(UraenasError, match="cannot write"):
        export(Run(finished), "file/copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]
    assert export(Run(finished), "folder", ["drnas"]).trained == ["drnas"]  # it was empty


def test_a_copy_that_fails_leaves_nothing(finished, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(finished, damaged)
    last = sorted((damaged / "methods/uraenas/members").glob("*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-3])
    (tmp_path / "out").mkdir()
    with pytest.raises(UraenasError, match="damaged"):
        export(Run(damaged), tmp_path / "out/copy")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_run_that_has_trained_nothing_has_nothing_to_copy(finished, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(finished / "config.json", bare)
    with pytest.raises(UraenasError, match="no trained method yet"):
        export(Run(bare), tmp_path / "copy")
    with pytest.raises(UraenasError, match="is not a run directory"):
        export(Run(tmp_path / "nowhere"), tmp_path / "copy")


def test_the_pretrained_run_can_be_copied_to_begin_another_from(tmp_path):
    copy = export(Run.find("cifar10"), tmp_path / "mine")
    assert len(copy.ensemble()) == 10
    assert copy.search_result()[0] is not None


def test_a_run_begins_from_another_ones_search(finished, tmp_path):
    out, whole = tmp_path / "more", Run(finished)
    longer = ("--set", "train.epochs=3", "--set", "train.cycles=1", "--methods", "drnas")
    for _ in range(2):  # the second time it goes on
        done = run_tiny(out, *longer, "--search-of", finished)
        assert done.returncode == 0, done.stderr
    found = Run(out)
    assert torch.equal(found.search_result()[0], whole.search_result()[0])
    assert found.costs.read()["search"] == whole.costs.read()["search"]
    events = [json.loads(line)["event"] for line in (out / "log.jsonl").read_text().splitlines()]
    assert events.count("search taken over") == 1
    assert "searched" not in events


def test_a_search_that_does_not_fit_is_refused_before_anything_is_written(finished, tmp_path):
    out = tmp_path / "other"
    for setting in ("search.epochs=4", "seed=1", "network.channels=5", "data.held_out=0.3"):
        done = run_tiny(out, "--search-of", finished, "--set", setting)
        assert done.returncode == 2
        assert f"does not fit: {setting.partition('=')[0]} was" in done.stderr
        assert not out.exists()
    changed = tmp_path / "changed"
    shutil.copytree(finished, changed)
    run = Run(changed)
    run.write_json("data.json", {**run.read_json("data.json"), "blake2b": "0"})
    done = run_tiny(out, "--search-of", changed)
    assert "was made with other images" in done.stderr
    run.remove("search/architecture.safetensors")
    done = run_tiny(out, "--search-of", changed)
    assert "holds no finished search" in done.stderr
    assert not out.exists()
