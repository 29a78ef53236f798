"""Learn a distribution over architectures.

Each step draws θ, takes a batch of the search's validation half and moves the distribution down its loss; then draws
θ again, takes a training batch and moves the supernet's weights (Algorithm 1 of the paper, first order).

Of second order, the loss is that of the weights after a step α on a training batch, which θ moves too (DARTS):

    d/dθ L_v(w', θ) = ∂L_v/∂θ − α · ∂²L_t/∂θ∂w · v,   w' = w − α ∇L_t(w, θ) + …,   v = ∇L_v(w', θ),

the product with the Hessian by a central difference: [∂L_t(w + εv)/∂θ − ∂L_t(w − εv)/∂θ]/2ε, ε = 0.01/‖v‖.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from uraenas.architectures import Mixed, Searched
from uraenas.base import draws
from uraenas.base.errors import UraenasError, require_not_negative, require_range
from uraenas.base.parts import Part
from uraenas.data import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine
from uraenas.learning.pace import Pace
from uraenas.learning.stages import Stages
from uraenas.spaces import Space, Supernet, option_counts
from uraenas.weights import Langevin, Point, Step, WeightMethod, prior_decay

DISTANCE = 0.01  # of the two sides of a central difference, as DARTS has it

# How the supernet's weights move: DrNAS's own step sizes. Nothing is sampled from them, so samples are no setting.
_DRNAS = {"step_size": 0.025, "floor": 0.001}
_UNSAMPLED: dict[str, Any] = {"samples": 1, "peak": 0.0, "mean_of": 0, "nesterov": False}
SUPERNET_WEIGHTS: dict[str, Part[Any]] = {
    "sghmc": Part(Langevin, _DRNAS, **_UNSAMPLED),
    "sgld": Part(Langevin, _DRNAS, momentum=0.0, **_UNSAMPLED),
    "point": Part(Point, _DRNAS, nesterov=False),
}


@dataclass(frozen=True)
class SearchTask:
    """What any search is given: a space, images to train networks on and images to judge them by, and an engine."""

    space: Space
    train: LabelledImages
    validation: LabelledImages
    normalisation: Normalisation
    load: Callable[[LabelledImages, int], Loader]  # with batches of at most so many
    engine: Engine
    seed: int


@dataclass(frozen=True)
class SearchSettings:
    """How the search runs. Defaults: DrNAS's, with the weights drawn by cyclical Langevin dynamics."""

    epochs: int = 100
    batch: int = 64  # at most: small sets get smaller ones, so that an epoch has eight steps
    distribution: str = "dirichlet"  # what is learned
    weights: str = "sghmc"  # how the supernet's weights move; point: DrNAS's own search
    prior_deviation: float = 0.365  # of those weights: weight decay 3e-4 at 25,000 images
    clip: float = 5.0  # largest norm of the weights' gradient; 0: no limit
    validation: float = 0.5  # of the training images, the part that the distribution's steps see
    # 2: the distribution's gradient looks a step of the weights ahead, at twice the cost and more
    order: int = 1
    partial: tuple[int, ...] = (1,)  # by stage: one of so many parts of the channels is operated on
    keep: tuple[int, ...] = ()  # by stage: how many options each decision keeps; all, if there is nothing
    still: float = 0.0  # part of each stage, at its start, in which the distribution does not move

    epochs_name: ClassVar[str] = "epochs"
    unit: ClassVar[str] = "epochs"

    def __post_init__(self) -> None:
        if not 0 < self.validation < 1:
            raise UraenasError(f"validation = {self.validation} is not allowed; allowed: above 0, below 1")
        require_range("epochs", self.epochs, 1, 100_000)
        require_range("batch", self.batch, 2, 1_000_000)
        require_range("prior_deviation", self.prior_deviation, 1e-6, 1e6)
        require_not_negative("clip", self.clip)
        require_range("order", self.order, 1, 2)
        _ = self.stages

    @property
    def units(self) -> int:
        return self.epochs

    @property
    def unit_epochs(self) -> int:
        return 1

    @property
    def stages(self) -> Stages:
        return Stages(self.epochs, self.partial, self.keep, self.still)

    def check(self, weights: WeightMethod) -> None:
        weights.cycle(self.epochs, 1)


@dataclass(frozen=True)
class SearchParts:
    """A search with its parts, made from a run's settings."""

    settings: SearchSettings
    distribution: Mixed
    weights: WeightMethod

    def notes(self) -> list[str]:
        return []


@dataclass(frozen=True)
class SearchState:
    """Everything the search needs to go on after `epoch` epochs."""

    epoch: int
    weights: dict[str, Tensor]  # of the supernet, and what its update keeps
    distribution: dict[str, Tensor]
    history: list[dict[str, Any]] = field(default_factory=list)


def initial_state(space: Space, parts: SearchParts, seed: int) -> SearchState:
    """Fresh supernet weights, and a distribution that favours nothing yet."""
    weights = space.supernet_layout().initial(draws.key(seed, "search", "weights"))
    state = {name: torch.zeros_like(weights) for name in parts.weights.state}
    distribution = parts.distribution.initial(option_counts(space), draws.key(seed, "search", "raw"))
    distribution |= parts.settings.stages.mask(parts.distribution, distribution, 0)
    return SearchState(0, {"weights": weights, **state}, distribution)


class Search:
    """The search in motion: its tensors live on the device, and each call of `advance` is one epoch."""

    def __init__(
        self,
        parts: SearchParts,
        space: Space,
        train: Loader,
        validation: Loader,
        engine: Engine,
        seed: int,
        state: SearchState | None = None,
    ) -> None:
        state = state or initial_state(space, parts, seed)
        self.settings, self.distribution, self.method = parts.settings, parts.distribution, parts.weights
        self.space, self.engine, self.train, self.validation = space, engine, train, validation
        self.epoch, self.history, self.seed = state.epoch, list(state.history), seed
        self.stages = self.settings.stages
        self.stages.check(space)
        self.images = 0  # seen so far, by this process
        self.decay = prior_decay(self.settings.prior_deviation, train.count)
        device, dtype = engine.device, engine.dtype
        cycle = self.method.cycle(self.settings.epochs, train.steps)
        self.pace = Pace(self.method, cycle, train.count, device, dtype)

        self.supernet = Supernet(space).to(device, dtype)
        with torch.no_grad():
            self.supernet.weights.copy_(state.weights["weights"])
        self.state = {name: state.weights[name].to(device, dtype, copy=True) for name in self.method.state}
        self.learned = {
            name: tensor.to(device, copy=True).requires_grad_(name in self.distribution.learned)
            for name, tensor in state.distribution.items()
        }
        self.keys = {
            purpose: torch.tensor(draws.key(seed, "search", purpose)).to(device)
            for purpose in ("architecture θ", "weights θ", "noise")
        }
        self.order_keys = {part: draws.key(seed, "search", part) for part in ("train", "validation")}
        self.step = torch.tensor(self.epoch * train.steps).to(device)
        self.losses = torch.zeros(2, device=device, dtype=torch.float64)  # validation, train; of an epoch
        self.drawn_train = train.draw([self.order_keys["train"]], self.epoch)
        self.drawn_validation = validation.draw([self.order_keys["validation"]], self.epoch)
        self.moves = torch.tensor(True).to(device)  # whether the distribution does, in this epoch
        self.lag = torch.tensor(0).to(device)  # steps that it did not move in
        self._make_steps()

    def _make_steps(self) -> None:
        """What a step runs; of each stage another, since the supernet's shape is another."""
        parts = self.stages.parts(self.epoch)
        loaders = (self.train, self.validation)
        self.gradients = self.engine.search_gradients(self.supernet, loaders, self.distribution.hard, parts)
        self._quiet = self.engine.capture(lambda: self._step(noisy=False))
        self._noisy = self.engine.capture(lambda: self._step(noisy=True))

    def _begin_epoch(self) -> None:
        """What changes from epoch to epoch, and from stage to stage."""
        self.drawn_train.refill(self.train.draw([self.order_keys["train"]], self.epoch))
        self.drawn_validation.refill(self.validation.draw([self.order_keys["validation"]], self.epoch))
        self.losses.zero_()
        stages = self.stages
        self.moves.fill_(not stages.is_still(self.epoch))
        self.lag.fill_(stages.still_before(self.epoch) * self.train.steps)
        if stages.begins(self.epoch):
            here = self.snapshot()
            weights = stages.widened(self.space, here.weights, self.epoch, self.seed)
            with torch.no_grad():
                for name, tensor in {"weights": self.supernet.weights, **self.state}.items():
                    tensor.copy_(weights[name])
                for name, tensor in stages.mask(self.distribution, here.distribution, self.epoch).items():
                    self.learned[name].copy_(tensor)
            self._make_steps()
        self.gradients.begin_epoch()

    @property
    def done(self) -> bool:
        return self.epoch >= self.settings.epochs

    @property
    def steps(self) -> tuple[int, int]:
        """Made, and in all."""
        return self.epoch * self.train.steps, self.pace.cycle.steps

    def trial(self) -> tuple["Search", float, int]:
        """Something whose steps can be timed, how many of them an epoch takes, and for how many epochs it is made."""
        return self, self.train.steps, self.pace.cycle.epochs

    def snapshot(self) -> SearchState:
        """The state to go on from."""
        weights = {"weights": self.supernet.weights, **self.state}
        return SearchState(self.epoch, _copied(weights), _copied(self.learned), list(self.history))

    def found(self) -> Searched:
        """What has been learned so far."""
        state = _copied(self.learned)
        return Searched(self.space, self.distribution, state, tuple(self.history))

    def advance(self, tick: Callable[[int, int], None] = lambda done, total: None) -> dict[str, Any]:
        """Run one epoch; returns its row of the history. `tick` hears of every step: how many are made, of how many."""
        self._begin_epoch()
        first = self.epoch * self.train.steps
        for step in range(first, first + self.train.steps):
            self.one_step(step)
            tick(step + 1, self.pace.cycle.steps)
        last = first + self.train.steps - 1
        row = self._row(last)
        if not (math.isfinite(row["validation_loss"]) and math.isfinite(row["train_loss"])):
            raise UraenasError(
                f"the search diverged: its loss is not finite in epoch {self.epoch} (step {last}, step size "
                f"{row['step_size']:.4g}); use smaller steps or less noise in the settings of search.weights and "
                "search.distribution"
            )
        self.epoch += 1
        self.images += 2 * self.train.steps * self.train.batch
        self.history.append(row)
        return row

    def one_step(self, step: int = 0) -> None:
        """Run one step; `step` says which, so that the host knows whether it adds noise."""
        with self.engine.threads(self.train.batch * self.train.height * self.train.width):
            (self._noisy if self.pace.deviation_at(step) > 0 else self._quiet)()

    def _row(self, step: int) -> dict[str, Any]:
        found = self.found()
        validation, train = (self.losses / self.train.steps).tolist()
        return {
            "epoch": self.epoch,
            "validation_loss": validation,
            "train_loss": train,
            "step_size": self.pace.cycle.step_size_at(step),
            "noise_deviation": self.pace.deviation_at(step),
            **self.distribution.facts(found.state),
            "genotype": str(found.expected),
            self.distribution.numbers: found.favour.tolist(),
        }

    def _step(self, noisy: bool) -> None:
        self._architecture_step()
        self._weight_step(noisy)
        self.step += 1

    def _mixing(self, purpose: str) -> Tensor:
        progress = self.step / self.pace.cycle.steps
        return self.distribution.mixing(self.learned, draws.at(self.keys[purpose], self.step), progress)

    def _architecture_step(self) -> None:
        mixing = self._mixing("architecture θ")
        position = self.step % self.validation.steps
        if self.settings.order == 1:
            loss, slope = self.gradients.of_mixing(self.validation, self.drawn_validation, position, mixing)
        else:
            loss, slope = self._ahead(mixing.detach(), position)
        objective = (mixing * slope).sum()  # has the loss's slope
        penalty = self.distribution.penalty(self.learned)
        if penalty is not None:
            objective = objective + penalty
        names = self.distribution.learned
        gradients = torch.autograd.grad(objective, [self.learned[name] for name in names])
        state = {name: tensor.detach() for name, tensor in self.learned.items()}
        step = self.step - self.lag if self.stages.still else self.step
        moved = self.distribution.update(state, dict(zip(names, gradients, strict=True)), step)
        with torch.no_grad():
            for name, tensor in state.items():
                new = moved[name]
                tensor.copy_(torch.where(self.moves, new, tensor) if self.stages.still else new)
        self.losses[0] += loss

    def _ahead(self, mixing: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Loss on validation images and slope of θ after a step of the weights, which stay as they are."""
        size = self.pace.step_size(self.step)
        training = (self.train, self.drawn_train, self.step % self.train.steps, mixing)
        validation = (self.validation, self.drawn_validation, position, mixing)
        here = self.supernet.weights.detach().clone()
        _, gradient = self.gradients.of_weights(*training)
        step = Step(self.step, size, exploring=False)
        moved = self.method.update({"weights": here, **self.state}, gradient + self.decay * here, step)
        self._put(moved["weights"])
        loss, slope = self.gradients.of_mixing(*validation)
        _, direction = self.gradients.of_weights(*validation)
        distance = DISTANCE / direction.norm().clamp_min(1e-12)
        self._put(here + distance * direction)
        _, above = self.gradients.of_mixing(*training)
        self._put(here - distance * direction)
        _, below = self.gradients.of_mixing(*training)
        self._put(here)
        return loss, slope - size * (above - below) / (2 * distance)

    def _put(self, weights: Tensor) -> None:
        with torch.no_grad():
            self.supernet.weights.copy_(weights)

    def _weight_step(self, noisy: bool) -> None:
        with torch.no_grad():
            mixing = self._mixing("weights θ")
        position = self.step % self.train.steps
        loss, gradient = self.gradients.of_weights(self.train, self.drawn_train, position, mixing)
        clip = self.settings.clip
        if clip > 0:
            gradient = gradient * (clip / gradient.norm().clamp_min(clip))
        state = {"weights": self.supernet.weights.detach(), **self.state}
        noise = None
        if noisy:
            key = draws.at(self.keys["noise"], self.step)
            noise = draws.normal(key, len(gradient), self.engine.dtype) * self.pace.deviation(self.step)
        step = Step(self.step, self.pace.step_size(self.step), not noisy, noise)
        moved = self.method.update(state, gradient + self.decay * state["weights"], step)
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(moved[name])
        self.losses[1] += loss


def _copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
