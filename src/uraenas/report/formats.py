"""The table of methods for papers and spreadsheets: Markdown, CSV, LaTeX."""

import csv as csv_module
import io
from collections.abc import Callable, Mapping, Sequence

from uraenas.errors import unknown
from uraenas.report.table import COLUMNS, DISAGREEMENT, Column, Row, TableLine, best, table

Runs = Mapping[str, Sequence[Row]]  # a run's name → the rows of its metrics.json


def write(form: str, runs: Runs, calibration: str = "raw", intervals: bool = False) -> str:
    """The table of these runs in one of FORMATS; the column of runs is there when there are several."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    return FORMATS[form](runs, calibration, intervals)


def markdown(runs: Runs, calibration: str = "raw", intervals: bool = False) -> str:
    """A pipe table with the best values in bold."""
    header, lines = _cells(runs, calibration, intervals, "**{}**", "{} ({}, {})")
    header = [name.replace("|", "\\|") for name in header]
    names = 2 if len(runs) > 1 else 1
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    rows = [header, rule, *([cell.replace("|", "\\|") for cell in line] for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def latex(runs: Runs, calibration: str = "raw", intervals: bool = False) -> str:
    """A booktabs tabular with the best values in bold."""
    header, lines = _cells(
        runs, calibration, intervals, "\\textbf{{{}}}", "{} {{\\scriptsize [{}, {}]}}", _latex
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


def csv(runs: Runs, calibration: str = "raw", intervals: bool = False) -> str:
    """Full precision, fractions rather than percent, one line per run and method."""
    names = [("shifted_" if column.shifted else "") + column.metric for column in COLUMNS]
    header = ["run", "method", "members", "calibration"]
    for name in names:
        header += [name, f"{name}_low", f"{name}_high"] if intervals else [name]
    text = io.StringIO()
    writer = csv_module.writer(text, lineterminator="\n")
    writer.writerow([*header, DISAGREEMENT.metric])
    for run, rows in runs.items():
        for line in table(rows, calibration):
            values: list[float | str | None] = []
            for value, interval in zip(line.values, line.intervals, strict=True):
                values += [value, *(interval or (None, None))] if intervals else [value]
            writer.writerow([run, line.method, line.members, calibration, *values, line.disagreement])
    return text.getvalue()


FORMATS: dict[str, Callable[[Runs, str, bool], str]] = {"md": markdown, "csv": csv, "latex": latex}


def _cells(
    runs: Runs,
    calibration: str,
    intervals: bool,
    bold: str,
    with_interval: str,
    quoted: Callable[[str], str] = str,
) -> tuple[list[str], list[list[str]]]:
    """Header and lines as text. Best values are those of a run, so that runs on other data do not compete."""
    several = len(runs) > 1
    header = [*(["Run"] if several else []), "Method", "Members"]
    header += [*(column.title for column in COLUMNS), DISAGREEMENT.title]
    lines = []
    for run, rows in runs.items():
        found = table(rows, calibration)
        tops = best(found)
        for line in found:
            cells = [
                _cell(column, line, k, tops[k], intervals, bold, with_interval)
                for k, column in enumerate(COLUMNS)
            ]
            start = [*([quoted(run)] if several else []), quoted(line.method), str(line.members)]
            lines.append([*start, *cells, DISAGREEMENT.show(line.disagreement)])
    return header, lines


def _cell(
    column: Column, line: TableLine, k: int, top: float | None, intervals: bool, bold: str, with_interval: str
) -> str:
    value, interval = line.values[k], line.intervals[k]
    text = column.show(value)
    if value is not None and value == top:
        text = bold.format(text)
    if intervals and interval is not None:
        text = with_interval.format(text, *(column.show(end) for end in interval))
    return text


def _arrow(column: Column) -> str:
    return " $\\uparrow$" if column.larger_is_better else " $\\downarrow$"


def _latex(words: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in words)
