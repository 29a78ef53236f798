"""The table of methods for papers and spreadsheets: Markdown, CSV, LaTeX."""

import csv as csv_module
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uraenas.errors import unknown
from uraenas.report.table import COLUMNS, DISAGREEMENT, Column, Row, best, table

# Each run's name, and rows of its metrics.json: values, or differences.
Runs = Sequence[tuple[str, Sequence[Row]]]


@dataclass(frozen=True)
class Contents:
    """What a table shows."""

    calibration: str = "raw"
    intervals: bool = False
    against: str = ""  # the rows are differences to this method; they come with signs and intervals
    competing: bool = False  # the best is the best of all runs: they were tested on the same images

    @property
    def with_intervals(self) -> bool:
        return self.intervals or self.against != ""


def write(form: str, runs: Runs, contents: Contents) -> str:
    """The table of these runs in one of FORMATS; the column of runs is there when there are several."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    return FORMATS[form](runs, contents)


def markdown(runs: Runs, contents: Contents) -> str:
    """A pipe table with the best values in bold."""
    header, lines = _cells(runs, contents, "**{}**", "{} ({}, {})")
    header = [name.replace("|", "\\|") for name in header]
    names = 2 if len(runs) > 1 else 1
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    rows = [header, rule, *([cell.replace("|", "\\|") for cell in line] for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def latex(runs: Runs, contents: Contents) -> str:
    """A booktabs tabular with the best values in bold."""
    header, lines = _cells(
        runs,
        contents,
        "\\textbf{{{}}}",
        "{} {{\\scriptsize [{}, {}]}}",
        _latex,
        minus="$-$",
    )
    names = 2 if len(runs) > 1 else 1
    columns = "l" * names + "r" * (len(header) - names)
    arrows = dict(zip((c.title for c in COLUMNS), map(_arrow, COLUMNS), strict=True))
    shown = [f"{name}{arrows.get(name, '')}" for name in header]
    body = "".join(f"{' & '.join(line)} \\\\\n" for line in lines)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{' & '.join(shown)} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n"
    )


def csv(runs: Runs, contents: Contents) -> str:
    """Full precision, fractions rather than percent, one line per run and method."""
    calibration, intervals, against = contents.calibration, contents.with_intervals, contents.against
    names = [("shifted_" if column.shifted else "") + column.metric for column in COLUMNS]
    header = ["run", "method", *(["minus"] if against else []), "members", "calibration"]
    for name in names:
        header += [name, f"{name}_low", f"{name}_high"] if intervals else [name]
    text = io.StringIO()
    writer = csv_module.writer(text, lineterminator="\n")
    writer.writerow([*header, *([] if against else [DISAGREEMENT.metric])])
    for run, rows in runs:
        for line in table(rows, calibration):
            values: list[float | str | None] = []
            for value, interval in zip(line.values, line.intervals, strict=True):
                values += [value, *(interval or (None, None))] if intervals else [value]
            start = [run, line.method, *([against] if against else []), line.members, calibration]
            writer.writerow([*start, *values, *([] if against else [line.disagreement])])
    return text.getvalue()


FORMATS: dict[str, Callable[[Runs, Contents], str]] = {"md": markdown, "csv": csv, "latex": latex}


def _cells(
    runs: Runs,
    contents: Contents,
    bold: str,
    with_interval: str,
    quoted: Callable[[str], str] = str,
    minus: str = "-",
) -> tuple[list[str], list[list[str]]]:
    """Header and lines as text."""
    several, against = len(runs) > 1, contents.against
    method = f"Method {minus} {quoted(against)}" if against else "Method"
    header = [*(["Run"] if several else []), method, "Members", *(column.title for column in COLUMNS)]
    header += [] if against else [DISAGREEMENT.title]
    tables = [(run, table(rows, contents.calibration)) for run, rows in runs]
    every = [line for _, found in tables for line in found]
    lines = []
    for run, found in tables:
        tops = best(every if contents.competing else found)
        for line in found:
            cells = []
            for column, value, interval, top in zip(COLUMNS, line.values, line.intervals, tops, strict=True):
                good = column.is_better(interval) if against else value is not None and value == top
                cell = column.show(value, signed=against != "")
                cell = bold.format(cell) if good else cell
                if contents.with_intervals and interval is not None:
                    ends = (column.show(end, signed=against != "") for end in interval)
                    cell = with_interval.format(cell, *ends)
                cells.append(cell.replace("-", minus))
            start = [*([quoted(run)] if several else []), quoted(line.method), str(line.members)]
            shared = [] if against else [DISAGREEMENT.show(line.disagreement)]
            lines.append([*start, *cells, *shared])
    return header, lines


def _arrow(column: Column) -> str:
    return " $\\uparrow$" if column.larger_is_better else " $\\downarrow$"


def _latex(words: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in words)
