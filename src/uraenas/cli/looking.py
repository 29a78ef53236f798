"""Commands that look: at a run, at what there is to choose from, at how fast this machine is."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from uraenas.base.parts import values_of
from uraenas.base.words import printable
from uraenas.cli.printing import AsJson, console, outside_table, shown
from uraenas.cli.runs import PresetOption, RunPath
from uraenas.run.presets import PRESETS


def show(path: RunPath, as_json: AsJson = False) -> None:
    """Say what a run is, how far it has come, and which members it has."""
    from uraenas.run.directory import Run
    from uraenas.run.show import summary

    run = Run.find(path)
    facts = summary(run)
    if as_json:
        print(json.dumps(facts, default=asdict))
        return
    heading = f"[bold]{shown(str(path))}[/]: {shown(facts['dataset'])}, seed {facts['seed']}"
    console.print(heading, highlight=False)
    if run.is_pretrained:
        console.print("  pretrained: comes with the package, ready to predict", highlight=False)
    else:
        for stage, state in facts["stages"].items():
            console.print(f"  {stage:9} {state}", highlight=False)
    if facts["outside"]:
        console.print(outside_table(facts["outside"]))
    for method, rows in facts["members"].items():
        console.print(f"[bold]{shown(method)}[/]", highlight=False)
        for number, row in enumerate(rows):  # whole lines, so that genotypes can be copied
            mean = f"mean of {row['samples']}, " if row["samples"] > 1 else ""
            chain = printable(row["chain"])
            print(f"  {number:3} {chain:20} {mean}epoch {row['epoch']:<4} {row['architecture']}")


def list_names(preset_name: PresetOption = "digits", as_json: AsJson = False) -> None:
    """Name presets, methods with their settings, datasets, pretrained runs, shifts and suites, spaces and kinds."""
    from uraenas.architectures import DISTRIBUTIONS
    from uraenas.data import DATASETS
    from uraenas.data.augment import AUGMENTATIONS
    from uraenas.learning.loops import LOOPS
    from uraenas.learning.methods import METHODS
    from uraenas.learning.recipes import RECIPES
    from uraenas.learning.sources import SOURCES
    from uraenas.run.config import preset
    from uraenas.run.directory import pretrained_names
    from uraenas.shifts import SHIFTS, SUITES
    from uraenas.spaces import SPACES
    from uraenas.weights import WEIGHTS

    config = preset(preset_name)
    of_methods = {name: config.only(name).values for name in METHODS}
    shared = {key for key in config.values if all(key in own for own in of_methods.values())}
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
        print(json.dumps({**names, **facts, "settings": of_methods}, default=list))
        return
    for kind, values in names.items():
        console.print(f"[bold]{kind}[/]: {', '.join(values)}", highlight=False)
    for kind, table in tables.items():
        console.print(f"[bold]{kind}[/]", highlight=False)
        for name, part in table.items():
            console.print(f"  {name:16} {part.about}", highlight=False)
    _print_settings(
        f"settings of all methods, with the values of preset {preset_name}", config.values, shared
    )
    for name, row in METHODS.items():
        own = of_methods[name]
        title = f"{name}: {row.source} architectures, {row.weights} weights"
        title += "" if row.recipes == "same" else f", {row.recipes} recipes"
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
    chosen = set(keys) - {"methods"}
    console.print(f"[bold]{title}[/]", highlight=False)
    for key in (key for key in values if key in chosen):
        value = values[key]
        words = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        console.print(f"  {key:36} {words}", highlight=False, markup=False)


def bench(
    rounds: Annotated[int, typer.Option("--rounds", min=2, help="Alternating rounds of each case.")] = 5,
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
    for row in measure(engine, standard_size(engine), rounds):
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
