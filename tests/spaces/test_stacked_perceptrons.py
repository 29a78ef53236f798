"""Many perceptrons as one: their slopes are written out by hand, so they are held against PyTorch's own."""

import torch
from torch import Tensor

from uraenas.spaces import Perceptron, PerceptronSpace, Shape, Stack
from uraenas.spaces.perceptrons import network

# All activations, layers that are not there, and nodes out of each other's reach.
SPACE = PerceptronSpace(nodes=5, widths=(2, 5), activations=(*network.ACTIVATIONS,), shape=Shape(1, 1, 3, 2))
NETWORKS = [
    SPACE.parse(text)
    for text in (
        "tanh5/relu2<0/swish5<0,1/linear2<0,1,2/relu5<1,3/out<2,4",
        "identity/swish2/identity/tanh5/identity/out<2,3,4",
        "relu5/relu5/relu5/relu5/relu5/out",
        "identity/identity/identity/identity/identity/out",
    )
]
ROWS = torch.linspace(-2, 2, 4 * 7 * 3).sin().view(4, 7, 1, 1, 3)


def stack_of(networks: list[Perceptron], dtype: torch.dtype) -> Stack:
    stack = Stack(networks, SPACE).to(dtype).train()
    stack.initialise([NETWORKS.index(one) for one in networks])
    return stack


def slope_of(outputs: Tensor, stack: Stack) -> Tensor:
    weighting = torch.linspace(-1, 1, outputs[0].numel(), dtype=outputs.dtype).view(outputs[0].shape)
    (slope,) = torch.autograd.grad((outputs**2 * weighting).sum(), stack.weights)
    return slope


def test_outputs_and_slopes_are_those_of_plain_networks() -> None:
    stack, rows = stack_of(NETWORKS, torch.float64), ROWS.double()
    parts = stack.weights.split(stack.weight_sizes)
    alone = [
        network.trace(one, layout.views(part), own.flatten(1))[0]
        for one, layout, part, own in zip(NETWORKS, stack.weight_layouts, parts, rows, strict=True)
    ]
    together = stack(rows)
    torch.testing.assert_close(together, torch.stack(alone))
    torch.testing.assert_close(slope_of(together, stack), slope_of(torch.stack(alone), stack))


def test_a_member_has_the_bits_of_its_slopes_alone() -> None:
    stack = stack_of(NETWORKS, torch.float32)
    together = slope_of(stack(ROWS), stack).split(stack.weight_sizes)
    for m, one in enumerate(NETWORKS):
        alone = stack_of([one], torch.float32)
        assert torch.equal(slope_of(alone(ROWS[m : m + 1]), alone), together[m])


def test_a_lower_precision_is_that_of_autocast() -> None:
    stack = stack_of(NETWORKS, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = stack(ROWS)
    assert outputs.dtype == torch.bfloat16
    slope = slope_of(outputs.float(), stack)
    assert slope.dtype == torch.float32
    exact = slope_of(stack(ROWS), stack)
    assert 0 < (slope - exact).norm() < 0.02 * exact.norm()
