"""A run that is worked on: what all stages have in common."""

from dataclasses import dataclass

from uraenas.engine import Engine
from uraenas.run.checkpoints import Checkpoints
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.task import Task
from uraenas.run.tensorboard import Watch


@dataclass(frozen=True)
class Work:
    """The directory, the settings, the data, and who computes; with where it goes on from, and who watches."""

    run: Run
    config: Config
    task: Task
    engine: Engine
    checkpoints: Checkpoints
    watch: Watch
