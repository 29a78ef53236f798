"""A run that is over in time: what a budget is, and a run that keeps to it."""

import re
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from uraenas.base.errors import UraenasError
from uraenas.base.progress import Progress, in_words, silent
from uraenas.data import Dataset
from uraenas.run.choice import (
    BATCH,
    CHOSEN,
    EPOCHS,
    MEMBERS,
    QUERIES,
    QUERY_EPOCHS,
    RESERVE,
    SEARCH,
    SUITE,
    WIDTH,
    Candidate,
    Choice,
    NothingFits,
    samples_of,
)
from uraenas.run.config import Config, override
from uraenas.run.directory import Run
from uraenas.run.fine_tuning import CHOSEN_TO_START, fine_tuning, step_sizes, told_of_start
from uraenas.run.forecast import Forecast
from uraenas.run.pipeline import Pipeline
from uraenas.run.rates import PATIENCE, Rates

UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def seconds_of(budget: str | float) -> float:
    """The seconds of 45, "90s", "10m" or "2h"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|m|min|h|)", str(budget).strip())
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not seconds:
        raise UraenasError(f"budget = {budget!r} is no time; allowed: a number of seconds, or 90s, 10m, 2h")
    return seconds


@dataclass(frozen=True)
class Planned:
    """A run that may begin, what is expected of it, and what should be known of it; nothing is written yet."""

    pipeline: Pipeline
    expected: Forecast | None  # on a GPU only where it was asked for: kernels are compiled for it
    notes: list[str]


def plan(
    path: Path | str,
    config: Config,
    progress: Progress = silent,
    dataset: Dataset | None = None,
    search_of: Run | Literal["usual"] | None = None,
    budget: str | float | None = None,
    fixed: Collection[str] = (),
    evaluating: bool = True,
    asked: bool = False,
) -> Planned:
    """A run that has passed all checks; with a budget, one that will be over in time.

    A run that has begun keeps its settings. `fixed` are keys of settings that are not to be chosen. What is expected is
    measured where that is quick, or where it is `asked` for.
    """
    begun = time.monotonic()
    seconds = None if budget is None else seconds_of(budget)
    if seconds is None or Run(path).exists:
        kept, given, told = config, fixed, []
        if seconds is not None:
            kept, given = _as_before(Run(path), config, fixed), (*fixed, EPOCHS, BATCH)
            told = [
                "the run has begun, and keeps its settings: a budget chooses those of a new one, in another --out"
            ]
        pipeline = Pipeline.checked(path, kept, progress, dataset, search_of, given=given)
        measured = asked or seconds is not None or pipeline.engine.device.type == "cpu"
        expected = pipeline.forecast(evaluating, _patience(seconds)) if measured else None
        planned = Planned(pipeline, expected, told)
    else:
        first = Pipeline.checked(path, config, progress, dataset, search_of, given=fixed)
        usual = search_of == "usual" and first.search_of is not None
        within = _Budget(seconds, begun, fixed, evaluating)
        planned = within.planned(first, config, usual, progress)
    if planned.expected is not None:
        planned.pipeline.progress.expect(planned.expected, seconds and begun + (1 - RESERVE / 5) * seconds)
    return planned


@dataclass(frozen=True)
class _Budget:
    """So many seconds from a time of the clock on, and what is chosen within them."""

    seconds: float
    begun: float
    fixed: Collection[str]
    evaluating: bool

    def planned(self, first: Pipeline, config: Config, usual: bool, progress: Progress) -> Planned:
        """The run with the settings that fit; where the search is the usual one, networks may start trained."""

        def again(settings: Config) -> Pipeline:
            return Pipeline.checked(first.run.path, settings, progress, first.task.dataset, first.search_of)

        tuned = fine_tuning(first.config, first.task, self.fixed) if usual else None
        choice, chosen = self._fitting(first, again(tuned) if tuned else None)
        told = [_told(chosen, config, self.seconds), *told_of_start(chosen.config, config)]
        return Planned(again(chosen.config), chosen.expected, [*told, *choice.doubts(chosen)])

    def _fitting(self, first: Pipeline, tuned: Pipeline | None) -> "tuple[Choice, Candidate]":
        if tuned is not None:
            with suppress(NothingFits):
                return self._choice(tuned)
        return self._choice(first)  # its networks may become narrower

    def _choice(self, trial: Pipeline) -> "tuple[Choice, Candidate]":
        left = self.seconds - (time.monotonic() - self.begun)  # images had to be read
        choice = Choice(
            trial, _measuring(trial, self.seconds), left, self.fixed, self.evaluating, self.seconds
        )
        return choice, choice.best()


def _as_before(run: Run, config: Config, fixed: Collection[str]) -> Config:
    """What was chosen when the run began."""
    before = run.config().values
    chosen = (*CHOSEN, *CHOSEN_TO_START, *step_sizes(config), *samples_of(config))
    kept = {k: before[k] for k in chosen if k in config.values and k in before and k not in fixed}
    return override(config, kept)


def _patience(seconds: float | None) -> float:
    """Seconds for each thing that is measured: the more, the less a busy moment matters."""
    return PATIENCE if seconds is None else min(1.0, max(PATIENCE, PATIENCE * seconds / 60))


def _measuring(pipeline: Pipeline, seconds: float) -> Callable[[Config], Rates]:
    searched = pipeline.search_of.searched() if pipeline.search_of else None

    def measure(config: Config) -> Rates:
        trial = Pipeline(pipeline.run, config, dataset=pipeline.task.dataset)
        return Rates(config, trial.task, trial.engine, searched, _patience(seconds))

    return measure


def _told(chosen: Candidate, before: Config, seconds: float) -> str:
    now, then = chosen.config.values, before.values
    searching = (SEARCH, QUERIES, QUERY_EPOCHS) if chosen.expected.plan["search_epochs"] else ()
    shown = [key for key in searching if key in now]
    shown += [key for key in (EPOCHS, MEMBERS) if key in now]
    shown += [key for key in (WIDTH, BATCH, *samples_of(before)) if now.get(key) != then.get(key)]
    told = f"chosen for {in_words(seconds)}: {', '.join(f'{key}={now[key]}' for key in shown)}"
    if now[SUITE] != then[SUITE]:
        told += f"; there is no time for shifted images ({then[SUITE]})"
    return told
