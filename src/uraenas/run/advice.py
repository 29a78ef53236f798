"""What a user should know of data and settings before a run starts, and of its members when it is over."""

import math
from typing import Any

import numpy as np

from uraenas.data import DATASETS
from uraenas.data.loader import suited_batch
from uraenas.evaluation import Metrics, sizes_of
from uraenas.evaluation.references import MOST_IMAGES
from uraenas.learning.chains import epochs_for
from uraenas.run.config import Config
from uraenas.run.directory import Run
from uraenas.run.export import seen_by
from uraenas.run.fine_tuning import ENOUGH_STEPS_ON, FEW_STEPS_ON, starts_trained
from uraenas.run.recipes import recipe_notes
from uraenas.run.task import Task

FAR = 2  # times more or less
FEW_STEPS, ENOUGH_STEPS = 200, 2000  # of a chain, for networks as small as these


def advice(config: Config, task: Task) -> list[str]:
    """What was done to the data, and settings that can hardly work."""
    notes = [*task.dataset.notes, *task.notes, *_on_leaks(task), *recipe_notes(config)]
    example, known = task.dataset.example, len(task.disjoint[0])
    if config.evaluate.references and task.references and known > MOST_IMAGES:
        words = f"{' and '.join(task.references)} learn from {MOST_IMAGES:,} of {known:,} training {example}s"
        notes.append(f"the references {words} (evaluate.references)")
    epochs, per_epoch = config.train.epochs, task.steps(config.train.batch)
    few, wanted = (FEW_STEPS_ON, ENOUGH_STEPS_ON) if starts_trained(config) else (FEW_STEPS, ENOUGH_STEPS)
    if per_epoch * epochs < few:
        kinds = [config.method(name).weights for name in config.methods]
        enough = epochs_for(kinds, -(-wanted // per_epoch))
        notes.append(
            f"{epochs} epochs of {task.learned_from:,} {example}s are {per_epoch * epochs} steps, too few to learn "
            f"well; train.epochs={enough} would be {per_epoch * enough:,}"
        )
    return notes


def on_search(config: Config, task: Task) -> list[str]:
    """Settings of a search with which it can hardly work."""
    if config.search is None or not config.needs_search:
        return []
    own = [*config.search.notes(), *_on_counts(config, config.search.settings, task)]
    return [*own, *_on_the_package(config, task)]


def _on_the_package(config: Config, task: Task) -> list[str]:
    """Own images that are not own, so that search and networks of the package are not taken."""
    if task.dataset.name in DATASETS:
        return []
    return [
        f"{count:,} of {len(part):,} {name} images are training images of CIFAR-10, from which what comes with the "
        "package has learned; so nothing of it is taken"
        for name, part, count in seen_by(Run.pretrained(), config, task)
    ]


def _on_counts(config: Config, settings: Any, task: Task) -> list[str]:
    """Numbers of images that a distribution is told, where they are far from those that its steps see."""
    judges = len(task.search_halves(settings.validation)[1])
    there = {"images": judges, "batch": suited_batch(settings.batch, judges)}
    told = {f"search.{settings.distribution}.{name}": count for name, count in there.items()}
    values = config.values
    far = {key: n for key, n in told.items() if key in values and not n / FAR <= values[key] <= n * FAR}
    if not far:
        return []
    words = ", ".join(f"{key} = {values[key]:,}" for key in far)
    better = " ".join(f"--set {key}={count}" for key, count in far.items())
    return [f"{words} is far from what there is, and how far draws spread rests on it; it is: {better}"]


def _on_leaks(task: Task) -> list[str]:
    """Examples that are both learned from and measured on."""
    data = task.dataset
    example, rows = f"{data.example}s", data.columns is not None
    twice = 0 if rows else task.train.labelled_twice
    notes = []
    if twice:
        notes.append(f"{twice:,} of {len(task.train):,} training images are there with another label, too")
    count = 0 if data.test is task.train else data.test.also_in(task.train, rows)
    if count and not _alike_by_chance(task):
        notes.append(
            f"{count:,} of {len(data.test):,} test {example} are also among the training {example}: "
            "what is measured on these says nothing of new ones"
        )
    return [*notes, *leaks_into_promises(task)]


def on_members(config: Config, metrics: Metrics) -> list[str]:
    """Said of methods with fewer members than asked for, and of those whose temperatures are far from 1."""
    sizes, notes, far = sizes_of(metrics.rows), [], []
    for name in config.methods:
        method = config.method(name)
        wanted = 1 if method.row.single else config.ensemble.members
        lost = sum(bool(one.given_up) and one.chain.startswith(method.chains) for one in metrics.diverged)
        if lost and sizes[name] < wanted:
            chains = f"{lost} chain{'s' * (lost > 1)}"
            notes.append(
                f"{name} has {sizes[name]} of {wanted} members: {chains} diverged and had to be given up; use a "
                "smaller step size"
            )
        temperature = metrics.temperatures[name]
        every = temperature if isinstance(temperature, tuple) else (temperature,)
        far += [f"{one:.3g} of {name}" for one in every if not 1 / FAR <= one <= FAR]
    if far:
        notes.append(
            f"temperatures far from 1, by held-out data: {', '.join(far)}; do not trust predictions without them, nor "
            "uncertainty by source, which is without them"
        )
    return notes


def leaks_into_promises(task: Task) -> list[str]:
    """Examples that are both learned from and judged by, for temperatures and promises."""
    example, rows = f"{task.dataset.example}s", task.dataset.columns is not None
    if task.fold is None:
        held_out, what = task.held_out, f"held-out {example} are also among the training {example}"
        count = held_out.also_in(task.train, rows)
    else:
        held_out, what = task.train, f"training {example} are also in another part that chains leave out"
        count = held_out.in_several(task.fold, rows)
    in_apart = 0 if task.apart is None else task.apart.also_in(task.train, rows)
    if not count + in_apart or _alike_by_chance(task):
        return []
    surer = "temperatures and promises are surer than they should be"
    notes = [f"{count:,} of {len(held_out):,} {what}: {surer}"] if count else []
    if task.apart is not None and in_apart:
        kept = f"{in_apart:,} of {len(task.apart):,} rows that intervals rest on"
        notes.append(f"{kept} are also among the training rows: intervals are narrower than they should be")
    return notes


def _alike_by_chance(task: Task) -> bool:
    """Whether two rows would be alike, with their labels, even if columns had nothing to do with each other.

    Rows of few categories are.
    """
    columns, rows = task.dataset.columns, len(task.train)
    if columns is None:
        return False
    ends = np.cumsum([part.width for part in columns.parts])[:-1]
    values = [*np.split(task.train.images[:, 0, 0], ends, axis=1), *task.train.labels.reshape(rows, -1).T]
    counts = [np.unique(own, axis=0, return_counts=True)[1] for own in values]
    chances = [float((own * (own - 1)).sum()) / (rows * (rows - 1)) for own in counts]
    return math.prod(chances) * rows * (rows - 1) / 2 >= 1
