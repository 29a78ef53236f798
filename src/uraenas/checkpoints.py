"""What a run goes on from: states of the search and of chains, and samples, written whole and read with care."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor

from uraenas.chains import CHAIN, ChainSpec, ChainState, TrainSettings, initial_chain
from uraenas.ensemble import Member
from uraenas.errors import UraenasError
from uraenas.methods import METHODS
from uraenas.run import Run
from uraenas.search import STATE, SearchState
from uraenas.spaces import Skeleton

MOST_UNWRITTEN = 100  # samples that wait in memory
RULE = 2  # what a stored velocity means: 1 had point estimates keep it without the step size

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

    def __init__(self, run: Run, skeleton: Skeleton) -> None:
        self.run, self.skeleton = run, skeleton
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
        self.writing.append(self.thread.submit(sample.save, path, self.skeleton))

    def finish(self) -> None:
        """Wait until all are written; where one could not be, this is said every time."""
        while self.writing:
            self._await_oldest()

    def _await_oldest(self) -> None:
        self.writing[0].result()
        self.writing.popleft()


def _explored_file(spec: ChainSpec) -> str:
    return f"chains/explored/{spec.root}.safetensors"


def _facts(state: ChainState) -> dict[str, Any]:
    return {
        "genotype": str(state.spec.genotype),
        "epoch": state.epoch,
        "history": state.history,
        "rule": RULE,
    }


class Checkpoints:
    """The states that lie in a run directory."""

    def __init__(self, run: Run, settings: TrainSettings, skeleton: Skeleton, seed: int) -> None:
        self.run, self.settings, self.skeleton, self.seed = run, settings, skeleton, seed
        self._last = time.monotonic()

    def due(self, seconds: float) -> bool:
        """Whether so much time has gone by since the last checkpoint; a yes counts as making one."""
        if time.monotonic() - self._last < seconds:
            return False
        self._last = time.monotonic()
        return True

    def search(self) -> SearchState | None:
        if not self.run.has("search/state.safetensors"):
            return None
        tensors, header = self.run.read_tensors("search/state.safetensors", ("epoch", "history", *STATE))
        return SearchState(header["epoch"], tensors, header["history"])

    def store_search(self, state: SearchState) -> None:
        header = {"epoch": state.epoch, "history": state.history}
        self.run.write_tensors("search/state.safetensors", state.tensors, header)
        self.write_history(state)

    def write_history(self, state: SearchState) -> None:
        """To read along; nothing is computed from it."""
        self.run.write_text("search/history.jsonl", "".join(json.dumps(row) + "\n" for row in state.history))

    def chain(self, spec: ChainSpec) -> ChainState:
        """Where a chain stands: if there is no state, or one of its samples is lost, where its root was explored to."""
        if (state := self._stored_chain(spec)) is not None:
            return state
        explored = self._explored(spec)
        state, spent = explored or (initial_chain(spec, self.skeleton, self.seed), {})
        if not explored and not self.run.has(f"chains/{spec.name}"):
            # In a copy of a run: what is booked was spent on a chain that stayed behind.
            self.run.costs.forget(f"chains/{spec.name}")
        self.run.costs.charge_shared(f"chains/{spec.name}", spent)
        return state

    def _explored(self, spec: ChainSpec) -> tuple[ChainState, dict[str, float]] | None:
        """Where the chains of a root part, and what another has spent on the way there."""
        name = _explored_file(spec)
        if not self.run.has(name):
            return None
        needed = ("genotype", "epoch", "history", "chain", "cost", *CHAIN)
        tensors, header = self.run.read_tensors(name, needed)
        self._require_same(name, tensors, header, spec)
        if header["epoch"] != self.settings.epochs_alike(spec.weights):
            return None
        spent = {} if header["chain"] == spec.name else header["cost"]
        return ChainState(spec, header["epoch"], tensors, header["history"]), spent

    def _stored_chain(self, spec: ChainSpec) -> ChainState | None:
        name = f"chains/{spec.name}/state.safetensors"
        if not self.run.has(name):
            return None
        tensors, header = self.run.read_chain(spec.name)
        cycle = self.settings.rule(spec.weights, steps_per_epoch=1, images=1).cycle
        collected = [epoch for epoch in range(header["epoch"]) if cycle.collects_after(epoch)]
        state = ChainState(
            spec, header["epoch"], tensors, header["history"], header["failure"], header["restarts"]
        )
        self._require_same(name, tensors, header, spec)
        stopped_for_good = not tensors and not state.is_over(self.settings.epochs)  # by the first version
        lost = not all(self.run.sample_path(spec.name, epoch).exists() for epoch in collected)
        return None if lost or stopped_for_good else state

    def _require_same(
        self, name: str, tensors: dict[str, Tensor], header: dict[str, Any], spec: ChainSpec
    ) -> None:
        if header["genotype"] != str(spec.genotype):
            raise UraenasError(
                f"{self.run.path / name} belongs to another architecture; the run is inconsistent"
            )
        if tensors and header.get("rule") != RULE:
            raise UraenasError(
                f"{self.run.path / name} is of a version whose chains moved by another rule; choose another "
                "directory (--out)"
            )

    def store_chain(self, state: ChainState) -> None:
        """A chain that is over needs no weights to go on with; its samples are kept elsewhere."""
        self.store_explored(state)
        tensors = {} if state.is_over(self.settings.epochs) else state.tensors
        header = {**_facts(state), "failure": state.failure, "restarts": state.restarts}
        self.run.write_tensors(f"chains/{state.spec.name}/state.safetensors", tensors, header)

    def store_explored(self, state: ChainState) -> None:
        """Keep what other chains of the root can go on from; a chain that was restarted is no longer like them."""
        spec = state.spec
        kinds = {row.weights for row in METHODS.values() if row.architecture == spec.architecture}
        parts_here = state.epoch == self.settings.epochs_alike(spec.weights) > 0 and len(kinds) > 1
        if parts_here and not state.failure and not state.restarts:
            cost = self.run.costs.read().get(f"chains/{spec.name}", {})
            spent = {unit: cost.get(unit, 0) for unit in ("seconds", "images")}
            header = {**_facts(state), "chain": spec.name, "cost": spent}
            self.run.write_tensors(_explored_file(spec), state.tensors, header)

    def diverged(self) -> list[dict[str, Any]]:
        """The chains that had to be restarted, or were given up for the reason stated."""
        headers = {name: self.run.read_chain(name)[1] for name in self.run.chains()}
        return [
            {"chain": name, "restarts": header["restarts"], "given_up": header["failure"]}
            for name, header in headers.items()
            if header["restarts"] or header["failure"]
        ]
