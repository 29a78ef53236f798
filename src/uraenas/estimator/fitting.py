"""What all estimators have in common: a seed, a run directory, a run in it, warnings and logarithms."""

import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from uraenas.base.errors import UraenasError
from uraenas.ensemble import Ensemble
from uraenas.evaluation import SOURCES
from uraenas.run.pipeline import Pipeline


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def require_used(settings: Iterable[str], *used: str) -> None:
    """Refuse settings of data that an estimator would not look at: most are about files, and it is given arrays."""
    for key in settings:
        if key.startswith("data.") and key not in used:
            raise UraenasError(f"{key} is not for arrays; of data the estimator takes {', '.join(used)}")


def warn_of(doubts: Iterable[str], above: int = 1) -> None:
    """What promises suffer from; the warnings point at the call of the estimator's method, so many calls above."""
    for line in doubts:
        warnings.warn(line, stacklevel=2 + above)


def parts_of_uncertainty(ensemble: Ensemble, rows: Any, device: str) -> dict[str, np.ndarray]:
    """By source; a warning names one that is 0 because these members cannot tell it."""
    lines = [f"the part of {source} is not defined: {why}" for source, why in ensemble.undefined.items()]
    warn_of(lines, above=2)
    split = ensemble.uncertainty(rows, device)
    return {source: getattr(split, source).numpy() for source in SOURCES}


def logarithms(probabilities: np.ndarray) -> np.ndarray:
    """Those of probabilities, which can be 0: then that of the smallest number there is."""
    return np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))


@contextmanager
def folder_for(run_directory: str | Path | None) -> Iterator[Path]:
    """Where the run is kept, or a folder that is removed afterwards."""
    if run_directory is not None:
        yield Path(run_directory)
        return
    with tempfile.TemporaryDirectory(prefix="uraenas-") as folder:
        yield Path(folder)


def trained(pipeline: Pipeline, method: str, above: int) -> Ensemble:
    """What a run's search and training come to; warnings point so many calls above this one."""
    pipeline.begin()
    with pipeline.run.held():
        pipeline.train(pipeline.search())
    for line in pipeline.left_out:
        warnings.warn(line, stacklevel=1 + above)
    return pipeline.run.ensemble(method)
