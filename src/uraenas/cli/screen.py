"""A run on one screen: what it is, how far it has come, and its headline metrics."""

import time
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from uraenas.base.progress import in_words
from uraenas.base.words import three_decimals
from uraenas.cli.printing import shown
from uraenas.run.location import PRETRAINED


def lines_of(path: Path, facts: dict[str, Any]) -> Group:
    """A run on one screen of eighty columns."""
    heading = f"[bold]{shown(str(path))}[/]: {shown(facts['dataset'])}, seed {facts['seed']}"
    parts: list[Any] = [heading]
    if dates := facts["dates"]:
        parts.append(f"  begun {date(dates['begun'])}, last worked on {date(dates['last'])}")
    if cost := facts["cost"]:
        each = ", ".join(f"{stage} {in_words(seconds)}" for stage, seconds in cost.items())
        total = in_words(sum(cost.values()))
        total += "" if facts["stages"]["evaluate"] == "done" else " so far"
        # Several workers compute at a time, and seconds of all are summed.
        several = facts["workers"] > 1
        took = f"computed for {total}, summed over {facts['workers']} workers" if several else f"took {total}"
        parts.append(f"  {took}: {each}")
    if path.parent == PRETRAINED:
        parts.append("  pretrained: comes with the package, ready to predict")
    else:
        parts += [f"  {stage:9} {state}" for stage, state in facts["stages"].items()]
    if facts["progress"]:
        parts.append(f"  [bold]{progress_words(facts['progress'])}[/]")
    if facts["metrics"]:
        of = "" if facts["part"] == "test" else "on held-out data, "
        if facts["targets"]:
            parts.append(f"  means over {facts['targets']} targets in units of their standard deviations,")
        parts += [f"  {of}as predicted, without a temperature:", _headline(facts["metrics"])]
    parts += [f"  {words}: {shown(', '.join(names))}" for words, names in _alike(facts["members"]).items()]
    return Group(*(Text.from_markup(one) if isinstance(one, str) else one for one in parts))


def _alike(members: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """The methods by how many members they have, and how different these are: one line for all that are alike."""
    found: dict[str, list[str]] = {}
    for method, own in members.items():
        distinct, chains = len({m["architecture"] for m in own}), len({m["chain"] for m in own})
        words = f"{len(own)} members of {chains} chain{'s' * (chains > 1)}"
        words += f", {distinct} architecture{'s' * (distinct > 1)}"
        found.setdefault("one member" if len(own) == 1 else words, []).append(method)
    return found


def progress_words(facts: dict[str, Any]) -> str:
    words = [place_words(facts)]
    if facts["found"]:
        words.append(shown(facts["found"]))
    if facts.get("speed") and facts["working"]:
        words.append(
            f"{facts['speed']:.3g} steps/s" if facts["stage"] == "train" else f"{facts['speed']:.3g}/s"
        )
    if "left" in facts and facts["working"]:
        words.append(f"{in_words(facts['left'])} left")
    said = "running: " if facts["working"] else f"stopped {date(facts['time'])}, at "
    return said + ", ".join(words) + ("" if facts["working"] else "; the same command goes on from there")


def place_words(facts: dict[str, Any]) -> str:
    """The stage, and how much of it is done."""
    share = 100 * facts["done"] / facts["total"] if facts["total"] else 100.0
    return f"{facts['stage']} {share:.0f} %"


def _headline(lines: list[dict[str, Any]]) -> Table:
    """Headline metrics, best in bold."""
    table = Table(box=None, padding=(0, 1), show_edge=False, pad_edge=False)
    keys = [key for key in lines[0] if key not in ("method", "members")]
    keys = [key for key in keys if any(line[key] is not None for line in lines)]
    names = {"accuracy": "Acc", "ece": "ECE", "nll": "NLL", "rmse": "RMSE", "crps": "CRPS"}
    table.add_column("  Method", no_wrap=True)
    for heading in (
        "E",
        *(("c" * k.startswith("shifted_")) + names[k.removeprefix("shifted_")] for k in keys),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    tops = {}
    for key in keys:
        values = [line[key] for line in lines if line[key] is not None]
        tops[key] = max(values) if key.endswith("accuracy") else min(values)
    for line in lines:
        cells = []
        for key in keys:
            value = line[key]
            words = "–" if value is None else three_decimals(key, value)
            if value is not None and key.endswith("accuracy"):
                words = f"{100 * value:.2f}"
            cells.append(f"[bold]{words}[/]" if value is not None and value == tops[key] else words)
        table.add_row(f"  {shown(line['method'])}", str(line["members"]), *cells)
    return table


def date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
