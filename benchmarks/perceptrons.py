"""How fast is a stack of perceptrons, beside the same networks one after another in plain PyTorch?

    python benchmarks/perceptrons.py [--networks 100] [--rows 927] [--epochs 40] [--device auto] [--few 3]
                                     [--threads 1]

Random architectures, a table of random numbers of concrete's size, batches of 32, Adam. Plain networks are `nn.Linear`
layers with `torch.optim.Adam`; a few of them are timed, on one thread, and the rest is taken to last as long. Seconds
are of CPU, of all the stack's threads together, so that a busy machine counts less; on a GPU they are of the clock.
"""

import argparse
import time

import numpy as np
import torch
from torch import Tensor, nn

from uraenas.architectures import Dirichlet, Searched
from uraenas.base import draws
from uraenas.data import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.data.targets import Numbers
from uraenas.engine import Engine, EngineSettings
from uraenas.learning.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.learning.train import StackOfChains, Training
from uraenas.spaces import Perceptron, PerceptronSpace, Shape
from uraenas.spaces.perceptrons.network import ACTIVATIONS
from uraenas.weights import WEIGHTS

COLUMNS, BATCH = 8, 32


class Plain(nn.Module):
    """One network, as anyone would write it."""

    def __init__(self, architecture: Perceptron) -> None:
        super().__init__()
        self.layers, self.last = architecture.dense
        widths = [COLUMNS, *(layer.width for layer in self.layers)]
        self.dense = nn.ModuleList(
            nn.Linear(sum(widths[j] for j in layer.sources), layer.width) for layer in self.layers
        )
        self.out = nn.Linear(sum(widths[j] for j in self.last), 2)

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for layer, dense in zip(self.layers, self.dense, strict=True):
            z = dense(torch.cat([values[j] for j in layer.sources], dim=1))
            values.append(ACTIVATIONS[layer.activation](z))
        return self.out(torch.cat([values[j] for j in self.last], dim=1))


def plain_seconds(architecture: Perceptron, x: Tensor, y: Tensor, epochs: int, target: Numbers) -> float:
    """To train one network."""
    network = Plain(architecture).to(x.device)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    begun = _seconds(x.device)
    for _ in range(epochs):
        order = torch.randperm(len(x), device=x.device)
        for start in range(0, len(x) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            loss = target.loss(network(x[rows])[None], y[rows][None], None).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    _wait(x.device)
    return _seconds(x.device) - begun


def stack_seconds(
    architectures: list[Perceptron], space: PerceptronSpace, loader: Loader, engine: Engine, epochs: int
) -> float:
    """To train all of them as one stack."""
    specs = [ChainSpec("timed", WEIGHTS["adam"].make(), n, one) for n, one in enumerate(architectures)]
    chains = [initial_chain(spec, space, 0) for spec in specs]
    stack = StackOfChains(chains, Training(TrainSettings(epochs, BATCH), space, loader, engine, 0))
    begun = _seconds(engine.device)
    while not stack.done:
        stack.advance()
    _wait(engine.device)
    return _seconds(engine.device) - begun


def _seconds(device: torch.device) -> float:
    return time.perf_counter() if device.type == "cuda" else time.process_time()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("networks", 100), ("rows", 927), ("epochs", 40), ("few", 3), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    random = np.random.default_rng(0)
    images = random.standard_normal((chosen.rows, 1, 1, COLUMNS)).astype(np.float32)
    labels = random.standard_normal(chosen.rows)
    space, target = PerceptronSpace(shape=Shape(1, 1, COLUMNS, 2)), Numbers().fitted(labels)
    torch.set_num_threads(chosen.threads)  # the engine's
    engine = Engine(EngineSettings(device=chosen.device, precision="float32", stack=1000))
    torch.set_num_threads(1)
    units = Normalisation((0.0,) * COLUMNS, (1.0,) * COLUMNS, target)
    loader = Loader(LabelledImages(images, labels), units, BATCH, 0, False, engine.device, engine.dtype)
    nothing = Searched.nothing(space, Dirichlet())
    architectures = nothing.draw(chosen.networks, draws.key(0, "timed"))[0]
    x, y = torch.from_numpy(images[:, 0, 0]).to(engine.device), target.coded(labels).to(engine.device)
    few = [plain_seconds(one, x, y, chosen.epochs, target) for one in architectures[: chosen.few]]
    together = stack_seconds(architectures, space, loader, engine, chosen.epochs)
    apart = chosen.networks * sum(few) / len(few)
    print(f"{chosen.networks} networks, {chosen.rows} rows, {chosen.epochs} epochs, {engine.device}:")
    print(
        f"one stack {together:.1f} s; one after another {apart:.1f} s ({len(few)} timed): {apart / together:.1f}×"
    )


if __name__ == "__main__":
    main()
