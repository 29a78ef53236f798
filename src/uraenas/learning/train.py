"""Weight chains run side by side, and the samples they leave. One loop serves all methods."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.data.loader import EpochDraws, Loader
from uraenas.engine import Engine, Penalty, Wrapping, naming_want_of_memory
from uraenas.ensemble import Kind, Member, Origin
from uraenas.learning.chains import RESTARTS, ChainState, TrainSettings, cycle_of, initial_chain
from uraenas.learning.pace import Pace
from uraenas.spaces import Draw, Space, Stack
from uraenas.weights import Step

MOST_LOSS = 100.0  # in nats, of each target; a network that guesses at random among a million classes has 14


def _untold(steps: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Training:
    """What chains are trained with."""

    settings: TrainSettings
    space: Space
    loader: Loader
    engine: Engine
    seed: int


class StackOfChains:
    """Chains of one kind, age and number of restarts that move together, each as if it were alone."""

    def __init__(self, chains: Sequence[ChainState], training: Training) -> None:
        settings, space, seed = training.settings, training.space, training.seed
        loader, engine = training.loader, training.engine
        self.specs = [chain.spec for chain in chains]
        self.histories = [list(chain.history) for chain in chains]
        self.failures = [""] * len(chains)
        self.good = list(chains)  # what each chain would be restarted from
        self.epoch = chains[0].epoch
        self.loader, self.engine, self.seed = loader, engine, seed
        self.most_loss = MOST_LOSS * max(1, len(loader.target.parts))
        self.method = self.specs[0].weights
        device, dtype = engine.device, engine.dtype
        count = len(chains)
        cycle = cycle_of(self.method, settings.epochs, loader.steps, chains[0].restarts)
        self.pace = Pace(self.method, cycle, loader.learned, device, dtype)

        self.by_head = bool(self.method.changes.heads)  # whether heads learn from a teacher's members each
        changes, architectures = self.method.changes, [spec.architecture for spec in self.specs]
        self.stack = Stack(architectures, space, changes.layout).to(device, dtype).train()
        for m, chain in enumerate(chains):
            self.stack.put(m, chain.tensors["weights"], chain.tensors["statistics"])
        self.state = {
            name: torch.cat([chain.tensors[name].to(device, dtype) for chain in chains], dim=-1)
            for name in self.method.state
        }
        owner = torch.repeat_interleave(torch.arange(count), torch.tensor(self.stack.weight_sizes))
        self.owner = owner.to(device)  # weight → member
        recipes = [spec.recipe for spec in self.specs]
        self.decay = self._decay(settings.decay(loader.learned))
        self.pacing = self._per_weight([recipe.step_size for recipe in recipes])
        self.sampling_pace = self._per_weight([recipe.step_size * recipe.peak for recipe in recipes])

        self.numbers = [spec.number for spec in self.specs]
        self.order_keys = [spec.key(seed, "order") for spec in self.specs]
        self.noise_keys = [torch.tensor(spec.key(seed, "noise")).to(device) for spec in self.specs]
        self.step = torch.tensor(self.epoch * loader.steps).to(device)
        self.losses = torch.zeros(count, device=device, dtype=torch.float64)  # summed over an epoch
        self.failed_at = torch.full((count,), -1, device=device)  # step at which the chain diverged
        self.kinds = [recipe.kind(loader.kinds) for recipe in recipes]  # of augmentation
        self.drawn = self._first_draws()
        self.augmentation_key = draws.key(seed, "augmentation")  # of no chain: all see the same images
        self.gradients = engine.gradients(self.stack, loader, self._wrapping())
        self._explore = engine.capture(lambda: self._step(exploring=True))
        self._sample = engine.capture(lambda: self._step(exploring=False))

    def _first_draws(self) -> EpochDraws:
        """Draws of an epoch, with room for what a teacher says: a captured graph looks for both in this memory."""
        drawn = self._draws()
        if self.loader.teacher is None:
            return drawn
        return self.loader.with_room(drawn, self.by_head)

    def _draws(self) -> EpochDraws:
        return self.loader.draw(self.order_keys, self.epoch, self.kinds, self.numbers)

    def _per_weight(self, values: Sequence[float]) -> float | Tensor:
        """The members' value where it is one and the same, else that of each weight's member [W]."""
        if len(set(values)) == 1:
            return values[0]
        return torch.tensor(values, dtype=self.engine.dtype).to(self.engine.device)[self.owner]

    def _decay(self, plain: float) -> float | Tensor:
        """That of the weights' Gaussian prior; weights that have another one do not decay."""
        found = self._per_weight([plain / spec.recipe.prior_deviation**2 for spec in self.specs])
        entries = [entry for layout in self.stack.weight_layouts for entry in layout.entries]
        if all(entry.prior for entry in entries):
            return found
        marks = torch.tensor([float(entry.prior) for entry in entries], dtype=self.engine.dtype)
        sizes = torch.tensor([entry.size for entry in entries])
        return found * marks.repeat_interleave(sizes).to(self.engine.device)

    def _wrapping(self) -> Wrapping:
        """What the kind of weights and the recipes make of a plain step."""
        device, changes = self.engine.device, self.method.changes
        smoothing = [spec.recipe.smoothing for spec in self.specs]
        return Wrapping(
            self.method.objective,
            self.method.forward,
            [Draw(torch.tensor(spec.key(self.seed, "forward")).to(device)) for spec in self.specs],
            torch.tensor(smoothing, dtype=self.engine.dtype).to(device) if any(smoothing) else None,
            changes.repeats,
            self._penalty(),
            self.pace.cycle.steps,
        )

    def _penalty(self) -> Penalty | None:
        """What the kind of weights adds to the loss, for as many images as a chain learns from."""
        penalty, images = self.method.changes.penalty, self.loader.learned
        return penalty and (lambda weights, progress: penalty(weights, progress, images))

    @property
    def done(self) -> bool:
        return self.epoch >= self.pace.cycle.epochs or all(self.failures)

    def advance(self, tick: Callable[[int], None] = _untold) -> list[Member]:
        """Run one epoch; returns the weight samples that it ended with, if it is one that collects.

        `tick` is told after every step how many the chains have made in this epoch, all together.
        """
        if self.method.changes.renew is not None and self.pace.cycle.renews_at(self.epoch):
            self._renew()
        self.drawn.refill(self._draws())
        self.loader.augment(self.augmentation_key, self.epoch)
        if self.drawn.targets is not None:
            self.drawn.targets.copy_(self.loader.taught(self.drawn, self.by_head))
        self.losses.zero_()
        first = self.epoch * self.loader.steps
        for step in range(self.loader.steps):
            self.one_step(first + step)
            tick((step + 1) * len(self.specs))
        self._note_epoch(first + self.loader.steps - 1)
        collected = self._collect() if self.pace.cycle.collects_after(self.epoch) else []
        self.epoch += 1
        return collected

    @torch.no_grad()
    def _renew(self) -> None:
        """Put weights elsewhere, each chain's by its own key, at the beginning of an epoch."""
        renew = self.method.changes.renew
        assert renew is not None
        weights = self.stack.weights.split(self.stack.weight_sizes)
        for m, (layout, flat) in enumerate(zip(self.stack.weight_layouts, weights, strict=True)):
            key = draws.at(self.specs[m].key(self.seed, "renewal"), self.epoch, flat.device)
            if not self.failures[m]:
                views = layout.views(flat)
                for name, tensor in renew(views, key).items():
                    views[name].copy_(tensor)

    def one_step(self, step: int = 0) -> None:
        """Run one step; `step` says which, so that the host knows its stage."""
        with self.engine.threads():
            (self._sample if self.pace.cycle.samples_at(step) else self._explore)()

    def states(self) -> list[ChainState]:
        """All chains after this epoch; a frozen one as it was when it was last good."""
        parts = {name: t.split(self.stack.weight_sizes, dim=-1) for name, t in self.state.items()}
        for m, spec in enumerate(self.specs):
            if self.failures[m]:
                self.good[m] = replace(self.good[m], failure=self.failures[m])
                continue
            weights, statistics = self.stack.take(m)
            own = {name: part[m].clone() for name, part in parts.items()}
            tensors = {"weights": weights, **own, "statistics": statistics}
            history, restarts = list(self.histories[m]), self.good[m].restarts
            self.good[m] = ChainState(spec, self.epoch, tensors, history, restarts=restarts)
        return list(self.good)

    def _step(self, exploring: bool) -> None:
        weights = self.stack.weights
        losses_M, gradient = self.gradients(self.drawn, self.step % self.loader.steps, self.step)

        alive = None if self._all_well(losses_M, gradient) else self._alive(losses_M, gradient)
        state = {"weights": weights.detach(), **self.state}
        noise = None if exploring or not self.pace.noisy else self._noise()
        pacing = self.pacing if exploring else self.sampling_pace
        step = Step(self.step, pacing * self.pace.step_size(self.step), exploring, noise)
        moved = self.method.update(state, gradient + self.decay * state["weights"], step)
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(moved[name] if alive is None else torch.where(alive, moved[name], tensor))
        self.losses += losses_M
        self.step += 1

    def _all_well(self, losses_M: Tensor, gradient: Tensor) -> bool:
        """Whether no member has to stop: told at once on a CPU; another device would have to be waited for."""
        if gradient.device.type != "cpu":
            return False
        return bool(
            ((losses_M < self.most_loss) & (self.failed_at < 0)).all() & torch.isfinite(gradient.sum())
        )

    def _alive(self, losses_M: Tensor, gradient: Tensor) -> Tensor:
        """Of each weight, whether its member goes on: one whose loss explodes or whose gradient is not finite stops."""
        sums_M = torch.stack([part.sum() for part in gradient.split(self.stack.weight_sizes)])
        bad = ~((losses_M < self.most_loss) & torch.isfinite(sums_M)) & (self.failed_at < 0)
        self.failed_at.copy_(torch.where(bad, self.step, self.failed_at))
        return (self.failed_at < 0)[self.owner]

    def _noise(self) -> Tensor:
        parts = [
            draws.normal(draws.at(key, self.step), size, self.engine.dtype)
            for key, size in zip(self.noise_keys, self.stack.weight_sizes, strict=True)
        ]
        return torch.cat(parts) * (self.pace.deviation(self.step) * self.sampling_pace**0.5)

    def _note_epoch(self, last_step: int) -> None:
        step_size = self.pace.cycle.step_size_at(last_step)
        losses, failed_at = (self.losses / self.loader.steps).tolist(), self.failed_at.tolist()
        for m, failure in enumerate(self.failures):
            if failure:
                continue
            if failed_at[m] >= 0:
                at = self.pace.cycle.step_size_at(failed_at[m])
                self.failures[m] = (
                    f"loss above {self.most_loss:g} or gradient not finite at step {failed_at[m]} "
                    f"(epoch {self.epoch}, step size {at:.4g})"
                )
                first = self.epoch * self.loader.steps
                begun_anew = 0 < self.good[m].restarts < RESTARTS  # its last good state did not help before
                if failed_at[m] == first or begun_anew:  # or is bad itself
                    beginning = initial_chain(self.specs[m], self.stack.space, self.seed)
                    self.good[m] = replace(beginning, restarts=self.good[m].restarts)
                continue
            recipe, samples = self.specs[m].recipe, self.pace.cycle.samples_at(last_step)
            factor = recipe.step_size * (recipe.peak if samples else 1)
            self.histories[m].append(
                {
                    "epoch": self.epoch,
                    "loss": losses[m],
                    "step_size": factor * step_size,
                    "noise_deviation": factor**0.5 * self.pace.deviation_at(last_step),
                }
            )

    def _collect(self) -> list[Member]:
        cycle, kind = self.pace.cycle, Kind.of(self.method.trajectory, self.method)
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
            )
            members.append(Member(spec.architecture, weights.cpu(), statistics.cpu(), origin, kind))
        return members


def stacks_of(chains: Sequence[ChainState], size: int) -> Iterator[list[ChainState]]:
    """Chains that may move together, at most `size` of them; those that are over are left out by the caller."""
    groups: dict[tuple[str, int, int], list[ChainState]] = {}
    for chain in chains:
        groups.setdefault((chain.spec.weights.trajectory, chain.epoch, chain.restarts), []).append(chain)
    for group in groups.values():
        for start in range(0, len(group), size):
            yield group[start : start + size]


def train(
    chains: Sequence[ChainState],
    training: Training,
    collect: Callable[[Member], None],
    checkpoint: Callable[[list[ChainState]], None],
    tick: Callable[[int], None] = _untold,
) -> None:
    """Run chains to their end, stack by stack; one that diverges starts again when the others are through.

    `collect` sees every weight sample, then `checkpoint` the chains that gave it, after every epoch; `tick` hears of
    every step. Stacks that do not fit into memory are made smaller, and go on from the last epoch.
    """
    engine, epochs = training.engine, training.settings.epochs
    latest = {chain.spec.name: chain for chain in chains}
    size = engine.stack
    while waiting := [chain.restarted() for chain in latest.values() if not chain.is_over(epochs)]:
        for group in stacks_of(waiting, size):
            try:
                with naming_want_of_memory():
                    for states in _epochs(StackOfChains(group, training), collect, tick):
                        checkpoint(states)
                        latest.update({state.spec.name: state for state in states})
            except torch.OutOfMemoryError as error:
                size = engine.smaller_stack(len(group), error)
                break  # the rest is grouped anew
            finally:
                engine.release_memory()


def _epochs(
    stack: StackOfChains, collect: Callable[[Member], None], tick: Callable[[int], None]
) -> Iterator[list[ChainState]]:
    """The states of a stack after each epoch, when its samples have been collected."""
    while not stack.done:
        for member in stack.advance(tick):
            collect(member)
        yield stack.states()
