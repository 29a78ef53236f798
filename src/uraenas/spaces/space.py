"""The seam `Space`: which networks exist, how they compute, what they cost and how they are drawn.

A space is a frozen dataclass. Its fields are the settings `network.…`, but for `name` and `shape`. An architecture is
any hashable value whose `str` is its text. Everything else in the program speaks of decisions, options and layouts.

All of `Space` is required. Below it stand four small protocols, each with what a space may offer besides: `Folding`,
`Together`, `InParts` and `ChosenAlone`. A space offers one by having its methods, and does without by not having them.
"""

import math
from collections.abc import Sequence
from dataclasses import Field, asdict, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from markupsafe import Markup
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields
from uraenas.spaces.layout import Layout, Tensors
from uraenas.spaces.passage import PLAIN, Passage

MOST_SIDE, MOST_CLASSES = 100_000, 1_000_000
Architecture = Any  # a hashable value; its `str` is its text
# What a network sees of N images: a matrix [N, F] for each level, the first level first.
Features = tuple[Tensor, ...]


@dataclass(frozen=True)
class Shape:
    """What the data asks of a network: the size of its images, and how many numbers it gives, one for each class.

    A row of a table is an image of one pixel, its columns are channels. A number has a mean and a variance for classes.
    """

    height: int = 32
    width: int = 32
    channels: int = 3
    classes: int = 10

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels"):
            if not 1 <= getattr(self, name) <= MOST_SIDE:
                raise UraenasError(
                    f"images have {name} {getattr(self, name)}; it must be at least 1, and at most {MOST_SIDE:,}"
                )
        if not 2 <= self.classes <= MOST_CLASSES:
            raise UraenasError(
                f"classes = {self.classes} is out of range; a classifier needs at least 2, and has at most "
                f"{MOST_CLASSES:,}"
            )


@dataclass(frozen=True)
class Decision:
    """One thing to choose, and what there is to choose from; `absent` is the option that leaves it out, if any."""

    name: str
    options: tuple[str, ...]
    absent: int | None = None


@dataclass(frozen=True)
class Cost:
    """What one network costs for one image."""

    parameters: int
    multiply_adds: int


class Space(Protocol):
    """The protocol. Shapes: M members, N images, K classes, D decisions, O options (the most that a decision has)."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # it is a dataclass

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    # What there is to choose

    @property
    def decisions(self) -> Sequence[Decision]: ...

    def architecture(self, indices: Sequence[int]) -> Architecture:
        """The architecture that takes option `indices[d]` at decision d."""

    def indices(self, architecture: Architecture) -> tuple[int, ...]:
        """The way back."""

    def parse(self, text: str) -> Architecture:
        """The architecture whose `str` this is; an UraenasError if it is none of this space."""

    def is_valid(self, architecture: Architecture) -> bool:
        """Whether it is a network at all: one that is not is drawn again."""

    def canonical(self, architecture: Architecture) -> str:
        """What it computes: two architectures with one canonical form are the same function of their weights."""

    # What it computes

    def weight_layout(self, architecture: Architecture) -> Layout: ...

    def statistics_layout(self, architecture: Architecture) -> Layout:
        """Where running statistics of its norms lie; they move in training."""

    def forward(
        self,
        architectures: Sequence[Architecture],
        weights: Sequence[Tensors],
        statistics: Sequence[Tensors],
        images: Tensor,
        training: bool,
        passage: Passage = PLAIN,
    ) -> Tensor:
        """Logits [M, N, K] of images [N, C, H, W], or [M, N, C, H, W] where each member has its own.

        A space that does not call the passage at its layers, norms and sums has no masks and factors there.
        """

    def trace(
        self,
        architecture: Architecture,
        weights: Tensors,
        statistics: Tensors,
        images: Tensor,
        passage: Passage = PLAIN,
    ) -> tuple[Tensor, Features]:
        """One member in evaluation: logits [N, K], and what it sees on its way. Foreign images are told by it.

        By the first two levels images are ranked; others tell just what is far beyond all training images.
        """

    def supernet_layout(self) -> Layout: ...

    def supernet_forward(self, weights: Tensors, images: Tensor, mixing: Tensor) -> Tensor:
        """Logits [N, K] of the network with all options at once, each weighted by mixing [D, O]."""

    # What it costs and looks like

    def cost(self, architecture: Architecture) -> Cost: ...

    @property
    def most_parameters(self) -> int:
        """Of its largest network."""

    def look(self, option: str) -> tuple[str, str]:
        """An option, for people: its name, and the class that gives it its colour (`o0` … `o4`)."""

    def describe(self, architecture: Architecture) -> str:
        """A line for each decision that matters."""

    def draw(
        self,
        architecture: Architecture,
        x: float,
        y: float,
        width: float,
        labels: bool = False,
        tip: str = "",
    ) -> Markup:
        """A drawing with its left end at (x, y): 40 pixels up and down without labels, 90 with."""

    def legend(self) -> list[tuple[str, str, Markup]]:
        """Name, class and a sample of everything that drawings are made of."""


@runtime_checkable
class Folding(Protocol):
    """Norms can become part of what stands before them: members predict in fewer steps."""

    def folded(self, architecture: Architecture, weights: Tensors, statistics: Tensors) -> Tensors:
        """Weights for which `forward` and `trace` compute the same in evaluation."""


@runtime_checkable
class Together(Protocol):
    """Many members are one batch in training: that pays where networks are small."""

    def together(self, architectures: Sequence[Architecture], flat: Tensor, images: Tensor) -> Tensor:
        """What `forward` gives in training, [M, N, K], of the members' flat weights one after another."""


@runtime_checkable
class InParts(Protocol):
    """Options of the supernet can run on some of the channels: `search.partial` needs it."""

    @property
    def channels(self) -> int:
        """How many there are to divide."""

    def partial_forward(self, weights: Tensors, images: Tensor, mixing: Tensor, parts: int) -> Tensor:
        """What `supernet_forward` gives, with options that run on one of so many parts of the channels."""

    def widened(self, flat: Tensor, before: int, after: int, key: int) -> Tensor:
        """The supernet's flat weights, or what goes with them, when `before` parts become the fewer `after`."""


@runtime_checkable
class ChosenAlone(Protocol):
    """Where mixing weights are one-hot, options that are not chosen need not run."""

    def chosen_forward(
        self, weights: Tensors, images: Tensor, mixing: Tensor, chosen: Sequence[int]
    ) -> Tensor:
        """What `supernet_forward` gives, with option `chosen[d]` alone at decision d."""


def folded(space: Space, architecture: Architecture, weights: Tensors, statistics: Tensors) -> Tensors:
    """Weights to predict with: those of a space that is `Folding`, else these."""
    return space.folded(architecture, weights, statistics) if isinstance(space, Folding) else weights


def option_counts(space: Space) -> tuple[int, ...]:
    """How many options each decision has."""
    return tuple(len(decision.options) for decision in space.decisions)


def architecture_count(space: Space) -> int:
    return math.prod(option_counts(space))


def require_valid(space: Space, architecture: Architecture) -> None:
    if not space.is_valid(architecture):
        raise UraenasError(f"architecture {architecture} cuts the input off from the output")


def facts_of(space: Space) -> dict[str, Any]:
    """The space as it is stored: its settings, and the shape it was made for."""
    return asdict(space)


def shape_of(facts: Fields) -> Shape:
    """The shape that `facts_of` stored."""
    return Shape(*(facts.whole(name) for name in ("height", "width", "channels", "classes")))
