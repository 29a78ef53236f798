"""A weight chain: how it is set, which ones a method asks for, and the state it goes on from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from uraenas import draws
from uraenas.architecture import ArchitectureDistribution, uniform
from uraenas.errors import UraenasError, naming_section, require_positive, require_range, unknown
from uraenas.inference import SAMPLERS, Cycle, WeightRule
from uraenas.methods import Architectures, Method, Weights
from uraenas.networks import Stack
from uraenas.selection import SELECTIONS
from uraenas.spaces import Genotype, Skeleton

CHAIN = ("weights", "velocity", "statistics")  # the tensors of a chain's state
RESTARTS = 3  # of a chain that diverges, each with a smaller step
MOST_EPOCHS = 100_000
SMALLER = 0.25  # the step size of a restart, relative to the one before


@dataclass(frozen=True)
class TrainSettings:
    """How members are trained. Defaults: the benchmark's recipe for point estimates, cyclical SGHMC for samples."""

    members: int = 10
    architectures: int = 10  # M_θ: of `uraenas`; as many as its members at most, unless they are selected
    architecture_temperature: float = 1.0  # T_θ: they are drawn from Dirichlet(β/T_θ)
    draw_none: bool = True  # whether an edge drawn from the search may be `none`, that is, left out
    genotype: str = ""  # takes the place of the expected architecture, which then need not be searched for
    epochs: int = 200
    batch: int = 256  # at most, as in the search
    prior_deviation: float = 0.2  # weight decay 5e-4 at 50,000 images
    step_size: float = 0.1  # of point estimates
    momentum: float = 0.9
    sampler: str = "sghmc"  # sgld has no momentum
    sampler_step_size: float = 0.1
    cycles: int = 4
    weight_samples: int = 12  # M_w: samples of one chain, an equal number from each cycle
    exploration: float = 0.8
    sampling_peak: float = 0.0  # above 0: one short cosine per sample, from this part of the step size
    average_samples: bool = False  # one member from each cycle, the mean of its samples' weights
    temperature: float = 1e-4
    selection: str = "in-turn"  # of members among candidates: in turn over chains, or greedy on held-out NLL

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise unknown("selection", self.selection, SELECTIONS)
        if self.sampler not in SAMPLERS:
            raise unknown("sampler", self.sampler, SAMPLERS)
        for name, least, most in (
            ("members", 1, 1000),
            ("architectures", 1, 1000),
            ("epochs", 1, MOST_EPOCHS),
            ("batch", 2, 1_000_000),
            ("cycles", 1, 100_000),
            ("architecture_temperature", 1e-3, 1e3),
        ):
            require_range(f"train.{name}", getattr(self, name), least, most)
        for name in ("step_size", "sampler_step_size"):
            require_positive(f"train.{name}", getattr(self, name))
        if self.genotype and not Genotype.from_string(self.genotype).connected:
            raise UraenasError(f"train.genotype {self.genotype} cuts the input off from the output")
        if self.weight_samples < self.cycles:
            raise UraenasError(
                f"train.weight_samples = {self.weight_samples} is out of range; each of the {self.cycles} cycles "
                "must give at least one sample"
            )
        with naming_section("train"):
            for weights in ("point", "sampled"):
                self.rule(weights, steps_per_epoch=1, images=1)  # its checks are ours

    def require_sampling_stage(self) -> None:
        """Refuse to keep weights as samples that are still exploring, as runs of the first versions could."""
        with naming_section("train"):
            self.rule("sampled", steps_per_epoch=1, images=1).cycle.require_sampling_stage()

    @property
    def members_per_chain(self) -> int:
        """How many members a sampled chain can give."""
        return self.cycles * (1 if self.average_samples else self.weight_samples // self.cycles)

    def rule(self, weights: str, steps_per_epoch: int, images: int, restarts: int = 0) -> WeightRule:
        """How the weights of a chain of this kind move, after so many restarts."""
        scale = SMALLER**restarts
        if weights == "point":
            cycle = Cycle(self.epochs, steps_per_epoch, scale * self.step_size)
            return WeightRule(cycle, images, self.prior_deviation, self.momentum, nesterov=True)
        per_cycle = self.weight_samples // self.cycles
        step_size = scale * self.sampler_step_size
        cycle = Cycle(
            self.epochs,
            steps_per_epoch,
            step_size,
            self.cycles,
            self.exploration,
            per_cycle,
            sampling_peak=self.sampling_peak,
        )
        momentum = 0.0 if self.sampler == "sgld" else self.momentum
        temperature = 0.0 if weights == "snapshot" else self.temperature
        return WeightRule(cycle, images, self.prior_deviation, momentum, temperature, nesterov=True)

    def epochs_alike(self, weights: str) -> int:
        """How many first epochs a chain of this kind has in common with the other kinds.

        All explore in equal steps then, and none has collected a sample yet.
        """
        steps_differ = self.cycles > 1 or self.sampler_step_size != self.step_size or self.sampler == "sgld"
        if weights == "point" and steps_differ:
            return 0
        cycle = self.rule("sampled", steps_per_epoch=1, images=1).cycle
        return min(cycle.explored, cycle.length - cycle.samples_per_cycle)

    def epochs_for(self, least: int) -> int:
        """The fewest epochs, `least` or more, in which all cycles can be whole."""
        first = -(-least // self.cycles) * self.cycles
        for epochs in range(first, MOST_EPOCHS, self.cycles):
            try:
                return replace(self, epochs=epochs).epochs
            except UraenasError:
                continue  # too few for the samples
        return first

    def needs_search(self, method: Method) -> bool:
        """Whether this method's architectures come from a search."""
        return method.architecture == "sampled" or (method.architecture == "expected" and not self.genotype)

    def chains_for(self, method: Method) -> int:
        """How many chains give this method its members."""
        if method.single:
            return 1
        if method.architecture == "sampled" and method.per_chain == "all":
            candidates = (
                self.architectures if self.selection == "greedy" else min(self.architectures, self.members)
            )
            return max(candidates, math.ceil(self.members / self.members_per_chain))
        return self.members if method.per_chain == "one" else math.ceil(self.members / self.members_per_chain)


@dataclass(frozen=True)
class ChainSpec:
    """One weight trajectory: which architecture, which kind of weights, which number.

    Methods that ask for the same chain share it: `drnas` is the first chain of `deep-ensemble`. Chains of one root have
    initial weights and batch order in common, hence all epochs in which their kinds move alike.
    """

    architecture: Architectures
    weights: Weights
    number: int
    genotype: Genotype

    @property
    def name(self) -> str:
        return f"{self.architecture}-{self.weights}-{self.number:02d}"

    @property
    def root(self) -> str:
        return f"{self.architecture}-{self.number:02d}"

    def key(self, seed: int, purpose: str) -> int:
        # The kind of weights is left out: a sampled chain and its snapshot control differ in the noise alone.
        return draws.key(seed, "chain", self.architecture, self.number, purpose)


def plan_chains(
    method: Method, settings: TrainSettings, distribution: ArchitectureDistribution | None, seed: int
) -> tuple[list[ChainSpec], int]:
    """The chains of a method, and how many disconnected architectures were drawn and thrown away."""
    count, redrawn = settings.chains_for(method), 0
    if method.architecture == "uniform":
        genotypes, redrawn = uniform().sample_genotypes(count, draws.key(seed, "uniform"))
    elif not settings.needs_search(method):
        genotypes = [Genotype.from_string(settings.genotype)] * count
    elif distribution is None:
        raise UraenasError("this method needs a search first")
    elif method.architecture == "sampled":
        tempered = distribution.tempered(settings.architecture_temperature)
        key = draws.key(seed, "sampled")
        genotypes, redrawn = tempered.sample_genotypes(count, key, settings.draw_none)
    else:
        genotypes = [distribution.expected_genotype()] * count
        if not genotypes[0].connected:
            raise UraenasError(
                f"the search's expected genotype {genotypes[0]} cuts the input off from the output; "
                "search longer or with another seed"
            )
    specs = [ChainSpec(method.architecture, method.weights, n, g) for n, g in enumerate(genotypes)]
    return specs, redrawn


def in_turns(specs: Sequence[ChainSpec], settings: TrainSettings) -> tuple[list[ChainSpec], list[ChainSpec]]:
    """First one chain of each root, and those that have nothing in common with it; then those that go on from there."""
    first: dict[str, ChainSpec] = {}
    early: list[ChainSpec] = []
    later: list[ChainSpec] = []
    for spec in specs:
        alike = settings.epochs_alike(spec.weights) > 0
        follows = alike and first.setdefault(spec.root, spec) is not spec
        (later if follows else early).append(spec)
    return early, later


@dataclass(frozen=True)
class ChainState:
    """Everything one weight trajectory needs to go on after `epoch` epochs."""

    spec: ChainSpec
    epoch: int
    tensors: dict[str, Tensor]  # those named in CHAIN; none in a file of a chain that is over
    history: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""  # why the chain was frozen after this epoch, if it was
    restarts: int = 0

    def is_over(self, epochs: int) -> bool:
        """Whether nothing is left to do: all epochs are run, or the last restart has failed too."""
        return self.epoch >= epochs or (self.failure != "" and self.restarts == RESTARTS)

    def restarted(self) -> "ChainState":
        """The chain as it goes on: a frozen one from the same place, with a smaller step."""
        return replace(self, failure="", restarts=self.restarts + 1) if self.failure else self


def initial_chain(spec: ChainSpec, skeleton: Skeleton, seed: int) -> ChainState:
    """A chain at its start."""
    stack = Stack([spec.genotype], skeleton)
    stack.initialise([spec.key(seed, "weights")])
    weights, statistics = stack.take(0)
    return ChainState(
        spec, 0, {"weights": weights, "velocity": torch.zeros_like(weights), "statistics": statistics}
    )
