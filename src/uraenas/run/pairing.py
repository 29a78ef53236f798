"""Paired differences, which need what a run's files hold: to one of its own methods, or to a method of another run."""

from typing import Any

from uraenas.base.errors import UraenasError, unknown
from uraenas.evaluation import Measured, Metrics, Row, sizes_of
from uraenas.run.directory import REPLICATES, Run
from uraenas.run.facts import DataFacts


def differences(run: Run, to: str, metrics: Metrics | None = None) -> list[Row]:
    """A run's methods minus one of them, METHOD, or minus another run's, RUN:METHOD; none is its own baseline.

    `metrics` are the run's, where they have been read.
    """
    path, colon, method = to.rpartition(":")
    if colon and not (path and method):
        raise UraenasError(f"cannot compare with {to!r}; expected METHOD or RUN:METHOD")
    metrics = metrics or run.metrics()
    return _between(run, metrics, Run(path), method, to) if path else _within(run, metrics, method)


def _within(run: Run, metrics: Metrics, to: str) -> list[Row]:
    methods = sizes_of(metrics.rows)
    if to not in methods:
        raise unknown("method of this run", to, methods)
    found = [row for row in metrics.differences if row.baseline == to]
    if not found and len(methods) > 1:
        raise UraenasError(
            f"{run.path} holds no differences to {to}: the bootstrap was switched off (evaluate.bootstrap = 0)"
        )
    return found


def _between(run: Run, metrics: Metrics, other: Run, method: str, name: str) -> list[Row]:
    found = other.metrics()
    own, others = _measured(run, metrics), _measured(other, found)
    if method not in others.sizes:
        raise unknown(f"method of {other.path}", method, others.sizes)
    both = f"{run.path} and {other.path}"
    if not _facts(run).same_images(_settings(run, metrics), _facts(other), _settings(other, found)):
        raise UraenasError(
            f"{both} were not measured on the same {_facts(run).example}s, and cannot be paired"
        )
    if own.resamples != others.resamples:
        raise UraenasError(f"{both} cannot be paired: evaluate.bootstrap differs")
    itself = method if run.path.resolve() == other.path.resolve() else ""
    rows = [row for row in own.differences_to(others, method) if row.method != itself]
    return [row._replace(baseline=name) for row in rows]


def _measured(run: Run, metrics: Metrics) -> Measured:
    if not any(row.interval for row in metrics.rows):
        raise UraenasError(f"{run.path} cannot be paired: its bootstrap was switched off")
    if not run.has(REPLICATES):
        raise UraenasError(f"{run.path} holds no {REPLICATES}; run: uraenas evaluate {run.quoted}")
    return Measured(metrics.rows, run.replicates(), metrics.suite)


def _settings(run: Run, metrics: Metrics) -> dict[str, Any]:
    return {**run.config().values, **metrics.settings}


def _facts(run: Run) -> DataFacts:
    facts = run.data()
    if facts is None:
        raise UraenasError(f"{run.path} does not say with which data it was made")
    return facts
