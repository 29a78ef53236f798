"""Writes an ensemble as one file, checks that the file says the same, and measures what a precision costs."""

import io
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from uraenas.base import draws
from uraenas.base.errors import UraenasError, unknown
from uraenas.base.regular_files import require_regular
from uraenas.base.versions import version_of
from uraenas.base.whole_files import rename_for_good, unfinished, writing
from uraenas.deploy import onnx_file
from uraenas.deploy.columns import of_columns
from uraenas.deploy.exported import FACTS, Exported, is_exported
from uraenas.deploy.network import EnsembleNetwork, NumbersNetwork
from uraenas.deploy.parity import parity_of_images, parity_of_rows
from uraenas.deploy.provenance import provenance
from uraenas.engine.runtime import graph
from uraenas.ensemble import Ensemble
from uraenas.ensemble.asked import USUAL, Asked
from uraenas.ensemble.predict import Rule
from uraenas.evaluation import METRICS
from uraenas.evaluation.metrics import SOURCES
from uraenas.run.directory import Run
from uraenas.run.task import prepare

if TYPE_CHECKING:
    from onnx import ModelProto

PRECISIONS = ("float32", "half", "int8")
FORMATS = ("onnx", "torch")
CALIBRATION = 128  # held-out images for the ranges of int8
MEASURED = 500  # held-out images on which the loss of a precision is measured


@dataclass(frozen=True)
class Wanted:
    """What a file should hold."""

    precision: str = "float32"
    asked: Asked = USUAL

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)

    def rule(self, ensemble: Ensemble) -> Rule | None:
        return None if ensemble.known is None else Rule.of(ensemble, self.asked)


def export_file(
    run: Run,
    path: Path | str,
    form: str = "onnx",
    method: str = "",
    wanted: Wanted | None = None,
    images: np.ndarray | None = None,
    labels: np.ndarray | None = None,
) -> dict[str, Any]:
    """Write one file with the ensemble of a method, and return what its metadata say.

    Held-out images are needed for int8, and to say what a precision costs; where none are given, they are those of the
    run. The file appears whole or not at all, and only if it says the same as `predict_proba`.
    """
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    wanted = wanted or Wanted()
    target, method = Path(path), method or run.primary
    _require_own_or_new(target, run)
    ensemble = run.ensemble(method)
    if ensemble.normalisation.columns is not None and (form, wanted.precision) != ("onnx", "float32"):
        raise UraenasError("an ensemble for rows of a table is written as ONNX in float32")
    network = _network(ensemble, wanted).eval()
    facts: dict[str, Any] = {"run": run.identity, "method": method, "provenance": provenance(run, method)}
    facts |= _facts(ensemble, network, wanted)
    if (teacher := run.teacher()) is not None:
        facts["teacher"] = teacher
    if folds := run.config().train.folds:
        facts["folds"] = (
            folds  # so many parts of the training set were left out in turn, and no more is held out
        )
    begun = unfinished(target)
    try:
        with writing(target):
            begun.parent.mkdir(parents=True, exist_ok=True)
            if ensemble.normalisation.columns is not None or isinstance(network, NumbersNetwork):
                facts |= _write_rows(network, ensemble, begun, facts, wanted)
            elif form == "torch":
                facts |= _write_torch(network, ensemble, begun, facts, wanted)
            else:
                if images is not None and labels is not None:
                    apart: tuple[np.ndarray, np.ndarray] | None = (images, labels)
                else:
                    apart = _held_out(run, wanted)
                facts |= _write_onnx(network, ensemble, begun, facts, wanted, apart)
            rename_for_good(begun, target)
    finally:
        with suppress(OSError):
            begun.unlink(missing_ok=True)
    return facts


def _require_own_or_new(target: Path, run: Run) -> None:
    """Refuse to replace what `export` has not written, before anything is computed."""
    if target.is_dir():
        raise UraenasError(f"{target} is a folder; name a file (--out)")
    if run.path.resolve() in target.resolve().parents:
        raise UraenasError(f"{target} lies in the run itself; name another file (--out)")
    require_regular(target)
    if target.exists() and not is_exported(target):
        raise UraenasError(f"{target} exists and was not written by export; name another file (--out)")


def _network(ensemble: Ensemble, wanted: Wanted) -> EnsembleNetwork | NumbersNetwork:
    if ensemble.classes:
        return EnsembleNetwork(ensemble, wanted.rule(ensemble))
    return NumbersNetwork(ensemble, wanted.asked.share, wanted.asked.coverage)


def _facts(ensemble: Ensemble, network: EnsembleNetwork | NumbersNetwork, wanted: Wanted) -> dict[str, Any]:
    shape, rule = ensemble.space.shape, network.rule if isinstance(network, EnsembleNetwork) else None
    columns, of_images = ensemble.normalisation.columns, {}
    if columns is None:
        of_images = {
            "image": [shape.height, shape.width, shape.channels],
            "values": "bytes" if ensemble.of_bytes else "0 to 1",
            "mean": list(ensemble.normalisation.mean),
            "deviation": list(ensemble.normalisation.deviation),
        }
    facts = {
        "classes": list(ensemble.classes),
        **(of_images if columns is None else columns.as_json()),
        "temperature": ensemble.temperatures,
        "ensemble": ensemble.identity,
        "architectures": [str(member.architecture) for member in ensemble.members],
        "precision": wanted.precision,
        "uraenas": version_of("uraenas"),
        "outputs": {output.name: output.about for output in network.outputs},
        "undefined": ensemble.undefined,
    }
    if not ensemble.classes:
        facts["rule"] = {"share": wanted.asked.share, "coverage": wanted.asked.coverage}
    if rule is not None:
        promised = {"share": rule.share, "coverage": rule.coverage}
        # Held-out scores are those of float32.
        kept = rule.threshold.certainty if wanted.precision == "float32" else 0.0
        facts["rule"] = {**asdict(rule.threshold), **promised, "certainty": kept}
    return facts


def _held_out(run: Run, wanted: Wanted) -> tuple[np.ndarray, np.ndarray] | None:
    """The run's held-out images, where a precision needs them or its cost is asked for, and they are at hand."""
    if wanted.precision == "float32":
        return None
    config = run.config()
    try:
        task = prepare(config)
        if (known := run.data()) is not None and not known.fits(task.facts):
            changed = known.unlike(task.facts)
            raise UraenasError(f"those of {config.data.name} are not the ones that it began with{changed}")
    except UraenasError as error:
        if wanted.precision == "int8":
            raise UraenasError(f"int8 needs the run's held-out images: {error}") from error
        return None
    # In a random order: folders have one class after another.
    order = draws.permutation(draws.at(draws.key(config.seed, "precision"), 0), len(task.held_out))
    part = task.held_out.take(order[: CALIBRATION + MEASURED].numpy())
    return part.images, part.labels


def _write_onnx(
    network: EnsembleNetwork,
    ensemble: Ensemble,
    path: Path,
    facts: dict[str, Any],
    wanted: Wanted,
    held_out: tuple[np.ndarray, np.ndarray] | None,
) -> dict[str, Any]:
    graph.require_onnx()
    shape = ensemble.space.shape
    size = (shape.height, shape.width, shape.channels)
    # In int8 a convolution lays out its input anew, so that those which read one map are better one.
    model = graph.model_of(network, size, ensemble.of_bytes, merged=wanted.precision == "int8")
    parity = parity_of_images(
        ensemble, Exported(model.SerializeToString(), threads=1), ensemble.of_bytes, network.rule
    )
    found: dict[str, Any] = {"parity": parity}
    if wanted.precision != "float32":
        plain = model.SerializeToString()
        model = _in_precision(model, wanted.precision, held_out)
        less = Exported(model.SerializeToString(), threads=1)
        found["parity"] = parity_of_images(ensemble, less, ensemble.of_bytes, network.rule, refused=False)
        if held_out is not None:
            apart = tuple(one[CALIBRATION:] if len(one) > CALIBRATION else one for one in held_out)
            found["cost"] = _cost(plain, model.SerializeToString(), *apart)
    onnx_file.describe(model, {name: json.dumps(value) for name, value in {**facts, **found}.items()})
    path.write_bytes(model.SerializeToString())
    return found


def _in_precision(
    model: "ModelProto", precision: str, held_out: tuple[np.ndarray, np.ndarray] | None
) -> "ModelProto":
    if precision == "half":
        return onnx_file.halved(model)
    if held_out is None:
        raise UraenasError("int8 needs held-out images, and none are at hand")
    return onnx_file.in_int8(model, held_out[0][:CALIBRATION])


def _cost(plain: bytes, model: bytes, images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Accuracy, NLL, ECE and mean uncertainties in float32 and in this precision, on held-out images."""
    found: dict[str, Any] = {"images": len(images)}
    for name, source in (("float32", plain), ("now", model)):
        says = Exported(source, threads=1)
        parts = [says(batch) for batch in np.array_split(images, max(1, len(images) // 100))]
        log_p = torch.from_numpy(np.concatenate([part["probabilities"] for part in parts])).double()
        log_p = log_p.clamp_min(1e-30).log()
        figures = {key: METRICS[key](log_p, torch.from_numpy(labels)) for key in ("accuracy", "nll", "ece")}
        split = {key: float(np.concatenate([part[key] for part in parts]).mean()) for key in SOURCES}
        found[name] = {**figures, **split}
    return found


def _write_rows(
    network: EnsembleNetwork | NumbersNetwork,
    ensemble: Ensemble,
    path: Path,
    facts: dict[str, Any],
    wanted: Wanted,
) -> dict[str, Any]:
    """A file whose inputs are the columns of a table."""
    graph.require_onnx()
    columns, shape = ensemble.normalisation.columns, ensemble.space.shape
    assert columns is not None
    of_networks = graph.model_of(
        network, (1, 1, shape.channels), of_bytes=False, images=graph.SAMPLE * ensemble.variants
    )
    model = of_columns(of_networks, columns)
    onnx_file.describe(model, {name: json.dumps(value) for name, value in facts.items()})
    rule = wanted.rule(ensemble) if ensemble.classes else None
    says = Exported(model.SerializeToString(), threads=1)
    found = {"parity": parity_of_rows(ensemble, says, rule, wanted.asked)}
    onnx_file.describe(model, {name: json.dumps(value) for name, value in {**facts, **found}.items()})
    path.write_bytes(model.SerializeToString())
    return found


def _write_torch(
    network: EnsembleNetwork, ensemble: Ensemble, path: Path, facts: dict[str, Any], wanted: Wanted
) -> dict[str, Any]:
    """A program that `torch.export.load` reads, without this package."""
    if wanted.precision != "float32":
        raise UraenasError(f"precision {wanted.precision} is one of ONNX files; torch files have float32")
    shape = ensemble.space.shape
    size = (graph.SAMPLE, shape.height, shape.width, shape.channels)
    images = torch.zeros(size, dtype=torch.uint8 if ensemble.of_bytes else torch.float32)
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(network, (images,), dynamic_shapes=({0: batch},), strict=False)
    names, module = [output.name for output in network.outputs], program.module()

    def says(images: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            outputs = module(torch.from_numpy(images))
        return {name: one.numpy() for name, one in zip(names, outputs, strict=True)}

    found = {"parity": parity_of_images(ensemble, says, ensemble.of_bytes, network.rule)}
    stored = {FACTS: json.dumps({**facts, **found})}
    file = io.BytesIO()  # of a path it says that it should end in .pt2
    torch.export.save(program, file, extra_files=stored)
    path.write_bytes(file.getvalue())
    return found
