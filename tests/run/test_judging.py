"""What was measured before is used as long as it was made from the same, and measured anew where it was not."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from uraenas.base.errors import UraenasError
from uraenas.data import digits
from uraenas.ensemble import Owner, SharedPredictor
from uraenas.ensemble.at_test_time import views
from uraenas.evaluation import Metrics, metrics
from uraenas.report import Picked, alike, write
from uraenas.report.reading import read
from uraenas.run.config import override, preset
from uraenas.run.directory import Run
from uraenas.run.pairing import differences
from uraenas.run.pipeline import Pipeline
from uraenas.run.show import summary
from uraenas.shifts import SUITES
from uraenas.shifts.suite import write_suite
from uraenas.spaces import Stack

GENOTYPE = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"


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


def evaluated(path: Path, **changes: object) -> Metrics:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return Pipeline.start(path, preset("tiny", named)).evaluate()


def test_nothing_is_measured_twice(own_run: Path, predicted: list[str]) -> None:
    before = Run(own_run).metrics()
    assert evaluated(own_run) == before
    assert predicted == []


def test_other_members_are_measured_anew_and_alone(own_run: Path, predicted: list[str]) -> None:
    run = Run(own_run)
    before = run.metrics()
    ensemble = run.ensemble("uraenas")
    first = ensemble.members[0]
    changed = replace(ensemble, members=(replace(first, weights=first.weights * 0.7), *ensemble.members[1:]))
    shutil.rmtree(run.members_folder("uraenas"))  # whose files are the chains' samples
    changed.save(run.members_folder("uraenas"), owner=Owner(run.identity, "uraenas"))
    after = evaluated(own_run)
    assert set(predicted) == {"uraenas"}
    of_others = [[row for row in one.rows if row.method == "drnas"] for one in (before, after)]
    assert of_others[0] == of_others[1]
    assert before.rows != after.rows
    log_p, _ = run.read_tensors("methods/uraenas/predictions/digits.safetensors")
    fresh = changed.member_log_probabilities(digits().test.images)
    torch.testing.assert_close(log_p["log_probabilities"], fresh, rtol=1e-4, atol=1e-4)
    shutil.rmtree(own_run / "methods/uraenas/evaluation")
    shutil.rmtree(own_run / "methods/uraenas/predictions")
    assert evaluated(own_run) == after


def test_what_is_measured_may_change_after_training_and_needs_no_network(
    own_run: Path, predicted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, fewer = Run(own_run).metrics(), evaluated(own_run, evaluate__bootstrap=20)
    assert [row.value for row in fewer.rows] == [row.value for row in before.rows]
    assert fewer.rows != before.rows  # their intervals
    monkeypatch.setitem(metrics.METRICS, "error", lambda log_p, labels: 1 - metrics.accuracy(log_p, labels))
    rows = evaluated(own_run, evaluate__bootstrap=20).rows
    found = {(row.method, row.shift) for row in rows if row.metric == "error"}
    assert {("drnas", "none"), ("uraenas", "contrast")} <= found
    assert predicted == []
    wider = evaluated(own_run, evaluate__severities="1,4")
    assert {row.severity for row in wider.rows} == {0, 1, 4}
    assert predicted
    assert {row.shift for row in evaluated(own_run, evaluate__suite="none").rows} == {"none"}


def test_another_measurement_is_announced_and_not_done_until_it_is(own_run: Path) -> None:
    changed = preset("tiny", {"evaluate.severities": "1,4"})
    pipeline = Pipeline.start(own_run, changed)
    (note,) = (line for line in pipeline.notes() if "anew" in line)
    assert note == "the run is measured anew: evaluate.severities was [1, 5] and is now [1, 4]"
    assert summary(own_run)["stages"]["evaluate"] == "not done"
    # Of the figures that the report would show.
    assert read(Run(own_run)).settings["evaluate.severities"] == [1, 5]
    pipeline.evaluate()
    assert summary(own_run)["stages"]["evaluate"] == "done"
    assert not any("anew" in line for line in Pipeline.start(own_run, changed).notes())


def test_other_ways_to_predict_are_measured_beside_the_plain_one(own_run: Path) -> None:
    """The mean over views; and batch norms that see all test images at once, as a network in training does."""
    before = Run(own_run).metrics()
    after = evaluated(own_run, evaluate__suite="none", evaluate__test_time="views,statistics")
    plain = [row for row in after.rows if row.calibration in ("raw", "temperature")]
    assert plain == [row for row in before.rows if row.shift == "none"]
    member = Run(own_run).ensemble("drnas").members[0]
    test, space = digits().test, Run(own_run).ensemble("drnas").space
    probability = np.mean(
        [said_by(own_run, view) for view in views(test.images, flip=False, padding=1)], axis=0
    )
    accuracy = (probability.argmax(-1) == test.labels).mean()
    assert value_of(after, "views") == pytest.approx(accuracy)
    nll = -np.log(probability[np.arange(len(test)), test.labels]).mean()
    assert value_of(after, "views", "nll") == pytest.approx(nll, rel=1e-5)
    stack = Stack([member.architecture], space).train()
    stack.put(0, member.weights, member.statistics)
    normalise = Run(own_run).ensemble("drnas").normalisation.on(torch.device("cpu"), torch.float32)
    logits = stack(normalise(torch.from_numpy(test.images)))[0]
    accuracy = float((logits.argmax(-1) == torch.from_numpy(test.labels)).double().mean())
    assert value_of(after, "statistics") == pytest.approx(accuracy, abs=0.03)
    assert abs(value_of(after, "raw") - accuracy) > 0.1


def said_by(path: Path, images: np.ndarray) -> np.ndarray:
    return Run(path).ensemble("drnas").member_log_probabilities(images)[0].exp().numpy()


def value_of(found: Metrics, way: str, metric: str = "accuracy") -> float:
    where = ("drnas", metric, way)
    (value,) = (row.value for row in found.rows if (row.method, row.metric, row.calibration) == where)
    return value


def test_views_are_moved_and_mirrored() -> None:
    images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4, 1) + 1
    found = list(views(images, flip=True, padding=2))
    assert len(found) == 10
    np.testing.assert_array_equal(found[0], images)
    np.testing.assert_array_equal(found[1], images[:, :, ::-1])
    np.testing.assert_array_equal(found[2][:, 1:], images[:, :-1])
    assert not found[2][:, 0].any()
    assert len({view.tobytes() for view in found}) == 10


def test_what_has_no_other_views_or_no_batch_norm_says_so_before_training(tmp_path: Path) -> None:
    asked = {"methods": "drnas", "data.padding": 0, "data.flip": "off", "evaluate.test_time": "views"}
    with pytest.raises(UraenasError, match="no other views"):
        Pipeline.checked(tmp_path, preset("tiny", asked))
    for way, why in (("views", "no other views"), ("statistics", "no batch norm")):
        with pytest.raises(UraenasError, match=why):
            Pipeline.checked(tmp_path, preset("table", {"evaluate.test_time": way}))
    with pytest.raises(UraenasError, match="test_time"):
        preset("tiny", {"evaluate.test_time": "view"})


def test_damaged_measurements_are_made_again(own_run: Path) -> None:
    before = Run(own_run).metrics()
    for file in ("predictions/digits", "evaluation/digits", "predictions/digits-contrast-1"):
        (own_run / "methods/uraenas" / f"{file}.safetensors").write_text("x")
    (own_run / "methods/uraenas/evaluation/digits-contrast-1.safetensors").unlink()
    assert evaluated(own_run) == before


def test_images_are_known_again_under_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = digits()
    arrays = {"x_train": images.train.images, "y_train": images.train.labels}
    arrays |= {"x_test": images.test.images, "y_test": images.test.labels}
    for name in ("here", "there"):
        np.savez(tmp_path / f"{name}.npz", **arrays)
    changes = {"methods": "drnas", "evaluate.suite": "none", "train.expected.genotype": GENOTYPE}
    here, there = ({**changes, "data.name": str(tmp_path / f"{n}.npz")} for n in ("here", "there"))
    pipeline = Pipeline.start(tmp_path / "run", preset("tiny", here))
    pipeline.train(pipeline.search())
    first = pipeline.evaluate()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    monkeypatch.setenv("HOME", str(tmp_path))
    run = Run(tmp_path / "copy")
    run.write_config(override(run.config(), {"data.name": "~/here.npz"}))
    assert Pipeline.resume(run.path).config.data.name == "~/here.npz"
    (tmp_path / "here.npz").unlink()
    with pytest.raises(UraenasError, match=r"which is not there.*--set data\.name="):
        Pipeline.resume(tmp_path / "copy")
    second = Pipeline.start(tmp_path / "copy", preset("tiny", there)).evaluate()
    assert [row.value for row in first.rows] == [row.value for row in second.rows]
    assert alike([Picked(Run(tmp_path / "run")), Picked(Run(tmp_path / "copy"))])
    (tmp_path / "copy/data.json").unlink()
    with pytest.raises(UraenasError, match=r"data\.name was"):
        Pipeline.start(tmp_path / "copy", preset("tiny", {**changes, "data.name": "digits"}))


def test_shifted_images_from_elsewhere_do_not_pair(finished_run: Path, own_run: Path, tmp_path: Path) -> None:
    """The same shifts by name, made with another seed: the clean columns are of the same images, the others not."""
    test = digits().test
    for seed in (0, 7):
        folder = tmp_path / f"suite-{seed}"
        write_suite(test.images, test.labels, folder, only=SUITES["basic"], seed=seed, workers=1)
        evaluated(own_run, evaluate__suite=str(folder))
        rows = differences(Run(own_run), f"{finished_run}:drnas")
        shown = {row.shift for row in rows}
        assert shown == ({"none", f"mean{len(SUITES['basic'])}"} if seed == 0 else {"none"})
        assert alike([Picked(Run(own_run)), Picked(Run(finished_run))]) == (seed == 0)


def test_a_suite_of_images_of_another_size_is_refused_before_training(tmp_path: Path) -> None:
    test = digits().test
    larger = test.images.repeat(2, axis=1).repeat(2, axis=2)
    write_suite(larger, test.labels, tmp_path / "suite", only=["contrast"], workers=1)
    changes = {"evaluate.suite": str(tmp_path / "suite")}
    with pytest.raises(UraenasError, match="contrast has images of 16×16×1, the test set of 8×8×1"):
        Pipeline.start(tmp_path / "run", preset("tiny", changes))
    assert not (tmp_path / "run").exists()


def test_a_run_of_a_gpu_is_reported_where_there_is_none(
    own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = Run(own_run)
    run.write_config(override(run.config(), {"engine.device": "cuda"}))
    pipeline = Pipeline.resume(own_run)
    assert write(run, pipeline.task.dataset.test).exists()
    with pytest.raises(UraenasError, match=r"engine\.device = cuda"):
        pipeline.evaluate()
