"""The distribution over genotypes: its draws, gradients, entropy and divergence against other ways to get them."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.special import digamma, gammaln

from uraenas.base import draws
from uraenas.architecture import ArchitectureDistribution, concentration_of, dirichlet, uniform
from uraenas.base.errors import UraenasError
from uraenas.spaces import EDGES, OPERATIONS, Genotype

E, O = len(EDGES), len(OPERATIONS)  # noqa: E741
KEY = draws.key(0, "dirichlet")


def distribution(*, low: float = 0.3, high: float = 4.0) -> ArchitectureDistribution:
    """Concentrations spread from `low` to `high`, different on every edge."""
    spread = torch.linspace(0, 1, E * O, dtype=torch.float64).view(E, O)
    spread = spread[:, torch.tensor([3, 0, 4, 1, 2])]
    return ArchitectureDistribution(low * (high / low) ** spread)


def many(count: int, of: ArchitectureDistribution) -> torch.Tensor:
    """`count` independent samples by the function behind `rsample`, drawn at once because that is fast."""
    return dirichlet._ReparameterisedSample.apply(of.concentration.expand(count, E, O), draws.at(KEY, 0))


def test_samples_lie_on_the_simplex() -> None:
    mixing = many(200, distribution())
    assert mixing.dtype == torch.float64
    assert (mixing > 0).all()
    torch.testing.assert_close(mixing.sum(dim=-1), torch.ones(200, E, dtype=torch.float64))


def test_samples_have_the_mean_and_covariance_of_a_dirichlet() -> None:
    here, count = distribution(), 4000
    mixing = many(count, here).numpy()
    beta = here.concentration.numpy()
    total = beta.sum(axis=1, keepdims=True)
    mean = beta / total
    variance = mean * (1 - mean) / (total + 1)
    assert np.abs((mixing.mean(axis=0) - mean) / np.sqrt(variance / count)).max() < 4.5
    np.testing.assert_allclose(mixing.var(axis=0), variance, rtol=0.15)
    for edge in range(E):
        expected = -np.outer(mean[edge], mean[edge]) / (total[edge] + 1)
        np.fill_diagonal(expected, variance[edge])
        np.testing.assert_allclose(
            np.cov(mixing[:, edge].T), expected, atol=5 / math.sqrt(count) * variance.max()
        )


def test_each_weight_has_its_beta_marginal_and_edges_are_independent() -> None:
    here = distribution()
    mixing = many(3000, here).numpy()
    beta = here.concentration.numpy()
    for edge, operation in itertools.product(range(E), range(O)):
        marginal = stats.beta(beta[edge, operation], beta[edge].sum() - beta[edge, operation])
        assert stats.kstest(mixing[:, edge, operation], marginal.cdf).pvalue > 1e-4
    first, second = mixing[:, 0], mixing[:, 1]
    assert np.abs(np.corrcoef(first.T, second.T)[:O, O:]).max() < 4.5 / math.sqrt(3000)


def test_a_sample_is_a_function_of_its_key() -> None:
    here = distribution()
    assert torch.equal(here.rsample(draws.at(KEY, 0)), many(1, here)[0])
    assert torch.equal(here.rsample(draws.at(KEY, 1)), here.rsample(draws.at(KEY, 1)))
    assert not torch.equal(here.rsample(draws.at(KEY, 1)), here.rsample(draws.at(KEY, 2)))


def expected_function(beta: np.ndarray, function) -> float:
    """E[f(θ_0)] by quadrature: one weight of a Dirichlet is a Beta."""
    marginal = stats.beta(beta[0], beta[1:].sum())
    value, _ = integrate.quad(lambda x: function(x) * marginal.pdf(x), 0, 1, limit=200)
    return value


@pytest.mark.parametrize("scale", [0.7, 1.0, 3.0])
def test_gradients_agree_with_numerical_differentiation_of_the_integral(scale: float) -> None:
    """d/dβ E[sin(3θ₀)], from samples and from quadrature."""
    beta = scale * torch.tensor([1.2, 0.8, 1.0, 2.0, 0.6], dtype=torch.float64)
    concentration = beta.expand(1500 * E, O).clone().requires_grad_()
    mixing = dirichlet._ReparameterisedSample.apply(concentration, draws.at(KEY, 0))
    (gradient,) = torch.autograd.grad(torch.sin(3 * mixing[:, 0]).sum(), concentration)
    sampled = gradient.numpy()  # one estimate per row

    def f(x: float) -> float:
        return math.sin(3 * x)

    for operation in range(O):
        shift = np.zeros(O)
        shift[operation] = 1e-4
        numerical = (
            expected_function(beta.numpy() + shift, f) - expected_function(beta.numpy() - shift, f)
        ) / 2e-4
        deviation = sampled[:, operation].std() / math.sqrt(len(sampled))
        assert abs(sampled[:, operation].mean() - numerical) < 4.5 * deviation
        assert deviation < 0.1 * abs(numerical) + 1e-3  # the comparison says something


def test_gradients_agree_with_the_score_function_estimate() -> None:
    """∇E[f] = E[f ∇log p] for an f of the whole of θ."""
    count = 4000
    concentration = distribution(low=0.8).concentration.expand(count, E, O).clone().requires_grad_()
    mixing = dirichlet._ReparameterisedSample.apply(concentration, draws.at(KEY, 0))
    weighting = torch.linspace(-1, 1, E * O, dtype=torch.float64).view(E, O)
    value = ((weighting * mixing) ** 2).sum(dim=(1, 2)) + (mixing[..., 1] * mixing[..., 3]).sum(dim=1)
    (first,) = torch.autograd.grad(value.sum(), concentration)
    beta, centred = concentration.detach(), (value - value.mean()).detach()
    score = torch.digamma(beta.sum(dim=-1, keepdim=True)) - torch.digamma(beta) + torch.log(mixing.detach())
    second = centred[:, None, None] * score
    difference = first.mean(dim=0) - second.mean(dim=0)
    deviation = torch.sqrt((first.var(dim=0) + second.var(dim=0)) / count)
    assert (difference / deviation).abs().max() < 4.5
    assert first.var(dim=0).sum() < second.var(dim=0).sum()


def test_the_gradient_of_one_sample_moves_it_along_the_quantiles_of_its_marginals() -> None:
    """θ_j as a function of β_j at a fixed quantile, by implicit differentiation of the Beta distribution's CDF."""
    concentration = distribution().concentration.clone().requires_grad_()
    mixing = ArchitectureDistribution(concentration).rsample(draws.at(KEY, 5))
    weighting = torch.linspace(-1, 2, E * O, dtype=torch.float64).view(E, O)
    (ours,) = torch.autograd.grad((weighting * mixing).sum(), concentration)
    beta, theta = concentration.detach().numpy(), mixing.detach().numpy()
    expected = np.zeros((E, O))
    for e, j in itertools.product(range(E), range(O)):
        rest = beta[e].sum() - beta[e, j]
        step = 1e-5 * beta[e, j]
        above, below = (stats.beta(beta[e, j] + s, rest).cdf(theta[e, j]) for s in (step, -step))
        slope = -(above - below) / (2 * step) / stats.beta(beta[e, j], rest).pdf(theta[e, j])
        # When θ_j grows, the others shrink in proportion.
        change = -theta[e] / (1 - theta[e, j]) * slope
        change[j] = slope
        expected[e, j] = (weighting[e].numpy() * change).sum()
    np.testing.assert_allclose(
        ours.numpy(), expected, rtol=3e-3, atol=1e-6
    )  # torch approximates the slope to three digits


# Divergence and entropy


def by_integration(beta: np.ndarray, function) -> float:
    """∫ f(p(θ)) dθ over the simplex of three operations."""
    norm = gammaln(beta.sum()) - gammaln(beta).sum()

    def log_density(x: float, y: float) -> float:
        return norm + float(((beta - 1) * np.log([x, y, max(1 - x - y, 1e-300)])).sum())

    value, _ = integrate.dblquad(
        lambda y, x: function(log_density(x, y)), 0, 1, 0, lambda x: 1 - x, epsabs=1e-7, epsrel=1e-7
    )
    return value


def on_three_operations(monkeypatch: pytest.MonkeyPatch, beta: list[float]) -> ArchitectureDistribution:
    """The real distribution, in a space with three operations instead of five."""
    monkeypatch.setattr(dirichlet, "OPERATIONS", ("a", "b", "c"))
    return ArchitectureDistribution(torch.tensor([beta] * E, dtype=torch.float64))


@pytest.mark.parametrize("beta", [[1.0, 1.0, 1.0], [2.0, 3.0, 1.5], [4.0, 1.2, 6.0]])
def test_kl_and_entropy_per_edge_agree_with_numerical_integration(
    beta: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = on_three_operations(monkeypatch, beta)
    uniform_density = math.log(2)  # of Dirichlet(1, 1, 1)
    kl = by_integration(np.array(beta), lambda log_p: math.exp(log_p) * (log_p - uniform_density))
    entropy = by_integration(np.array(beta), lambda log_p: -math.exp(log_p) * log_p)
    assert here.kl_to_uniform().shape == here.entropy().shape == (E,)
    np.testing.assert_allclose(here.kl_to_uniform().numpy(), kl, atol=1e-5)
    np.testing.assert_allclose(here.entropy().numpy(), entropy, atol=1e-5)


def test_kl_of_five_operations_agrees_with_the_mean_of_the_log_ratio() -> None:
    here, count = distribution(), 4000
    mixing = many(count, here)
    beta = here.concentration
    norm = torch.lgamma(beta.sum(dim=1)) - torch.lgamma(beta).sum(dim=1)
    log_ratio = norm + ((beta - 1) * torch.log(mixing)).sum(dim=-1) - math.log(24)
    deviation = log_ratio.std(dim=0) / math.sqrt(count)
    assert ((log_ratio.mean(dim=0) - here.kl_to_uniform()) / deviation).abs().max() < 4.5
    entropy_gap = -log_ratio.mean(dim=0) - math.log(24) - here.entropy()
    assert (entropy_gap / deviation).abs().max() < 4.5


def test_kl_is_the_closed_form_per_edge_not_that_of_one_flattened_dirichlet() -> None:
    here = distribution()
    for beta, found in zip(here.concentration.numpy(), here.kl_to_uniform().tolist(), strict=True):
        expected = gammaln(beta.sum()) - gammaln(beta).sum() - gammaln(O)
        expected += ((beta - 1) * (digamma(beta) - digamma(beta.sum()))).sum()
        assert found == pytest.approx(expected, abs=1e-10)


def test_the_uniform_distribution_has_no_divergence_and_the_largest_entropy() -> None:
    flat = uniform()
    torch.testing.assert_close(flat.kl_to_uniform(), torch.zeros(E, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(flat.entropy(), torch.full((E,), -math.log(24), dtype=torch.float64))
    assert (distribution().entropy() < flat.entropy()).all()


def test_log_density_is_the_sum_over_edges() -> None:
    here = distribution()
    mixing = here.rsample(draws.at(KEY, 0))
    expected = sum(
        stats.dirichlet(beta.numpy()).logpdf(theta.numpy() / theta.numpy().sum())
        for beta, theta in zip(here.concentration, mixing, strict=True)
    )
    assert float(here.log_density(mixing)) == pytest.approx(expected, abs=1e-9)


# Genotypes


def favouring(indices: tuple[int, ...], strength: float) -> ArchitectureDistribution:
    concentration = torch.ones(E, O, dtype=torch.float64)
    concentration[torch.arange(E), torch.tensor(indices)] = strength
    return ArchitectureDistribution(concentration)


def test_the_expected_genotype_is_the_argmax_of_the_mean() -> None:
    indices = (3, 1, 0, 2, 4, 3)
    assert favouring(indices, 1.5).expected_genotype() == Genotype.from_indices(indices)
    here = distribution()
    torch.testing.assert_close(here.expected_mixing, many(4000, here).mean(dim=0), atol=0.03, rtol=0)


def test_sampled_genotypes_are_connected_and_draws_thrown_away_are_counted() -> None:
    # `none` is likely on every edge, so many draws cut the output off.
    here = favouring((0,) * E, 4.0)
    genotypes, redrawn = here.sample_genotypes(30, seed=1)
    assert len(genotypes) == 30
    assert all(genotype.connected for genotype in genotypes)
    key = draws.key(1, "genotype")
    all_drawn = [
        Genotype.from_indices(here.rsample(draws.at(key, n)).argmax(dim=-1).tolist())
        for n in range(30 + redrawn)
    ]
    assert genotypes == [genotype for genotype in all_drawn if genotype.connected]
    assert redrawn == sum(not genotype.connected for genotype in all_drawn) > 0


def test_draws_without_none_come_from_the_dirichlet_of_the_other_operations() -> None:
    here = distribution()
    drawn = here.sample_genotypes(3000, seed=1, draw_none=False)[0]
    assert not any("none" in genotype.operations for genotype in drawn)
    others = torch.distributions.Dirichlet(here.concentration[:, 1:])
    torch.manual_seed(0)
    expected = others.sample((20_000,)).argmax(dim=-1) + 1
    for edge in range(E):
        found = [OPERATIONS.index(genotype.operations[edge]) for genotype in drawn]
        counts = torch.bincount(torch.tensor(found), minlength=O)[1:]
        shares = torch.bincount(expected[:, edge], minlength=O)[1:]
        table = np.array([counts.tolist(), shares.tolist()])
        assert stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > 1e-3


def test_more_genotypes_begin_with_the_fewer() -> None:
    here = distribution()
    assert here.sample_genotypes(10, seed=2)[0][:4] == here.sample_genotypes(4, seed=2)[0]
    assert here.sample_genotypes(10, seed=2)[0] != here.sample_genotypes(10, seed=3)[0]


def test_the_uniform_distribution_draws_every_operation_equally_often() -> None:
    chosen = many(2000, uniform()).argmax(dim=-1)
    for edge in range(E):
        assert stats.chisquare(torch.bincount(chosen[:, edge], minlength=O).numpy()).pvalue > 1e-3


def test_a_distribution_that_never_connects_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dirichlet, "MOST_REDRAWS", 20)
    with pytest.raises(UraenasError, match="almost never draws a connected architecture"):
        favouring((0,) * E, 1e6).sample_genotypes(1, seed=0)


def test_another_shape_of_concentration_is_refused() -> None:
    with pytest.raises(UraenasError, match=r"shape \(6, 5\), not \(5, 6\)"):
        ArchitectureDistribution(torch.ones(5, 6))


# Extremes


@pytest.mark.parametrize("value", [1e-3, 1e-2, 1e3])
def test_extreme_concentrations_give_finite_samples_and_gradients(value: float) -> None:
    concentration = torch.full((E, O), value, dtype=torch.float64, requires_grad=True)
    here = ArchitectureDistribution(concentration)
    for n in range(200):
        mixing = here.rsample(draws.at(KEY, n))
        (gradient,) = torch.autograd.grad((mixing * torch.arange(O)).sum(), concentration)
        assert torch.isfinite(mixing).all()
        assert torch.isfinite(gradient).all()
        torch.testing.assert_close(mixing.sum(dim=-1), torch.ones(E, dtype=torch.float64))
    for value_per_edge in (here.entropy(), here.kl_to_uniform()):
        assert torch.isfinite(value_per_edge).all()
        assert torch.isfinite(torch.autograd.grad(value_per_edge.sum(), concentration)[0]).all()


@pytest.mark.parametrize("value", [1e-2, 1e-3])
def test_tiny_concentrations_still_choose_every_operation_equally_often(value: float) -> None:
    """Near a corner all but one weight underflow; which one is left must stay a fair draw."""
    concentration = torch.full((E, O), value, dtype=torch.float64)
    chosen = many(1500, ArchitectureDistribution(concentration)).argmax(dim=-1)
    assert stats.chisquare(torch.bincount(chosen.view(-1), minlength=O).numpy()).pvalue > 1e-3


def test_the_concentration_is_elu_plus_one() -> None:
    raw = torch.tensor([-5.0, -1.0, 0.0, 0.5, 3.0], dtype=torch.float64)
    expected = [math.exp(-5), math.exp(-1), 1.0, 1.5, 4.0]
    torch.testing.assert_close(concentration_of(raw), torch.tensor(expected, dtype=torch.float64))
    assert (concentration_of(torch.tensor(-30.0, dtype=torch.float64)) > 0).all()


def test_a_colder_distribution_has_the_same_mean_and_draws_closer_to_it() -> None:
    concentration = torch.tensor([[0.5, 1.0, 1.5, 3.0, 0.4]] * 6, dtype=torch.float64)
    learned = ArchitectureDistribution(concentration)
    expected = learned.expected_genotype()
    differing = {}
    for temperature in (0.05, 1.0, 20.0):
        tempered = learned.tempered(temperature)
        torch.testing.assert_close(tempered.expected_mixing, learned.expected_mixing)
        genotypes, _ = tempered.sample_genotypes(100, seed=1)
        pairs = [zip(g.operations, expected.operations, strict=True) for g in genotypes]
        differing[temperature] = sum(a != b for pair in pairs for a, b in pair) / 100
    assert differing[0.05] < differing[1.0] < differing[20.0]
    assert tuple(str(g) for g in learned.tempered(1.0).sample_genotypes(5, 3)[0]) == tuple(
        str(g) for g in learned.sample_genotypes(5, 3)[0]
    )
