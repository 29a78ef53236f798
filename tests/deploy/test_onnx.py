"""An exported ensemble says what the ensemble says, runs without PyTorch and this package, and tells what it is."""

import json
import logging
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from sklearn.datasets import load_digits
from torch import nn

from onnx_alone import run_alone
from uraenas import Run, UraenasError
from uraenas.deploy import Exported, Wanted, accelerated, export_file, writing
from uraenas.deploy.network import EnsembleNetwork, _interval
from uraenas.deploy.onnx_file import halved
from uraenas.deploy.parity import parity_of_images
from uraenas.engine.runtime import model_of, session
from uraenas.engine.runtime.operations import Builder
from uraenas.engine.runtime.recording import record
from uraenas.engine.runtime.unmerged import unmerged
from uraenas.ensemble import runtime
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.predict import Rule, rows_of
from uraenas.ensemble.residuals import Residuals
from uraenas.ensemble.runtime import EarningPredictor, RuntimePredictor

DIGITS = np.uint8(load_digits().images * 255 / 16)[..., None]
LABELS = load_digits().target


@pytest.fixture(scope="module")
def file(finished_run: Path, uraenas: Callable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "digits.onnx"
    done = uraenas("export", finished_run, "--format", "onnx", "--out", path, "--risk", "0.2", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["bytes"] == path.stat().st_size
    assert facts["parity"]["probabilities"] < 1e-5
    assert facts["parity"]["abstain"] == facts["parity"]["prediction_set"] == 0
    return path


def test_it_says_what_predict_says_of_any_number_of_images(finished_run: Path, file: Path) -> None:
    ensemble, exported = Run(finished_run).ensemble(), Exported(file, threads=1)
    rule = Rule.of(ensemble, Asked(risk=0.2))
    for count in (1, 40):
        images = np.concatenate([DIGITS[:count], 255 - DIGITS[:count]])
        found = exported(images)
        rows = rows_of(ensemble, images, rule)
        expected = np.array([list(row["probabilities"].values()) for row in rows])
        np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
        for source in ("total", "data", "weights", "architecture"):
            np.testing.assert_allclose(found[source], [row[source] for row in rows], atol=1e-5)
        np.testing.assert_allclose(found["p_value"], [row["p_value"] for row in rows], atol=2 / 190)
        assert found["abstain"].tolist() == [row["abstain"] for row in rows]
        named = [{ensemble.classes[k] for k in np.flatnonzero(one)} for one in found["prediction_set"]]
        assert named == [set(row["prediction_set"]) for row in rows]


@pytest.mark.parametrize("name", ["abstain", "prediction_set", "probabilities"])
def test_a_file_that_would_say_something_else_is_refused(finished_run: Path, file: Path, name: str) -> None:
    ensemble, exported = Run(finished_run).ensemble(), Exported(file, threads=1)

    def says(images: np.ndarray) -> dict[str, np.ndarray]:
        found = exported(images)
        return {**found, name: ~found[name] if found[name].dtype == bool else found[name] + np.float32(1e-4)}

    with pytest.raises(UraenasError, match=name):
        parity_of_images(ensemble, says, True, Rule.of(ensemble, Asked(risk=0.2)))


@pytest.mark.parametrize(("count", "threads"), [(7, 1), (300, 2)])  # the last in parts side by side
def test_an_accelerated_ensemble_says_the_same(finished_run: Path, count: int, threads: int) -> None:
    ensemble = Run(finished_run).ensemble()
    fast = accelerated(ensemble, threads)
    assert isinstance(fast.predictor("auto"), RuntimePredictor)
    images = DIGITS[:count]
    np.testing.assert_allclose(fast.predict_proba(images), ensemble.predict_proba(images), atol=1e-6)
    for found, expected in zip(fast.look(images), ensemble.look(images), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(
        fast.predict_proba(images.astype(np.float32) / 255), ensemble.predict_proba(images), atol=1e-5
    )
    assert fast.identity == ensemble.identity
    assert not isinstance(pickle.loads(pickle.dumps(fast)).predictor("cpu"), RuntimePredictor)


@pytest.mark.parametrize(("name", "most"), [("EARNED_CALLS", 2), ("EARNED_WORK", 10**6)])
def test_an_ensemble_that_is_asked_often_turns_to_the_runtime(
    finished_run: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(runtime, name, most)
    monkeypatch.setattr(runtime, "BLOCKS", True)
    ensemble = Run(finished_run).ensemble()
    asked = ensemble.predictor("cpu")
    assert isinstance(asked, EarningPredictor)
    expected = ensemble.plain_predictor("cpu")(DIGITS[:40])
    first = [ensemble.member_log_probabilities(DIGITS[:1], device="cpu") for _ in range(2)]
    assert not asked.settled
    assert torch.equal(*first)  # until it turns, the same bits
    turned = ensemble.member_log_probabilities(DIGITS[:40], device="cpu")
    assert asked.settled == {False: asked.runtime}
    torch.testing.assert_close(turned.exp(), expected.exp(), atol=1e-5, rtol=0)


def test_many_images_stay_with_pytorch_where_it_is_faster(
    finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "BLOCKS", False)
    monkeypatch.setattr(runtime, "EARNED_CALLS", 0)
    ensemble = Run(finished_run).ensemble()
    asked, plain = ensemble.predictor("cpu"), ensemble.plain_predictor("cpu")
    assert isinstance(asked, EarningPredictor)
    many = ensemble.member_log_probabilities(DIGITS[: runtime.FEW + 1], device="cpu")
    assert torch.equal(many, plain(DIGITS[: runtime.FEW + 1]))
    assert not asked.settled
    few = ensemble.member_log_probabilities(DIGITS[: runtime.FEW], device="cpu")
    assert asked.settled == {False: asked.runtime}
    torch.testing.assert_close(few.exp(), plain(DIGITS[: runtime.FEW]).exp(), atol=1e-5, rtol=0)


def test_without_the_runtime_pytorch_goes_on(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr(runtime, "EARNED_CALLS", 0)
    ensemble = Run(finished_run).ensemble()
    assert len(ensemble.predict_proba(DIGITS[:2], device="cpu")) == 2
    asked = ensemble.predictor("cpu")
    assert isinstance(asked, EarningPredictor)
    assert asked.settled == {False: asked.plain}


def test_convolutions_that_read_one_map_are_apart_in_a_graph() -> None:
    class Merged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a_weight", torch.randn(6, 3, 3, 3))
            self.register_buffer("a_bias", torch.randn(6))

        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            first, second = torch.conv2d(images, self.a_weight, self.a_bias, padding=1).chunk(2, dim=1)
            whole = torch.conv2d(images, self.a_weight)  # this one is also read as a whole
            return first.relu() + second, whole.amax(dim=1) + whole.chunk(2, dim=1)[0].amax(dim=1)

    module, images = Merged(), torch.randn(2, 3, 8, 8)
    found = unmerged(record(module, images))
    made = [step for step in found.steps if step.operation == "aten.convolution.default"]
    assert [len(found.constants[step.arguments[1].name]) for step in made] == [3, 3, 6]
    own = [
        torch.conv2d(images, *(found.constants[one.name] for one in step.arguments[1:3]), padding=1)
        for step in made[:2]
    ]
    torch.testing.assert_close(own[0].relu() + own[1], module(images)[0])


def test_it_runs_without_torch_and_without_this_package(
    file: Path, finished_run: Path, tmp_path: Path
) -> None:
    found, facts = run_alone(file, {"images": DIGITS[:7]}, tmp_path)
    expected = Run(finished_run).ensemble().predict_proba(DIGITS[:7])
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
    ensemble = Run(finished_run).ensemble()
    assert facts["classes"] == list(ensemble.classes)
    assert facts["mean"] == list(ensemble.normalisation.mean)
    assert (facts["run"], facts["method"]) == (Run(finished_run).identity, "uraenas")
    assert facts["rule"]["risk"] == 0.2
    assert facts["parity"]["probabilities"] < 1e-5
    assert len(facts["architectures"]) == len(ensemble)
    assert facts["undefined"] == {"weights": "no architecture has two members"}


@pytest.mark.parametrize(("precision", "most"), [("half", 0.01), ("int8", 0.3)])
def test_a_precision_tells_what_it_costs(
    finished_run: Path,
    uraenas: Callable,
    tmp_path: Path,
    file: Path,
    caplog: pytest.LogCaptureFixture,
    precision: str,
    most: float,
) -> None:
    path = tmp_path / "small.onnx"
    done = uraenas("export", finished_run, "--format", "onnx", "--out", path, "--precision", precision)
    assert done.returncode == 0, done.stderr
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    (told,) = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert f"{precision} on" in told
    assert "held-out images: accuracy" in told
    exported = Exported(path, threads=1)
    cost = exported.facts["cost"]
    assert set(cost["now"]) == set(cost["float32"]) >= {"accuracy", "nll", "ece", "total", "architecture"}
    apart = np.abs(exported(DIGITS[:50])["probabilities"] - Exported(file, 1)(DIGITS[:50])["probabilities"])
    assert 0 < apart.max() < most
    # Its parity is its own, not that of the float32 it was made from.
    told = exported.facts["parity"]["probabilities"]
    assert 1e-5 < told < most
    assert f"probabilities within {told:.1g} of predict's" in done.stdout


@pytest.mark.parametrize("precision", ["half", "int8"])
def test_what_a_precision_costs_is_measured_on_all_classes_and_on_images_of_the_run(
    tmp_path: Path, uraenas: Callable, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    """In a folder one class comes after another, and the first 128 images would be of the first ones."""
    images, labels = DIGITS[np.argsort(LABELS, kind="stable")], np.sort(LABELS)
    data, out = tmp_path / "sorted.npz", tmp_path / "run"
    np.savez(data, x_train=images, y_train=labels)
    settings = ("data.held_out=0.5", "evaluate.suite=none", "evaluate.references=false", "train.epochs=2")
    assigned = [word for one in settings for word in ("--set", one)]
    run_it = ("run", data, "--preset", "tiny", "--methods", "drnas", "--search-of", "none")
    assert uraenas(*run_it, *assigned, "--out", out).returncode == 0
    seen = []

    def cost(plain: bytes, model: bytes, images: np.ndarray, labels: np.ndarray) -> dict[str, int]:
        seen.append(labels)
        return {"images": len(images)}

    monkeypatch.setattr(writing, "_cost", cost)
    facts = export_file(Run(out), tmp_path / "file", wanted=Wanted(precision))
    assert facts["cost"] == {"images": 500}
    assert (np.bincount(seen[0], minlength=10) > 25).all()
    np.savez(data, x_train=images[:-1], y_train=labels[:-1])
    if precision == "int8":
        with pytest.raises(
            UraenasError, match=r"int8 needs the run's held-out images: those of .* began with"
        ):
            export_file(Run(out), tmp_path / "file", wanted=Wanted(precision))
    else:
        assert "cost" not in export_file(Run(out), tmp_path / "file", wanted=Wanted(precision))


def test_half_precision_stores_half_of_the_weights(finished_run: Path) -> None:
    ensemble = Run(finished_run).ensemble()
    network = EnsembleNetwork(replace(ensemble, known=None)).eval()
    model = model_of(network, (8, 8, 1), True)
    whole = len(model.SerializeToString())
    weights = sum(one.numel() for name, one in network.named_buffers() if name.endswith("weight"))
    assert whole - len(halved(model).SerializeToString()) > 2 * weights - 200 * len(model.graph.initializer)
    # What needs held-out images is not there.
    assert [output.name for output in model.graph.output] == [
        "probabilities",
        "total",
        "data",
        "weights",
        "architecture",
    ]


def test_a_torch_file_is_read_by_torch_alone(
    finished_run: Path, uraenas: Callable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "digits.pt2"
    export_file(Run(finished_run), path, "torch", "drnas")
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    kept = {"facts.json": ""}
    program = torch.export.load(path, extra_files=kept).module()
    facts = json.loads(kept["facts.json"])
    for count in (1, 4):
        found = program(torch.from_numpy(DIGITS[:count]))
        expected = Run(finished_run).ensemble("drnas").predict_proba(DIGITS[:count])
        np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-5)
    assert facts["parity"]["probabilities"] < 1e-5
    assert next(iter(facts["outputs"])) == "probabilities"
    refused = uraenas("export", finished_run, "--format", "torch", "--out", path, "--precision", "int8")
    assert (refused.returncode, "--precision is for --format onnx or web" in refused.stderr) == (2, True)
    refused = uraenas("export", finished_run, "--format", "onnx", "--out", path)
    assert (refused.returncode, path.read_bytes()[:2]) == (2, b"PK")
    assert "digits.pt2 would be taken for --format torch, and this is --format onnx" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--format", "onxn"), "unknown format 'onxn'. Did you mean 'onnx'?"),
        (("--format", "onnx", "--precision", "int4"), "unknown precision 'int4'"),
        (("--format", "onnx", "--methods", "drnas,uraenas"), "a file holds one method"),
        (("--format", "onnx", "--risk", "2"), "risk = 2.0 is out of range"),
        (("--precision", "int8"), "--precision is for --format onnx or web, and this is --format run"),
        (("--risk", "0.01"), "--risk is for --format onnx or torch or web, and this is --format run"),
        (("--format", "onnx", "--with-report"), "--with-report is for --format run, and this is"),
        (("--format", "torch", "--runtime", "x"), "--runtime is for --format web"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(
    finished_run: Path, uraenas: Callable, tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    refused = uraenas("export", finished_run, "--out", tmp_path / "file", *arguments)
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert why in line
    assert not any(tmp_path.iterdir())


def test_images_of_another_form_are_refused(file: Path) -> None:
    exported = Exported(file, threads=1)
    for wrong in (DIGITS[:, :4], DIGITS[0], DIGITS[:0], DIGITS[:2].tolist()):
        with pytest.raises(UraenasError, match="takes images of N×8×8×1"):
            exported(wrong)
    with pytest.raises(UraenasError, match="takes images of uint8"):
        exported(DIGITS[:2] / np.float32(255))
    with pytest.raises(UraenasError, match="no ONNX model that can be run"):
        Exported(b"nothing")


def test_a_column_called_images_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are tried on several threads, for which they have a size."""
    from onnx import TensorProto, helper

    column = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["batch"]) for name in ("images", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["images"], ["y"])], "g", column[:1], column[1:])
    opset = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    monkeypatch.setattr(session, "available_cores", lambda: 2)
    found = session.Session(model.SerializeToString(), 0)
    assert found.of({"images": np.array([1.0, 2.0])})["y"].tolist() == [-1, -2]


@pytest.mark.parametrize("factor", [255, -1])
def test_floats_beyond_0_to_1_are_refused(finished_run: Path, factor: int) -> None:
    """As by the ensemble itself: those of another range would get a sure and wrong answer."""
    ensemble = replace(Run(finished_run).ensemble(), of_bytes=False)
    model = model_of(EnsembleNetwork(ensemble).eval(), (8, 8, 1), of_bytes=False)
    exported, images = Exported(model.SerializeToString(), threads=1), np.float32(DIGITS[:3] / 255)
    assert len(exported(images)["probabilities"]) == 3
    with pytest.raises(UraenasError, match="values from 0 to 1"):
        exported(factor * images)


def test_a_file_abstains_where_an_image_is_no_number(finished_run: Path) -> None:
    """Even with a rule by which no image is foreign, and none too unsure."""
    ensemble = replace(Run(finished_run).ensemble(), of_bytes=False)
    rule = Rule.of(ensemble, Asked(risk=0.2))
    lenient = replace(rule, share=1e-9, threshold=replace(rule.threshold, confidence=0.0))
    model = model_of(EnsembleNetwork(ensemble, lenient).eval(), (8, 8, 1), of_bytes=False)
    images = np.float32(DIGITS[:3] / 255)
    images[1, 2, 3] = np.nan
    found = Exported(model.SerializeToString(), threads=1)(images)
    assert found["abstain"].tolist() == [False, True, False]


def test_an_operation_that_is_not_known_is_named() -> None:
    class Odd(nn.Module):
        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor]:
            return (images.float().erfinv(),)

    found = record(Odd(), torch.zeros(2, 3))
    with pytest.raises(UraenasError, match=r"aten\.erfinv"):
        Builder().add(found.steps[-1])


def test_a_wrong_file_is_not_written(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parity is checked, not claimed: a network that has another temperature than its ensemble is refused."""
    forward = EnsembleNetwork.forward

    def other(self: EnsembleNetwork, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.temperature = 3.0
        return forward(self, images)

    monkeypatch.setattr(EnsembleNetwork, "forward", other)
    with pytest.raises(UraenasError, match="does not say what the ensemble says"):
        export_file(Run(finished_run), tmp_path / "wrong.onnx", wanted=Wanted())
    assert not any(tmp_path.iterdir())


def of_someone_else() -> bytes:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", ends[:1], ends[1:])
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, ir_version=8, opset_imports=opset).SerializeToString()


@pytest.mark.parametrize("form", ["onnx", "torch"])
def test_an_earlier_file_is_replaced_and_nothing_else(finished_run: Path, tmp_path: Path, form: str) -> None:
    run, path = Run(finished_run), tmp_path / "model"
    for method in ("uraenas", "drnas"):
        assert export_file(run, path, form, method)["method"] == method
    before = path.read_bytes()
    kept = {
        "photo.onnx": b"nothing of ours",
        "other.onnx": of_someone_else(),
    }
    torch.save({}, tmp_path / "other.pt2")
    kept["other.pt2"] = (tmp_path / "other.pt2").read_bytes()
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UraenasError, match="was not written by export"):
            export_file(run, tmp_path / name, form, "drnas")
        assert (tmp_path / name).read_bytes() == content
    (tmp_path / "link").symlink_to(path)
    for target, why in (
        (tmp_path / "link", "a link, not a regular file"),
        (Path("/dev/null"), "a device, not a regular file"),
        (finished_run / "config.json", "lies in the run itself"),
        (finished_run / "new.onnx", "lies in the run itself"),
        (tmp_path, "is a folder"),
        (path / "below", "File exists"),
    ):
        with pytest.raises(UraenasError, match=why):
            export_file(run, target, form, "drnas")
    assert path.read_bytes() == before
    assert {one.name for one in tmp_path.iterdir()} == {"model", "link", *kept}


@pytest.mark.parametrize("panels", [1, 2, 3, 4])
def test_intervals_in_a_file_are_voted_for_as_in_an_ensemble(panels: int) -> None:
    random = torch.Generator().manual_seed(panels)
    said = torch.randn(2 * panels, 5, 2, generator=random, dtype=torch.float64)
    members = torch.arange(2 * panels) % panels
    judged_by = torch.arange(20 * panels) % panels
    residual = torch.rand(20 * panels, generator=random, dtype=torch.float64)
    kept = Residuals(residual, torch.ones(20 * panels), judged_by.double(), members.double())
    own = [
        (torch.nonzero(members == number).flatten().tolist(), quantile)
        for number, quantile in kept.quantiles(0.9).items()
    ]
    means, variances = list(said[..., 0]), list(said[..., 1].exp())
    low_and_high = torch.stack(_interval(own, means, variances), dim=1)
    torch.testing.assert_close(low_and_high, kept.interval(said, 0.9))
