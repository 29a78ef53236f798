"""How fast a run will be here: a few steps of its own networks on its own batches, timed.

Draws are keyed, so nothing of the run changes by what is tried here.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import torch

from uraenas import shifts
from uraenas.architectures import Dirichlet, Searched
from uraenas.data import LabelledImages
from uraenas.engine import Engine, naming_want_of_memory
from uraenas.ensemble import Kind, Member, MembersPredictor, Origin
from uraenas.evaluation import EvaluationSet, Evaluator, Judged, References, evaluation_sets
from uraenas.evaluation.references import MOST_IMAGES, drawn_from
from uraenas.learning.chains import ChainSpec, ChainState, chains_for, initial_chain, mover, plan_chains
from uraenas.learning.loops import LOOPS, LoopParts
from uraenas.learning.search import Search
from uraenas.learning.train import StackOfChains, Training
from uraenas.run.config import Config
from uraenas.run.task import Task
from uraenas.spaces import Architecture, Together, as_it_is
from uraenas.weights import WeightMethod

PATIENCE = 0.2  # seconds for each rate, unless its first step takes longer
SHORT = 1.5  # seconds for all steps, at the speed of the first, the slowest: not worth a second look
MOST_SHARE = 0.03  # of the time that all steps take, for trying some
MOST_STEPS, FEW_LAPS = 20, 3  # few where one lap is work enough, such as some hundred images
ROUNDS = 3  # where cores are busy, several wait for each other less often than one
LOOKED_AT, SHIFTED, FITTED = 200, 20, 300  # images
LOOKED_AT_ON_A_GPU = 2000  # where some hundred take as long as a few


class Rates:
    """Seconds for parts of a run, each measured when it is first asked for. `lanes` chains run side by side."""

    def __init__(
        self,
        config: Config,
        task: Task,
        engine: Engine,
        searched: Searched | None = None,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.config, self.task, self.engine, self.searched = config, task, engine, searched
        self.patience, self.clock = patience, clock
        chains = max(chains_for(config.method(name), config.ensemble) for name in config.methods)
        self.most = min(engine.stack, max(2, chains))
        self.lanes = min(engine.workers.count, self.most) if engine.workers else self.most
        self.rounds = max(1, min(ROUNDS, self.most // self.lanes))  # one after another, in what is measured
        # By source, by kind of weights where it changes the step, and by size: to make one, and an epoch of it.
        self._stacks: dict[tuple[str, str, int], tuple[float, float]] = {}

    @cached_property
    def search_epoch(self) -> float:
        """An epoch of a search, or of a query."""
        parts = self.config.search
        if parts is None:
            return 0.0
        unit = self._time_search(parts)
        self._release_memory()
        return unit / parts.settings.unit_epochs

    def _time_search(self, parts: LoopParts) -> float:
        own = self.task.for_search(parts.settings.validation, self.engine)
        moving, steps, units = LOOPS[parts.distribution.loop].begin(parts, own, None, None).trial()
        step, of_all = _any_step(moving), moving.pace.cycle.steps
        made = self._made_fast(step, of_all)
        return steps * self._timed(step, of_all) + made / units

    def abreast(self, spec: ChainSpec) -> int:
        """How many such chains move at once: as many as there are lanes, or all where they are one batch."""
        weights = spec.weights
        own = weights.forward is not None or weights.changes.layout is not as_it_is
        return self.lanes if own or not isinstance(self.task.space, Together) else self.most

    def chain_start(self, spec: ChainSpec, count: int) -> float:
        """To make a stack of so many such chains, at most as many as move at once."""
        return self._of_so_many(spec, count)[0]

    def chain_epoch(self, spec: ChainSpec, count: int) -> float:
        """An epoch of such a stack."""
        return self._of_so_many(spec, count)[1]

    def _of_so_many(self, spec: ChainSpec, count: int) -> tuple[float, float]:
        """On a GPU the largest stack and a small one are timed, and others lie on the line between them."""
        if self.engine.workers is not None:
            return self._stack(spec, max(self.abreast(spec), self.rounds * self.lanes))
        while True:
            try:
                with naming_want_of_memory():
                    return self._on_the_line(spec, count)
            except torch.OutOfMemoryError as error:
                self.most = self.lanes = self.engine.smaller_stack(self.abreast(spec), error)
            self._release_memory()

    def _on_the_line(self, spec: ChainSpec, count: int) -> tuple[float, float]:
        most = self.abreast(spec)
        small = min(2, most)
        most_made, most_epoch = self._stack(spec, most)  # first: the first one pays for what happens once
        if small == most:
            return most_made, most_epoch
        made, epoch = self._stack(spec, small)
        part = (min(count, most) - small) / (most - small)
        return max(0.0, made + part * (most_made - made)), max(0.0, epoch + part * (most_epoch - epoch))

    def _stack(self, spec: ChainSpec, size: int) -> tuple[float, float]:
        weights = spec.weights
        plain = weights.forward is None and weights.objective is None
        key = (spec.source, "" if plain else weights.trajectory, size)
        if key not in self._stacks:
            made, epoch = self._time_stack(spec, size)
            rounds = max(1, size / self.abreast(spec))
            self._stacks[key] = made / rounds, epoch / rounds
            self._release_memory()
        return self._stacks[key]

    def _time_stack(self, spec: ChainSpec, size: int) -> tuple[float, float]:
        """Seconds to make a stack, and of an epoch."""
        config, task = self.config, self.task
        begun = self.clock()
        loader = task.loader(task.train, config.train.batch, self.engine)
        training = Training(config.train, task.space, loader, self.engine, config.seed)
        stack = StackOfChains(self._chains(spec.source, spec.weights, size), training)
        made = self.clock() - begun
        step, steps = _any_step(stack), config.train.epochs * loader.steps
        made += self._made_fast(step, steps)
        return made, loader.steps * self._timed(step, steps) + self._augmenting

    def _release_memory(self) -> None:
        """What was timed refers to itself, and would hold a GPU's memory."""
        if self.engine.device.type == "cuda":
            self.engine.release_memory()

    @cached_property
    def _augmenting(self) -> float:
        """All training images, once: on a CPU a few, and in proportion."""
        config, train = self.config, self.task.train
        if not any(augmentation.changes for augmentation in config.augmentations):
            return 0.0
        few = min(len(train), LOOKED_AT) if self.engine.device.type == "cpu" else len(train)
        some = train.take(np.arange(few))
        loader = self.task.loader(some, config.train.batch, self.engine, config.augmentations)
        return self._timed(lambda step: loader.augment(config.seed, step), 1) * len(train) / few

    def _chains(self, source: str, weights: WeightMethod, size: int) -> list[ChainState]:
        """Some to measure; where nothing is searched yet, others stand in for their architectures."""
        config, space = self.config, self.task.space
        method = next(one for one in map(config.method, config.methods) if one.origin == source)
        if method.source.start:
            found = [start.architecture for start in self.task.starts]
        elif self.searched is not None or not method.source.needs_search:
            specs, _ = plan_chains(method, config.ensemble, space, self.searched, config.seed)
            found = [spec.architecture for spec in specs]
        else:  # searches prefer what costs most, and seldom leave an edge out
            many, _ = Searched.nothing(space, Dirichlet()).draw(4 * size, config.seed, draw_absent=False)
            found = sorted(many, key=lambda one: space.cost(one).multiply_adds)[-size:]
        some: list[Architecture] = [found[n % len(found)] for n in range(size)]
        specs = [ChainSpec(source, weights, n, one) for n, one in enumerate(some)]
        return [initial_chain(spec, space, config.seed) for spec in specs]

    # Members and evaluation

    @cached_property
    def predict(self) -> float:
        """One image, by as many members as there are lanes."""
        images = self._looked_at
        return self._timed(lambda step: self._members(images), 1) / len(images) / self.rounds

    @cached_property
    def look(self) -> float:
        """The same, when members also say what they see."""
        images = self._looked_at
        return self._timed(lambda step: self._members.look(images), 1) / len(images) / self.rounds

    @property
    def _looked_at(self) -> np.ndarray:
        """Held-out images; on a GPU, if there are few, again and again."""
        images = self.task.held_out.images
        if self.engine.device.type == "cpu":
            return images[:LOOKED_AT]
        return images[np.arange(LOOKED_AT_ON_A_GPU) % len(images)]

    @cached_property
    def _members(self) -> MembersPredictor:
        first = self.config.method(self.config.methods[0])
        weights = mover(first.weights)
        kind, members = Kind.of(weights.trajectory, weights), []
        for chain in self._chains(first.origin, weights, self.rounds * self.lanes):
            tensors, origin = chain.tensors, Origin(chain.spec.name, 0, 0, 0)
            facts = (tensors["weights"], tensors["statistics"], origin, kind)
            members.append(Member(chain.spec.architecture, *facts))
        return MembersPredictor(members, self.task.space, self.task.normalisation, self.engine)

    def cell(self, members: int) -> float:
        """To measure an ensemble on one set of test images, once they are predicted: the more members, the longer."""
        one, most = self._cells
        return one + (most - one) * (members - 1) / max(1, self.config.ensemble.members - 1)

    @cached_property
    def _cells(self) -> tuple[float, float]:
        """With one member, and with as many as are asked for."""
        config, test = self.config, self.task.measured_on(self.config.evaluate.part).test
        evaluator = Evaluator(config.evaluate, config.seed, self.engine.device, self.task.measures)
        where = EvaluationSet("", "none", 0, test)

        def seconds(members: int) -> float:
            zeros = torch.zeros(members, len(test), self.task.space.shape.classes)
            log_p = self.task.normalisation.target.prediction(zeros)
            judged = Judged(log_p, ["one"] * members, [str(m) for m in range(members)], 1.0)
            return self._timed(lambda step: evaluator.cell(where, {"": judged}), 1)

        return seconds(1), seconds(config.ensemble.members)

    @cached_property
    def shifts(self) -> float:
        """To make one image under every shift of the suite."""
        settings = self.config.evaluate
        test = self.task.measured_on(settings.part).test
        if settings.suite not in shifts.SUITES:
            return 0.0
        some: LabelledImages = test.take(np.arange(min(SHIFTED, len(test))))
        middle = settings.severities[len(settings.severities) // 2]
        chosen = replace(settings, severities=(middle,))
        begun = self.clock()
        for _ in evaluation_sets("", some, chosen):
            pass
        return (self.clock() - begun) / len(some)

    @cached_property
    def references(self) -> float:
        """To fit the references: to a few images, and in proportion."""
        config, task = self.config, self.task
        if not (config.evaluate.references and task.references):
            return 0.0
        most, target = min(len(task.train), MOST_IMAGES), task.normalisation.target
        some = drawn_from(task.train, target, min(1.0, FITTED / len(task.train)), 0)
        return self._lap(lambda: References(some, task.disjoint[1], target, config.seed)) * most / len(some)

    def _timed(self, step: Callable[[int], object], steps: int) -> float:
        """The mean over steps from all of so many, for those that explore and those that sample differ."""
        if steps == 1 and self.engine.calls_to_capture:
            self._lap(partial(step, 0))  # compiles kernels; nothing is captured
        first = self._lap(partial(step, 0))
        if first > 10 * self.patience or (steps > 1 and first * steps < SHORT):
            return first
        if steps > 1:
            self._lap(partial(step, steps - 1))
        took: list[float] = []
        most = MOST_STEPS if steps > 1 else FEW_LAPS
        patience = min(self.patience, MOST_SHARE * steps * first) if steps > 1 else self.patience
        while len(took) < most and sum(took) <= patience:
            position = (len(took) * 7 + 3) % MOST_STEPS  # 7 has no divisor in common with it: each once
            took.append(self._lap(partial(step, position * steps // MOST_STEPS)))
        return sum(took) / len(took)

    def _made_fast(self, step: Callable[[int], object], steps: int) -> float:
        """On a GPU, kernels are compiled and steps captured before they are timed.

        The seconds that this takes where kernels are compiled: what each stack of the run will take.
        """
        seconds, more = 0.0, self.engine.calls_to_capture - 1
        if more > 0:
            for number in {0, steps - 1}:
                self._lap(partial(step, number))  # compiles
                seconds += sum(self._lap(partial(step, number)) for _ in range(more))
        return seconds

    def _lap(self, work: Callable[[], object]) -> float:
        begun = self.clock()
        work()
        if self.engine.device.type == "cuda":
            torch.cuda.synchronize()
        return self.clock() - begun


def _any_step(moving: Search | StackOfChains) -> Callable[[int], None]:
    """A step of this number, whichever was before."""

    def step(number: int) -> None:
        moving.step.fill_(number)
        moving.one_step(number)

    return step
