"""Runs that several files look at, made once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from short_runs import trained

from uraenas.run.directory import Run


@pytest.fixture(scope="session")
def sampled_run(made_once: Callable[..., Path]) -> Run:
    """Two chains with two samples from each of two cycles, and one of point estimates. To be looked at."""
    return Run(made_once("sampled", lambda out: trained(out, "uraenas,drnas", **SAMPLES)))


SAMPLES = {
    "train.epochs": 8,
    "train.sampling.cycles": 2,
    "train.sampling.samples": 2,
    "train.sampling.exploration": 0.5,
    "train.sampling.temperature": 0.1,
    "ensemble.members": 4,
}


@pytest.fixture(scope="session")
def samples() -> dict[str, float]:
    """The settings of that run."""
    return SAMPLES
