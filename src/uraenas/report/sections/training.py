"""How the training loss of every chain fell."""

import math
import statistics

from uraenas.base.svg import element, join, padded, path
from uraenas.report.blocks import Figure, Grid, Note, Section
from uraenas.report.chart import Axis, Frame, draw
from uraenas.report.reading import RunFacts
from uraenas.report.style import count

Losses = dict[str, list[float]]
NAMED = 6  # chains of which all are named


def section(facts: RunFacts) -> Section:
    found = Section(
        "training",
        "Training",
        "The mean loss of every chain in every epoch. Chains of one kind should fall alike; one that stays above "
        "the others "
        "has learned less, one that breaks off has diverged. Losses of drawn architectures differ by nature.",
    )
    if figures := curves(facts.losses, facts.data.example):
        found.blocks.append(Grid(figures))
    else:
        found.blocks.append(Note("The run directory does not hold the losses of its chains (training.json)."))
    return found


def curves(losses: Losses, example: str) -> list[Figure]:
    """A figure for each kind of chains."""
    kinds: dict[str, Losses] = {}
    for chain, own in losses.items():
        if own:
            kinds.setdefault(chain.rpartition("-")[0], {})[chain] = own
    return [_figure(kind, chains, example) for kind, chains in sorted(kinds.items())]


def _figure(kind: str, chains: Losses, example: str) -> Figure:
    values = [loss for own in chains.values() for loss in own if math.isfinite(loss)]
    low, high = padded(values)
    epochs = max(map(len, chains.values()))
    step = max(1, -(-epochs // 6))
    x = Axis("epoch", 0.7, epochs + 0.3, lambda v: f"{v:.0f}", range(1, epochs + 1, step))
    least = max(low, 0.0) if min(values) >= 0 else low  # that of a density may be below 0
    frame = Frame(x, Axis("", least, high))
    lines = []
    for own in chains.values():
        places = [(frame.across(k + 1), frame.up(loss)) for k, loss in enumerate(own)]
        lines.append(path(places, "thin"))
    shown = range(0, epochs, max(1, epochs // 100))
    tips = [_tip(epoch, {c: own[epoch] for c, own in chains.items() if epoch < len(own)}) for epoch in shown]
    bands = frame.bands([epoch + 1 for epoch in shown], tips)
    content = join([frame.axes(), element("g", *lines, class_="ink"), bands])
    n = f"nats per {example} · n = {count(len(chains), 'chain')}, a line each"
    last = ", ".join(f"{chain} {own[-1]:.3f}" for chain, own in chains.items())
    return draw(
        f"loss-{kind}", f"Training loss, {kind}", n, frame.figure_height, content, summary=f"Last: {last}"
    )


def _tip(epoch: int, losses: dict[str, float]) -> str:
    """The loss of each chain, or of many their mean and which have the lowest and the highest."""
    order = sorted(losses, key=lambda chain: (math.isnan(losses[chain]), losses[chain]))
    named = list(losses) if len(losses) <= NAMED else [order[0], order[-1]]
    tip = f"epoch {epoch + 1}" + "".join(f"\n{chain}\t{losses[chain]:.4f}" for chain in named)
    return tip + (
        f"\nmean of {len(losses)}\t{statistics.fmean(losses.values()):.4f}" if len(losses) > 1 else ""
    )
