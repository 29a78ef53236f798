"""The command that reports: a page of a run, a page that compares several, or a table of methods."""

import gc
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uraenas.base.errors import UraenasError, unknown
from uraenas.base.words import printable
from uraenas.cli.printing import AsJson, note, say

if TYPE_CHECKING:
    from uraenas.data.dataset import Dataset, LabelledImages
    from uraenas.data.settings import DataSettings
    from uraenas.report import Picked
    from uraenas.report.formats import Contents
    from uraenas.run.directory import Run

Pick = tuple[Path, tuple[str, ...]]  # a run, and the methods that are picked of it; none: all


@contextmanager
def _without_collecting() -> Iterator[None]:
    """PyTorch and eight runs are half a million objects and no garbage, so none is looked for."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # or they would be looked through now
        gc.enable()


@_without_collecting()
def make_report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="A run directory, or several to be compared, or one that holds them; RUN:METHOD,METHOD picks methods."
        ),
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
    shifted: Annotated[
        str,
        typer.Option(
            "--shifted",
            help="For tables: which mean of the suite cAcc, cECE and cNLL are, say mean15; default: the widest.",
        ),
    ] = "",
    over_seeds: Annotated[
        bool,
        typer.Option(
            "--over-seeds",
            help="For tables: each method's mean ± standard deviation over runs that differ in their seed alone.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File to write; default: report.html in the run, or here if of several runs or some methods; tables "
            "are printed.",
        ),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="On a page of several runs: show the paper's table, too.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Write the page of a run in progress again and again until the run is over."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write report.html of one run, a page that compares several, or the table of methods for a paper."""
    from uraenas.base.files import write_bytes
    from uraenas.evaluation import CALIBRATIONS
    from uraenas.report.formats import FORMATS, Contents

    if calibration not in CALIBRATIONS:
        raise unknown("calibration", calibration, CALIBRATIONS)
    if form not in ("html", *FORMATS):
        raise unknown("format", form, ("html", *FORMATS))
    if form == "html" and over_seeds:
        raise UraenasError(
            "--over-seeds is for tables (--format md, csv or latex); a page of such runs has it of itself"
        )
    if form == "html" and shifted:
        raise UraenasError("--shifted is for tables (--format md, csv or latex); a page has the widest mean")
    picks = [one for text in runs for one in _of_directory(*_picked(text), as_json)]
    against = _as_path(against, [path for path, _ in picks])
    if form == "html":
        written = out or (picks[0][0] if _is_one_run(picks) else Path()) / "report.html"
        if follow:
            _follow(picks[0][0], written)
        text = _page(picks, against, as_json, paper)
    else:
        asked = Contents(calibration, intervals, against, shifted=shifted, over_seeds=over_seeds)
        text = _table(picks, form, asked, as_json)
        if out is None:
            say(text.rstrip("\n"), as_json, {"table": text})
            return
        written = out
    write_bytes(written, text.encode(errors="backslashreplace"))  # a file's name need not be UTF-8
    say(f"wrote {written}", as_json, {"report": str(written)})


def _picked(text: str) -> Pick:
    """A run directory, and the methods that RUN:METHOD,METHOD picks of it."""
    path, colon, names = text.rpartition(":")
    if not colon or Path(text).exists():
        return Path(text), ()
    return Path(path), tuple(dict.fromkeys(names.split(",")))


def _of_directory(path: Path, methods: tuple[str, ...], quiet: bool) -> list[Pick]:
    """The run itself; of a directory of runs those that hold metrics."""
    from uraenas.run.location import is_run
    from uraenas.run.show import runs_in

    if is_run(path) or not (every := list(runs_in(path))):
        return [(path, methods)]
    measured = [run for run in every if (run / "metrics.json").exists()]
    if not measured:
        raise UraenasError(
            f"no run in {path} holds metrics yet; how far they are says: uraenas show {shlex.quote(str(path))}"
        )
    if others := [str(run.relative_to(path)) for run in every if run not in measured]:
        note([f"left out, as they hold no metrics yet: {', '.join(map(printable, others))}"], quiet)
    return [(run, methods) for run in measured]


def _is_one_run(picks: list[Pick]) -> bool:
    """And all of its methods."""
    return len(picks) == 1 and not picks[0][1]


def _as_path(against: str, paths: list[Path]) -> str:
    """RUN:METHOD with the run's path, where it is called as the page calls the runs it compares."""
    name, _, method = against.rpartition(":")
    named = {path.resolve().name: path for path in paths}
    return f"{named[name]}:{method}" if name in named and not Path(name).exists() else against


def _table(picks: list[Pick], form: str, asked: "Contents", quiet: bool) -> str:
    """The methods side by side, or their differences to one, in a form for papers and spreadsheets."""
    from uraenas.report import Picked, formats, same_shifts, same_tests, why_no_mean
    from uraenas.run.directory import Run

    found = [Picked(Run(path), methods) for path, methods in picks]
    against = asked.against
    if asked.over_seeds and asked.with_intervals:
        raise UraenasError("--over-seeds shows values and their spread: leave out --against and --intervals")
    if asked.over_seeds and (why := why_no_mean(found)):
        raise UraenasError(f"there is no mean over seeds: {why}")
    rows = [
        (printable(str(one.run.path)), one.differences(against) if against else one.rows) for one in found
    ]
    if against and not any(of_run for _, of_run in rows):
        raise UraenasError(f"there are no differences to {against}: it is the only method shown")
    if not any(row.calibration == asked.calibration for _, of_run in rows for row in of_run):
        raise UraenasError(
            f"nothing was measured with {asked.calibration}; run: uraenas evaluate RUN --set "
            f"evaluate.test_time={asked.calibration}"
        )
    competing = same_tests(found)
    asked = replace(asked, competing=competing, competing_shifted=competing and same_shifts(found))
    text = formats.write(form, rows, asked)
    note([words for one in found if (words := _over_targets(one))], quiet)
    return text


def _over_targets(one: "Picked") -> str:
    """What values of several targets are."""
    if one.data is None or not one.data.targets:
        return ""
    return (
        f"{one.run.path}: means over {len(one.data.targets)} targets, each in units of its standard deviation in "
        "training; metrics.json and the page have each by itself"
    )


def _follow(path: Path, written: Path) -> None:
    """Write the page of a run again and again while somebody works on it."""
    from uraenas.base.files import write_bytes
    from uraenas.report import build_partial
    from uraenas.report.partial import REFRESH
    from uraenas.run.directory import Run
    from uraenas.run.progress import is_worked_on

    while is_worked_on(path):
        write_bytes(
            written, build_partial(Run(path), _command(), again=True).encode(errors="backslashreplace")
        )
        note([f"wrote {written}; it is written again every {REFRESH} s until the run is over"])
        gc.collect()
        time.sleep(REFRESH)


def _command() -> str:
    """What the user typed."""
    return shlex.join(["uraenas", *sys.argv[1:]])


def _page(picks: list[Pick], against: str, quiet: bool, paper: bool) -> str:
    """The page of these runs, or of some of their methods; of one that is not measured yet, what can be told."""
    from uraenas.report import build, build_partial
    from uraenas.run.directory import Run

    run = Run(picks[0][0])
    if _is_one_run(picks) and run.exists and not run.has("metrics.json"):
        missing = f"{run.path} holds no metrics yet, so the page tells how far it has come"
        note([f"{missing}; for them, run: uraenas evaluate {run.quoted}"], quiet)
        return build_partial(run, _command())
    datasets: dict[DataSettings, Dataset] = {}  # runs of the same images load them once
    sources = [_with_test_images(path, quiet, datasets) for path, _ in picks]
    return build(sources, against, [methods for _, methods in picks], paper, _command())


def _with_test_images(
    path: Path, quiet: bool, datasets: "dict[DataSettings, Dataset]"
) -> tuple["Run", "LabelledImages | None"]:
    """A run, and its test images where the page needs them and they are at hand."""
    from uraenas.run.directory import Run

    run = Run(path)
    config = run.config()  # what cannot be read is the only line
    if not run.has_predictions:
        return run, None
    from uraenas.run.pipeline import Pipeline

    try:
        opened = Pipeline.resume(path, dataset=datasets.get(config.data))
    except UraenasError as error:
        test = _same_test_images(run)
        if test is None:
            why = str(error).removesuffix("; choose another directory (--out)")  # which nothing is written to
            note([f"the page of {path} is without what needs its test data: {why}"], quiet)
        return run, test
    datasets[config.data] = opened.task.dataset
    return run, opened.measured.test


def _same_test_images(run: "Run") -> "LabelledImages | None":
    """Those of the images that are there now, where they are the run's, though others have changed."""
    from uraenas.run.task import prepare

    known, config = run.data(), run.config()
    if known is None or config.evaluate.part != "test":
        return None
    with suppress(UraenasError):
        task = prepare(config)
        return task.dataset.test if known.tested == task.facts.tested else None
    return None
