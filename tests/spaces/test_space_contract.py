"""What every entry of SPACES keeps to, and a cell of five nodes beside them: a new row is held to it by being there."""

import itertools
import json
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
import torch
from markupsafe import Markup
from plain_cases import FIVE, batch, perturbed, supernet_of
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.base.parts import Part
from uraenas.spaces import (
    SPACES,
    Architecture,
    CellSpace,
    Layout,
    Shape,
    Space,
    Stack,
    facts_of,
    folded,
    option_counts,
    space_of,
)

SMALL = {"channels": 3, "cells": 1}
FIVE_NODES = Part(type(FIVE), name=FIVE.name, nodes=FIVE.nodes, operations=FIVE.operations)
ROWS = {**SPACES, FIVE.name: FIVE_NODES}
# Pairs that differ in what has no effect.
ALIKE = {
    "nasbench201": (
        "|none~0|+|none~0|nor_conv_3x3~1|+|nor_conv_1x1~0|none~1|none~2|",
        "|avg_pool_3x3~0|+|none~0|none~1|+|nor_conv_1x1~0|none~1|none~2|",
    ),
    "five": (
        "|none~0|+|skip_connect~0|none~1|+|none~0|none~1|none~2|+|nor_conv_3x3~0|none~1|none~2|none~3|",
        "|none~0|+|none~0|nor_conv_3x3~1|+|avg_pool_3x3~0|none~1|none~2|+|nor_conv_3x3~0|none~1|none~2|none~3|",
    ),
    "perceptrons": ("relu64/identity/tanh16<0,1/out<0", "identity/relu64/tanh16<0/out<0,1"),
}


@pytest.fixture(params=ROWS)
def space(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Space:
    row = ROWS[request.param]
    monkeypatch.setitem(SPACES, request.param, row)
    small = {name: value for name, value in SMALL.items() if name in row.settings}
    return row.make({**small, "shape": Shape(8, 8, 2, 4)})


def drawn(space: Space) -> Iterator[Architecture]:
    """Random architectures without end, networks or not."""
    for number in itertools.count():
        key = draws.at(draws.key(0, "contract"), number)
        parts = enumerate(option_counts(space))
        yield space.architecture([int(draws.integers(draws.at(key, d), 1, count)) for d, count in parts])


def networks(space: Space, count: int) -> list[Architecture]:
    return list(itertools.islice((one for one in drawn(space) if space.is_valid(one)), count))


def stack_of(space: Space, architectures: list[Architecture]) -> Stack:
    stack = Stack(architectures, space).double()
    for m, one in enumerate(architectures):
        vectors = perturbed(space.weight_layout(one), m), perturbed(space.statistics_layout(one), m + 50)
        stack.put(m, *vectors)
    return stack


class Watched(dict):
    """Named tensors that note which of them are asked for."""

    def __init__(self, layout: Layout, flat: Tensor) -> None:
        super().__init__(layout.views(flat))
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.asked.add(name)
        return super().__getitem__(name)


# What there is to choose


def test_an_architecture_is_its_text_and_its_choices(space: Space) -> None:
    found = list(itertools.islice(drawn(space), 60))
    for architecture in found:
        assert space.parse(str(architecture)) == architecture
        assert space.parse(f" {architecture}\n") == architecture
        indices = space.indices(architecture)
        assert space.architecture(indices) == architecture
        for index, decision in zip(indices, space.decisions, strict=True):
            assert 0 <= index < len(decision.options)
    assert len(set(found)) == len({str(architecture) for architecture in found}) > 50


def test_decisions_have_different_names_and_options(space: Space) -> None:
    names = [decision.name for decision in space.decisions]
    assert len(names) == len(set(names)) > 0
    for decision in space.decisions:
        assert len(set(decision.options)) == len(decision.options) > 0
        assert decision.absent is None or 0 <= decision.absent < len(decision.options)


def test_texts_of_other_spaces_are_refused(space: Space) -> None:
    shape = Shape(8, 8, 2, 4)
    others = [row.make({"shape": shape}) for name, row in ROWS.items() if name != space.name]
    texts = [str(one) for other in others for one in networks(other, 3)]
    for text in (*texts, "", "|none~0|", "resnet18", str(networks(space, 1)[0])[:-3]):
        with pytest.raises(UraenasError):
            space.parse(text)


def test_what_is_no_network_is_refused(space: Space) -> None:
    if any(decision.absent is None for decision in space.decisions):
        pytest.skip("nothing can be left out here")
    empty = space.architecture([decision.absent for decision in space.decisions])
    assert not space.is_valid(empty)
    with pytest.raises(UraenasError, match="cuts the input off"):
        Stack([networks(space, 1)[0], empty], space)


def test_what_has_no_effect_is_left_out_of_the_canonical_form(space: Space) -> None:
    first, second = (space.parse(text) for text in ALIKE[space.name])
    assert first != second
    assert space.canonical(first) == space.canonical(second)
    assert space.cost(first) == space.cost(second)
    assert space.weight_layout(first) == space.weight_layout(second)
    images = batch(space, key=1)
    one, other = (stack_of(space, [architecture])(images) for architecture in (first, second))
    assert torch.equal(one, other)


def test_one_canonical_form_has_one_cost(space: Space) -> None:
    costs = {}
    for architecture in networks(space, 200):
        spent = space.cost(architecture)
        assert costs.setdefault(space.canonical(architecture), spent) == spent
    assert len(costs) > 10


# What it computes


def test_two_members_give_logits_and_gradients_for_every_tensor(space: Space) -> None:
    stack = stack_of(space, networks(space, 2)).train()
    images = batch(space, key=2, count=6)
    logits = stack(images)
    assert logits.shape == (2, 6, space.shape.classes)
    assert torch.isfinite(logits).all()
    weighting = torch.linspace(-1, 2, logits.numel(), dtype=torch.float64).view_as(logits)
    (gradient,) = torch.autograd.grad((logits * weighting + logits**2).sum(), stack.weights)
    assert torch.isfinite(gradient).all()
    for layout, part in zip(stack.weight_layouts, gradient.split(stack.weight_sizes), strict=True):
        for name, piece in layout.views(part).items():
            assert piece.abs().sum() > 0, name


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_a_stack_equals_each_member_alone(space: Space, training: bool, shared: bool) -> None:
    architectures = networks(space, 3)
    stack = stack_of(space, architectures).train(training)
    own = torch.stack([batch(space, key=m) for m in range(3)])
    before = stack.statistics.clone()
    together = stack(own[0] if shared else own)
    for m, architecture in enumerate(architectures):
        alone = Stack([architecture], space).double().train(training)
        alone.put(0, stack.take(m)[0], before.split(stack.statistics_sizes)[m])
        expected = alone(own[0 if shared else m])
        torch.testing.assert_close(together[m], expected[0], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(stack.take(m)[1], alone.take(0)[1], rtol=1e-10, atol=1e-10)
    if len(before):
        assert torch.equal(before, stack.statistics) != training  # they move in training alone


def test_a_trace_has_the_logits_of_a_prediction_and_features_of_every_image(space: Space) -> None:
    stack = stack_of(space, networks(space, 3)).eval()
    images = batch(space, key=4)
    for m, expected in enumerate(stack(images)):
        logits, levels = stack.trace(m, images)
        assert torch.equal(logits, expected)
        assert levels
        assert all(level.shape[0] == len(images) and level.dim() == 2 for level in levels)
        assert all(torch.isfinite(level).all() for level in levels)


def test_folded_weights_give_the_same_logits_and_features(space: Space) -> None:
    """In float64 to its last digits: folding is algebra, and no tensor of the member is changed by it."""
    stack = stack_of(space, networks(space, 3)).eval()
    before = stack.weights.detach().clone()
    images = batch(space, key=4)
    for m in range(3):
        architecture, weights, statistics = stack.named(m)
        ready = folded(space, architecture, weights, statistics)
        found, expected = (space.trace(architecture, w, statistics, images) for w in (ready, weights))
        for one, other in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
        logits = space.forward([architecture], [ready], [statistics], images, False)[0]
        torch.testing.assert_close(logits, expected[0], rtol=1e-9, atol=1e-10)
    assert torch.equal(stack.weights.detach(), before)


def test_layouts_hold_what_forward_needs_and_nothing_else(space: Space) -> None:
    images = batch(space, key=3)
    for architecture in networks(space, 5):
        layouts = space.weight_layout(architecture), space.statistics_layout(architecture)
        weights, statistics = (Watched(layout, perturbed(layout, 1)) for layout in layouts)
        space.forward([architecture], [weights], [statistics], images, True)
        assert weights.asked == {entry.name for entry in layouts[0].entries}
        assert statistics.asked == {entry.name for entry in layouts[1].entries}
    layout = space.supernet_layout()
    weights = Watched(layout, perturbed(layout, 1))
    mixing = torch.rand(len(space.decisions), max(option_counts(space)), dtype=torch.float64)
    space.supernet_forward(weights, images, mixing)
    assert weights.asked == {entry.name for entry in layout.entries}


def test_the_supernet_is_finite_and_differentiable_in_the_mixing(space: Space) -> None:
    """That it is the architecture's own network at a corner of the simplex is shown in test_supernet.py."""
    counts = option_counts(space)
    supernet, images = supernet_of(space), batch(space, key=4)
    present = torch.arange(max(counts)) < torch.tensor(counts)[:, None]
    flat = torch.where(present, 1.0 / torch.tensor(counts)[:, None], 0.0).double()
    corner = torch.zeros_like(flat)
    corner[torch.arange(len(counts)), torch.tensor(space.indices(networks(space, 1)[0]))] = 1
    for mixing in (flat.requires_grad_(), corner.requires_grad_()):
        logits = supernet(images, mixing)
        assert logits.shape == (len(images), space.shape.classes)
        assert torch.isfinite(logits).all()
        (slope,) = torch.autograd.grad((logits**2 * torch.arange(1, 5)).sum(), mixing)
        assert torch.isfinite(slope).all()
    assert ((slope != 0).sum(dim=1) > 0).any()


def test_the_slope_of_the_mixing_is_that_of_finite_differences(space: Space) -> None:
    counts = option_counts(space)
    supernet, images = supernet_of(space), batch(space, key=4)
    mixing = torch.full((len(counts), max(counts)), 1 / max(counts), dtype=torch.float64)

    def value(at: Tensor) -> Tensor:
        logits = supernet(images, at)
        return (logits * torch.linspace(-1, 2, logits.numel(), dtype=torch.float64).view_as(logits)).sum()

    direction = draws.normal(draws.at(9, 0), mixing.numel(), torch.float64).view_as(mixing)
    step = 1e-6 * direction
    (slope,) = torch.autograd.grad(value(mixing.requires_grad_()), mixing)
    with torch.no_grad():
        numerical = (value(mixing + step) - value(mixing - step)) / 2e-6
    assert float((slope * direction).sum()) == pytest.approx(float(numerical), rel=1e-4)
    absent = [d.absent for d in space.decisions]
    assert all(slope[d, o] == 0 for d, o in enumerate(absent) if o is not None)  # it adds nothing


# What it costs and looks like


def test_the_cost_in_parameters_is_the_size_of_the_weight_vector(space: Space) -> None:
    for architecture in networks(space, 60):
        spent = space.cost(architecture)
        assert spent.parameters == space.weight_layout(architecture).size
        assert spent.multiply_adds > 0


def test_no_network_has_more_parameters_than_the_largest(space: Space) -> None:
    sizes = [space.cost(architecture).parameters for architecture in networks(space, 100)]
    assert max(sizes) <= space.most_parameters
    # Taking the largest option at each decision in turn leads to it.
    best = list(space.indices(networks(space, 1)[0]))
    for _, (d, count) in itertools.product(range(2), enumerate(option_counts(space))):
        changed = [[*best[:d], option, *best[d + 1 :]] for option in range(count)]
        best = max(changed, key=lambda indices: space.cost(space.architecture(indices)).parameters)
    assert space.cost(space.architecture(best)).parameters == space.most_parameters


def test_a_space_survives_being_stored(space: Space) -> None:
    facts = json.loads(json.dumps(facts_of(space)))
    again = space_of(facts)
    assert again == space
    assert hash(again) == hash(space)
    assert again.weight_layout(networks(space, 1)[0]) == space.weight_layout(networks(space, 1)[0])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "nasbench"}, "unknown space 'nasbench'"),
        ({"channels": 0}, "channels = 0 is out of range"),
        ({"nodes": 5}, "nodes is not that of nasbench201"),
        ({"shape": 3}, "there is 3 instead of a table"),
        ({"shape": {"height": 2}}, "width is missing"),
        ({"shape": {"depth": 8}}, "height is missing"),
    ],
)
def test_a_description_of_no_space_is_refused(wrong: dict, why: str) -> None:
    facts = facts_of(SPACES["nasbench201"].make())
    space_of(facts)
    with pytest.raises(UraenasError, match=why):
        space_of({**facts, **wrong})
    for name in ("name", "channels", "shape"):
        with pytest.raises(UraenasError, match=f"{name} is missing"):
            space_of({key: value for key, value in facts.items() if key != name})


def test_a_cell_space_that_was_stored_without_halvings_has_those_of_its_images() -> None:
    facts = facts_of(CellSpace(shape=Shape(64, 64)))
    del facts["halvings"]
    assert space_of(facts) == CellSpace(shape=Shape(64, 64))


def test_drawings_are_markup_that_can_be_read(space: Space) -> None:
    tip = 'a "tip" & <more>'
    for architecture, labels in itertools.product(networks(space, 5), (True, False)):
        drawing = space.draw(architecture, 10, 60, 200, labels, tip)
        assert isinstance(drawing, Markup)
        (graph,) = ElementTree.fromstring(f"<svg>{drawing}</svg>")
        assert graph.get("data-tip") == tip
        assert isinstance(space.draw(architecture, 10, 60, 200), Markup)
        assert space.describe(architecture).strip()
    for name, class_, sample in space.legend():
        assert name
        assert isinstance(class_, str)
        assert isinstance(sample, Markup)
        ElementTree.fromstring(f"<svg>{sample}</svg>")
    for option in {option for decision in space.decisions for option in decision.options}:
        name, class_ = space.look(option)
        assert name
        assert class_ in ("o0", "o1", "o2", "o3", "o4")
