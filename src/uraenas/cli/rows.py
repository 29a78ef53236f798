"""`uraenas predict` on tables."""

import csv
import json
import math
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from uraenas.base.errors import UraenasError
from uraenas.base.words import as_precise, csv_cell, listed
from uraenas.cli.printing import console, note, shown, tell

if TYPE_CHECKING:
    from uraenas.ensemble import Ensemble
    from uraenas.ensemble.asked import Asked

MOST_SHOWN = 50


def predict_tables(
    ensemble: "Ensemble",
    facts: dict[str, Any],
    files: Sequence[Path],
    asked: "Asked",
    as_csv: bool,
    as_json: bool,
) -> int:
    """Predict every row of these files, and print it; rows without a prediction are named, and the exit code is 1."""
    from uraenas.data.tables import read_frame
    from uraenas.ensemble.predict import NOT_FINITE
    from uraenas.ensemble.table_rows import predict_rows

    note(ensemble.doubts(asked))
    rows: list[dict[str, Any]] = []
    without: list[dict[str, Any]] = []
    for file in files:
        if not file.exists():
            raise UraenasError(f"{file} does not exist; give tables: .csv, .parquet or .npz files")
        frame = read_frame(file)
        try:
            found = predict_rows(ensemble, frame, asked)
        except UraenasError as error:
            raise UraenasError(f"{file}: {error}") from error
        rows += [{"file": str(file), **row} for row in found if row]
        without += [
            {"file": str(file), "row": n, "why": NOT_FINITE} for n, row in enumerate(found, 1) if not row
        ]
    if as_json:
        said = {"undefined": ensemble.undefined, "predictions": _finite(rows), "without": without}
        print(json.dumps({**facts, **asdict(asked), **_threshold(ensemble, asked), **said}))
    elif as_csv and rows:
        writer = csv.writer(sys.stdout)
        flat = [_flat(row) for row in rows]
        writer.writerow([csv_cell(name) for name in flat[0]])
        for row in flat:
            writer.writerow([csv_cell(value) for value in row.values()])
    elif rows:
        _print(ensemble, rows, asked)
    for one in without[:MOST_SHOWN]:
        tell(f"uraenas: {one['file']}: row {one['row']}: {one['why']}")
    if without:
        tell(f"uraenas: {len(rows):,} of {len(rows) + len(without):,} rows predicted")
    return 1 if without else 0


def _threshold(ensemble: "Ensemble", asked: "Asked") -> dict[str, Any]:
    """What was made of the risk, of classes: with which certainty it is kept may be none, whatever was asked for."""
    if not ensemble.classes:
        return {}
    return {"threshold": asdict(ensemble.require_known().threshold(asked.risk, asked.certainty, asked.share))}


def _finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """JSON has no infinite numbers: an interval that holds every number has no ends."""
    return [
        {k: None if isinstance(v, float) and math.isinf(v) else v for k, v in row.items()} for row in rows
    ]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Probabilities as cells of their own, one for each class."""
    by_class = row.get("probabilities", {})
    others = {name: value for name, value in row.items() if name != "probabilities"}
    return {**others, **{f"p({name})": value for name, value in by_class.items()}}


def _print(ensemble: "Ensemble", rows: list[dict[str, Any]], asked: "Asked") -> None:
    """A table of each file, and what is to be known to read them."""
    target = ensemble.normalisation.target
    several = [part.column for part in target.parts] if len(target.parts) > 1 else []
    first = rows[:MOST_SHOWN]
    files = dict.fromkeys(row["file"] for row in first)
    for file in files:
        if len(files) > 1:
            console.print(shown(file), soft_wrap=True, highlight=False)
        console.print(_table([row for row in first if row["file"] == file], ensemble, several, asked))
    if len(rows) > MOST_SHOWN:
        console.print(Text(f"{len(rows) - MOST_SHOWN:,} more rows; --csv and --json have all."))
    unseen = [row for row in rows if row["note"]]
    if unseen:
        others = len(unseen) - 1
        more = f" ({others:,} more row{'s have' if others > 1 else ' has'} a note; --csv and --json show all)"
        console.print(Text(f"Row {unseen[0]['row']}: {unseen[0]['note']}{more if others else ''}."))
    if ensemble.classes:
        threshold = ensemble.require_known().threshold(asked.risk, asked.certainty, asked.share)
        console.print(Text(f"{threshold.in_words(ensemble.example)}."))
    unit, scaled = ("variance", "±") if target.parts else ("entropy in nats", "Prob")
    console.print(
        Text(f"{scaled} is temperature-scaled; total, data, weights and architecture ({unit}) are not.")
    )
    for source, why in ensemble.undefined.items():
        console.print(Text(f"The part of {source} is not defined: {why}."))
    if several:
        console.print(Text("Intervals hold for each target by itself, not for all at once."))


def _table(rows: list[dict[str, Any]], ensemble: "Ensemble", several: Sequence[str], asked: "Asked") -> Table:
    """A line for each row; of several targets one for each of them."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    percent = f"{100 * asked.coverage:g} %"
    own = ("Predicted", "±", percent) if not ensemble.classes else ("Class", "Prob", f"Set, {percent}")
    for heading in ("Row", *(["Target"] if several else []), *own, "Total", "Data", "Weights", "Arch", ""):
        table.add_column(heading, no_wrap=not heading.startswith("Set"))
    for row in rows:
        marks = {"foreign": row["foreign"], "abstain": row.get("abstain"), "unseen": row["note"]}
        word = next((name for name, holds in marks.items() if holds), "")
        if not several:
            table.add_row(str(row["row"]), *_words(row, ensemble.undefined), word)
        for k, column in enumerate(several):
            said = {name.removeprefix(f"{column}."): value for name, value in row.items()}
            number, mark = ("", "") if k else (str(row["row"]), word)
            table.add_row(number, shown(column), *_words(said, ensemble.undefined), mark)
    return table


def _words(said: Mapping[str, Any], undefined: Container[str]) -> list[str]:
    """What is said of a target, and where its doubt comes from."""
    from uraenas.evaluation import SOURCES

    if "probability" in said:
        own = [
            shown(said["predicted"]),
            f"{said['probability']:.3f}",
            shown(listed(said["prediction_set"])),
        ]
    else:
        middle, low, high = (as_precise(said[key], said["deviation"]) for key in ("predicted", "low", "high"))
        own = [middle, f"{said['deviation']:.3g}", f"{low} … {high}"]
    return [*own, *("–" if source in undefined else f"{said[source]:.3g}" for source in SOURCES)]
