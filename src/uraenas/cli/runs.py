"""Commands about runs: make one, go on with one, look at one."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from uraenas.cli.printing import AsJson, bars, console, methods_table, note, say
from uraenas.cli.stopping import heed, working_in
from uraenas.errors import UraenasError, unknown
from uraenas.presets import PRESETS

if TYPE_CHECKING:
    from uraenas.architecture import ArchitectureDistribution
    from uraenas.stages import Pipeline

RunPath = Annotated[Path, typer.Argument(help="A run directory.")]
PresetOption = Annotated[str, typer.Option("--preset", help=f"Settings to start from: {', '.join(PRESETS)}.")]
MethodsOption = Annotated[
    str, typer.Option("--methods", help="Comma-separated; default: those of the preset.")
]
SetOption = Annotated[
    list[str], typer.Option("--set", help="key=value; repeatable. `uraenas list` names the keys.")
]


def run(
    preset_name: PresetOption = "digits",
    methods: MethodsOption = "",
    assignments: SetOption = [],  # noqa: B006 (typer reads it, nobody changes it)
    out: Annotated[Path | None, typer.Option("--out", help="Run directory; default: runs/<preset>.")] = None,
    search_of: Annotated[
        Path | None,
        typer.Option("--search-of", help="Take the search of this run instead of searching; it must fit."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Search, train, evaluate and report; goes on where an earlier call was cut off."""
    from uraenas.config import override, parse_assignments, preset
    from uraenas.run import Run
    from uraenas.stages import Pipeline

    changes: dict[str, Any] = dict(parse_assignments(assignments))
    if methods:
        changes["methods"] = methods
    config = override(preset(preset_name), changes)
    with bars(quiet=as_json) as progress:
        source = None if search_of is None else Run.find(search_of)
        pipeline = Pipeline.start(out or Path("runs") / preset_name, config, progress, search_of=source)
        with working_in(pipeline.run):
            note(pipeline.notes(), as_json, pipeline.run)
            distribution = pipeline.search()
            if not config.train.genotype:
                note(_on_the_search(distribution), as_json, pipeline.run)
            pipeline.train(distribution)
            metrics = pipeline.evaluate()
            pipeline.report()
    _print_result(pipeline, metrics, as_json)


def _on_the_search(distribution: "ArchitectureDistribution | None") -> list[str]:
    """A warning where the networks that all others are held against would hardly be networks."""
    if distribution is None:
        return []
    expected = distribution.expected_genotype()
    if len(expected.live_edges) > 2:
        return []
    return [
        f"the expected architecture {expected} has {len(expected.live_edges)} of 6 edges alive: methods that use it "
        "(drnas, uraenas-w, deep-ensemble, snapshot) will be weak; search longer, or on more images"
    ]


def search(path: RunPath, as_json: AsJson = False) -> None:
    """Learn the architecture distribution of a run."""
    with _opened(path, as_json) as pipeline:
        distribution = pipeline.search()
    if distribution is None:
        say("no method of this run needs a search", as_json, {})
        return
    genotype = str(distribution.expected_genotype())
    say(
        f"expected genotype {genotype}",
        as_json,
        {"genotype": genotype, "concentration": distribution.concentration.tolist()},
    )


def train(path: RunPath, as_json: AsJson = False) -> None:
    """Train the members of a run (searching first, if that is not done)."""
    with _opened(path, as_json) as pipeline:
        pipeline.train(pipeline.search())
        sizes = {name: len(pipeline.run.ensemble(name)) for name in pipeline.config.methods}
    say("\n".join(f"{name}: {size} members" for name, size in sizes.items()), as_json, {"members": sizes})


def evaluate(path: RunPath, as_json: AsJson = False) -> None:
    """Measure the trained members of a run."""
    with _opened(path, as_json) as pipeline:
        metrics = pipeline.evaluate()
    _print_result(pipeline, metrics, as_json)


def make_report(
    runs: Annotated[
        list[str],
        typer.Argument(help="One run directory, or several to be compared; RUN:METHOD,METHOD picks methods."),
    ],
    form: Annotated[str, typer.Option("--format", help="html, md, csv or latex.")] = "html",
    calibration: Annotated[
        str, typer.Option("--calibration", help="For tables: raw or temperature.")
    ] = "raw",
    intervals: Annotated[
        bool, typer.Option("--intervals", help="For tables: add bootstrap intervals.")
    ] = False,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            help="Show paired differences to this method, or to RUN:METHOD; in tables nothing else.",
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File to write; default: report.html in the run, or here if of several runs or some methods; tables "
            "are printed.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write report.html of one run, a page that compares several, or the table of methods for a paper."""
    from uraenas import report
    from uraenas.evaluate import CALIBRATIONS
    from uraenas.files import write_bytes
    from uraenas.run import Run
    from uraenas.stages import Pipeline

    if calibration not in CALIBRATIONS:
        raise unknown("calibration", calibration, CALIBRATIONS)
    if form not in ("html", *report.formats.FORMATS):
        raise unknown("format", form, ("html", *report.formats.FORMATS))
    picks = [_picked(text) for text in runs]
    paths, methods = [path for path, _ in picks], [these for _, these in picks]
    named = {path.resolve().name: path for path in paths}
    name, _, method = against.rpartition(":")
    if name in named and not Path(name).exists():
        against = f"{named[name]}:{method}"  # as the page calls the runs it compares
    if form != "html":
        found = [report.Picked(Run(path), these) for path, these in picks]
        rows = [(str(one.run.path), one.differences(against) if against else one.rows) for one in found]
        if against and not any(of_run for _, of_run in rows):
            raise UraenasError(f"there are no differences to {against}: it is the only method shown")
        contents = report.formats.Contents(calibration, intervals, against, report.alike(found))
        text = report.formats.write(form, rows, contents)
        if out is None:
            print(text, end="")
            return
    elif len(paths) == 1 and not methods[0] and out is None:
        with _opened(paths[0], as_json) as pipeline:
            written = pipeline.report(against)
        say(f"wrote {written}", as_json, {"report": str(written)})
        return
    else:
        pipelines = [Pipeline.resume(path) for path in paths]
        sources = [(pipeline.run, pipeline.task.dataset.test) for pipeline in pipelines]
        text = report.build(sources, against, methods)
    written = out or Path("report.html")
    write_bytes(written, text.encode())
    say(f"wrote {written}", as_json, {"report": str(written)})


def _picked(text: str) -> tuple[Path, tuple[str, ...]]:
    """A run directory, and the methods that RUN:METHOD,METHOD picks of it."""
    path, colon, names = text.rpartition(":")
    if not colon or Path(text).exists():
        return Path(text), ()
    return Path(path), tuple(dict.fromkeys(names.split(",")))


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


def export(
    path: RunPath,
    out: Annotated[Path, typer.Option("--out", help="Directory to write; it must be new or empty.")],
    methods: Annotated[
        str, typer.Option("--methods", help="Comma-separated; default: all that are trained.")
    ] = "",
    full_precision: Annotated[
        bool, typer.Option("--full-precision", help="Keep weights as they are, twice as large.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a small copy of a run: members in half precision and what is known of them, without checkpoints."""
    from uraenas import handover
    from uraenas.run import Run

    names = [name.strip() for name in methods.split(",") if name.strip()]
    heed(signal.SIGTERM)  # what is unfinished is removed
    copy = handover.export(Run.find(path), out, names, half=not full_precision)
    size = sum(file.stat().st_size for file in copy.path.rglob("*") if file.is_file())
    facts = {"run": str(copy.path), "methods": copy.trained, "bytes": size}
    say(f"wrote {copy.path}: {', '.join(copy.trained)}, {size / 1e6:.1f} MB", as_json, facts)


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


def list_names(preset_name: PresetOption = "digits", as_json: AsJson = False) -> None:
    """Name the presets, methods, datasets, pretrained runs, shifts, and the settings of a preset."""
    from uraenas.config import flatten, preset
    from uraenas.data import DATASETS
    from uraenas.methods import METHODS
    from uraenas.run import pretrained_names
    from uraenas.shifts import SHIFTS

    values = flatten(preset(preset_name))
    names = {
        "presets": list(PRESETS),
        "methods": list(METHODS),
        "datasets": list(DATASETS),
        "pretrained": pretrained_names(),
        "shifts": list(SHIFTS),
        "settings": values,
    }
    if as_json:
        print(json.dumps(names, default=list))
        return
    for kind in ("presets", "methods", "datasets", "pretrained", "shifts"):
        console.print(f"[bold]{kind}[/]: {', '.join(names[kind])}", highlight=False)
    settings = Table(
        "setting",
        "value",
        title=f"settings for --set, with the values of the preset {preset_name}",
        title_justify="left",
        box=None,
    )
    for key, value in values.items():
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        settings.add_row(key, shown)
    console.print(settings)


@contextmanager
def _opened(path: Path, as_json: bool) -> Iterator["Pipeline"]:
    from uraenas.stages import Pipeline

    with bars(quiet=as_json) as progress:
        pipeline = Pipeline.resume(path, progress)
        with working_in(pipeline.run):
            yield pipeline


def _print_result(pipeline: "Pipeline", metrics: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"run": str(pipeline.run.path), **metrics}))
        return
    dataset = pipeline.task.dataset
    for calibration, words in (
        ("raw", "as predicted"),
        ("temperature", "temperature-scaled on held-out images"),
    ):
        title = f"{escape(dataset.name)}, {len(dataset.test):,} test images, {words}"
        console.print(methods_table(metrics, calibration, title))
    if others := [name for name in pipeline.run.trained if name not in pipeline.config.methods]:
        line = f"trained in this run, too, but not asked for: {', '.join(others)} (--methods)"
        console.print(line, highlight=False)
    console.print(f"metrics: {escape(str(pipeline.run.path / 'metrics.json'))}", highlight=False)
    if pipeline.run.has("report.html"):
        console.print(f"report:  {escape(str(pipeline.run.path / 'report.html'))}", highlight=False)
