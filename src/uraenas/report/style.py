"""How methods and values look: the same in every figure."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from uraenas.base.svg import MARKS
from uraenas.base.words import three_decimals
from uraenas.evaluation import CLASSIFIERS, REGRESSORS
from uraenas.learning.methods import METHODS

# The colours of the slots are in page.css. These methods keep theirs whatever else is on the page.
_ORDER = ("uraenas", "deep-ensemble", "uraenas-a", "uraenas-w", "random-ensemble", "snapshot", "drnas")
_HOMES = {name: place % 8 for place, name in enumerate(dict.fromkeys((*_ORDER, *METHODS)))}
# They stand beside every method; those of classes never beside those of numbers.
_REFERENCE_SLOTS = {name: 8 + place for own in (CLASSIFIERS, REGRESSORS) for place, name in enumerate(own)}
_SLOTS: ContextVar[dict[str, int]] = ContextVar("slots", default=_HOMES)

METRIC_NAMES = {
    "accuracy": "Accuracy",
    "ece": "ECE",
    "nll": "NLL",
    "brier": "Brier score",
    "aurc": "AURC",
    "adaptive_ece": "Adaptive ECE",
    "disagreement": "Disagreement",
    "rmse": "RMSE",
    "mae": "MAE",
    "crps": "CRPS",
}
LARGER_IS_BETTER = {"accuracy"}


@contextmanager
def colours_of(methods: Iterable[str]) -> Iterator[None]:
    """While a page of these methods is made, no two of them share a colour, unless they are more than eight.

    References have their own.
    """
    names = [name for name in dict.fromkeys(methods) if name not in _REFERENCE_SLOTS]
    taken: dict[str, int] = {name: _HOMES[name] for name in _ORDER if name in names}
    for name in names:
        if name not in taken:
            free = [slot for slot in range(8) if slot not in taken.values()]
            home = _HOMES.get(name, 7)
            taken[name] = home if home in free or not free else free[-1]
    token = _SLOTS.set(taken)
    try:
        yield
    finally:
        _SLOTS.reset(token)


def slot(method: str) -> int:
    """Which of the page's colours is this method's."""
    return _REFERENCE_SLOTS.get(method, _SLOTS.get().get(method, 7))


def colour(of: str | int) -> str:
    """The class that gives a group the colour of a method, or of a slot."""
    return f"s{slot(of) if isinstance(of, str) else of % 8}"


def marker(of: str | int) -> str:
    return MARKS[(slot(of) if isinstance(of, str) else of) % len(MARKS)]


def show(metric: str, value: float) -> str:
    """A value of this metric as the tables print it."""
    return f"{100 * value:.2f} %" if metric == "accuracy" else three_decimals(metric, value)


def of_one_seed(verdict: str) -> str:
    """The mark of a difference that another seed may turn round."""
    return f"{verdict} one-seed" if verdict else ""


def direction(metric: str) -> str:
    return "higher is better" if metric in LARGER_IS_BETTER else "lower is better"


def count(number: int, noun: str) -> str:
    """`1 member`, `1,000 members`, `5 severities`."""
    several = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else several}"


def shortened(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)
