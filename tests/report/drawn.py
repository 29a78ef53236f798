"""Where a figure draws its values, read off its axes as a reader would."""

import re
import xml.etree.ElementTree as ElementTree
from functools import cached_property

import numpy as np
import pytest
from reading_html import unpacked

OFF = 0.08  # pixels, which are rounded to tenths
LETTERS = {"": 1.0, " k": 1e3, " M": 1e6, " G": 1e9}


class Drawn:
    """A figure of a page, its parts by class."""

    def __init__(self, html: str, name: str) -> None:
        (svg,) = re.findall(rf'<svg[^>]* data-name="{re.escape(name)}".*?</svg>', unpacked(html), re.DOTALL)
        self.svg = ElementTree.fromstring(svg)

    def groups(self, class_: str) -> list[ElementTree.Element]:
        return [one for one in self.svg.iter("g") if class_ in (one.get("class") or "").split()]

    @cached_property
    def across(self) -> "Scale":
        """Of the labels in a row beneath."""
        return Scale({at(one, "x"): one.text or "" for one in self._ticks("middle")})

    @cached_property
    def up(self) -> "Scale":
        """Of the labels in a column at the left; they lie 4 pixels below their line."""
        return Scale({at(one, "y") - 4: one.text or "" for one in self._ticks("end")})

    def _ticks(self, anchor: str) -> list[ElementTree.Element]:
        every = (one for one in self.svg.iter("text") if one.get("class") == "tick")
        return [
            one for one in every if one.get("text-anchor") == anchor and number(one.text or "") is not None
        ]


class Scale:
    """From pixels to values, linear or in logarithms as its ticks are."""

    def __init__(self, ticks: dict[float, str]) -> None:
        places, values = list(ticks), [number(words) or 0.0 for words in ticks.values()]
        line = np.polyfit(places, values, 1)
        self.log = not np.allclose(np.polyval(line, places), values, atol=OFF * abs(line[0]))
        self.line = np.polyfit(places, np.log10(values), 1) if self.log else line

    def holds(self, place: float, value: float) -> bool:
        """Whether what is drawn here is read as this value."""
        wanted = np.log10(value) if self.log else value
        return np.polyval(self.line, place) == pytest.approx(wanted, abs=2 * OFF * abs(self.line[0]))


def number(words: str) -> float | None:
    found = re.fullmatch(r"([+−]?[\d.,]+)( [kMG])?", words)
    return found and float(found[1].replace("−", "-").replace(",", "")) * LETTERS[found[2] or ""]


def at(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name) or "nan")


def middle(mark: ElementTree.Element) -> tuple[float, float]:
    """Of a circle, or of a path's width and height."""
    if mark.tag == "circle":
        return at(mark, "cx"), at(mark, "cy")
    xs, ys = zip(*points(mark), strict=True)
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


def points(path: ElementTree.Element) -> list[tuple[float, float]]:
    """The corners of a path."""
    x = y = 0.0
    found = []
    for command, words in re.findall(r"([MLlhvmz])([^A-Za-z]*)", path.get("d") or ""):
        numbers = [float(one) for one in re.findall(r"-?[\d.]+", words)]
        if command in "ML":
            x, y = numbers
        elif command in "lm":
            x, y = x + numbers[0], y + numbers[1]
        elif command == "h":
            x += numbers[0]
        elif command == "v":
            y += numbers[0]
        found.append((x, y))
    return found
