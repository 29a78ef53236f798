"""Shared factors, several heads, variational and sparse weights: against plain networks and exact posteriors."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from scipy.integrate import quad
from small_networks import DOUBLE, EVERY_OPERATION, SPACE, images, made, network_of
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.engine import cross_entropy
from uraenas.spaces import PLAIN, Draw, Entry, Layout, Passage, Shape, Stack
from uraenas.spaces.perceptrons import PerceptronSpace
from uraenas.weights import WEIGHTS, prior_decay
from uraenas.weights.masks import number_of
from uraenas.weights.normal import SPREAD, divergence_of_spread, normal_layers, raw_spread
from uraenas.weights.rank_one import _for_images
from uraenas.weights.sparse import GATE, JUMP, _gates, divergence, sparse_pass


class Toy:
    """One layer of weights, as a network: what it reads, times its weights, summed."""

    def __init__(self, x: Tensor) -> None:
        self.images = x

    def __call__(self, weights: dict, passage: Passage = PLAIN, images: Tensor | None = None) -> Tensor:
        x = self.images if images is None else images
        y = passage.layer("units", x, weights["units.weight"], lambda x, w: x * w.T)
        return passage.output("units", y).sum(dim=1)


# BatchEnsemble


@pytest.mark.parametrize("repeats", [1, 2])
def test_all_members_learn_also_where_a_batch_has_fewer_images_than_there_are_members(repeats: int) -> None:
    """Each image's members differ from time to time, and from step to step all have their turn."""
    factors_MC = torch.arange(5.0)[:, None]
    batches = [
        _for_images(factors_MC, Draw(torch.tensor(key)), 2 * repeats, repeats).flatten().tolist()
        for key in range(100)
    ]
    assert {factor for batch in batches for factor in batch} == set(range(5))
    for batch in batches:
        assert [factor - batch[0] for factor in batch] in (
            [(i + k + turn) % 5 - turn for k in range(repeats) for i in range(2)] for turn in range(5)
        )


@pytest.mark.parametrize("repeats", [1, 3])
def test_the_members_of_a_batch_ensemble_in_one_pass_are_networks_with_multiplied_weights(
    repeats: int,
) -> None:
    """Each image is a member's, in turn; where it stands in the batch again, it is another's."""
    method, x = made("batch_ensemble", size=3, repeats=repeats), images(7)
    shared, key = network_of(method).eval(), Draw(torch.tensor(1))
    (together,) = shared.run([0], shared.weights, torch.cat([x] * repeats), method.forward, [key])
    time, image = torch.arange(repeats).repeat_interleave(7), torch.arange(7).repeat(repeats)
    views = shared.weight_layouts[0].views(shared.weights.detach())
    plain = Stack([EVERY_OPERATION], SPACE).double().eval()
    for m in range(3):
        multiplied = {}
        for entry in plain.weight_layouts[0].entries:
            multiplied[entry.name] = weight = views[entry.name].clone()
            layer = entry.name.removesuffix(".weight")
            if f"{layer}.inputs" in views:
                outer = torch.outer(views[f"{layer}.outputs"][m], views[f"{layer}.inputs"][m])
                weight *= outer.view(*outer.shape, *(1 for _ in weight.shape[2:]))
        plain.put(0, torch.cat([one.flatten() for one in multiplied.values()]), shared.statistics)
        alone = plain(x)[0]
        own = (image + time) % 3 == m
        torch.testing.assert_close(together[own], alone[image[own]], atol=1e-10, rtol=0)
        assert repeats == 1 or sorted(image[own].tolist()) == list(range(7))  # it sees every image once
        drawn = shared.run([0], shared.weights, x, method.forward, [Draw(torch.tensor(1), m)])[0]
        torch.testing.assert_close(drawn, alone, atol=1e-10, rtol=0)


# MIMO


def test_each_head_of_mimo_answers_for_the_image_of_its_own_input() -> None:
    """A network whose head m gives what input m shows: back where the labels stand, whatever the orders."""
    method, x = made("mimo", inputs=3), torch.arange(12.0).view(12, 1, 1, 1)

    class Mirror(Toy):
        def __call__(self, weights: dict, passage: Passage = PLAIN, images: Tensor | None = None) -> Tensor:
            self.rows = images.flatten(1)
            return torch.stack([self.rows, -self.rows], dim=2).flatten(1)

    network = Mirror(x)
    logits = method.forward(network, {}, Draw(torch.tensor(2)))
    assert torch.equal(logits, torch.stack([x.flatten(), -x.flatten()], dim=1).repeat(1, 3))
    assert (network.rows[:, 0] != network.rows[:, 1]).any()  # inputs of a row are unlike
    half = made("mimo", inputs=3, alike=0.5)
    half.forward(network, {}, Draw(torch.tensor(2)))
    assert (network.rows[:6, :1] == network.rows[:6]).all()
    assert (network.rows[6:, :1] != network.rows[6:]).any()
    assert sorted(network.rows[:, 2].tolist()) == list(range(12))


def test_mimos_loss_is_the_sum_over_heads() -> None:
    method = made("mimo", inputs=2)
    logits = draws.normal(torch.tensor(3), 2 * 5 * 6, DOUBLE).view(2, 5, 6)
    labels = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 1, 0, 0]])
    parts = [cross_entropy(logits[..., k : k + 3], labels, None) for k in (0, 3)]
    torch.testing.assert_close(method.objective(logits, labels, None), parts[0] + parts[1])


def test_heads_without_a_teacher_stand_for_the_one_architecture_that_they_have() -> None:
    heads = made("heads").changes.heads
    assert (len(heads), len(set(heads))) == (2, 1)


def test_heads_on_perceptrons_are_no_batch_of_the_spaces_own_networks() -> None:
    space = PerceptronSpace(nodes=1, widths=(2,), shape=Shape(1, 1, 3, 2))
    networks = [space.parse("tanh2/out")] * 2
    stack = Stack(networks, space, made("heads", architectures=(0, 1, 1)).changes.layout)
    stack.initialise([1, 2])
    rows = draws.normal(torch.tensor(5), 12).view(4, 3, 1, 1)
    assert Stack(networks, space).runs_together
    assert not stack.runs_together
    assert stack.train()(rows).shape == (2, 4, 6)
    assert torch.equal(stack.train()(rows), stack.eval()(rows))


# Divergences, against numerical integration


def integrated(mean: float, sigma: float, of: float, prior: float) -> float:
    """KL(N(mean, sigma²) ‖ N(of, prior²))."""

    def density(w: float, centre: float, deviation: float) -> float:
        return math.exp(-(((w - centre) / deviation) ** 2) / 2) / deviation / math.sqrt(2 * math.pi)

    def integrand(w: float) -> float:
        p, q = density(w, mean, sigma), density(w, of, prior)
        return p * math.log(p / q)

    return quad(integrand, mean - 12 * sigma, mean + 12 * sigma)[0]


def test_divergences_are_those_of_numerical_integration() -> None:
    mean, sigma, prior, inclusion = 0.7, 0.3, 0.9, 0.2
    spread = divergence_of_spread(torch.tensor(sigma), prior)
    assert float(spread) == pytest.approx(integrated(mean, sigma, mean, prior), rel=1e-5)
    whole = integrated(mean, sigma, 0.0, prior)
    raw = torch.tensor([[raw_spread(sigma)]], dtype=DOUBLE)
    weights = {"a.weight": torch.tensor([[mean]], dtype=DOUBLE), f"a{SPREAD}": raw}
    assert float(divergence(weights, prior, inclusion)) == pytest.approx(whole, rel=1e-6)
    odds, chance = torch.tensor([0.4], dtype=DOUBLE), 1 / (1 + math.exp(-0.4))
    spike = chance * math.log(chance / inclusion) + (1 - chance) * math.log((1 - chance) / (1 - inclusion))
    gated = float(divergence({**weights, f"a{GATE}": odds}, prior, inclusion))
    assert gated == pytest.approx(spike + chance * whole, rel=1e-6)
    factors = {"a.inputs": weights["a.weight"], f"a.inputs{SPREAD}": raw}
    found = made("rank_one", prior=0.5).changes.penalty(factors, torch.tensor(1.0), 10)
    assert float(found) == pytest.approx(integrated(mean, sigma, 1.0, 0.5) / 10, rel=1e-6)


def test_the_variational_divergence_grows_to_its_full_size() -> None:
    method = made("variational", annealing=0.5)
    weights = {f"a{SPREAD}": torch.zeros(3)}
    sizes = [float(method.changes.penalty(weights, torch.tensor(p), 10)) for p in (0.0, 0.25, 0.5, 1.0)]
    assert sizes[0] == 0
    assert sizes[1] == pytest.approx(sizes[2] / 2)
    assert sizes[2] == sizes[3] > 0


# Learned on a regression whose answer is known


def learned(method: Any, x: Tensor, y: Tensor, noise: float, decay: float, steps: int) -> dict[str, Tensor]:
    """Weights of the toy after so many steps of Adam on the kind's own loss."""
    plain = Layout(
        (Entry("units.weight", (x.shape[1], 1), deviation=1.0), Entry("end", (1, 1), role="logits"))
    )
    layout = method.changes.layout(plain)
    weights = {name: one.double() for name, one in layout.views(layout.initial(1)).items()}
    for one in weights.values():
        one.requires_grad_()
    optimiser = torch.optim.Adam(weights.values(), 0.05)
    decayed = [weights[entry.name] for entry in layout.entries if entry.prior]
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.05 * (1 - step / steps)
        drawn = Draw(draws.at(9, step))
        loss = ((y - method.forward(Toy(x), weights, drawn)) ** 2).mean() / (2 * noise)
        loss = loss + method.changes.penalty(weights, torch.tensor(1.0), len(x))
        loss = loss + sum(decay / 2 * (one**2).sum() for one in decayed)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: one.detach() for name, one in weights.items()}


def regression(count: int, coefficients: Tensor, noise: float) -> tuple[Tensor, Tensor]:
    """Inputs that are orthogonal, so that the posterior is a product, and what is measured."""
    x, _ = torch.linalg.qr(draws.normal(torch.tensor(5), count * len(coefficients), DOUBLE).view(count, -1))
    x = x * math.sqrt(count)
    return x, x @ coefficients + math.sqrt(noise) * draws.normal(torch.tensor(6), count, DOUBLE)


def test_variational_inference_recovers_the_posterior_of_bayesian_linear_regression() -> None:
    count, noise, prior = 40, 4.0, 0.5
    x, y = regression(count, torch.tensor([1.0, -0.5, 0.0], dtype=DOUBLE), noise)
    method = made("variational", prior=prior, annealing=0.0, deviation=0.1)
    found = learned(method, x, y, noise, prior_decay(prior, count), steps=1200)
    precision = x.T @ x / noise + torch.eye(3, dtype=DOUBLE) / prior**2
    mean, deviation = torch.linalg.solve(precision, x.T @ y / noise), precision.diagonal().rsqrt()
    sigma = F.softplus(found[f"units{SPREAD}"])[:, 0]
    torch.testing.assert_close(found["units.weight"][:, 0], mean, atol=0.03, rtol=0)
    torch.testing.assert_close(sigma, deviation, atol=0.02, rtol=0)


def test_ssig_finds_the_relevant_units_of_a_sparse_regression() -> None:
    coefficients = torch.zeros(8, dtype=DOUBLE)
    coefficients[[1, 4]] = torch.tensor([1.0, -1.5], dtype=DOUBLE)
    x, y = regression(60, coefficients, 0.1)
    found = learned(made("ssig", inclusion=0.01, deviation=0.05), x, y, 0.1, 0.0, steps=600)
    there = torch.sigmoid(found[f"units{GATE}"])
    assert (there > 0.9).tolist() == [k in (1, 4) for k in range(8)], there
    assert (there < 0.1).tolist() == [k not in (1, 4) for k in range(8)], there


def test_a_network_of_one_layer_has_no_gates_and_its_weights_count_in_full() -> None:
    weights = {"units.weight": torch.ones(3, 1), f"units{SPREAD}": torch.full((3, 1), raw_spread(0.5))}
    slab = math.log(0.2 / 0.5) + (0.5**2 + 1) / (2 * 0.2**2) - 0.5
    assert float(divergence(weights, 0.2, 0.01)) == pytest.approx(3 * slab, rel=1e-5)
    assert sparse_pass(Toy(torch.ones(5, 3)), weights, Draw(torch.tensor(1))).shape == (5,)


ROWS = PerceptronSpace(nodes=2, widths=(6,), shape=Shape(1, 1, 3, 2))


@pytest.mark.parametrize(
    ("space", "architecture"),
    [(SPACE, EVERY_OPERATION), (ROWS, ROWS.parse("tanh6/relu6/out"))],
    ids=["norms and a shortcut without one", "biases"],
)
def test_a_draw_of_gates_is_a_plain_network(space: Any, architecture: Any) -> None:
    """Half of all channels are out."""
    method, number = made("ssig", deviation=0.1), 3
    gates = Stack([architecture], space, method.changes.layout).double().eval()
    gates.initialise([1])
    layout, drawn = gates.weight_layouts[0], Draw(torch.tensor(8), number)
    views = layout.views(gates.weights.detach())
    for name, one in views.items():
        one.copy_(torch.zeros_like(one) if name.endswith(GATE) else one + 0.2)
    plain = Stack([architecture], space).double().eval()
    found = method.changes.as_plain(views, layout, drawn)
    plain.put(
        0,
        torch.cat([found[entry.name].flatten() for entry in plain.weight_layouts[0].entries]),
        gates.statistics,
    )
    size = (4, space.shape.channels, space.shape.height, space.shape.width)
    x = draws.normal(torch.tensor(5), math.prod(size), DOUBLE).view(size)
    expected = gates.run([0], gates.weights, x, method.forward, [drawn])
    torch.testing.assert_close(plain(x), expected, atol=0, rtol=1e-10)
    out = [
        name for name, one in found.items() if name.endswith((".norm.scale", ".bias")) and (one == 0).any()
    ]
    assert len(out) >= 2


def test_a_gate_is_open_or_shut_with_the_slope_of_a_concrete_variable_of_temperature_a_half() -> None:
    odds, key = torch.linspace(-2, 2, 9, dtype=DOUBLE).requires_grad_(), torch.tensor(9)
    gates = _gates({f"a{GATE}": odds}, Draw(key))["a"]
    uniform = draws.uniform(draws.at(key, number_of(f"a{GATE}")), 9, DOUBLE)
    soft = torch.sigmoid((odds + torch.log(uniform / (1 - uniform))) / 0.5).detach()
    torch.testing.assert_close(gates, (soft > 0.5).double())
    torch.testing.assert_close(torch.autograd.grad(gates.sum(), odds)[0], soft * (1 - soft) / 0.5)


def test_flipout_gives_every_image_and_channel_its_own_sign_of_one_draw() -> None:
    """What it adds to W̄ x is ± (σ ∘ ε) x, and signs of two outputs or of two images say nothing of each other."""
    weight, raw = torch.zeros(2, 1, dtype=DOUBLE), torch.full((2, 1), raw_spread(0.5), dtype=DOUBLE)
    x, draw = draws.normal(torch.tensor(6), 4000, DOUBLE)[:, None], Draw(torch.tensor(7))
    layer = normal_layers({"a.weight": weight, f"a{SPREAD}": raw}, draw, len(x))
    added = layer("a", x, weight, F.linear) / x
    torch.testing.assert_close(added.abs(), added[:1].abs().expand_as(added))
    signs = added.sign()
    assert float((signs[:, 0] * signs[:, 1]).mean()) == pytest.approx(0, abs=0.06)
    assert float((signs[::2] * signs[1::2]).mean()) == pytest.approx(0, abs=0.06)


def test_sebays_jumps_by_three_deviations_and_starts_its_spreads_anew() -> None:
    method = made("sebays", deviation=0.01)
    before = {"a.weight": torch.ones(40, 3), f"a{SPREAD}": torch.full((40, 3), raw_spread(0.2))}
    after = method.changes.renew(before, torch.tensor(4))
    steps = after["a.weight"] - 1
    torch.testing.assert_close(steps.abs(), torch.full((40, 3), JUMP * 0.2))
    assert 30 < (steps > 0).sum() < 90
    torch.testing.assert_close(F.softplus(after[f"a{SPREAD}"]).mean(), torch.tensor(0.01), rtol=0.05, atol=0)
    cycle = method.cycle(10, 2)  # 4 epochs explore, then three cosines
    assert [epoch for epoch in range(10) if cycle.renews_at(epoch)] == [4, 6, 8]
    assert [epoch for epoch in range(10) if cycle.collects_after(epoch)] == [5, 7, 9]


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("batch_ensemble", {"size": 0}, "size = 0"),
        ("batch_ensemble", {"spread": -1.0}, "spread = -1.0"),
        ("rank_one", {"size": 2, "repeats": 3}, "repeats = 3"),
        ("rank_one", {"prior": 0.0}, "prior = 0.0"),
        ("mimo", {"inputs": 0}, "inputs = 0"),
        ("mimo", {"alike": 2.0}, "alike = 2.0"),
        ("variational", {"deviation": 0.0}, "deviation = 0.0"),
        ("variational", {"annealing": 2.0}, "annealing = 2.0"),
        ("ssig", {"inclusion": 0.0}, "inclusion = 0.0"),
        ("sebays", {"peak": 0.0}, "peak = 0.0"),
    ],
)
def test_senseless_settings_are_refused(name: str, wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        WEIGHTS[name].make(wrong)
