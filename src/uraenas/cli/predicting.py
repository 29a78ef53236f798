"""The command that uses an ensemble on image files."""

import csv
import json
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from uraenas.cli.printing import AsJson, bars, console
from uraenas.errors import UraenasError
from uraenas.predict import Prediction, Unreadable, find_files, predict_files, threshold_for
from uraenas.run import Run


def predict(
    run: Annotated[
        Path, typer.Argument(help="A run directory with trained members, or a pretrained run: cifar10.")
    ],
    images: Annotated[list[Path], typer.Argument(help="Image files, or folders of them.")],
    method: Annotated[str, typer.Option("--method", help="Whose members predict.")] = "uraenas",
    risk: Annotated[
        float, typer.Option("--risk", help="Abstain so that this share of the rest is wrong.")
    ] = 0.05,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
) -> int:
    """Predict images: class, probability, uncertainty by source, and whether to abstain.

    Files that cannot be read are named and counted on standard error, and the exit code is then 1.
    """
    if as_csv and as_json:
        raise UraenasError("--csv and --json exclude each other; choose one")
    opened = Run.find(run)
    ensemble = opened.ensemble(method)
    held_out, _ = opened.read_tensors(f"methods/{method}/held-out.safetensors", ("confidence", "right"))
    threshold = threshold_for(held_out["confidence"], held_out["right"], risk)
    files = find_files(images)
    with bars(quiet=as_json or as_csv) as progress:
        results = list(
            predict_files(ensemble, files, threshold, lambda done: progress("predict", done, len(files)))
        )
    predictions = [result for result in results if isinstance(result, Prediction)]
    unreadable = [result for result in results if isinstance(result, Unreadable)]
    if as_json:
        rows = [asdict(row) for row in predictions]
        print(json.dumps({"predictions": rows, "unreadable": [asdict(row) for row in unreadable]}))
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, [field.name for field in fields(Prediction)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in predictions)
    elif predictions:
        console.print(_table(predictions, threshold, risk))
    for row in unreadable:
        print(f"uraenas: {row.file}: {row.why}", file=sys.stderr)
    if unreadable:
        counts = (
            f"{len(predictions):,} of {len(files):,} files predicted, {len(unreadable):,} could not be read"
        )
        print(f"uraenas: {counts}", file=sys.stderr)
    return 1 if unreadable else 0


def _table(predictions: list[Prediction], threshold: float, risk: float) -> Table:
    title = f"abstain below {threshold:.3f} (risk {risk:.0%} on held-out images); uncertainty in nats"
    noted = sum(bool(row.note) for row in predictions)
    caption = f"{noted:,} of {len(predictions):,} images were resized; --csv and --json say from which size"
    shown = Table(
        title=title, title_justify="left", caption=caption if noted else None, caption_justify="left"
    )
    shown.add_column("File", overflow="fold")
    for heading in ("Class", "Prob", "Total", "Data", "Weights", "Arch", ""):
        shown.add_column(heading, no_wrap=True)
    for row in predictions:
        numbers = (row.probability, row.total, row.data, row.weights, row.architecture)
        words = [f"{number:.3f}" for number in numbers]
        shown.add_row(row.file, row.label, *words, "abstain" if row.abstain else "")
    return shown
