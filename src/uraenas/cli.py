"""The command line: parses, calls, prints."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from uraenas import report
from uraenas.config import PRESETS, flatten, override, parse_assignments, preset
from uraenas.errors import UraenasError, unknown
from uraenas.stages import Pipeline, silent
from uraenas.stages import Progress as Report

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console()

RunPath = Annotated[Path, typer.Argument(help="A run directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
PresetOption = Annotated[str, typer.Option("--preset", help=f"Settings to start from: {', '.join(PRESETS)}.")]
MethodsOption = Annotated[
    str, typer.Option("--methods", help="Comma-separated; default: those of the preset.")
]
SetOption = Annotated[
    list[str], typer.Option("--set", help="key=value; repeatable. `uraenas list` names the keys.")
]


@app.command()
def run(
    preset_name: PresetOption = "digits",
    methods: MethodsOption = "",
    assignments: SetOption = [],  # noqa: B006 (typer reads it, nobody changes it)
    out: Annotated[Path | None, typer.Option("--out", help="Run directory; default: runs/<preset>.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search, train, evaluate and report; goes on where an earlier call was cut off."""
    changes: dict[str, Any] = dict(parse_assignments(assignments))
    if methods:
        changes["methods"] = methods
    config = override(preset(preset_name), changes)
    with _bars(quiet=as_json) as progress:
        pipeline = Pipeline.start(out or Path("runs") / preset_name, config, progress)
        with pipeline.run.held():
            pipeline.train(pipeline.search())
            metrics = pipeline.evaluate()
            pipeline.report()
    _print_result(pipeline, metrics, as_json)


@app.command()
def search(path: RunPath, as_json: AsJson = False) -> None:
    """Learn the architecture distribution of a run."""
    with _opened(path, as_json) as pipeline:
        distribution = pipeline.search()
    if distribution is None:
        _say("no method of this run needs a search", as_json, {})
        return
    genotype = str(distribution.expected_genotype())
    _say(
        f"expected genotype {genotype}",
        as_json,
        {"genotype": genotype, "concentration": distribution.concentration.tolist()},
    )


@app.command()
def train(path: RunPath, as_json: AsJson = False) -> None:
    """Train the members of a run (searching first, if that is not done)."""
    with _opened(path, as_json) as pipeline:
        pipeline.train(pipeline.search())
        sizes = {name: len(pipeline.run.ensemble(name)) for name in pipeline.config.methods}
    _say("\n".join(f"{name}: {size} members" for name, size in sizes.items()), as_json, {"members": sizes})


@app.command()
def evaluate(path: RunPath, as_json: AsJson = False) -> None:
    """Measure the trained members of a run."""
    with _opened(path, as_json) as pipeline:
        metrics = pipeline.evaluate()
    _print_result(pipeline, metrics, as_json)


@app.command("report")
def make_report(path: RunPath, as_json: AsJson = False) -> None:
    """Write report.html from a run's metrics."""
    with _opened(path, as_json) as pipeline:
        written = pipeline.report()
    _say(f"wrote {written}", as_json, {"report": str(written)})


@app.command("list")
def list_names(as_json: AsJson = False) -> None:
    """Name the presets, methods, datasets, shifts and settings."""
    from uraenas.config import Config
    from uraenas.data import DATASETS
    from uraenas.methods import METHODS
    from uraenas.shifts import SHIFTS

    names = {
        "presets": list(PRESETS),
        "methods": list(METHODS),
        "datasets": list(DATASETS),
        "shifts": list(SHIFTS),
        "settings": flatten(Config()),
    }
    if as_json:
        print(json.dumps(names, default=list))
        return
    for kind in ("presets", "methods", "datasets", "shifts"):
        console.print(f"[bold]{kind}[/]: {', '.join(names[kind])}", highlight=False)
    settings = Table("setting", "default", title="settings for --set", title_justify="left", box=None)
    for key, value in flatten(Config()).items():
        settings.add_row(key, str(value))
    console.print(settings)


@contextmanager
def _opened(path: Path, as_json: bool) -> Iterator[Pipeline]:
    with _bars(quiet=as_json) as progress:
        pipeline = Pipeline.resume(path, progress)
        with pipeline.run.held():
            yield pipeline


@contextmanager
def _bars(quiet: bool) -> Iterator[Report]:
    """Progress bars on standard error, so that standard output holds the result alone."""
    if quiet:
        yield silent
        return
    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(stage: str, done: float, total: float) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield progress


def _say(text: str, as_json: bool, facts: dict[str, Any]) -> None:
    print(json.dumps(facts) if as_json else text)


def _print_result(pipeline: Pipeline, metrics: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"run": str(pipeline.run.path), **metrics}))
        return
    for calibration, words in (
        ("raw", "as predicted"),
        ("temperature", "temperature-scaled on held-out images"),
    ):
        console.print(_rich_table(metrics, calibration, f"{pipeline.task.dataset.name}, {words}"))
    console.print(f"metrics: {pipeline.run.path / 'metrics.json'}", highlight=False)
    if pipeline.run.has("report.html"):
        console.print(f"report:  {pipeline.run.path / 'report.html'}", highlight=False)


def _rich_table(metrics: dict[str, Any], calibration: str, title: str) -> Table:
    lines = report.table(metrics["rows"], calibration)
    best = report.best(lines)
    shown = Table(title=title, title_justify="left")
    shown.add_column("Method")
    for title in ("Members", *(column.title for column in report.COLUMNS), report.DISAGREEMENT.title):
        shown.add_column(title, justify="right")
    for line in lines:
        cells = [
            f"[bold]{column.show(value)}[/]" if value is not None and value == top else column.show(value)
            for column, value, top in zip(report.COLUMNS, line.values, best, strict=True)
        ]
        shown.add_row(line.method, str(line.members), *cells, report.DISAGREEMENT.show(line.disagreement))
    return shown


def main() -> None:
    """Entry point: our own errors are one line on standard error and exit code 2."""
    warnings.simplefilter("default")
    try:
        code = app(standalone_mode=False)
    except UraenasError as error:
        print(f"uraenas: {error}", file=sys.stderr)
        sys.exit(2)
    except click.exceptions.NoSuchOption as error:
        print(f"uraenas: {unknown('option', error.option_name, error.possibilities or [])}", file=sys.stderr)
        sys.exit(2)
    except click.ClickException as error:
        print(f"uraenas: {error.format_message()}", file=sys.stderr)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        print("uraenas: stopped; the same command goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
