"""Small networks of every kind of weights: stacks of chains, members, and what they make of a few images."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from uraenas.architectures import Dirichlet, Searched
from uraenas.base import draws
from uraenas.data import LabelledImages, digits
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import Kind, Member, Origin
from uraenas.learning.chains import ChainSpec, ChainState, TrainSettings, initial_chain
from uraenas.learning.train import StackOfChains, Training
from uraenas.spaces import CellSpace, Draw, Genotype, Shape, Stack
from uraenas.weights import WEIGHTS, WeightMethod

DOUBLE = torch.float64
SPACE = CellSpace(channels=2, cells=1, shape=Shape(8, 8, 1, 10))
EVERY_OPERATION = Genotype.from_string(
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|nor_conv_3x3~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_3x3~2|"
)
OTHER = Searched.nothing(SPACE, Dirichlet()).draw(1, seed=5)[0][0]
WRAPPED = [name for name, row in WEIGHTS.items() if row.make().forward is not None]
SETTINGS = TrainSettings(epochs=4, batch=20, prior_deviation=1.0)
SHORT = {"step_size": 0.05, "cycles": 1, "samples": 2, "exploration": 0.5, "peak": 0.5}
SEED = 3


def part() -> LabelledImages:
    """Forty digits."""
    whole = digits().train
    return replace(whole, images=whole.images[:40], labels=whole.labels[:40])


def loader(batch: int = SETTINGS.batch) -> Loader:
    images = part()
    normalisation = Normalisation.of(images.images)
    return Loader(images, normalisation, batch, 1, False, torch.device("cpu"))


def made(name: str, **values: Any) -> WeightMethod:
    """An entry with those of these values that are its settings."""
    row = WEIGHTS[name]
    return row.make({setting: value for setting, value in values.items() if setting in row.settings})


def chains(method: WeightMethod) -> list[ChainState]:
    """Two, of two architectures."""
    pair = enumerate((EVERY_OPERATION, OTHER))
    return [initial_chain(ChainSpec("sampled", method, n, one), SPACE, SEED) for n, one in pair]


def stack_of(states: list[ChainState], batch: int = SETTINGS.batch) -> StackOfChains:
    engine = Engine(EngineSettings(device="cpu", precision="float32"))
    return StackOfChains(states, Training(replace(SETTINGS, batch=batch), SPACE, loader(batch), engine, SEED))


def trained(states: list[ChainState], epochs: int) -> tuple[list[ChainState], list[Member]]:
    """Chains moved so many epochs on, side by side, and what they leave. Every epoch is one step."""
    stack, members = stack_of(states, batch=len(part())), []
    for _ in range(epochs):
        members += stack.advance()
    return stack.states(), members


def network_of(method: WeightMethod, key: int = 1, perturbed: bool = True) -> Stack:
    """A network in double precision, its statistics and shifts moved away from where they start."""
    changes = method.changes
    stack = Stack([EVERY_OPERATION], SPACE, lambda plain: changes.fitted(changes.layout(plain))).double()
    layouts = stack.weight_layouts[0], stack.statistics_layouts[0]
    weights, statistics = layouts[0].initial(key).double(), layouts[1].initial().double()
    if perturbed:
        weights += 0.1 * draws.normal(draws.at(key, 1), len(weights), DOUBLE)
        statistics += 0.1 * draws.uniform(draws.at(key, 2), len(statistics), DOUBLE)
    stack.put(0, weights, statistics)
    return stack


def images(count: int = 6, key: int = 7) -> Tensor:
    return draws.normal(draws.at(key, 0), count * 64, DOUBLE).view(count, 1, 8, 8)


def logits_of(method: WeightMethod, stack: Stack, x: Tensor, number: int | None = 0, key: int = 11) -> Tensor:
    """One pass: a step of training where there is no number, else the draw of that number."""
    drawn = Draw(draws.at(key, number or 0), number)
    return stack.train(number is None).run([0], stack.weights, x, method.forward, [drawn])[0]


def member_of(name: str, number: int = 0, **values: Any) -> Member:
    """A fresh member of this kind."""
    method = made(name, **values)
    state = chains(method)[0]
    kind, origin = Kind.of(name, method), Origin(state.spec.name, 1, 0, 2)
    weights = kind.layout(SPACE.weight_layout(EVERY_OPERATION)).initial(SEED)
    return Member(EVERY_OPERATION, weights, state.tensors["statistics"], origin, kind, number)
