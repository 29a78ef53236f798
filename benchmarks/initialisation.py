"""What a supernet's operations look worth, by how its convolutions start.

python benchmarks/initialisation.py [--steps 400]

A small supernet on CIFAR-10 at 16 × 16 (20,000 training images), θ drawn from Dirichlet(1), SGD with DrNAS's settings;
from step 100 on the slopes of θ are averaged over steps and edges. A positive number: more of that operation lowers the
loss.
"""

import argparse
import math

import numpy as np
import torch
import torch.nn.functional as F

from uraenas.base import draws
from uraenas.architecture import uniform
from uraenas.data import load_dataset
from uraenas.networks import Supernet
from uraenas.networks.supernet import supernet_layout
from uraenas.spaces import OPERATIONS, Skeleton

SKELETON = Skeleton(channels=8, cells=3, height=16, width=16)


def he_factor(shape: tuple[int, ...], name: str) -> float:
    """What takes PyTorch's spread 1/√(3 · fan-in) to He's √(2 / fan-out), where several convolutions lie in one too."""
    outputs, inputs = shape[:2]
    return math.sqrt(6 * inputs / (inputs if ".from" in name else outputs))


def start(he: bool) -> torch.Tensor:
    layout = supernet_layout(SKELETON)
    flat = layout.initial(7)
    if he:
        for name, tensor in layout.views(flat).items():
            if tensor.dim() == 4:
                tensor *= he_factor(tuple(tensor.shape), name)
    return flat


def train(he: bool, images: torch.Tensor, labels: torch.Tensor, steps: int) -> None:
    supernet = Supernet(SKELETON)
    with torch.no_grad():
        supernet.weights.copy_(start(he))
    velocity = torch.zeros_like(supernet.weights)
    generator = torch.Generator().manual_seed(0)
    losses, pull = [], torch.zeros(len(OPERATIONS), dtype=torch.float64)
    for step in range(steps):
        chosen = torch.randint(0, len(labels), (64,), generator=generator)
        mixing = uniform().rsample(draws.at(torch.tensor(5), torch.tensor(step))).requires_grad_()
        loss = F.cross_entropy(supernet(images[chosen], mixing), labels[chosen])
        gradient, slope = torch.autograd.grad(loss, (supernet.weights, mixing))
        with torch.no_grad():
            gradient *= min(1.0, 5 / gradient.norm().item())
            velocity = 0.9 * velocity + gradient + 3e-4 * supernet.weights
            supernet.weights.sub_(0.025 * velocity)
        losses.append(loss.item())
        if step >= 100:
            pull -= (slope - slope.mean(dim=1, keepdim=True)).mean(dim=0) / (steps - 100)
    listed = ", ".join(f"{name} {value:+.4f}" for name, value in zip(OPERATIONS, pull.tolist(), strict=True))
    print(
        f"{'He' if he else 'PyTorch':8} loss of the last 100 steps {sum(losses[-100:]) / 100:.3f}; {listed}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args().steps
    part = load_dataset("cifar10").train.take(np.arange(20_000))
    images = F.avg_pool2d(torch.from_numpy(part.images).movedim(-1, 1).float(), 2)
    for he in (True, False):
        train(he, (images - 120) / 60, torch.from_numpy(part.labels), steps)


if __name__ == "__main__":
    main()
