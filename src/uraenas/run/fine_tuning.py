"""Networks that are trained further, not from nothing: when a budget lets them start from those of the package.

results/few-images says how the numbers here were chosen.
"""

from collections.abc import Collection
from typing import Any

from uraenas.learning.methods import method
from uraenas.run.config import Config, override
from uraenas.run.directory import Run
from uraenas.run.export import FEW_IMAGES, seen_by
from uraenas.run.task import Task

SMALL = "cifar10-small"
METHOD = "uraenas"  # where none is asked for: others would be held against networks that know more
START, ARCHITECTURES, BATCH = "train.sampled.start", "train.sampled.architectures", "train.batch"
CHOSEN_TO_START = ("methods", "network.cells", START, ARCHITECTURES)  # besides batch, channels and step sizes
FEW_STEPS_ON, ENOUGH_STEPS_ON = 100, 400  # of a chain that goes on from trained weights
STEP_SIZE, IMAGES = 0.01, 64  # of a step, and the batch it is for
SIDES = range(16, 49)  # pixels: about those that the networks have seen, and not halved by them


def starts_trained(config: Config) -> bool:
    """Whether all networks do."""
    return all(config.method(name).source.start for name in config.methods)


def fine_tuning(config: Config, task: Task, fixed: Collection[str]) -> Config | None:
    """The settings, changed so that networks start trained; None where that does not suit images, methods or settings.

    `fixed` settings stay as they are.
    """
    source = Run.pretrained(SMALL)
    network = {k: value for k, value in source.config().values.items() if k.startswith("network.")}
    methods = config.methods if "methods" in fixed else (METHOD,)
    taken = all(method(name).source == "sampled" and method(name).recipes == "same" for name in methods)
    if START in fixed or not taken or not _suits(task) or not _fits(network, config, fixed):
        return None
    if any(seen_by(source, config, task)):
        return None
    asked = override(config, {"methods": methods})
    if not asked.values.keys() >= set(fixed):  # of a method that would be left out
        return None
    wanted: dict[str, Any] = {
        **network,
        START: SMALL,
        ARCHITECTURES: max(asked.values[ARCHITECTURES], asked.ensemble.members),
        BATCH: IMAGES,
        **dict.fromkeys(step_sizes(asked), STEP_SIZE),
    }
    return override(asked, {key: value for key, value in wanted.items() if key not in fixed})


def step_sizes(config: Config) -> dict[str, float]:
    """The keys of all kinds of weights' step sizes, and these."""
    found = {k: v for k, v in config.values.items() if k.startswith("train.") and k.endswith(".step_size")}
    return {key: value for key, value in found.items() if isinstance(value, float)}  # no ranges of factors


def told_of_start(now: Config, before: Config) -> list[str]:
    """That networks do not start from nothing, where that was chosen."""
    start = now.values.get(START, "")
    if start == before.values.get(START, ""):
        return []
    told = f"networks start from those of {start}, trained on CIFAR-10; from nothing: --set {START}="
    if now.methods != before.methods:
        told += f"; only {METHOD} is trained, as other methods start from nothing (--methods)"
    return [told]


def _suits(task: Task) -> bool:
    """Whether these are few images, of a size and of colours that the networks know."""
    height, width, channels = task.train.images.shape[1:]
    return len(task.train) < FEW_IMAGES and height in SIDES and width in SIDES and channels in (1, 3)


def _fits(network: dict[str, Any], config: Config, fixed: Collection[str]) -> bool:
    """Whether no other network was asked for, and no larger one."""
    now = config.values
    if any(now.get(key) != value for key, value in network.items() if key in fixed):
        return False
    larger = any(now[key] > network[key] for key in ("network.channels", "network.cells") if key in now)
    return now["network.space"] == network["network.space"] and not larger
