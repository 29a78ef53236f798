"""What a user should know of data and settings before a run starts."""

from uraenas.evaluation.references import MOST_IMAGES, REFERENCES
from uraenas.learning.chains import epochs_for
from uraenas.run.config import Config
from uraenas.run.recipes import recipe_notes
from uraenas.run.task import Task

FEW_STEPS, ENOUGH_STEPS = 200, 2000  # of a chain, for networks as small as these


def advice(config: Config, task: Task) -> list[str]:
    """What was done to the data, and settings that can hardly work."""
    notes = [*task.dataset.notes, *task.notes, *_on_leaks(task), *recipe_notes(config)]
    example, known = task.dataset.example, len(task.disjoint[0])
    if config.evaluate.references and task.has_references and known > MOST_IMAGES:
        words = f"{' and '.join(REFERENCES)} learn from {MOST_IMAGES:,} of {known:,} training {example}s"
        notes.append(f"the references {words} (evaluate.references)")
    epochs, per_epoch = config.train.epochs, task.steps(config.train.batch)
    if per_epoch * epochs < FEW_STEPS:
        kinds = [config.method(name).weights for name in config.methods]
        enough = epochs_for(kinds, -(-ENOUGH_STEPS // per_epoch))
        notes.append(
            f"{epochs} epochs of {task.learned_from:,} {example}s are {per_epoch * epochs} steps, too few to learn "
            f"well; train.epochs={enough} would be {per_epoch * enough:,}"
        )
    return notes


def _on_leaks(task: Task) -> list[str]:
    """Examples that are both learned from and measured on. Rows may be alike by chance, seldom with their labels."""
    data = task.dataset
    example, rows = f"{data.example}s", data.columns is not None
    learned, kept = task.disjoint
    found = {"test": (data.test, task.train), "held-out": (kept, learned)}
    why = {
        "test": "what is measured on these says nothing of new ones",
        "held-out": "temperatures and promises are surer than they should be",
    }
    twice = 0 if rows else task.train.labelled_twice
    notes = (
        [f"{twice:,} of {len(task.train):,} training images are there with another label, too"]
        if twice
        else []
    )
    counts = {name: own.also_in(other, rows) for name, (own, other) in found.items() if own is not other}
    return notes + [
        f"{count:,} of {len(found[name][0]):,} {name} {example} are also among the training {example}: {why[name]}"
        for name, count in counts.items()
        if count
    ]
