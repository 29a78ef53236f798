"""The colours of methods can be told apart, by everyone: CIEDE2000 under simulated colour blindness."""

import itertools
import re
from importlib import resources

import numpy as np
import pytest

from uraenas.evaluation import CLASSIFIERS, REGRESSORS
from uraenas.report.style import colour, colours_of

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
SIGHT = {
    "everyone": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colour: str, sight: np.ndarray) -> np.ndarray:
    values = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    x = XYZ @ np.clip(np.asarray(sight) @ linear, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    chroma = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(chroma**7 / (chroma**7 + 25.0**7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180
    c, h = (c1 + c2) / 2, (h1 + h2) / 2 + (180 if abs(h1 - h2) > 180 else 0)
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    t = 1 + sum(size * np.cos(np.radians(times * h + shift)) for size, times, shift in waves)
    middle = ((l1 + l2) / 2 - 50) ** 2
    light = (l2 - l1) / (1 + 0.015 * middle / np.sqrt(20 + middle))
    strength = (c2 - c1) / (1 + 0.045 * c)
    hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn) / 2) / (1 + 0.015 * c * t)
    mixed = -2 * np.sqrt(c**7 / (c**7 + 25.0**7)) * np.sin(np.radians(60 * np.exp(-(((h - 275) / 25) ** 2))))
    return float(np.sqrt(light**2 + strength**2 + hue**2 + mixed * strength * hue))


def test_the_distance_is_that_of_the_standard() -> None:
    """Two pairs of the published test data (Sharma, Wu and Dalal, 2005)."""
    assert distance(np.array([50, 2.6772, -79.7751]), np.array([50, 0, -82.7485])) == pytest.approx(
        2.0425, abs=1e-4
    )
    assert distance(np.array([50, 2.5, 0]), np.array([73, 25, -18])) == pytest.approx(27.1492, abs=1e-4)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_methods_can_be_told_apart(sight: str, scheme: int) -> None:
    css = resources.files("uraenas.report").joinpath("page.css").read_text(encoding="utf-8")
    found = re.findall(r"\.s\d { --c: light-dark\((#\w{6}), (#\w{6})\)", css)
    assert len(found) == 8 + len(CLASSIFIERS)
    seen = [lab(colours[scheme], np.asarray(SIGHT[sight])) for colours in found]
    assert min(distance(a, b) for a, b in itertools.combinations(seen, 2)) > 10
    assert distance(*seen[8:]) > 40, "references stand beside each other, as small swatches"


@pytest.mark.parametrize("references", [CLASSIFIERS, REGRESSORS], ids=["classes", "numbers"])
def test_references_share_no_colour_with_each_other_or_a_method(references: dict[str, str]) -> None:
    eight = (
        "uraenas",
        "deep-ensemble",
        "uraenas-a",
        "uraenas-w",
        "random-ensemble",
        "snapshot",
        "drnas",
        "joint",
    )
    with colours_of((*eight, *references)):
        assert len({colour(name) for name in (*eight, *references)}) == 10
