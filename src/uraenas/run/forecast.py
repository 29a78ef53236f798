"""How long a run will take: what is left to do, at the speed of a few measured steps."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uraenas.base.progress import Progress, in_words
from uraenas.ensemble import at_test_time
from uraenas.evaluation import cell_count
from uraenas.learning.chains import RESTARTS, ChainSpec, chain_numbers, chains_for, in_turns, shared_epochs
from uraenas.learning.loops import LoopSettings
from uraenas.learning.methods import Assembled
from uraenas.run.checkpoints import chain_facts
from uraenas.run.config import Config
from uraenas.run.directory import SEARCH_STATE, Run
from uraenas.run.members import LOOKED_AT
from uraenas.run.rates import Rates
from uraenas.run.task import Task

STAGES = {"search": "search", "train": "training", "members": "members", "evaluate": "evaluation"}
TRUST = 0.05  # a forecast counts as much as this part of a stage that has been seen
PAUSE = 0.25  # seconds between two words on progress


@dataclass(frozen=True)
class Forecast:
    """Seconds by stage, and what is done in them; of what is done already nothing is counted."""

    seconds: Mapping[str, float]
    plan: Mapping[str, Any]

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def __str__(self) -> str:
        parts = [f"{STAGES[stage]} {in_words(one)}" for stage, one in self.seconds.items() if one >= 0.5]
        return f"about {in_words(self.total)}" + (f": {', '.join(parts)}" if len(parts) > 1 else "")


def forecast(config: Config, task: Task, run: Run, rates: Rates, evaluating: bool = True) -> Forecast:
    """What is left of a run. With `evaluating`, members are measured on test images, too."""
    left = [config.method(name) for name in config.methods if not run.is_trained(name)]
    chains = _epochs_left(left, config, run)
    searching = 0 if rates.searched is not None else _search_epochs(config, run)
    sets = _sets_left(config, task, run) if evaluating else {}
    of_search = config.search.settings if config.search else None
    seconds = {
        "search": searching * of_search.unit_epochs * rates.search_epoch if of_search and searching else 0.0,
        "train": sum(_stack_seconds(stack, chains, rates) for stack in _stacks(chains, config)),
        "members": sum(_choosing(method, config, task, rates) for method in left),
        "evaluate": _evaluating(sets, config, task, rates),
    }
    plan = {
        "search_epochs": searching,
        "search_unit": _unit(of_search) if of_search else "epochs",
        "chains": sum(epochs > 0 for epochs in chains.values()),
        "epochs": config.train.epochs,
        "steps": config.train.epochs * task.steps(config.train.batch),  # of one chain
        "members": {name: _members(config.method(name), config) for name in config.methods},
        "sets": max(sets.values(), default=0),
    }
    return Forecast(seconds, plan)


def _unit(settings: LoopSettings) -> str:
    return settings.unit if settings.unit == "epochs" else f"{settings.unit} of {settings.unit_epochs} epochs"


def _search_epochs(config: Config, run: Run) -> int:
    if config.search is None or run.has_search or not config.needs_search:
        return 0
    done = run.read_tensors(SEARCH_STATE)[1].whole("epoch") if run.has(SEARCH_STATE) else 0
    return max(0, config.search.settings.units - done)


def _epochs_left(methods: Sequence[Assembled], config: Config, run: Run) -> dict[ChainSpec, int]:
    """The chains of these methods, and how many epochs each has to go."""
    epochs, found = config.train.epochs, chain_facts(run)
    # Which architectures they have does not matter here, and is not known before a search.
    specs = {
        spec.name: spec
        for method in methods
        for number in chain_numbers(method, config.ensemble)
        for spec in [ChainSpec(method.origin, method.weights, number, "")]
    }
    leaders, _ = in_turns(list(specs.values()), epochs)
    left = {}
    for name, spec in specs.items():
        shared = [
            shared_epochs(one, spec, epochs) for one in leaders if one.root == spec.root and one != spec
        ]
        done = max(shared, default=0) if spec not in leaders else 0
        if (chain := found.get(name)) is not None:
            over = chain.failure and chain.restarts == RESTARTS
            done = epochs if over else max(done, chain.epoch)
        left[spec] = max(0, epochs - done)
    return left


def _stacks(chains: Mapping[ChainSpec, int], config: Config) -> Iterator[list[ChainSpec]]:
    """Chains that will move together."""
    groups: dict[tuple[str, int], list[ChainSpec]] = {}
    for spec, epochs in chains.items():
        if epochs:
            groups.setdefault((spec.weights.trajectory, epochs), []).append(spec)
    size = config.engine.stack
    for group in groups.values():
        yield from (group[start : start + size] for start in range(0, len(group), size))


def _stack_seconds(stack: Sequence[ChainSpec], chains: Mapping[ChainSpec, int], rates: Rates) -> float:
    rates.chain_start(stack[0], len(stack))  # to know how many fit
    rounds = -(-len(stack) // rates.abreast(stack[0]))
    count = -(-len(stack) // rounds)
    of_round = [rates.chain_start(one, count) + chains[one] * rates.chain_epoch(one, count) for one in stack]
    return rounds * sum(of_round) / len(stack)


def _members(method: Assembled, config: Config) -> int:
    return 1 if method.row.single else config.ensemble.members


def _choosing(method: Assembled, config: Config, task: Task, rates: Rates) -> float:
    """Candidates predict held-out images; members look at these, and at training images."""
    cycle, per_chain = method.weights.cycle(config.train.epochs, 1), method.weights.members_per_chain
    samples = sum(map(cycle.collects_after, range(config.train.epochs)))
    made = 1 if method.row.per_chain == "one" else per_chain
    tried = made if samples == per_chain else samples + made  # means are made of samples
    candidates = tried * chains_for(method, config.ensemble)
    held_out, seen = len(task.held_out), min(LOOKED_AT, len(task.train))
    predicted = _rounds(candidates, rates) * held_out * rates.predict
    judged = held_out if task.apart is None else len(task.apart)
    return predicted + _rounds(_members(method, config), rates) * (judged + seen) * rates.look


def _sets_left(config: Config, task: Task, run: Run) -> dict[str, int]:
    """How many evaluation sets each method has to be measured on."""
    test = task.measured_on(config.evaluate.part).test
    total = cell_count(test, config.evaluate) + len(config.evaluate.outsiders)
    done = {name: len(list(run.path.glob(run.cell_file(name, "*")))) for name in config.methods}
    return {name: max(0, total - done[name]) for name in config.methods}


def _evaluating(sets: Mapping[str, int], config: Config, task: Task, rates: Rates) -> float:
    if not any(sets.values()):
        return 0.0
    images, most = len(task.measured_on(config.evaluate.part).test), max(sets.values())
    distinct: dict[tuple[str, str], int] = {}  # drnas is a member of deep-ensemble
    for method in map(config.method, config.methods):
        kind = (method.origin, method.row.weights)
        distinct[kind] = max(distinct.get(kind, 0), _members(method, config))
    seen, facts = 1, (task.dataset.flip, task.dataset.padding)
    seen += sum(at_test_time.passes(way, *facts) for way in config.evaluate.test_time)
    predicted = most * images * seen * _rounds(sum(distinct.values()), rates) * rates.predict
    shifted = rates.shifts * images * len(config.evaluate.severities) if most > 1 else 0.0
    references = len(task.references) if config.evaluate.references else 0
    measured = sum(left * rates.cell(_members(config.method(name), config)) for name, left in sets.items())
    measured += references * most * rates.cell(1)
    return predicted + shifted + measured + (rates.references if references else 0.0)


def _rounds(members: int, rates: Rates) -> int:
    return -(-members // rates.lanes)


@dataclass
class Course:
    """How a stage has gone so far."""

    begun: float  # by the clock
    first: float  # what was done then
    done: float
    total: float

    @property
    def part(self) -> float:
        """Done since it began, of what there was to do then."""
        return (self.done - self.first) / (self.total - self.first) if self.total > self.first else 1.0


class Countdown:
    """Progress with the time left of the whole run, a few times a second; under a budget, how much of it may be used.

    A stage takes as long as it has taken so far suggests, and the forecast a little. Stages to come take as long
    as forecast, times how much longer everything has taken than that until now.
    """

    def __init__(self, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self.progress, self.clock = progress, clock
        self.forecast: Forecast | None = None
        self.end: float | None = None  # of the time that may be used
        self.begun = clock()
        self.stages: dict[str, Course] = {}
        self.found: dict[str, str] = {}  # stage → what it has come to, where there is something to tell
        self.heed: Callable[[], None] = _nothing  # asked at every word; raises where the work is to be left
        self._told = -PAUSE

    def expect(self, forecast: Forecast, end: float | None = None) -> None:
        """From now on this is what should come; and it should be over at this time of the clock."""
        self.forecast, self.end, self.begun = forecast, end, self.clock()

    def __call__(self, stage: str, done: float, total: float) -> None:
        self.heed()
        now = self.clock()
        news = stage not in self.stages or done >= total
        course = self.stages.setdefault(stage, Course(now, done, done, total))
        course.done, course.total = done, total
        if news or now - self._told >= PAUSE:
            self._told = now
            told = (self.found[stage],) if stage in self.found else ()
            self.progress(stage, done, total, self.left(stage), *told)

    def left(self, stage: str) -> float | None:
        """Seconds until all is over."""
        if self.forecast is None:
            return None
        course, expected = self.stages[stage], self.forecast.seconds.get(stage, 0.0) * self.pace
        taken = self.clock() - course.begun
        own = (taken + TRUST * expected) / (course.part + TRUST) * (1 - course.part)
        return own + self.after(stage)

    def after(self, stage: str) -> float:
        """Seconds for the stages after this one, at the pace so far."""
        names = list(STAGES)
        later = names[names.index(stage) + 1 :]
        return self.pace * sum(self.forecast.seconds.get(one, 0.0) for one in later) if self.forecast else 0.0

    @property
    def pace(self) -> float:
        """How much longer everything takes than forecast."""
        if self.forecast is None or not self.forecast.total:
            return 1.0
        seconds = self.forecast.seconds
        expected = sum(course.part * seconds.get(stage, 0.0) for stage, course in self.stages.items())
        prior = TRUST * self.forecast.total
        return (self.clock() - self.begun + prior) / (expected + prior)

    def is_slow(self, stage: str) -> bool:
        """Whether, under a budget, a stage takes more than twice as long as it should."""
        if self.end is None or self.forecast is None:
            return False
        return self.clock() - self.stages[stage].begun > 2 * self.forecast.seconds.get(stage, 0.0)

    def room(self, stage: str) -> float:
        """Seconds that this stage may still take, if those after it are to be over in time."""
        return float("inf") if self.end is None else self.end - self.clock() - self.after(stage)


def _nothing() -> None:
    """Nobody asks for the work to be left."""
