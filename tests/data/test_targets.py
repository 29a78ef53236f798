"""What is predicted: losses against PyTorch, units that come back, strata that every part has."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from uraenas.base.errors import UraenasError
from uraenas.base.fields import Fields
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.data.targets import FLOOR, Classes, Numbers, Several, Target, numbers_of, target_of

LABELS = np.array([3.0, 5.0, 10.0, 2.0, 4.0])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_a_number_is_pytorchs_gaussian_in_units_of_the_training(weighted: bool) -> None:
    target = Numbers("y").fitted(LABELS)
    random = torch.Generator().manual_seed(0)
    outputs = torch.randn(2, 5, 2, generator=random)
    weights = torch.rand(2, 5, generator=random) if weighted else None
    coded = target.coded(LABELS)
    assert float(coded.mean()) == pytest.approx(0, abs=1e-6)
    assert float(coded.std(correction=0)) == pytest.approx(1)
    variance = FLOOR + F.softplus(outputs[..., 1])
    each = F.gaussian_nll_loss(outputs[..., 0], coded.expand(2, 5), variance, full=True, reduction="none")
    expected = (each if weights is None else each * weights).mean(dim=1)
    torch.testing.assert_close(target.loss(outputs, coded.expand(2, 5), weights), expected)


def test_a_prediction_is_in_the_units_of_the_data() -> None:
    """The likelihood of labels in their own unit is that of the loss, but for the change of unit."""
    target = Numbers("y").fitted(LABELS)
    outputs = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(1))
    told = target.prediction(outputs)
    found = target.log_likelihood(told, torch.from_numpy(LABELS)).mean(dim=1) + np.log(target.scale)
    expected = -target.loss(outputs, target.coded(LABELS).expand(3, 5), None)
    torch.testing.assert_close(found.float(), expected)
    assert told[..., 1].exp().min() >= FLOOR * target.scale**2 * 0.99
    np.testing.assert_allclose(target.scores(told, LABELS, None), expected.exp(), rtol=1e-5)


def test_hessians_of_a_number_are_those_expected_of_its_loss() -> None:
    """The loss is quadratic in the label, so two of them, a deviation off the mean, give what is expected."""
    target = Numbers("y")
    outputs = torch.tensor([[0.3, -1.0], [-2.0, 0.7]], dtype=torch.float64)
    for own, expected in zip(outputs, target.hessians(outputs), strict=True):
        deviation = (FLOOR + F.softplus(own[1])).sqrt()

        def loss(
            at: torch.Tensor, sign: int, middle: torch.Tensor = own[0], off: torch.Tensor = deviation
        ) -> torch.Tensor:
            return target.loss(at[None, None], (middle + sign * off).view(1, 1), None)[0]

        found = [torch.autograd.functional.hessian(lambda at, s=sign: loss(at, s), own) for sign in (1, -1)]
        torch.testing.assert_close((found[0] + found[1]) / 2, expected)


def test_several_numbers_are_each_what_they_are_alone() -> None:
    """The loss and the log-likelihood are sums; predictions, hessians and mixtures of variants stand side by side."""
    labels = np.stack([LABELS, 100 * LABELS[::-1] ** 2], axis=1)
    target = numbers_of(["a", "b"]).fitted(labels)
    alone = [Numbers(name).fitted(labels[:, k]) for k, name in enumerate("ab")]
    assert target.parts == tuple(alone)
    outputs = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights = torch.rand(3, 5, generator=torch.Generator().manual_seed(3))
    coded = target.coded(labels).expand(3, 5, 2)
    pairs = [(one, outputs[..., 2 * k : 2 * k + 2]) for k, one in enumerate(alone)]
    losses = [one.loss(own, coded[..., k], weights) for k, (one, own) in enumerate(pairs)]
    assert torch.equal(target.loss(outputs, coded, weights), losses[0] + losses[1])
    told = target.prediction(outputs)
    assert torch.equal(told, torch.cat([one.prediction(own) for one, own in pairs], dim=-1))
    said = [
        one.log_likelihood(one.prediction(own), torch.tensor(labels[:, k]))
        for k, (one, own) in enumerate(pairs)
    ]
    assert torch.equal(target.log_likelihood(told, torch.from_numpy(labels)), said[0] + said[1])
    blocks = [
        torch.block_diag(*own) for own in zip(*(one.hessians(own[0]) for one, own in pairs), strict=True)
    ]
    assert torch.equal(target.hessians(outputs[0]), torch.stack(blocks))
    joined = torch.cat([one.joined(own[:, None]) for one, own in pairs], dim=-1)
    assert torch.equal(target.joined(outputs[:, None]), joined)
    scores = [one.scores(one.prediction(own), labels[:, k], None) for k, (one, own) in enumerate(pairs)]
    np.testing.assert_allclose(target.scores(told, labels, None), np.sqrt(np.prod(scores, axis=0)))


def test_what_is_said_of_an_examples_variants_is_joined_as_their_mixture() -> None:
    variants = torch.randn(3, 2, 5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    means, variances = variants[..., 0], variants[..., 1].exp()
    centre, log_variance = Numbers("y").joined(variants).unbind(dim=-1)
    torch.testing.assert_close(centre, means.mean(dim=0))
    torch.testing.assert_close(log_variance.exp(), (variances + means**2).mean(dim=0) - centre**2)
    log_p = torch.log_softmax(variants, dim=-1)
    torch.testing.assert_close(Classes().joined(log_p).exp(), log_p.exp().mean(dim=0))


@pytest.mark.parametrize(
    "target", [Numbers("y"), Classes(), numbers_of(["a", "b"])], ids=lambda one: one.name
)
def test_whole_weights_are_the_loss_of_repeated_rows_and_0_that_of_rows_left_out(target: Target) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 9) if target.name == "classes" else random.random((9, 2))
    labels = labels[:, 0] if target.name == "numbers" else labels
    counts = np.array([0, 1, 2, 3, 0, 1, 4, 1, 2])
    outputs = torch.from_numpy(random.standard_normal((1, 9, 4)))
    every, many = np.arange(9), np.repeat(np.arange(9), counts)

    def loss_of(index: np.ndarray, weights: np.ndarray | None) -> torch.Tensor:
        """By what a loader makes of the weights, with all rows in one batch."""
        images = index.astype(np.float32)[:, None, None, None]
        part = LabelledImages(images, labels[index], weights)
        units = Normalisation((0.0,), (1.0,), target)
        loader = Loader(part, units, len(index), 0, False, torch.device("cpu"), torch.float64)
        rows, coded, own = loader.batch_at(loader.draw([1], 0), 0)
        place = rows[0].flatten().long()
        return target.loss(outputs[:, place], coded, own)

    weighted = loss_of(every, counts.astype(np.float32))
    torch.testing.assert_close(weighted, loss_of(many, None))
    kept = every[counts > 0]
    torch.testing.assert_close(weighted, loss_of(kept, counts[kept].astype(np.float32)))


def test_a_target_survives_being_stored() -> None:
    price = Numbers("price", 3.5, 0.25)
    for target in (price, Classes(), Several((price, Numbers("rent", 1.0, 2.0)))):
        assert target_of(Fields("here", target.as_json())) == target


def test_strata_of_numbers_are_parts_of_equal_size_in_order() -> None:
    values = np.random.default_rng(0).normal(size=103)
    strata = Numbers().strata(values)
    assert np.ptp(np.bincount(strata)) <= 1
    assert len(np.unique(strata)) == 10
    order = strata[np.argsort(values)]
    assert (np.diff(order) >= 0).all()
    assert Numbers().strata(values[:4]).tolist() == [0] * 4


def test_rare_classes_go_with_the_largest_where_they_are_welcome() -> None:
    labels = np.array([0] * 10 + [1] * 20 + [2] * 2 + [3])
    assert Classes().strata(labels) is labels
    strata = Classes(rare=True).strata(labels)
    assert np.bincount(strata).tolist() == [10, 23]


def test_labels_that_cannot_be_predicted_are_refused() -> None:
    with pytest.raises(UraenasError, match="a constant leaves nothing to predict"):
        Numbers("y").check("rows", (), {"training": np.ones(4), "test": LABELS}, {})
    with pytest.raises(UraenasError, match="finite"):
        Numbers("y").check("rows", (), {"training": np.array([1.0, np.nan])}, {})
