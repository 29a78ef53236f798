"""What do a supernet's operations look worth, by how its convolutions start?

    python studies/initialisation.py [--steps 400]

A small supernet on CIFAR-10 at 16 × 16 (20,000 training images), θ drawn from Dirichlet(1), SGD with DrNAS's settings;
after 100 steps the slopes of θ are averaged over steps and edges. A positive number: more of that operation lowers the
loss.
"""

import argparse
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.architectures import dirichlet
from uraenas.base import draws
from uraenas.data import load_dataset
from uraenas.spaces import CellSpace, Shape, Supernet

SPACE = CellSpace(channels=8, cells=3, shape=Shape(16, 16))
EARLY = 100  # steps before the slopes count


def he_factor(shape: tuple[int, ...], name: str) -> float:
    """What takes PyTorch's spread 1/√(3 · fan-in) to He's √(2 / fan-out), where several convolutions lie in one too."""
    outputs, inputs = shape[:2]
    return math.sqrt(6 * inputs / (inputs if ".from" in name else outputs))


def start(he: bool) -> Supernet:
    """A fresh supernet, its convolutions scaled to He's initialisation or as they come."""
    supernet = Supernet(SPACE)
    supernet.initialise(7)
    if he:
        for name, tensor in supernet.layout.views(supernet.weights.detach()).items():
            if tensor.dim() == 4:
                tensor *= he_factor(tuple(tensor.shape), name)
    return supernet


def train(supernet: Supernet, images: Tensor, labels: Tensor, steps: int) -> tuple[float, Tensor]:
    """The mean loss after the early steps, and what each operation looked worth in them."""
    velocity = torch.zeros_like(supernet.weights)
    generator = torch.Generator().manual_seed(0)
    uniform = torch.ones(len(SPACE.decisions), len(SPACE.operations))
    losses, pull = 0.0, torch.zeros(len(SPACE.operations), dtype=torch.float64)
    for step in range(steps):
        chosen = torch.randint(0, len(labels), (64,), generator=generator)
        mixing = dirichlet.sample(uniform, draws.at(5, step)).requires_grad_()
        loss = F.cross_entropy(supernet(images[chosen], mixing), labels[chosen])
        gradient, slope = torch.autograd.grad(loss, (supernet.weights, mixing))
        with torch.no_grad():
            gradient *= min(1.0, 5 / gradient.norm().item())
            velocity = 0.9 * velocity + gradient + 3e-4 * supernet.weights
            supernet.weights.sub_(0.025 * velocity)
        if step >= EARLY:
            losses += loss.item()
            pull -= (slope - slope.mean(dim=1, keepdim=True)).mean(dim=0)
    return losses / (steps - EARLY), pull / (steps - EARLY)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args().steps
    if steps <= EARLY:
        parser.error(f"--steps must be above {EARLY}")
    part = load_dataset("cifar10").train.take(np.arange(20_000))
    images = F.avg_pool2d(torch.from_numpy(part.images).movedim(-1, 1).float(), 2)
    labels = torch.from_numpy(part.labels)
    for name, he in (("He", True), ("PyTorch", False)):
        loss, pull = train(start(he), (images - 120) / 60, labels, steps)
        worth = zip(SPACE.operations, pull.tolist(), strict=True)
        listed = ", ".join(f"{operation} {value:+.4f}" for operation, value in worth)
        print(f"{name:8} loss after {EARLY} steps {loss:.3f}; {listed}", flush=True)


if __name__ == "__main__":
    main()
