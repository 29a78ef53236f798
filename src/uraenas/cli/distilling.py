"""The command that makes one network of an ensemble."""

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from uraenas.cli.options import Assignments
from uraenas.cli.places import LOCAL, On, workplace_of
from uraenas.cli.printing import AsJson, bars, console, note, shown
from uraenas.cli.runs import changes_of
from uraenas.cli.stopping import working_in


def distil(
    path: Annotated[Path, typer.Argument(help="A run directory, or a pretrained run: the teacher.")],
    out: Annotated[Path, typer.Option("--out", help="Directory of the new run.")],
    into: Annotated[
        str,
        typer.Option(
            "--into", help="The method that learns; drnas: one network of the expected architecture."
        ),
    ] = "drnas",
    of: Annotated[str, typer.Option("--of", help="The teacher's method; default: as predict has it.")] = "",
    split: Annotated[
        bool,
        typer.Option(
            "--split", help="A head for each of the teacher's members: keeps uncertainty by source."
        ),
    ] = False,
    assignments: Assignments = [],  # noqa: B006 (typer reads it, nobody changes it)
    on: On = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Train one network on what an ensemble says of the training images; goes on where it was cut off.

    The result is a run like any other. Labels of training images are not used, those of test images only to measure.
    """
    from uraenas import report
    from uraenas.run.directory import Run
    from uraenas.run.pipeline import Pipeline
    from uraenas.run.teaching import Teaching, compare, distilling

    source, workplace = Run.find(path), workplace_of(on)
    changes = changes_of("", assignments)
    config = distilling(source, into, of, split, changes)
    with bars(quiet=as_json) as progress:
        search_of = source if config.search is not None and source.has_search else None
        pipeline = Pipeline.start(out, config, progress, search_of=search_of, given=changes)
        pipeline.place = workplace
        with working_in(pipeline.run), closing(workplace):
            note(pipeline.notes(), as_json, pipeline.run)
            pipeline.train(pipeline.search())
            pipeline.evaluate()
            report.write(pipeline.run, pipeline.measured.test)
            teaching = Teaching.of(pipeline.config)
            assert teaching is not None
            found = compare(pipeline.run, teaching, pipeline.config.methods[0], pipeline.measured.test)
    if as_json:
        print(json.dumps({"run": str(pipeline.run.path), **teaching.facts, **found}))
        return
    part = "test" if pipeline.config.evaluate.part == "test" else "held-out"
    of = f"{found['images']:,} {part} images"
    console.print(_table(found, of, teaching.method, pipeline.config.methods[0]))
    console.print(f"run: {shown(str(pipeline.run.path))}", highlight=False)


def _table(found: dict[str, Any], of: str, teacher: str, student: str) -> Table:
    """Both side by side, and how far apart they are."""
    words = f"same class {found['same_class']:.1%}, KL {found['kl']:.4f} nats"
    scaled = "accuracy, nll and ece are temperature-scaled, all else is as predicted"
    table = Table(title=f"{of}: {words}; {scaled}")
    for name in ("", f"teacher ({teacher})", f"student ({student})", "rank correlation"):
        table.add_column(name, justify="left" if not name else "right")
    for key, own in found["teacher"].items():
        related = found["correlation"].get(key)
        digits = ",d" if key == "parameters" else ".4f"
        cells = [f"{value:{digits}}" for value in (own, found["student"][key])]
        table.add_row(key, *cells, "" if related is None else f"{related:.2f}")
    return table
