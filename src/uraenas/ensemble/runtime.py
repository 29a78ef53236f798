"""Predictions on a CPU by ONNX Runtime: one graph of all members, without a file.

PyTorch spends more on calling the operations of one image than on computing them, and on several it is the slower one,
too. But making the graph takes seconds, which have to be earned first.
"""

import platform
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.data.loader import Normalisation
from uraenas.engine.runtime import Session, model_of
from uraenas.ensemble.graph import MembersNetwork, feature_name
from uraenas.ensemble.member import Member
from uraenas.ensemble.predictor import MembersPredictor, Predicting
from uraenas.spaces import Features, Space

PARITY = 1e-5  # how far a probability may be from that of PyTorch
CHECKED = 3  # images on which both must say the same
# Where ONNX Runtime keeps maps in blocks of channels, it is faster with any number of images. Elsewhere convolutions
# that read one map run as one, and PyTorch is faster with more than a few images (docs/performance.md).
BLOCKS = platform.machine().lower() in ("x86_64", "amd64")
FEW = 8
EARNED_CALLS = 64  # after which the graph is made …
EARNED_WORK = 10**11  # … or after so many multiply-adds: 56 images of ten members of NAS-Bench-201


class RuntimePredictor:
    """What `MembersPredictor` says, said by ONNX Runtime. What it does not take goes to PyTorch: floats for bytes,
    and many images where that is faster.

    There is a graph for probabilities, and one that also tells what members see; each is made when first needed.
    """

    def __init__(
        self,
        members: Sequence[Member],
        space: Space,
        normalisation: Normalisation,
        plain: Predicting,
        of_bytes: bool = True,
        threads: int = 0,
    ) -> None:
        self.image = (space.shape.height, space.shape.width, space.shape.channels)
        self.values = np.dtype(np.uint8 if of_bytes else np.float32)
        self.facts, self.threads, self.plain = (members, space, normalisation), threads, plain
        self.sessions: dict[bool, Session] = {}

    def __call__(self, images: np.ndarray) -> Tensor:
        """Log-probabilities [M, N, K]."""
        return self._log_p(self.session(False)(images)) if self.takes(images) else self.plain(images)

    def look(self, images: np.ndarray) -> tuple[Tensor, list[Features]]:
        """The same, and what each member sees of the images."""
        if not self.takes(images):
            return self.plain.look(images)
        found = self.session(True)(images)
        seen: list[Features] = [
            tuple(torch.from_numpy(found[feature_name(network, level)]) for level in range(self.levels))
            for network in range(1 + max(self.places))
        ]
        return self._log_p(found), [seen[network] for network in self.places]

    def session(self, looks: bool) -> Session:
        """The graph, made and compared with PyTorch once."""
        if looks not in self.sessions:
            network = MembersNetwork(*self.facts, looks).eval()
            model = model_of(network, self.image, self.values == np.uint8, merged=not BLOCKS)
            made = Session(model.SerializeToString(), self.threads)
            self._check(made)
            self.places, self.levels = [place for place, _ in network.places], network.levels
            self.sessions[looks] = made
        return self.sessions[looks]

    def takes(self, images: np.ndarray) -> bool:
        """Whether it is asked of these, or PyTorch."""
        fits = images.dtype == self.values and images.shape[1:] == self.image
        return fits and 0 < len(images) <= (len(images) if BLOCKS else FEW)

    def _log_p(self, found: dict[str, np.ndarray]) -> Tensor:
        return torch.from_numpy(found["log_probabilities"]).movedim(1, 0)

    def _check(self, made: Session) -> None:
        """Refuse to speak differently from PyTorch."""
        random = np.random.default_rng(0)
        images = random.integers(0, 256, (CHECKED, *self.image)) / (1 if self.values == np.uint8 else 255)
        images = images.astype(self.values)
        apart = float((self._log_p(made(images)).exp() - self.plain(images).exp()).abs().max())
        if not apart <= PARITY:
            raise UraenasError(
                f"ONNX Runtime does not say what PyTorch says: probabilities differ by {apart:.2g}"
            )


class EarningPredictor:
    """PyTorch, until so much was asked of it that a graph pays; ONNX Runtime from then on, where it can be had.

    When that is depends on the calls and images alone, not on the clock, so that a program says the same each time.
    """

    def __init__(self, plain: MembersPredictor, normalisation: Normalisation, of_bytes: bool) -> None:
        self.plain = plain
        self.runtime = RuntimePredictor(plain.members, plain.space, normalisation, plain, of_bytes)
        self.settled: dict[bool, Predicting] = {}  # who is asked from now on: to predict, and to look
        self.calls = self.work = 0
        self.per_image = sum(plain.space.cost(member.architecture).multiply_adds for member in plain.members)

    def __call__(self, images: np.ndarray) -> Tensor:
        """Log-probabilities [M, N, K]."""
        return self._after(images, False)(images)

    def look(self, images: np.ndarray) -> tuple[Tensor, list[Features]]:
        """The same, and what each member sees of the images."""
        return self._after(images, True).look(images)

    def _after(self, images: np.ndarray, looks: bool) -> Predicting:
        """Who is asked, these images counted where ONNX Runtime would take them."""
        if not self.runtime.takes(images):
            return self.plain
        self.calls, self.work = self.calls + 1, self.work + len(images) * self.per_image
        if looks not in self.settled and (self.calls > EARNED_CALLS or self.work > EARNED_WORK):
            self.settled[looks] = self.runtime
            try:
                self.runtime.session(looks)
            except UraenasError:  # it is not installed, or cannot run these members
                self.settled[looks] = self.plain
        return self.settled.get(looks, self.plain)
