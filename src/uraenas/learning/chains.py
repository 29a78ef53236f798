"""A weight chain: which ones a method asks for, and the state it goes on from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from uraenas.architectures import Searched
from uraenas.base import draws
from uraenas.base.errors import UraenasError, require_range, unknown
from uraenas.base.files import digest_of
from uraenas.base.parts import row_of, values_of
from uraenas.ensemble import EnsembleSettings
from uraenas.learning.methods import Assembled
from uraenas.learning.recipes import Recipe
from uraenas.spaces import Architecture, Space, carried_over
from uraenas.weights import WEIGHTS, Cycle, WeightMethod, prior_decay

RESTARTS = 3  # of a chain that diverges, each with a smaller step
MOST_EPOCHS = 100_000
CLASS_WEIGHTS = ("none", "balanced")
SMALLER = 0.25  # the step size of a restart, relative to the one before


@dataclass(frozen=True)
class TrainSettings:
    """What all chains have in common. Defaults: the benchmark's recipe."""

    epochs: int = 200
    batch: int = 256  # at most: small sets get smaller ones, so that an epoch has eight steps
    prior_deviation: float = 0.2  # of the weights' Gaussian prior: weight decay 5e-4 at 50,000 images
    # `balanced`: in the loss every class counts as much, however many images it has.
    class_weights: str = "none"
    # of training images in each epoch, besides crops and flips: names, also with a strength (primitives:0.5)
    augmentation: tuple[str, ...] = ("none",)
    # A run, or one of the package, whose ensemble's predictions are learned in place of labels.
    teacher: str = ""
    teacher_method: str = ""  # which of its methods; empty: the one that is asked unless told
    # Each chain leaves out one of so many parts of the training set, in turn; 0: data.held_out is.
    folds: int = 0

    def __post_init__(self) -> None:
        require_range("epochs", self.epochs, 1, MOST_EPOCHS)
        require_range("batch", self.batch, 2, 1_000_000)
        require_range("prior_deviation", self.prior_deviation, 1e-6, 1e6)
        if self.folds:
            require_range("folds", self.folds, 2, 1000)
        if not self.augmentation or len(set(self.augmentation)) < len(self.augmentation):
            raise UraenasError(f"augmentation = {','.join(self.augmentation)} names none, or one twice")
        if self.class_weights not in CLASS_WEIGHTS:
            raise unknown("class_weights", self.class_weights, CLASS_WEIGHTS)

    def decay(self, images: int) -> float:
        return prior_decay(self.prior_deviation, images)


def cycle_of(weights: WeightMethod, epochs: int, steps_per_epoch: int, restarts: int) -> Cycle:
    """Step sizes and stages of a chain after so many restarts."""
    cycle, smaller = weights.cycle(epochs, steps_per_epoch), SMALLER**restarts
    return replace(cycle, step_size=smaller * cycle.step_size, floor=smaller * cycle.floor)


def epochs_for(methods: Sequence[WeightMethod], least: int) -> int:
    """The fewest epochs, `least` or more, in which all cycles of these kinds can be whole."""
    for epochs in range(least, MOST_EPOCHS):
        try:
            for weights in methods:
                weights.check(epochs)
        except UraenasError:
            continue  # a cycle would not end, or there are too few for the samples
        return epochs
    return least


@dataclass(frozen=True, eq=False)
class Start:
    """A trained network that a chain starts from, made to fit the space."""

    architecture: Architecture
    weights: Tensor
    statistics: Tensor


@dataclass(frozen=True)
class ChainSpec:
    """One weight trajectory: which architecture, which kind of weights, which number.

    Methods that ask for the same chain share it: `drnas` is the first chain of `deep-ensemble`. Chains of one root have
    initial weights and batch order in common, hence all epochs in which their kinds move alike.
    """

    source: str
    weights: WeightMethod
    number: int
    architecture: Architecture
    start: Start | None = None  # where there is none, weights are drawn
    recipe: Recipe = field(default_factory=Recipe)

    @property
    def name(self) -> str:
        return f"{self.source}-{self.weights.trajectory}-{self.number:02d}"

    @property
    def root(self) -> str:
        return f"{self.source}-{self.number:02d}"

    def key(self, seed: int, purpose: str) -> int:
        # The kind of weights is left out: a sampled chain and its snapshot control differ in the noise alone.
        return draws.key(seed, "chain", self.source, self.number, purpose)

    def moves(self, epochs: int, until: int) -> str | None:
        """What its first epochs depend on besides its root; None if a sample is kept in them."""
        cycle = self.weights.cycle(epochs, 1)
        if any(cycle.collects_after(epoch) for epoch in range(until)):
            return None
        return digest_of(*(self.weights.moves(cycle, epoch) for epoch in range(until)))

    def explored(self, epochs: int) -> int:
        """How many first epochs move alike and keep no sample: others of the root may go on from there."""
        cycle = self.weights.cycle(epochs, 1)
        first = self.weights.moves(cycle, 0)
        until = 0
        while (
            until < epochs and not cycle.collects_after(until) and self.weights.moves(cycle, until) == first
        ):
            until += 1
        return until


def plan_chains(
    method: Assembled,
    settings: EnsembleSettings,
    space: Space,
    searched: Searched | None,
    seed: int,
    starts: Sequence[Start] = (),
) -> tuple[list[ChainSpec], int]:
    """The chains of a method, and how many draws were thrown away because they are no networks.

    Where there are networks to start from, these are the draws.
    """
    numbers = chain_numbers(method, settings)
    given: list[Start | None] = [None] * len(numbers)
    if starts and method.source.start:
        given = [starts[n % len(starts)] for n in numbers]
        architectures, redrawn = [one.architecture for one in given if one], 0
    else:
        architectures, redrawn = method.source.draw(space, searched, len(numbers), seed)
    key = draws.key(seed, "recipe", method.row.source)
    recipes = method.recipes.draw(dict(zip(numbers, architectures, strict=True)), key, searched)
    parts = zip(numbers, architectures, given, recipes, strict=True)
    weights = mover(method.weights)
    return [ChainSpec(method.origin, weights, *part) for part in parts], redrawn


def mover(weights: WeightMethod) -> WeightMethod:
    """The kind of weights whose chains these are: the same, or one that moves alike and gives other members."""
    row = row_of(WEIGHTS, "kind of weights", weights.trajectory)
    return row.make(values_of(weights, row.settings))


def chains_for(method: Assembled, settings: EnsembleSettings) -> int:
    """How many chains give this method its members."""
    row = method.row
    if row.single:
        return 1
    per_chain = min(row.most_per_chain, method.weights.members_per_chain)
    return _trained(method, math.ceil(settings.members / per_chain), settings)


def chain_numbers(method: Assembled, settings: EnsembleSettings) -> list[int]:
    """The numbers of these chains: a number stands for one architecture, however many chains a method has."""
    most = _trained(method, settings.members, settings)
    return method.source.numbers(chains_for(method, settings), most)


def _trained(method: Assembled, needed: int, settings: EnsembleSettings) -> int:
    """How many chains are trained, where `needed` give enough members: more, where members are chosen among them."""
    settings = settings.chosen_by(method.row.selection)
    if not settings.judges:
        return method.source.chains(needed, settings.members)
    return max(needed, settings.candidates or method.source.candidates or needed * method.row.candidates)


def in_turns(specs: Sequence[ChainSpec], epochs: int) -> tuple[list[ChainSpec], list[ChainSpec]]:
    """First chains that begin at their beginning; then those that go on from what one of them has explored."""
    leaders: dict[str, list[ChainSpec]] = {}
    early: list[ChainSpec] = []
    later: list[ChainSpec] = []
    for spec in specs:
        of_root = leaders.setdefault(spec.root, [])
        if any(shared_epochs(leader, spec, epochs) > 0 for leader in of_root):
            later.append(spec)
        else:
            of_root.append(spec)
            early.append(spec)
    return early, later


def shared_epochs(leader: ChainSpec, follower: ChainSpec, epochs: int) -> int:
    """How many first epochs two chains of one root have in common."""
    until = min(leader.explored(epochs), follower.explored(epochs))
    return until if until and leader.moves(epochs, until) == follower.moves(epochs, until) else 0


@dataclass(frozen=True)
class ChainState:
    """Everything one weight trajectory needs to go on after `epoch` epochs."""

    spec: ChainSpec
    epoch: int
    # weights, statistics, and what its kind keeps; none in a file of one that is over
    tensors: dict[str, Tensor]
    history: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""  # why the chain was frozen after this epoch, if it was
    restarts: int = 0

    def is_over(self, epochs: int) -> bool:
        """Whether nothing is left to do: all epochs are run, or the last restart has failed too."""
        return self.epoch >= epochs or (self.failure != "" and self.restarts == RESTARTS)

    def restarted(self) -> "ChainState":
        """The chain as it goes on: a frozen one from the same place, with a smaller step."""
        return replace(self, failure="", restarts=self.restarts + 1) if self.failure else self


def initial_chain(spec: ChainSpec, space: Space, seed: int) -> ChainState:
    """A chain at its start."""
    plain = space.weight_layout(spec.architecture)
    layout = spec.weights.changes.layout(plain)
    weights = layout.initial(spec.key(seed, "weights"))
    if spec.start is None:
        statistics = space.statistics_layout(spec.architecture).initial()
    else:
        weights, _ = carried_over(plain, spec.start.weights, layout, weights)
        statistics = spec.start.statistics.clone()
    state = {name: torch.zeros_like(weights) for name in spec.weights.state}
    return ChainState(spec, 0, {"weights": weights, **state, "statistics": statistics})
