"""The command that puts an ensemble behind HTTP."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uraenas.cli.options import Certainty, Coverage, Foreign, Risk
from uraenas.cli.printing import note, tell

if TYPE_CHECKING:
    from uraenas.run.directory import Run


def serve(
    run: Annotated[
        Path, typer.Argument(help="A run directory with trained members, or a pretrained run: cifar10.")
    ],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where to listen.")] = 8080,
    host: Annotated[
        str,
        typer.Option("--host", help="127.0.0.1: this machine alone; 0.0.0.0: every machine that reaches it."),
    ] = "127.0.0.1",
    method: Annotated[str, typer.Option("--method", help="Whose members predict.")] = "",
    risk: Risk = 0.05,
    certainty: Certainty = 0.95,
    coverage: Coverage = 0.95,
    share: Foreign = 0.05,
    megabytes: Annotated[float, typer.Option("--megabytes", help="A request's largest size.")] = 20.0,
    rate: Annotated[float, typer.Option("--rate", help="Requests a second from one address; 0: any.")] = 0.0,
) -> None:
    """Serve predictions: a page to drop images on, a JSON API (/docs), the Open Inference Protocol, /metrics.

    A run in progress shows how far it has come until it has an ensemble.
    A token in the environment variable URAENAS_TOKEN is asked of every client.
    """
    from uraenas.deploy.serving import Limits
    from uraenas.deploy.serving.running import application, following
    from uraenas.deploy.serving.running import serve as answer
    from uraenas.report import build_partial
    from uraenas.run.directory import Run

    limits = Limits(megabytes=megabytes, rate=rate, token=os.environ.get("URAENAS_TOKEN", ""))
    rules = {"risk": risk, "certainty": certainty, "coverage": coverage, "share": share}
    opened = Run.find(run)
    if _is_in_progress(opened, method):
        app = following(opened, lambda: build_partial(opened), method, limits, **rules)
        note(["the run is in progress: its page shows how far it is, until there is an ensemble"])
    else:
        app = application(opened, method, limits, **rules)
        note(opened.ensemble(method).require_known().doubts(risk, share, certainty, coverage))
    tell(f"serving on http://{host}:{port} (Ctrl-C stops it)")
    answer(app, host, port)


def _is_in_progress(run: "Run", method: str) -> bool:
    """Whether somebody works on a run that has no members yet, of this method or of any."""
    from uraenas.run.show import progress_of

    trained = run.is_trained(method) if method else bool(run.trained)
    return run.exists and not trained and bool((progress_of(run.path) or {}).get("working"))
