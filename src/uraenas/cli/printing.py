"""What the commands print: tables on standard output, progress bars on standard error."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from uraenas.base.progress import Lines, in_words, silent
from uraenas.base.progress import Progress as Report
from uraenas.base.words import printable

if TYPE_CHECKING:
    from uraenas.evaluation import Row, Separated
    from uraenas.run.budget import Planned
    from uraenas.run.directory import Run


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody watches; a closed stream is none."""
    return stream is not None and not stream.closed and stream.isatty()


PIPED_WIDTH = 200  # where nobody can say how wide a page is, nothing is cut
console = Console(width=None if is_terminal(sys.stdout) or os.environ.get("COLUMNS") else PIPED_WIDTH)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def shown(text: str) -> str:
    """Words from outside in a line that may have markup."""
    return escape(printable(text))


def tell(line: str) -> None:
    """One line on standard error; where nobody can read it, the work goes on."""
    with suppress(OSError, ValueError):
        print(printable(line), file=sys.stderr, flush=True)


def say(text: str, as_json: bool, facts: dict[str, Any]) -> None:
    """One result, for people or for machines."""
    print(json.dumps(facts) if as_json else "\n".join(map(printable, text.split("\n"))))


def note(lines: Sequence[str], quiet: bool = False, run: "Run | None" = None) -> None:
    """What should be known and is no error: on standard error, and in the log of a run that is worked on."""
    for line in lines:
        if run is not None:
            run.log("note", text=line)
        if not quiet:
            tell(f"note: {line}")


class TimeLeft(TimeRemainingColumn):
    """The time left of all stages; where it is not known, that of this one."""

    def render(self, task: Task) -> Text:
        left = task.fields.get("left")
        if left is None:
            return super().render(task)
        return Text("" if task.finished and left else f"{in_words(left)} left", style="progress.remaining")


@contextmanager
def bars(quiet: bool) -> Iterator[Report]:
    """Progress bars on standard error, so that standard output holds the result alone."""
    if quiet:
        yield silent
        return
    if not is_terminal(sys.stderr):
        yield Lines()
        return
    found_so_far = TextColumn("{task.fields[found]}", markup=False)
    columns = (
        TextColumn("{task.description:>9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeLeft(),
        found_so_far,
    )
    display = Progress(*columns, console=Console(stderr=True))
    tasks: dict[str, TaskID] = {}

    def progress(stage: str, done: float, total: float, left: float | None = None, found: str = "") -> None:
        if not tasks:
            display.start()  # not before: an error that comes first should be the only line
        if stage not in tasks:
            tasks[stage] = display.add_task(stage, total=total, found="")
        display.update(tasks[stage], completed=done, total=total, left=left, found=found)

    try:
        yield progress
    finally:
        if tasks:
            display.stop()


def print_plan(planned: "Planned", as_json: bool) -> None:
    """What a run would do, and how long each stage takes."""
    pipeline, expected = planned.pipeline, planned.expected
    assert expected is not None  # it was asked for
    plan, seconds = expected.plan, expected.seconds
    notes = [*pipeline.notes(), *planned.notes]
    if as_json:
        facts = {"seconds": {**seconds, "total": expected.total}, "plan": plan, "notes": notes}
        print(json.dumps({"run": str(pipeline.run.path), **facts}))
        return
    note(notes)
    members = ", ".join(f"{name} {count}" for name, count in plan["members"].items())
    sets = "set" if plan["sets"] == 1 else "sets"
    rows = (
        ("search", f"{plan['search_epochs']} {plan['search_unit']}"),
        ("train", f"{plan['chains']} chains, {plan['epochs']} epochs, {plan['steps']:,} steps each"),
        ("members", members),
        (
            "evaluate",
            f"{plan['sets']} {sets} of {len(pipeline.measured.test):,} {pipeline.measured.example}s",
        ),
    )
    table = Table(title=f"{expected}; nothing is written", title_justify="left")
    for heading in ("Stage", "What is left to do", "Time"):
        table.add_column(heading, justify="right" if heading == "Time" else "left")
    for stage, what in rows:
        table.add_row(stage, what, in_words(seconds[stage]))
    console.print(table)


MEANINGS = {  # of the headings of the table of methods
    "E": "members",
    "Acc": "accuracy in %",
    "ECE": "gap between confidence and accuracy",
    "NLL": "surprise at the truth",
    "RMSE": "root mean squared error",
    "MAE": "mean absolute error",
    "CRPS": "distance of the prediction from the truth",
    "In 90 %": "share within 90 % intervals",
    "Width 90 %": "how wide these are",
    "cAcc": "accuracy on shifted images, and so cECE, cNLL",
    "Dis": "share on which two members disagree",
}


def headings_in_words(table: Table) -> str:
    """What the columns of a table of methods are, in a line."""
    headings = (str(column.header) for column in table.columns)
    return "; ".join(f"{heading}: {MEANINGS[heading]}" for heading in headings if heading in MEANINGS)


def methods_table(rows: "Sequence[Row]", calibration: str, title: str) -> Table:
    """The table of methods in the form of the paper's Table 1, best values in bold, without empty columns."""
    from uraenas import report

    lines = report.table(rows, calibration)
    tops = (*report.best(lines), None)
    columns = (*report.columns_of(lines), report.DISAGREEMENT)
    values = [(*line.values, line.disagreement) for line in lines]
    measured = [k for k in range(len(columns)) if any(own[k] is not None for own in values)]
    table = Table(title=title, title_justify="left")
    table.add_column("Method", no_wrap=True)
    for heading in ("E", *(columns[k].title for k in measured)):
        table.add_column(heading, justify="right")
    for line, own in zip(lines, values, strict=True):
        cells = [
            f"[bold]{text}[/]" if columns[k].is_top(own[k], tops[k]) else text
            for k in measured
            for text in [columns[k].show(own[k])]
        ]
        table.add_row(line.method, str(line.members), *cells)
    return table


def outside_table(found: "Sequence[Separated]") -> Table:
    """How well each method tells images from elsewhere from the test images."""
    from uraenas.evaluation.separation import SHARES, legend

    words = legend(found, SHARES)
    table = Table(title="Images from elsewhere", title_justify="left", caption=words, caption_justify="left")
    table.add_column("Outside", overflow="fold")
    table.add_column("Method", no_wrap=True)
    for heading in ("Images", "Turned away", "False alarms", "AUROC", "FPR95"):
        table.add_column(heading, justify="right")
    for one in found:
        joined = (f"{by['foreign']:.3f}" if "foreign" in by else "–" for by in (one.auroc, one.fpr95))
        table.add_row(shown(one.other), one.method, f"{one.images:,}", *one.shares(), *joined)
    return table
