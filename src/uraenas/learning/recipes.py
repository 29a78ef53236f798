"""How the chains of a method are trained: all alike, or each with a recipe of its own. A way is a row of RECIPES."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from uraenas.architectures import Searched, factors, queried
from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.base.parts import Part
from uraenas.spaces import Architecture
from uraenas.weights import WeightMethod


@dataclass(frozen=True)
class Recipe:
    """What is special about one chain."""

    step_size: float = 1.0  # times that of its kind of weights
    prior_deviation: float = 1.0  # times that of all chains
    peak: float = 1.0  # times the step sizes of the sampling stage, besides
    smoothing: float = 0.0  # share of each label that is spread over all classes
    # Which one, as a share of the way through them; None: each image its own.
    augmentation: float | None = None

    def kind(self, kinds: int) -> int | None:
        """Which of so many augmentations all of its images go through, if it is one."""
        return None if self.augmentation is None else int(self.augmentation * kinds)


def recipe_of(found: factors.Factors) -> Recipe:
    """The one that a search has asked for."""
    return Recipe(**dict(zip(factors.NAMES, found, strict=True)))


def factors_of(recipe: Recipe) -> factors.Factors:
    """Those that a search can ask for."""
    return tuple(getattr(recipe, name) for name in factors.NAMES)


class Recipes(Protocol):
    """A frozen dataclass whose fields are the settings `train.<name>.…`."""

    from_search: ClassVar[bool]  # whether they are those of the search, which then has to ask for some

    def check(self, weights: WeightMethod, epochs: int) -> None:
        """Refuse what does not suit the kind of weights."""

    def draw(self, chains: Mapping[int, Architecture], key: int, searched: Searched | None) -> list[Recipe]:
        """One for each chain, of these numbers and architectures."""


@dataclass(frozen=True)
class Same:
    """All chains alike."""

    from_search: ClassVar[bool] = False

    def check(self, weights: WeightMethod, epochs: int) -> None:
        """All kinds of weights will do."""

    def draw(self, chains: Mapping[int, Architecture], key: int, searched: Searched | None) -> list[Recipe]:
        return [Recipe()] * len(chains)


@dataclass(frozen=True)
class Varied:
    """Each chain its own: factors are log-uniform, smoothing is uniform, augmentation is one of those there are."""

    step_size: tuple[float, ...] = (0.5, 2.0)  # bounds of a factor of the step size
    prior_deviation: tuple[float, ...] = (0.5, 2.0)  # bounds of a factor of the prior's deviation
    # bounds of a factor of the step sizes of the sampling stage, besides
    peak: tuple[float, ...] = (1.0, 1.0)
    # bounds of the share of a label that is spread over all classes
    smoothing: tuple[float, ...] = (0.0, 0.01)
    augmentation: bool = True  # off: each image goes through one of them, by chance

    from_search: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("step_size", "prior_deviation", "peak"):
            factors.require_bounds(name, getattr(self, name))
        factors.require_bounds("smoothing", self.smoothing, 0, 0.9)

    def check(self, weights: WeightMethod, epochs: int) -> None:
        """Only kinds that sample have a peak."""
        cycle = weights.cycle(epochs, 1)
        if self.peak != (1.0, 1.0) and not cycle.samples_at(cycle.steps - 1):
            raise UraenasError(
                f"peak = {self.peak} is out of range; {weights.section} has no sampling stage, and takes 1,1"
            )

    def draw(self, chains: Mapping[int, Architecture], key: int, searched: Searched | None) -> list[Recipe]:
        found = []
        for number in chains:
            own = draws.at(key, number)
            first, second, third = draws.uniform(own, 3).tolist()
            step_size = factors.between(self.step_size, first)
            deviation = factors.between(self.prior_deviation, second)
            low, high = self.smoothing
            kind = draws.uniform(draws.at(own, 1), 1).item() if self.augmentation else None
            peak = factors.between(self.peak, draws.uniform(draws.at(own, 2), 1).item())
            found.append(Recipe(step_size, deviation, peak, low + (high - low) * third, kind))
        return found


@dataclass(frozen=True)
class Learned:
    """Each chain the best recipe that the search has trained its architecture by; a stranger, the best of all."""

    from_search: ClassVar[bool] = True

    def check(self, weights: WeightMethod, epochs: int) -> None:
        """All kinds of weights will do."""

    def draw(self, chains: Mapping[int, Architecture], key: int, searched: Searched | None) -> list[Recipe]:
        if searched is None or not len(searched.state.get("recipes", ())):
            raise UraenasError("this method needs a search that asks for recipes first")
        asked, recipes = queried.asked(searched.state), searched.state["recipes"].tolist()
        known: dict[str, Recipe] = {}
        for place in queried.best_first(searched.state):
            known.setdefault(str(searched.space.architecture(asked[place])), recipe_of(recipes[place]))
        best = next(iter(known.values()))
        return [known.get(str(one), best) for one in chains.values()]


RECIPES: dict[str, Part[Any]] = {"same": Part(Same), "varied": Part(Varied), "learned": Part(Learned)}
