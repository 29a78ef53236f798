"""From one seed, the engine's losses follow those of a loop that anybody would write with torch.optim."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from plain_networks import copy_in, plain_member, plain_supernet

from uraenas.architectures import Dirichlet
from uraenas.architectures.dirichlet import concentration_of, sample
from uraenas.base import draws
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.learning.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.learning.search import SUPERNET_WEIGHTS, Search, SearchParts, SearchSettings
from uraenas.learning.train import StackOfChains, Training
from uraenas.spaces import CellSpace, Shape
from uraenas.weights import Point

SEED = 5
SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 3))
GENOTYPES = [
    SPACE.parse("|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|"),
    SPACE.parse("|skip_connect~0|+|avg_pool_3x3~0|nor_conv_3x3~1|+|none~0|nor_conv_1x1~1|skip_connect~2|"),
]
PRECISIONS = pytest.mark.parametrize(
    ("precision", "steps", "close"), [("float64", 16, 1e-8), ("float32", 5, 1e-4)]
)


def loader(engine: Engine) -> Loader:
    random = np.random.default_rng(0)
    labels = np.arange(84) % 3
    images = random.integers(0, 156, (84, 8, 8, 1), dtype=np.uint8) + (
        40 * labels[:, None, None, None]
    ).astype(np.uint8)
    part = LabelledImages(images, labels)
    return Loader(part, Normalisation.of(part.images), 12, 1, True, engine.device, engine.dtype)


@PRECISIONS
def test_members_of_a_stack(precision: str, steps: int, close: float) -> None:
    engine = Engine(EngineSettings(device="cpu", precision=precision))
    batches = loader(engine)
    specs = [ChainSpec("sampled", Point(), n, genotype) for n, genotype in enumerate(GENOTYPES)]
    chains = [initial_chain(spec, SPACE, SEED) for spec in specs]
    stack = StackOfChains(chains, Training(TrainSettings(epochs=12), SPACE, batches, engine, SEED))
    decay = 1 / (batches.count * 0.2**2)
    found = []
    for step in range(steps):
        if step % batches.steps == 0:
            stack.drawn.refill(batches.draw(stack.order_keys, step // batches.steps))
        stack.losses.zero_()
        stack.one_step(step)
        found.append(stack.losses.tolist())

    for m, (spec, chain) in enumerate(zip(specs, chains, strict=True)):
        network = plain_member(spec.architecture, SPACE).to(engine.dtype).train()
        layout = SPACE.weight_layout(spec.architecture)
        copy_in(network, layout, chain.tensors["weights"].to(engine.dtype))
        weights = list(network.parameters())
        velocities = [torch.zeros_like(weight) for weight in weights]
        for step in range(steps):
            drawn = batches.draw([spec.key(SEED, "order")], step // batches.steps)
            images, labels, _ = batches.batch_at(drawn, step % batches.steps)
            step_size = Point().cycle(12, batches.steps).step_size_at(step)
            loss = F.cross_entropy(network(images[0]), labels[0])
            with torch.no_grad():
                for weight, velocity, slope in zip(
                    weights, velocities, torch.autograd.grad(loss, weights), strict=True
                ):
                    descent = step_size * (slope + decay * weight)
                    velocity.mul_(0.9).sub_(descent)
                    weight.add_(0.9 * velocity - descent)
            assert found[step][m] == pytest.approx(loss.item(), abs=close), f"member {m}, step {step}"
    assert found[-1][0] != pytest.approx(found[0][0], abs=1e-3)  # it did move


@PRECISIONS
def test_the_search(precision: str, steps: int, close: float) -> None:
    engine = Engine(EngineSettings(device="cpu", precision=precision))
    train, validation = loader(engine), loader(engine)
    weights_rule = SUPERNET_WEIGHTS["point"].make()
    settings = SearchSettings(epochs=12, batch=12, weights="point")
    parts = SearchParts(settings, Dirichlet(step_size=0.01), weights_rule)
    searching = Search(parts, SPACE, train, validation, engine, SEED)
    beginning, decay = searching.snapshot(), 1 / (train.count * settings.prior_deviation**2)
    found = []
    for step in range(steps):
        if step % train.steps == 0:
            for part, drawn in ((train, searching.drawn_train), (validation, searching.drawn_validation)):
                name = "train" if part is train else "validation"
                drawn.refill(part.draw([searching.order_keys[name]], step // train.steps))
        searching.losses.zero_()
        searching.one_step(step)
        found.append(searching.losses.tolist())

    network = plain_supernet(SPACE).to(engine.dtype).train()
    copy_in(network, SPACE.supernet_layout(), beginning.weights["weights"].to(engine.dtype))
    raw = beginning.distribution["raw"].clone().requires_grad_()
    weights = list(network.parameters())
    velocities = [torch.zeros_like(weight) for weight in weights]
    architecture = torch.optim.Adam([raw], 0.01, betas=(0.5, 0.999), weight_decay=1e-3)
    for step in range(steps):
        losses = []
        for part, name in ((validation, "validation"), (train, "train")):
            drawn = part.draw([searching.order_keys[name]], step // part.steps)
            images, labels, _ = part.batch_at(drawn, step % part.steps)
            purpose = "architecture θ" if name == "validation" else "weights θ"
            key = draws.at(searching.keys[purpose], torch.tensor(step))
            mixing = sample(concentration_of(raw), key).to(engine.dtype)
            for block in network.blocks:
                block.mixing = mixing  # residual blocks do not look at it
            loss = F.cross_entropy(network(images[0]), labels[0])
            losses.append(loss.item())
            if name == "validation":
                (raw.grad,) = torch.autograd.grad(loss, raw)
                architecture.step()
                continue
            gradients = torch.autograd.grad(loss, weights)
            norm = torch.cat([gradient.reshape(-1) for gradient in gradients]).norm()
            for weight, gradient, velocity in zip(weights, gradients, velocities, strict=True):
                clipped = gradient * min(1.0, settings.clip / norm.item())
                # Heavy ball with the step size inside, as in SGHMC at temperature 0.
                velocity *= 0.9
                velocity -= weights_rule.cycle(12, train.steps).step_size_at(step) * (
                    clipped + decay * weight.detach()
                )
                weight.data += velocity
        assert found[step] == pytest.approx(losses, abs=close), f"step {step}"
    assert (raw - beginning.distribution["raw"]).abs().max() > 0.02  # it did move
