"""Each kernel, and the whole stack, against the plain computation."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from uraenas.base import draws
from uraenas.architecture import uniform
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import EpochDraws, Loader, Normalisation
from uraenas.engine import Engine, EngineSettings, PlainGradients, PlainSearchGradients
from uraenas.base.errors import UraenasError
from uraenas.kernels.images import augment
from uraenas.kernels.stack import StackProgram
from uraenas.kernels.training import KernelGradients, KernelSearchGradients
from uraenas.networks import Stack, Supernet
from uraenas.spaces import Genotype, Skeleton

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
MIXED = [(3, 2, 3, 1, 4, 3), (2, 0, 3, 3, 2, 1)]  # every operation, and a dead edge


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


def small_stack() -> Stack:
    skeleton = Skeleton(channels=16, cells=1, height=8, width=8, classes=5)
    network = Stack([Genotype.from_indices(indices) for indices in MIXED], skeleton)
    network.initialise([draws.key(0, "weights", m) for m in range(len(network))])
    with torch.no_grad():  # scales and shifts that differ from channel to channel
        network.weights.add_(0.05 * random(network.weights.numel()).cpu())
    return network.to(DEVICE)


@pytest.mark.slow
def test_stack_equals_plain_stack_forward_backward_and_in_prediction():
    network, batch = small_stack(), 2
    images = random(len(network), batch, 3, 8, 8, key=1)
    program = StackProgram(network.genotypes, network.skeleton, batch, DEVICE, torch.float32)
    weights, statistics = network.weights.detach().clone().requires_grad_(), network.statistics.clone()

    logits = program(weights, statistics, images, training=True)
    expected = network(images)
    assert_near(logits, expected)
    assert_near(statistics, network.statistics)

    slope = random(*expected.shape, key=2)
    logits.backward(slope)
    expected.backward(slope)
    assert_near(weights.grad, network.weights.grad, 1e-3, 1e-4)

    network.eval()
    with torch.no_grad():
        shared = program(weights, statistics, images[0], training=False)
        assert_near(shared, network(images[0]), 1e-4, 1e-4)


@pytest.mark.slow
def test_a_training_step_has_the_plain_losses_and_gradient():
    """From raw uint8 images and an epoch's draws to losses, gradient and running statistics."""
    random_images = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    part = LabelledImages(random_images, np.arange(12) % 5)
    engine = Engine(EngineSettings(device=DEVICE.type, precision="float32"))
    loader = Loader(part, Normalisation.of(part.images), 2, 1, True, DEVICE)
    plain, own = small_stack(), small_stack()
    drawn, position = loader.draw([5, 6], 0), torch.tensor(3, device=DEVICE)
    expected_losses, expected_gradient = PlainGradients(plain, loader, engine)(drawn, position)
    losses, gradient = KernelGradients(own, loader, torch.float32)(drawn, position)
    assert_near(losses, expected_losses)
    assert_near(gradient, expected_gradient, 1e-3, 1e-4)
    assert_near(own.statistics, plain.statistics)


@pytest.mark.slow
def test_a_search_step_has_the_plain_losses_and_slopes():
    random_images = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    part = LabelledImages(random_images, np.arange(12) % 5)
    loader = Loader(part, Normalisation.of(part.images), 4, 1, True, DEVICE)
    engine = Engine(EngineSettings(device=DEVICE.type, precision="float32"))
    supernet = Supernet(Skeleton(channels=16, cells=1, height=8, width=8, classes=5))
    supernet.initialise(draws.key(0, "weights"))
    supernet.to(DEVICE)
    mixing = uniform().rsample(draws.at(torch.tensor(3), torch.tensor(0))).to(DEVICE)
    at = loader, loader.draw([5], 0), torch.tensor(2, device=DEVICE), mixing
    plain, own = (
        PlainSearchGradients(supernet, engine),
        KernelSearchGradients(supernet, 4, torch.float32),
    )
    for expected, found in ((plain.of_mixing, own.of_mixing), (plain.of_weights, own.of_weights)):
        expected_loss, expected_slope = expected(*at)
        loss, slope = found(*at)
        assert_near(loss, expected_loss)
        assert_near(slope, expected_slope, 1e-3, 1e-4)


@pytest.mark.gpu
def test_bfloat16_predicts_as_float32_does_and_repeats_its_gradient():
    network = Stack([Genotype.from_indices(indices) for indices in MIXED], Skeleton())
    network.initialise([draws.key(0, "weights", m) for m in range(len(network))])
    network.to(DEVICE)
    images = random(len(network), 64, 3, 32, 32, key=1)
    program = StackProgram(network.genotypes, network.skeleton, 64, DEVICE)
    slope = random(len(network), 64, 10, key=2) / 64
    gradients = []
    for _ in range(2):
        statistics = network.statistics.clone()
        logits = program(network.weights, statistics, images, training=True)
        gradients.append(torch.autograd.grad(logits, network.weights, slope)[0])
    assert torch.equal(*gradients)
    network.eval()
    with torch.no_grad():
        expected, found = (
            network(images),
            program(network.weights, network.statistics, images, training=False),
        )
    assert (found - expected).norm() < 2e-2 * expected.norm()


def test_augmentation_equals_gather_crop_flip_normalise():
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


def test_shapes_that_cannot_run_are_refused():
    genotype = Genotype.from_indices((3,) * 6)
    with pytest.raises(UraenasError, match="multiples of 4"):
        StackProgram([genotype], Skeleton(height=30, width=30), 4, "cpu", torch.float32)
    with pytest.raises(UraenasError, match="which take 16"):
        StackProgram([genotype], Skeleton(channels=8), 4, "cpu", torch.float32)
    with pytest.raises(UraenasError, match="cuts the input off"):
        StackProgram([Genotype.from_indices((0,) * 6)], Skeleton(), 4, "cpu", torch.float32)
