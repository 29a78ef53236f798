"""Words from outside, such as names of files and classes, made harmless where they are shown; and numbers as words."""

import math
import re
import unicodedata
from collections.abc import Iterable

IN_UNITS = ("rmse", "mae", "crps", "width")  # metrics in the unit of a target, which may be large or small


def printable(text: str) -> str:
    """The text with control characters, marks of direction and bytes that are not UTF-8 written as escapes."""
    if text.isprintable():
        return text
    return "".join(
        one
        if one.isprintable() or unicodedata.category(one) == "Zs"
        else one.encode("unicode_escape", "surrogatepass").decode()
        for one in text
    )


def listed(names: Iterable[str]) -> str:
    """Names in a row; one that has a comma itself is quoted."""
    return ", ".join(f'"{name}"' if "," in name else name for name in names)


def names_in(text: str) -> tuple[str, ...]:
    """The names that stand in a text with commas between them; one that has a comma itself is quoted, as `listed`."""
    names = (quoted or plain.strip() for quoted, plain in re.findall(r'\s*"([^"]*)"\s*|([^,]+)', text))
    return tuple(name for name in names if name)


def csv_cell(value: object) -> object:
    """A cell of a CSV file, of a list the texts in it; what a spreadsheet would take for a formula is quoted.

    Numbers and signs alone are none: classes that are called -1 and + stay so.
    """
    if not isinstance(value, str | list):
        return value
    parts: list[str] = value if isinstance(value, list) else [value]
    text = printable(" | ".join(parts))
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) and not all(map(_is_harmless, parts)) else text


def _is_harmless(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return text.strip("+-") == ""


def three_decimals(metric: str, value: float, sign: str = "") -> str:
    """A value of a metric; one in the unit of a target with three digits where decimals would be zeros or too many."""
    in_units = metric.rpartition(".")[2].startswith(IN_UNITS)
    plain = not in_units or value == 0 or 0.1 <= abs(value) < 1e6
    return f"{value:{sign}.3f}" if plain else f"{value:{sign}#.3g}"


def as_precise(value: float, deviation: float) -> str:
    """A number with as many decimals as its deviation has with three digits: 20,000 ± 1.26 is not 2e+04."""
    if not math.isfinite(value) or not 1e-4 <= deviation < 1e9 or abs(value) >= 1e15:
        return f"{value:.4g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(deviation)))}f}"
