"""The command that puts an ensemble behind HTTP."""

import os
from typing import Annotated

import typer

from uraenas.cli.options import Certainty, Coverage, Foreign, Method, Risk, TrainedRun
from uraenas.cli.printing import note, tell


def serve(
    run: TrainedRun,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where to listen.")] = 8080,
    host: Annotated[
        str,
        typer.Option("--host", help="127.0.0.1: this machine alone; 0.0.0.0: every machine that reaches it."),
    ] = "127.0.0.1",
    method: Method = "",
    risk: Risk = 0.05,
    certainty: Certainty = 0.95,
    coverage: Coverage = 0.95,
    share: Foreign = 0.05,
    megabytes: Annotated[float, typer.Option("--megabytes", help="A request's largest size.")] = 20.0,
    rate: Annotated[float, typer.Option("--rate", help="Requests a second from one address; 0: any.")] = 0.0,
) -> None:
    """Serve predictions: a page for images or rows, a JSON API (/docs), the Open Inference Protocol, /metrics.

    A run in progress shows how far it has come until it is over; it predicts once it has an ensemble.
    A token in the environment variable URAENAS_TOKEN is asked of every client.
    """
    from uraenas.deploy.serving import Limits
    from uraenas.deploy.serving.running import application, bound, following, is_open, require_packages
    from uraenas.deploy.serving.running import serve as answer
    from uraenas.ensemble.asked import Asked
    from uraenas.report import build_partial
    from uraenas.run.directory import Run
    from uraenas.run.progress import is_worked_on

    limits = Limits(megabytes=megabytes, rate=rate, token=os.environ.get("URAENAS_TOKEN", ""))
    asked = Asked(risk, share, certainty, coverage)
    require_packages()
    opened = Run.find(run)
    with bound(host, port) as listening:
        if is_open(listening) and not limits.token:
            note(["every machine that reaches this one may ask; set URAENAS_TOKEN to ask for a token"])
        rule: list[str] = []
        if is_worked_on(opened.path):
            app = following(opened, lambda: build_partial(opened, again=True), method, limits, asked)
            note(["the run is in progress: its page shows how far it is, until it is over"])
        else:
            app = application(opened, method, limits, asked)
            ensemble = opened.ensemble(method)
            known = ensemble.require_known()
            doubts = ensemble.doubts(asked)
            note(doubts)
            if ensemble.classes:
                words = known.threshold(risk, certainty, share).in_words(ensemble.example)
                rule = [] if any(words in doubt for doubt in doubts) else [words]
        tell(f"serving on http://{f'[{host}]' if ':' in host else host}:{port} (Ctrl-C stops it)")
        note(rule)  # it may be to abstain always
        answer(app, listening)
