"""The table of methods for papers and spreadsheets: Markdown, CSV, LaTeX."""

import csv as csv_module
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uraenas.base.errors import unknown
from uraenas.base.words import csv_cell
from uraenas.evaluation import Row, mean_names
from uraenas.report.table import (
    DISAGREEMENT,
    Column,
    TableLine,
    best,
    columns_for,
    columns_of,
    over_runs,
    require_one_kind,
    table,
)

# Each run's name, and rows of its metrics.json: values, or differences.
Runs = Sequence[tuple[str, Sequence[Row]]]
Tables = Sequence[tuple[str, Sequence[TableLine]]]


@dataclass(frozen=True)
class Contents:
    """What a table shows."""

    calibration: str = "raw"
    intervals: bool = False
    against: str = ""  # the rows are differences to this method; they come with signs and intervals
    competing: bool = False  # the best is the best of all runs: they were tested on the same images
    competing_shifted: bool = False  # so it is under shift
    shifted: str = ""  # the suite mean that c… stand for; empty: the widest
    over_seeds: bool = False  # a line for each method: mean ± standard deviation over the runs

    @property
    def with_intervals(self) -> bool:
        return self.intervals or self.against != ""


def write(form: str, runs: Runs, contents: Contents) -> str:
    """The table of these runs in one of FORMATS; the column of runs is there when there are several."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    for run, rows in runs:
        if contents.shifted and contents.shifted not in (means := mean_names(rows)):
            raise unknown(
                f"mean of the suite of {run}", contents.shifted, means or ("none, as it has no suite",)
            )
    require_one_kind([(run, columns_for(rows)) for run, rows in runs if rows])
    tables = [(run, table(rows, contents.calibration, contents.shifted)) for run, rows in runs]
    if contents.over_seeds:
        tables = [("", over_runs([line for _, lines in tables for line in lines]))]
    return FORMATS[form](tables, contents)


def _columns(tables: Tables) -> tuple[Column, ...]:
    return columns_of([line for _, lines in tables for line in lines])


def markdown(tables: Tables, contents: Contents) -> str:
    """A pipe table with the best values, as printed, in bold."""
    header, lines = _cells(tables, contents, "**{}**", "{} ({}, {})")
    header = [name.replace("|", "\\|") for name in header]
    names = 2 if len(tables) > 1 else 1
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    rows = [header, rule, *([cell.replace("|", "\\|") for cell in line] for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def latex(tables: Tables, contents: Contents) -> str:
    """A booktabs tabular with the best values, as printed, in bold."""
    header, lines = _cells(
        tables,
        contents,
        "\\textbf{{{}}}",
        "{} {{\\scriptsize [{}, {}]}}",
        _latex,
        minus="$-$",
        plus_minus="$\\pm$",
    )
    names = 2 if len(tables) > 1 else 1
    columns = "l" * names + "r" * (len(header) - names)
    titles = {column.title: _latex(column.title) + _arrow(column) for column in _columns(tables)}
    shown = [titles.get(name, name) for name in header]
    body = "".join(f"{' & '.join(line)} \\\\\n" for line in lines)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{' & '.join(shown)} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n"
    )


def csv(tables: Tables, contents: Contents) -> str:
    """Full precision, fractions rather than percent, one line per run and method."""
    calibration, intervals, against = contents.calibration, contents.with_intervals, contents.against
    over_seeds = contents.over_seeds
    names = [("shifted_" if column.shifted else "") + column.metric for column in _columns(tables)]
    header = [
        "runs" if over_seeds else "run",
        "method",
        *(["minus"] if against else []),
        "members",
        "calibration",
    ]
    for name in names:
        header += [name, f"{name}_low", f"{name}_high"] if intervals else [name]
        header += [f"{name}_sd"] if over_seeds else []
    text = io.StringIO()
    writer = csv_module.writer(text, lineterminator="\n")
    shared = [] if against else [DISAGREEMENT.metric]
    writer.writerow([*header, *shared, *(f"{name}_sd" for name in shared if over_seeds)])
    for run, lines in tables:
        for line in lines:
            values: list[float | str | None] = []
            for value, interval, spread in zip(line.values, line.intervals, line.spreads, strict=True):
                values += [value, *(interval or (None, None))] if intervals else [value]
                values += [spread] if over_seeds else []
            start = [
                line.runs if over_seeds else run,
                line.method,
                *([against] if against else []),
                line.members,
                calibration,
            ]
            values += [] if against else [line.disagreement]
            writer.writerow(
                [*map(csv_cell, start), *values, *([line.disagreement_spread] if over_seeds else [])]
            )
    return text.getvalue()


FORMATS: dict[str, Callable[[Tables, Contents], str]] = {"md": markdown, "csv": csv, "latex": latex}


def _cells(
    tables: Tables,
    contents: Contents,
    bold: str,
    with_interval: str,
    quoted: Callable[[str], str] = str,
    minus: str = "-",
    plus_minus: str = "±",
) -> tuple[list[str], list[list[str]]]:
    """Header and lines as text."""
    several, against, over_seeds = len(tables) > 1, contents.against, contents.over_seeds
    method = f"Method {minus} {quoted(against)}" if against else "Method"
    header = [*(["Run"] if several else []), method, "Members", *(["Runs"] if over_seeds else [])]
    header += [column.title for column in _columns(tables)]
    header += [] if against else [DISAGREEMENT.title]
    every = [line for _, found in tables for line in found]
    lines = []
    for run, found in tables:
        even = len({line.runs for line in found}) == 1  # a mean of few runs does not compete with one of many
        tops = _tops(every, found, contents) if even else [None] * len(_columns(tables))
        for line in found:
            cells = []
            shown = zip(_columns(tables), line.values, line.intervals, line.spreads, tops, strict=True)
            for column, value, interval, spread, top in shown:
                good = column.is_better(interval) if against else column.is_top(value, top)
                cell = column.show(value, signed=against != "")
                cell = bold.format(cell) if good else cell
                if contents.with_intervals and interval is not None:
                    ends = (column.show(end, signed=against != "") for end in interval)
                    cell = with_interval.format(cell, *ends)
                cells.append(_with_spread(cell, column, spread, plus_minus).replace("-", minus))
            start = [*([quoted(run)] if several else []), quoted(line.method), str(line.members)]
            start += [str(line.runs)] if over_seeds else []
            shared = _with_spread(
                DISAGREEMENT.show(line.disagreement), DISAGREEMENT, line.disagreement_spread, plus_minus
            )
            lines.append([*start, *cells, *([] if against else [shared])])
    return header, lines


def _tops(every: Sequence[TableLine], own: Sequence[TableLine], contents: Contents) -> list[float | None]:
    """The best value of each column: of all runs where they compete, else of this one."""
    compete = [
        contents.competing_shifted if column.shifted else contents.competing for column in columns_of(every)
    ]
    return [a if of_all else o for a, o, of_all in zip(best(every), best(own), compete, strict=True)]


def _with_spread(cell: str, column: Column, spread: float | None, plus_minus: str) -> str:
    return cell if spread is None else f"{cell} {plus_minus} {column.show(spread)}"


def _arrow(column: Column) -> str:
    if not column.compared:
        return ""
    return " $\\uparrow$" if column.larger_is_better else " $\\downarrow$"


def _latex(words: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in words)
