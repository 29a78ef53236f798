"""One-shot searches on a small supernet: what is mixed, and what each learns from it, against other ways to get it."""

import itertools
import math
from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.architectures import DISTRIBUTIONS, Dirichlet, Searched, categorical
from uraenas.architectures.gaussian import largest
from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data import digits, stratified_split
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.learning import search
from uraenas.learning.search import SUPERNET_WEIGHTS, Search, SearchParts, SearchSettings, SearchState
from uraenas.learning.stages import Stages
from uraenas.spaces import CellSpace, Shape, Stack, Supernet, Tensors, option_counts
from uraenas.spaces.cells import blocks

SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 10))
KEY = draws.key(3, "one-shot")
MIXED = [name for name, row in DISTRIBUTIONS.items() if row.made.loop == "supernet"]
OPTIONS = option_counts(SPACE)
ENGINE = Engine(EngineSettings(device="cpu", precision="float64"))


@pytest.fixture(scope="module")
def batch() -> tuple[Tensor, Tensor]:
    part = digits().train
    images = torch.from_numpy(part.images[:12]).movedim(-1, 1).double()
    return (images - images.mean()) / images.std(), torch.from_numpy(part.labels[:12])


@pytest.fixture(scope="module")
def supernet() -> Supernet:
    found = Supernet(SPACE)
    found.initialise(7)
    return found.double()


def state_of(name: str) -> Tensors:
    """A state that has learned something: every option is favoured differently."""
    here = DISTRIBUTIONS[name].make()
    state = here.initial(OPTIONS, KEY)
    learned = here.learned[0]
    bump = draws.normal(draws.at(KEY, 9), state[learned].numel(), torch.float64).view(state[learned].shape)
    return {**state, learned: state[learned] + 0.1 * bump.abs()}


# What is mixed


@pytest.mark.parametrize("name", [name for name in MIXED if name != "dirichlet"])  # it has tests of its own
def test_gradients_of_a_supernets_loss_are_those_of_differences(
    name: str, supernet: Supernet, batch: tuple[Tensor, Tensor]
) -> None:
    """Of the loss with this draw. Of GDAS, whose loss has steps, that of the loss's slope times the soft sample."""
    here, state = DISTRIBUTIONS[name].make(), state_of(name)
    key, progress = draws.at(KEY, 1), torch.tensor(0.4)
    values = {learned: state[learned].clone().requires_grad_() for learned in here.learned}
    mixing = here.mixing({**state, **values}, key, progress)
    loss = F.cross_entropy(supernet(batch[0], mixing, frozen=True), batch[1])
    slope, *gradients = torch.autograd.grad(loss, (mixing, *values.values()))

    def loss_at(learned: str, shifted: Tensor) -> float:
        moved = {**state, learned: shifted}
        if name == "gdas":
            temperature = here.first + (here.last - here.first) * progress
            soft = torch.softmax(categorical.perturbed(moved, key) / temperature, dim=-1)
            return float((soft * slope).sum())
        with torch.no_grad():
            return float(F.cross_entropy(supernet(batch[0], here.mixing(moved, key, progress)), batch[1]))

    for (learned, value), gradient in zip(values.items(), gradients, strict=True):
        for row, column in ((0, 3), (2, 1), (5, 4), (4, 2)):
            place = row, column % value.shape[1]
            step = torch.zeros_like(value)
            step[place] = 1e-5
            sides = (loss_at(learned, value.detach() + sign * step) for sign in (1, -1))
            numerical = next(sides) - next(sides)
            assert float(gradient[place]) == pytest.approx(numerical / 2e-5, rel=1e-5, abs=1e-9)


def chosen_network(supernet: Supernet, options: list[int], images: Tensor) -> Tensor:
    """Logits of the drawn architecture alone, with the supernet's weights; norms in cells have scale 1, shift 0."""
    architecture = SPACE.architecture(options)
    stack = Stack([architecture], SPACE).double().train()
    theirs = supernet.layout.views(supernet.weights.detach())
    with torch.no_grad():
        for name, own in stack.weight_layouts[0].views(stack.weights.detach()).items():
            if name in theirs and theirs[name].shape == own.shape:
                own.copy_(theirs[name])
            elif name.endswith("norm.scale"):
                own.fill_(1)
            elif name.endswith(".weight"):  # some of the edges that leave a node
                node = int(name.split(".from")[1].split(".")[0])
                leaving = [e for e, (source, _) in enumerate(SPACE.cell.edges) if source == node]
                kernel = f"nor_conv_{name[-8]}x{name[-8]}"
                parts = theirs[name].chunk(len(leaving))
                live = [p for p, e in zip(parts, leaving, strict=True) if _runs(architecture, e, kernel)]
                own.copy_(torch.cat(live))
        return stack(images)[0]


def _runs(architecture, edge: int, operation: str) -> bool:
    return edge in architecture.live_edges and architecture.operations[edge] == operation


def connected_draws(name: str, count: int) -> list[tuple[Tensor, list[int]]]:
    """Keys of draws that are networks without a dead edge, and their options."""
    here, state, found = DISTRIBUTIONS[name].make(), state_of(name), []
    for number in range(500):
        options = here.scores(state, draws.at(KEY, number)).argmax(dim=-1).tolist()
        architecture = SPACE.architecture(options)
        unlike = any(op == "none" for op in architecture.operations)
        if SPACE.is_valid(architecture) and not unlike and len(found) < count:
            found.append((draws.at(KEY, number), options))
    return found


def test_gdas_computes_what_the_chosen_network_alone_does(
    supernet: Supernet, batch: tuple[Tensor, Tensor]
) -> None:
    here, state = DISTRIBUTIONS["gdas"].make(), state_of("gdas")
    for key, options in connected_draws("gdas", 5):
        mixing = here.mixing(state, key, torch.tensor(0.3))
        assert mixing.argmax(dim=-1).tolist() == options
        assert sorted(set(mixing.flatten().tolist())) == [0, 1]
        alone = chosen_network(supernet, options, batch[0])
        for hard in (False, True):
            with torch.no_grad():
                mixed = supernet(batch[0], mixing, hard=hard)
            torch.testing.assert_close(mixed, alone, rtol=1e-6, atol=1e-6)


def test_gdas_runs_chosen_operations_alone_and_loses_nothing_but_the_slopes_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside a step that runs all; also where the draw leads nowhere."""
    searching = begin(1, "gdas")
    at = searching.train, searching.drawn_train, torch.tensor(1)
    nowhere = torch.eye(5, dtype=torch.float64)[[3, 2, 1, 0, 0, 0]]
    ran, convolve = [], F.conv2d
    monkeypatch.setattr(F, "conv2d", lambda *a, **b: (ran.append(1), convolve(*a, **b))[1])
    for mixing in (*(searching._mixing(purpose) for purpose in searching.keys), nowhere):
        mixing, found = mixing.detach(), []
        for hard in (True, False):
            gradients = ENGINE.search_gradients(searching.supernet, (searching.train,) * 2, hard)
            ran.clear()
            (loss, slope), (again, gradient) = (
                gradients.of_mixing(*at, mixing),
                gradients.of_weights(*at, mixing),
            )
            found.append((loss, again, gradient, slope if hard else torch.where(mixing == 1, slope, 0.0)))
            chosen = int(mixing[:, [SPACE.operations.index(name) for name in SPACE.cell.convolutions]].sum())
            in_cells = chosen if hard else 2 * 3  # six edges' merged by node, of two kinds
            # Three cells; the stem's, and three of each residual block.
            assert len(ran) == 2 * (3 * in_cells + 7)
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
        assert (found[0][-1] == 0)[mixing == 0].all()


def test_snas_approaches_the_chosen_network_as_the_temperature_falls(
    supernet: Supernet, batch: tuple[Tensor, Tensor]
) -> None:
    state = state_of("snas")
    key, options = connected_draws("snas", 1)[0]
    alone = chosen_network(supernet, options, batch[0])
    apart = []
    for temperature in (1.0, 0.1, 0.01, 1e-3):
        here = DISTRIBUTIONS["snas"].make({"last": temperature})
        with torch.no_grad():
            mixed = supernet(batch[0], here.mixing(state, key, torch.tensor(1.0)))
        apart.append(float((mixed - alone).abs().max()))
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 1e-6 < apart[0]


def test_the_temperature_falls_linearly() -> None:
    here, state = DISTRIBUTIONS["snas"].make({"first": 8.0, "last": 2.0}), state_of("snas")
    noisy = categorical.perturbed(state, draws.at(KEY, 1))
    for progress, temperature in ((0.0, 8.0), (0.5, 5.0), (1.0, 2.0)):
        mixing = here.mixing(state, draws.at(KEY, 1), torch.tensor(progress))
        torch.testing.assert_close(mixing, torch.softmax(noisy / temperature, dim=-1))


def test_snas_at_a_low_temperature_has_the_gradient_of_drawn_architectures() -> None:
    """Against the score function, for a loss that is linear in θ: its expectation is then that of draws, but for τ."""
    here, state = DISTRIBUTIONS["snas"].make({"last": 0.3}), state_of("snas")
    weighting = torch.linspace(-1, 2, 30, dtype=torch.float64).view(6, 5)[:, torch.tensor([2, 0, 4, 1, 3])]
    pathwise = []
    for number in range(600):
        logits = state["logits"].clone().requires_grad_()
        mixing = here.mixing({**state, "logits": logits}, draws.at(KEY, number), torch.tensor(1.0))
        pathwise.append(torch.autograd.grad((mixing * weighting).sum(), logits)[0])
    estimates = torch.stack(pathwise)
    p = categorical.probabilities(state)
    exact = p * (weighting - (p * weighting).sum(dim=-1, keepdim=True))  # Σ_o w_o ∇p_o
    deviation = estimates.std(dim=0) / math.sqrt(len(estimates))
    bias = 0.05  # of τ = 0.3
    assert ((estimates.mean(dim=0) - exact).abs() < 4.5 * deviation + bias).all()
    agreement = F.cosine_similarity(estimates.mean(dim=0).flatten(), exact.flatten(), dim=0)
    assert agreement > 0.97


# Steps


def test_balenas_without_noise_is_adam_step_for_step() -> None:
    """With ε = λ/N so small that the prior's pull on the mean is lost in rounding."""
    settings = {"step_size": 0.02, "images": 10**10, "precision": 1.0, "first_precision": 1.0, "noise": 0.0}
    here = DISTRIBUTIONS["balenas"].make(settings)
    state = here.initial(OPTIONS, KEY)
    mean = torch.nn.Parameter(state["mean"].clone())
    optimiser = torch.optim.Adam([mean], 0.02, betas=here.betas, eps=1e-10)
    slope = torch.linspace(-1, 2, 30, dtype=torch.float64).view(6, 5)

    def gradient_at(value: Tensor, number: int) -> Tensor:
        value = value.detach().requires_grad_()
        mixing = here.mixing({**state, "mean": value}, draws.at(KEY, number), torch.tensor(0.0))
        return torch.autograd.grad((mixing * slope * math.cos(number)).sum(), value)[0]

    for number in range(12):
        mean.grad = gradient_at(mean, number)
        optimiser.step()
        gradient = gradient_at(state["mean"], number)
        state = here.update(state, {"mean": gradient}, torch.tensor(number))
        torch.testing.assert_close(state["mean"], mean.detach(), rtol=1e-7, atol=1e-8)


def test_balenas_finds_the_posterior_of_a_gaussian() -> None:
    """Of a quadratic loss with N images, whose posterior is known: the mean, and a precision N·E[g²] + λ."""
    here = DISTRIBUTIONS["balenas"].make(
        {"step_size": 0.01, "images": 100, "precision": 4.0, "first_precision": 4.0}
    )
    state = here.initial((5,), KEY)
    target = torch.linspace(-1, 1, 5, dtype=torch.float64)[None]
    means = []
    for number in range(1000):
        noise = draws.normal(draws.at(KEY, number), 10, torch.float64).view(2, 1, 5)
        drawn = state["mean"] + noise[0] * here.spread(state)
        gradient = drawn - target + 0.5 * noise[1]  # of a batch: its own noise, too
        state = here.update(state, {"mean": gradient}, torch.tensor(number))
        means.append(state["mean"])
    expected = target / (1 + 4.0 / 100)
    torch.testing.assert_close(torch.stack(means[-500:]).mean(dim=0), expected, atol=0.05, rtol=0)
    assert ((here.spread(state) < 1 / math.sqrt(4.0)) & (here.spread(state) > 0.1)).all()


def test_the_probability_of_the_largest_is_that_of_draws() -> None:
    mean = torch.tensor([[0.0, 0.5, -0.2, 0.1], [1.0, 0.0, 0.0, 9.0]], dtype=torch.float64)
    deviation = torch.tensor([[1.0, 0.2, 0.01, 0.5], [0.1, 1.0, 2.0, 1.0]], dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    shares = largest(mean, deviation, {"mask": mask})
    noise = draws.normal(draws.at(KEY, 0), 8 * 40_000, torch.float64).view(40_000, 2, 4)
    values = torch.where(mask, mean + deviation * noise, -torch.inf)
    drawn = F.one_hot(values.argmax(dim=-1), 4).double().mean(dim=0)
    torch.testing.assert_close(shares, drawn, atol=0.01, rtol=0)


def test_bayesnas_rests_where_its_authors_rule_does() -> None:
    """|w|/ω with ω² = 1/γ − C/γ² is γ of a gate, 1/(ω/|w| + 1/γ_gate) of an option: all switches held still."""
    here = DISTRIBUTIONS["bayesnas"].make({"images": 10, "batch": 1, "rate": 0.2, "step_size": 1e-12})
    state = here.initial((4, 4), KEY)
    state["switch"] = torch.tensor([[0.8, 0.3, 1.5, 0.0]] * 2, dtype=torch.float64)
    state["gate"] = torch.tensor([[1.2], [0.0]], dtype=torch.float64)
    still = {name: state[name] for name in here.learned}
    for number in range(800):
        pulls = {
            "switch": still["switch"] / state["relevance"],
            "gate": still["gate"] / state["gate_relevance"],
        }
        gradients = {name: 0.7 + pull / 10 for name, pull in pulls.items()}
        state = {**here.update(state, gradients, torch.tensor(number)), **still}
    own = {}
    for prefix, switch in (("", still["switch"]), ("gate_", still["gate"])):
        relevance, variance = state[f"{prefix}relevance"], state[f"{prefix}variance"]
        torch.testing.assert_close(variance, 1 / (1 / relevance + 10 * 0.49), rtol=2e-3, atol=0)
        own[prefix] = switch / torch.sqrt(1 / relevance - variance / relevance**2)
    gate, relevance = state["gate_relevance"], state["relevance"]
    torch.testing.assert_close(gate[0], own["gate_"][0], rtol=1e-3, atol=0)
    gated = 1 / (1 / own[""] + 1 / gate)
    torch.testing.assert_close(relevance[0, :3], gated[0, :3], rtol=1e-3, atol=0)
    assert relevance[0, 3] < 0.01  # what is of no use becomes irrelevant
    assert gate[1] < 0.01
    assert (relevance[1] <= gate[1]).all()  # and all options, where their gate is


def test_a_switch_that_no_image_sees_keeps_its_prior() -> None:
    here = DISTRIBUTIONS["bayesnas"].make({"step_size": 0.01})
    state = here.initial((5,), KEY)
    for number in range(300):
        values = {name: state[name].clone().requires_grad_() for name in here.learned}
        moving = {**state, **values}
        mixing = here.mixing(moving, draws.at(KEY, number), torch.tensor(0.0))
        loss = ((mixing - torch.tensor([0.0, 0.1, 0.2, 0.9, 0.0])) ** 2)[0, 1:].sum() + here.penalty(moving)
        gradients = torch.autograd.grad(loss, list(values.values()))
        state = here.update(state, dict(zip(values, gradients, strict=True)), torch.tensor(number))
    assert here.mode(state).tolist() == [3]
    assert state["switch"][0, 0] == 0
    assert float(state["variance"][0, 0]) == pytest.approx(float(state["relevance"][0, 0]), rel=0.02)


# Second order


def begin(order: int, name: str = "darts", **more: Any) -> Search:
    part = digits().train
    halves = [part.take(index) for index in stratified_split(part.labels, [40, 30], key=1)]
    normalisation = Normalisation.of(part.images)
    loaders = (Loader(half, normalisation, 10, 1, False, ENGINE.device, ENGINE.dtype) for half in halves)
    parts = SearchParts(
        SearchSettings(
            epochs=4, batch=10, weights="point", order=order, clip=0.0, prior_deviation=1.0, **more
        ),
        DISTRIBUTIONS[name].make({"step_size": 0.05}),
        SUPERNET_WEIGHTS["point"].make({"step_size": 0.1}),
    )
    return Search(parts, SPACE, *loaders, ENGINE, 5)


def test_second_order_agrees_with_the_exact_product_with_the_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    """dL_v(w − α(∇L_t(w, θ) + decay·w), θ)/dθ by automatic differentiation through the step.

    The two sides of the difference are taken closer than DARTS has them: farther apart, some ReLU of so small a
    network has its kink between them, which a derivative does not see.
    """
    monkeypatch.setattr(search, "DISTANCE", 1e-7)
    searching = begin(order=2)
    searching.advance()  # so that there is a velocity, too
    mixing = searching._mixing("architecture θ").detach()
    before = searching.supernet.weights.detach().clone()
    position = searching.step % searching.validation.steps
    loss, slope = searching._ahead(mixing, position)
    assert torch.equal(searching.supernet.weights, before)

    theta = mixing.clone().requires_grad_()

    def loss_of(part: str, weights: Tensor) -> Tensor:
        loader, drawn = (getattr(searching, f"{prefix}{part}") for prefix in ("", "drawn_"))
        (images,), (labels,), _ = loader.batch_at(drawn, searching.step % loader.steps)
        named = searching.supernet.layout.views(weights)
        return F.cross_entropy(SPACE.supernet_forward(named, images.contiguous(), theta), labels)

    weights = before.clone().requires_grad_()
    size = searching.pace.step_size(searching.step)
    (gradient,) = torch.autograd.grad(loss_of("train", weights), weights, create_graph=True)
    velocity = 0.9 * searching.state["velocity"] - size * (gradient + searching.decay * before)
    exact_loss = loss_of("validation", weights + velocity)
    (exact,) = torch.autograd.grad(exact_loss, theta)
    torch.testing.assert_close(loss, exact_loss.detach())
    first_order = searching.gradients.of_mixing(
        searching.validation, searching.drawn_validation, position, mixing
    )[1]
    torch.testing.assert_close(slope, exact, rtol=1e-5, atol=1e-6)
    assert (first_order - exact).norm() > 0.1 * exact.norm()  # looking ahead makes a difference


def gone_on(cut: Search) -> Search:
    """The search, from what a checkpoint of it holds."""
    parts = SearchParts(cut.settings, cut.distribution, cut.method)
    return Search(parts, SPACE, cut.train, cut.validation, ENGINE, 5, cut.snapshot())


def assert_equal_bits(first: SearchState, second: SearchState) -> None:
    assert first.history == second.history
    for part in ("weights", "distribution"):
        ours, theirs = getattr(first, part), getattr(second, part)
        assert all(torch.equal(tensor, theirs[key]) for key, tensor in ours.items()), part


@pytest.mark.parametrize("name", MIXED)
def test_every_entry_searches_and_goes_on_with_the_same_bits(name: str) -> None:
    """Of second order, too: it needs nothing more in a checkpoint."""
    order = 2 if name == "snas" else 1
    whole, cut = begin(order, name), begin(order, name)
    for _ in range(2):
        whole.advance()
    cut.advance()
    again = gone_on(cut)
    again.advance()
    first = whole.snapshot()
    assert_equal_bits(first, again.snapshot())
    row = first.history[-1]
    assert row["genotype"] == str(whole.found().expected)
    assert torch.equal(
        torch.tensor(row[whole.distribution.numbers], dtype=torch.float64), whole.found().favour
    )
    assert len(whole.found().draw(4, seed=1)[0]) == 4
    kept = {key: first.distribution[key] for key in (*whole.distribution.learned, *whole.distribution.kept)}
    found = Searched(SPACE, whole.distribution, kept)
    assert found.draw(4, seed=1) == whole.found().draw(4, seed=1)  # what is kept is enough to draw


# Stages


def test_with_partial_channels_the_rest_passes_by_and_channels_are_shuffled(
    supernet: Supernet, batch: tuple[Tensor, Tensor]
) -> None:
    """Beside a plain sum over edges and operations on the first half of the channels."""
    mixing = (
        DISTRIBUTIONS["dirichlet"].make().mixing(state_of("dirichlet"), draws.at(KEY, 2), torch.tensor(0))
    )
    weights = supernet.layout.views(supernet.weights.detach())

    def convolved(x: Tensor, name: str, edge: int, kernel: int) -> Tensor:
        source, target = SPACE.cell.edges[edge]
        whole = weights[f"{name}.from{source}.conv{kernel}.weight"].chunk(3 - source)[target - source - 1]
        half = whole[: x.shape[1], : x.shape[1]]
        return F.batch_norm(F.conv2d(F.relu(x), half, padding=kernel // 2), None, None, training=True)

    def cell(x: Tensor, name: str) -> Tensor:
        nodes, half = [x], x.shape[1] // 2
        for node in (1, 2, 3):
            total = torch.zeros_like(x)
            for edge, (source, target) in enumerate(SPACE.cell.edges):
                if target == node:
                    first, rest = nodes[source][:, :half], nodes[source][:, half:]
                    outputs = {
                        "none": torch.zeros_like(first),
                        "skip_connect": first,
                        "nor_conv_1x1": convolved(first, name, edge, 1),
                        "nor_conv_3x3": convolved(first, name, edge, 3),
                        "avg_pool_3x3": F.avg_pool2d(first, 3, 1, 1, count_include_pad=False),
                    }
                    mixed = sum(mixing[edge, n] * outputs[name] for n, name in enumerate(SPACE.operations))
                    total = total + torch.stack([mixed, rest], dim=2).flatten(1, 2)  # one of each in turn
            nodes.append(total)
        return nodes[-1]

    filling = blocks.Filling(weights)
    x = blocks.stem(batch[0], SPACE.skeleton, filling)
    for block in SPACE.skeleton.blocks():
        reduced = block.reduces and blocks.reduction(x, block.name, filling)
        x = reduced if block.reduces else cell(x, block.name)
    expected = blocks.head(x, filling)
    with torch.no_grad():
        torch.testing.assert_close(supernet(batch[0], mixing, parts=2), expected, rtol=1e-10, atol=1e-10)


def test_wider_operations_have_copies_of_the_channels_that_they_had(supernet: Supernet) -> None:
    before = supernet.weights.detach()
    after = SPACE.widened(before, 4, 2, key=1)
    for name, wide in supernet.layout.views(after).items():
        narrow = supernet.layout.views(before)[name]
        if ".from" not in name:
            assert torch.equal(wide, narrow)
            continue
        channels = narrow.shape[1]
        old, new = channels // 4, channels // 2
        for ours, theirs in zip(wide.split(channels), narrow.split(channels), strict=True):
            assert torch.equal(ours[:old, :old], theirs[:old, :old])
            for row in ours[old:new, :new]:
                assert any(torch.equal(row, one) for one in ours[:old, :new])
            for column in ours[:old, old:new].unbind(1):
                assert any(torch.equal(column, one) for one in theirs[:old, :old].unbind(1))


def test_a_progressive_search_prunes_widens_stands_still_and_goes_on_with_the_same_bits() -> None:
    progressive = {"partial": (2, 1), "keep": (5, 3), "still": 0.5}
    whole = begin(1, "dirichlet", **progressive)
    states = [whole.snapshot()]
    for _ in range(4):
        again = gone_on(whole)  # also where another stage begins
        whole.advance()
        again.advance()
        states.append(whole.snapshot())
        assert_equal_bits(states[-1], again.snapshot())
    raw = [state.distribution["raw"] for state in states]
    assert [torch.equal(a, b) for a, b in itertools.pairwise(raw)] == [True, False, True, False]
    assert all(state.distribution["mask"].all() for state in states[:3])
    best = raw[2].argsort(dim=-1, descending=True)[:, :3]
    for state in states[3:]:
        assert torch.equal(
            state.distribution["mask"], torch.zeros(6, 5, dtype=torch.bool).scatter(1, best, True)
        )
    found = whole.found()
    assert gone_on(whole).found().expected == found.expected  # cut off before this was written
    assert (found.drawn_shares(100) > 0).sum() <= 18
    assert [whole.stages.parts(epoch) for epoch in range(4)] == [2, 2, 1, 1]


def test_adam_counts_no_steps_in_which_the_distribution_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, update = [], Dirichlet.update

    def noted(here: Dirichlet, state: Tensors, gradients: Tensors, step: Tensor) -> Tensors:
        counted.append(int(step))
        return update(here, state, gradients, step)

    monkeypatch.setattr(Dirichlet, "update", noted)
    searching = begin(1, "dirichlet", partial=(2, 1), still=0.5)
    for _ in range(4):  # it moves in the second and in the last
        searching.advance()
    count = searching.train.steps
    assert counted[count : 2 * count] + counted[3 * count :] == list(range(2 * count))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"partial": (2, 4)}, "each must divide the one before"),
        ({"partial": (3,)}, "have no such parts"),
        ({"keep": (5, 3)}, "one number for each"),
        ({"partial": (1,) * 5}, "4 epochs are too few for a stage each"),
        ({"partial": (2, 1), "keep": (3, 4)}, "does not come back"),
        ({"still": 1.0}, "below 1"),
        (
            {"partial": (2, 1), "still": 0.6},
            r"of a stage's 2 epochs none .*allowed: 0 … 0\.5, or more",
        ),
    ],
)
def test_stages_that_make_no_sense_are_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(UraenasError, match=told):
        begin(1, "dirichlet", **more)


@pytest.mark.parametrize("still", [0.0, 0.2, 0.5, 2 / 3, 0.7, 0.9])
def test_a_search_whose_distribution_would_not_move_in_some_stage_is_refused_and_no_other(
    still: float,
) -> None:
    refused = set()
    for epochs, count in itertools.product(range(1, 13), range(1, 4)):
        if count > epochs:
            continue
        partial = tuple(2**k for k in reversed(range(count)))
        plain = Stages(epochs, partial, (), 0.0)
        lengths = Counter(map(plain.at, range(epochs))).values()
        if any(math.ceil(still * length) == length for length in lengths):
            refused.add((epochs, count))
            with pytest.raises(UraenasError, match="none would be left in which"):
                Stages(epochs, partial, (), still)
        else:
            stages = Stages(epochs, partial, (), still)
            moving = {stages.at(epoch) for epoch in range(epochs) if not stages.is_still(epoch)}
            assert len(moving) == count
    assert ((6, 2) in refused) == (still > 2 / 3)
