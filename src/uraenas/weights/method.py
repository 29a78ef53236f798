"""The seam `WeightMethod`: how the weights of a chain are learned or drawn, and what members its samples make.

An entry is a frozen dataclass whose fields are its section of the settings, `train.<section>.…`. It works on explicit
state, a dictionary of flat tensors whose last axis runs over all weights of a stack, so chains of one kind move side
by side, a step can be captured, and a checkpoint is that dictionary. `weights` is always part of it.

The loss is U(w)/N, the mean over N training images plus the prior's −log p(w)/N.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from uraenas.data.targets import CLASSES, Target
from uraenas.engine import Objective
from uraenas.spaces import Draw, Forward, Layout, Tensors, as_it_is
from uraenas.weights.cycle import Cycle


@dataclass(frozen=True)
class Step:
    """What one step of a stack of chains is told; tensors lie on the device."""

    number: Tensor  # counts from 0
    size: Tensor  # the step size [1]
    exploring: bool  # or sampling
    noise: Tensor | None = None  # normal, one number for each weight, as large as `noise_deviation` says


@dataclass(frozen=True)
class Candidate:
    """A member that a chain can give: one of its samples as it is, or new weights made of several."""

    samples: tuple[int, ...]  # their positions, the newest first
    weights: Tensor | None = None  # None: those of the one sample; else its statistics are measured anew
    draw: int = 0  # which pass it is, where `forward` makes a sample give several members


@dataclass(frozen=True, eq=False)
class Seen:
    """What a trained network makes of its N training images, as they are."""

    features: Tensor  # [N, F], that its last layer reads
    logits: Tensor  # [N, K]
    weights: Tensor | None  # [N], of the images, where they have some
    target: Target = CLASSES  # what the logits say


# weights by name, layout, draw → weights by name of the space's own network that predicts as this draw does
AsPlain = Callable[[Tensors, Layout, Draw], Tensors]
# weights by name, layout, what they make of the training images → weights that come to them after training
Fit = Callable[[Tensors, Layout, Seen], Tensors]


@dataclass(frozen=True)
class Changes:
    """What a kind of weights changes about networks and their training, besides how weights move."""

    # weights of its own, or other shapes; needs a `forward`, or heads
    layout: Callable[[Layout], Layout] = as_it_is
    # Where one pass makes several predictions, one after another in its logits, each a draw: the architecture that each
    # stands for, in any word.
    heads: tuple[str, ...] = ()
    repeats: int = 1  # how often each image stands in a batch of training
    # weights by name, how far training has come (0 … 1), training images → what is added to the loss
    penalty: Callable[[Tensors, Tensor, int], Tensor] | None = None
    # weights by name, key → what they become where a cosine of the sampling stage begins
    renew: Callable[[Tensors, Tensor], Tensors] | None = None
    fit: Fit | None = None
    fitted: Callable[[Layout], Layout] = as_it_is  # the layout with those
    as_plain: AsPlain | None = None  # None: `forward` predicts, or the weights are the network's as they are
    # whether draws of one network are plain networks that differ in the last layer alone
    in_one_pass: bool = False


UNCHANGED = Changes()


class WeightMethod(Protocol):
    """The protocol."""

    section: ClassVar[str]
    state: ClassVar[tuple[str, ...]]  # tensors beside `weights`, each 0 at the start
    # settings that `candidates` alone looks at: another value trains nothing
    of_members: ClassVar[tuple[str, ...]]

    @property
    def objective(self) -> Objective | None:
        """The loss: a method of the class, or None: that of the target, such as cross-entropy."""

    @property
    def forward(self) -> Forward | None:
        """What is wrapped around the network, in training and prediction: a method, or None: nothing is.

        In prediction an image's logits depend on weights and draw alone, not on the images beside it.
        """

    @property
    def changes(self) -> Changes:
        """What else it changes; UNCHANGED if nothing."""

    def cycle(self, epochs: int, steps_per_epoch: int) -> Cycle:
        """Step size and stage of every step, and when samples are kept."""

    def check(self, epochs: int) -> None:
        """Refuse a number of epochs in which a cycle would not end, or samples would not be samples."""

    def noise_deviation(self, step_size: float, images: int) -> float:
        """Standard deviation of the noise of a step that samples; 0: there is none."""

    def update(self, state: Tensors, gradient: Tensor, step: Step) -> Tensors:
        """The next state, given the gradient of the mean loss and the prior."""

    def moves(self, cycle: Cycle, epoch: int) -> Hashable:
        """What an epoch depends on: chains of two kinds with equal first epochs share them. Unique if in doubt."""

    def candidates(self, samples: Sequence[Tensor], cycles: Sequence[int], key: int) -> list[Candidate]:
        """Members out of a chain's samples (weights, and the cycle each is from), the newest first.

        What is drawn for them is drawn from the key.
        """

    @property
    def members_per_chain(self) -> int:
        """How many that are."""

    @property
    def trajectory(self) -> str:
        """The name of its chains: kinds that move alike to the end share them."""


def as_they_are(samples: Sequence[Tensor]) -> list[Candidate]:
    """Each sample is a member."""
    return [Candidate((position,)) for position in range(len(samples))]


def passes(samples: Sequence[Tensor], draws: int) -> list[Candidate]:
    """Each sample is as many members as it is drawn from."""
    return [Candidate((position,), draw=draw) for position in range(len(samples)) for draw in range(draws)]


def prior_decay(deviation: float, images: int) -> float:
    """The weight decay on the mean loss that a prior N(0, deviation²) on every weight amounts to."""
    return 1 / (images * deviation**2)
