"""What a page of several runs has to say, computed from their files alone."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from page_and_files import OF_CLASSES, Case, shown
from reading_html import Page, sections, taken_apart

from uraenas import report
from uraenas.evaluation import REFERENCES

TITLES = {"accuracy": "Acc", "ece": "ECE", "nll": "NLL", "rmse": "RMSE", "mae": "MAE", "crps": "CRPS"}
TITLES |= {"coverage90": "In 90 %", "width90": "Width 90 %"}
OF_NUMBERS = ("rmse", "mae", "crps", "nll", "coverage90", "width90")
DESCRIBED = ("coverage90", "width90")  # of which no value is better


class Line(NamedTuple):
    """A method and, by letter, the runs that are seeds of it."""

    method: str
    runs: str


class Column(NamedTuple):
    metric: str
    words: str  # of the place
    shift: str

    @property
    def title(self) -> str:
        return "c" * (self.words == "shifted") + TITLES[self.metric]


class Minus(NamedTuple):
    """One line minus another: the interval is over resamples of the test set."""

    value: float
    low: float
    high: float
    agreed: bool
    same_seeds: bool
    pairs: int

    def verdict(self, metric: str) -> str:
        if self.low <= 0 <= self.high or not self.agreed or not self.same_seeds:
            return ""
        return "better" if (self.low > 0) == (metric == "accuracy") else "worse"


@dataclass
class Compared:
    """Runs, and the lines that a page has of them, in its order; differences are to one of these."""

    cases: dict[str, Case]
    lines: list[Line]
    baseline: Line | None
    competing: bool = True  # tested on the same images

    @cached_property
    def html(self) -> str:
        return report.build([case.source for case in self.cases.values()])

    @cached_property
    def page(self) -> Page:
        return taken_apart(self.html)

    @cached_property
    def sections(self) -> dict[str, Page]:
        return {name: one for name, one in sections(self.html).items() if name.startswith("compared")}

    @property
    def first(self) -> Case:
        return next(iter(self.cases.values()))

    @cached_property
    def images(self) -> int:
        return self.first.file("data.json")["test_images"]

    @property
    def example(self) -> str:
        return self.first.examples.removesuffix("s")

    @property
    def of_numbers(self) -> bool:
        return not self.first.file("data.json")["classes"]

    @cached_property
    def places(self) -> dict[str, str]:
        """Where values were measured, by what the page calls it."""
        means = [row["shift"] for row in self.first.rows if row["shift"].startswith("mean")]
        return {"test" if self.example == "row" else "clean": "none"} | (
            {"shifted": means[0]} if means else {}
        )

    @property
    def columns(self) -> list[Column]:
        metrics = OF_NUMBERS if self.of_numbers else OF_CLASSES
        return [Column(metric, *place) for place in self.places.items() for metric in metrics]

    @property
    def judged(self) -> list[Column]:
        return [column for column in self.columns if column.metric not in DESCRIBED]

    @property
    def trained(self) -> list[Line]:
        """Those with members: references have none."""
        return [line for line in self.lines if line.method not in REFERENCES]

    def group(self, line: Line) -> int:
        """Its shape: the place of its runs among all sets of runs."""
        return sorted({one.runs for one in self.lines}).index(line.runs)

    def runs_of(self, line: Line) -> str:
        return ", ".join(line.runs)

    def name(self, line: Line) -> str:
        several = [one.method for one in self.lines].count(line.method) > 1
        return f"{line.method} ({self.runs_of(line)})" if several else line.method

    def size(self, line: Line) -> int:
        return self.cases[line.runs[0]].sizes[line.method]

    def knows(self, line: Line, column: Column) -> bool:
        """Whether its runs were tested on what this column is of."""
        wanted = (line.method, column.metric, column.shift)
        found = ({(r["method"], r["metric"], r["shift"]) for r in self.cases[run].rows} for run in line.runs)
        return all(wanted in one for one in found)

    def n(self, lines: Sequence[Line]) -> str:
        """Of figures: runs, and images or rows."""
        runs = [name for name in self.cases if any(name in line.runs for line in lines)]
        tests = dict.fromkeys(self.tested(name) for name in runs)
        return f"n = {len(runs)} run{'s' * (len(runs) > 1)}, {' and '.join(tests)}"

    def tested(self, run: str) -> str:
        return f"n = {self.cases[run].file('data.json')['test_images']:,} test {self.example}s"

    def values(self, line: Line, metric: str, shift: str = "none", **more: Any) -> list[float]:
        return [self.cases[run].value(line.method, metric, shift, **more) for run in line.runs]

    def mean(self, line: Line, metric: str, shift: str = "none", **more: Any) -> float:
        return statistics.fmean(self.values(line, metric, shift, **more))

    def replicates(self, run: str, method: str, column: Column, calibration: str) -> np.ndarray:
        name = f"{column.shift}/{method}/{calibration}/{column.metric}"
        return self.cases[run].source[0].replicates()[name].double().numpy()

    def ends(self, line: Line, column: Column) -> tuple[float, float]:
        """Of the interval: of one run as metrics.json has it, else of the mean over seeds."""
        if len(line.runs) == 1:
            row = self.cases[line.runs].row(line.method, column.metric, column.shift)
            return row["low"], row["high"]
        drawn = [self.replicates(run, line.method, column, "raw") for run in line.runs]
        low, high = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975])
        return low, high

    def interval(self, line: Line, column: Column) -> str:
        return " – ".join(shown(column.metric, end) for end in self.ends(line, column))

    def pairs(self, line: Line, other: Line) -> list[tuple[str, str]]:
        """Runs of the same seed, or all with all where there are none."""
        every = [(one, two) for one in line.runs for two in other.runs]
        return [pair for pair in every if self._same_seed(*pair)] or every

    def _same_seed(self, one: str, other: str) -> bool:
        seeds = [self.cases[run].file("config.json")["seed"] for run in (one, other)]
        return seeds[0] == seeds[1]

    def minus(self, line: Line, other: Line, column: Column, calibration: str = "raw") -> Minus:
        found, drawn = [], []
        pairs = self.pairs(line, other)
        for pair in pairs:
            sides = list(zip(pair, (line.method, other.method), strict=True))
            own, theirs = (
                self.cases[run].value(method, column.metric, column.shift, calibration=calibration)
                for run, method in sides
            )
            found.append(own - theirs)
            replicates = [self.replicates(run, method, column, calibration) for run, method in sides]
            drawn.append(replicates[0] - replicates[1])
        low, high = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975])
        agreed = len({value > 0 for value in found}) == 1 and 0 not in found
        same_seeds = all(self._same_seed(*pair) for pair in pairs)
        return Minus(statistics.fmean(found), low, high, agreed, same_seeds, len(pairs))

    def ranked(self, column: Column, calibration: str = "raw") -> list[Line]:
        """The best first."""
        sign = -1 if column.metric == "accuracy" else 1
        found = {
            one: self.mean(one, column.metric, column.shift, calibration=calibration) for one in self.lines
        }
        return sorted(self.lines, key=lambda line: sign * found[line])

    def standing(self, column: Column, calibration: str = "raw") -> dict[Line, str]:
        """best, worse or unjudged."""
        if not self.competing:
            return dict.fromkeys(self.lines, "")
        means = {
            one: self.mean(one, column.metric, column.shift, calibration=calibration) for one in self.lines
        }
        best = means[self.ranked(column, calibration)[0]]
        tied = [one for one in means if shown(column.metric, means[one]) == shown(column.metric, best)]
        return {
            one: "best" if one in tied else self._to(tied, one, column, calibration) for one in self.lines
        }

    def _to(self, tied: Sequence[Line], line: Line, column: Column, calibration: str) -> str:
        found = [self.minus(line, one, column, calibration) for one in tied]
        paired = [one for one in found if one.same_seeds]
        if any(one.verdict(column.metric) == "worse" for one in paired):
            return "worse"
        return "best" if paired else "unjudged"


def minus_by_shift(compared: Compared, own: Line, metric: str) -> dict[tuple[str, int], float]:
    """Own minus the baseline in each cell, mean over seeds that both have."""
    assert compared.baseline is not None
    cells = {(row["shift"], row["severity"]) for row in compared.first.rows if row["severity"]}
    found = {}
    for shift, severity in cells:
        differences = [
            compared.cases[run].value(own.method, metric, shift, severity=severity)
            - compared.cases[other].value(compared.baseline.method, metric, shift, severity=severity)
            for run, other in compared.pairs(own, compared.baseline)
        ]
        found[shift, severity] = statistics.fmean(differences)
    return found


def spent(compared: Compared, line: Line, unit: str) -> tuple[float, float]:
    """On the search and on chains, in the mean over seeds."""
    cases = [compared.cases[run] for run in line.runs]
    search = statistics.fmean(case.file("cost.json")["search"][unit] for case in cases)
    return search, statistics.fmean(case.spent(line.method, unit) for case in cases)


def of_members(compared: Compared, line: Line, amount: str) -> int:
    """Parameters or multiply-adds of the members, in the mean over seeds."""
    runs = [compared.cases[run].source[0].member_facts(line.method) for run in line.runs]
    if amount == "parameters":
        return round(statistics.fmean(sum(m.parameters for m in members) for members in runs))
    return round(
        statistics.fmean(sum(m.space.cost(m.architecture).multiply_adds for m in members) for members in runs)
    )
