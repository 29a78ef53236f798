"""Stage 2: run weight chains side by side and collect members. One loop serves all methods."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from uraenas import draws
from uraenas.chains import RESTARTS, ChainState, TrainSettings, initial_chain
from uraenas.data.loader import Loader
from uraenas.engine import Engine, naming_want_of_memory
from uraenas.ensemble import Member, Origin
from uraenas.inference import WeightRule
from uraenas.networks import Stack
from uraenas.spaces import Skeleton

MOST_LOSS = 100.0  # in nats; a network that guesses at random among a million classes has 14


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
                begun_anew = 0 < self.good[m].restarts < RESTARTS  # its last good state did not help before
                if failed_at[m] == first or begun_anew:  # or is bad itself
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
                cycle=cycle.number(self.epoch),
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
