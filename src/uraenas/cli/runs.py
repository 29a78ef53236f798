"""Commands that work on a run: make one, and go on with one."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from uraenas.base.errors import UraenasError
from uraenas.cli.options import Assignments, Preset, RunPath
from uraenas.cli.places import LOCAL, On, require_work, with_note_on_place, workplace_of
from uraenas.cli.printing import (
    AsJson,
    bars,
    console,
    headings_in_words,
    methods_table,
    note,
    outside_table,
    print_plan,
    say,
    shown,
)
from uraenas.cli.stopping import working_in

if TYPE_CHECKING:
    from uraenas.architectures import Searched
    from uraenas.evaluation import Metrics
    from uraenas.run.budget import Planned
    from uraenas.run.directory import Run
    from uraenas.run.pipeline import Pipeline

SMALL = 0.02  # a share of the parameters that the space's largest network has beyond its smallest

Methods = Annotated[str, typer.Option("--methods", help="Comma-separated; default: those of the preset.")]


def run(
    images: Annotated[
        str,
        typer.Argument(
            help="Images to learn from, as data.name: a folder, a file, a name; default: the preset's. A table needs "
            "--preset table."
        ),
    ] = "",
    preset_name: Preset = "digits",
    methods: Methods = "",
    assignments: Assignments = [],  # noqa: B006 (typer reads it, nobody changes it)
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Run directory; default: runs/ and the images' name, or the preset's."),
    ] = None,
    search_of: Annotated[
        str,
        typer.Option(
            "--search-of",
            help="Take the search of this run instead of searching; `none`: search. Default: `cifar10`, which comes "
            "with the package, for few images that it has not seen; else `none`.",
        ),
    ] = "",
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="90s, 10m, 2h: choose epochs, members and width to be over by then."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and how long it takes; write nothing.")
    ] = False,
    skip_unreadable: Annotated[
        bool,
        typer.Option("--skip-unreadable", help="In folders, leave out image files that cannot be read."),
    ] = False,
    on: On = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Search, train, evaluate and report; goes on where an earlier call was cut off."""
    from uraenas import report
    from uraenas.run.budget import plan, seconds_of
    from uraenas.run.config import preset
    from uraenas.run.location import is_run, stored_config

    workplace = workplace_of(on)
    changes = changes_of(methods, assignments)
    if images:
        changes |= _named(images, changes)
    if skip_unreadable:
        changes["data.skip_unreadable"] = True
    place = out or Path("runs") / (
        (Path(images).stem or Path(images).resolve().name) if images else preset_name
    )
    _require_apart(place, images)
    config = preset(preset_name, changes, stored_config(place).stored if is_run(place) else None)
    source = _search_to_take(search_of, changes)
    if budget is not None:
        seconds_of(budget)  # refused at once if it is no time
    if budget is not None or dry_run:
        note(["reading the data, and timing steps for a plan"], as_json)
    with bars(quiet=as_json) as progress:
        planned = plan(place, config, progress, search_of=source, budget=budget, fixed=changes, asked=dry_run)
        planned = with_note_on_place(planned, on, budget)
        pipeline = planned.pipeline
        if dry_run:
            print_plan(planned, as_json)
            return
        pipeline.begin()
        pipeline.place = workplace
        with working_in(pipeline.run), closing(workplace):
            note([*pipeline.notes(), *planned.notes, *_on_time(planned)], as_json, pipeline.run)
            searched = pipeline.search()
            note(_on_the_search(searched), as_json, pipeline.run)
            pipeline.train(searched)
            metrics = pipeline.evaluate()
            note(pipeline.left_out, as_json, pipeline.run)
            report.write(pipeline.run, pipeline.measured.test)
    _print_result(pipeline, metrics, as_json)


def _named(images: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The images that the command's first word names; a run directory is taken for what it is."""
    if "data.name" in changes:
        raise UraenasError(f"the images are named twice: {images} and data.name={changes['data.name']}")
    if (Path(images) / "config.json").is_file():
        raise UraenasError(f"{images} is a run, not images; go on with it by the command that began it")
    return {"data.name": images}


def _require_apart(place: Path, images: str) -> None:
    """Refuse a run among folders of images, which is a class without images to the next command."""
    folder = Path(images).expanduser()
    has_classes = bool(images) and folder.is_dir() and not (folder / "train").is_dir()
    if has_classes and place.resolve().is_relative_to(folder.resolve()):
        raise UraenasError(f"{place} is among the classes of {folder}; choose a directory elsewhere (--out)")


def _search_to_take(name: str, changes: dict[str, Any]) -> "Run | Literal['usual'] | None":
    """Another run's search; where none is named and no setting is of a search, the usual one."""
    from uraenas.run.directory import Run

    if name and name != "none":
        return Run.find(name)
    return None if name or any(key.startswith("search.") for key in changes) else "usual"


def _on_time(planned: "Planned") -> list[str]:
    """How long it will take, where that is known and worth a word."""
    return [str(planned.expected)] if planned.expected and planned.expected.total >= 1 else []


def changes_of(methods: str, assignments: list[str]) -> dict[str, Any]:
    from uraenas.run.config import parse_assignments

    return {**parse_assignments(assignments), **({"methods": methods} if methods else {})}


def _on_the_search(searched: "Searched | None") -> list[str]:
    """A warning where the network that others are held against would hardly be one."""
    from uraenas.learning.methods import METHODS

    if searched is None:
        return []
    space, expected = searched.space, searched.expected
    empty = space.architecture([decision.absent or 0 for decision in space.decisions])
    least, most = space.cost(empty).parameters, space.most_parameters
    if space.cost(expected).parameters - least > SMALL * (most - least):
        return []
    weak = ", ".join(name for name, row in METHODS.items() if row.source == "expected")
    return [
        f"the expected architecture {expected} hardly has weights: methods that use it ({weak}) will be weak; search "
        "longer, or on more data"
    ]


def search(path: RunPath, on: On = LOCAL, as_json: AsJson = False) -> None:
    """Learn the architecture distribution of a run."""
    with opened(path, as_json, on) as pipeline:
        require_work(pipeline.config, on)
        searched = pipeline.search()
    if searched is None:
        say("no method of this run needs a search", as_json, {})
        return
    facts = {"architecture": str(searched.expected), searched.distribution.numbers: searched.favour.tolist()}
    say(f"expected architecture {searched.expected}", as_json, facts)


def train(path: RunPath, on: On = LOCAL, as_json: AsJson = False) -> None:
    """Train the members of a run (searching first, if that is not done)."""
    with opened(path, as_json, on) as pipeline:
        pipeline.train(pipeline.search())
        sizes = {name: len(pipeline.run.ensemble(name)) for name in pipeline.config.methods}
    say("\n".join(f"{name}: {size} members" for name, size in sizes.items()), as_json, {"members": sizes})


def evaluate(
    path: RunPath,
    assignments: Assignments = [],  # noqa: B006 (typer reads it, nobody changes it)
    on: On = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Measure the trained members of a run; --set evaluate.… measures differently than before."""
    from uraenas import report
    from uraenas.run.directory import REPORT

    with opened(path, as_json, on, changes_of("", assignments)) as pipeline:
        metrics = pipeline.evaluate()
        if pipeline.run.has(REPORT):  # of what was measured before
            report.write(pipeline.run, pipeline.measured.test)
    _print_result(pipeline, metrics, as_json)


def members(
    path: RunPath,
    out: Annotated[Path, typer.Option("--out", help="Directory of the new run.")],
    methods: Annotated[
        str, typer.Option("--methods", help="Comma-separated; default: those of the run.")
    ] = "",
    assignments: Assignments = [],  # noqa: B006 (typer reads it, nobody changes it)
    on: On = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Choose members anew from the chains of a run, without training; evaluate and report them.

    Another number or selection of members (ensemble.…), other methods of the same chains (uraenas-swa of those of
    uraenas), means of fewer samples (train.sampling.mean_of).
    """
    from uraenas import report
    from uraenas.run.config import override
    from uraenas.run.directory import Run
    from uraenas.run.pipeline import Pipeline

    source, workplace = Run(path), workplace_of(on)
    config = override(source.config(), changes_of(methods, assignments))
    with bars(quiet=as_json) as progress:
        pipeline = Pipeline.start(out, config, progress, chains_of=source)
        pipeline.place = workplace
        with working_in(pipeline.run), closing(workplace):
            pipeline.choose(pipeline.search())
            metrics = pipeline.evaluate()
            report.write(pipeline.run, pipeline.measured.test)
    _print_result(pipeline, metrics, as_json)


@contextmanager
def opened(
    path: Path, as_json: bool, on: str = LOCAL, changes: Mapping[str, Any] | None = None
) -> Iterator["Pipeline"]:
    from uraenas.run.config import override
    from uraenas.run.directory import Run
    from uraenas.run.pipeline import Pipeline

    workplace = workplace_of(on)
    with bars(quiet=as_json) as progress:
        if changes:
            pipeline = Pipeline.start(path, override(Run(path).config(), changes), progress)
        else:
            pipeline = Pipeline.resume(path, progress)
        pipeline.place = workplace
        with working_in(pipeline.run), closing(workplace):
            yield pipeline


def _print_result(pipeline: "Pipeline", metrics: "Metrics", as_json: bool) -> None:
    if as_json:
        print(json.dumps({"run": str(pipeline.run.path), **metrics.as_json()}))
        return
    from uraenas.evaluation import CALIBRATIONS, rows_of_target, separations, unbeaten
    from uraenas.run.advice import on_members

    note([*unbeaten(metrics.rows, pipeline.run.primary), *on_members(pipeline.config, metrics)])
    dataset = pipeline.measured
    of = pipeline.config.evaluate.part.replace("_", "-")
    made = {row.calibration for row in metrics.rows}
    for calibration, words in CALIBRATIONS.items():
        if calibration not in made:
            continue
        title = f"{shown(dataset.name)}, {len(dataset.test):,} {of} {dataset.example}s, {words}"
        targets = [part.column for part in dataset.target.parts] if len(dataset.target.parts) > 1 else []
        if targets:
            title += f", mean over {len(targets)} targets in units of their standard deviations"
        console.print(methods_table(metrics.rows, calibration, title))
        for target in targets:
            rows = rows_of_target(metrics.rows, target)
            console.print(methods_table(rows, calibration, f"{shown(target)}, {words}"))
    console.print(headings_in_words(methods_table(metrics.rows, "raw", "")), highlight=False)
    if apart := separations(metrics.rows):
        console.print(outside_table(apart))
    if others := [name for name in pipeline.run.trained if name not in pipeline.config.methods]:
        line = f"trained in this run, too, but not asked for: {shown(', '.join(others))} (--methods)"
        console.print(line, highlight=False)
    console.print(f"metrics: {shown(str(pipeline.run.path / 'metrics.json'))}", highlight=False)
    if pipeline.run.has("report.html"):
        console.print(f"report:  {shown(str(pipeline.run.path / 'report.html'))}", highlight=False)
