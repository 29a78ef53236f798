"""How long networks on tables learn, where nobody says: by steps, as a table may have a hundred rows or a million."""

from collections.abc import Collection

from uraenas.learning.chains import epochs_for
from uraenas.run.advice import ENOUGH_STEPS
from uraenas.run.config import Config, override
from uraenas.run.task import Task

MANY_ROWS, LARGE_BATCH = 2000, 128
LEAST_EPOCHS = 20


def in_enough_steps(config: Config, task: Task, given: Collection[str]) -> Config:
    """Of a table: large batches of many rows, and epochs enough for its networks; those `given` stay as they are."""
    if task.dataset.columns is None:
        return config
    rows = len(task.train) + (0 if config.train.folds else len(task.held_out))
    batch = LARGE_BATCH if rows >= MANY_ROWS else config.train.batch
    if "train.batch" not in given:
        config = override(config, {"train.batch": batch})
    if "train.epochs" in given:
        return config
    kinds = [config.method(name).weights for name in config.methods]
    least = max(LEAST_EPOCHS, -(-ENOUGH_STEPS // task.steps(config.train.batch)))
    return override(config, {"train.epochs": epochs_for(kinds, least)})
