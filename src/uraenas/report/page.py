"""report.html: one page that needs nothing else, for one run or for several side by side."""

import base64
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from uraenas.base.errors import UraenasError, unknown
from uraenas.data.dataset import LabelledImages
from uraenas.engine.workers import Workers
from uraenas.report.blocks import Section, Tile
from uraenas.report.compared import comparison
from uraenas.report.entries import labels_of
from uraenas.report.reading import RunFacts, read
from uraenas.report.sections import (
    architecture,
    classes,
    cost,
    guarantees,
    headline,
    images,
    members,
    methods,
    numbers,
    outside,
    provenance,
    reliability,
    rows,
    shift,
    size,
    training,
)
from uraenas.report.style import colour, colours_of, count, listed
from uraenas.report.table import require_one_kind
from uraenas.run.directory import Run

KINDS = {"image": "Images", "row": "Table"}


@dataclass(frozen=True)
class RunPart:
    """A run's share of the page."""

    name: str
    prefix: str  # of its anchors
    summary: str
    primary: str  # the method the tiles are about
    colour: str  # of it
    tiles: list[Tile]
    sections: list[Section]
    packed: str = ""  # of several runs: the share, to be unpacked when a reader opens it


def build(
    sources: Sequence[tuple[Run, LabelledImages | None]],
    against: str = "",
    methods: Sequence[Sequence[str]] = (),
    paper: bool = False,
    command: str = "",
) -> str:
    """The page of these runs, each with its labelled test set; without one, what needs labels is left out.

    Differences are shown to the method `against`, or to the baseline of each run's settings. Of each run these
    methods are shown, where there are any, or else all. `paper` puts the paper's table beside that of several runs;
    `command` is what the page says it was made by.
    """
    if not sources:
        raise UraenasError("a report needs at least one run")
    chosen = methods or [()] * len(sources)
    with Workers().threads():
        facts = [
            read(run, test, against, these, lacking=len(sources) > 1 and ":" not in against)
            for (run, test), these in zip(sources, chosen, strict=True)
        ]
        if against and not any(one.against for one in facts):
            names = dict.fromkeys(name for one in facts for name in one.sizes)
            raise unknown("method of these runs", against, names)
        require_one_kind([(str(one.run.path), one.columns) for one in facts])
        return render(facts, against, paper, command)


def write(run: Run, test: LabelledImages | None, against: str = "") -> Path:
    """Write report.html of a run into its directory."""
    run.write_text("report.html", build([(run, test)], against, command=f"uraenas report {run.quoted}"))
    return run.path / "report.html"


def render(runs: Sequence[RunFacts], against: str = "", paper: bool = False, command: str = "") -> str:
    """The HTML of the page."""
    with colours_of(name for facts in runs for name in facts.sizes):
        names = labels_of(runs)
        several = len(runs) > 1
        parts = [_part(facts, names[k], f"run{k + 1}-" if several else "") for k, facts in enumerate(runs)]
        title = "uraenas · " + ", ".join(names)
        return finished(
            title=title,
            heading=f"{len(runs)} runs compared" if several else names[0],
            parts=parts,
            compared=comparison(runs, against, paper) if several else None,
            runs=", ".join(names),
            command=command,
        )


def finished(refresh: int = 0, **content: object) -> str:
    """The page with this content; `refresh` is after how many seconds a browser should look again."""
    html = _template("page.html").render(
        style=Markup(_file("page.css")),
        script=Markup(_file("page.js")),
        made=time.strftime("%Y-%m-%d %H:%M"),
        refresh=refresh,
        **content,
    )
    return html.lstrip()  # the doctype comes first


def _part(facts: RunFacts, name: str, prefix: str) -> RunPart:
    found = (facts.primary, colour(facts.primary), headline.tiles(facts), sections_of(facts))
    part = RunPart(name, prefix, _summary(facts), *found)
    if not prefix:
        return part
    inside = str(_template("parts.html").module.of_run(part))  # type: ignore[attr-defined]
    packed = base64.b64encode(zlib.compress(inside.encode(errors="backslashreplace"), 6)).decode()
    return replace(part, packed=packed)


def sections_of(facts: RunFacts) -> list[Section]:
    """Those of its target."""
    return _of_classes(facts) if facts.classes else _of_numbers(facts)


def _of_numbers(facts: RunFacts) -> list[Section]:
    return [
        methods.section(facts),
        size.section(facts),
        numbers.observed(facts),
        numbers.intervals(facts),
        architecture.section(facts),
        training.section(facts),
        members.uncertainty(facts),
        rows.drift(facts),
        rows.unsure(facts),
        cost.section(facts),
        provenance.section(facts),
    ]


def _of_classes(facts: RunFacts) -> list[Section]:
    return [
        methods.section(facts),
        size.section(facts),
        *_elsewhere(facts),
        reliability.section(facts),
        guarantees.section(facts),
        classes.section(facts),
        architecture.section(facts),
        training.section(facts),
        members.disagreement(facts),
        members.uncertainty(facts),
        *_looked_at(facts),
        cost.section(facts),
        provenance.section(facts),
    ]


def _elsewhere(facts: RunFacts) -> list[Section]:
    """Corruptions and foreign sets are those of images."""
    return [] if facts.data.is_table else [shift.section(facts), outside.section(facts)]


def _looked_at(facts: RunFacts) -> list[Section]:
    return [rows.drift(facts), rows.unsure(facts)] if facts.data.is_table else [images.section(facts)]


def _summary(facts: RunFacts) -> str:
    dataset = facts.rows[0].dataset
    height, width, channels = facts.data.image
    size = count(channels, "input") if facts.data.is_table else f"{height} × {width} × {channels}"
    words = [f"{KINDS[facts.data.example]}: {dataset}", f"{size}, {_predicted(facts)}"]
    held_out = (
        f"{facts.data.held_out_images:,} held out" if facts.data.held_out_images else "held out in turn"
    )
    held_out += f", {facts.data.apart_images:,} apart" if facts.data.apart_images else ""
    words.append(
        f"{facts.data.training_images:,} for training, {held_out}, {facts.data.test_images:,} for testing"
    )
    words.append(count(len(facts.methods), "method"))
    words.append(f"seed {facts.rows[0].seed}")
    return " · ".join(words)


def _predicted(facts: RunFacts) -> str:
    if facts.classes:
        return count(len(facts.classes), "class")
    targets = facts.data.targets
    return f"{len(targets)} numbers to predict: {listed(targets)}" if targets else "a number to predict"


@cache
def _file(name: str) -> str:
    return resources.files("uraenas.report").joinpath(name).read_text(encoding="utf-8")


def _template(name: str) -> jinja2.Template:
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    """One for all templates: what one takes from another is compiled once."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(words: str) -> Markup:
    """Lines may end between the operations of an architecture, which is copied without the breaks."""
    return escape(words).replace("|", Markup("|<wbr>"))
