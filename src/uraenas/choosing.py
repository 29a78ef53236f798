"""The end of stage 2 on a run directory: a method's members, from what its chains have collected."""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from uraenas import calibration, metrics, selection
from uraenas.average import mean_of
from uraenas.chains import ChainSpec
from uraenas.config import Config
from uraenas.engine import Engine
from uraenas.ensemble import Ensemble, Member, MembersPredictor
from uraenas.errors import UraenasError
from uraenas.methods import METHODS, Method
from uraenas.run import Run
from uraenas.task import Task


class Chooser:
    """Takes members from chains and fits their temperature, all on held-out images."""

    def __init__(self, run: Run, config: Config, task: Task, engine: Engine) -> None:
        self.run, self.config, self.task, self.engine = run, config, task, engine

    def choose(self, name: str, specs: Sequence[ChainSpec]) -> None:
        """Give a method its members from these chains."""
        row, settings, task = METHODS[name], self.config.train, self.task
        candidates, log_p = self._candidates(row, specs)
        if not candidates:
            raise UraenasError(f"every chain of {name} diverged; see log.jsonl, and use a smaller step size")
        wanted = 1 if row.single else settings.members
        wanted = min(wanted, len(candidates))  # a frozen chain may have left fewer
        labels = torch.from_numpy(task.held_out.labels)
        if settings.selection == "greedy":
            chosen = selection.greedy(log_p, labels, wanted)
        else:
            chosen = selection.in_turn([member.origin.chain for member in candidates], wanted)
        mean = metrics.mixture(log_p[chosen])
        weights = None if task.held_out.weights is None else torch.from_numpy(task.held_out.weights)
        temperature = calibration.fit_temperature(mean, labels, weights)
        _, confidence, right = metrics.confidence_bins(calibration.scale(mean, temperature), labels)
        self.run.write_tensors(
            f"methods/{name}/held-out.safetensors", {"confidence": confidence, "right": right}, {}
        )
        members = tuple(candidates[position] for position in chosen)
        of_bytes = task.train.images.dtype == np.uint8
        ensemble = Ensemble(
            members, task.skeleton, task.normalisation, task.dataset.classes, temperature, of_bytes
        )
        self.run.adopt(name, ensemble)

    def _candidates(self, row: Method, specs: Sequence[ChainSpec]) -> tuple[list[Member], Tensor]:
        """What the chains have to offer, each the newest first, and its held-out predictions [M, N, K]."""
        if row.per_chain == "one" or not self.config.train.average_samples:
            return self._sound([sample for spec in specs for sample in self._samples(row, spec)])
        loader = self.task.loader(self.task.train, self.config.train.batch, self.engine)
        means = []
        for spec in specs:
            samples, _ = self._sound(self._samples(row, spec))  # one that went astray would spoil the mean
            for _, cycle in itertools.groupby(samples, key=lambda sample: sample.origin.cycle):
                means.append(mean_of(list(cycle), self.task.skeleton, loader, self.engine, self.config.seed))
        return self._sound(means)

    def _samples(self, row: Method, spec: ChainSpec) -> list[Member]:
        reached = self.run.read_chain(spec.name)[1]["epoch"]
        # A chain that began anew and was given up has samples of its earlier course, too.
        samples = [sample for sample in self.run.samples(spec.name) if sample.origin.epoch < reached]
        return samples if row.per_chain == "all" else samples[:1]

    def _sound(self, members: list[Member]) -> tuple[list[Member], Tensor]:
        """Those that predict numbers, with their held-out predictions.

        A chain's last step may have led it astray after its last loss had been looked at.
        """
        if not members:
            return [], torch.empty(0)
        predict = MembersPredictor(members, self.task.skeleton, self.task.normalisation, self.engine)
        log_p = predict(self.task.held_out.images)
        sound = torch.isfinite(log_p).all(dim=2).all(dim=1).tolist()
        for member, kept in zip(members, sound, strict=True):
            if not kept:
                self.run.log("sample dropped", chain=member.origin.chain, epoch=member.origin.epoch)
        return [member for member, kept in zip(members, sound, strict=True) if kept], log_p[sound]
