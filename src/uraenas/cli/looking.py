"""Commands that look: at a run, at what there is to choose from, at how fast this machine is."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from uraenas.base.errors import UraenasError
from uraenas.base.parts import values_of
from uraenas.base.words import printable
from uraenas.cli.options import Preset
from uraenas.cli.printing import AsJson, console, outside_table, shown
from uraenas.cli.screen import date, lines_of, place_words, progress_words
from uraenas.run.presets import PRESETS


def show(
    path: Annotated[
        Path, typer.Argument(help="A run directory, one that holds several, or a file that export wrote.")
    ],
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on showing a run in progress until it is over.")
    ] = False,
    members: Annotated[
        bool, typer.Option("--members", help="List every member with its architecture.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a run is, how far it has come and what it has found; of a directory of runs, list them.

    Of a file that `export` wrote it says what made it.
    """
    from uraenas.run.location import found, is_run
    from uraenas.run.show import runs_in, summary

    path = found(path)
    if path.is_file() and not follow and not members:
        from uraenas.cli.exported import show_file

        show_file(path, as_json)
        return
    if not is_run(path) and (runs := list(runs_in(path))):
        _list_runs(path, runs, as_json)
        return
    if as_json:
        print(json.dumps(summary(path), default=asdict))
        return
    if follow:
        from uraenas.cli.following import follow as go_on

        go_on(path)
        return
    facts = summary(path)
    console.print(lines_of(path, facts), highlight=False)
    if facts["outside"]:
        console.print(outside_table(facts["outside"]))
    if members:
        _print_members(facts["members"])


def _print_members(members: dict[str, list[dict[str, Any]]]) -> None:
    for method, rows in members.items():
        console.print(f"[bold]{shown(method)}[/]", highlight=False)
        for number, row in enumerate(rows):  # whole lines, so that genotypes can be copied
            mean = f"mean of {row['samples']}, " if row["samples"] > 1 else ""
            chain = printable(row["chain"])
            print(f"  {number:3} {chain:20} {mean}epoch {row['epoch']:<4} {row['architecture']}")


def _list_runs(path: Path, runs: list[Path], as_json: bool) -> None:
    """A line for each run in a directory; one that cannot be read says why."""
    from uraenas.run.show import summary

    found: dict[str, Any] = {}
    for run in runs:
        try:
            found[str(run.relative_to(path))] = summary(run)
        except UraenasError as error:
            found[str(run.relative_to(path))] = {"error": str(error)}
    if as_json:
        print(json.dumps(found, default=asdict))
        return
    rows = {name: _cells(facts) for name, facts in found.items()}
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("Run", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows.values(), strict=True)]
    room = max(console.width // 3, console.width - sum(widths) - 2 * len(widths))
    for name, cells in rows.items():
        table.add_row("\n".join(map(shown, _folded(name, room))), *cells)
    console.print(table)


HEADINGS = ("Data", "Seed", "Last", "State", "Best NLL")


def _cells(facts: dict[str, Any]) -> tuple[str, ...]:
    """What stands beneath HEADINGS."""
    if "error" in facts:
        return "", "", "", shown(facts["error"]), ""
    last = date(facts["dates"]["last"])[:10] if facts["dates"] else "–"
    return shown(facts["dataset"]), str(facts["seed"]), last, _state(facts), _best(facts)


def _folded(name: str, width: int) -> list[str]:
    """Lines of at most this width, which end after /, - or _ where parts are not longer."""
    lines = [""]
    for part in re.findall("[^/_-]*[/_-]?", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        while len(part) > width:
            lines[-1:] = [part[:width], ""]
            part = part[width:]
        lines[-1] += part
    return [line for line in lines if line]


def _state(facts: dict[str, Any]) -> str:
    """How far a run has come, in a word or two."""
    progress = facts["progress"]
    if progress and progress["working"]:
        return progress_words(progress)
    reached = _reached(facts["stages"])
    return ", ".join([*reached, f"stopped at {place_words(progress)}"] if progress else reached) or "begun"


def _reached(stages: dict[str, str]) -> list[str]:
    for stage, words in (("report", "reported"), ("evaluate", "evaluated")):
        if stages[stage] == "done":
            return [words]
    trained = stages["train"].partition(";")[0]
    if not trained.startswith("0 "):
        return [f"trained {trained}"]
    return ["searched"] if stages["search"] == "done" else []


def _best(facts: dict[str, Any]) -> str:
    found = {line["method"]: line["nll"] for line in facts["metrics"] if line["nll"] is not None}
    return f"{min(found.values()):.3f} {shown(min(found, key=found.__getitem__))}" if found else "–"


def list_names(preset_name: Preset = "digits", as_json: AsJson = False) -> None:
    """Name presets, methods with their settings, datasets, pretrained runs, shifts and suites, spaces and kinds."""
    from uraenas.architectures import DISTRIBUTIONS
    from uraenas.data import DATASETS
    from uraenas.data.augment import AUGMENTATIONS
    from uraenas.learning.methods import METHODS
    from uraenas.learning.recipes import RECIPES
    from uraenas.learning.sources import SOURCES
    from uraenas.run.config import preset
    from uraenas.run.directory import pretrained_names
    from uraenas.run.schema import explanations
    from uraenas.shifts import SHIFTS, SUITES
    from uraenas.spaces import SPACES
    from uraenas.weights import WEIGHTS

    config = preset(preset_name)
    of_methods = {name: config.only(name).values for name in METHODS}
    names: dict[str, Any] = {
        "presets": list(PRESETS),
        "methods": list(METHODS),
        "datasets": list(DATASETS),
        "pretrained": pretrained_names(),
        "shifts": list(SHIFTS),
        "suites": [*SUITES, "none"],
    }
    tables = {
        "spaces (network.space)": SPACES,
        "distributions (search.distribution)": DISTRIBUTIONS,
        "sources of architectures": SOURCES,
        "recipes": RECIPES,
        "kinds of weights": WEIGHTS,
        "augmentations (train.augmentation)": AUGMENTATIONS,
    }
    if as_json:
        facts = {kind.split(" (")[0]: list(table) for kind, table in tables.items()}
        print(
            json.dumps({**names, **facts, "settings": of_methods, "explained": explanations()}, default=list)
        )
        return
    for kind, values in names.items():
        console.print(f"[bold]{kind}[/]: {', '.join(values)}", highlight=False)
    for kind, table in tables.items():
        console.print(f"[bold]{kind}[/]", highlight=False)
        for name, part in table.items():
            console.print(f"  {name:16} {part.about}", highlight=False)
    _print_all_settings(preset_name, config.values, of_methods)


def _print_all_settings(
    preset_name: str, values: dict[str, Any], of_methods: dict[str, dict[str, Any]]
) -> None:
    """Those of all methods, of each, of the search, and of distributions that are learned differently."""
    from uraenas.architectures import DISTRIBUTIONS
    from uraenas.learning.loops import LOOPS
    from uraenas.learning.methods import METHODS

    shared = {key for key in values if all(key in own for own in of_methods.values())}
    _print_settings(f"settings of all methods, with the values of preset {preset_name}", values, shared)
    for name, row in METHODS.items():
        own = of_methods[name]
        title = f"{name}: {row.source} architectures, {row.weights} weights"
        title += "" if row.recipes == "same" else f", {row.recipes} recipes"
        title += "" if row.selection == "in-turn" else f", {row.selection} choice of members"
        _print_settings(title, own, own.keys() - shared - _of_search(own))
    searching = next(own for own in of_methods.values() if _of_search(own))
    title = "settings of the search, for methods with expected or sampled architectures"
    _print_settings(title, searching, _of_search(searching))
    for name, part in DISTRIBUTIONS.items():
        own = {f"search.{name}.{key}": value for key, value in values_of(part.make(), part.settings).items()}
        if not own.keys() & searching.keys():
            _print_settings(f"with search.distribution={name}, by {part.made.loop}", own, own)
    queries = values_of(LOOPS["queries"].settings.make(), LOOPS["queries"].settings.settings)
    own = {f"search.{key}": value for key, value in queries.items()}
    _print_settings("of all that are learned by queries", own, own.keys() - {"search.distribution"})


def _of_search(values: dict[str, Any]) -> set[str]:
    return {key for key in values if key.startswith("search.")}


def _print_settings(title: str, values: dict[str, Any], keys: Iterable[str]) -> None:
    """Settings with their values, in the order of the sections."""
    from uraenas.run.schema import explanations

    chosen, told = set(keys) - {"methods"}, explanations()
    console.print(f"[bold]{title}[/]", highlight=False)
    for key in (key for key in values if key in chosen):
        value = values[key]
        words = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        console.print(f"  {key:36} {words}", highlight=False, markup=False)
        if key in told:
            console.print(Text(f"      {told[key]}", style="dim"), highlight=False)


def bench(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A task to time; may be repeated. [all]")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=2, help="Alternating rounds of each task.")] = 5,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Time the engine against the plain way, side by side."""
    from uraenas.bench import measure, standard_size
    from uraenas.engine import Engine, EngineSettings

    engine = Engine(EngineSettings(device=device))
    rows = []
    table = Table(
        *("Task", "Plain", "Engine", "Unit", "Ratio", "Spread", "Of roofline", "Memory"),
        title=f"uraenas bench on {engine.device}",
    )
    for row in measure(engine, standard_size(engine), rounds, only or ()):
        rows.append(row)
        spread = f"±{50 * row['spread']['plain']:.0f} % / ±{50 * row['spread']['engine']:.0f} %"
        speeds = (f"{row[way]:,.1f}" for way in ("plain", "engine"))
        table.add_row(row["task"], *speeds, row["unit"], f"{row['ratio']:.2f}×", spread, *_limits(row))
    if as_json:
        print(json.dumps({"rows": rows}))
    else:
        console.print(table)


def _limits(row: dict[str, Any]) -> tuple[str, str]:
    """Share of the roofline, where one is known, and peak memory."""
    share = row.get("share_of_roofline")
    return f"{100 * share:.1f} %" if share else "–", f"{row['peak_memory_gb']:.1f} GB"
