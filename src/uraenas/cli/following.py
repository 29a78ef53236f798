"""`show --follow`: a run in progress in the terminal, with its losses and what its search has learned."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.text import Text

from uraenas.base.errors import UraenasError
from uraenas.cli.printing import console, is_terminal
from uraenas.cli.screen import lines_of, progress_words

if TYPE_CHECKING:
    from uraenas.architectures import Searched
    from uraenas.run.directory import Run

PAUSE = 2.0  # seconds between two looks
HEIGHTS = "▁▂▃▄▅▆▇█"
WIDEST = 20  # characters of a curve or bar
MOST_DECISIONS = 12  # shown of a search


def follow(path: Path) -> None:
    """Show a run again and again until nobody works on it; where no one watches, a line whenever something changes."""
    from uraenas.run.directory import Run
    from uraenas.run.progress import is_worked_on, progress_of
    from uraenas.run.show import summary

    run = Run(path)
    if is_terminal(sys.stdout):
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while is_worked_on(path):
                screen = Group(lines_of(path, summary(path)), Text("\n".join(watched(run))))
                live.update(screen, refresh=True)
                time.sleep(PAUSE)
            live.update(lines_of(path, summary(path)), refresh=True)
        return
    before = ""
    while (facts := progress_of(path)) and facts["working"]:
        line = progress_words(facts)
        if line != before:
            print(line, flush=True)
        before = line
        time.sleep(PAUSE)
    console.print(lines_of(path, summary(path)), highlight=False)


def watched(run: "Run") -> list[str]:
    """What is learned: by chains once there are some, before that by the search."""
    from uraenas.run.watching import searched_so_far

    with suppress(UraenasError):  # a file may just be on its way
        if losses := run.losses():
            return list(_training(losses, run.config().train.epochs))
        if (searched := searched_so_far(run)) is not None:
            return [*_search(searched), *_distribution(searched)]
    return []


def _training(losses: dict[str, list[float]], epochs: int) -> Iterator[str]:
    """The mean loss of each kind of chains, over the epochs that all of them have come to."""
    kinds: dict[str, list[list[float]]] = {}
    for chain, own in losses.items():
        kinds.setdefault(chain.rpartition("-")[0], []).append(own)
    for kind, chains in kinds.items():
        means = [fmean(values) for values in zip(*chains, strict=False)]
        through = sum(len(own) >= epochs for own in chains)
        if means:
            yield f"  {_curve(means)}  {kind}, {through} of {len(chains)} trained"


def _search(searched: "Searched") -> Iterator[str]:
    for key, words in (("validation_loss", "loss of the search"), ("entropy", "entropy")):
        values = [row[key] for row in searched.history if row.get(key) is not None]
        if values:
            yield f"  {_curve(values)}  {words}"


def _distribution(searched: "Searched") -> Iterator[str]:
    """How often each decision takes its likeliest option."""
    decisions = searched.space.decisions
    for decision, shares in zip(
        decisions[:MOST_DECISIONS], searched.distribution.shares(searched.state).tolist(), strict=False
    ):
        share, option = max(zip(shares, decision.options, strict=False))
        yield f"  {'█' * round(WIDEST * share):{WIDEST}}  {share:4.0%} {option} at {decision.name}"
    if len(decisions) > MOST_DECISIONS:
        yield f"  … {len(decisions) - MOST_DECISIONS} more decisions"


def _curve(values: Sequence[float]) -> str:
    """A line of blocks, from the first value to the last, which are named."""
    every = -(-len(values) // WIDEST)
    kept = [fmean(values[k : k + every]) for k in range(0, len(values), every)]
    low, high = min(kept), max(kept)
    scale = (len(HEIGHTS) - 1) / (high - low) if high > low else 0.0
    blocks = "".join(HEIGHTS[round((value - low) * scale)] for value in kept)
    return f"{blocks:{WIDEST}}  {values[0]:.3f} → {values[-1]:.3f}"
