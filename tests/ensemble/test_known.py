"""Foreign images: p-values that keep their promise, distances as in the textbook, and what is stored of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.covariance import LedoitWolf
from sklearn.datasets import load_digits

from uraenas import Run
from uraenas.base.errors import UraenasError
from uraenas.base.files import checksum_of, read_tensors, write_tensors
from uraenas.ensemble import Ensemble
from uraenas.ensemble.joining import conformal_p_values, joined_scores, mutual_p_values
from uraenas.ensemble.known import FILE, Known, Level, Seen, reach_of


def scores(random: np.random.Generator, count: int) -> np.ndarray:
    """Three scores of images, dependent on each other, with heavy tails and ties."""
    common = random.standard_cauchy(count)
    return np.stack([common, common + random.normal(size=count), np.round(random.exponential(size=count), 1)])


REACH = torch.tensor([2.0, torch.inf, 3.0])  # that some images are beyond


@pytest.mark.parametrize("decimals", [9, 0])  # with 0 most images are tied
@pytest.mark.parametrize(("reach", "ranked"), [(None, 3), (REACH, 3), (REACH, 2)])
def test_p_values_are_those_of_a_plain_count(reach: torch.Tensor | None, ranked: int, decimals: int) -> None:
    random = np.random.default_rng(0)
    held_out, new = (np.round(scores(random, count), decimals) for count in (23, 200))
    found = conformal_p_values(torch.from_numpy(held_out), torch.from_numpy(new), reach, ranked)
    for place, p_value in enumerate(found):
        everyone = np.concatenate([held_out, new[:, place : place + 1]], axis=1)
        ranks = (everyone[:, None] >= everyone[:, :, None]).sum(axis=2)
        joined = -np.log(ranks[:ranked]).sum(axis=0)
        if reach is not None:
            doublings = np.log2(np.maximum(everyone / reach.numpy()[:, None], 1))
            joined += 3 * np.log(24) * doublings.sum(axis=0)
        assert float(p_value) == (joined >= joined[-1] - 1e-9).mean()


def test_one_score_beyond_measure_is_enough_however_few_images_were_held_out() -> None:
    """By ranks alone it is not: others that see nothing outweigh it."""
    held_out = torch.from_numpy(np.random.default_rng(4).uniform(size=(4, 25)))
    new = torch.tensor([[0.0], [0.1], [0.5], [2.0]], dtype=torch.float64)
    assert conformal_p_values(held_out, new) > 0.05
    assert conformal_p_values(held_out, new, torch.ones(4)) == 1 / 26


def test_joined_scores_rank_as_p_values_do_and_go_on_beyond_them() -> None:
    random = np.random.default_rng(3)
    held_out, new = (torch.from_numpy(scores(random, count)) for count in (400, 300))
    p_values, joined = conformal_p_values(held_out, new), joined_scores(held_out, new)
    assert spearmanr(p_values, joined).statistic < -0.99
    beyond = held_out.max(dim=1, keepdim=True).values + torch.tensor([1.0, 10.0, torch.inf])
    assert conformal_p_values(held_out, beyond).tolist() == pytest.approx([1 / 401] * 3)
    first, second, third = joined_scores(held_out, beyond).tolist()
    assert first < second < third


def test_joined_scores_are_interpolated_between_ranks_and_grow_beyond_the_last() -> None:
    """6 lies beyond the last of five as far as that from the middle one, and at twice the reach."""
    held_out, new = torch.arange(5.0)[None].double(), torch.tensor([[6.0, 1.5]]).double()
    assert joined_scores(held_out, new).tolist() == pytest.approx(np.log([2, 1 / 3.5]))
    with_reach = joined_scores(held_out, new, torch.tensor([3.0]))
    assert with_reach.tolist() == pytest.approx(np.log([2 * 6, 1 / 3.5]))


@pytest.mark.parametrize(("share", "reach"), [(0.01, None), (0.05, REACH), (0.2, None)])
def test_the_share_of_false_alarms_holds_over_a_thousand_splits(
    share: float, reach: torch.Tensor | None
) -> None:
    """Of images like the held-out ones; the splits are drawn from one set of images, as a run's are."""
    random = np.random.default_rng(1)
    alarms, images, splits = 0, 50, 1000
    for _ in range(splits):
        drawn = torch.from_numpy(scores(random, 200 + images))
        alarms += int((conformal_p_values(drawn[:, :200], drawn[:, 200:], reach, 2) <= share).sum())
    # Images of one split share their held-out images: the spread is that of splits, not of all images together.
    deviation = (share * (1 - share) * (1 / images + 1 / 200) / splits) ** 0.5
    assert alarms / (images * splits) <= share + 4 * deviation
    assert alarms / (images * splits) >= share - 1 / 201 - 0.1 * share - 4 * deviation  # ties cost a little


def test_a_distance_is_mahalanobis_to_the_nearest_class() -> None:
    random = np.random.default_rng(2)
    labels = np.arange(300) % 3
    mixing = random.normal(size=(4, 4))
    features = random.normal(size=(300, 4)) @ mixing + 5 * labels[:, None]
    found = Level.fit(torch.from_numpy(features), torch.from_numpy(labels)).distance(
        torch.from_numpy(features)
    )
    means = np.stack([features[labels == k].mean(axis=0) for k in range(3)])
    precision = np.linalg.inv(LedoitWolf(assume_centered=True).fit(features - means[labels]).covariance_)
    apart = features[:, None] - means
    expected = np.einsum("nki,ij,nkj->nk", apart, precision, apart).min(axis=1) / 4
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_the_last_level_has_a_distance_relative_to_all_images() -> None:
    """What sets an image apart from all classes alike is far, but not relatively."""
    random = np.random.default_rng(5)
    labels = torch.arange(600) % 2
    apart = torch.tensor([8.0, 0.0, 0.0])  # of the classes, in the first feature; all vary much in the third
    last = torch.from_numpy(random.normal(size=(600, 3)) * [1, 1, 20]) + labels[:, None] * apart
    first = torch.from_numpy(random.normal(size=(600, 2)))
    seen = Seen.fit((first, last), labels)
    between, strange = [4.0, 0.0, 0.0], [0.0, 0.0, 80.0]  # the classes; of a class, in a strange way
    new = torch.tensor([between, strange])
    found = seen.distances((torch.zeros(2, 2), new))
    whole = Level.fit(last, torch.zeros(600)).distance(new)
    torch.testing.assert_close(found["relative"], seen.levels[1].distance(new) - whole)
    assert found["distance-2"][0] > found["distance-2"][1] / 2
    assert found["relative"][0] > 3 > 0.5 > abs(found["relative"][1])


@pytest.mark.parametrize(("held_out", "beyond"), [(20, 50), (99, 50), (999, 5), (9999, 0)])
def test_the_more_held_out_images_have_ranks_the_fewer_training_images_lie_beyond_reach(
    held_out: int, beyond: int
) -> None:
    features = (torch.from_numpy(np.random.default_rng(6).normal(size=(5000, 3))),)
    seen = Seen.fit(features, torch.arange(5000) % 2)
    (reach,) = reach_of([seen], [features], held_out).values()
    found = int((seen.distances(features)["distance-1"] > reach).sum())
    assert beyond - 1 <= found <= beyond


def test_many_features_are_kept_by_their_variances() -> None:
    """A covariance would take the square of their number, in every member."""
    random = np.random.default_rng(6)
    labels = torch.arange(200) % 2
    features = torch.from_numpy(random.normal(size=(200, 600)) * np.linspace(0.1, 9, 600)) + labels[:, None]
    level = Level.fit(features, labels)
    assert level.whitening.shape == (600,)
    assert level.is_sound
    means = torch.stack([features[labels == k].mean(dim=0) for k in range(2)])
    variance = (features - means[labels]).square().mean(dim=0)
    expected = ((features[:, None] - means).square() / variance).mean(dim=2).amin(dim=1)
    torch.testing.assert_close(level.distance(features), expected, rtol=1e-3, atol=0)


def test_a_distance_does_not_depend_on_how_many_images_are_asked_about() -> None:
    """Far from the origin squares of features swallow their differences, which products of matrices subtract."""
    features, labels = 1000 + torch.randn(60, 4, generator=torch.manual_seed(0)), torch.arange(60) % 2
    level = Level.fit(features, labels)
    alone = torch.cat([level.distance(one[None]) for one in features])
    torch.testing.assert_close(level.distance(features), alone, rtol=1e-3, atol=1e-3)


def test_a_level_of_constant_features_or_of_few_images_gives_numbers() -> None:
    few = torch.cat([torch.zeros(5, 30), torch.randn(5, 10)], dim=1)
    level = Level.fit(few, torch.tensor([0, 0, 1, 1, 1]))
    assert torch.isfinite(level.distance(few)).all()
    assert torch.isinf(level.distance(torch.full((1, 40), torch.nan))).all()


@pytest.fixture(scope="module")
def ensemble(finished_run: Path) -> Ensemble:
    return Run(finished_run).ensemble("uraenas")


def digits(count: int) -> np.ndarray:
    return np.uint8(load_digits().images[-count:] * 255 / 16)


def test_noise_and_blank_images_are_foreign_and_digits_are_not(ensemble: Ensemble) -> None:
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (100, 8, 8), dtype=np.uint8)
    blank = np.full((8, 8), 1) * np.linspace(0, 255, 20).astype(np.uint8)[:, None, None]
    one_pixel = blank.copy()
    one_pixel[np.arange(20), *random.integers(0, 8, (2, 20))] ^= 128
    for images in (noise, blank, one_pixel):
        assert ensemble.is_foreign(images.astype(np.uint8)).all()
    found = ensemble.is_foreign(digits(300)).mean()  # a training set's own images among them
    assert found < 0.1
    assert ensemble.is_foreign(digits(300), share=0.5).mean() > found


def test_predictions_are_the_same_with_a_look_at_features(ensemble: Ensemble) -> None:
    log_p, p_values = ensemble.look(digits(40))
    assert torch.equal(log_p, ensemble.member_log_probabilities(digits(40)))
    assert ((p_values > 0) & (p_values <= 1)).all()


def test_what_is_known_is_stored_with_the_ensemble(ensemble: Ensemble, tmp_path: Path) -> None:
    ensemble.save(tmp_path / "copy")
    again = Ensemble.load(tmp_path / "copy")
    assert torch.equal(again.look(digits(40))[1], ensemble.look(digits(40))[1])
    assert (tmp_path / "copy" / FILE).stat().st_size < 100_000


def test_an_ensemble_without_relative_distances_ranks_by_three_scores(
    ensemble: Ensemble, tmp_path: Path
) -> None:
    """As the shipped `cifar10` and `cifar10-small` do."""
    known = ensemble.known
    assert known.ranked == 4
    assert known.names[:4] == ["uncertainty", "distance-1", "distance-2", "relative"]
    without = replace(
        known,
        seen=tuple(replace(one, whole=None) for one in known.seen),
        scores={name: score for name, score in known.scores.items() if name != "relative"},
    )
    replace(ensemble, known=without).save(tmp_path / "without")
    again = Ensemble.load(tmp_path / "without")
    assert again.known.ranked == 3
    assert "relative" not in again.known.names
    assert torch.equal(again.look(digits(40))[1], replace(ensemble, known=without).look(digits(40))[1])
    assert not torch.equal(again.look(digits(40))[1], ensemble.look(digits(40))[1])


@pytest.mark.parametrize(
    "name", ["p_value", "before", "reach.distance-1", "scores.distance-2", "0.whole.means"]
)
def test_a_file_that_lacks_something_is_refused(ensemble: Ensemble, tmp_path: Path, name: str) -> None:
    path = tmp_path / FILE
    ensemble.known.save(path)
    tensors, _ = read_tensors(path)
    write_tensors(path, {other: one for other, one in tensors.items() if other != name}, {"file": FILE})
    with pytest.raises(UraenasError, match=f"{FILE} (lacks|does not hold)"):
        Known.load(path, len(ensemble.known.seen), checksum_of(path))


def test_an_ensemble_without_it_says_so(ensemble: Ensemble, tmp_path: Path) -> None:
    replace(ensemble, known=None).save(tmp_path / "bare")
    bare = Ensemble.load(tmp_path / "bare")
    assert bare.predict(digits(3)).shape == (3,)
    with pytest.raises(UraenasError, match="cannot tell foreign ones"):
        bare.is_foreign(digits(3))


def test_another_ones_knowledge_is_refused(ensemble: Ensemble, finished_run: Path, tmp_path: Path) -> None:
    ensemble.save(tmp_path / "copy")
    other = Run(finished_run).members_folder("deep-ensemble") / FILE
    (tmp_path / "copy" / FILE).write_bytes(other.read_bytes())
    with pytest.raises(UraenasError, match="is not the file it should be"):
        Ensemble.load(tmp_path / "copy")


def test_a_share_out_of_range_is_refused(ensemble: Ensemble) -> None:
    with pytest.raises(UraenasError, match="share = 0"):
        ensemble.is_foreign(digits(3), share=0)


def test_an_images_p_value_among_the_others_is_that_of_a_new_one() -> None:
    scores = torch.randn(3, 40, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    scores[:, 30:] = scores[:, :10].round()  # some ties
    scores[1, 3] = float("inf")
    few = scores[:, :30].unflatten(1, (10, 3)).unbind(dim=1)  # whose number matters most
    for some in (scores, *few):
        for place, found in enumerate(mutual_p_values(some, REACH / 2, 2).tolist()):
            others = torch.cat([some[:, :place], some[:, place + 1 :]], dim=1)
            (expected,) = conformal_p_values(others, some[:, place : place + 1], REACH / 2, 2).tolist()
            assert found == pytest.approx(expected)


def test_what_is_beyond_reach_weighs_by_the_number_of_others() -> None:
    """The first is 0.6 doublings beyond: with two others 3 · log 3 · 0.6 < 2 · log 3, with three it would be more."""
    scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [2**0.6, 0.0, 0.0]], dtype=torch.float64)
    reach = torch.tensor([torch.inf, torch.inf, 1.0])
    assert mutual_p_values(scores, reach, 2).tolist() == pytest.approx([2 / 3, 1, 1 / 3])
    assert conformal_p_values(scores[:, 1:], scores[:, :1], reach, 2).tolist() == pytest.approx([2 / 3])
