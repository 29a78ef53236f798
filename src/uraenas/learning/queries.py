"""Learn a distribution over architectures from queries: short trainings of networks that it asks for.

A round is as many as the distribution asks for at a time. They are chains like those of any method, trained side by
side on the search's training half, and their accuracy on the validation half is what the distribution is told. What it
asks for is a function of what it was told in the rounds before, and a query's chain one of its number, so a search that
is cut off in the middle of a round goes on with the same bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from uraenas.architectures import Queried, Searched, queried
from uraenas.base import draws
from uraenas.base.errors import UraenasError, require_range
from uraenas.base.parts import Part
from uraenas.data import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine
from uraenas.ensemble import Member, MembersPredictor
from uraenas.learning.chains import ChainSpec, ChainState, TrainSettings, initial_chain
from uraenas.learning.search import SearchState
from uraenas.learning.train import StackOfChains, train
from uraenas.spaces import Architecture, Space, option_counts
from uraenas.weights import Point, WeightMethod

QUERY_WEIGHTS: dict[str, Part[Any]] = {"point": Part(Point)}


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

    def check(self, weights: WeightMethod) -> None:
        weights.check(self.query_epochs)


@dataclass(frozen=True)
class QueryParts:
    """A search by queries with its parts, made from a run's settings."""

    settings: QuerySettings
    distribution: Queried
    weights: WeightMethod


class QuerySearch:
    """The search in motion: each call of `advance` trains one stack of queries, at most the rest of a round."""

    def __init__(
        self,
        parts: QueryParts,
        space: Space,
        train: Loader,
        validation: LabelledImages,
        normalisation: Normalisation,
        engine: Engine,
        seed: int,
        state: SearchState | None = None,
    ) -> None:
        self.settings, self.distribution, self.method = parts.settings, parts.distribution, parts.weights
        self.space, self.train, self.validation = space, train, validation
        self.normalisation, self.engine, self.seed = normalisation, engine, seed
        settings = parts.settings
        self.training = TrainSettings(settings.query_epochs, settings.batch, settings.prior_deviation)
        fresh = self.distribution.initial(option_counts(space), draws.key(seed, "search", "queries"))
        self.state = fresh if state is None else dict(state.distribution)
        self.history = [] if state is None else list(state.history)
        self.key = draws.key(seed, "search", "queries")
        self.images = 0  # trained on so far, by this process

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
        each = self.settings.query_epochs * self.train.steps
        return self.epoch * each, self.settings.queries * each

    def snapshot(self) -> SearchState:
        return SearchState(self.epoch, {}, dict(self.state), list(self.history))

    def found(self) -> Searched:
        """What has been learned so far."""
        return Searched(self.space, self.distribution, dict(self.state), tuple(self.history))

    def advance(self, tick: Callable[[int, int], None] = lambda done, total: None) -> dict[str, Any]:
        """Answer one stack of queries; returns the last row of the history, which has one for every round."""
        wanted = self._wanted()
        here = wanted[: self.engine.stack]
        values = self._answers([self.space.architecture(options) for options in here], tick)
        self.state = queried.told(self.state, here, values)
        if len(here) == len(wanted):
            self.history.append(self._row())
        return self.history[-1] if self.history else {}

    def trial(self) -> tuple[StackOfChains, float]:
        """A stack whose steps can be timed, and how many of them a query takes."""
        count = min(self.engine.stack, self.distribution.together)
        found, _ = Searched.nothing(self.space, self.distribution).draw(count, self.seed)
        chains = [initial_chain(spec, self.space, self.seed) for spec in self._specs(found)]
        stack = StackOfChains(chains, self.training, self.space, self.train, self.engine, self.seed)
        return stack, self.settings.query_epochs * self.train.steps / count

    def _wanted(self) -> list[tuple[int, ...]]:
        """What is left of the round that has begun."""
        together = self.distribution.together
        begun = self.epoch // together * together
        count = min(together, self.settings.queries - begun)
        state = queried.first(self.state, begun)
        asked = self.distribution.propose(state, count, draws.at(self.key, begun), self._is_valid)
        return asked[self.epoch - begun :]

    def _is_valid(self, options: Any) -> bool:
        return self.space.is_valid(self.space.architecture(options))

    def _specs(self, architectures: list[Architecture]) -> list[ChainSpec]:
        first = self.epoch
        return [ChainSpec("query", self.method, first + n, one) for n, one in enumerate(architectures)]

    def _answers(self, architectures: list[Architecture], tick: Callable[[int, int], None]) -> list[float]:
        """Accuracies on validation images; 0 of one that cannot be trained."""
        specs = self._specs(architectures)
        newest: dict[str, Member] = {}
        before, total = self.steps
        epochs = {spec.name: 0 for spec in specs}

        def told(more: int) -> None:
            tick(before + sum(epochs.values()) * self.train.steps + more, total)

        def checkpoint(states: list[ChainState]) -> None:
            epochs.update({state.spec.name: state.epoch for state in states})
            self.images += len(states) * self.train.steps * self.train.batch

        def collect(member: Member) -> None:
            newest[member.origin.chain] = member

        chains = [initial_chain(spec, self.space, self.seed) for spec in specs]
        facts = (self.training, self.space, self.train, self.engine, self.seed)
        train(chains, *facts, collect, checkpoint, told)
        accuracies = self._accuracies(list(newest.values()))
        by_name = dict(zip(newest, accuracies, strict=True))
        return [by_name.get(spec.name, 0.0) for spec in specs]

    def _accuracies(self, members: list[Member]) -> list[float]:
        if not members:
            return []
        predict = MembersPredictor(members, self.space, self.normalisation, self.engine)
        found = predict(self.validation.images)
        self.engine.release_memory()
        judged = (found, self.validation.labels, self.validation.weights)
        return self.normalisation.target.scores(*judged)

    def _row(self) -> dict[str, Any]:
        found = self.found()
        together = self.distribution.together
        values = self.state["values"][(len(self.state["values"]) - 1) // together * together :]
        return {
            "epoch": len(self.history),
            "accuracy": float(values.mean()),
            "deviation": float(values.std(correction=0)),
            **self.distribution.facts(found.state),
            "genotype": str(found.expected),
            self.distribution.numbers: torch.as_tensor(found.favour).tolist(),
        }
