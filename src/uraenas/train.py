"""Stage 2: draw architectures, run weight chains, collect members. One loop serves all methods."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from uraenas import draws
from uraenas.architecture import ArchitectureDistribution, uniform
from uraenas.data.loader import Loader
from uraenas.engine import Engine, naming_want_of_memory
from uraenas.ensemble import Member, Origin
from uraenas.errors import UraenasError, require_range, unknown
from uraenas.inference import SAMPLERS, Cycle, WeightRule
from uraenas.methods import Architectures, Method, Weights
from uraenas.networks import Stack
from uraenas.selection import SELECTIONS
from uraenas.spaces import Genotype, Skeleton

MOST_LOSS = 1e4  # in nats; a network that guesses at random among a million classes has 14
RESTARTS = 3  # of a chain that diverges, each from its last good state with a smaller step
CHAIN = ("weights", "velocity", "statistics")  # the tensors of a chain's state
SMALLER = 0.25  # the step size of a restart, relative to the one before


@dataclass(frozen=True)
class TrainSettings:
    """How members are trained. Defaults: the benchmark's recipe for point estimates, cyclical SGHMC for samples."""

    members: int = 10
    architectures: int = 10  # M_θ: architectures drawn for a method that samples them
    architecture_temperature: float = 1.0  # T_θ: they are drawn from Dirichlet(β/T_θ)
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
            ("epochs", 1, 100_000),
            ("batch", 2, 1_000_000),
            ("cycles", 1, 100_000),
            ("architecture_temperature", 1e-3, 1e3),
        ):
            require_range(f"train.{name}", getattr(self, name), least, most)
        for name in ("step_size", "sampler_step_size"):
            if getattr(self, name) <= 0:
                raise UraenasError(
                    f"train.{name} = {getattr(self, name)} is out of range; it must be more than 0"
                )
        if self.weight_samples < self.cycles:
            raise UraenasError(
                f"train.weight_samples = {self.weight_samples} is out of range; each of the {self.cycles} cycles "
                "must give at least one sample"
            )
        for weights in ("point", "sampled"):
            self.rule(weights, steps_per_epoch=1, images=1)  # its checks are ours

    @property
    def samples_per_chain(self) -> int:
        return self.weight_samples // self.cycles * self.cycles

    def rule(self, weights: str, steps_per_epoch: int, images: int, restarts: int = 0) -> WeightRule:
        """How the weights of a chain of this kind move, after so many restarts."""
        scale = SMALLER**restarts
        if weights == "point":
            cycle = Cycle(self.epochs, steps_per_epoch, scale * self.step_size)
            return WeightRule(cycle, images, self.prior_deviation, self.momentum, nesterov=True)
        per_cycle = self.weight_samples // self.cycles
        step_size = scale * self.sampler_step_size
        cycle = Cycle(self.epochs, steps_per_epoch, step_size, self.cycles, self.exploration, per_cycle)
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
        length = self.epochs // self.cycles
        return min(int(self.exploration * length), length - self.weight_samples // self.cycles)

    def chains_for(self, method: Method) -> int:
        """How many chains give this method its members."""
        if method.single:
            return 1
        if method.architecture == "sampled" and method.per_chain == "all":
            return max(self.architectures, math.ceil(self.members / self.samples_per_chain))
        return self.members if method.per_chain == "one" else math.ceil(self.members / self.samples_per_chain)


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
    elif distribution is None:
        raise UraenasError("this method needs a search first")
    elif method.architecture == "sampled":
        tempered = distribution.tempered(settings.architecture_temperature)
        genotypes, redrawn = tempered.sample_genotypes(count, draws.key(seed, "sampled"))
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
    for spec in specs:
        if settings.epochs_alike(spec.weights):
            first.setdefault(spec.root, spec)
    goes_first = [
        s.root not in first or first[s.root] is s or not settings.epochs_alike(s.weights) for s in specs
    ]
    pairs = list(zip(specs, goes_first, strict=True))
    return [spec for spec, early in pairs if early], [spec for spec, early in pairs if not early]


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


class StackOfChains:
    """Chains of one kind, age and number of restarts that move together, each as if it were alone."""

    def __init__(
        self,
        chains: Sequence[ChainState],
        rule: WeightRule,
        skeleton: Skeleton,
        loader: Loader,
        engine: Engine,
        seed: int,
    ) -> None:
        self.specs = [chain.spec for chain in chains]
        self.histories = [list(chain.history) for chain in chains]
        self.failures = [""] * len(chains)
        self.good = list(chains)  # what each chain would be restarted from
        self.epoch = chains[0].epoch
        self.rule, self.loader, self.engine, self.seed = rule, loader, engine, seed
        device, dtype = engine.device, engine.dtype
        count = len(chains)

        self.stack = Stack([spec.genotype for spec in self.specs], skeleton).to(device, dtype).train()
        for m, chain in enumerate(chains):
            self.stack.put(m, chain.tensors["weights"], chain.tensors["statistics"])
        self.velocity = torch.cat([chain.tensors["velocity"].to(device, dtype) for chain in chains])
        owner = torch.repeat_interleave(torch.arange(count), torch.tensor(self.stack.weight_sizes))
        self.owner = owner.to(device)  # weight → member

        self.order_keys = [spec.key(seed, "order") for spec in self.specs]
        self.noise_keys = [torch.tensor(spec.key(seed, "noise")).to(device) for spec in self.specs]
        steps = range(rule.cycle.steps)
        self.step_sizes = torch.tensor([rule.cycle.step_size_at(k) for k in steps], dtype=dtype).to(device)
        self.deviations = torch.tensor([rule.noise_deviation_at(k) for k in steps], dtype=dtype).to(device)
        self.step = torch.tensor(self.epoch * loader.steps).to(device)
        self.losses = torch.zeros(count, device=device, dtype=torch.float64)  # summed over an epoch
        self.failed_at = torch.full((count,), -1, device=device)  # step at which the chain diverged
        self.drawn = loader.draw(self.order_keys, self.epoch)
        self.gradients = engine.gradients(self.stack, loader)
        self._explore = engine.capture(lambda: self._step(exploring=True))
        self._sample = engine.capture(lambda: self._step(exploring=False))

    @property
    def done(self) -> bool:
        return self.epoch >= self.rule.cycle.epochs or all(self.failures)

    def advance(self) -> list[Member]:
        """Run one epoch; returns the weight samples that it ended with, if it is one that collects."""
        self.drawn.refill(self.loader.draw(self.order_keys, self.epoch))
        self.losses.zero_()
        first = self.epoch * self.loader.steps
        for step in range(first, first + self.loader.steps):
            self.one_step(step)
        self._note_epoch(first + self.loader.steps - 1)
        collected = self._collect() if self.rule.cycle.collects_after(self.epoch) else []
        self.epoch += 1
        return collected

    def one_step(self, step: int = 0) -> None:
        """Run one step; `step` says which, so that the host knows its stage."""
        (self._sample if self.rule.cycle.samples_at(step) else self._explore)()

    def states(self) -> list[ChainState]:
        """All chains after this epoch; a frozen one as it was when it was last good."""
        velocities = self.velocity.split(self.stack.weight_sizes)
        for m, spec in enumerate(self.specs):
            if self.failures[m]:
                self.good[m] = replace(self.good[m], failure=self.failures[m])
                continue
            weights, statistics = self.stack.take(m)
            tensors = {"weights": weights, "velocity": velocities[m].clone(), "statistics": statistics}
            history, restarts = list(self.histories[m]), self.good[m].restarts
            self.good[m] = ChainState(spec, self.epoch, tensors, history, restarts=restarts)
        return list(self.good)

    def _step(self, exploring: bool) -> None:
        weights = self.stack.weights
        losses_M, gradient = self.gradients(self.drawn, self.step % self.loader.steps)

        # A member whose loss explodes or whose gradient is not finite stops here.
        sums_M = torch.stack([part.sum() for part in gradient.split(self.stack.weight_sizes)])
        bad = ~((losses_M < MOST_LOSS) & torch.isfinite(sums_M)) & (self.failed_at < 0)
        self.failed_at.copy_(torch.where(bad, self.step, self.failed_at))
        alive = (self.failed_at < 0)[self.owner]

        noise = None if exploring or self.rule.temperature == 0 else self._noise()
        step_size = self.step_sizes.index_select(0, self.step.view(1))
        moved, velocity = self.rule.update(
            weights.detach(), self.velocity, gradient, step_size, noise, exploring
        )
        with torch.no_grad():
            weights.copy_(torch.where(alive, moved, weights))
            self.velocity.copy_(torch.where(alive, velocity, self.velocity))
        self.losses += losses_M
        self.step += 1

    def _noise(self) -> Tensor:
        parts = [
            draws.normal(draws.at(key, self.step), size, self.engine.dtype)
            for key, size in zip(self.noise_keys, self.stack.weight_sizes, strict=True)
        ]
        return torch.cat(parts) * self.deviations.index_select(0, self.step.view(1))

    def _note_epoch(self, last_step: int) -> None:
        step_size = self.rule.cycle.step_size_at(last_step)
        losses, failed_at = (self.losses / self.loader.steps).tolist(), self.failed_at.tolist()
        for m, failure in enumerate(self.failures):
            if failure:
                continue
            if failed_at[m] >= 0:
                at = self.rule.cycle.step_size_at(failed_at[m])
                self.failures[m] = (
                    f"loss above {MOST_LOSS:g} or gradient not finite at step {failed_at[m]} "
                    f"(epoch {self.epoch}, step size {at:.4g})"
                )
                first = self.epoch * self.loader.steps
                if failed_at[m] == first:  # the state at the end of the epoch before was bad already
                    beginning = initial_chain(self.specs[m], self.stack.skeleton, self.seed)
                    self.good[m] = replace(beginning, restarts=self.good[m].restarts)
                continue
            self.histories[m].append(
                {
                    "epoch": self.epoch,
                    "loss": losses[m],
                    "step_size": step_size,
                    "noise_deviation": self.rule.noise_deviation_at(last_step),
                }
            )

    def _collect(self) -> list[Member]:
        cycle = self.rule.cycle
        members = []
        for m, spec in enumerate(self.specs):
            if self.failures[m]:
                continue
            weights, statistics = self.stack.take(m)
            origin = Origin(
                chain=spec.name,
                epoch=self.epoch,
                cycle=self.epoch // cycle.cycle_epochs,
                step=(self.epoch + 1) * self.loader.steps,
                temperature=self.rule.temperature,
            )
            members.append(Member(spec.genotype, weights.cpu(), statistics.cpu(), origin))
        return members


def stacks_of(chains: Sequence[ChainState], size: int) -> Iterator[list[ChainState]]:
    """Chains that may move together, at most `size` of them; those that are over are left out by the caller."""
    groups: dict[tuple[str, int, int], list[ChainState]] = {}
    for chain in chains:
        groups.setdefault((chain.spec.weights, chain.epoch, chain.restarts), []).append(chain)
    for group in groups.values():
        for start in range(0, len(group), size):
            yield group[start : start + size]


def train(
    chains: Sequence[ChainState],
    settings: TrainSettings,
    skeleton: Skeleton,
    loader: Loader,
    engine: Engine,
    seed: int,
    collect: Callable[[Member], None],
    checkpoint: Callable[[list[ChainState]], None],
) -> None:
    """Run chains to their end, stack by stack; one that diverges starts again when the others are through.

    `collect` sees every weight sample, then `checkpoint` the chains that gave it, after every epoch. Stacks that do
    not fit into memory are made smaller, and go on from the last epoch.
    """
    latest = {chain.spec.name: chain for chain in chains}
    size = engine.stack
    while waiting := [chain.restarted() for chain in latest.values() if not chain.is_over(settings.epochs)]:
        for group in stacks_of(waiting, size):
            try:
                with naming_want_of_memory():
                    for states in _epochs(group, settings, skeleton, loader, engine, seed, collect):
                        checkpoint(states)
                        latest.update({state.spec.name: state for state in states})
            except torch.OutOfMemoryError as error:
                size = engine.smaller_stack(len(group), error)
                break  # the rest is grouped anew
            finally:
                engine.release_memory()


def _epochs(
    group: list[ChainState],
    settings: TrainSettings,
    skeleton: Skeleton,
    loader: Loader,
    engine: Engine,
    seed: int,
    collect: Callable[[Member], None],
) -> Iterator[list[ChainState]]:
    """The states of a stack after each epoch, when its samples have been collected."""
    first = group[0]
    rule = settings.rule(first.spec.weights, loader.steps, loader.count, first.restarts)
    stack = StackOfChains(group, rule, skeleton, loader, engine, seed)
    while not stack.done:
        for member in stack.advance():
            collect(member)
        yield stack.states()
