"""Stage 2, chains: they go on from where they were cut off, to their end."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import fmean

from uraenas.data.loader import Loader
from uraenas.ensemble import Kind, Member, Origin
from uraenas.learning.chains import ChainSpec, ChainState, in_turns, shared_epochs
from uraenas.learning.train import Training, train
from uraenas.run.checkpoints import SampleWriter, saved_when_cut_short
from uraenas.run.cost import Clock
from uraenas.run.forecast import Countdown
from uraenas.run.teaching import teacher_for
from uraenas.run.work import Work


class TimeUp(Exception):
    """The budget is used up but for what has to come after training."""


class ChainRunner:
    """Trains chains, keeps their states and samples, and books what they cost."""

    def __init__(self, work: Work, progress: Countdown) -> None:
        self.work, self.progress = work, progress
        self.run, self.config, self.task, self.engine = work.run, work.config, work.task, work.engine
        self.checkpoints, self.watch = work.checkpoints, work.watch
        self.clock = Clock()
        self.planned = 0
        self.chains: dict[str, ChainState] = {}

    @cached_property
    def loader(self) -> Loader:
        """Made when it is first needed: it holds all training images on the device."""
        config, task, engine = self.config, self.task, self.engine
        teacher = teacher_for(self.run, config, task, engine)
        return task.loader(task.train, config.train.batch, engine, config.augmentations, teacher)

    def run_all(self, specs: Sequence[ChainSpec]) -> bool:
        """Run these chains to their end, or until time is up; says whether all are through.

        Those that share a root with another go on from what it has explored. Where time may run out, chains of every
        kind come to their end before the next ones begin, so that what has been done is of use.
        """
        self.planned = len(specs)
        longest = 0.0
        for part in self.parts(specs):
            begun = self.progress.room("train")
            if begun < longest:
                return False
            try:
                self._run_part(part)
            except TimeUp:
                return False
            if self.progress.end is not None:
                longest = max(longest, begun - self.progress.room("train"))
        return True

    def parts(self, specs: Sequence[ChainSpec]) -> list[list[ChainSpec]]:
        """What is run one after another: all at once, or under a budget a stack of every kind."""
        if self.progress.end is None:
            return [list(specs)]
        parts: dict[int, list[ChainSpec]] = {}
        for spec in specs:
            parts.setdefault(spec.number // self.engine.stack, []).append(spec)
        return [parts[number] for number in sorted(parts)]

    def _run_part(self, specs: Sequence[ChainSpec]) -> None:
        turns = in_turns(specs, self.config.train.epochs)
        self._run_turns(turns, self.kept_epochs(*turns))

    def run_stack(self, specs: Sequence[ChainSpec], kept: Mapping[str, set[int]]) -> None:
        """Run chains that can begin now, as a part of more; others go on from the epochs of theirs that are kept."""
        self.planned = len(specs)
        self._run_turns([specs], kept)

    def _run_turns(self, turns: Sequence[Sequence[ChainSpec]], kept: Mapping[str, set[int]]) -> None:
        self.kept = kept
        with (
            SampleWriter(self.run, self.task.space) as self.samples,
            saved_when_cut_short(self._store) as self.unsaved,
        ):
            for turn in turns:
                self.chains |= {spec.name: self.checkpoints.chain(spec) for spec in turn}
                if turn:
                    self._train([self.chains[spec.name] for spec in turn])

    def usable(self, specs: Sequence[ChainSpec]) -> list[ChainSpec]:
        """Of these chains those that are through; where none is, those that have begun, with what they are now."""
        finished = [spec for spec in specs if self.checkpoints.has_finished(spec)]
        return finished or [spec for spec in specs if self._keep_as_it_is(spec)]

    def _keep_as_it_is(self, spec: ChainSpec) -> bool:
        """Let a chain that is cut short leave its weights as a sample, unless it has left one; whether it can."""
        if not self.run.has(self.run.chains.file(spec.name)):
            return False
        state = self.checkpoints.chain(spec)
        if state.epoch and not self.run.chains.samples(spec.name):
            last, kind = state.epoch - 1, Kind.of(spec.weights.trajectory, spec.weights)
            cycle = spec.weights.cycle(self.config.train.epochs, 1)
            place = (spec.name, last, cycle.number(last), state.epoch * self.loader.steps)
            origin = Origin(*place, run=self.run.chains_identity)
            weights, statistics = (state.tensors[name].cpu() for name in ("weights", "statistics"))
            member = Member(spec.architecture, weights, statistics, origin, kind)
            member.save(self.run.chains.sample_path(spec.name, last), self.task.space)
        return state.epoch > 0

    def kept_epochs(self, early: Sequence[ChainSpec], later: Sequence[ChainSpec]) -> dict[str, set[int]]:
        """After which epochs a chain's state is kept for others of its root: those here, and those that may come."""
        epochs = self.config.train.epochs
        kept = {}
        for leader in early:
            followers = [spec for spec in later if spec.root == leader.root]
            until = {shared_epochs(leader, spec, epochs) for spec in followers}
            own, weights = leader.explored(epochs), leader.weights
            cycle = weights.cycle(epochs, 1)
            parts = weights.moves(cycle, own) != weights.moves(cycle, 0)  # point estimates never do
            kept[leader.name] = (until | ({own} if parts else set())) - {0}
        return kept

    def _train(self, going: list[ChainState]) -> None:
        for chain in going:
            self.watch(f"chains/{chain.spec.name}", chain.history)
        self._tell_progress()
        self.clock.lap()
        config = self.config
        training = Training(config.train, self.task.space, self.loader, self.engine, config.seed)
        train(going, training, self.samples.add, self._keep, self._tick)
        self.samples.finish()

    def _keep(self, states: list[ChainState]) -> None:
        """Note that these chains have come so far; what a kill would lose is written from time to time."""
        epochs = self.config.train.epochs
        moved = [state for state in states if not self.chains[state.spec.name].is_over(epochs)]
        self.unsaved.update({state.spec.name: state for state in moved})
        for state in moved:
            self.watch(f"chains/{state.spec.name}", state.history)
        share = {"seconds": self.clock.lap() / len(states), "images": self.loader.steps * self.loader.batch}
        self.run.costs.add({f"chains/{state.spec.name}": share for state in states})
        due = self.checkpoints.due(self.config.engine.checkpoint_seconds)
        for state in moved:
            if state.epoch in self.kept.get(state.spec.name, ()):
                self.checkpoints.store_explored(state)
            before = self.chains[state.spec.name]
            news = (state.failure, state.restarts) != (before.failure, before.restarts)
            if state.failure and news:
                self._tell_divergence(state)
            self.chains[state.spec.name] = state
            if due or news or state.epoch >= epochs:
                self._store(state)
                del self.unsaved[state.spec.name]
        if due or any(state.epoch >= epochs for state in moved):
            self.run.write_losses({name: losses_of(chain) for name, chain in self.chains.items()})
        self._tell_progress()

    def _store(self, state: ChainState) -> None:
        self.samples.finish()  # a state that knows of a sample is never there without it
        self.checkpoints.store_chain(state)

    def _tell_progress(self, more: int = 0) -> None:
        """Say how many steps are made: those of whole epochs, and `more`."""
        epochs, steps = self.config.train.epochs, self.loader.steps
        done = sum(epochs if chain.is_over(epochs) else chain.epoch for chain in self.chains.values())
        made = steps * done + more
        if losses := self.last_losses:
            whole = made // max(1, steps * len(self.chains))
            words = f"{whole} of {epochs} epochs, mean loss {fmean(losses):.3f}"
            self.progress.found["train"] = f"{words} of {len(losses)} chain{'s' * (len(losses) > 1)}"
        self.progress("train", made, self.planned * epochs * steps)

    def _tick(self, steps: int) -> None:
        self._tell_progress(steps)
        if self.progress.room("train") < 0:
            raise TimeUp

    @property
    def last_losses(self) -> list[float]:
        """Of chains that have begun."""
        return [chain.history[-1]["loss"] for chain in self.chains.values() if chain.history]

    def _tell_divergence(self, state: ChainState) -> None:
        given_up = state.is_over(self.config.train.epochs)
        self.run.log("chain diverged", chain=state.spec.name, why=state.failure, given_up=given_up)
        if not given_up:
            self.run.costs.add({f"chains/{state.spec.name}": {"restarts": 1}})


def losses_of(chain: ChainState) -> list[float]:
    """Mean training loss by epoch."""
    return [row["loss"] for row in chain.history]
