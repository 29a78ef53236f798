"""The end of stage 2: members from what chains have collected. Candidates, choice, temperature, on held-out images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data import LabelledImages
from uraenas.data.loader import Loader
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import (
    Ensemble,
    EnsembleSettings,
    Kind,
    Known,
    Member,
    MembersPredictor,
    selection,
)
from uraenas.ensemble.held_out import HeldOut, drawn_apart
from uraenas.ensemble.known import Seen, reach_of, scores_of
from uraenas.ensemble.residuals import Residuals
from uraenas.evaluation import calibration
from uraenas.evaluation.temperature import Temperature, only
from uraenas.learning.chains import ChainSpec
from uraenas.learning.methods import Assembled
from uraenas.learning.statistics import measure_statistics, seen_by
from uraenas.run.checkpoints import read_chain
from uraenas.run.task import Task
from uraenas.run.work import Work
from uraenas.weights import Candidate, Fit

LOOKED_AT = 5000  # training images, where there are more: enough for means and covariances
FEW = 50  # held-out images; fewer are all needed to tell foreign ones


class Chooser:
    """Takes members from chains and fits their temperature."""

    def __init__(self, work: Work) -> None:
        self.run, self.config, self.task, self.engine = work.run, work.config, work.task, work.engine

    def choose(self, method: Assembled, specs: Sequence[ChainSpec]) -> None:
        """Give a method its members from these chains."""
        settings, task = self.config.ensemble, self.task
        candidates, log_p = self._candidates(method, specs)
        if not candidates:
            raise UraenasError(
                f"every chain of {method.name} diverged; see log.jsonl, and use a smaller step size"
            )
        wanted = 1 if method.row.single else settings.members
        numbers = {spec.name: spec.number for spec in specs}
        own = [numbers[member.origin.chain] for member in candidates]
        wanted = min(wanted, len(candidates))  # frozen chains leave fewer
        settings = settings.chosen_by(method.row.selection)
        chosen = self._chosen(candidates, log_p, own, replace(settings, members=wanted))
        panels = panels_of([own[position] for position in chosen], task.fold, len(task.held_out))
        held_out = task.held_out.take(torch.cat([panel.images for panel in panels]).numpy())
        apart = self._kept_from_choices(len(held_out))
        measures = task.measures
        mean, labels = measures.mean(said_by(panels, log_p[chosen])), torch.from_numpy(held_out.labels)
        weights = None if held_out.weights is None else torch.from_numpy(held_out.weights)[~apart]
        temperature = measures.fit(measures.subset(mean, ~apart), labels[~apart], weights)
        ensemble = Ensemble(
            tuple(candidates[position] for position in chosen),
            task.space,
            task.normalisation,
            task.dataset.classes,
            measures.of_more(temperature, mean, len(chosen)),
            of_bytes=task.train.images.dtype == np.uint8,
        )
        judged = self._judged(panels, temperature, apart, len(chosen), settings.judges)
        known = known_to(ensemble, task, self.engine, self.config.seed, panels, judged)
        self.run.adopt(method.name, replace(ensemble, known=known))

    def _kept_from_choices(self, images: int) -> Tensor:
        """The held-out images that neither temperature nor choice of members may see [N]: none where others are."""
        if self.task.apart is not None:
            return torch.zeros(images, dtype=torch.bool)
        return drawn_apart(images, self.config.seed)

    def _judged(
        self,
        panels: "Sequence[Panel]",
        temperature: Temperature,
        apart: Tensor,
        members: int,
        greedy: bool,
    ) -> "Judged":
        """What promises and p-values rest on, and who judges it; `greedy`: members were chosen by held-out NLL."""
        if self.task.apart is not None:
            everyone = panels_of([0] * members, None, len(self.task.apart))
            every = torch.ones(len(self.task.apart), dtype=torch.bool)
            return Judged(self.task.apart, everyone, temperature, every, every, greedy)
        if greedy:
            unseen = apart if apart.any() else ~apart  # a single image has no half
        else:
            # Who is foreign should not depend on the images that promises rest on; so few promise next to nothing.
            unseen = ~apart if int((~apart).sum()) >= FEW else torch.ones_like(apart)
        return Judged(self.task.held_out, panels, temperature, apart, unseen, greedy)

    def _chosen(
        self,
        candidates: Sequence[Member],
        log_p: Tensor,
        numbers: Sequence[int],
        settings: EnsembleSettings,
    ) -> list[int]:
        """The places of the members among the candidates, whose chains have these numbers."""
        wanted = settings.members
        if not settings.judges:
            return selection.in_turn([member.origin.chain for member in candidates], wanted)
        panels = panels_of(numbers, self.task.fold, len(self.task.held_out))[:wanted]
        sizes = [len(panel.images) for panel in panels]
        seen = (~self._kept_from_choices(sum(sizes))).split(sizes)
        labels, found = torch.from_numpy(self.task.held_out.labels), []
        for place, (panel, own) in enumerate(zip(panels, seen, strict=True)):
            images = panel.images[own]
            share = wanted // len(panels) + (place < wanted % len(panels))
            judged = log_p[panel.members][:, images], labels[images], min(share, len(panel.members))
            weights = self.task.held_out.weights
            importance = None if weights is None else torch.from_numpy(weights)[images]
            best = selection.by_nll(settings.selection, *judged, self.task.normalisation.target, importance)
            found += [panel.members[position] for position in best]
        return found

    def _candidates(self, method: Assembled, specs: Sequence[ChainSpec]) -> tuple[list[Member], Tensor]:
        """What the chains have to offer, each the newest first, and its held-out predictions [M, N, K]."""
        found: list[Member] = []
        for spec in specs:
            made = self._made_of(method, spec, self._samples(spec))
            found += made[: method.row.most_per_chain]
        return self._sound(found)

    def _made_of(self, method: Assembled, spec: ChainSpec, samples: list[Member]) -> list[Member]:
        """The members that a chain's samples make."""
        if (fit := method.weights.changes.fit) is not None:
            samples = [self._fitted(method, spec, sample, fit) for sample in self._sound(samples)[0]]
        offered = self._offered(method, samples)
        if any(candidate.weights is not None for candidate in offered):
            samples, _ = self._sound(samples)  # one that went astray would spoil a mean
            offered = self._offered(method, samples)
        return [self._made(method, spec, samples, candidate) for candidate in offered]

    def _fitted(self, method: Assembled, spec: ChainSpec, sample: Member, fit: Fit) -> Member:
        """A sample with the weights that come to it after training."""
        task, changes = self.task, method.weights.changes
        own = task.learned_by(spec.number)
        seen = seen_by(sample, task.space, own, task.normalisation, self.engine)
        before = sample.kind.layout(task.space.weight_layout(sample.architecture))
        views = before.views(sample.weights)
        views = {**views, **fit(views, before, seen)}
        entries = changes.fitted(before).entries
        weights = torch.cat([views[entry.name].reshape(-1).to(sample.weights) for entry in entries])
        return replace(sample, weights=weights, kind=Kind.of(method.row.weights, method.weights))

    def _offered(self, method: Assembled, samples: Sequence[Member]) -> list[Candidate]:
        cycles = [sample.origin.cycle for sample in samples]
        chain = samples[0].origin.chain if samples else ""
        key = draws.key(self.config.seed, "members", chain)
        return method.weights.candidates([sample.weights for sample in samples], cycles, key)

    def _made(
        self, method: Assembled, spec: ChainSpec, samples: list[Member], candidate: Candidate
    ) -> Member:
        newest = samples[candidate.samples[0]]
        if candidate.weights is None:
            return replace(newest, draw=candidate.draw)
        origin = replace(newest.origin, samples=len(candidate.samples))
        drawn = (candidate.draw,) if candidate.draw else ()
        key = draws.key(self.config.seed, "statistics", origin.chain, origin.cycle, *drawn)
        made_of, loader = (newest.architecture, candidate.weights), self._loader
        statistics = measure_statistics(*made_of, self.task.space, loader, self.engine, key, spec.number)
        return Member(*made_of, statistics, origin, Kind.of(method.row.weights, method.weights))

    @cached_property
    def _loader(self) -> Loader:
        """Of the images as they are: those of a member's predictions are not augmented either."""
        return self.task.loader(self.task.train, self.config.train.batch, self.engine)

    def _samples(self, spec: ChainSpec) -> list[Member]:
        reached = read_chain(self.run, spec.name).epoch
        # A chain that began anew and was given up has samples of its earlier course, too.
        found = [sample for sample in self.run.chains.samples(spec.name) if sample.origin.epoch < reached]
        cycle = spec.weights.cycle(self.config.train.epochs, 1)
        # One that was cut short before its first sample has left what it was then.
        return [sample for sample in found if cycle.collects_after(sample.origin.epoch)] or found

    def _sound(self, members: list[Member]) -> tuple[list[Member], Tensor]:
        """Those that predict numbers, with their held-out predictions.

        A chain's last step may have led it astray after its last loss had been looked at.
        """
        if not members:
            return [], torch.empty(0)
        predict = MembersPredictor(members, self.task.space, self.task.normalisation, self.engine)
        log_p = predict(self.task.held_out.images)
        sound = torch.isfinite(log_p).all(dim=2).all(dim=1).tolist()
        for member, kept in zip(members, sound, strict=True):
            if not kept:
                self.run.log("sample dropped", chain=member.origin.chain, epoch=member.origin.epoch)
        return [member for member, kept in zip(members, sound, strict=True) if kept], log_p[sound]


@dataclass(frozen=True, eq=False)
class Panel:
    """Members, by their places in the ensemble, and held-out images that none of them was trained on."""

    members: list[int]
    images: Tensor


def panels_of(numbers: Sequence[int], fold: np.ndarray | None, images: int) -> list[Panel]:
    """Who judges which held-out images, where members are of chains of these numbers."""
    if fold is None:
        return [Panel(list(range(len(numbers))), torch.arange(images))]
    count = int(fold.max()) + 1
    members = [[m for m, number in enumerate(numbers) if number % count == part] for part in range(count)]
    found = enumerate(members)  # what no chain has left out is not judged
    return [Panel(some, torch.from_numpy(np.flatnonzero(fold == part))) for part, some in found if some]


def said_by(panels: Sequence[Panel], predictions_MNK: Tensor) -> Tensor:
    """The panels' predictions of their images, one panel after another; all have as many members as the smallest."""
    least = min(len(panel.members) for panel in panels)
    parts = [predictions_MNK[panel.members[:least]][:, panel.images] for panel in panels]
    return torch.cat(parts, dim=1)


@dataclass(frozen=True, eq=False)
class Judged:
    """n of these images, one panel's after another's, which promises rest on."""

    images: LabelledImages
    panels: Sequence[Panel]
    temperature: Temperature  # that fits what panels say
    apart: Tensor  # [n]: neither the temperature nor a greedy choice of members has seen these
    unseen: Tensor  # [n]: those that foreign ones are told by, which a greedy choice has not seen
    greedy: bool

    @cached_property
    def labels(self) -> Tensor:
        return torch.from_numpy(self.images.labels)[torch.cat([panel.images for panel in self.panels])]


@dataclass(frozen=True, eq=False)
class Heard:
    """What panels said of n held-out images, one panel after another."""

    said: Tensor
    judged: Judged
    members: int  # of the ensemble

    def of_classes(self) -> HeldOut:
        scaled = calibration.scale(self.said, only(self.judged.temperature))
        return HeldOut.of(scaled, self.judged.labels, self.judged.apart)

    def of_numbers(self) -> Residuals:
        """Their scores know no temperature, so only a greedy choice has seen any of them."""
        panels, apart = self.judged.panels, self.judged.apart
        unseen = apart if self.judged.greedy else torch.ones_like(apart)
        least = min(len(panel.members) for panel in panels)
        panel_of = torch.full((self.members,), -1)
        for place, panel in enumerate(panels):
            panel_of[panel.members[:least]] = place
        judged_by = torch.cat([torch.full((len(panel.images),), place) for place, panel in enumerate(panels)])
        return Residuals.of(self.said, self.judged.labels, unseen, judged_by, panel_of)


# By the name of the target.
KEPT: dict[str, Callable[[Heard], HeldOut | Residuals]] = {
    "classes": Heard.of_classes,
    "numbers": Heard.of_numbers,
    "several": Heard.of_numbers,
}


def known_to(
    ensemble: Ensemble,
    task: Task,
    engine: Engine,
    seed: int,
    left_out: Sequence[Panel],
    judged: Judged,
) -> Known:
    """What members see of training images, and how they judge held-out ones: for promises, and to tell foreign ones.

    With folds panels have `left_out` training images.
    """
    # In the arithmetic that an ensemble predicts with, whatever the run's: promises compare new scores with these.
    exact = Engine(EngineSettings(device=engine.device.type, precision=ensemble.precision))
    exact.workers = engine.workers
    predictor = MembersPredictor(ensemble.members, task.space, task.normalisation, exact)
    log_p, features = predictor.look(judged.images.images)
    measures, target = task.measures, task.normalisation.target
    said = measures.mean(said_by(judged.panels, log_p))
    held_out = KEPT[target.name](Heard(said, judged, len(ensemble)))
    unseen = judged.unseen
    known, reach = _seen_in_training(predictor, task, seed, left_out, int(unseen.sum()))
    parts = []
    for panel in judged.panels:
        seen = [tuple(level[panel.images] for level in features[m]) for m in panel.members]
        own = [known[m] for m in panel.members]
        parts.append(scores_of(own, log_p[panel.members][:, panel.images], seen, measures))
    scores = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    found = Known(known, {name: score[unseen] for name, score in scores.items()}, held_out, reach)
    p_value = torch.ones(len(unseen), dtype=torch.float64)
    p_value[unseen] = found.own_p_values()
    if not unseen.all():
        p_value[~unseen] = found.p_values({name: score[~unseen] for name, score in scores.items()})
    return replace(found, held_out=held_out.judged(p_value))


def _seen_in_training(
    predictor: MembersPredictor, task: Task, seed: int, panels: Sequence[Panel], held_out: int
) -> tuple[tuple[Seen, ...], dict[str, Tensor]]:
    """What each member sees of images that it was trained on, and how far these lie, by name."""
    order = draws.permutation(draws.at(draws.key(seed, "known"), 0), len(task.train)).numpy()[:LOOKED_AT]
    train = task.train.take(np.sort(order))
    groups = torch.from_numpy(task.normalisation.target.groups(train.labels))
    seen = predictor.look(train.images)[1]
    left_out = torch.zeros(len(seen), len(task.train), dtype=torch.bool)
    if task.fold is not None:
        for panel in panels:
            for m in panel.members:
                left_out[m, panel.images] = True
    learned = ~left_out[:, torch.from_numpy(np.sort(order))]
    known = tuple(
        Seen.fit(tuple(level[own] for level in of_member), groups[own])
        for of_member, own in zip(seen, learned, strict=True)
    )
    return known, reach_of(known, seen, held_out)
