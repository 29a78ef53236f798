"""Commands that look: at a run, at what there is to choose from, at how fast this machine is."""

import json
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from uraenas.cli.printing import AsJson, console
from uraenas.cli.runs import PresetOption, RunPath
from uraenas.presets import PRESETS


def show(path: RunPath, as_json: AsJson = False) -> None:
    """Say what a run is, how far it has come, and which members it has."""
    from uraenas.overview import summary
    from uraenas.run import Run

    run = Run.find(path)
    facts = summary(run)
    if as_json:
        print(json.dumps(facts))
        return
    heading = f"[bold]{escape(str(path))}[/]: {escape(facts['dataset'])}, seed {facts['seed']}"
    console.print(heading, highlight=False)
    if run.is_pretrained:
        console.print("  pretrained: comes with the package, ready to predict", highlight=False)
    else:
        for stage, state in facts["stages"].items():
            console.print(f"  {stage:9} {state}", highlight=False)
    for method, rows in facts["members"].items():
        console.print(f"[bold]{method}[/]", highlight=False)
        for number, row in enumerate(rows):  # whole lines, so that genotypes can be copied
            mean = f"mean of {row['samples']}, " if row["samples"] > 1 else ""
            print(f"  {number:3} {row['chain']:20} {mean}epoch {row['epoch']:<4} {row['genotype']}")


def list_names(preset_name: PresetOption = "digits", as_json: AsJson = False) -> None:
    """Name the presets, methods, datasets, pretrained runs, shifts and suites of them, and the settings of a preset."""
    from uraenas.config import flatten, preset
    from uraenas.data import DATASETS
    from uraenas.methods import METHODS
    from uraenas.run import pretrained_names
    from uraenas.shifts import SHIFTS, SUITES

    values = flatten(preset(preset_name))
    names = {
        "presets": list(PRESETS),
        "methods": list(METHODS),
        "datasets": list(DATASETS),
        "pretrained": pretrained_names(),
        "shifts": list(SHIFTS),
        "suites": [*SUITES, "none"],
        "settings": values,
    }
    if as_json:
        print(json.dumps(names, default=list))
        return
    for kind in ("presets", "methods", "datasets", "pretrained", "shifts", "suites"):
        console.print(f"[bold]{kind}[/]: {', '.join(names[kind])}", highlight=False)
    settings = Table(
        "setting",
        Column("value", overflow="fold"),
        title=f"settings for --set, with the values of the preset {preset_name}",
        title_justify="left",
        box=None,
    )
    for key, value in values.items():
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        settings.add_row(key, shown)
    console.print(settings)


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
