"""What a run goes on from: states of the search and of chains, and samples, written whole and read with care."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.ensemble import Member
from uraenas.evaluation import Diverged
from uraenas.learning.chains import ChainSpec, ChainState, initial_chain
from uraenas.learning.search import SearchState
from uraenas.run.directory import SEARCH_STATE, Run
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
        path = self.run.sample_path(sample.origin.chain, sample.origin.epoch)
        if len(self.writing) >= MOST_UNWRITTEN:
            self._await_oldest()
        self.writing.append(self.thread.submit(sample.save, path, self.space))

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
        tensors, header = self.run.read_tensors(SEARCH_STATE, ("epoch", "history", "weights.weights"))
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "distribution": {}}
        for name, tensor in tensors.items():
            part, _, own = name.partition(".")
            parts.setdefault(part, {})[own] = tensor
        return SearchState(header["epoch"], parts["weights"], parts["distribution"], header["history"])

    def store_search(self, state: SearchState) -> None:
        parts = {"weights": state.weights, "distribution": state.distribution}
        tensors = {f"{part}.{name}": t for part, named in parts.items() for name, t in named.items()}
        self.run.write_tensors(SEARCH_STATE, tensors, {"epoch": state.epoch, "history": state.history})
        self.run.write_history(state.history)

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

    def _explored(self, spec: ChainSpec) -> tuple[ChainState, dict[str, float]] | None:
        """Where the chains of a root part, and what another has spent on the way there."""
        for epoch, name in self.run.explored_files(spec.root).items():
            moves = spec.moves(self.epochs, epoch)
            if moves is None:
                continue
            needed = ("architecture", "epoch", "history", "chain", "cost", "moves", "weights", "statistics")
            tensors, header = self.run.read_tensors(name, needed)
            self._require_same(name, header, spec)
            if header["moves"] == moves and set(spec.weights.state) <= set(tensors):
                spent = {} if header["chain"] == spec.name else header["cost"]
                return ChainState(spec, header["epoch"], tensors, header["history"]), spent
        return None

    def _stored_chain(self, spec: ChainSpec) -> ChainState | None:
        name = self.run.chain_file(spec.name)
        if not self.run.has(name):
            return None
        tensors, header = self.read_chain(spec.name)
        self._require_same(name, header, spec)
        cycle = spec.weights.cycle(self.epochs, 1)
        collected = [epoch for epoch in range(header["epoch"]) if cycle.collects_after(epoch)]
        lost = not all(self.run.sample_path(spec.name, epoch).exists() for epoch in collected)
        if lost:
            return None
        facts = (header[key] for key in ("history", "failure", "restarts"))
        return ChainState(spec, header["epoch"], tensors, *facts)

    def read_chain(self, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return read_chain(self.run, name)

    def _require_same(self, name: str, header: dict[str, Any], spec: ChainSpec) -> None:
        if header["architecture"] != str(spec.architecture):
            raise UraenasError(
                f"{self.run.path / name} belongs to another architecture; the run is inconsistent"
            )

    def store_chain(self, state: ChainState) -> None:
        """A chain that is over needs no weights to go on with; its samples are kept elsewhere."""
        tensors = {} if state.is_over(self.epochs) else state.tensors
        header = {**_facts(state), "failure": state.failure, "restarts": state.restarts}
        self.run.write_tensors(self.run.chain_file(state.spec.name), tensors, header)

    def store_explored(self, state: ChainState) -> None:
        """Keep what other chains of the root can go on from; a chain that was restarted is no longer like them."""
        spec = state.spec
        if state.failure or state.restarts:
            return
        cost = self.run.costs.read().get(f"chains/{spec.name}", {})
        spent = {unit: cost.get(unit, 0) for unit in ("seconds", "images")}
        moves = spec.moves(self.epochs, state.epoch)
        header = {**_facts(state), "chain": spec.name, "cost": spent, "moves": moves}
        self.run.write_tensors(self.run.explored_file(spec.root, state.epoch), state.tensors, header)

    def diverged(self) -> list[Diverged]:
        """The chains that had to be restarted, or were given up for the reason stated."""
        return [
            Diverged(name, header["restarts"], header["failure"])
            for name, header in chain_headers(self.run).items()
            if header["restarts"] or header["failure"]
        ]


def read_chain(run: Run, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and header of a chain's checkpoint."""
    return run.read_tensors(run.chain_file(name), ("architecture", "epoch", "history", "failure", "restarts"))


def chain_headers(run: Run) -> dict[str, dict[str, Any]]:
    """What the checkpoints of all chains say."""
    return {name: read_chain(run, name)[1] for name in run.chains()}


def _facts(state: ChainState) -> dict[str, Any]:
    return {
        "architecture": str(state.spec.architecture),
        "epoch": state.epoch,
        "history": state.history,
    }
