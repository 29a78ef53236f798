"""The distribution over genotypes: its draws, gradients, entropy and divergence against other ways to get them."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.special import digamma, gammaln

from uraenas.architectures import Dirichlet, Searched, option_mask, searched
from uraenas.architectures.dirichlet import concentration_of, entropy, kl_to_uniform, sample
from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.spaces import CellSpace

SPACE = CellSpace()
E, O = len(SPACE.decisions), len(SPACE.operations)  # noqa: E741
KEY = draws.key(0, "dirichlet")


def spread(*, low: float = 0.3, high: float = 4.0) -> torch.Tensor:
    """Concentrations from `low` to `high`, different on every edge."""
    share = torch.linspace(0, 1, E * O, dtype=torch.float64).view(E, O)
    return low * (high / low) ** share[:, torch.tensor([3, 0, 4, 1, 2])]


def found(concentration: torch.Tensor) -> Searched:
    """What a search would have found that ended with this concentration."""
    raw = torch.where(concentration < 1, torch.log(concentration), concentration - 1)
    return Searched(SPACE, Dirichlet(), {"raw": raw})


def many(count: int, concentration: torch.Tensor) -> torch.Tensor:
    """`count` independent samples, drawn at once because that is fast."""
    return sample(concentration.expand(count, *concentration.shape), draws.at(KEY, 0))


def test_samples_lie_on_the_simplex() -> None:
    mixing = many(200, spread())
    assert mixing.dtype == torch.float64
    assert (mixing > 0).all()
    torch.testing.assert_close(mixing.sum(dim=-1), torch.ones(200, E, dtype=torch.float64))


def test_samples_have_the_mean_and_covariance_of_a_dirichlet() -> None:
    count = 4000
    mixing = many(count, spread()).numpy()
    beta = spread().numpy()
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
    mixing = many(3000, spread()).numpy()
    beta = spread().numpy()
    for edge, operation in itertools.product(range(E), range(O)):
        marginal = stats.beta(beta[edge, operation], beta[edge].sum() - beta[edge, operation])
        assert stats.kstest(mixing[:, edge, operation], marginal.cdf).pvalue > 1e-4
    first, second = mixing[:, 0], mixing[:, 1]
    assert np.abs(np.corrcoef(first.T, second.T)[:O, O:]).max() < 4.5 / math.sqrt(3000)


def test_a_sample_is_a_function_of_its_key() -> None:
    assert torch.equal(sample(spread(), draws.at(KEY, 0)), many(1, spread())[0])
    assert torch.equal(sample(spread(), draws.at(KEY, 1)), sample(spread(), draws.at(KEY, 1)))
    assert not torch.equal(sample(spread(), draws.at(KEY, 1)), sample(spread(), draws.at(KEY, 2)))


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
    mixing = sample(concentration, draws.at(KEY, 0))
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
    concentration = spread(low=0.8).expand(count, E, O).clone().requires_grad_()
    mixing = sample(concentration, draws.at(KEY, 0))
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


def slope_along_quantiles(beta: np.ndarray, theta: np.ndarray, weighting: np.ndarray) -> np.ndarray:
    """Of Σ w·θ of one edge, θ_j as a function of β_j at a fixed quantile of its Beta distribution."""
    slopes = np.zeros(len(beta))
    for j in range(len(beta)):
        rest = beta.sum() - beta[j]
        step = 1e-5 * beta[j]
        above, below = (stats.beta(beta[j] + s, rest).cdf(theta[j]) for s in (step, -step))
        slope = -(above - below) / (2 * step) / stats.beta(beta[j], rest).pdf(theta[j])
        # When θ_j grows, the others shrink in proportion.
        change = -theta / (1 - theta[j]) * slope
        change[j] = slope
        slopes[j] = (weighting * change).sum()
    return slopes


@pytest.mark.parametrize("options", [(O,) * E, (3, 2, 4, 5, 1, 5)])
def test_the_gradient_of_one_sample_moves_it_along_the_quantiles_of_its_marginals(
    options: tuple[int, ...],
) -> None:
    """By implicit differentiation of the Beta distribution's CDF; where there is no option there is no slope."""
    concentration, mask = spread().requires_grad_(), option_mask(options).get("mask")
    mixing = sample(concentration, draws.at(KEY, 5), mask)
    weighting = torch.linspace(-1, 2, E * O, dtype=torch.float64).view(E, O)
    (ours,) = torch.autograd.grad((weighting * mixing).sum(), concentration)
    beta, theta = concentration.detach().numpy(), mixing.detach().numpy()
    expected = np.zeros((E, O))
    for e, count in enumerate(options):
        if count > 1:  # a decision with one option is none
            own = slice(0, count)
            expected[e, own] = slope_along_quantiles(beta[e, own], theta[e, own], weighting[e, own].numpy())
    # torch approximates the slope to three digits
    np.testing.assert_allclose(ours.numpy(), expected, rtol=3e-3, atol=1e-6)


def test_without_some_options_it_is_the_dirichlet_of_the_others() -> None:
    options = (3, 2, 4, 5, 5, 5)
    mixing = sample(spread().expand(3000, E, O), draws.at(KEY, 0), option_mask(options)["mask"]).numpy()
    beta = spread().numpy()
    for edge, count in enumerate(options):
        assert (mixing[:, edge, count:] == 0).all()
        for operation in range(count):
            marginal = stats.beta(beta[edge, operation], beta[edge, :count].sum() - beta[edge, operation])
            assert stats.kstest(mixing[:, edge, operation], marginal.cdf).pvalue > 1e-4
    rule = Dirichlet(regulariser="kl", regulariser_weight=0.5)
    state = {
        **rule.initial(options, key=1),
        "raw": torch.where(option_mask(options)["mask"], 0.3, 0.0).double(),
    }
    alone = [kl_to_uniform(torch.full((count,), 1.3, dtype=torch.float64)) for count in options]
    torch.testing.assert_close(rule.penalty(state), 0.5 * sum(alone))
    assert rule.facts(state)["kl_to_uniform"] == pytest.approx(float(sum(alone)))


# Divergence and entropy


def by_integration(beta: np.ndarray, function) -> float:
    """∫ f(p(θ)) dθ over the simplex of three operations."""
    norm = gammaln(beta.sum()) - gammaln(beta).sum()

    def log_density(x: float, y: float) -> float:
        return norm + float(((beta - 1) * np.log([x, y, max(1 - x - y, 1e-300)])).sum())

    value, _ = integrate.dblquad(
        lambda y, x: function(log_density(x, y)), 0, 1, 0, lambda x: 1 - x, epsabs=1e-6, epsrel=1e-6
    )
    return value


@pytest.mark.parametrize("beta", [[1.0, 1.0, 1.0], [2.0, 3.0, 1.5], [4.0, 1.2, 6.0]])
def test_kl_and_entropy_per_edge_agree_with_numerical_integration(beta: list[float]) -> None:
    concentration = torch.tensor([beta] * E, dtype=torch.float64)
    uniform_density = math.log(2)  # of Dirichlet(1, 1, 1)
    kl = by_integration(np.array(beta), lambda log_p: math.exp(log_p) * (log_p - uniform_density))
    spread_of_it = by_integration(np.array(beta), lambda log_p: -math.exp(log_p) * log_p)
    assert kl_to_uniform(concentration).shape == entropy(concentration).shape == (E,)
    np.testing.assert_allclose(kl_to_uniform(concentration).numpy(), kl, atol=1e-5)
    np.testing.assert_allclose(entropy(concentration).numpy(), spread_of_it, atol=1e-5)


def test_kl_of_five_operations_agrees_with_the_mean_of_the_log_ratio() -> None:
    beta, count = spread(), 4000
    mixing = many(count, beta)
    norm = torch.lgamma(beta.sum(dim=1)) - torch.lgamma(beta).sum(dim=1)
    log_ratio = norm + ((beta - 1) * torch.log(mixing)).sum(dim=-1) - math.log(24)
    deviation = log_ratio.std(dim=0) / math.sqrt(count)
    assert ((log_ratio.mean(dim=0) - kl_to_uniform(beta)) / deviation).abs().max() < 4.5
    entropy_gap = -log_ratio.mean(dim=0) - math.log(24) - entropy(beta)
    assert (entropy_gap / deviation).abs().max() < 4.5


def test_kl_is_the_closed_form_per_edge_not_that_of_one_flattened_dirichlet() -> None:
    for beta, divergence in zip(spread().numpy(), kl_to_uniform(spread()).tolist(), strict=True):
        expected = gammaln(beta.sum()) - gammaln(beta).sum() - gammaln(O)
        expected += ((beta - 1) * (digamma(beta) - digamma(beta.sum()))).sum()
        assert divergence == pytest.approx(expected, abs=1e-10)


def test_the_uniform_distribution_has_no_divergence_and_the_largest_entropy() -> None:
    flat = Searched.nothing(SPACE, Dirichlet())
    assert torch.equal(flat.favour, torch.ones(E, O, dtype=torch.float64))
    facts = Dirichlet().facts(flat.state)
    assert facts["kl_to_uniform"] == pytest.approx(0, abs=1e-12)
    assert facts["entropy"] == pytest.approx(-E * math.log(24))
    assert Dirichlet().facts(found(spread()).state)["entropy"] < facts["entropy"]


# Genotypes


def favouring(indices: tuple[int, ...], strength: float) -> Searched:
    concentration = torch.ones(E, O, dtype=torch.float64)
    concentration[torch.arange(E), torch.tensor(indices)] = strength
    return found(concentration)


def test_the_expected_genotype_is_the_argmax_of_the_mean() -> None:
    indices = (3, 1, 0, 2, 4, 3)
    assert favouring(indices, 1.5).expected == SPACE.architecture(indices)
    shares = Dirichlet().shares(found(spread()).state)
    torch.testing.assert_close(shares, many(4000, spread()).mean(dim=0), atol=0.03, rtol=0)


def test_sampled_genotypes_are_connected_and_draws_thrown_away_are_counted() -> None:
    # `none` is likely on every edge, so many draws cut the output off.
    here = favouring((0,) * E, 4.0)
    genotypes, redrawn = here.draw(30, seed=1)
    assert len(genotypes) == 30
    assert all(genotype.connected for genotype in genotypes)
    key = draws.key(1, "genotype")
    all_drawn = [
        SPACE.architecture(sample(here.favour, draws.at(key, n)).argmax(dim=-1).tolist())
        for n in range(30 + redrawn)
    ]
    assert genotypes == [genotype for genotype in all_drawn if genotype.connected]
    assert redrawn == sum(not genotype.connected for genotype in all_drawn) > 0


def test_draws_without_none_come_from_the_dirichlet_of_the_other_operations() -> None:
    drawn = found(spread()).draw(500, seed=1, draw_absent=False)[0]
    assert not any("none" in genotype.operations for genotype in drawn)
    expected = many(4000, spread()[:, 1:]).argmax(dim=-1) + 1
    for edge in range(E):
        chosen = [SPACE.operations.index(genotype.operations[edge]) for genotype in drawn]
        counts = torch.bincount(torch.tensor(chosen), minlength=O)[1:]
        shares = torch.bincount(expected[:, edge], minlength=O)[1:]
        table = np.array([counts.tolist(), shares.tolist()])
        assert stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > 1e-3


def test_more_genotypes_begin_with_the_fewer() -> None:
    here = found(spread())
    assert here.draw(10, seed=2)[0][:4] == here.draw(4, seed=2)[0]
    assert here.draw(10, seed=2)[0] != here.draw(10, seed=3)[0]


def test_the_uniform_distribution_draws_every_operation_equally_often() -> None:
    chosen = many(2000, Searched.nothing(SPACE, Dirichlet()).favour).argmax(dim=-1)
    for edge in range(E):
        assert stats.chisquare(torch.bincount(chosen[:, edge], minlength=O).numpy()).pvalue > 1e-3


def test_a_distribution_that_never_connects_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "MOST_REDRAWS", 20)
    with pytest.raises(UraenasError, match="almost never draws a connected architecture"):
        favouring((0,) * E, 1e6).draw(1, seed=0)


def test_what_was_searched_in_another_space_is_refused() -> None:
    with pytest.raises(UraenasError, match="is no raw of the decisions of nasbench201"):
        Searched(SPACE, Dirichlet(), {"raw": torch.zeros(5, 6, dtype=torch.float64)})
    with pytest.raises(UraenasError, match="is no raw of the decisions of nasbench201"):
        Searched(SPACE, Dirichlet(), {"logits": torch.zeros(E, O, dtype=torch.float64)})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"step_size": 0.0}, "step_size = 0.0 is out of range"),
        ({"betas": (0.5, 1.0)}, r"betas = \(0.5, 1.0\) is out of range"),
        ({"regulariser": "l1"}, "unknown regulariser 'l1'.*Allowed: kl, l2, none"),
        ({"regulariser_weight": -1.0}, "regulariser_weight = -1.0 is out of range"),
    ],
)
def test_senseless_settings_are_refused(wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        Dirichlet(**wrong)


# Steps


def test_a_step_is_adams_with_decay_towards_the_uniform_distribution() -> None:
    """Against torch.optim: l2 is its weight decay; the penalty of kl is the divergence itself."""
    rule = Dirichlet(step_size=0.02, regulariser_weight=0.1)
    state = rule.initial((O,) * E, key=3)
    raw = torch.nn.Parameter(state["raw"].clone())
    optimiser = torch.optim.Adam([raw], 0.02, betas=rule.betas, weight_decay=0.1)
    for step in range(6):
        gradient = torch.sin(7 * state["raw"] + step)
        raw.grad = torch.sin(7 * raw.detach() + step)
        optimiser.step()
        state = rule.update(state, {"raw": gradient}, torch.tensor(step))
        torch.testing.assert_close(state["raw"], raw.detach(), rtol=1e-10, atol=1e-12)
    assert rule.penalty(state) is None
    divergence = kl_to_uniform(concentration_of(state["raw"])).sum()
    penalty = Dirichlet(regulariser="kl", regulariser_weight=0.1).penalty(state)
    torch.testing.assert_close(penalty, 0.1 * divergence)


# Extremes


@pytest.mark.parametrize("value", [1e-3, 1e-2, 1e3])
def test_extreme_concentrations_give_finite_samples_and_gradients(value: float) -> None:
    concentration = torch.full((E, O), value, dtype=torch.float64, requires_grad=True)
    mixing = many(200, concentration)
    (gradient,) = torch.autograd.grad((mixing * torch.arange(O)).sum(), concentration)
    assert torch.isfinite(mixing).all()
    assert torch.isfinite(gradient).all()
    torch.testing.assert_close(mixing.sum(dim=-1), torch.ones(200, E, dtype=torch.float64))
    for value_per_edge in (entropy(concentration), kl_to_uniform(concentration)):
        assert torch.isfinite(value_per_edge).all()
        assert torch.isfinite(torch.autograd.grad(value_per_edge.sum(), concentration)[0]).all()


@pytest.mark.parametrize("value", [1e-2, 1e-3])
def test_tiny_concentrations_still_choose_every_operation_equally_often(value: float) -> None:
    """Near a corner all but one weight underflow; which one is left must stay a fair draw."""
    concentration = torch.full((E, O), value, dtype=torch.float64)
    chosen = many(1500, concentration).argmax(dim=-1)
    assert stats.chisquare(torch.bincount(chosen.view(-1), minlength=O).numpy()).pvalue > 1e-3


def test_the_concentration_is_elu_plus_one() -> None:
    raw = torch.tensor([-5.0, -1.0, 0.0, 0.5, 3.0], dtype=torch.float64)
    expected = [math.exp(-5), math.exp(-1), 1.0, 1.5, 4.0]
    torch.testing.assert_close(concentration_of(raw), torch.tensor(expected, dtype=torch.float64))
    assert (concentration_of(torch.tensor(-30.0, dtype=torch.float64)) > 0).all()


def test_a_colder_distribution_draws_closer_to_the_expected_genotype() -> None:
    here = found(torch.tensor([[0.5, 1.0, 1.5, 3.0, 0.4]] * 6, dtype=torch.float64))
    differing = {}
    for temperature in (0.05, 1.0, 20.0):
        genotypes, _ = here.draw(100, seed=1, temperature=temperature)
        pairs = [zip(g.operations, here.expected.operations, strict=True) for g in genotypes]
        differing[temperature] = sum(a != b for pair in pairs for a, b in pair) / 100
    assert differing[0.05] < differing[1.0] < differing[20.0]
    scores = torch.stack([Dirichlet().scores(here.state, draws.at(KEY, n), 20.0) for n in range(200)])
    shares = Dirichlet().shares(here.state)
    torch.testing.assert_close(scores.mean(dim=(0, 1)), shares[0], atol=0.05, rtol=0)  # the mean stays
    assert here.draw(5, seed=3, temperature=1.0) == here.draw(5, seed=3)
