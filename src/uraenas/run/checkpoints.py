"""What a run goes on from: states of the search and of chains, and samples, written whole and read with care."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields
from uraenas.ensemble import Member
from uraenas.evaluation import Diverged
from uraenas.learning.chains import MOST_EPOCHS, RESTARTS, ChainSpec, ChainState, initial_chain
from uraenas.learning.search import SearchState
from uraenas.run.directory import SEARCH_STATE, Run, history_of, write_history
from uraenas.spaces import Space

MOST_UNWRITTEN = 100  # samples that wait in memory

State = TypeVar("State", SearchState, ChainState)


@contextmanager
def saved_when_cut_short(save: Callable[[State], None]) -> Iterator[dict[str, State]]:
    """States newer than their checkpoints; they are written if the work on them ends early, for whatever reason."""
    unsaved: dict[str, State] = {}
    try:
        yield unsaved
    except BaseException:
        for state in unsaved.values():
            save(state)
        raise


class SampleWriter:
    """Writes samples while training goes on: on a GPU's host each takes a tenth of a second."""

    def __init__(self, run: Run, space: Space) -> None:
        self.run, self.space = run, space
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.writing: deque[Future[None]] = deque()

    def __enter__(self) -> "SampleWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self.thread.shutdown()

    def add(self, sample: Member) -> None:
        sample = replace(sample, origin=replace(sample.origin, run=self.run.chains_identity))
        path = self.run.chains.sample_path(sample.origin.chain, sample.origin.epoch)
        if len(self.writing) >= MOST_UNWRITTEN:
            self._await_oldest()
        self.writing.append(self.thread.submit(self._save, sample, path))

    def _save(self, sample: Member, path: Path) -> None:
        self.run.require_here()
        with self.run.guard(str(path.relative_to(self.run.path))):
            sample.save(path, self.space)

    def finish(self) -> None:
        """Wait until all are written; where one could not be, this is said every time."""
        while self.writing:
            self._await_oldest()

    def _await_oldest(self) -> None:
        self.writing[0].result()
        self.writing.popleft()


class Checkpoints:
    """The states that lie in a run directory."""

    def __init__(self, run: Run, epochs: int, space: Space, seed: int) -> None:
        self.run, self.epochs, self.space, self.seed = run, epochs, space, seed
        self._last = time.monotonic()

    def due(self, seconds: float) -> bool:
        """Whether so much time has gone by since the last checkpoint; a yes counts as making one."""
        if time.monotonic() - self._last < seconds:
            return False
        self._last = time.monotonic()
        return True

    # The search

    def search(self) -> SearchState | None:
        if not self.run.has(SEARCH_STATE):
            return None
        tensors, header = self.run.read_tensors(SEARCH_STATE)
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "distribution": {}}
        for name, tensor in tensors.items():
            part, _, own = name.partition(".")
            parts.setdefault(part, {})[own] = tensor
        with self.run.mending(SEARCH_STATE):
            epoch = header.whole("epoch", 0, MOST_EPOCHS)
            if not parts["distribution"]:
                raise header.error("it lacks the distribution")
            return SearchState(epoch, parts["weights"], parts["distribution"], history_of(header, "entropy"))

    def store_search(self, state: SearchState) -> None:
        parts = {"weights": state.weights, "distribution": state.distribution}
        tensors = {f"{part}.{name}": t for part, named in parts.items() for name, t in named.items()}
        self.run.write_tensors(SEARCH_STATE, tensors, {"epoch": state.epoch, "history": state.history})
        write_history(self.run, state.history)

    # Chains

    def chain(self, spec: ChainSpec) -> ChainState:
        """Where a chain stands: if there is no state, or one of its samples is lost, where its root was explored to."""
        if (state := self._stored_chain(spec)) is not None:
            return state
        explored = self._explored(spec)
        state, spent = explored or (initial_chain(spec, self.space, self.seed), {})
        if not explored and not self.run.has(f"chains/{spec.name}"):
            # In a copy of a run: what is booked was spent on a chain that stayed behind.
            self.run.costs.forget(f"chains/{spec.name}")
        self.run.costs.charge_shared(f"chains/{spec.name}", spent)
        return state

    def has_finished(self, spec: ChainSpec) -> bool:
        """Whether a chain is there and over."""
        state = self._stored_chain(spec)
        return state is not None and state.is_over(self.epochs)

    def require_finished(self, plans: Mapping[str, Sequence[ChainSpec]]) -> None:
        """Refuse to choose members from chains that are not there."""
        for method, specs in plans.items():
            if missing := next((spec for spec in specs if not self.has_finished(spec)), None):
                raise UraenasError(
                    f"{self.run.path} has no finished chain {missing.name}, which {method} needs, and members were "
                    "asked for without training"
                )

    def _explored(self, spec: ChainSpec) -> tuple[ChainState, dict[str, float]] | None:
        """Where the chains of a root part, and what another has spent on the way there."""
        for epoch, name in self.run.chains.explored_files(spec.root).items():
            moves = spec.moves(self.epochs, epoch)
            if moves is None:
                continue
            tensors, header = self.run.read_tensors(name, ("weights", "statistics"))
            with self.run.mending(name):
                facts = ChainFacts.of(header)
                cost = header.table("cost")
                spent = {unit: cost.number(unit, 0) for unit in cost.stored}
                self._require_same(name, facts, spec)
                if header.text("moves") == moves and set(spec.weights.state) <= set(tensors):
                    self._require_sizes(header, tensors, spec)
                    own = header.text("chain") == spec.name
                    return ChainState(spec, facts.epoch, tensors, facts.history), {} if own else spent
        return None

    def _stored_chain(self, spec: ChainSpec) -> ChainState | None:
        name = self.run.chains.file(spec.name)
        if not self.run.has(name):
            return None
        tensors, header = self.run.read_tensors(name)
        with self.run.mending(name):
            facts = ChainFacts.of(header)
            self._require_same(name, facts, spec)
            state = ChainState(spec, facts.epoch, tensors, facts.history, facts.failure, facts.restarts)
            if not state.is_over(self.epochs):
                self._require_sizes(header, tensors, spec)
        cycle = spec.weights.cycle(self.epochs, 1)
        collected = [epoch for epoch in range(facts.epoch) if cycle.collects_after(epoch)]
        lost = not all(self.run.chains.sample_path(spec.name, epoch).exists() for epoch in collected)
        return None if lost else state

    def _require_same(self, name: str, facts: "ChainFacts", spec: ChainSpec) -> None:
        if facts.architecture != str(spec.architecture):
            raise UraenasError(
                f"{self.run.path / name} belongs to another architecture; the run is inconsistent"
            )

    def _require_sizes(self, header: Fields, tensors: dict[str, Tensor], spec: ChainSpec) -> None:
        weights = spec.weights.changes.layout(self.space.weight_layout(spec.architecture)).size
        sizes = dict.fromkeys(("weights", *spec.weights.state), weights)
        sizes["statistics"] = self.space.statistics_layout(spec.architecture).size
        for name, size in sizes.items():
            if name not in tensors or tensors[name].shape != (size,) or not tensors[name].is_floating_point():
                raise header.error(f"it lacks {name} of {size} numbers")

    def store_chain(self, state: ChainState) -> None:
        """A chain that is over needs no weights to go on with; its samples are kept elsewhere."""
        tensors = {} if state.is_over(self.epochs) else state.tensors
        self.run.write_tensors(self.run.chains.file(state.spec.name), tensors, _facts(state))

    def store_explored(self, state: ChainState) -> None:
        """Keep what other chains of the root can go on from; a chain that was restarted is no longer like them."""
        spec = state.spec
        if state.failure or state.restarts:
            return
        cost = self.run.costs.read().get(f"chains/{spec.name}", {})
        spent = {unit: cost.get(unit, 0) for unit in ("seconds", "images")}
        moves = spec.moves(self.epochs, state.epoch)
        header = {**_facts(state), "chain": spec.name, "cost": spent, "moves": moves}
        self.run.write_tensors(self.run.chains.explored_file(spec.root, state.epoch), state.tensors, header)

    def diverged(self) -> list[Diverged]:
        """The chains that had to be restarted, or were given up for the reason stated."""
        return [
            Diverged(name, chain.restarts, chain.failure)
            for name, chain in chain_facts(self.run).items()
            if chain.restarts or chain.failure
        ]


@dataclass(frozen=True)
class ChainFacts:
    """What a chain's checkpoint says of it, apart from its tensors."""

    architecture: str
    epoch: int
    history: list[dict[str, Any]]
    failure: str = ""
    restarts: int = 0

    @classmethod
    def of(cls, header: Fields) -> "ChainFacts":
        return cls(
            header.text("architecture"),
            header.whole("epoch", 0, MOST_EPOCHS),
            history_of(header, "loss"),
            header.text("failure"),
            header.whole("restarts", 0, RESTARTS),
        )


def read_chain(run: Run, name: str) -> ChainFacts:
    """What the checkpoint of a chain says."""
    file = run.chains.file(name)
    _, header = run.read_tensors(file)
    with run.mending(file):
        return ChainFacts.of(header)


def chain_facts(run: Run) -> dict[str, ChainFacts]:
    """What the checkpoints of all chains say."""
    return {name: read_chain(run, name) for name in run.chains.names()}


def _facts(state: ChainState) -> dict[str, Any]:
    return {
        "architecture": str(state.spec.architecture),
        "epoch": state.epoch,
        "history": state.history,
        "failure": state.failure,
        "restarts": state.restarts,
    }
