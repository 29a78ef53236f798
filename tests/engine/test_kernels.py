"""Each kernel, and the whole stack, against the plain computation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from uraenas.architectures import DISTRIBUTIONS
from uraenas.base import draws
from uraenas.data.augment import AUGMENTATIONS
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import EpochDraws, Loader, Normalisation
from uraenas.engine import Engine, EngineSettings, Wrapping
from uraenas.engine.capture import GraphedStep
from uraenas.engine.gradients import PlainGradients, PlainSearchGradients, of_chosen
from uraenas.engine.kernels.cells import program
from uraenas.engine.kernels.cells.images import augment
from uraenas.engine.kernels.cells.stack import StackProgram
from uraenas.engine.kernels.cells.training import KernelGradients, KernelSearchGradients, _losses
from uraenas.spaces import CellSpace, Shape, Stack, Supernet, option_counts

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SMALL = Shape(8, 8, classes=5)
FOUR, WIDE = (CellSpace(channels, cells=1, shape=SMALL) for channels in (16, 32))
FIVE = CellSpace(  # at 32 channels; its operations have other numbers
    channels=32,
    cells=1,
    nodes=5,
    operations=("none", "skip_connect", "nor_conv_3x3", "avg_pool_3x3", "nor_conv_1x1"),
    shape=SMALL,
)
MEMBERS = {  # of each space two with every operation and a dead edge between them, and few convolutions
    FOUR: [(3, 1, 2, 0, 4, 1), (2, 0, 0, 3, 0, 1)],
    WIDE: [(3, 1, 2, 0, 4, 1), (0, 4, 3, 2, 0, 3)],
    FIVE: [(2, 1, 4, 3, 0, 0, 0, 1, 2, 1), (0, 2, 3, 0, 0, 3, 1, 0, 4, 1)],
}
IDS = {FOUR: "16 channels", WIDE: "32 channels", FIVE: "five nodes"}
SPACES = pytest.mark.parametrize("space", MEMBERS, ids=IDS.get)


class InOneBlock:
    """A kernel that is launched with few programs and a large block."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *arguments, **options: self.kernel[(grid[0], 1)](
            *arguments, **{**options, "BLOCK": 1 << 16}
        )


@pytest.fixture(autouse=True)
def _cheap_to_interpret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter pays for each operation of each program, whatever its size, and twice to watch for overflow."""
    if DEVICE.type == "cuda":
        return
    from triton.runtime import interpreter

    unwatched = interpreter.InterpreterOptions(sanitize_overflow=False)
    monkeypatch.setattr(interpreter.interpreter_builder, "options", unwatched)
    monkeypatch.setattr(program, "PASSAGE_SPLITS", 2)
    for name in ("pack", "unpack_gradient"):
        monkeypatch.setattr(program.weights, name, InOneBlock(getattr(program.weights, name)))


def random(*shape: int, key: int = 0) -> torch.Tensor:
    return draws.normal(draws.at(key, 0), torch.Size(shape).numel()).view(shape).to(DEVICE)


@pytest.fixture(autouse=True)
def _without_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU PyTorch's convolutions would round their factors to 10 bits; a gradient is several percent off then."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def assert_near(found: torch.Tensor, expected: torch.Tensor, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Number by number in the interpreter; as a whole on a GPU, where sums have another order."""
    if DEVICE.type == "cpu":
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
    else:
        assert (found - expected).norm() < 1e-3 * expected.norm()


def stack_of(space: CellSpace, members: int) -> Stack:
    network = Stack([space.architecture(indices) for indices in MEMBERS[space][:members]], space)
    network.initialise([draws.key(0, "weights", m) for m in range(len(network))])
    with torch.no_grad():  # scales and shifts that differ from channel to channel
        network.weights.add_(0.05 * random(network.weights.numel()).cpu())
    return network.to(DEVICE)


def small_loader(batch: int) -> Loader:
    random_images = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    part = LabelledImages(random_images, np.arange(12) % 5)
    return Loader(part, Normalisation.of(part.images), batch, 1, True, DEVICE)


def plain_engine() -> Engine:
    return Engine(EngineSettings(device=DEVICE.type, precision="float32"))


@pytest.mark.parametrize(
    "space", [*(pytest.param(space, marks=pytest.mark.slow) for space in (FOUR, WIDE)), FIVE], ids=IDS.get
)
def test_a_training_step_has_the_plain_losses_and_gradient(space: CellSpace) -> None:
    """From raw uint8 images and an epoch's draws to losses, gradient and running statistics."""
    loader = small_loader(batch=2)
    plain, own = stack_of(space, 1), stack_of(space, 1)
    at = loader.draw([5], 0), torch.tensor(3, device=DEVICE), torch.tensor(3, device=DEVICE)
    expected_losses, expected_gradient = PlainGradients(plain, loader, plain_engine(), Wrapping())(*at)
    losses, gradient = KernelGradients(own, loader, torch.float32)(*at)
    assert_near(losses, expected_losses)
    assert_near(gradient, expected_gradient, 1e-3, 1e-4)
    assert_near(own.statistics, plain.statistics)


def test_weights_of_images_count_in_the_smoothed_share_of_mixed_labels_too() -> None:
    random_images = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    part = LabelledImages(random_images, np.arange(12) % 5, np.linspace(0.1, 3, 12, dtype=np.float32))
    mixup = [AUGMENTATIONS["mixup"].make()]
    loader = Loader(part, Normalisation.of(part.images), 4, 1, True, DEVICE, torch.float32, mixup, 5)
    loader.augment(5, 0)
    drawn, position = loader.draw([5], 0), torch.tensor(1, device=DEVICE)
    logits = random(1, 4, 5, key=3)
    losses, slope = _losses(logits.clone(), loader, drawn, position, torch.tensor([0.2], device=DEVICE))

    probabilities, _ = loader.labels_at(drawn, position)  # times weights
    importance = probabilities.sum(dim=-1, keepdim=True)
    assert importance.max() > 1.5 * importance.min()
    targets = 0.8 * probabilities + 0.2 * importance / 5
    expected = -(targets * logits.log_softmax(dim=-1)).sum(dim=-1).mean(dim=-1)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(slope, (importance * logits.softmax(dim=-1) - targets) / 4)


@pytest.mark.slow
@SPACES
def test_a_stack_equals_the_plain_stack_forward_backward_and_in_prediction(space: CellSpace) -> None:
    network, batch = stack_of(space, 2), 2
    images = random(len(network), batch, 3, 8, 8, key=1)
    own = StackProgram(network.architectures, space.skeleton, batch, DEVICE, torch.float32)
    weights, statistics = network.weights.detach().clone().requires_grad_(), network.statistics.clone()

    logits = own(weights, statistics, images, training=True)
    expected = network(images)
    assert_near(logits, expected)
    assert_near(statistics, network.statistics)

    slope = random(*expected.shape, key=2)
    logits.backward(slope)
    expected.backward(slope)
    assert_near(weights.grad, network.weights.grad, 1e-3, 1e-4)

    network.eval()
    with torch.no_grad():
        shared = own(weights, statistics, images[0], training=False)
        assert_near(shared, network(images[0]), 1e-4, 1e-4)


@pytest.mark.slow
@SPACES
def test_a_search_step_has_the_plain_losses_and_slopes(space: CellSpace) -> None:
    assert_search_step_is_plain(space, "dirichlet")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gdas", "bayesnas"])  # on the corners of the simplex, and outside it
def test_so_has_one_whose_mixing_weights_are_not_inside_the_simplex(name: str) -> None:
    assert_search_step_is_plain(FOUR, name)


@pytest.mark.slow
def test_a_step_with_huge_maps_leaves_the_next_one_right() -> None:
    """Where one option is drawn at a time, maps of one step may be a thousand times as large as those of the next."""
    assert_search_step_is_plain(FOUR, "gdas", after_huge_maps=True)


def spoil(program: program.Program) -> None:
    """Nothing that is left from before may be read, least of all for what does not run."""
    for buffers in program.stages:
        for tensor in (buffers.maps, buffers.norms, buffers.slopes, buffers.passage_sums):
            tensor.fill_(torch.nan)
    for tensor in (program.packed, program.partials, program.weight_partials):
        tensor.fill_(torch.nan)


def assert_search_step_is_plain(space: CellSpace, name: str, after_huge_maps: bool = False) -> None:
    loader = small_loader(batch=2)
    supernet = Supernet(space)
    supernet.initialise(draws.key(0, "weights"))
    supernet.to(DEVICE)
    here = DISTRIBUTIONS[name].make()
    state = here.initial(option_counts(space), draws.key(0, "mixing"))
    mixing = here.mixing(state, draws.at(3, 0), torch.tensor(0.0)).to(DEVICE)
    at = loader, loader.draw([5], 0), torch.tensor(2, device=DEVICE), mixing
    plain = PlainSearchGradients(supernet, plain_engine(), here.hard)
    own = KernelSearchGradients(supernet, 2, torch.float32, here.hard)
    spoil(own.program)
    if after_huge_maps:
        weights = supernet.weights.detach().clone()
        supernet.layout.views(supernet.weights.data)["stem.norm.scale"].mul_(1e5)
        own.of_weights(*at)
        supernet.weights.data.copy_(weights)
    for expected, found in ((plain.of_mixing, own.of_mixing), (plain.of_weights, own.of_weights)):
        expected_loss, expected_slope = expected(*at)
        loss, slope = found(*at)
        assert_near(loss, expected_loss)
        assert_near(slope, expected_slope, 1e-3, 1e-4)


@pytest.mark.gpu
def test_a_captured_step_skips_whatever_is_not_chosen_and_computes_the_same() -> None:
    """One graph for all choices. What is left out would have added zeros; sums may round differently all the same."""
    space, here = CellSpace(cells=2), DISTRIBUTIONS["gdas"].make()
    state = here.initial(option_counts(space), draws.key(0, "mixing"))
    supernet = Supernet(space)
    supernet.initialise(draws.key(0, "weights"))
    supernet.to(DEVICE)
    images = np.random.default_rng(0).integers(0, 256, (128, 32, 32, 3), dtype=np.uint8)
    part = LabelledImages(images, np.arange(128) % 10)
    loader = Loader(part, Normalisation.of(images), 64, 4, True, DEVICE)
    mixing = torch.zeros(len(space.decisions), len(space.operations), dtype=torch.float64, device=DEVICE)
    at = loader, loader.draw([5], 0), torch.tensor(1, device=DEVICE), mixing
    found: dict[bool, list[torch.Tensor]] = {}

    def step(own: KernelSearchGradients) -> None:
        loss, slope = own.of_mixing(*at)
        found[own.hard] = [loss, of_chosen(slope, mixing), *own.of_weights(*at)]

    skipping, whole = (KernelSearchGradients(supernet, 64, torch.bfloat16, hard) for hard in (True, False))
    captured = GraphedStep(lambda: step(skipping))
    for number in range(8):  # the fourth is captured
        mixing.copy_(here.mixing(state, draws.at(3, number), torch.tensor(0.0)).detach())
        captured()
        step(whole)
        for ours, theirs in zip(found[True], found[False], strict=True):
            assert (ours - theirs).norm() <= 1e-6 * theirs.norm()
    assert captured.graph is not None


@pytest.mark.gpu
@pytest.mark.parametrize("channels", [16, 32])
def test_bfloat16_predicts_as_float32_does_and_repeats_its_gradient(channels: int) -> None:
    space = CellSpace(channels)
    network = Stack([space.architecture(indices) for indices in MEMBERS[FOUR]], space)
    network.initialise([draws.key(0, "weights", m) for m in range(len(network))])
    network.to(DEVICE)
    images = random(len(network), 64, 3, 32, 32, key=1)
    own = StackProgram(network.architectures, space.skeleton, 64, DEVICE)
    slope = random(len(network), 64, 10, key=2) / 64
    gradients = []
    for _ in range(2):
        statistics = network.statistics.clone()
        logits = own(network.weights, statistics, images, training=True)
        gradients.append(torch.autograd.grad(logits, network.weights, slope)[0])
    assert torch.equal(*gradients)
    network.eval()
    with torch.no_grad():
        expected = network(images)
        found = own(network.weights, network.statistics, images, training=False)
    assert (found - expected).norm() < 2e-2 * expected.norm()


def test_augmentation_equals_gather_crop_flip_normalise() -> None:
    members, steps, batch, size, padding = 2, 3, 4, 8, 2
    raw = torch.randint(0, 256, (10, size, size, 3), generator=torch.Generator().manual_seed(0)).to(
        torch.uint8
    )
    padded = F.pad(raw, (0, 0, padding, padding, padding, padding)).to(DEVICE)
    key = draws.at(5, 0)
    drawn = EpochDraws(
        draws.integers(draws.at(key, 0), members * steps * batch, 10).view(members, steps, batch).to(DEVICE),
        draws.integers(draws.at(key, 1), members * steps * batch * 2, 5)
        .view(members, steps, batch, 2)
        .to(DEVICE),
        (draws.integers(draws.at(key, 2), members * steps * batch, 2) == 1)
        .view(members, steps, batch)
        .to(DEVICE),
    )
    mean, deviation = (
        torch.tensor([120.0, 110.0, 100.0]).to(DEVICE),
        torch.tensor([60.0, 61.0, 62.0]).to(DEVICE),
    )
    out = torch.full((members, batch, size, size, 4), torch.nan, device=DEVICE)
    step = torch.tensor(2, device=DEVICE)
    augment(padded, drawn.order, drawn.corner, drawn.flip, step, mean, deviation, out)
    for m in range(members):
        for b in range(batch):
            down, right = drawn.corner[m, 2, b].tolist()
            window = padded[drawn.order[m, 2, b], down : down + size, right : right + size].float()
            window = window.flip(1) if drawn.flip[m, 2, b] else window
            torch.testing.assert_close(out[m, b, ..., :3], (window - mean) / deviation)
    assert torch.all(out[..., 3] == 0)
