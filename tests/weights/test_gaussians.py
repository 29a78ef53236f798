"""Gaussians over weights: SWAG's covariance and the schedule that gathers its samples; Laplace's posterior."""

import math
from collections.abc import Iterator

import pytest
import torch
from chains_in_memory import DOUBLE
from small_networks import images, logits_of, network_of

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data.targets import CLASSES
from uraenas.spaces import Draw, Stack, Tensors
from uraenas.weights import WEIGHTS, Cycle, Seen
from uraenas.weights.laplace import POSTERIORS, Laplace, likeliest_precision, step_from
from uraenas.weights.swag import Gaussian

SAMPLES = list(
    draws.normal(torch.tensor(5), 6 * 4, DOUBLE).view(6, 4) @ torch.tril(torch.ones(4, 4)).double()
)


def test_the_covariance_of_swags_draws_is_the_one_it_says() -> None:
    """scale · (diag σ² + D Dᵀ / (K − 1)), of the K newest samples."""
    rank, scale = 4, 0.5
    gaussian = Gaussian.through(SAMPLES, rank)
    drawn = gaussian.draw(draws.words(torch.tensor(8), 20_000)[:, None], scale)  # a row for each key
    every = torch.stack(SAMPLES)
    apart = (every - every.mean(dim=0))[:rank]
    expected = scale * (torch.diag(every.var(dim=0, correction=0)) + apart.T @ apart / (rank - 1))
    deviation = expected.diagonal().sqrt()
    torch.testing.assert_close(
        torch.cov(drawn.T) / torch.outer(deviation, deviation),
        expected / torch.outer(deviation, deviation),
        atol=0.04,
        rtol=0,
    )
    assert ((drawn.mean(dim=0) - every.mean(dim=0)).abs() < 4 * deviation / math.sqrt(len(drawn))).all()


def test_swag_without_scale_is_the_mean_of_all_samples() -> None:
    method = WEIGHTS["swag"].make({"scale": 0.0, "draws": 3})
    found = method.candidates(SAMPLES, [0] * 6, key=1)
    assert [one.samples for one in found] == [tuple(range(6))] * 3
    for one in found:
        assert torch.equal(one.weights, torch.stack(SAMPLES).mean(dim=0))


def test_swags_draws_are_keyed_by_chain_and_number() -> None:
    method = WEIGHTS["swag"].make()
    one, again, other = (method.candidates(SAMPLES, [0] * 6, key) for key in (1, 1, 2))
    assert torch.equal(one[1].weights, again[1].weights)
    assert not torch.equal(one[1].weights, other[1].weights)
    assert not torch.equal(one[0].weights, one[1].weights)
    fewer = WEIGHTS["swag"].make({"draws": 2}).candidates(SAMPLES, [0] * 6, 1)
    assert torch.equal(fewer[1].weights, one[1].weights)


def test_a_level_stage_begins_where_the_cosine_has_come_down_to_it() -> None:
    cycle = Cycle(20, 5, 0.4, exploration=0.5, samples_per_cycle=6, level=0.25)
    sizes = [cycle.step_size_at(step) for step in range(cycle.steps)]
    assert sizes[0] == 0.4
    assert sizes[25] == pytest.approx((0.4 + 0.1) / 2)  # half way down
    assert sizes[50:] == [pytest.approx(0.1)] * 50
    assert sizes[:51] == sorted(sizes[:51], reverse=True)
    assert [cycle.samples_at(step) for step in (49, 50)] == [False, True]
    assert [epoch for epoch in range(20) if cycle.collects_after(epoch)] == list(range(14, 20))
    whole = Cycle(4, 2, 0.1, exploration=0.0, level=0.5)
    assert [whole.step_size_at(step) for step in (0, 7)] == [0.05, 0.05]
    with pytest.raises(UraenasError, match="level = 2"):
        Cycle(4, 2, 0.1, level=2)


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("swag", {"samples": 1}, "samples = 1"),
        ("swag", {"rank": 1}, "rank = 1"),
        ("swag", {"scale": -1.0}, "scale = -1.0"),
        ("swag", {"level": 0.0}, "level = 0.0"),
        ("fge", {"peak": 0.0}, "peak = 0.0"),
        ("fge", {"samples": 0}, "samples = 0"),
    ],
)
def test_senseless_settings_are_refused(name: str, wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        WEIGHTS[name].make(wrong)


def test_too_few_epochs_for_the_samples_are_refused() -> None:
    for name in ("swag", "fge"):
        with pytest.raises(UraenasError, match="of which each needs one"):
            WEIGHTS[name].make({"samples": 10, "exploration": 0.5}).check(16)


# Laplace: a linear regression with two outputs and Gaussian noise, whose posterior is known.
FEATURES = draws.normal(torch.tensor(3), 30 * 4, DOUBLE).view(30, 4) @ torch.tril(torch.ones(4, 4)).double()
WEIGHT = draws.normal(torch.tensor(4), 8, DOUBLE).view(2, 4)
NOISE, PRIOR = 0.3, 2.5  # variance of the outputs, precision of the weights


def in_two(hessians: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Some images at a time, as they are looked at."""
    return iter([(FEATURES[:17], hessians[:17]), (FEATURES[17:], hessians[17:])])


@pytest.mark.parametrize("curvature", POSTERIORS)
def test_laplace_recovers_the_posterior_of_bayesian_linear_regression(curvature: str) -> None:
    hessians = torch.eye(2, dtype=DOUBLE).expand(30, 2, 2) / NOISE
    posterior = POSTERIORS[curvature](WEIGHT, in_two(hessians), PRIOR)
    exact = torch.linalg.inv(FEATURES.T @ FEATURES / NOISE + PRIOR * torch.eye(4, dtype=DOUBLE))
    expected = torch.block_diag(exact, exact)
    drawn = torch.stack([step_from(posterior, 2, draws.at(6, n)).flatten() for n in range(4000)])
    deviation = expected.diagonal().sqrt()
    assert (drawn.mean(dim=0).abs() < 4 * deviation / math.sqrt(len(drawn))).all()
    scale = torch.outer(deviation, deviation)
    torch.testing.assert_close(torch.cov(drawn.T) / scale, expected / scale, atol=0.08, rtol=0)


def test_laplaces_full_covariance_is_the_inverse_of_the_gauss_newton_matrix() -> None:
    hessians = CLASSES.hessians(FEATURES @ WEIGHT.T)
    factor = next(iter(POSTERIORS["full"](WEIGHT, in_two(hessians), PRIOR).values()))

    def loss(weight: torch.Tensor) -> torch.Tensor:
        return -torch.log_softmax(FEATURES @ weight.view(2, 4).T, dim=1)[:, 0].sum()

    hessian = torch.autograd.functional.hessian(loss, WEIGHT.flatten())  # of a linear model: the same
    precision = hessian + PRIOR * torch.eye(8, dtype=DOUBLE)
    torch.testing.assert_close(factor @ factor.T, torch.linalg.inv(precision), atol=1e-9, rtol=1e-7)


def test_the_likeliest_precision_is_mackays_fixed_point() -> None:
    """δ ‖W‖² = Σ λ / (λ + δ), the number of well determined weights."""
    curvature = torch.tensor([40.0, 9.0, 2.0, 0.1, 0.0], dtype=DOUBLE)
    found = likeliest_precision(curvature, 3.0)
    assert 3.0 * found == pytest.approx(float((curvature / (curvature + found)).sum()), rel=1e-3)


@pytest.mark.parametrize("curvature", POSTERIORS)
def test_unless_it_is_given_the_precision_is_the_likeliest_of_the_posterior(curvature: str) -> None:
    hessians, outer = CLASSES.hessians(FEATURES @ WEIGHT.T), FEATURES[:, :, None] * FEATURES[:, None]
    whole = {
        "full": sum(torch.kron(one, other) for one, other in zip(hessians, outer, strict=True)),
        "kronecker": 30 * torch.kron(hessians.mean(dim=0), outer.mean(dim=0)),
    }
    precision = likeliest_precision(torch.linalg.eigvalsh(whole[curvature]), float((WEIGHT**2).sum()))
    found, given = (POSTERIORS[curvature](WEIGHT, in_two(hessians), one) for one in (0.0, precision))
    for name, expected in given.items():
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=0)


def test_laplace_reads_the_last_layer_of_a_trained_network_and_its_draws_spread_with_the_prior() -> None:
    wide, narrow = (fitted_spread(precision) for precision in (1e-2, 1e6))
    assert wide > 10 * narrow > 0


def fitted_spread(precision: float) -> float:
    """How far two draws of a small network's logits lie apart."""
    method, network, _ = fitted("kronecker", precision)
    with torch.no_grad():
        first, second = (logits_of(method, network, images(), number) for number in (0, 1))
    return float((first - second).abs().max())


def fitted(curvature: str, precision: float = 0.0) -> tuple[Laplace, Stack, Tensors]:
    """A small network that has a posterior of its last layer, and that posterior."""
    method = Laplace(curvature=curvature, precision=precision)
    network = network_of(method)
    (layout,) = network.weight_layouts
    views = layout.views(network.weights.detach())
    seen = Seen(
        draws.uniform(torch.tensor(2), 320, DOUBLE).view(40, 8), torch.zeros(40, 10, dtype=DOUBLE), None
    )
    found = method.changes.fit(views, layout, seen)
    for name, tensor in found.items():
        views[name].copy_(tensor)
    return method, network, found


@pytest.mark.parametrize("curvature", POSTERIORS)
def test_a_draw_of_laplace_is_one_step_of_the_last_layers_weights_and_bias(curvature: str) -> None:
    method, network, found = fitted(curvature)
    (layout,) = network.weight_layouts
    views, draw = layout.views(network.weights.detach()), Draw(torch.tensor(3), 0)
    drawn = method.changes.as_plain(views, layout, draw)
    steps = {name: drawn[name] - one for name, one in views.items() if not torch.equal(drawn[name], one)}
    last, bias = layout.last.name, layout.last_bias.name
    expected = step_from({name.removeprefix(last): one for name, one in found.items()}, 10, draw.key)
    assert set(steps) == {last, bias}
    torch.testing.assert_close(torch.cat([steps[last], steps[bias][:, None]], dim=1), expected)


def test_whole_weights_of_images_count_in_laplace_as_repeated_images_would() -> None:
    _, network, _ = fitted("full")
    (layout,) = network.weight_layouts
    method, views = Laplace(curvature="full", precision=2.0), layout.views(network.weights.detach())
    features, logits = (draws.normal(torch.tensor(n), size * 5, DOUBLE) for n, size in ((4, 8), (5, 10)))
    seen = Seen(features.view(5, 8), logits.view(5, 10), torch.tensor([2, 0, 1, 1, 3]))
    often = torch.tensor([0, 0, 2, 3, 4, 4, 4])
    repeated = Seen(seen.features[often], seen.logits[often], None)
    roots = [next(iter(method.changes.fit(views, layout, one).values())) for one in (seen, repeated)]
    torch.testing.assert_close(roots[0] @ roots[0].T, roots[1] @ roots[1].T)
