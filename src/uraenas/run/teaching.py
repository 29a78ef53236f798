"""Distillation: a run whose networks learn what another run's ensemble says, in place of labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.data import LabelledImages
from uraenas.engine import Engine
from uraenas.ensemble import Ensemble
from uraenas.evaluation import METRICS, calibration, metrics, uncertainty_by_source
from uraenas.learning.methods import method
from uraenas.learning.teaching import EnsembleTeacher
from uraenas.run.config import Config, override
from uraenas.run.directory import Run
from uraenas.run.export import require_same_division
from uraenas.run.task import Task

SHOWN = ("accuracy", "nll", "ece")


@dataclass(frozen=True)
class Teaching:
    """The ensemble that a run's networks learn from, and whose it is."""

    run: Run
    method: str
    ensemble: Ensemble

    @classmethod
    def of(cls, config: Config) -> "Teaching | None":
        """That of the settings, if they name one."""
        if not config.train.teacher:
            return None
        run = Run.find(config.train.teacher)
        name = config.train.teacher_method or run.primary
        return cls(run, name, run.ensemble(name))

    @property
    def facts(self) -> dict[str, Any]:
        """What teacher.json keeps of it."""
        return {
            "of": self.run.identity,
            "method": self.method,
            "ensemble": self.ensemble.identity,
            "members": len(self.ensemble),
        }

    def check(self, config: Config, task: Task) -> None:
        """Refuse a teacher of other classes or images, and one that may have learned from what is held out now."""
        theirs, ours = self.ensemble, task.space.shape
        if task.dataset.columns is not None:
            raise UraenasError("train.teacher: rows of a table are not taught; distillation is for images")
        if theirs.classes != task.dataset.classes:
            raise UraenasError(f"train.teacher: {self.run.path} tells other classes apart")
        form = "×".join(str(size) for size in (ours.height, ours.width, ours.channels))
        if theirs.space.shape != ours or theirs.of_bytes != (task.train.images.dtype == "uint8"):
            raise UraenasError(f"train.teacher: {self.run.path} takes other images than these of {form}")
        for name in config.methods:
            heads = len(config.method(name).weights.changes.heads)
            if heads and heads != len(theirs):
                raise UraenasError(
                    f"train.heads.architectures has {heads} heads, and train.teacher {len(theirs)} members"
                )
        require_same_division(self.run, config, task, "teacher (train.teacher)", "choose another teacher")


def distilling(
    source: Run, into: str, of: str = "", split: bool = False, changes: Mapping[str, Any] | None = None
) -> Config:
    """The settings of a run that distils a method's ensemble into a method that has few members, or one.

    They are those of the source. With `split` the network has a head for each member, which keeps the split of
    uncertainty: its architectures come from where those of `into` come from.
    """
    name, ensemble = of or source.primary, source.ensemble(of)
    chosen: dict[str, Any] = {
        "methods": (into,),
        "evaluate.suite": "none",
        "evaluate.baseline": into,
        "train.teacher": str(source.path.name if source.is_pretrained else source.path),
        "train.teacher_method": name,
    }
    if split:
        functions = list(dict.fromkeys(ensemble.functions))
        drawn_from = method(into).source
        if drawn_from == "sampled":  # of several networks only some heads would be members
            chosen["train.sampled.architectures"] = 1
        chosen |= {
            "methods": (student := f"{drawn_from}-heads",),
            "evaluate.baseline": student,
            "train.heads.architectures": tuple(functions.index(one) for one in ensemble.functions),
            "ensemble.members": len(ensemble),
            "ensemble.selection": "in-turn",
        }
    return override(source.config(), {**chosen, **(changes or {})})


def teacher_for(run: Run, config: Config, task: Task, engine: Engine) -> EnsembleTeacher | None:
    """What gives a run's loader its labels, if that is a teacher; always the same one, as teacher.json says."""
    teaching = Teaching.of(config)
    if teaching is None:
        return None
    teaching.check(config, task)
    known = run.teacher()
    if known is not None and known["ensemble"] != teaching.ensemble.identity:
        raise UraenasError(
            f"{run.path} began to learn from another ensemble than {teaching.run.path} holds now "
            f"({teaching.method}); put that back, or choose another directory (--out)"
        )
    if known is None:
        run.write_teacher(teaching.facts)
    return EnsembleTeacher(teaching.ensemble, engine)


def compare(run: Run, teaching: Teaching, name: str, test: LabelledImages) -> dict[str, Any]:
    """What teacher and student are worth on test images, and how far apart they are; kept in teacher.json.

    Metrics are those of temperature-scaled means. `kl` is the mean of KL(teacher's mean ‖ student's mean), raw;
    correlations are Spearman's, over images.
    """
    labels = torch.from_numpy(test.labels)
    found: dict[str, Any] = {"images": len(labels)}
    means, splits = [], []
    for who, ensemble in (("teacher", teaching.ensemble), ("student", run.ensemble(name))):
        log_p = ensemble.member_log_probabilities(test.images)
        means.append(metrics.mixture(log_p))
        splits.append(uncertainty_by_source(log_p, ensemble.functions))
        scaled = calibration.scale(means[-1], ensemble.temperature)
        found[who] = {key: METRICS[key](scaled, labels) for key in SHOWN}
        found[who] |= {key: float(getattr(splits[-1], key).mean()) for key in metrics.SOURCES}
        found[who]["parameters"] = ensemble.parameters
    first, second = means
    found["kl"] = float((first.exp() * (first - second)).sum(dim=1).mean())
    found["same_class"] = float((first.argmax(dim=1) == second.argmax(dim=1)).double().mean())
    pairs = {key: [getattr(split, key) for split in splits] for key in (*metrics.SOURCES, "model")}
    found["correlation"] = {key: _rank_correlation(*both) for key, both in pairs.items()}
    run.write_teacher({**teaching.facts, "compared": found})
    return found


def _rank_correlation(one: Tensor, other: Tensor) -> float | None:
    """Spearman's; None where one of them says the same of all images."""
    from scipy.stats import spearmanr  # a second to import, and seldom asked for

    if one.max() == one.min() or other.max() == other.min():
        return None
    return float(spearmanr(one.numpy(), other.numpy()).statistic)
