"""The settings that fit a budget, chosen by rules of a few lines.

1. A fifth of the time, at most, goes to the search, and as much to shifted images, which are left out where they do
   not fit. A search by queries makes fewer of them, but FEW_QUERIES; then each trains for fewer epochs, but FEW_EPOCHS;
   then it makes still fewer.
2. Chains get enough steps to learn, then the ensemble as many members as fit and the preset asks for, then chains
   what is left as more steps, up to MOST_STEPS or what the preset asks for.
3. Where two members do not fit with enough steps, they get fewer; where not even a few fit, networks are narrower.
   On a GPU they are first as wide as own kernels want them: narrower ones would be slower.
4. Where chains get fewer steps than enough, batches and step sizes are halved once if that costs little time: twice
   as many steps on as many images.
5. Where epochs hold fewer samples than are asked for (forty SWA samples are for 200 epochs), cycles give fewer.
6. A tenth is kept in reserve. Settings that are given are never touched.
7. Few images for which the shipped search is taken start from shipped networks where these fit (`fine_tuning.py`):
   then fewer steps are enough, and neither networks nor batches are made smaller.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.base.progress import in_words
from uraenas.data.loader import suited_batch
from uraenas.learning.chains import epochs_for
from uraenas.learning.loops import LoopParts
from uraenas.run.advice import ENOUGH_STEPS, FEW_STEPS
from uraenas.run.config import Config, override
from uraenas.run.fine_tuning import ENOUGH_STEPS_ON, FEW_STEPS_ON, starts_trained, step_sizes
from uraenas.run.forecast import Forecast, forecast
from uraenas.run.pipeline import Pipeline
from uraenas.run.rates import Rates
from uraenas.spaces import Together
from uraenas.weights import WeightMethod

SHARE = 0.2  # of the time: at most this for the search, and for shifted images
RESERVE = 0.1
MOST_STEPS = 3 * ENOUGH_STEPS
SMALLEST_BATCH = 32  # that batches are halved to
MOST_LOST = 0.25  # of the epochs, where steps on half as many images take more than half as long
FEWEST_CHANNELS = 4
FEW_QUERIES, FEW_EPOCHS = 30, 4  # a population of ten that has changed twice; less ranks networks by chance
EPOCHS, MEMBERS, SEARCH, WIDTH = "train.epochs", "ensemble.members", "search.epochs", "network.channels"
QUERIES, QUERY_EPOCHS = "search.queries", "search.query_epochs"
SUITE, STACK, BATCH = "evaluate.suite", "engine.stack", "train.batch"
CHOSEN = (EPOCHS, MEMBERS, SEARCH, QUERIES, QUERY_EPOCHS, WIDTH, SUITE, STACK, BATCH)


class NothingFits(UraenasError):
    """Into the budget."""


@dataclass(frozen=True)
class Candidate:
    """Settings, and how long they would take."""

    config: Config
    expected: Forecast


class Choice:
    """The settings that fit."""

    def __init__(
        self,
        pipeline: Pipeline,
        measure: Callable[[Config], Rates],
        seconds: float,
        fixed: Collection[str] = (),
        evaluating: bool = True,
        budget: float | None = None,
    ) -> None:
        self.budget = seconds if budget is None else budget  # as it was given
        self.run, self.task, self.measure = pipeline.run, pipeline.task, measure
        self.asked, self.fixed, self.evaluating = pipeline.config, set(fixed), evaluating
        self.tuned = starts_trained(self.asked)
        self.few, self.enough, self.most = FEW_STEPS, ENOUGH_STEPS, MOST_STEPS
        if self.tuned:
            self.few, self.enough, self.most = FEW_STEPS_ON, ENOUGH_STEPS_ON, 3 * ENOUGH_STEPS_ON
        anew = not any(self.asked.method(name).source.start for name in self.asked.methods)
        self.any_width = WIDTH in self.asked.values and WIDTH not in self.fixed and anew
        self.why_no_kernels = pipeline.engine.why_no_kernels
        self.gone, self.room = self.budget - seconds, (1 - RESERVE) * seconds
        self.steps = self.task.steps(self.asked.train.batch)  # of an epoch
        # The smaller stacks are, the sooner the first chains are through; on a CPU larger ones gain nothing, unless
        # all are one batch.
        self.stack, workers = self.asked.engine.stack, pipeline.engine.workers
        if workers and not isinstance(self.task.space, Together):
            self.stack = min(self.stack, workers.count)
        self.rates: Rates  # of the width and batch at hand
        self.weights = [self.asked.method(name).weights for name in self.asked.methods]
        self.least_kinds = [self._fewest_samples(one) for one in self.weights]

    def best(self) -> Candidate:
        """The settings to take."""
        return self._in_smaller_steps(self._best_with_this_batch())

    def _in_smaller_steps(self, found: Candidate) -> Candidate:
        """The same with half as large batches and steps, where steps would be few and almost as many epochs fit."""
        batch = suited_batch(self.asked.train.batch, len(self.task.train)) // 2
        sizes = step_sizes(self.asked)
        few = found.expected.plan["steps"] < ENOUGH_STEPS and batch >= SMALLEST_BATCH
        if not few or self.tuned or self.fixed & {BATCH, *sizes}:
            return found
        before = (self.asked, self.rates)
        epochs, members = (found.config.values[key] for key in (EPOCHS, MEMBERS))
        self.asked = override(self.asked, {BATCH: batch, **{key: size / 2 for key, size in sizes.items()}})
        self.rates = self._measured(self._with({WIDTH: self.width, STACK: self.stack}))
        least = (
            epochs if EPOCHS in self.fixed else epochs_for(self.least_kinds, int((1 - MOST_LOST) * epochs))
        )
        if self._fits(least, members):
            return self._try(self._most_epochs(least, epochs, members), members)
        self.asked, self.rates = before
        # Timing them has taken of the room.
        return found if found.expected.total <= self.room else self._at_this_width() or found

    @contextmanager
    def _spending(self) -> Iterator[None]:
        """What is measured in here takes its time from the budget."""
        begun = time.monotonic()
        yield
        took = time.monotonic() - begun
        self.gone, self.room = self.gone + took, self.room - took

    def _measured(self, config: Config) -> Rates:
        with self._spending():
            return self.measure(config)

    def _whole(self, expected: Forecast) -> str:
        """The budget into which this would have fitted, in words."""
        return in_words(self.gone + expected.total / (1 - RESERVE))

    def _best_with_this_batch(self) -> Candidate:
        width = self._first_width()
        while True:
            self.width = width
            self.rates = self._measured(self._with({WIDTH: width, STACK: self.stack}))
            self.search = self._search()
            if found := self._at_this_width():
                return found
            if not self.any_width or width // 2 < FEWEST_CHANNELS:
                raise NothingFits(
                    f"nothing fits into {in_words(self.budget)}: the least that could learn anything takes about "
                    f"{self._whole(self._try(*self._least).expected)} here"
                )
            width //= 2

    def _first_width(self) -> int:
        """As asked; on a GPU up to four times as much, if own kernels take that and not what is asked."""
        asked, shape = self.asked.values.get(WIDTH, 0), self.task.space.shape
        widths = (asked, 2 * asked, 4 * asked) if self.any_width else ()
        for width in widths:
            with suppress(UraenasError):  # wider than allowed
                if not self.why_no_kernels(replace(self._with({WIDTH: width}).network, shape=shape)):
                    return width
        return asked

    def doubts(self, chosen: Candidate) -> list[str]:
        """That networks are trained too little, in a line; nobody knows how much those want that start trained."""
        epochs, enough = chosen.config.train.epochs, self._epochs(self.enough)
        if epochs >= enough or self.tuned:
            return []
        whole = self._whole(self._try(enough, self._least[1]).expected)
        return [
            f"networks are undertrained: train.epochs={epochs}, and they want {enough}, which would take a budget of "
            f"about {whole} here"
        ]

    @property
    def _least(self) -> tuple[int, int]:
        """Epochs and members, below which it is not worth while."""
        wanted = self.asked.ensemble.members
        return self._epochs(self.few), wanted if MEMBERS in self.fixed else min(2, wanted)

    def _at_this_width(self) -> Candidate | None:
        few, two = self._least
        if not self._fits(few, two):
            return None
        enough = self._epochs(self.enough)
        if not self._fits(enough, two):
            return self._try(self._most_epochs(few, enough, two), two)
        wanted = self.asked.ensemble.members
        members = next((count for count in range(wanted, two, -1) if self._fits(enough, count)), two)
        most = max(self._epochs(self.most), self.asked.train.epochs)
        return self._try(self._most_epochs(enough, most, members), members)

    def _epochs(self, steps: int) -> int:
        """So many that chains have at least these steps, in whole cycles."""
        if EPOCHS in self.fixed:
            return self.asked.train.epochs
        return epochs_for(self.least_kinds, -(-steps // self.steps))

    def _most_epochs(self, least: int, most: int, members: int) -> int:
        """The most epochs between these that fit; `least` do."""
        while least < most:
            middle = epochs_for(self.least_kinds, (least + most + 1) // 2)
            if middle <= most and self._fits(middle, members):
                least = middle
            else:
                most = (least + most + 1) // 2 - 1
        return least

    def _search(self) -> dict[str, int]:
        """Its epochs, or its queries and theirs: as many as asked for, or as fit into their share."""
        parts = self.asked.search
        if parts is None or self.rates.searched is not None:
            return {}
        with self._spending():
            epoch = self.rates.search_epoch
        within = SHARE * self.room / epoch  # epochs
        allowed = _whole_cycles(parts)
        if SEARCH in self.asked.values:
            return {SEARCH: max((n for n in allowed if n <= within), default=allowed[0])}
        return self._queries(within, allowed, parts.settings.units)

    def _queries(self, within: float, allowed: list[int], most: int) -> dict[str, int]:
        """Queries, and epochs of each: fewer, then shorter, then still fewer ones."""
        few = most if QUERIES in self.fixed else min(most, FEW_QUERIES)
        lengths = [n for n in allowed if n >= FEW_EPOCHS] or allowed[-1:]
        if QUERY_EPOCHS in self.fixed:
            lengths = [self.asked.values[QUERY_EPOCHS]]
        length = max((n for n in lengths if few * n <= within), default=lengths[0])
        return {QUERIES: max(1, min(most, int(within / length))), QUERY_EPOCHS: length}

    def _samples(self, epochs: int) -> dict[str, int]:
        """Those of each cycle, as many as are asked for or as these epochs hold."""
        found: dict[str, int] = {}
        for weights in self.weights:
            key = f"train.{weights.section}.samples"
            for count in range(found.get(key, self.asked.values.get(key, 0)), 0, -1):
                if fewer := self._with_samples(weights, count):
                    with suppress(UraenasError):
                        fewer.check(epochs)
                        found[key] = count
                        break
        return found

    def _fewest_samples(self, weights: Any) -> WeightMethod:
        """The same with as few as it may have: what the epochs must hold at least."""
        counts = range(1, getattr(weights, "samples", 0))
        return next((fewer for one in counts if (fewer := self._with_samples(weights, one))), weights)

    def _with_samples(self, weights: Any, count: int) -> WeightMethod | None:
        """The same with so many samples of each cycle, where their number may be chosen."""
        key = f"train.{weights.section}.samples"
        if key not in self.asked.values or key in self.fixed:
            return None
        with suppress(UraenasError):  # fewer than a mean is of
            return replace(weights, samples=count)
        return None

    def _fits(self, epochs: int, members: int) -> bool:
        return self._try(epochs, members).expected.total <= self.room

    def _try(self, epochs: int, members: int) -> Candidate:
        chosen = {EPOCHS: epochs, MEMBERS: members, WIDTH: self.width, STACK: self.stack, **self.search}
        config = self._with(chosen | self._samples(epochs))
        tried = Candidate(config, self._forecast(config))
        if not self.evaluating or SUITE in self.fixed or config.values[SUITE] == "none":
            return tried
        clean = self._with({SUITE: "none"}, config)
        without = Candidate(clean, self._forecast(clean))
        shifted = tried.expected.total - without.expected.total
        return tried if shifted <= SHARE * self.room else without

    def _forecast(self, config: Config) -> Forecast:
        with self._spending():  # rates are measured when they are first asked for
            return forecast(config, self.task, self.run, self.rates, self.evaluating)

    def _with(self, values: dict[str, Any], config: Config | None = None) -> Config:
        config = config or self.asked
        changes = {k: v for k, v in values.items() if k in config.values and k not in self.fixed}
        return override(config, changes)


def samples_of(config: Config) -> list[str]:
    """The keys of how many samples cycles of the weights have."""
    return [key for key in config.values if key.startswith("train.") and key.endswith(".samples")]


def _whole_cycles(parts: LoopParts) -> list[int]:
    """Epochs in which a cycle of the search's weights ends, up to those that are asked for."""
    settings: Any = parts.settings
    allowed = []
    for epochs in range(1, getattr(settings, settings.epochs_name) + 1):
        with suppress(UraenasError):
            replace(settings, **{settings.epochs_name: epochs}).check(parts.weights)
            allowed.append(epochs)
    return allowed
