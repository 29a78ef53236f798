"""A small copy of a run predicts and can be gone on with; a run can begin from another's search."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from uraenas import Run, UraenasError, load_dataset
from uraenas.base.files import read_tensors
from uraenas.evaluation import Diverged
from uraenas.run.config import override, preset
from uraenas.run.directory import search_taken_from
from uraenas.run.export import export, usual_search
from uraenas.run.pipeline import Pipeline
from uraenas.run.task import prepare
from uraenas.run.teaching import distilling

DIGITS = load_dataset("digits").test.images[:40]


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def test_a_copy_is_small_and_predicts_the_same_to_half_precision(
    finished_run: Path, tmp_path: Path, uraenas: Callable
) -> None:
    done = uraenas("export", finished_run, "--out", tmp_path / "small", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    whole, copy = Run(finished_run), Run(tmp_path / "small")
    assert facts["methods"] == whole.trained == copy.trained
    assert facts["bytes"] == size(copy.path) < size(finished_run) / 2.7
    for name in copy.trained:
        members = copy.path / "methods" / name / "members"
        kinds = {tensor.dtype for tensor in read_tensors(members / "000.safetensors")[0].values()}
        assert kinds == {torch.float16, torch.float32}
        expected, found = (run.ensemble(name).predict_proba(DIGITS) for run in (whole, copy))
        assert np.abs(found - expected).max() < 0.02
        assert copy.threshold(0.05, name) == whole.threshold(0.05, name)
    assert not (copy.path / "chains").exists()
    assert copy.metrics() == whole.metrics()
    assert not (copy.path / "report.html").exists()  # it shows test images
    before = (finished_run / "report.html").read_text()
    assert uraenas("report", copy.path).returncode == 0
    after = (copy.path / "report.html").read_text()
    # Nothing is lost of it.
    assert [before.count(f"<{tag}") for tag in ("svg", "section", "table", "image")] == [
        after.count(f"<{tag}") for tag in ("svg", "section", "table", "image")
    ]


def test_a_copy_in_full_precision_predicts_the_same(finished_run: Path, tmp_path: Path) -> None:
    copy = export(Run(finished_run), tmp_path / "whole", half=False, report=True)
    assert (copy.path / "report.html").read_bytes() == (finished_run / "report.html").read_bytes()
    expected, found = (run.ensemble().predict_proba(DIGITS) for run in (Run(finished_run), copy))
    assert np.array_equal(found, expected)


def test_a_run_goes_on_from_a_copy_and_judges_its_members_as_they_are_stored(
    finished_run: Path, tmp_path: Path, uraenas: Callable
) -> None:
    out = tmp_path / "on"
    export(Run(finished_run), out, ["uraenas"])
    before = Run(out).ensemble().predict_proba(DIGITS)
    done = uraenas("run", "--preset", "tiny", "--out", out, "--methods", "uraenas,drnas")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(Run(out).ensemble().predict_proba(DIGITS), before)  # not trained again
    found, expected = (
        {
            name: [row.value for row in Run(path).metrics().rows if row.method == name]
            for name in ("drnas", "uraenas")
        }
        for path in (out, finished_run)
    )
    assert found["drnas"] == expected["drnas"]  # the same chain as in the whole run
    assert found["uraenas"] != expected["uraenas"]
    assert found["uraenas"] == pytest.approx(expected["uraenas"], abs=0.02)


def test_a_member_and_its_copy_in_half_precision_are_two(
    finished_run: Path, tmp_path: Path, uraenas: Callable
) -> None:
    """`drnas` is the first chain of the deep ensemble, which is trained anew."""
    out, whole = tmp_path / "on", Run(finished_run)
    export(whole, out, ["drnas"])
    assert (
        uraenas("run", "--preset", "tiny", "--out", out, "--methods", "drnas,deep-ensemble").returncode == 0
    )
    found, expected = (
        [row.value for row in run.metrics().rows if row.method == "deep-ensemble"]
        for run in (Run(out), whole)
    )
    assert found == expected
    costs = [run.costs.read()["chains/expected-point-00"]["images"] for run in (Run(out), whole)]
    assert costs[0] == costs[1]  # what the copy says of a chain that stayed behind is not added to


def test_what_is_known_of_chains_that_stayed_behind_is_kept(
    own_run: Path, tmp_path: Path, uraenas: Callable
) -> None:
    source, known = Run(own_run), [Diverged("sampled-sghmc-00", 1, "")]
    source.write_outcome(replace(source.metrics(), diverged=known), source.replicates())
    copy = export(source, tmp_path / "copy", ["uraenas"])
    assert uraenas("evaluate", copy.path).returncode == 0
    assert copy.metrics().diverged == known


def test_methods_are_chosen_and_unknown_ones_refused(finished_run: Path, tmp_path: Path) -> None:
    copy = export(Run(finished_run), tmp_path / "one", ["drnas"])
    assert copy.trained == list(copy.config().methods) == ["drnas"]
    with pytest.raises(UraenasError, match="Did you mean 'drnas'"):
        export(Run(finished_run), tmp_path / "two", ["drna"])
    assert not (tmp_path / "two").exists()


def test_what_is_there_is_not_overwritten(finished_run: Path, tmp_path: Path, uraenas: Callable) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("dear")
    (tmp_path / ".new.tmp").mkdir()
    done = uraenas("export", finished_run, "--out", tmp_path / "mine")
    assert done.returncode == 2
    assert "exists and is not empty" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    export(Run(finished_run), tmp_path / "new", ["drnas", "drnas"])
    assert Run(tmp_path / "new").trained == ["drnas"]
    assert (tmp_path / ".new.tmp").is_dir()


def test_places_where_a_copy_cannot_be(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "file").write_text("")
    for target in (".", "", "link", "file"):
        with pytest.raises(UraenasError, match="cannot become a run directory"):
            export(Run(finished_run), target)
    for target in ("mine.onnx", "mine.ZIP"):
        with pytest.raises(
            UraenasError, match=r"would be a directory.* one file is written with --format onnx"
        ):
            export(Run(finished_run), target)
    with pytest.raises(UraenasError, match=r"is a file, and a run is a directory; .*Exported\('file'\)"):
        Run.find("file").config()
    with pytest.raises(UraenasError, match="lies in the run itself"):
        export(Run(finished_run), finished_run / "copy")
    with pytest.raises(UraenasError, match="cannot write"):
        export(Run(finished_run), "file/copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]
    assert export(Run(finished_run), "folder", ["drnas"]).trained == ["drnas"]  # it was empty


def test_a_copy_that_fails_leaves_nothing(finished_run: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(finished_run, tmp_path / "damaged")
    last = sorted((damaged / "methods/uraenas/members").glob("*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-3])
    (tmp_path / "out").mkdir()
    with pytest.raises(UraenasError, match="damaged"):
        export(Run(damaged), tmp_path / "out/copy")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_run_that_has_trained_nothing_has_nothing_to_copy(finished_run: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(finished_run / "config.json", bare)
    with pytest.raises(UraenasError, match="no trained method yet"):
        export(Run(bare), tmp_path / "copy")
    with pytest.raises(UraenasError, match="is not a run directory"):
        export(Run(tmp_path / "nowhere"), tmp_path / "copy")


def test_the_pretrained_run_can_be_copied_to_begin_another_from(tmp_path: Path) -> None:
    copy = export(Run.find("cifar10"), tmp_path / "mine")
    assert len(copy.ensemble()) == 10
    assert copy.searched() is not None


def test_a_run_begins_from_another_ones_search(finished_run: Path, tmp_path: Path, uraenas: Callable) -> None:
    out, whole = tmp_path / "more", Run(finished_run)
    longer = ("--set", "train.epochs=3", "--methods", "drnas", "--set", "evaluate.suite=none")
    for _ in range(2):  # the second time it goes on
        done = uraenas("run", "--preset", "tiny", "--out", out, *longer, "--search-of", finished_run)
        assert done.returncode == 0, done.stderr
    found = Run(out)
    ours, theirs = (run.searched() for run in (found, whole))
    assert ours is not None
    assert theirs is not None
    assert torch.equal(ours.favour, theirs.favour)
    assert ours.history == theirs.history
    assert found.costs.read()["search"] == whole.costs.read()["search"]
    events = [json.loads(line)["event"] for line in (out / "log.jsonl").read_text().splitlines()]
    assert events.count("search taken over") == 1
    assert "searched" not in events


def test_a_search_that_does_not_fit_is_refused_before_anything_is_written(
    finished_run: Path, tmp_path: Path, uraenas: Callable
) -> None:
    """On the same images, those that are held out must be those that it has not seen."""
    out = tmp_path / "other"
    for setting in ("seed=1", "data.held_out=0.3"):
        done = uraenas("run", "--preset", "tiny", "--out", out, "--search-of", finished_run, "--set", setting)
        assert done.returncode == 2
        assert f"does not fit: {setting.partition('=')[0]} was" in done.stderr
        assert "may have seen what is held out now; set this as it was there, or search anew" in done.stderr
        assert not out.exists()
    changed = shutil.copytree(finished_run, tmp_path / "changed")
    Run(changed).remove("search/architecture.safetensors")
    done = uraenas("run", "--preset", "tiny", "--out", out, "--search-of", changed)
    assert "holds no finished search" in done.stderr
    assert not out.exists()


def test_a_search_on_other_images_serves_networks_of_another_width(
    finished_run: Path, tmp_path: Path, uraenas: Callable
) -> None:
    """Its settings are taken over; the new run's data, seed and networks are its own."""
    small = ("--preset", "tiny", "--methods", "drnas", "--set", "network.channels=5", "--set", "seed=3")
    small = (*small, "--set", "data.limit=100", "--set", "evaluate.suite=none")
    out = tmp_path / "run"
    done = uraenas("run", *small, "--set", "search.epochs=7", "--search-of", "cifar10", "--out", out)
    assert (done.returncode, out.exists()) == (2, False)
    assert "others are given: search.epochs = 7 (there 100); leave these out" in done.stderr
    done = uraenas("run", *small, "--search-of", "cifar10", "--out", out)
    assert done.returncode == 0, done.stderr
    found, theirs = Run(out).searched(), Run.pretrained().searched()
    assert found is not None
    assert theirs is not None
    assert found.expected == theirs.expected
    assert found.space == Run(out).ensemble("drnas").space
    config = Run(out).config().values
    assert (config["search.epochs"], config["seed"], config["network.channels"]) == (100, 3, 5)
    again = uraenas("run", *small, "--search-of", "cifar10", "--out", out)
    assert again.returncode == 0, again.stderr


def test_a_search_is_taken_with_its_settings_and_no_others(finished_run: Path, tmp_path: Path) -> None:
    """Those that were given must be the same; a preset's are replaced, and none of another search stays."""
    source, out = Run(finished_run), tmp_path / "run"
    theirs = {key: value for key, value in source.config().values.items() if key.startswith("search.")}
    given = {"search.distribution": "gdas", "search.epochs": 50, "search.batch": theirs["search.batch"]}
    config = preset("tiny", {"methods": "uraenas-a", **given})
    with pytest.raises(UraenasError) as refused:
        Pipeline.start(out, config, search_of=source, given=given)
    told = "search.distribution = gdas (there dirichlet), search.epochs = 50 (there 2); leave these out"
    assert told in str(refused.value)
    assert not out.exists()
    Pipeline.start(out, config, search_of=source, given=["search.batch", "methods"])
    stored = json.loads((out / "config.json").read_text())
    assert {key for key in stored if key.startswith("search.")} == theirs.keys()
    assert Run(out).config().values.items() >= theirs.items()


def test_a_search_is_taken_of_a_run_whose_methods_need_none_now(finished_run: Path, tmp_path: Path) -> None:
    changed = Run(shutil.copytree(finished_run, tmp_path / "changed"))
    Pipeline.start(changed.path, changed.config().only("random-ensemble"))
    assert changed.config().search is None
    pipeline = Pipeline.start(tmp_path / "run", preset("tiny", {"methods": "drnas"}), search_of=changed)
    assert pipeline.search() is not None
    again = Pipeline.start(tmp_path / "again", preset("tiny", {"methods": "drnas"}), search_of=pipeline.run)
    assert search_taken_from(again.run) == "changed"  # who searched, not who took it over
    advised = "architectures come from the search of changed; to search on this data: --search-of none"
    assert advised in again.notes()
    student = Pipeline.start(tmp_path / "one", distilling(changed, "drnas"), search_of=pipeline.run)
    assert "architectures come from the search of changed" in student.notes()  # as a student's are to be


def test_few_own_images_are_not_searched_on_unless_asked(tmp_path: Path, uraenas: Callable) -> None:
    random = np.random.default_rng(0)
    for part, count in (("train", 12), ("test", 4)):
        for kind in ("left", "right"):
            (tmp_path / "own" / part / kind).mkdir(parents=True)
            for number in range(count):
                image = random.integers(0, 256, (8, 8), dtype=np.uint8)
                Image.fromarray(image).save(tmp_path / "own" / part / kind / f"{number}.png")
    call = ("run", "--preset", "tiny", "--methods", "drnas", "--set", f"data.name={tmp_path / 'own'}")
    call = (*call, "--set", "data.image_size=8", "--set", "evaluate.suite=none")
    for options, taken in (
        ((), "cifar10"),
        (("--search-of", "none"), ""),
        (("--set", "search.epochs=2"), ""),
    ):
        out = tmp_path / f"run{len(options)}{taken}{options[-1:]}"
        done = uraenas(*call, *options, "--out", out)
        assert done.returncode == 0, done.stderr
        assert search_taken_from(Run(out)) == taken
        assert ("architectures come from the search of cifar10" in done.stderr) == bool(taken)
        assert uraenas(*call, *options, "--out", out).returncode == 0  # it goes on


@pytest.mark.parametrize(
    ("name", "limit", "taken"),
    [
        ("fashion-mnist", 2000, True),
        ("fashion-mnist", 0, False),
        ("cifar10", 2000, False),
        ("digits", 100, False),
    ],
)
def test_a_few_of_a_named_dataset_are_not_searched_on_unless_the_search_has_seen_them(
    name: str, limit: int, taken: bool
) -> None:
    config = preset("digits", {"data.name": name, "data.limit": limit})
    task = prepare(override(config, {"data.limit": 0}), replace(load_dataset("digits"), name=name))
    assert (usual_search(config, task) is not None) == taken
