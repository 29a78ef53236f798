"""Augmentations are functions of a key, an image's number and the images, however they are divided."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data.augment import AUGMENTATIONS, Augmentation, augmentation, augmented, operating
from uraenas.data.augment.chains import mixed
from uraenas.data.augment.primitives import convolve, displace, recolour
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation

CPU = torch.device("cpu")
CHANGING = [name for name in AUGMENTATIONS if name != "none"]
MIXING = ["mixup", "cutmix"]
KEY = draws.at(draws.key(3, "augmentation"), 0)


def images_of(count: int = 40, height: int = 16, width: int = 16, channels: int = 3) -> Tensor:
    shape = (count, height, width, channels)
    return 1 + draws.integers(draws.at(9, 0), int(np.prod(shape)), 255).view(shape).to(torch.uint8)


def labels_for(part: Augmentation, count: int, classes: int = 4) -> Tensor:
    labels = torch.arange(count) % classes
    return F.one_hot(labels, classes).float() if part.mixes else labels


def made(name: str, **settings: Any) -> Augmentation:
    return AUGMENTATIONS[name].make(settings)


@pytest.mark.parametrize("name", AUGMENTATIONS)
@pytest.mark.parametrize("shape", [(8, 8, 1), (32, 32, 3), (9, 20, 3), (224, 224, 1)])
def test_shapes_and_types_stay(name: str, shape: tuple[int, int, int]) -> None:
    images, part = images_of(6, *shape), made(name)
    before = images.clone()
    changed, labels = augmented(part, images, labels_for(part, 6), KEY)
    assert (changed.shape, changed.dtype) == (images.shape, torch.uint8)
    assert labels.dtype == (torch.float32 if part.mixes else torch.int64)
    assert torch.equal(images, before)
    assert part.changes == (not torch.equal(changed, images))


@pytest.mark.parametrize("name", CHANGING)
def test_parts_give_what_the_whole_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images, part = images_of(), made(name)
    labels = labels_for(part, len(images))
    whole = part(images, labels, KEY, slice(0, len(images)))
    monkeypatch.setattr(augmentation, "MOST_VALUES", 7 * images[0].numel())
    in_parts = augmented(part, images, labels, KEY)
    for one, other in zip(whole, in_parts, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", CHANGING)
def test_a_key_decides(name: str) -> None:
    images, part = images_of(), made(name)
    labels = labels_for(part, len(images))
    one, again, other = (augmented(part, images, labels, draws.at(1, step))[0] for step in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("name", ["cutout", "primitives"])
def test_no_strength_leaves_images_as_they_are(name: str) -> None:
    images = images_of()
    changed, _ = augmented(made(name, strength=0.0), images, torch.arange(40), KEY)
    assert torch.equal(changed, images)


@pytest.mark.parametrize(
    ("name", "weak", "strong"), [("trivial", 0.1, 1.0), ("augmix", 0.1, 10.0), ("primitives", 0.2, 2.0)]
)
def test_more_strength_changes_more(name: str, weak: float, strong: float) -> None:
    image = torch.linspace(30, 220, 16)[:, None, None].expand(16, 16, 3).to(torch.uint8)
    images = image.expand(300, 16, 16, 3)
    distance = [
        (augmented(made(name, strength=s), images, torch.arange(300), KEY)[0].float() - images).abs().mean()
        for s in (weak, strong)
    ]
    assert distance[0] < distance[1]


@pytest.mark.parametrize(("name", "strength"), [("cutout", 2.1), ("augmix", 0.0), ("mixup", 0.0)])
def test_strengths_have_limits(name: str, strength: float) -> None:
    with pytest.raises(UraenasError, match=r"strength = .* is out of range"):
        made(name, strength=strength)


def test_cutout_blackens_a_square() -> None:
    images = images_of(200)
    changed, _ = augmented(made("cutout", strength=0.5), images, torch.arange(200), KEY)
    cut = (changed == 0).all(dim=3)
    assert torch.equal(changed[~cut], images[~cut])
    whole = 0
    for image in cut:
        rows, columns = image.any(dim=1), image.any(dim=0)
        assert torch.equal(image, rows[:, None] & columns)
        assert 4 <= rows.sum() <= 8
        assert 4 <= columns.sum() <= 8
        whole += int(image.sum() == 64)
    assert 30 < whole < 120  # (9 / 16)² of 200 do not reach over an edge: 63


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("name", CHANGING)
def test_a_gpu_gives_what_a_cpu_gives_and_never_waits(name: str) -> None:
    """But for roundings: of a value that lies between two, and of a box's side."""
    images, part = images_of(400, 32, 32), made(name)
    labels = labels_for(part, 400)
    expected, _ = augmented(part, images, labels, KEY)
    there = [tensor.cuda() for tensor in (images, labels, KEY)]
    torch.cuda.set_sync_debug_mode("error")
    try:
        changed, _ = augmented(part, *there)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    apart = (changed.cpu().int() - expected.int()).abs()
    assert (apart > 0).float().mean() < 0.01
    assert (apart > 1).float().mean() < 0.002


# Mixed images


@pytest.mark.parametrize("name", MIXING)
@pytest.mark.parametrize("strength", [0.05, 1.0, 20.0])
def test_labels_are_mixed_as_pixels_are(name: str, strength: float) -> None:
    """Image n is of one colour and class n alone, so that both tell which two are mixed, and how much of each."""
    count = 50
    colour = (5 * torch.arange(count)).to(torch.uint8)
    images = colour.view(-1, 1, 1, 1).expand(count, 16, 16, 1)
    changed, labels = augmented(made(name, strength=strength), images, torch.eye(count), KEY)
    torch.testing.assert_close(labels.sum(dim=1), torch.ones(count))
    assert (labels > 0).sum(dim=1).max() <= 2
    mean = changed.float().mean(dim=(1, 2, 3))
    torch.testing.assert_close(mean, labels @ colour.float(), atol=0.51, rtol=0)
    if name == "cutmix":
        present = torch.stack([(changed == c).float().mean(dim=(1, 2, 3)) for c in colour], dim=1)
        torch.testing.assert_close(present, labels, atol=1e-6, rtol=0)


def test_shares_of_mixup_are_beta_distributed() -> None:
    count, strength = 4000, 0.5
    images = torch.zeros(count, 8, 8, 1, dtype=torch.uint8)
    images[: count // 2] = 255
    labels = F.one_hot((torch.arange(count) < count // 2).long(), 2).float()
    _, mixed = augmented(made("mixup", strength=strength), images, labels, KEY)
    # Half of the partners are of the other class; the own share has mean 1/2 and variance 1 / (4 (2s + 1)).
    share = mixed[torch.arange(count), labels.argmax(dim=1)]
    across = share[share < 1]
    assert len(across) == pytest.approx(count / 2, rel=0.1)
    assert across.mean() == pytest.approx(0.5, abs=0.04)
    assert across.var() == pytest.approx(1 / (4 * (2 * strength + 1)), rel=0.08)


# Filters, curves, displacements


def test_filters_keep_the_brightness_of_a_single_colour_and_curves_keep_black_and_white() -> None:
    keys = draws.at(KEY, torch.arange(20))
    flat = torch.full((20, 3, 12, 12), 90.0)
    torch.testing.assert_close(convolve(flat, keys, torch.full((20,), 3.0)), flat, atol=1e-2, rtol=0)
    ends = torch.zeros(20, 3, 12, 12)
    ends[..., 6:] = 255
    assert torch.equal(recolour(ends, keys, torch.full((20,), 0.3)), ends)


def test_a_filter_is_a_convolution_and_noise_has_its_deviation() -> None:
    keys = draws.at(KEY, torch.arange(2000))
    dot = torch.zeros(2000, 1, 9, 9)
    dot[..., 4, 4] = 1
    noise = convolve(dot, keys, torch.full((2000,), 0.7)) - dot
    assert (noise[:, 0, 2:7, 2:7].abs() > 0).any(dim=0).all()
    assert noise.abs().sum(dim=(0, 1))[:2].max() == 0
    squares = noise.square().sum(dim=(1, 2, 3))  # σ²·(1 - 1/k²), as the noise adds up to 0
    assert squares.mean() == pytest.approx(0.49 * (1 - (1 / 9 + 1 / 25) / 2), rel=0.05)
    torch.testing.assert_close(noise.sum(dim=(1, 2, 3)), torch.zeros(2000), atol=1e-5, rtol=0)


def test_displacements_have_their_deviation_and_keep_the_edges() -> None:
    keys = draws.at(KEY, torch.arange(1500))
    slope = ((torch.arange(32) + 0.5) / 32).expand(1500, 1, 32, 32)
    moved = displace(slope, keys, torch.full((1500,), 0.02)) - slope
    assert moved.square().mean().sqrt() == pytest.approx(0.02, rel=0.05)
    assert moved[..., 0].abs().max() < 0.03


def test_curves_and_displacements_are_sums_of_waves_with_their_weights() -> None:
    """By their sine transforms: σ²·2/K for each wave of a curve, σ²·4/(i² + j²) over the sum of 1/(i² + j²)."""
    keys, wave = draws.at(KEY, torch.arange(1500)), torch.arange(1, 10.0)[:, None]
    values = torch.arange(256.0).expand(1500, 1, 1, 256)
    bent = (recolour(values, keys, torch.full((1500,), 0.03)) - values)[:, 0, 0] / 255
    found = (bent @ torch.sin(torch.pi * wave * values[0, 0, 0] / 255).T * 2 / 255).var(dim=0)
    torch.testing.assert_close(found[:8], torch.full((8,), 0.03**2 * 2 / 8), rtol=0.15, atol=0)
    assert found[8] < 1e-6
    place = (torch.arange(32) + 0.5) / 32
    ramps = torch.stack([place.expand(32, 32), place.expand(32, 32).T])
    moved, down = (displace(ramps.expand(1500, 2, 32, 32), keys, torch.full((1500,), 0.01)) - ramps).unbind(1)
    assert (moved * down).mean().abs() < 0.05 * moved.square().mean()  # right says nothing of down
    waves = torch.sin(torch.pi * wave[:4] * place)
    found = (4 / 32**2 * torch.einsum("nyx,iy,jx->nij", moved, waves, waves)).var(dim=0)
    share = 1 / (wave[:4] ** 2 + wave[:4].T ** 2)
    torch.testing.assert_close(found, 0.01**2 * 4 * share / share.sum(), rtol=0.15, atol=0)


# Operations


def test_a_mixture_is_of_three_chains_of_one_to_three_operations_and_the_image() -> None:
    """Where each adds 1: m Σ w d has the mean ½ · 2, and its square ⅓ (2² + Σ E[w²] Var d), E[w²] = 1/6, Var d = ⅔."""
    keys = draws.at(KEY, torch.arange(20_000))
    added = mixed(torch.zeros(20_000, 1, 1, 1), keys, lambda images, keys: images + 1)
    assert added.mean() == pytest.approx(1, rel=0.02)
    assert added.square().mean() == pytest.approx((4 + 1 / 3) / 3, rel=0.03)
    assert 0 < added.min() < added.max() < 3


@pytest.mark.parametrize(
    ("name", "strength", "count", "most", "least"),
    [("trivial", 0.5, 10, 0.5, 0.0), ("augmix", 4.0, 9, 0.4, 0.01)],
)
def test_operations_are_equally_likely_and_their_strengths_uniform(
    name: str, strength: float, count: int, most: float, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TrivialAugment has one more, which changes nothing, and whole thirtieths of its strength."""
    drawn = []

    def operate(images: Tensor, which: Tensor, how_far: Tensor, sign: Tensor, ranges: Any) -> Tensor:
        drawn.append(torch.stack([which.double(), how_far.double(), sign.double()]))
        return images

    monkeypatch.setattr(operating, "operate", operate)
    here = AUGMENTATIONS[name].make({"strength": strength})
    here(torch.zeros(4000, 4, 4, 3, dtype=torch.uint8), torch.zeros(4000), KEY, slice(0, 4000))
    for which, how_far, sign in drawn:
        shares = torch.bincount(which.long()) / 4000
        torch.testing.assert_close(shares, torch.full((count,), 1 / count), rtol=0, atol=0.025)
        assert float(how_far.min()) == pytest.approx(least, abs=0.01 * most)
        assert float(how_far.max()) == pytest.approx(most, rel=0.01)
        assert float(how_far.mean()) == pytest.approx((least + most) / 2, rel=0.05)
        if name == "trivial":
            torch.testing.assert_close(how_far * 30 / most, (how_far * 30 / most).round(), rtol=0, atol=1e-5)
        apart = torch.corrcoef(torch.stack([which, how_far, sign])) - torch.eye(3)
        assert apart.abs().max() < 0.07
        assert set(sign.tolist()) == {-1, 1}
    assert len(drawn) == (1 if name == "trivial" else 9)


# On the device of a loader


def part_of(images: Tensor) -> LabelledImages:
    return LabelledImages(images.numpy().copy(), np.arange(len(images)) % 4)


def loader_of(
    part: LabelledImages, names: str = "", padding: int = 2, dtype: torch.dtype = torch.float32
) -> Loader:
    several = [made(name) for name in names.split()]
    plain = Normalisation((0.0,) * 3, (1.0,) * 3)
    return Loader(part, plain, 8, padding, True, CPU, dtype, several, classes=4)


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("name", CHANGING)
def test_a_loader_is_refilled_in_place_from_its_originals(name: str, padding: int) -> None:
    images = images_of()
    loader = loader_of(part_of(images), name, padding, torch.float64)
    before = [tensor.data_ptr() for tensor in (loader.images, loader.windows, loader.labels)]
    for epoch in (0, 1, 0):
        loader.augment(5, epoch)
        part = made(name)
        expected, labels = augmented(part, images, labels_for(part, 40), draws.at(5, epoch))
        padded = F.pad(expected, (0, 0, *[padding] * 4))
        assert torch.equal(loader.images, padded)
        torch.testing.assert_close(loader.labels, labels.double() if part.mixes else labels)
    assert before == [tensor.data_ptr() for tensor in (loader.images, loader.windows, loader.labels)]
    _, labels, weights = loader.batch_at(loader.draw([1, 2], 0), 1)
    assert labels.shape == ((2, 8, 4) if part.mixes else (2, 8))
    assert weights is None


def test_without_augmentation_nothing_changes() -> None:
    part = part_of(images_of())
    plain, none = loader_of(part), loader_of(part, "none")
    for loader in (plain, none):
        place, before = loader.images.data_ptr(), loader.images.clone()
        loader.augment(5, 0)
        assert loader.images.data_ptr() == place
        assert torch.equal(loader.images, before)
        assert not hasattr(loader, "originals")
        assert loader.labels.dtype == torch.int64


@pytest.mark.parametrize("names", ["none cutout", "trivial none primitives", "cutout mixup"])
def test_several_augmentations_lie_side_by_side_and_a_member_may_keep_to_one(names: str) -> None:
    images, count = images_of(), 40
    loader = loader_of(part_of(images), names, padding=0)
    loader.augment(5, 1)
    mixed = "mixup" in names
    for kind, name in enumerate(names.split()):
        part = made(name)
        labels = torch.arange(count) % 4
        given = F.one_hot(labels, 4).float() if mixed else labels
        expected, labels = augmented(part, images, given, draws.at(5, 1))
        own = slice(kind * count, (kind + 1) * count)
        assert torch.equal(loader.images[own], expected)
        torch.testing.assert_close(loader.labels[own], labels)

    several = len(names.split())
    drawn = loader.draw([1, 2, 1], 0, [None, 1, 0])
    by_chance, second, first = drawn.order
    assert set((by_chance // count).flatten().tolist()) == set(range(several))
    assert torch.equal(by_chance % count, first)  # the same images, whatever becomes of them
    assert set((second // count).flatten().tolist()) == {1}
    assert len(second.unique()) == second.numel()
    shape = (3, 8, 4) if mixed else (3, 8)
    assert loader.batch_at(drawn, 1)[1].shape == shape


@pytest.mark.parametrize("name", MIXING)
def test_weights_are_mixed_with_the_labels(name: str) -> None:
    """The loss of a mixed image is the mixture of both losses, each with its own weight."""
    weights = np.linspace(0.5, 2, 40, dtype=np.float32)
    loader = loader_of(replace(part_of(images_of()), weights=weights), name)
    assert loader.weights is None
    loader.augment(5, 0)
    own = F.one_hot(torch.arange(40) % 4, 4) * torch.from_numpy(weights / weights.mean())[:, None]
    _, expected = augmented(made(name), images_of(), own, draws.at(5, 0))
    torch.testing.assert_close(loader.labels, expected)


def test_floats_are_refused_in_one_line() -> None:
    part = LabelledImages(np.random.default_rng(0).random((8, 8, 8, 3), np.float32), np.arange(8) % 4)
    with pytest.raises(UraenasError, match="these are float32; give whole numbers"):
        loader_of(part, "cutout")
    loader_of(part, "none")
