"""References stand in the tables of a run and of its report, and nothing else notices them."""

import json
import shutil
from pathlib import Path

import pytest

from made_up_tables import TINY, table
from uraenas.evaluation import CLASSIFIERS, REGRESSORS
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

SECTIONS = ("compared", "compared-size")


@pytest.fixture(scope="module")
def compared(uraenas, finished_run, tmp_path_factory):
    """A copy of the finished run, measured again with references; and what that printed. To be looked at."""
    own_run = Path(shutil.copytree(finished_run, tmp_path_factory.mktemp("compared") / "run"))
    before = json.loads((own_run / "metrics.json").read_text())["rows"]
    done = uraenas("run", "--preset", "tiny", "--set", "evaluate.references=true", "--out", own_run)
    assert done.returncode == 0, done.stderr
    return own_run, before, done


def test_they_are_added_to_rows_that_stay_as_they_were(uraenas, compared):
    path, before, done = compared
    after = json.loads((path / "metrics.json").read_text())["rows"]
    assert [row for row in after if row["method"] not in CLASSIFIERS] == before
    added = [row for row in after if row["method"] in CLASSIFIERS]
    assert {row["shift"] for row in added} == {row["shift"] for row in before}
    assert {row["members"] for row in added} == {1}
    for line in ("does not beat logistic", "does not beat forest"):  # two epochs do not
        assert line in done.stderr
    tables = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("│")]
    assert tables.count("logistic") == tables.count("forest") == 2
    assert "measured anew" in done.stderr


def test_page_and_formats_have_them_in_tables(uraenas, compared, tmp_path):
    path = Path(shutil.copytree(compared[0], tmp_path / "run"))
    page = (path / "report.html").read_text()
    assert "does not beat forest" in page
    for form in ("md", "csv", "latex"):
        shown = uraenas("report", path, "--format", form).stdout
        assert all(name in shown for name in CLASSIFIERS)
    both = uraenas("report", path, path, "--out", path / "both.html")
    assert both.returncode == 0, both.stderr
    sections = (path / "both.html").read_text().split("<section ")
    best, sizes = (next(s for s in sections if s.startswith(f'id="{id}"')) for id in SECTIONS)
    assert all(f"<dt>{name}</dt><dd>{about}</dd>" in best for name, about in CLASSIFIERS.items())
    assert "uraenas" in sizes
    assert f"Without {' and '.join(CLASSIFIERS)}, which are no networks." in sizes
    assert all(sizes.count(name) == 1 for name in CLASSIFIERS), "they are drawn, or have a key"
    assert uraenas("report", path, "--against", "forest").returncode == 0
    refused = uraenas("report", f"{path}:forest", "--out", path / "one.html")
    assert refused.returncode == 2
    assert "a page needs a trained method" in refused.stderr


def test_copies_and_lists_of_methods_do_without_them(uraenas, compared, tmp_path):
    path, _, _ = compared
    assert set(Run(path).trained) == {"drnas", "uraenas", "deep-ensemble"}
    assert uraenas("show", path).returncode == 0
    assert uraenas("export", path, "--out", tmp_path / "copy").returncode == 0
    assert uraenas("report", tmp_path / "copy").returncode == 0


def test_a_run_says_how_many_images_they_learn_from(tmp_path, monkeypatch):
    monkeypatch.setattr("uraenas.run.advice.MOST_IMAGES", 500)
    config = preset("tiny", {"methods": "random-ensemble", "evaluate.references": True})
    notes = Pipeline.start(tmp_path / "run", config).notes()
    assert any("learn from 500 of 1,069 training images" in note for note in notes), notes
    wanted = {
        name: preset(name).evaluate.references for name in ("digits", "tiny", "cifar10", "cifar10-fast")
    }
    assert wanted == {"digits": True, "tiny": False, "cifar10": False, "cifar10-fast": False}


@pytest.mark.parametrize("targets", [("price",), ("price", "rooms")], ids=["one", "several"])
def test_numbers_have_references_of_their_own(uraenas, tmp_path, targets):
    houses, out = table(tmp_path / "houses.csv"), tmp_path / "run"
    settings = {
        **TINY,
        "data.target": ",".join(targets),
        "data.leave_out": "sold",
        "evaluate.references": True,
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = ("run", houses, "--preset", "table", "--methods", "uraenas-adam", *words, "--out", out)
    done = uraenas(*command)
    assert done.returncode == 0, done.stderr
    tables = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("│")]
    shown = 2 * (1 if len(targets) == 1 else 3)  # the mean of several, and each
    assert tables.count("ridge") == tables.count("forest") == shown
    page = (out / "report.html").read_text()
    for name in REGRESSORS:  # four epochs do not beat them
        assert f"uraenas-adam does not beat {name}, a plain regression: test RMSE" in " ".join(
            done.stderr.split()
        )
        assert f"does not beat {name}" in page
    told = json.loads(uraenas(*command, "--json").stdout)
    found = {row["method"]: row["value"] for row in told["rows"] if row["metric"] == f"{targets[0]}.rmse"}
    found |= {row["method"]: row["value"] for row in told["rows"] if row["metric"] == "rmse"}
    assert set(found) == {"uraenas-adam", *REGRESSORS}
    if len(targets) == 1:
        assert found["ridge"] < 20, "noise of 10, and what networks read says the rest"
    left = uraenas(*command, "--set", "evaluate.references=false", "--json")
    assert {row["method"] for row in json.loads(left.stdout)["rows"]} == {"uraenas-adam"}
