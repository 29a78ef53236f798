"""Stage 1: learn the architecture distribution.

Each step draws θ, takes a batch of the search's validation half and moves the concentration down its loss; then draws
θ again, takes a training batch and moves the supernet's weights (Algorithm 1 of the paper, first order).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from uraenas import draws
from uraenas.architecture import ArchitectureDistribution, concentration_of
from uraenas.data.loader import Loader
from uraenas.engine import Engine
from uraenas.errors import (
    UraenasError,
    naming_section,
    require_not_negative,
    require_positive,
    require_range,
    unknown,
)
from uraenas.inference import SAMPLERS, Cycle, WeightRule
from uraenas.networks import Supernet
from uraenas.spaces import EDGES, OPERATIONS, Skeleton

REGULARISERS = ("l2", "kl", "none")
STATE = ("weights", "velocity", "raw", "first_moment", "second_moment")  # the tensors of a search's state


@dataclass(frozen=True)
class SearchSettings:
    """How the architecture distribution is learned. Defaults: DrNAS's, with the weights drawn by cyclical SGLD."""

    epochs: int = 100
    batch: int = 64  # at most: small sets get smaller ones, so that an epoch has eight steps
    weights: str = "sampled"  # sampled: cyclical Langevin dynamics; point: SGD, which is DrNAS's own search
    sampler: str = "sghmc"  # sgld has no momentum
    step_size: float = 0.025
    floor: float = 0.001  # the step size at the end of a cycle
    momentum: float = 0.9
    prior_deviation: float = 0.365  # weight decay 3e-4 at 25,000 images
    clip: float = 5.0  # largest norm of the weights' gradient; 0: no limit
    cycles: int = 4
    exploration: float = 0.8
    temperature: float = 1e-4
    architecture_step_size: float = 3e-4
    architecture_betas: tuple[float, float] = (0.5, 0.999)
    regulariser: str = (
        "l2"  # l2: decay of the raw parameter; kl: divergence from Dirichlet(1), summed over edges
    )
    regulariser_weight: float = 1e-3

    def __post_init__(self) -> None:
        if self.weights not in ("sampled", "point"):
            raise unknown("search weights", self.weights, ("sampled", "point"))
        if self.sampler not in SAMPLERS:
            raise unknown("sampler", self.sampler, SAMPLERS)
        if self.regulariser not in REGULARISERS:
            raise unknown("regulariser", self.regulariser, REGULARISERS)
        for name, least, most in (("epochs", 1, 100_000), ("batch", 2, 1_000_000), ("cycles", 1, 100_000)):
            require_range(f"search.{name}", getattr(self, name), least, most)
        for name in ("step_size", "architecture_step_size"):
            require_positive(f"search.{name}", getattr(self, name))
        if not all(0 <= beta < 1 for beta in self.architecture_betas):
            raise UraenasError(
                f"search.architecture_betas = {self.architecture_betas} is out of range; both: 0 or more, below 1"
            )
        for name in ("clip", "floor", "regulariser_weight"):
            require_not_negative(f"search.{name}", getattr(self, name))
        with naming_section("search"):
            self.rule(steps_per_epoch=1, images=1)  # its checks are ours

    def rule(self, steps_per_epoch: int, images: int) -> WeightRule:
        """The weight rule of the supernet."""
        point = self.weights == "point"
        cycle = Cycle(
            epochs=self.epochs,
            steps_per_epoch=steps_per_epoch,
            step_size=self.step_size,
            cycles=1 if point else self.cycles,
            exploration=1.0 if point else self.exploration,
            floor=self.floor,
        )
        return WeightRule(
            cycle,
            images=images,
            prior_deviation=self.prior_deviation,
            momentum=0.0 if self.sampler == "sgld" and not point else self.momentum,
            temperature=0.0 if point else self.temperature,
        )


@dataclass(frozen=True)
class SearchState:
    """Everything the search needs to go on after `epoch` epochs."""

    epoch: int
    tensors: dict[str, Tensor]  # those named in STATE
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def distribution(self) -> ArchitectureDistribution:
        return ArchitectureDistribution(concentration_of(self.tensors["raw"]))


def initial_state(skeleton: Skeleton, seed: int) -> SearchState:
    """Fresh supernet weights, and a raw parameter close to 0: almost Dirichlet(1)."""
    supernet = Supernet(skeleton)
    supernet.initialise(draws.key(seed, "search", "weights"))
    weights = supernet.weights.detach().clone()
    shape = (len(EDGES), len(OPERATIONS))
    raw = 1e-3 * draws.normal(
        draws.at(draws.key(seed, "search", "raw"), 0), shape[0] * shape[1], torch.float64
    )
    zeros = torch.zeros(shape, dtype=torch.float64)
    return SearchState(
        0,
        {
            "weights": weights,
            "velocity": torch.zeros_like(weights),
            "raw": raw.view(shape),
            "first_moment": zeros.clone(),
            "second_moment": zeros.clone(),
        },
    )


class Search:
    """The search in motion: its tensors live on the device, and each call of `advance` is one epoch."""

    def __init__(
        self,
        settings: SearchSettings,
        skeleton: Skeleton,
        train: Loader,
        validation: Loader,
        engine: Engine,
        seed: int,
        state: SearchState | None = None,
    ) -> None:
        state = state or initial_state(skeleton, seed)
        self.settings, self.engine = settings, engine
        self.train, self.validation = train, validation
        self.epoch, self.history = state.epoch, list(state.history)
        self.rule = settings.rule(train.steps, train.count)
        device, dtype = engine.device, engine.dtype

        self.supernet = Supernet(skeleton).to(device, dtype)
        self.raw = state.tensors["raw"].to(device, torch.float64, copy=True).requires_grad_()
        self.first_moment = state.tensors["first_moment"].to(device, torch.float64).clone()
        self.second_moment = state.tensors["second_moment"].to(device, torch.float64).clone()
        self.velocity = state.tensors["velocity"].to(device, dtype).clone()
        with torch.no_grad():
            self.supernet.weights.copy_(state.tensors["weights"])

        self.keys = {
            purpose: torch.tensor(draws.key(seed, "search", purpose)).to(device)
            for purpose in ("architecture θ", "weights θ", "noise")
        }
        self.order_keys = {part: draws.key(seed, "search", part) for part in ("train", "validation")}
        steps = range(self.rule.cycle.steps)
        self.step_sizes = torch.tensor([self.rule.cycle.step_size_at(k) for k in steps], dtype=dtype).to(
            device
        )
        self.deviations = torch.tensor([self.rule.noise_deviation_at(k) for k in steps], dtype=dtype).to(
            device
        )
        self.step = torch.tensor(self.epoch * train.steps).to(device)
        self.losses = torch.zeros(
            2, device=device, dtype=torch.float64
        )  # validation, train; summed over an epoch
        self.drawn_train = train.draw([self.order_keys["train"]], self.epoch)
        self.drawn_validation = validation.draw([self.order_keys["validation"]], self.epoch)
        self.gradients = engine.search_gradients(self.supernet, (train, validation))
        self._quiet = engine.capture(lambda: self._step(noisy=False))
        self._noisy = engine.capture(lambda: self._step(noisy=True))

    @property
    def done(self) -> bool:
        return self.epoch >= self.settings.epochs

    def state(self) -> SearchState:
        tensors = {
            "weights": self.supernet.weights,
            "velocity": self.velocity,
            "raw": self.raw,
            "first_moment": self.first_moment,
            "second_moment": self.second_moment,
        }
        copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        return SearchState(self.epoch, copies, list(self.history))

    def advance(self) -> dict[str, Any]:
        """Run one epoch; returns its row of the history."""
        self.drawn_train.refill(self.train.draw([self.order_keys["train"]], self.epoch))
        self.drawn_validation.refill(self.validation.draw([self.order_keys["validation"]], self.epoch))
        self.losses.zero_()
        self.gradients.begin_epoch()
        first = self.epoch * self.train.steps
        for step in range(first, first + self.train.steps):
            self.one_step(step)
        last = first + self.train.steps - 1
        row = self._row(last)
        if not (math.isfinite(row["validation_loss"]) and math.isfinite(row["train_loss"])):
            raise UraenasError(
                f"the search diverged: its loss is not finite in epoch {self.epoch} (step {last}, step size "
                f"{row['step_size']:.4g}); use a smaller search.step_size, search.architecture_step_size or "
                "search.temperature"
            )
        self.epoch += 1
        self.history.append(row)
        return row

    def one_step(self, step: int = 0) -> None:
        """Run one step; `step` says which, so that the host knows whether it adds noise."""
        (self._noisy if self.rule.noise_deviation_at(step) > 0 else self._quiet)()

    def _row(self, step: int) -> dict[str, Any]:
        distribution = ArchitectureDistribution(concentration_of(self.raw.detach()).cpu())
        validation, train = (self.losses / self.train.steps).tolist()
        return {
            "epoch": self.epoch,
            "validation_loss": validation,
            "train_loss": train,
            "step_size": self.rule.cycle.step_size_at(step),
            "noise_deviation": self.rule.noise_deviation_at(step),
            "entropy": float(distribution.entropy().sum()),
            "kl_to_uniform": float(distribution.kl_to_uniform().sum()),
            "genotype": str(distribution.expected_genotype()),
            "concentration": distribution.concentration.tolist(),
        }

    def _step(self, noisy: bool) -> None:
        self._architecture_step()
        self._weight_step(noisy)
        self.step += 1

    def _architecture_step(self) -> None:
        settings = self.settings
        distribution = ArchitectureDistribution(concentration_of(self.raw))
        mixing = distribution.rsample(draws.at(self.keys["architecture θ"], self.step))
        position = self.step % self.validation.steps
        loss, slope = self.gradients.of_mixing(self.validation, self.drawn_validation, position, mixing)
        objective = (mixing * slope).sum()  # has the loss's slope
        if settings.regulariser == "kl":
            objective = objective + settings.regulariser_weight * distribution.kl_to_uniform().sum()
        (gradient,) = torch.autograd.grad(objective, self.raw)
        if settings.regulariser == "l2":
            gradient = gradient + settings.regulariser_weight * self.raw.detach()
        self._adam(gradient)
        self.losses[0] += loss

    def _adam(self, gradient: Tensor) -> None:
        first, second = self.settings.architecture_betas
        self.first_moment.lerp_(gradient, 1 - first)
        self.second_moment.lerp_(gradient**2, 1 - second)
        count = (self.step + 1).to(torch.float64)
        mean = self.first_moment / (1 - first**count)
        deviation = torch.sqrt(self.second_moment / (1 - second**count)) + 1e-8
        with torch.no_grad():
            self.raw -= self.settings.architecture_step_size * mean / deviation

    def _weight_step(self, noisy: bool) -> None:
        weights = self.supernet.weights
        with torch.no_grad():
            distribution = ArchitectureDistribution(concentration_of(self.raw))
            mixing = distribution.rsample(draws.at(self.keys["weights θ"], self.step))
        position = self.step % self.train.steps
        loss, gradient = self.gradients.of_weights(self.train, self.drawn_train, position, mixing)
        if self.settings.clip > 0:
            gradient = gradient * (self.settings.clip / gradient.norm().clamp_min(self.settings.clip))
        noise = None
        if noisy:
            key = draws.at(self.keys["noise"], self.step)
            noise = draws.normal(key, len(weights), self.engine.dtype) * self.deviations.index_select(
                0, self.step.view(1)
            )
        step_size = self.step_sizes.index_select(0, self.step.view(1))
        moved, velocity = self.rule.update(weights.detach(), self.velocity, gradient, step_size, noise)
        with torch.no_grad():
            weights.copy_(moved)
            self.velocity.copy_(velocity)
        self.losses[1] += loss


def search(
    searching: Search, checkpoint: Callable[[SearchState], None], progress: Callable[[int, int], None]
) -> SearchState:
    """Run a search to its end; `checkpoint` sees the state after every epoch."""
    while not searching.done:
        searching.advance()
        checkpoint(searching.state())
        progress(searching.epoch, searching.settings.epochs)
    return searching.state()
