"""Runs the server until it is told to stop; what it began, it finishes."""

import ipaddress
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from uraenas.base.errors import UraenasError, unknown
from uraenas.deploy.accelerated import accelerated
from uraenas.deploy.serving.limits import Limits
from uraenas.deploy.serving.served import Served
from uraenas.ensemble import Ensemble
from uraenas.ensemble.asked import USUAL, Asked
from uraenas.ensemble.predict import Rule
from uraenas.run.directory import PRIMARY, Run
from uraenas.run.progress import is_worked_on

PATIENCE = 30  # seconds for what was begun, after SIGTERM


def require_packages() -> None:
    """Say what to install where the packages are missing."""
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UraenasError(
            f"{error.name} is missing; install it with: pip install 'uraenas[serve]'"
        ) from error


def application(run: Run, method: str = "", limits: Limits | None = None, asked: Asked = USUAL) -> Any:
    """The ASGI application of a method's ensemble."""
    require_packages()
    from uraenas.deploy.serving.app import Server

    method = method or run.primary
    model = _model(method, run.ensemble(method), asked)
    return Server(model, limits or Limits()).application()


def _model(method: str, ensemble: Ensemble, asked: Asked) -> Served:
    from uraenas.deploy.serving.model import Model
    from uraenas.deploy.serving.rows import RowsModel

    if ensemble.normalisation.columns is not None:
        return RowsModel(method, ensemble, asked)
    ensemble = _fastest(ensemble)
    return Model(method, ensemble, Rule.of(ensemble, asked))


def following(
    run: Run, page: Callable[[], str], method: str = "", limits: Limits | None = None, asked: Asked = USUAL
) -> Any:
    """The ASGI application of a run in progress: `page` until the run is over; predictions once there are members.

    Without a method it is the one that the finished run would be asked by.
    """
    require_packages()
    from uraenas.deploy.serving.following import Following

    limits, methods = limits or Limits(), run.config().methods
    awaited = method or next((name for name in PRIMARY if name in methods), methods[0])
    if awaited not in methods:
        raise unknown("method", awaited, methods)

    def make() -> Any | None:
        return application(run, awaited, limits, asked) if run.is_trained(awaited) else None

    return Following(make, lambda: not is_worked_on(run.path), page, limits)


def _fastest(ensemble: Ensemble) -> Ensemble:
    """With ONNX Runtime where it is installed and can run these members."""
    try:
        return accelerated(ensemble, looks=True)
    except UraenasError:
        return ensemble


def bound(host: str, port: int) -> socket.socket:
    """A socket to listen at; an address that cannot be had is told in one line."""
    with ExitStack() as failing:
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            found = failing.enter_context(socket.socket(family, kind))
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
        except OSError as error:
            raise UraenasError(
                f"cannot listen on {host}, port {port}: {error.strerror}; use another --port or --host"
            ) from error
        failing.pop_all()
    return found


def is_open(at: socket.socket) -> bool:
    """Whether other machines may reach it."""
    return not ipaddress.ip_address(at.getsockname()[0]).is_loopback


def serve(app: Any, at: socket.socket) -> None:
    """Answer until SIGINT or SIGTERM."""
    import uvicorn

    uvicorn.Server(configuration(app)).run(sockets=[at])


def configuration(app: Any) -> Any:
    """As this server runs it: one process, few words, no client that is waited for without end."""
    import uvicorn

    from uraenas.deploy.serving.connection import Connection

    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
        timeout_keep_alive=15,
        limit_concurrency=1000,
    )
