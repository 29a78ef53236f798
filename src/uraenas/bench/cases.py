"""What is timed, a row each: a case runs one unit of work the plain way and through the engine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas import shifts
from uraenas.architectures import DISTRIBUTIONS, Dirichlet, Searched
from uraenas.bench import roofline
from uraenas.bench.kinds import KINDS
from uraenas.bench.plain import PlainNetwork, endless_batches
from uraenas.bench.roofline import Work
from uraenas.data.augment import AUGMENTATIONS, Augmentation
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine
from uraenas.ensemble import Member, MembersPredictor, Origin
from uraenas.learning.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.learning.search import SUPERNET_WEIGHTS, Search, SearchParts, SearchSettings
from uraenas.learning.train import StackOfChains, Training
from uraenas.spaces import CellSpace, Genotype
from uraenas.weights import WEIGHTS, Point, WeightMethod

POINT = Point()
# As searches find them: the best that DrNAS finds on NAS-Bench-201, 94.36 % there.
FOUND = Genotype.from_string(
    "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
)
SHORT = 8  # batches of an epoch whose augmentation is timed


@dataclass(frozen=True)
class Size:
    """How large the cases are."""

    space: CellSpace
    batch: int
    search_batch: int
    members: int
    images: int


@dataclass(frozen=True)
class Case:
    """One comparison. Each side does `amount` units of work per call, and leaves nothing running on the device."""

    unit: str
    amount: float
    plain: Callable[[], None]
    engine: Callable[[], None]
    work: Work | None = None  # what one call must at least do, where that can be said


class Bench:
    """Random images and ten sampled genotypes, shared by all cases."""

    def __init__(self, size: Size, engine: Engine) -> None:
        self.size, self.engine = size, engine
        shape = size.space.shape
        random = np.random.default_rng(0)
        of_images = (size.images, shape.height, shape.width, shape.channels)
        images = random.integers(0, 256, of_images, dtype=np.uint8)
        labels = random.integers(0, shape.classes, size.images)
        self.part = LabelledImages(images, labels.astype(np.int64))
        self.normalisation = Normalisation.of(images)
        self.genotypes, _ = Searched.nothing(size.space, Dirichlet()).draw(size.members, seed=0)

    def builders(self) -> dict[str, Callable[[], Case]]:
        """The cases by their task, each built when its turn comes, so that only one takes up memory."""
        changing = {name: part for name, row in AUGMENTATIONS.items() if (part := row.make()).changes}
        return {
            "search step": self.search,
            "member training": self.training,
            "prediction": self.prediction,
            "corruption": self.corruption,
            **{f"training with {name}": partial(self.augmentation, part) for name, part in changing.items()},
            **{f"training {name}": partial(self.kind, name) for name in KINDS},
        }

    def _loader(
        self, batch: int, epoch: int | None = None, augmentations: Sequence[Augmentation] = ()
    ) -> Loader:
        """Of all images, or of so many batches of them."""
        part = self.part if epoch is None else self.part.take(np.arange(min(len(self.part), epoch * batch)))
        where, classes = (self.engine.device, self.engine.dtype), self.size.space.shape.classes
        return Loader(part, self.normalisation, batch, 4, True, *where, augmentations, classes)

    def _stack(self, loader: Loader) -> StackOfChains:
        return self._chains(self.genotypes, POINT, loader)

    def _chains(self, genotypes: Sequence[Genotype], weights: WeightMethod, loader: Loader) -> StackOfChains:
        specs = [ChainSpec("sampled", weights, n, genotype) for n, genotype in enumerate(genotypes)]
        chains = [initial_chain(spec, self.size.space, 0) for spec in specs]
        settings = TrainSettings(epochs=1000)
        return StackOfChains(chains, Training(settings, self.size.space, loader, self.engine, 0))

    def _plain_batches(self, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        images = torch.from_numpy(self.part.images).movedim(-1, 1).contiguous()
        return endless_batches(images, torch.from_numpy(self.part.labels), batch, 4, self.engine.device)

    def _work(self, images: int, transfers: int, passes: int) -> Work:
        of_each = [
            roofline.of_member(g, self.size.space.skeleton, images, transfers, passes) for g in self.genotypes
        ]
        return sum(of_each, start=Work())

    def _finish(self) -> None:
        if self.engine.device.type == "cuda":
            torch.cuda.synchronize()

    def search(self, distribution: str = "dirichlet") -> Case:
        """One search step: architecture, then weights; the plain way is that of the Dirichlet."""
        size, device = self.size, self.engine.device
        loader = self._loader(size.search_batch)
        weights_rule = SUPERNET_WEIGHTS["sghmc"].make({"cycles": 1})
        parts = SearchParts(SearchSettings(epochs=1000), DISTRIBUTIONS[distribution].make(), weights_rule)
        searching = Search(parts, size.space, loader, loader, self.engine, seed=0)
        network = PlainNetwork(None, size.space.skeleton).to(device)
        raw = torch.zeros(6, 5, device=device, requires_grad=True)
        weights = torch.optim.SGD(network.parameters(), 0.025, momentum=0.9, weight_decay=3e-4)
        architecture = torch.optim.Adam([raw], 3e-4, betas=(0.5, 0.999), weight_decay=1e-3)
        batches = self._plain_batches(size.search_batch)

        def plain() -> None:
            for optimiser in (architecture, weights):
                x, y = next(batches)
                mixing = torch.distributions.Dirichlet(F.elu(raw) + 1).rsample()
                optimiser.zero_grad()
                F.cross_entropy(network(x, mixing), y).backward()
                optimiser.step()
            self._finish()

        def engine() -> None:
            searching.one_step()
            self._finish()

        work = roofline.of_search_step(size.space.skeleton, loader.batch)
        return Case("steps/s", 1, plain, engine, work)

    def training(self) -> Case:
        """One step of every member."""
        size, device = self.size, self.engine.device
        loader = self._loader(size.batch)
        stack = self._stack(loader)
        networks = [PlainNetwork(genotype, size.space.skeleton).to(device) for genotype in self.genotypes]
        optimisers = [
            torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
            for network in networks
        ]
        batches = self._plain_batches(size.batch)

        def plain() -> None:
            for network, optimiser in zip(networks, optimisers, strict=True):
                x, y = next(batches)
                optimiser.zero_grad()
                F.cross_entropy(network(x), y).backward()
                optimiser.step()
            self._finish()

        def engine() -> None:
            stack.one_step()
            self._finish()

        work = self._work(loader.batch, roofline.TRAINING, passes=3)
        amount = loader.batch * size.members
        return Case("member-images/s", amount, plain, engine, work)

    def prediction(self) -> Case:
        """Every member on the same images."""
        size, device = self.size, self.engine.device
        members = []
        for n, genotype in enumerate(self.genotypes):
            state = initial_chain(ChainSpec("sampled", Point(), n, genotype), size.space, 0)
            origin = Origin("bench", 0, 0, 0)
            members.append(Member(genotype, state.tensors["weights"], state.tensors["statistics"], origin))
        skeleton = size.space.skeleton
        networks = [PlainNetwork(genotype, skeleton).to(device).eval() for genotype in self.genotypes]
        predict = MembersPredictor(members, size.space, self.normalisation, self.engine)
        count = size.images // 5
        images = self.part.images[:count]

        @torch.no_grad()
        def plain() -> None:
            x = torch.from_numpy(images).to(device).movedim(-1, 1).float().div(255) - 0.5
            for network in networks:
                for start in range(0, count, 256):
                    torch.log_softmax(network(x[start : start + 256]), dim=1).cpu()

        def engine() -> None:
            predict(images)

        work = self._work(count, roofline.PREDICTION, passes=1)
        return Case("member-images/s", count * size.members, plain, engine, work)

    def corruption(self) -> Case:
        """Images under four corruptions: one at a time, and in batches."""
        images = self.part.images[: min(200, self.size.images)]
        names = shifts.SUITES["basic"]

        def plain() -> None:
            for name in names:
                for index in range(len(images)):
                    shifts.corrupt(images[index : index + 1], name, 3, 0, first_index=index)

        def engine() -> None:
            for name in names:
                shifts.corrupt(images, name, 3, 0)

        return Case("images/s", len(images) * len(names), plain, engine)

    def augmentation(self, part: Augmentation) -> Case:
        """A short epoch of every member on images as they are, here the plain way, and on augmented ones."""
        size = self.size
        without, loader = self._loader(size.batch, SHORT), self._loader(size.batch, SHORT, [part])
        plainly, augmented = self._stack(without), self._stack(loader)

        def plain() -> None:
            plainly.advance()
            self._finish()

        def engine() -> None:
            augmented.advance()
            self._finish()

        amount = loader.steps * loader.batch * size.members
        return Case("member-images/s", amount, plain, engine)

    def kind(self, name: str) -> Case:
        """A step of one network with this kind of weights, by PyTorch's operations on both sides but for `point`."""
        size = self.size
        loader = self._loader(size.batch)
        stack = self._chains([FOUND], WEIGHTS[name].make(), loader)
        network = PlainNetwork(FOUND, size.space.skeleton).to(self.engine.device)
        loss = KINDS[name](network)
        rule = partial(torch.optim.SGD, lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
        optimiser = rule(network.parameters())
        batches = self._plain_batches(size.batch)

        def plain() -> None:
            optimiser.zero_grad()
            loss(*next(batches)).backward()
            optimiser.step()
            self._finish()

        def engine() -> None:
            stack.one_step()
            self._finish()

        return Case("images/s", loader.batch, plain, engine)
