"""Stage 1, the search: it goes on from where it was cut off, to its end or until time is up."""

from collections.abc import Callable, Mapping
from typing import Any

from uraenas.architectures import Searched
from uraenas.learning.loops import Searching, search
from uraenas.learning.search import SearchState
from uraenas.run.checkpoints import saved_when_cut_short
from uraenas.run.cost import Clock
from uraenas.run.forecast import Countdown
from uraenas.run.training import TimeUp
from uraenas.run.work import Work


class Searcher:
    """Runs a search, keeps its state, and books what it costs."""

    def __init__(self, work: Work, progress: Countdown) -> None:
        self.run, self.checkpoints, self.watch = work.run, work.checkpoints, work.watch
        self.checkpoint_seconds = work.config.engine.checkpoint_seconds
        self.progress = progress

    def search(self, searching: Searching, beat: Callable[[], None]) -> Searched:
        """What is found in the end, or when time is up; `beat` is called at every step."""
        clock, booked = Clock(), 0

        def checkpoint(state: SearchState) -> None:
            nonlocal booked
            unsaved["search"] = state
            self._tell(state.history)
            seen, booked = searching.images - booked, searching.images
            self.run.costs.add({"search": {"seconds": clock.lap(), "images": seen}})
            small = not state.weights  # answers to queries, each of which took a training
            if self.checkpoints.due(self.checkpoint_seconds) or small:
                self.checkpoints.store_search(state)
                del unsaved["search"]
            if self.progress.is_slow("search"):
                raise TimeUp

        def tick(*steps: int) -> None:
            self.progress("search", *steps)
            beat()

        self.progress("search", *searching.steps)
        with saved_when_cut_short(self.checkpoints.store_search) as unsaved:
            try:
                return search(searching, checkpoint, tick)
            except TimeUp:
                return searching.found()

    def _tell(self, history: list[dict[str, Any]]) -> None:
        self.watch("search", history)
        if history:
            self.progress.found["search"] = _so_far(history[-1])


def _so_far(row: Mapping[str, Any]) -> str:
    """What a search has come to: its expected architecture, how good that is where it is known, and how sure it is."""
    numbers = [f"{name} {row[name]:.3f}" for name in ("best", "entropy") if name in row]
    losses = [f"loss {row['validation_loss']:.3f}"] if row.get("validation_loss") is not None else []
    return f"{row['genotype']}, {', '.join([*numbers, *losses])}"
