"""What a run has learned so far, for whoever watches it."""

from dataclasses import replace

from uraenas.architectures import Searched
from uraenas.run.checkpoints import Checkpoints
from uraenas.run.directory import Run
from uraenas.spaces import Shape


def searched_so_far(run: Run) -> Searched | None:
    """What the search has found; while it goes on, what its last checkpoint holds."""
    config, data = run.config(), run.data()
    if run.has_search or config.search is None or data is None:
        return run.searched()
    space = replace(config.network, shape=Shape(*data.image, data.outputs))
    state = Checkpoints(run, config.train.epochs, space, config.seed).search()
    if state is None:
        return run.searched()  # it may have come to its end just now
    return Searched(space, config.search.distribution, state.distribution, tuple(state.history))


def chains_through(run: Run) -> tuple[int, int]:
    """How many chains have come to their end, and how many have begun."""
    epochs, losses = run.config().train.epochs, run.losses()
    return sum(len(own) >= epochs for own in losses.values()), len(losses)
