"""What was measured before is used as long as it was made from the same, and measured anew where it was not."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from uraenas import metrics
from uraenas.config import override, preset
from uraenas.data import digits
from uraenas.ensemble import SharedPredictor
from uraenas.base.errors import UraenasError
from uraenas.overview import summary
from uraenas.pairing import differences
from uraenas.report import Picked, alike
from uraenas.report.reading import read
from uraenas.run import Run
from uraenas.shifts import SUITES
from uraenas.shifts.suite import write_suite
from uraenas.stages import Pipeline

CHANGES = {"methods": "drnas,uraenas", "evaluate.suite": "basic", "evaluate.severities": "2"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("judged") / "run"
    pipeline = Pipeline.start(path, override(preset("tiny"), CHANGES))
    pipeline.train(pipeline.search())
    pipeline.evaluate()
    return path


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods of which some networks were run, in order."""
    seen: list[str] = []
    run_networks = SharedPredictor.__call__

    def noting(self: SharedPredictor, images: np.ndarray) -> dict[str, torch.Tensor]:
        seen.extend(self.ensembles)
        return run_networks(self, images)

    monkeypatch.setattr(SharedPredictor, "__call__", noting)
    return seen


def evaluated(path: Path, **changes: object) -> dict:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return Pipeline.start(path, override(preset("tiny"), {**CHANGES, **named})).evaluate()


def test_nothing_is_measured_twice(copy: Path, predicted: list[str]) -> None:
    before = Run(copy).metrics()
    assert evaluated(copy) == before
    assert predicted == []


def test_other_members_are_measured_anew_and_alone(copy: Path, predicted: list[str]) -> None:
    run = Run(copy)
    before = run.metrics()
    ensemble = run.ensemble("uraenas")
    first = ensemble.members[0]
    changed = replace(ensemble, members=(replace(first, weights=first.weights * 0.7), *ensemble.members[1:]))
    shutil.rmtree(run.members_folder("uraenas"))  # whose files are the chains' samples
    changed.save(run.members_folder("uraenas"))
    after = evaluated(copy)
    assert set(predicted) == {"uraenas"}
    of_others = [[row for row in one["rows"] if row["method"] == "drnas"] for one in (before, after)]
    assert of_others[0] == of_others[1]
    assert before["rows"] != after["rows"]
    log_p, _ = run.read_tensors("methods/uraenas/predictions/digits.safetensors")
    fresh = changed.member_log_probabilities(digits().test.images)
    torch.testing.assert_close(log_p["log_probabilities"], fresh, rtol=1e-4, atol=1e-4)
    shutil.rmtree(copy / "methods/uraenas/evaluation")
    shutil.rmtree(copy / "methods/uraenas/predictions")
    assert evaluated(copy) == after


def test_what_is_measured_may_change_after_training_and_needs_no_network(
    copy: Path, predicted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, fewer = Run(copy).metrics(), evaluated(copy, evaluate__bootstrap=20)
    assert [row["value"] for row in fewer["rows"]] == [row["value"] for row in before["rows"]]
    assert fewer["rows"] != before["rows"]  # their intervals
    monkeypatch.setitem(metrics.METRICS, "error", lambda log_p, labels: 1 - metrics.accuracy(log_p, labels))
    rows = evaluated(copy, evaluate__bootstrap=20)["rows"]
    found = {(row["method"], row["shift"]) for row in rows if row["metric"] == "error"}
    assert {("drnas", "none"), ("uraenas", "contrast")} <= found
    assert predicted == []
    wider = evaluated(copy, evaluate__severities="2,4")
    assert {row["severity"] for row in wider["rows"]} == {0, 2, 4}
    assert predicted
    assert {row["shift"] for row in evaluated(copy, evaluate__suite="none")["rows"]} == {"none"}


def test_another_measurement_is_announced_and_not_done_until_it_is(copy: Path) -> None:
    changed = override(preset("tiny"), {**CHANGES, "evaluate.severities": "2,4"})
    pipeline = Pipeline.start(copy, changed)
    (note,) = (line for line in pipeline.notes() if "anew" in line)
    assert note == "the run is measured anew: evaluate.severities was [2] and is now [2, 4]"
    assert summary(Run(copy))["stages"]["evaluate"] == "not done"
    assert read(Run(copy)).config["evaluate.severities"] == [2]  # of the figures that the report would show
    pipeline.evaluate()
    assert summary(Run(copy))["stages"]["evaluate"] == "done"
    assert not any("anew" in line for line in Pipeline.start(copy, changed).notes())


def test_damaged_measurements_are_made_again(copy: Path) -> None:
    before = Run(copy).metrics()
    for file in ("predictions/digits", "evaluation/digits", "predictions/digits-contrast-2"):
        (copy / "methods/uraenas" / f"{file}.safetensors").write_text("x")
    (copy / "methods/uraenas/evaluation/digits-contrast-2.safetensors").unlink()
    assert evaluated(copy) == before


def test_images_are_known_again_under_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = digits()
    arrays = {"x_train": images.train.images, "y_train": images.train.labels}
    arrays |= {"x_test": images.test.images, "y_test": images.test.labels}
    for name in ("here", "there"):
        np.savez(tmp_path / f"{name}.npz", **arrays)
    changes = {**CHANGES, "methods": "drnas", "evaluate.suite": "none"}
    here, there = ({**changes, "data.name": str(tmp_path / f"{n}.npz")} for n in ("here", "there"))
    pipeline = Pipeline.start(tmp_path / "run", override(preset("tiny"), here))
    pipeline.train(pipeline.search())
    first = pipeline.evaluate()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    monkeypatch.setenv("HOME", str(tmp_path))
    run = Run(tmp_path / "copy")
    run.write_json("config.json", {**run.read_json("config.json"), "data.name": "~/here.npz"})
    assert Pipeline.resume(run.path).config.data.name == "~/here.npz"
    (tmp_path / "here.npz").unlink()
    with pytest.raises(UraenasError, match=r"which is not there.*--set data\.name="):
        Pipeline.resume(tmp_path / "copy")
    second = Pipeline.start(tmp_path / "copy", override(preset("tiny"), there)).evaluate()
    assert [row["value"] for row in first["rows"]] == [row["value"] for row in second["rows"]]
    assert alike([Picked(Run(tmp_path / "run")), Picked(Run(tmp_path / "copy"))])
    (tmp_path / "copy/data.json").unlink()
    with pytest.raises(UraenasError, match=r"data\.name was"):
        Pipeline.start(tmp_path / "copy", override(preset("tiny"), {**changes, "data.name": "digits"}))


def test_a_run_whose_samples_explored_can_still_be_looked_at(copy: Path, tmp_path: Path) -> None:
    """The first versions allowed it; a new one is refused, unless no method samples."""
    run = Run(copy)
    run.write_json("config.json", {**run.read_json("config.json"), "train.weight_samples": 2})
    assert Pipeline.resume(copy).report().exists()
    assert summary(run)["stages"]["evaluate"] == "done"
    many = {**CHANGES, "train.weight_samples": 2}
    with pytest.raises(UraenasError, match="leaves 1 for its 2 samples"):
        Pipeline.start(tmp_path / "new", override(preset("tiny"), many))
    Pipeline.start(tmp_path / "new", override(preset("tiny"), {**many, "methods": "drnas,deep-ensemble"}))


def test_shifted_images_from_elsewhere_do_not_pair(finished: Path, copy: Path, tmp_path: Path) -> None:
    """The same shifts by name, made with another seed: the clean columns are of the same images, the others not."""
    test = digits().test
    for seed in (0, 7):
        folder = tmp_path / f"suite-{seed}"
        write_suite(test.images, test.labels, folder, only=SUITES["basic"], seed=seed, workers=1)
        evaluated(copy, evaluate__suite=str(folder))
        rows = differences(Run(copy), f"{finished}:drnas")
        shown = {row["shift"] for row in rows}
        assert shown == ({"none", f"mean{len(SUITES['basic'])}"} if seed == 0 else {"none"})
        assert alike([Picked(Run(copy)), Picked(Run(finished))]) == (seed == 0)


def test_a_suite_of_images_of_another_size_is_refused_before_training(tmp_path: Path) -> None:
    test = digits().test
    larger = test.images.repeat(2, axis=1).repeat(2, axis=2)
    write_suite(larger, test.labels, tmp_path / "suite", only=["contrast"], workers=1)
    changes = {**CHANGES, "evaluate.suite": str(tmp_path / "suite")}
    with pytest.raises(UraenasError, match="contrast has images of 16×16×1, the test set of 8×8×1"):
        Pipeline.start(tmp_path / "run", override(preset("tiny"), changes))
    assert not (tmp_path / "run").exists()


def test_a_run_of_a_gpu_is_reported_where_there_is_none(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = Run(copy)
    run.write_json("config.json", {**run.read_json("config.json"), "engine.device": "cuda"})
    pipeline = Pipeline.resume(copy)
    assert pipeline.report().exists()
    with pytest.raises(UraenasError, match=r"engine\.device = cuda"):
        pipeline.evaluate()
