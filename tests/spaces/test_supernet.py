"""The supernet, which merges and fuses, computes what a plain sum over all operations computes."""

import pytest
import torch
from plain_cases import FIVE, FIVE_SAMPLE, SAMPLE, SPACES, TINY, batch, perturbed, supernet_of
from plain_networks import MixedCell, copy_in, copy_out, named_tensors, plain_member, plain_supernet

from uraenas.base import draws
from uraenas.spaces import CellSpace, Genotype, PerceptronSpace, Shape, Supernet


def random_mixing(space: CellSpace, key: int) -> torch.Tensor:
    shape = len(space.decisions), len(space.operations)
    return draws.log_gamma(draws.at(key, 0), torch.ones(shape)).exp().softmax(dim=1)


@pytest.mark.parametrize("space", [*SPACES.values(), FIVE], ids=[*SPACES, "five nodes"])
def test_it_equals_a_plain_sum_over_operations(space: CellSpace) -> None:
    supernet, plain = supernet_of(space), plain_supernet(space).double().train()
    copy_in(plain, supernet.layout, supernet.weights.detach())
    ours, theirs = (random_mixing(space, 3).requires_grad_() for _ in range(2))
    for block in plain.blocks:
        if isinstance(block, MixedCell):
            block.mixing = theirs
    images = batch(space, key=2)
    expected, logits = plain(images), supernet(images, ours)
    torch.testing.assert_close(logits, expected, rtol=1e-10, atol=1e-10)

    weighting = torch.linspace(-1, 2, expected.numel(), dtype=torch.float64).view_as(expected)
    for output in (expected, logits):
        (output * weighting + output**2).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-10)
    gradient = copy_out(plain, supernet.layout, gradients=True)
    torch.testing.assert_close(supernet.weights.grad, gradient, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("space", "genotype"), [*((TINY, g) for g in SAMPLE), *((FIVE, g) for g in FIVE_SAMPLE)], ids=str
)
def test_at_a_corner_of_the_simplex_it_is_that_genotype(space: CellSpace, genotype: Genotype) -> None:
    """One operation per edge with weight 1 leaves the network of that genotype, its norms without scale and shift."""
    supernet, plain = supernet_of(space), plain_member(genotype, space).double().train()
    views = supernet.layout.views(supernet.weights.detach())
    with torch.no_grad():
        for name, parts in named_tensors(plain).items():
            if name in views and len(parts) == 1 and parts[0].shape == views[name].shape:
                parts[0].copy_(views[name])
        for cell, block in enumerate(b for b in plain.blocks if hasattr(b, "edges")):
            for e, module in block.edges.items():
                source, target = space.cell.edges[int(e)]
                if hasattr(module, "conv"):
                    name = f"cell{cell}.from{source}.conv{module.conv.kernel_size[0]}.weight"
                    module.conv.weight.copy_(views[name].chunk(space.nodes - 1 - source)[target - source - 1])
    mixing = torch.eye(len(space.operations), dtype=torch.float64)[list(space.indices(genotype))]
    images = batch(space, key=4)
    torch.testing.assert_close(supernet(images, mixing), plain(images), rtol=1e-10, atol=1e-10)


def test_without_any_operation_the_logits_do_not_depend_on_the_image() -> None:
    supernet = supernet_of(CellSpace(channels=2, cells=1, shape=Shape(4, 4, 1, 2)))
    mixing = torch.zeros(6, 5, dtype=torch.float64)
    mixing[:, supernet.space.operations.index("none")] = 1
    logits = supernet(batch(supernet.space, key=1), mixing)
    torch.testing.assert_close(logits, logits[:1].expand_as(logits))
    assert torch.isfinite(logits).all()


def test_fresh_weights_are_a_function_of_the_key() -> None:
    first, second = Supernet(TINY), Supernet(TINY)
    first.initialise(1)
    second.initialise(1)
    assert torch.equal(first.weights, second.weights)
    second.initialise(2)
    assert not torch.equal(first.weights, second.weights)


def test_the_supernet_of_perceptrons_is_an_architectures_own_network_at_a_corner() -> None:
    """Narrow layers are the first units of the widest, and an identity passes on what it reads."""
    space = PerceptronSpace(nodes=2, widths=(2, 4), shape=Shape(1, 1, 3, 2))
    layout = space.supernet_layout()
    weights = layout.views(perturbed(layout, 3))
    rows = batch(space, key=1)
    one = space.parse("tanh2/relu4<0/out<0")
    mixing = torch.zeros(len(space.decisions), 7, dtype=torch.float64)
    mixing[torch.arange(len(space.decisions)), torch.tensor(space.indices(one))] = 1
    x = rows.flatten(1)
    first = torch.tanh(x @ weights["node1.from0.weight"][:2].T + weights["node1.bias"][:2])
    second = first @ weights["node2.from1.weight"][:, :2].T + x @ weights["node2.from0.weight"].T
    second = torch.relu(second + weights["node2.bias"])
    expected = (
        second @ weights["out.from2.weight"].T + x @ weights["out.from0.weight"].T + weights["out.bias"]
    )
    torch.testing.assert_close(space.supernet_forward(weights, rows, mixing), expected)
    linear = space.parse("identity/identity/out")
    mixing = torch.zeros_like(mixing)
    mixing[torch.arange(len(space.decisions)), torch.tensor(space.indices(linear))] = 1
    expected = x @ weights["out.from2.weight"][:, :3].T + weights["out.bias"]
    torch.testing.assert_close(space.supernet_forward(weights, rows, mixing), expected)
