"""report.html: one page that needs nothing else, for one run or for several side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup

from uraenas.base.errors import UraenasError
from uraenas.data.dataset import LabelledImages
from uraenas.report.blocks import Section
from uraenas.report.compare import comparison
from uraenas.report.reading import RunFacts, read
from uraenas.report.sections import (
    architecture,
    classes,
    cost,
    headline,
    images,
    members,
    methods,
    numbers,
    outside,
    promises,
    provenance,
    reliability,
    shift,
    size,
)
from uraenas.report.style import colour, count
from uraenas.run.directory import Run


@dataclass(frozen=True)
class RunPart:
    """A run's share of the page."""

    name: str
    facts: RunFacts
    prefix: str  # of its anchors
    summary: str
    colour: str  # of the method the tiles are about
    tiles: list[headline.Tile]
    sections: list[Section]


def build(
    sources: Sequence[tuple[Run, LabelledImages | None]],
    against: str = "",
    methods: Sequence[Sequence[str]] = (),
) -> str:
    """The page of these runs, each with its labelled test set; without one, what needs labels is left out.

    Differences are shown to the method `against`, or to the baseline of each run's settings. Of each run these
    methods are shown, where there are any, or else all.
    """
    if not sources:
        raise UraenasError("a report needs at least one run")
    chosen = methods or [()] * len(sources)
    return render(
        [read(run, test, against, these) for (run, test), these in zip(sources, chosen, strict=True)]
    )


def write(run: Run, test: LabelledImages | None, against: str = "") -> Path:
    """Write report.html of a run into its directory."""
    run.write_text("report.html", build([(run, test)], against))
    return run.path / "report.html"


def render(runs: Sequence[RunFacts]) -> str:
    """The HTML of the page."""
    parts = [_part(facts, f"run{k + 1}-" if len(runs) > 1 else "") for k, facts in enumerate(runs)]
    title = "uraenas · " + ", ".join(facts.name for facts in runs)
    html = _template().render(
        title=title,
        style=Markup(_file("page.css")),
        script=Markup(_file("page.js")),
        parts=parts,
        compared=comparison(runs) if len(runs) > 1 else None,
    )
    return html.lstrip()  # the doctype comes first


def _part(facts: RunFacts, prefix: str) -> RunPart:
    tiles = headline.tiles(facts)
    return RunPart(
        facts.name, facts, prefix, _summary(facts), colour(facts.primary), tiles, sections_of(facts)
    )


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
        members.uncertainty(facts),
        numbers.unsure(facts),
        cost.section(facts),
        provenance.section(facts),
    ]


def _of_classes(facts: RunFacts) -> list[Section]:
    return [
        methods.section(facts),
        size.section(facts),
        shift.section(facts),
        outside.section(facts),
        reliability.section(facts),
        promises.section(facts),
        classes.section(facts),
        architecture.section(facts),
        members.disagreement(facts),
        members.uncertainty(facts),
        images.section(facts),
        cost.section(facts),
        provenance.section(facts),
    ]


def _summary(facts: RunFacts) -> str:
    dataset = facts.rows[0].dataset
    height, width, channels = facts.data.image
    if (height, width) == (1, 1):  # rows of a table
        words = [f"Table: {dataset}", count(channels, "input")]
    else:
        words = [f"Images: {dataset}", f"{height} × {width} × {channels}"]
    words[-1] += f", {count(len(facts.classes), 'class')}" if facts.classes else ", a number to predict"
    words.append(
        f"{facts.data.training_images:,} for training, {facts.data.held_out_images:,} held out, "
        f"{facts.data.test_images:,} for testing"
    )
    words.append(count(len(facts.methods), "method"))
    words.append(f"seed {facts.rows[0].seed}")
    return " · ".join(words)


@cache
def _file(name: str) -> str:
    return resources.files("uraenas.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_file("page.html"))
