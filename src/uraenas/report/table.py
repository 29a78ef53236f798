"""The table of methods, in the form of the paper's Table 1, from the rows of metrics.json."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from uraenas.base.errors import UraenasError
from uraenas.base.words import three_decimals
from uraenas.evaluation import Row, mean_names, sizes_of
from uraenas.report.style import LARGER_IS_BETTER


@dataclass(frozen=True)
class Column:
    """One column: which metric, on clean or shifted data, and how it is shown."""

    title: str
    metric: str
    shifted: bool
    compared: bool = True  # whether one value is better than another

    @property
    def larger_is_better(self) -> bool:
        return self.metric in LARGER_IS_BETTER

    def show(self, value: float | None, signed: bool = False) -> str:
        if value is None:
            return "–"
        sign = "+" if signed else ""
        percent = self.metric == "accuracy" or self.metric.startswith("coverage")
        return f"{100 * value:{sign}.2f}" if percent else three_decimals(self.metric, value, sign)

    def is_top(self, value: float | None, top: float | None) -> bool:
        """Whether it prints as the best one does."""
        return value is not None and top is not None and self.show(value) == self.show(top)

    def is_better(self, interval: tuple[float, float] | None) -> bool:
        """Of a difference: whether its whole interval lies on the good side of zero, if there is one."""
        if interval is None or not self.compared:
            return False
        return interval[0] > 0 if self.larger_is_better else interval[1] < 0


COLUMNS = (
    Column("Acc", "accuracy", False),
    Column("ECE", "ece", False),
    Column("NLL", "nll", False),
    Column("cAcc", "accuracy", True),
    Column("cECE", "ece", True),
    Column("cNLL", "nll", True),
)
NUMBER_COLUMNS = (
    Column("RMSE", "rmse", False),
    Column("MAE", "mae", False),
    Column("CRPS", "crps", False),
    Column("NLL", "nll", False),
    Column("In 90 %", "coverage90", False, compared=False),
    Column("Width 90 %", "width90", False, compared=False),
)
DISAGREEMENT = Column("Dis", "disagreement", False)
NOTHING = (None,) * len(COLUMNS)


@dataclass(frozen=True)
class TableLine:
    """One method: its size and its values, one for each of COLUMNS, then disagreement."""

    method: str
    members: int
    values: tuple[float | None, ...]
    disagreement: float | None
    intervals: tuple[tuple[float, float] | None, ...] = NOTHING  # 95 %, one for each of COLUMNS
    runs: int = 1
    # Of several runs: standard deviations, one for each of COLUMNS.
    spreads: tuple[float | None, ...] = NOTHING
    disagreement_spread: float | None = None
    columns: tuple[Column, ...] = COLUMNS


def table(rows: Sequence[Row], calibration: str = "raw", shifted: str = "") -> list[TableLine]:
    """One line per method, at its full size; `shifted` is the mean that c… stand for, else the widest."""
    full = sizes_of(rows)
    shifted = shifted or next(iter(mean_names(rows)), "")
    of_members = "raw" if calibration == "temperature" else calibration  # which changes no class of theirs
    found = {
        (row.method, row.shift, row.metric): row
        for row in rows
        if row.severity == 0
        and row.members == full[row.method]
        and row.calibration == (calibration if row.metric != "disagreement" else of_members)
    }
    lines = []
    columns = columns_for(rows)
    for name, members in full.items():
        cells = [
            found.get((name, shifted if column.shifted else "none", column.metric)) for column in columns
        ]
        values = tuple(None if cell is None else cell.value for cell in cells)
        intervals = tuple(None if cell is None else cell.interval for cell in cells)
        several = found.get((name, "none", "disagreement")) if members > 1 else None
        several_value = None if several is None else several.value
        lines.append(TableLine(name, members, values, several_value, intervals, columns=columns))
    return lines


def over_runs(lines: Sequence[TableLine]) -> list[TableLine]:
    """One line for each method: means of its lines, and their standard deviations (n - 1)."""
    found = []
    for method in dict.fromkeys(line.method for line in lines):
        of_method = [line for line in lines if line.method == method]
        columns = list(zip(*(line.values for line in of_method), strict=True))
        disagreements = [line.disagreement for line in of_method]
        found.append(
            TableLine(
                method,
                of_method[0].members,
                tuple(_mean(values) for values in columns),
                _mean(disagreements),
                runs=len(of_method),
                spreads=tuple(_deviation(values) for values in columns),
                disagreement_spread=_deviation(disagreements),
                columns=of_method[0].columns,
            )
        )
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.fmean(present) if present else None


def _deviation(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.stdev(present) if len(present) > 1 else None


def best(lines: Sequence[TableLine]) -> list[float | None]:
    """The best value of each of COLUMNS."""
    values: list[float | None] = []
    for position, column in enumerate(columns_of(lines)):
        present = [v for line in lines if (v := line.values[position]) is not None and column.compared]
        values.append((max if column.larger_is_better else min)(present) if present else None)
    return values


def columns_of(lines: Sequence[TableLine]) -> tuple[Column, ...]:
    """What the values of these lines are."""
    return lines[0].columns if lines else COLUMNS


def columns_for(rows: Iterable[Row]) -> tuple[Column, ...]:
    """Those of the target that these rows are about."""
    return NUMBER_COLUMNS if any(row.metric == "rmse" for row in rows) else COLUMNS


def require_one_kind(runs: Sequence[tuple[str, tuple[Column, ...]]]) -> None:
    """Refuse classes beside numbers: what one has in a column, the other has not."""
    kinds = {columns: name for name, columns in reversed(runs)}
    if len(kinds) > 1:
        raise UraenasError(
            f"{kinds[NUMBER_COLUMNS]} predicts numbers and {kinds[COLUMNS]} classes, which have no metrics "
            "in common; report them one by one"
        )
