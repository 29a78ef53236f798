"""Batches are crops and flips of the right images, drawn by key and the same alone or in company."""

import numpy as np
import pytest
import torch

from uraenas.base.errors import UraenasError
from uraenas.data.augment import AUGMENTATIONS
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation, suited_batch

CPU = torch.device("cpu")


def numbered(
    count: int = 23, height: int = 5, width: int = 4, weights: np.ndarray | None = None
) -> LabelledImages:
    """Every pixel of every image has a value of its own; the label says which image it is."""
    images = np.arange(count * height * width * 2, dtype=np.float32).reshape(count, height, width, 2) + 1
    return LabelledImages(images, np.arange(count), weights)


PLAIN = Normalisation((0.0, 0.0), (1.0, 1.0))


def loader_of(part: LabelledImages, batch: int = 5, padding: int = 0, flip: bool = False) -> Loader:
    return Loader(part, PLAIN, batch, padding, flip, CPU, torch.float64)


def test_an_epoch_holds_every_image_once_but_for_the_remainder() -> None:
    part = numbered()
    loader = loader_of(part)
    drawn = loader.draw([3], epoch=0)
    assert (loader.count, loader.steps) == (23, 4)
    seen = []
    for step in range(loader.steps):
        images, labels, weights = loader.batch_at(drawn, step)
        assert images.shape == (1, 5, 2, 5, 4)
        assert weights is None
        for image, label in zip(images[0], labels[0].tolist(), strict=True):
            np.testing.assert_array_equal(image.numpy(), part.images[label].transpose(2, 0, 1))
            seen.append(label)
    assert len(set(seen)) == len(seen) == 20


def test_a_member_never_sees_the_fold_that_it_leaves_out_and_sees_all_others() -> None:
    fold = np.arange(23) % 4
    loader = Loader(numbered(), PLAIN, 5, 0, False, CPU, torch.float64, fold=fold)
    assert loader.steps == 3  # of the 17 images that each member has at least
    epochs = [loader.draw([3, 4, 5], epoch, numbers=[0, 2, 6]) for epoch in range(12)]
    for member, left_out in enumerate((0, 2, 2)):
        seen = {int(n) for drawn in epochs for n in drawn.order[member].flatten()}
        assert seen == set(np.flatnonzero(fold != left_out))
    alone = loader.draw([4], 7, numbers=[2])
    torch.testing.assert_close(alone.order[0], epochs[7].order[1])


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
def test_images_are_mixed_with_those_of_their_own_fold_alone(name: str) -> None:
    """Else a member would learn from the fold that it leaves out, labels and all."""
    fold, where = np.arange(40) % 4, (CPU, torch.float64)
    part = LabelledImages(np.arange(40, dtype=np.uint8).repeat(64).reshape(40, 8, 8, 1), np.arange(40))
    kinds = [AUGMENTATIONS["none"].make(), AUGMENTATIONS[name].make({"strength": 1.0})]
    loader = Loader(part, Normalisation((0.0,), (1.0,)), 5, 1, False, *where, kinds, 40, fold=fold)
    partners = set()
    for epoch in range(20):
        loader.augment(7, epoch)
        as_they_are, mixed = loader.labels.split(40)
        assert torch.equal(as_they_are, torch.eye(40, dtype=torch.float64))
        torch.testing.assert_close(mixed.sum(dim=1), torch.ones(40, dtype=torch.float64))
        for image, others in enumerate(mixed):
            found = others.nonzero().flatten().tolist()
            assert {fold[other] for other in found} == {fold[image]}
            partners |= {(image, other) for other in found if other != image}
            pixels = loader.inner[40 + image].unique().tolist()
            assert min(found) <= min(pixels) <= max(pixels) <= max(found)
    assert len(partners) > 250  # of 40 · 9


def test_crops_and_flips_are_windows_of_the_padded_image() -> None:
    part = numbered()
    loader = loader_of(part, padding=2, flip=True)
    padded = np.pad(part.images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    corners, flips = set(), set()
    for epoch in range(12):
        drawn = loader.draw([7], epoch)
        for step in range(loader.steps):
            images, labels, _ = loader.batch_at(drawn, step)
            for b, label in enumerate(labels[0].tolist()):
                y, x = drawn.corner[0, step, b].tolist()
                window = padded[label, y : y + 5, x : x + 4]
                if drawn.flip[0, step, b]:
                    window = window[:, ::-1]
                np.testing.assert_array_equal(images[0, b].numpy(), window.transpose(2, 0, 1))
                corners.add((y, x))
                flips.add(bool(drawn.flip[0, step, b]))
    assert corners == {(y, x) for y in range(5) for x in range(5)}
    assert flips == {True, False}


def test_without_flip_nothing_is_flipped() -> None:
    assert not loader_of(numbered(), padding=1).draw([7], 0).flip.any()


def test_a_members_batches_are_the_same_alone_or_in_company() -> None:
    loader = loader_of(numbered(), padding=1, flip=True)
    together, alone = loader.draw([1, 2, 3], epoch=4), loader.draw([2], epoch=4)
    for step in range(loader.steps):
        (images, labels, _), (own_images, own_labels, _) = (
            loader.batch_at(d, step) for d in (together, alone)
        )
        assert torch.equal(images[1], own_images[0])
        assert torch.equal(labels[1], own_labels[0])
    assert not torch.equal(together.order[0], together.order[1])


def test_epochs_differ_and_can_be_drawn_again() -> None:
    loader = loader_of(numbered())
    assert not torch.equal(loader.draw([1], 0).order, loader.draw([1], 1).order)
    assert torch.equal(loader.draw([1], 1).order, loader.draw([1], 1).order)


def test_refilling_takes_the_draws_over_in_place() -> None:
    loader = loader_of(numbered(), padding=1, flip=True)
    drawn, fresh = loader.draw([1], 0), loader.draw([1], 1)
    place = drawn.order.data_ptr()
    drawn.refill(fresh)
    assert drawn.order.data_ptr() == place
    for step in range(loader.steps):
        assert torch.equal(loader.batch_at(drawn, step)[0], loader.batch_at(fresh, torch.tensor(step))[0])


def test_the_border_is_black_before_normalisation() -> None:
    part = LabelledImages(np.full((4, 4, 4, 1), 200, np.uint8), np.zeros(4, np.int64))
    loader = Loader(part, Normalisation((100.0,), (50.0,)), 4, 1, False, CPU)
    values = torch.cat([loader.batch_at(loader.draw([1], epoch), 0)[0].flatten() for epoch in range(5)])
    assert set(values.tolist()) == {2.0, -2.0}


def test_weights_follow_their_images_and_have_mean_one() -> None:
    weights = np.linspace(0, 3, 23, dtype=np.float32)
    loader = loader_of(numbered(weights=weights))
    _, labels, batch_weights = loader.batch_at(loader.draw([1], 0), 2)
    assert batch_weights is not None
    np.testing.assert_allclose(batch_weights[0], weights[labels[0]] / weights.mean(), rtol=1e-6)


def test_a_batch_is_never_larger_than_the_set() -> None:
    loader = loader_of(numbered(count=3), batch=100)
    assert (loader.batch, loader.steps) == (3, 1)


def test_one_image_is_too_few() -> None:
    with pytest.raises(UraenasError, match="at least 2 images"):
        loader_of(numbered(count=1))


def test_normalisation_gives_mean_zero_and_deviation_one_per_channel() -> None:
    rng = np.random.default_rng(0)
    images = (rng.random((50, 6, 5, 3)) * [255, 100, 30]).astype(np.uint8)
    normalise = Normalisation.of(images)
    np.testing.assert_allclose(normalise.mean, images.reshape(-1, 3).mean(axis=0))
    np.testing.assert_allclose(normalise.deviation, images.reshape(-1, 3).std(axis=0))
    out = normalise.on(CPU, torch.float64)(torch.from_numpy(images))
    assert out.shape == (50, 3, 6, 5)
    np.testing.assert_allclose(out.mean(dim=(0, 2, 3)), 0, atol=1e-10)
    np.testing.assert_allclose(out.std(dim=(0, 2, 3), correction=0), 1, atol=1e-10)


def test_a_constant_channel_is_centred_and_left_in_its_units() -> None:
    normalise = Normalisation.of(np.full((3, 4, 4, 1), 7, np.uint8))
    assert normalise == Normalisation((7.0,), (1.0,))


@pytest.mark.parametrize(
    ("batch", "images", "expected"),
    [(64, 160, 16), (64, 512, 64), (64, 511, 32), (256, 45_000, 256), (64, 20, 8), (4, 20, 4)],
)
def test_small_sets_get_smaller_batches(batch: int, images: int, expected: int) -> None:
    assert suited_batch(batch, images) == expected
