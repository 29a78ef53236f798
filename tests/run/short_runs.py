"""Tiny runs, trained and measured on clean images in this process."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from uraenas.run.config import preset
from uraenas.run.cost import Costs
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline

FEW = {"data.limit": 100, "evaluate.suite": "none"}


def trained(out: Path, methods: str, search_of: Run | None = None, **changes: object) -> Run:
    """A run of these methods; the search may be that of another, which is the same one."""
    config = preset("tiny", {**FEW, "methods": methods, **changes})
    pipeline = Pipeline.start(out, config, search_of=search_of)
    pipeline.train(pipeline.search())
    pipeline.evaluate()
    return pipeline.run


def assert_same_members(one: Run, other: Run, method: str) -> None:
    """Bit for bit."""
    ours, theirs = (run.ensemble(method) for run in (one, other))
    assert ours.identity == theirs.identity  # architectures, origins, weights, statistics, temperature


@contextmanager
def stopped_in_training() -> Iterator[None]:
    """A run in this process is sent SIGINT after the first epoch of a chain."""
    add = Costs.add

    def add_and_stop(costs: Costs, items: dict) -> None:
        add(costs, items)
        if any(item.startswith("chains/") for item in items):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Costs, "add", add_and_stop)
        yield
