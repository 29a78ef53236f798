"""A file tells what made it: run, seed, settings, images, versions and date, and no path of this machine."""

import json
import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from uraenas import Run, UraenasError
from uraenas.base.versions import version_of
from uraenas.deploy import export_file
from uraenas.deploy.exported import facts_of
from uraenas.deploy.provenance import provenance


@pytest.mark.parametrize("form", ["onnx", "torch"])
def test_a_file_tells_what_made_it(finished_run: Path, uraenas: Callable, tmp_path: Path, form: str) -> None:
    run, file = Run(finished_run), tmp_path / "model"
    export_file(run, file, form, "drnas")
    facts = json.loads(uraenas("show", file, "--json").stdout)
    assert facts == facts_of(file)
    made, data, config = facts["provenance"], run.data(), run.config()
    assert data is not None
    assert (facts["run"], made["name"], made["seed"]) == (run.identity, finished_run.name, config.seed)
    assert made["data"] == {
        "name": "digits",
        "blake2b": data.blake2b,
        "training_images": data.training_images,
        "held_out_images": data.held_out_images,
        "test_images": data.test_images,
    }
    assert made["trained_with"] == run.environment()
    assert made["exported_with"]["torch"] == torch.__version__
    assert made["exported_with"]["uraenas"] == version_of("uraenas")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["exported"])
    # They make the same method again.
    own = config.only("drnas").values
    assert made["settings"] == json.loads(json.dumps({key: own[key] for key in made["settings"]}))
    assert made["settings"].keys() >= {
        key for key in own if key.startswith(("train.", "search.", "network."))
    }


def test_it_is_shown_on_one_screen(finished_run: Path, uraenas: Callable, tmp_path: Path) -> None:
    run, file = Run(finished_run), tmp_path / "digits.onnx"
    export_file(run, file)
    done = uraenas("show", file)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{file}: uraenas, 2 members, float32"
    for words in (
        f"torch {torch.__version__}",
        f"{finished_run.name}, seed 0, identity {run.identity}",
        "digits: 1,069 training, 189 held-out, 539 test; checksum",
        "images of 8×8×1",
        "probabilities, total",
    ):
        assert any(words in line for line in lines), words
    for option in ("--follow", "--members"):
        assert "is a file, and a run is a directory" in uraenas("show", file, option).stderr


def test_a_table_s_file_names_its_columns(
    table_runs: dict[str, Path], uraenas: Callable, tmp_path: Path
) -> None:
    run = Run(table_runs["numbers"])
    export_file(run, tmp_path / "houses.onnx")
    shown = uraenas("show", tmp_path / "houses.onnx")
    assert "takes       columns area, rooms, town" in shown.stdout
    name = Path(run.config().data.name).name
    assert f"data        {name}:" in shown.stdout
    assert str(Path(run.config().data.name).parent) not in json.dumps(facts_of(tmp_path / "houses.onnx"))


def test_paths_are_not_told_and_names_are_whole(own_run: Path) -> None:
    stored = json.loads((own_run / "config.json").read_text())
    stored |= {
        "data.name": "/home/somebody/photos",
        "data.root": "/home/somebody",
        "data.target": "price/m²",
        "train.sampled.start": "runs/of/somebody",
    }
    stored.pop("checksum")
    (own_run / "config.json").write_text(json.dumps(stored))
    made = provenance(Run(own_run), "uraenas")
    assert "somebody" not in json.dumps({**made, "settings": {**made["settings"], "train.sampled.start": ""}})
    assert made["data"]["name"] == made["settings"]["data.name"] == "photos"
    assert made["settings"]["data.target"] == "price/m²"
    assert made["settings"]["train.sampled.start"] == "somebody"


def test_with_a_date_that_is_given_a_file_has_the_same_bits(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    facts = [export_file(Run(finished_run), tmp_path / name) for name in ("a.onnx", "b.onnx")]
    assert facts[0]["provenance"]["exported"] == "1970-01-02T00:00:00Z"
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(UraenasError, match="SOURCE_DATE_EPOCH = 'today' is no number of seconds"):
        export_file(Run(finished_run), tmp_path / "a.onnx")


def test_other_files_are_refused_in_one_line(finished_run: Path, uraenas: Callable, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("nothing of ours")
    shutil.copy(finished_run / "metrics.json", tmp_path)
    torch.save({}, tmp_path / "weights.pt2")
    for name, facts in (("no-json", "{"), ("a-list", "[]"), ("others", '{"made": 1}')):
        with zipfile.ZipFile(tmp_path / name, "w") as parts:
            parts.writestr("model/extra/facts.json", facts)
    for file in sorted(tmp_path.iterdir()):
        (line,) = uraenas("show", file).stderr.splitlines()
        assert line == f"uraenas: {file} was not written by `uraenas export`"
    with zipfile.ZipFile(tmp_path / "changed", "w") as parts:
        parts.writestr("model/extra/facts.json", '{"uraenas": "0.2.0", "architectures": 3}')
    (line,) = uraenas("show", tmp_path / "changed").stderr.splitlines()
    assert line.endswith("changed has other metadata than `uraenas export` writes")


def test_only_an_onnx_file_wants_onnx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    for name, words in (("photo.png", "was not written by"), ("model.onnx", "onnx is missing; install it")):
        (tmp_path / name).write_text("nothing of ours")
        with pytest.raises(UraenasError, match=words):
            facts_of(tmp_path / name)
