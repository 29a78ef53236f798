"""Learn a distribution over architectures from queries: short trainings of networks that it asks for.

A round is as many as the distribution asks for at a time. They are chains like those of any method, trained side by
side on the search's training half, and their accuracy on the validation half is what the distribution is told. What it
asks for is a function of what it was told in the rounds before, and a query's chain one of its number, so a search that
is cut off in the middle of a round goes on with the same bits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import torch

from uraenas.architectures import Queried, Searched, factors, queried
from uraenas.base import draws
from uraenas.base.errors import UraenasError, require_range
from uraenas.base.parts import Part
from uraenas.ensemble import Member, MembersPredictor
from uraenas.learning.chains import ChainSpec, ChainState, TrainSettings, initial_chain
from uraenas.learning.recipes import Recipe, recipe_of
from uraenas.learning.search import SearchState, SearchTask
from uraenas.learning.train import StackOfChains, Training, train
from uraenas.spaces import Architecture, option_counts
from uraenas.weights import WEIGHTS, WeightMethod

QUERY_WEIGHTS: dict[str, Part[Any]] = {name: WEIGHTS[name] for name in ("point", "adam")}


@dataclass(frozen=True)
class QuerySettings:
    """How architectures are asked for. Defaults: the benchmark's recipe, for 12 epochs."""

    queries: int = 100
    query_epochs: int = 12  # of the training of each
    batch: int = 256  # at most: small sets get smaller ones, so that an epoch has eight steps
    distribution: str = "evolution"  # what is learned
    weights: str = "point"
    prior_deviation: float = 0.2  # of the weights' Gaussian prior
    validation: float = 0.5  # of the training images, the part that accuracies are measured on

    epochs_name: ClassVar[str] = "query_epochs"
    unit: ClassVar[str] = "queries"

    def __post_init__(self) -> None:
        if not 0 < self.validation < 1:
            raise UraenasError(f"validation = {self.validation} is not allowed; allowed: above 0, below 1")
        require_range("queries", self.queries, 1, 100_000)
        require_range("query_epochs", self.query_epochs, 1, 100_000)
        require_range("batch", self.batch, 2, 1_000_000)
        require_range("prior_deviation", self.prior_deviation, 1e-6, 1e6)

    @property
    def units(self) -> int:
        return self.queries

    @property
    def unit_epochs(self) -> int:
        return self.query_epochs

    def check(self, weights: WeightMethod) -> None:
        weights.check(self.query_epochs)


@dataclass(frozen=True)
class QueryParts:
    """A search by queries with its parts, made from a run's settings."""

    settings: QuerySettings
    distribution: Queried
    weights: WeightMethod

    def notes(self) -> list[str]:
        """What is not learned, since so few queries are all drawn at random."""
        own, name, queries = self.distribution, self.settings.distribution, self.settings.queries
        found = []
        for setting, what in own.at_random.items():
            first = -(-getattr(own, setting) // own.together) * own.together
            if queries <= first:
                found.append(
                    f"search.queries = {queries} is too few for {name}: the {what} of its first {first} are drawn at "
                    f"random (search.{name}.{setting}), so none is chosen by what was learned; take more than {first}"
                )
        return found


class Query(NamedTuple):
    """What is asked for: how well does this architecture do, trained by this recipe?"""

    architecture: Architecture
    recipe: Recipe = Recipe()


Queries = Mapping[int, Query]  # by their numbers


class Answers(Protocol):
    """Who trains what is asked for, and says how good it is."""

    images: int  # trained on so far

    @property
    def at_once(self) -> int:
        """How many queries are trained side by side."""

    def __call__(self, queries: Queries, tick: Callable[[int], None]) -> list[float]:
        """Scores on validation images; `tick` hears how many steps are made."""


class QuerySearch:
    """The search in motion: each call of `advance` trains as many queries as go at once, at most the rest of a round.

    They are trained here, or `elsewhere`.
    """

    def __init__(
        self, here: "Trainings", state: SearchState | None, elsewhere: "Elsewhere | None" = None
    ) -> None:
        self.here = here
        self.settings, self.distribution = here.parts.settings, here.parts.distribution
        self.space, self.seed = here.task.space, here.task.seed
        self.answers: Answers = elsewhere(here) if elsewhere else here
        self.key = draws.key(self.seed, "search", "queries")
        fresh = self.distribution.initial(option_counts(self.space), self.key)
        self.state = fresh if state is None else dict(state.distribution)
        self.history = [] if state is None else list(state.history)

    @property
    def images(self) -> int:
        """Trained on so far."""
        return self.answers.images

    @property
    def epoch(self) -> int:
        """How many queries are answered."""
        return len(self.state["values"])

    @property
    def done(self) -> bool:
        return self.epoch >= self.settings.queries

    @property
    def steps(self) -> tuple[int, int]:
        """Made, and in all."""
        return self.epoch * self.here.steps, self.settings.queries * self.here.steps

    def snapshot(self) -> SearchState:
        return SearchState(self.epoch, {}, dict(self.state), list(self.history))

    def found(self) -> Searched:
        """What has been learned so far."""
        return Searched(self.space, self.distribution, dict(self.state), tuple(self.history))

    def advance(self, tick: Callable[[int, int], None] = lambda done, total: None) -> dict[str, Any]:
        """Have some queries answered; returns the last row of the history, which has one for every round."""
        wanted = self._wanted()
        now = wanted[: self.answers.at_once]
        asked, recipes = zip(*now, strict=True)
        queries = {
            self.epoch + n: Query(self.space.architecture(options), recipe_of(recipe))
            for n, (options, recipe) in enumerate(now)
        }
        before, total = self.steps
        values = self.answers(queries, lambda done: tick(before + done, total))
        self.state = queried.told(self.state, asked, values, recipes)
        if len(now) == len(wanted):
            self.history.append(self._row())
        return self.history[-1] if self.history else {}

    def trial(self) -> tuple[StackOfChains, float, int]:
        """A stack whose steps can be timed, how many of them a query takes, and for how many queries it is made."""
        count = min(self.here.at_once, self.distribution.together)
        found, _ = Searched.nothing(self.space, self.distribution).draw(count, self.seed)
        chains = self.here.chains({number: Query(one) for number, one in enumerate(found)})
        return StackOfChains(chains, self.here.training), self.here.steps / count, count

    def _wanted(self) -> list[tuple[queried.Options, factors.Factors]]:
        """What is left of the round that has begun: architectures, each with a recipe."""
        together = self.distribution.together
        begun = self.epoch // together * together
        count = min(together, self.settings.queries - begun)
        state = queried.first(self.state, begun)
        asked = self.distribution.propose(state, count, draws.at(self.key, begun), self._is_valid)
        recipes = [factors.PLAIN] * count
        if self.distribution.recipes is not None:
            key = draws.key(self.seed, "search", "recipes")
            recipes = self.distribution.recipes(state, count, draws.at(key, begun))
        return list(zip(asked, recipes, strict=True))[self.epoch - begun :]

    def _is_valid(self, options: Any) -> bool:
        return self.space.is_valid(self.space.architecture(options))

    def _row(self) -> dict[str, Any]:
        found = self.found()
        together = self.distribution.together
        values = self.state["values"][(len(self.state["values"]) - 1) // together * together :]
        return {
            "epoch": len(self.history),
            self.settings.unit: self.epoch,
            "accuracy": float(values.mean()),
            "deviation": float(values.std(correction=0)),
            **self.distribution.facts(found.state),
            "genotype": str(found.expected),
            self.distribution.numbers: torch.as_tensor(found.favour).tolist(),
        }


class Trainings:
    """Queries that are answered here, side by side."""

    def __init__(self, parts: QueryParts, task: SearchTask) -> None:
        self.parts, self.task = parts, task
        self.method, settings = parts.weights, parts.settings
        self.loader = task.load(task.train, settings.batch)
        chosen = TrainSettings(settings.query_epochs, settings.batch, settings.prior_deviation)
        self.training = Training(chosen, task.space, self.loader, task.engine, task.seed)
        self.images = 0

    @property
    def at_once(self) -> int:
        return self.task.engine.stack

    @property
    def steps(self) -> int:
        """Of one query."""
        return self.parts.settings.query_epochs * self.loader.steps

    def specs(self, queries: Queries) -> list[ChainSpec]:
        return [
            ChainSpec("query", self.method, number, one.architecture, recipe=one.recipe)
            for number, one in queries.items()
        ]

    def chains(self, queries: Queries) -> list[ChainState]:
        return [initial_chain(spec, self.task.space, self.task.seed) for spec in self.specs(queries)]

    def __call__(self, queries: Queries, tick: Callable[[int], None]) -> list[float]:
        """Accuracies on validation images; 0 of one that cannot be trained."""
        chains = self.chains(queries)
        newest: dict[str, Member] = {}
        epochs = {chain.spec.name: 0 for chain in chains}

        def told(more: int) -> None:
            tick(sum(epochs.values()) * self.loader.steps + more)

        def checkpoint(states: list[ChainState]) -> None:
            epochs.update({state.spec.name: state.epoch for state in states})
            self.images += len(states) * self.loader.steps * self.loader.batch

        def collect(member: Member) -> None:
            newest[member.origin.chain] = member

        train(chains, self.training, collect, checkpoint, told)
        accuracies = self._accuracies(list(newest.values()))
        by_name = dict(zip(newest, accuracies, strict=True))
        return [by_name.get(name, 0.0) for name in epochs]

    def _accuracies(self, members: list[Member]) -> list[float]:
        if not members:
            return []
        task, judges = self.task, self.task.validation
        found = MembersPredictor(members, task.space, task.normalisation, task.engine)(judges.images)
        task.engine.release_memory()
        return task.normalisation.target.scores(found, judges.labels, judges.weights)


Elsewhere = Callable[[Trainings], Answers]  # who trains in place of this process
