"""The command that uses an ensemble on image files, or on tables (`rows.py`)."""

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from uraenas.base.errors import UraenasError
from uraenas.base.words import csv_cell, listed
from uraenas.cli.options import Certainty, Coverage, Foreign, Method, Risk, TrainedRun
from uraenas.cli.printing import AsJson, bars, console, note, shown, tell
from uraenas.cli.rows import predict_tables

if TYPE_CHECKING:
    from uraenas.ensemble import Ensemble
    from uraenas.ensemble.predict import Prediction, Unreadable
    from uraenas.run.directory import Run

NAMED = 5  # foreign files, below the table


def predict(
    run: TrainedRun,
    images: Annotated[
        list[Path],
        typer.Argument(help="Image files, or folders of them; or tables."),
    ],
    method: Method = "",
    risk: Risk = 0.05,
    certainty: Certainty = 0.95,
    coverage: Coverage = 0.95,
    share: Foreign = 0.05,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
) -> int:
    """Predict images or rows of tables: class or number, uncertainty by source, and whether to abstain.

    Files that cannot be read are named and counted on standard error, and the exit code is then 1. In folders, files
    without the ending of an image are left out.
    """
    from uraenas.data.folder import notes_on_left_out
    from uraenas.ensemble.asked import Asked
    from uraenas.ensemble.predict import Prediction, Unreadable, find_files, predict_files
    from uraenas.run.directory import Run

    if as_csv and as_json:
        raise UraenasError("--csv and --json exclude each other; choose one")
    opened, asked = Run.find(run), Asked(risk, share, certainty, coverage)
    method = method or opened.primary
    ensemble = opened.ensemble(method)
    if ensemble.normalisation.columns is not None:
        whose = {"run": str(opened.path), "method": method}
        return predict_tables(ensemble, whose, images, asked, as_csv, as_json)
    known = ensemble.require_known()
    threshold = known.threshold(risk, certainty, share)
    note(ensemble.doubts(asked))
    files, left_out = find_files(images)
    note(notes_on_left_out(left_out))
    with bars(quiet=as_json or as_csv) as progress:
        results = list(
            predict_files(
                ensemble, files, asked, lambda done: progress("predict", done, len(files)), opened.marks
            )
        )
    predictions = [result for result in results if isinstance(result, Prediction)]
    unreadable = [result for result in results if isinstance(result, Unreadable)]
    if as_json:
        facts = {
            "run": str(opened.path),
            "method": method,
            "threshold": asdict(threshold),
            "share": share,
            "coverage": coverage,
            "undefined": ensemble.undefined,
            "predictions": [asdict(row) for row in predictions],
            "unreadable": [asdict(row) for row in unreadable],
            "left_out": left_out,
        }
        print(json.dumps(facts))
    elif as_csv:
        _print_csv(predictions, ensemble.classes)
    elif predictions:
        caption = _caption(predictions, ensemble, _effect(opened, method))
        console.print(_table(predictions, str(threshold), coverage, caption, tuple(ensemble.undefined)))
    return _told_of(unreadable, len(files))


def _told_of(unreadable: Sequence["Unreadable"], files: int) -> int:
    """Name the files that could not be read; the exit code."""
    for row in unreadable:
        tell(f"uraenas: {row.file}: {row.why}")
    if unreadable:
        counts = f"{files - len(unreadable):,} of {files:,} files predicted"
        tell(f"uraenas: {counts}, {len(unreadable):,} could not be predicted")
    return 1 if unreadable else 0


def _print_csv(predictions: list["Prediction"], classes: tuple[str, ...]) -> None:
    """A column for each field, and one for the probability of each class."""
    from uraenas.ensemble.predict import Prediction

    names = [field.name for field in fields(Prediction) if field.name != "probabilities"]
    writer = csv.writer(sys.stdout)
    writer.writerow([*names, *(csv_cell(f"p({name})") for name in classes)])
    for row in predictions:
        writer.writerow(
            [
                *(csv_cell(getattr(row, name)) for name in names),
                *(row.probabilities[name] for name in classes),
            ]
        )


def _effect(run: "Run", method: str) -> str | None:
    """What the run has found of the difference that architectures make, if it was measured."""
    from uraenas.evaluation import effects_of

    try:
        found = effects_of(run.metrics().rows).get(method) if run.has("metrics.json") else None
    except UraenasError:  # a prediction does not need it
        return None
    return str(found) if found else None


def _caption(predictions: list["Prediction"], ensemble: "Ensemble", effect: str | None) -> str | None:
    """What a reader of the table should know."""
    from uraenas.data.pictures import MADE_GREY
    from uraenas.ensemble.predict import LEARNED

    notes = _right_by_folders(predictions, ensemble.classes)
    if learned := sum(LEARNED in row.note for row in predictions):
        of = f"{learned:,} of {len(predictions):,} are training images of this run"
        notes.append(f"{of}: what it says of these says nothing of new ones.")
    if foreign := [
        f"{shown(Path(row.file).name)} (p = {row.p_value:.2g})" for row in predictions if row.foreign
    ]:
        more = f" and {len(foreign) - NAMED} more" if len(foreign) > NAMED else ""
        notes.append(f"foreign: unlike anything it was trained on: {', '.join(foreign[:NAMED])}{more}.")
    if noted := sum("resized" in row.note for row in predictions):
        of = f"{noted:,} of {len(predictions):,} images were resized"
        notes.append(f"{of}; --csv and --json say from which size.")
    if coloured := sum(MADE_GREY in row.note for row in predictions):
        notes.append(f"{coloured:,} in colour were made grey, as the training images are.")
    if several := sum("frames" in row.note for row in predictions):
        notes.append(f"Of {several:,} with several frames the first is used.")
    notes += [f"The part of {source} is not defined: {why}." for source, why in ensemble.undefined.items()]
    distinct, different = len(set(ensemble.functions)), len({member.identity for member in ensemble.members})
    if effect:
        notes.append(f"On the test images {effect}.")
    elif 1 < different < 2 * distinct:
        notes.append(
            f"{different} members have {distinct} architectures: Arch also holds the effect of initialisation."
        )
    return " ".join(notes) or None


def _right_by_folders(predictions: list["Prediction"], classes: tuple[str, ...]) -> list[str]:
    """How many are right, where all files lie in folders that are named as classes, and not all in one."""
    named = [Path(row.file).parent.name for row in predictions]
    if len(set(named)) < 2 or not set(named) <= set(classes):
        return []
    right = [row.label == name for row, name in zip(predictions, named, strict=True)]
    answered = [own for own, row in zip(right, predictions, strict=True) if not row.abstain]
    share = f"{sum(right):,} of {len(right):,} are right ({100 * sum(right) / len(right):.1f} %)"
    return [
        f"By the names of their folders {share}, and {sum(answered):,} of {len(answered):,} that it answers."
    ]


def _table(
    predictions: list["Prediction"],
    title: str,
    coverage: float,
    caption: str | None,
    undefined: Sequence[str] = (),
) -> Group:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)  # which leaves room for all columns in 80
    table.add_column("File", overflow="fold", min_width=12)
    for heading in ("Class", "Prob", "Total", "Data", "Weights", "Arch", ""):
        table.add_column(heading, no_wrap=True)
    table.add_column(f"Set, {100 * coverage:g} %", overflow="fold")
    files = [Path(row.file) for row in predictions]
    alike = all(file.parent == files[0].parent for file in files)
    for row, file in zip(predictions, files, strict=True):
        names = ("probability", "total", "data", "weights", "architecture")
        words = ["–" if name in undefined else f"{getattr(row, name):.3f}" for name in names]
        table.add_row(
            shown(file.name if alike else row.file),
            shown(row.label),
            *words,
            "foreign" if row.foreign else "abstain" if row.abstain else "",
            shown(listed(row.prediction_set)),
        )
    # Beside the table, not parts of it: those are cut off where it is wider than the terminal.
    above = Text(f"{title}; Prob is temperature-scaled, uncertainty (nats) is not")
    return Group(above, table, *([Text(caption)] if caption else []))
