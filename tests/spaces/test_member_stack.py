"""A stack computes what plain networks compute, member by member: outputs, gradients, statistics."""

import pytest
import torch
import torch.nn.functional as F
from plain_cases import CONNECTED, FIVE, FIVE_SAMPLE, SAMPLE, SPACES, TINY, batch, member_vectors
from plain_networks import copy_in, copy_out, plain_member
from torch import Tensor, nn

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.spaces import CellSpace, Genotype, Shape, Stack
from uraenas.spaces.cells import edges


def stack_of(genotypes: list[Genotype], space: CellSpace, dtype: torch.dtype = torch.float64) -> Stack:
    stack = Stack(genotypes, space).to(dtype)
    for m, genotype in enumerate(genotypes):
        stack.put(m, *member_vectors(genotype, space, key=m))
    return stack


def step(stack: Stack, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, weight gradients and statistics after one forward and backward pass of a loss with no symmetry."""
    logits = stack(images)
    weighting = torch.linspace(-1, 2, logits[0].numel(), dtype=logits.dtype).view_as(logits[0])
    (gradient,) = torch.autograd.grad((logits * weighting + logits**2).sum(), stack.weights)
    return logits.detach(), gradient, stack.statistics.clone()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("space", "genotype"),
    [
        *((space, genotype) for space in SPACES.values() for genotype in SAMPLE),
        *((FIVE, genotype) for genotype in FIVE_SAMPLE),
    ],
    ids=[f"{name} {g}" for name in SPACES for g in SAMPLE] + [f"five nodes {g}" for g in FIVE_SAMPLE],
)
def test_one_member_equals_the_plain_network(genotype: Genotype, space: CellSpace, training: bool) -> None:
    stack = stack_of([genotype], space).train(training)
    images = batch(space, key=7)
    plain = plain_member(genotype, space).double().train(training)
    layouts = space.weight_layout(genotype), space.statistics_layout(genotype)
    for layout, vector in zip(layouts, stack.take(0), strict=True):
        copy_in(plain, layout, vector)

    logits, gradient, statistics = step(stack, images)
    expected = plain(images)
    weighting = torch.linspace(-1, 2, expected.numel(), dtype=torch.float64).view_as(expected)
    (expected * weighting + expected**2).sum().backward()

    torch.testing.assert_close(logits[0], expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gradient, copy_out(plain, layouts[0], gradients=True), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(statistics, copy_out(plain, layouts[1]), rtol=1e-10, atol=1e-10)
    assert torch.equal(statistics, member_vectors(genotype, space, 0)[1]) != training


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_a_stack_equals_its_members_run_one_by_one(
    dtype: torch.dtype, tolerance: float, shared: bool, training: bool
) -> None:
    stack = stack_of(SAMPLE, TINY, dtype).train(training)
    own_images = torch.stack([batch(TINY, key=m) for m in range(len(SAMPLE))]).to(dtype)
    before = [stack.take(m) for m in range(len(SAMPLE))]
    together = step(stack, own_images[0] if shared else own_images)
    gradients = together[1].split(stack.weight_sizes)
    statistics = together[2].split(stack.statistics_sizes)
    for m, genotype in enumerate(SAMPLE):
        alone = Stack([genotype], TINY).to(dtype).train(training)
        alone.put(0, *before[m])
        logits, gradient, moved = step(alone, own_images[0 if shared else m])
        for ours, theirs in ((together[0][m], logits[0]), (gradients[m], gradient), (statistics[m], moved)):
            torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_members_go_in_and_out_of_a_stack_unchanged() -> None:
    stack = stack_of(SAMPLE, TINY)
    for m, genotype in enumerate(SAMPLE):
        for ours, theirs in zip(stack.take(m), member_vectors(genotype, TINY, key=m), strict=True):
            assert torch.equal(ours, theirs)
    everything = stack.weights.detach().clone()
    other = stack_of(SAMPLE[::-1], TINY)
    for m in range(len(SAMPLE)):
        other.put(len(SAMPLE) - 1 - m, *stack.take(m))
    for m in range(len(SAMPLE)):
        stack.put(m, *other.take(len(SAMPLE) - 1 - m))
    assert torch.equal(stack.weights, everything)


def test_what_is_taken_out_is_a_copy() -> None:
    stack = stack_of(SAMPLE[:2], TINY)
    weights, statistics = stack.take(0)
    weights.zero_()
    statistics.zero_()
    assert torch.equal(stack.take(0)[0], member_vectors(SAMPLE[0], TINY, key=0)[0])
    assert torch.equal(stack.take(0)[1], member_vectors(SAMPLE[0], TINY, key=0)[1])


def test_fresh_weights_depend_on_a_members_own_key_alone() -> None:
    stack, alone = Stack(SAMPLE, TINY), Stack([SAMPLE[2]], TINY)
    stack.initialise(list(range(len(SAMPLE))))
    alone.initialise([2])
    assert torch.equal(stack.take(2)[0], alone.take(0)[0])
    alone.initialise([3])
    assert not torch.equal(stack.take(2)[0], alone.take(0)[0])


def test_fresh_weights_have_pytorchs_deviation_and_the_norms_start_neutral() -> None:
    space = CellSpace(channels=16, cells=1, shape=Shape(8, 8))
    fresh = space.weight_layout(Genotype(("nor_conv_3x3",) * 6))
    views = fresh.views(fresh.initial(key=3))
    for name, channels in (("cell0.from0.conv3", 16), ("cell1.from1.conv3", 32), ("reduce1.second", 32)):
        expected = torch.nn.Conv2d(channels, channels, 3).weight.std().item()
        assert views[f"{name}.weight"].std().item() == pytest.approx(expected, rel=0.05)
        assert (views[f"{name}.norm.scale"] == 1).all()
        assert (views[f"{name}.norm.shift"] == 0).all()


def test_a_genotype_that_cuts_the_input_off_is_refused() -> None:
    with pytest.raises(UraenasError, match="cuts the input off"):
        Stack([SAMPLE[0], Genotype(("nor_conv_3x3",) * 3 + ("none",) * 3)], TINY)


def counted_cost(genotype: Genotype, space: CellSpace) -> tuple[int, int]:
    """Parameters and multiply-adds of the plain network, counted while it runs."""
    plain = plain_member(genotype, space).eval()
    spent = 0

    def count(module: nn.Module, _: tuple[Tensor], output: Tensor) -> None:
        nonlocal spent
        inputs = module.weight[0].numel()
        spent += output[0].numel() * inputs

    for module in plain.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    plain(batch(space, key=0, count=1).float())
    return sum(parameter.numel() for parameter in plain.parameters()), spent


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_the_stated_cost_is_what_the_plain_network_spends(space: CellSpace) -> None:
    for genotype in CONNECTED[::1500]:
        stated = space.cost(genotype)
        assert (stated.parameters, stated.multiply_adds) == counted_cost(genotype, space), genotype


def test_the_plain_network_has_the_benchmarks_size() -> None:
    parameters, multiply_adds = counted_cost(Genotype(("nor_conv_3x3",) * 6), CellSpace())
    assert parameters == 1_531_546
    assert round(multiply_adds / 1e6, 2) == 220.12


# Genotypes of one canonical form


def moved(
    source: Genotype, target: Genotype, named: dict[str, Tensor], into: dict[str, Tensor], cells: int
) -> None:
    """Give `target`'s tensors the values of `source`'s, convolution by convolution of their common form."""

    def place(genotype: Genotype, edge: int, cell: int) -> tuple[str, int, int]:
        """Name of the merged convolution that holds an edge's, the edge's number in it, and how many it holds."""
        start, operation = edges(4)[edge][0], genotype.operations[edge]
        alike = [
            e for e in genotype.live_edges if edges(4)[e][0] == start and genotype.operations[e] == operation
        ]
        return f"cell{cell}.from{start}.conv{operation[-1]}", alike.index(edge), len(alike)

    for name, tensor in into.items():
        if not name.startswith("cell"):
            tensor.copy_(named[name])
    for cell in range(3 * cells):
        for from_edge, to_edge in zip(
            source.canonical.convolutions, target.canonical.convolutions, strict=True
        ):
            from_name, from_index, from_count = place(source, from_edge, cell)
            to_name, to_index, to_count = place(target, to_edge, cell)
            for part in ("weight", "norm.scale", "norm.shift", "norm.mean", "norm.variance"):
                if f"{to_name}.{part}" in into:
                    piece = named[f"{from_name}.{part}"].chunk(from_count)[from_index]
                    into[f"{to_name}.{part}"].chunk(to_count)[to_index].copy_(piece)


def pairs_of_one_form(count: int) -> list[tuple[Genotype, Genotype]]:
    """Pairs of different genotypes with one form, with as many convolutions as can be had first in some of them."""
    forms: dict[str, list[Genotype]] = {}
    for genotype in CONNECTED:
        if genotype.canonical.convolutions:
            forms.setdefault(genotype.canonical.text, []).append(genotype)
    groups = [group for group in forms.values() if len(group) > 1]
    order = draws.permutation(draws.at(draws.key(0, "pairs"), 0), len(groups)).tolist()
    chosen = [groups[i] for i in order[: count // 2]]
    rich = sorted(groups, key=lambda group: -len(group[0].canonical.convolutions))[: 4 * count : 4]
    chosen += rich[: count - len(chosen)]
    return [(group[0], group[len(group) // 2 if len(group) > 2 else 1]) for group in chosen]


def trained(genotype: Genotype) -> Stack:
    """A member after a few steps of gradient descent on random labels."""
    stack = stack_of([genotype], TINY).train()
    for number in range(4):
        images, labels = batch(TINY, key=number, count=6), torch.arange(6) % 3
        loss = F.cross_entropy(stack(images)[0], labels)
        (gradient,) = torch.autograd.grad(loss, stack.weights)
        with torch.no_grad():
            stack.weights -= 0.1 * gradient
    return stack


def test_genotypes_of_one_form_agree_for_matched_trained_weights() -> None:
    for one, other in pairs_of_one_form(16):
        first, second = trained(one), Stack([other], TINY).double()
        assert one != other
        assert first.weights.numel() == second.weights.numel()
        with torch.no_grad():
            for layouts, vector in (("weight_layouts", "weights"), ("statistics_layouts", "statistics")):
                named = getattr(first, layouts)[0].views(getattr(first, vector).detach())
                into = getattr(second, layouts)[0].views(getattr(second, vector).detach())
                moved(one, other, named, into, TINY.cells)
        images = batch(TINY, key=99)
        for training in (False, True):
            found, expected = (stack.train(training)(images) for stack in (second, first))
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10, msg=f"{one} as {other}")
