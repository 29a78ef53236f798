"""The command line: parses, calls, prints.

Commands import what they work with when they are called. PyTorch takes seconds, and `--help` should not.
"""

import atexit
import gc
import os
import signal
import sys
import warnings
from typing import Annotated

import typer

from uraenas.base.errors import UraenasError
from uraenas.base.versions import version_of
from uraenas.cli import data, distilling, looking, predicting, reporting, runs, serving, sharing
from uraenas.cli.printing import tell
from uraenas.cli.stopping import Stopped, heed
from uraenas.cli.streams import give_up_output, prepare_streams

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version_of("uraenas"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Joint ensembles over network architectures and weights."""


for command in (runs.run, runs.search, runs.train, runs.evaluate):
    app.command()(command)
app.command("report")(reporting.make_report)
app.command()(looking.show)
app.command()(runs.members)
app.command()(distilling.distil)
app.command()(sharing.export)
app.command()(sharing.push)
app.command()(predicting.predict)
app.command()(serving.serve)
app.command("data")(data.fetch)
app.command()(data.corrupt)
app.command()(looking.bench)
app.command("list")(looking.list_names)


# typer has its own copy of click from some version on, so the base class is found through a public name.
ClickException = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def program() -> None:
    """`main` in a process of its own, which ends at once: to take PyTorch apart takes a third of a second.

    What commands leave to be done at the end is done before.
    """
    codes: list[int] = []
    atexit.register(_end_at_once, codes)  # the first to be registered is called last
    try:
        main()
    except SystemExit as end:
        codes += [end.code] if isinstance(end.code, int) else []
        raise


def _end_at_once(codes: list[int]) -> None:
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return  # what was said is lost: the usual end tells so, by its exit code
    if codes:
        os._exit(codes[0])


def main() -> None:
    """Our own errors are one line on standard error and exit code 2."""
    warnings.filterwarnings("default", module="uraenas")  # not what libraries say of each other on import
    _collect_seldom()
    heed(signal.SIGINT)
    prepare_streams()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except UraenasError as error:
        _stop(str(error), 2)
    except ClickException as error:  # type: ignore[misc]
        _stop(" ".join(error.format_message().split()), 2)
    except BrokenPipeError:
        give_up_output()
        sys.exit(128 + signal.SIGPIPE)  # whoever read it has gone
    except OSError as error:
        give_up_output()
        _stop(f"{error.filename or 'the system'}: {error.strerror or error}", 2)
    except (RuntimeError, MemoryError) as error:
        from uraenas.engine import is_want_of_memory

        if not is_want_of_memory(error):
            raise
        _stop("there is not enough memory for these settings; use a smaller batch or network.channels", 2)
    except Stopped as stop:
        _stop(str(stop), stop.code)
    sys.exit(code if isinstance(code, int) else 0)


def _collect_seldom() -> None:
    """Importing PyTorch and reading a hundred thousand rows make many objects and no garbage.

    Cycles are still collected, once there are many.
    """
    gc.set_threshold(50_000, *gc.get_threshold()[1:])


def _stop(line: str, code: int) -> None:
    if line:  # help that was shown for want of a command has none
        tell(f"uraenas: {line}")
    sys.exit(code)
