"""What a run goes on from: states of the search and of chains, written whole and read with care."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from uraenas.errors import UraenasError
from uraenas.run import Run
from uraenas.search import STATE, SearchState
from uraenas.spaces import Skeleton
from uraenas.train import CHAIN, ChainSpec, ChainState, TrainSettings, initial_chain

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


def _explored_file(spec: ChainSpec) -> str:
    return f"chains/explored/{spec.root}.safetensors"


class Checkpoints:
    """The states that lie in a run directory."""

    def __init__(self, run: Run, settings: TrainSettings, skeleton: Skeleton, seed: int) -> None:
        self.run, self.settings, self.skeleton, self.seed = run, settings, skeleton, seed

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
        """Where a chain stands; if there is no state, or one of its samples is lost, where the first of its root
        stopped exploring, or at its beginning."""
        return (
            self._stored_chain(spec) or self._explored(spec) or initial_chain(spec, self.skeleton, self.seed)
        )

    def _explored(self, spec: ChainSpec) -> ChainState | None:
        name = _explored_file(spec)
        if not self.settings.epochs_alike(spec.weights) or not self.run.has(name):
            return None
        tensors, header = self.run.read_tensors(name, ("genotype", "epoch", "history", "cost", *CHAIN))
        self._require_genotype(name, header["genotype"], spec)
        shared = {f"shared_{unit}": amount for unit, amount in header["cost"].items()}
        self.run.set_cost(f"chains/{spec.name}", shared)
        return ChainState(spec, header["epoch"], tensors, header["history"])

    def store_explored(self, state: ChainState) -> None:
        """Keep what the chain's siblings can go on from, once; a chain that was restarted is no longer like them."""
        alike = state.epoch == self.settings.epochs_alike(state.spec.weights) > 0
        if (
            alike
            and not state.failure
            and not state.restarts
            and not self.run.has(_explored_file(state.spec))
        ):
            header = {
                "genotype": str(state.spec.genotype),
                "epoch": state.epoch,
                "history": state.history,
                "cost": self.run.costs().get(f"chains/{state.spec.name}", {}),
            }
            self.run.write_tensors(_explored_file(state.spec), state.tensors, header)

    def _require_genotype(self, name: str, genotype: str, spec: ChainSpec) -> None:
        if genotype != str(spec.genotype):
            raise UraenasError(
                f"{self.run.path / name} belongs to another architecture; the run is inconsistent"
            )

    def _stored_chain(self, spec: ChainSpec) -> ChainState | None:
        name = f"chains/{spec.name}/state.safetensors"
        if not self.run.has(name):
            return None
        tensors, header = self.run.read_chain(spec.name)
        self._require_genotype(name, header["genotype"], spec)
        cycle = self.settings.rule(spec.weights, steps_per_epoch=1, images=1).cycle
        collected = [epoch for epoch in range(header["epoch"]) if cycle.collects_after(epoch)]
        state = ChainState(
            spec, header["epoch"], tensors, header["history"], header["failure"], header["restarts"]
        )
        stopped_for_good = not tensors and not state.is_over(self.settings.epochs)  # by the first version
        lost = not all(self.run.sample_path(spec.name, epoch).exists() for epoch in collected)
        return None if lost or stopped_for_good else state

    def store_chain(self, state: ChainState) -> None:
        """A chain that is over needs no weights to go on with; its samples are kept elsewhere."""
        header = {
            "genotype": str(state.spec.genotype),
            "epoch": state.epoch,
            "history": state.history,
            "failure": state.failure,
            "restarts": state.restarts,
        }
        tensors = {} if state.is_over(self.settings.epochs) else state.tensors
        self.run.write_tensors(f"chains/{state.spec.name}/state.safetensors", tensors, header)

    def diverged(self) -> list[dict[str, Any]]:
        """The chains that had to be restarted, or were given up for the reason stated."""
        headers = {name: self.run.read_chain(name)[1] for name in self.run.chains()}
        return [
            {"chain": name, "restarts": header["restarts"], "given_up": header["failure"]}
            for name, header in headers.items()
            if header["restarts"] or header["failure"]
        ]
