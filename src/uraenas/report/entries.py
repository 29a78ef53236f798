"""What a page of several runs compares: a method with its settings, folded over the runs that are seeds of it."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from uraenas.evaluation import REFERENCES
from uraenas.evaluation.summaries import INTERVAL
from uraenas.report.picked import alike, same_learning, same_references, same_shifts, same_tests
from uraenas.report.reading import RunFacts
from uraenas.report.style import LARGER_IS_BETTER, of_one_seed, show
from uraenas.run.config import Config, differences


def labels_of(runs: Sequence[RunFacts]) -> list[str]:
    """The runs' names, with as much of the way to them as tells them apart."""
    paths = [facts.run.path.resolve().parts for facts in runs]
    most = max(map(len, paths))
    for length in range(1, most + 1):
        names = ["/".join(path[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path[-1]} ({k + 1})" for k, path in enumerate(paths)]


@dataclass(frozen=True)
class Value:
    """A mean over seeds with its deviation, or one run's value; the interval is over resamples of the test set."""

    mean: float
    deviation: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Difference:
    """Method minus baseline: the mean over pairs of runs, and its interval over resamples of the test set."""

    value: float
    interval: tuple[float, float]
    agreed: bool  # all pairs have the same sign
    same_seeds: bool  # pairs are runs of the same seed: if not, the seed may be all of the difference
    pairs: int  # of runs

    def verdict(self, metric: str) -> str:
        """better or worse where the interval leaves out zero and all pairs agree, of runs of the same seeds."""
        low, high = self.interval
        if low <= 0 <= high or not self.agreed or not self.same_seeds:
            return ""
        return "better" if (low > 0) == (metric in LARGER_IS_BETTER) else "worse"

    def mark(self, metric: str) -> str:
        """The verdict as a table shows it."""
        return of_one_seed(self.verdict(metric)) if self.pairs == 1 else self.verdict(metric)


@dataclass(frozen=True, eq=False)
class Entry:
    """One line of the comparison."""

    method: str
    places: tuple[int, ...]  # of its runs on the page
    runs: tuple[RunFacts, ...]
    group: int  # entries of the same runs have the same shape

    @property
    def members(self) -> int:
        return self.runs[0].sizes[self.method]

    def shift(self, shifted: bool) -> str:
        return (self.runs[0].shifted or "") if shifted else "none"

    def of_runs(self, metric: str, shift: str, calibration: str = "raw") -> list[float]:
        """One value for each run; none where a run lacks it."""
        kind = "raw" if metric == "disagreement" else calibration
        found = [facts.value(self.method, metric, shift, calibration=kind) for facts in self.runs]
        return [value for value in found if value is not None] if None not in found else []

    @cached_property
    def _values(self) -> dict[tuple[str, str, str], Value | None]:
        return {}

    def value(self, metric: str, shift: str, calibration: str = "raw") -> Value | None:
        """Asked for by every table and figure, and found once."""
        place = (metric, shift, calibration)
        if place not in self._values:
            self._values[place] = self._value(*place)
        return self._values[place]

    def _value(self, metric: str, shift: str, calibration: str) -> Value | None:
        values = self.of_runs(metric, shift, calibration)
        if not values:
            return None
        if len(values) > 1:
            interval = self._interval(f"{shift}/{self.method}/{calibration}/{metric}")
            return Value(statistics.fmean(values), statistics.stdev(values), interval)
        row = self.runs[0].row(self.method, metric, shift, calibration=calibration)
        return Value(values[0], interval=None if row is None else row.interval)

    def _interval(self, name: str) -> tuple[float, float] | None:
        """Of the mean over seeds: each resample of the test set is the same in all of them."""
        resamples = [facts.replicates.get(name) for facts in self.runs]
        known = [one for one in resamples if one is not None]
        if len(known) < len(resamples) or len(set(map(len, known))) > 1:
            return None
        return _quantiles(np.add.reduce(known) / len(known))

    def pairs(self, other: "Entry") -> list[tuple[RunFacts, RunFacts]]:
        """Runs of the same seed, or all with all where none share one."""
        shared = [(a, b) for a in self.runs for b in other.runs if a.config.seed == b.config.seed]
        return shared or [(a, b) for a in self.runs for b in other.runs]

    def minus(self, other: "Entry", metric: str, shift: str, calibration: str) -> Difference | None:
        """Paired over the same images; runs of the same seed pair, or all with all where none share one."""
        pairs = self.pairs(other)
        found = [_paired(a, self.method, b, other.method, (shift, calibration, metric)) for a, b in pairs]
        known = [one for one in found if one is not None]
        if len(known) < len(found) or len({len(resample) for _, resample in known}) != 1:
            return None
        values = [value for value, _ in known]
        low, high = _quantiles(np.add.reduce([resample for _, resample in known]) / len(known))
        agreed = all(value > 0 for value in values) or all(value < 0 for value in values)
        same_seeds = all(a.config.seed == b.config.seed for a, b in pairs)
        return Difference(statistics.fmean(values), (low, high), agreed, same_seeds, len(pairs))


def _paired(
    a: RunFacts, method: str, b: RunFacts, baseline: str, place: tuple[str, str, str]
) -> tuple[float, np.ndarray] | None:
    """The difference of two runs' values, and its bootstrap replicates."""
    shift, calibration, metric = place
    values = [
        facts.value(name, metric, shift, calibration=calibration)
        for facts, name in ((a, method), (b, baseline))
    ]
    replicates = [
        facts.replicates.get(f"{shift}/{name}/{calibration}/{metric}")
        for facts, name in ((a, method), (b, baseline))
    ]
    own, theirs = replicates
    if values[0] is None or values[1] is None or own is None or theirs is None or len(own) != len(theirs):
        return None
    return values[0] - values[1], own - theirs


def _quantiles(resamples: np.ndarray) -> tuple[float, float]:
    """The ends of INTERVAL: np.quantile's, which takes ten times as long for a thousand numbers."""
    places = np.arange(len(resamples)) / max(len(resamples) - 1, 1)
    low, high = np.interp(INTERVAL, places, np.sort(resamples)).tolist()
    return low, high


class Entries(Sequence[Entry]):
    """All lines of a comparison, in the order in which methods appear."""

    def __init__(self, runs: Sequence[RunFacts]) -> None:
        self.runs = runs
        self._best: dict[tuple[str, bool, str], Entry | None] = {}
        self._standing: dict[tuple[str, bool, str], dict[Entry, str]] = {}
        self.labels = labels_of(runs)
        self.competing = same_tests(runs)
        self._competing_shifted = self.competing and same_shifts(runs)
        found = list(_folded(runs))
        self.groups = list(dict.fromkeys(places for _, places in found))
        order = list(dict.fromkeys(method for method, _ in found))
        if self.competing:  # else what stands side by side are the methods of a run
            found.sort(key=lambda one: (order.index(one[0]), one[1]))
        self._entries = [
            Entry(method, places, tuple(runs[k] for k in places), self.groups.index(places))
            for method, places in found
        ]

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        return self._entries[place]

    @property
    def examples(self) -> str:
        """What all runs were tested on: images or rows."""
        found = {facts.examples for facts in self.runs}
        return found.pop() if len(found) == 1 else "examples"

    def place(self, shifted: bool) -> str:
        """Where a value was measured, in a word."""
        return "shifted" if shifted else next(iter(self.runs[0].places))

    @property
    def shifted(self) -> bool:
        return any(facts.shifted for facts in self.runs)

    def compete(self, shifted: bool) -> bool:
        """Whether values of different runs are of the same images, so that one is better than another."""
        return self._competing_shifted if shifted else self.competing

    @property
    def folded(self) -> bool:
        """Whether some line is a mean over seeds."""
        return any(len(entry.runs) > 1 for entry in self)

    @property
    def references(self) -> list[str]:
        """Methods that have no members, and so neither sizes nor costs."""
        return list(dict.fromkeys(entry.method for entry in self if entry.method in REFERENCES))

    @cached_property
    def names(self) -> dict[Entry, str]:
        """What a line is called: its method, with its runs where several lines have the same."""
        methods = [entry.method for entry in self]
        return {
            one: one.method
            if methods.count(one.method) == 1
            else f"{one.method} ({self.of_group(one.group)})"
            for one in self
        }

    def of_group(self, group: int) -> str:
        """Which runs these are, in words."""
        names = [self.labels[k] for k in self.groups[group]]
        last = {name.rpartition("/")[2] for name in names}
        if len(names) == 1:
            return names[0]
        seeds = ", ".join(str(self.runs[k].config.seed) for k in self.groups[group])
        return f"{last.pop()}, seeds {seeds}" if len(last) == 1 else ", ".join(names)

    def best(self, metric: str, shifted: bool, calibration: str = "raw") -> Entry | None:
        """Whose value is the best."""
        place = (metric, shifted, calibration)
        if place not in self._best:
            values = {e: e.value(metric, e.shift(shifted), calibration) for e in self}
            found = {entry: value.mean for entry, value in values.items() if value is not None}
            pick = max if metric in LARGER_IS_BETTER else min
            self._best[place] = pick(found, key=found.__getitem__) if found else None
        return self._best[place]

    def standing(self, metric: str, shifted: bool, calibration: str = "raw") -> dict[Entry, str]:
        """Of all that have a value: best, for the best value as printed and all not clearly worse; worse; or unjudged.

        Unjudged are those that share no seed with the best, or have no replicates to be paired.
        """
        place = (metric, shifted, calibration)
        if place not in self._standing:
            self._standing[place] = self._judged(*place) if self.compete(shifted) else {}
        return self._standing[place]

    def _judged(self, metric: str, shifted: bool, calibration: str) -> dict[Entry, str]:
        values = {e: e.value(metric, e.shift(shifted), calibration) for e in self}
        printed = {e: show(metric, value.mean) for e, value in values.items() if value is not None}
        best = self.best(metric, shifted, calibration)
        if best is None:
            return {}
        tied = [entry for entry, words in printed.items() if words == printed[best]]
        place = (metric, best.shift(shifted), calibration)
        return {e: "best" if e in tied else _against(e, tied, *place) for e in printed}

    def rank(self, entry: Entry, metric: str, shifted: bool) -> tuple[int, int]:
        """1 for the best value, and of how many."""
        values = [v.mean for e in self if (v := e.value(metric, e.shift(shifted))) is not None]
        own = entry.value(metric, entry.shift(shifted))
        assert own is not None
        larger = metric in LARGER_IS_BETTER
        place = 1 + sum(value > own.mean if larger else value < own.mean for value in values)
        return place, len(values)


def _against(entry: Entry, tied: Sequence[Entry], metric: str, shift: str, calibration: str) -> str:
    """How a method stands to those that have the best value: worse where it is clearly worse than one of them."""
    standing = "unjudged"
    for one in tied:
        difference = entry.minus(one, metric, shift, calibration)
        if difference is not None and difference.same_seeds:
            if difference.verdict(metric) == "worse":
                return "worse"
            standing = "best"
    return standing


def _folded(runs: Sequence[RunFacts]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Methods with the runs that differ in nothing but their seed."""
    groups: list[tuple[str, list[int], Config | None]] = []
    for k, facts in enumerate(runs):
        for method in facts.sizes:
            own = None if method in REFERENCES else facts.own_config(method)
            for name, places, config in groups:
                if name == method and _is_seed_of([runs[p] for p in places], facts, method, config, own):
                    places.append(k)
                    break
            else:
                groups.append((method, [k], own))
    for method, places, _ in groups:
        yield method, tuple(places)


def _is_seed_of(
    others: Sequence[RunFacts], facts: RunFacts, method: str, config: Config | None, own: Config | None
) -> bool:
    seeds = [one.config.seed for one in others]
    same_size = others[0].sizes[method] == facts.sizes[method]
    if facts.config.seed in seeds or not same_size or not alike([others[0], facts]):
        return False
    if not same_learning(others[0], facts):
        return False
    if config is None or own is None:
        return same_references(others[0], facts)
    return not set(differences(config, own)) - {"seed"}
