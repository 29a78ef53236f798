"""Where the architectures of a method's members come from. A source is a row of SOURCES."""

from dataclasses import dataclass
from typing import Any, Protocol

from uraenas.architectures import Dirichlet, Searched
from uraenas.base import draws
from uraenas.base.errors import UraenasError, require_range
from uraenas.base.parts import Part
from uraenas.spaces import Architecture, Space, require_valid


class Source(Protocol):
    """A frozen dataclass whose fields are the settings `train.<name>.…`."""

    @property
    def needs_search(self) -> bool: ...

    @property
    def start(self) -> str:
        """A run whose members take the place of its draws, with their weights; or none."""

    def check(self, space: Space) -> None:
        """Refuse settings that do not fit the space."""

    @property
    def candidates(self) -> int:
        """How many chains members are chosen from, where they are chosen by held-out NLL; 0: it does not say."""

    def chains(self, needed: int, members: int) -> int:
        """How many to train where they are not, and `needed` chains give enough members."""

    def numbers(self, count: int, most: int) -> list[int]:
        """Which of the `most` chains that a method may have these are; a number has one architecture in all methods."""

    def draw(
        self, space: Space, searched: Searched | None, count: int, seed: int
    ) -> tuple[list[Architecture], int]:
        """So many, and how many draws were thrown away because they are no networks."""


@dataclass(frozen=True)
class Expected:
    """The one architecture that stands for the learned distribution, or one that is given."""

    genotype: str = ""  # takes the place of the expected architecture, which then need not be searched for

    start, candidates = "", 0

    @property
    def needs_search(self) -> bool:
        return not self.genotype

    def check(self, space: Space) -> None:
        if self.genotype:
            require_valid(space, space.parse(self.genotype))

    def chains(self, needed: int, members: int) -> int:
        return needed

    def numbers(self, count: int, most: int) -> list[int]:
        return list(range(count))

    def draw(
        self, space: Space, searched: Searched | None, count: int, seed: int
    ) -> tuple[list[Architecture], int]:
        if self.genotype:
            return [space.parse(self.genotype)] * count, 0
        expected = _found(searched).expected
        if not space.is_valid(expected):
            raise UraenasError(
                f"the search's expected architecture {expected} cuts the input off from the output; "
                "search longer or with another seed"
            )
        return [expected] * count, 0


@dataclass(frozen=True)
class Sampled:
    """Architectures drawn from the learned distribution."""

    # M_θ, copies counted; as many as members at most, unless these are chosen by held-out NLL
    architectures: int = 10
    temperature: float = 1.0  # T_θ: below 1 draws lie closer to the expected architecture
    draw_none: bool = True  # whether the option that leaves a decision out may be drawn
    # a run, or one of the package (cifar10-small), whose members are the draws and give their weights
    start: str = ""
    copies: int = 1  # chains of each architecture; two tell what it does from what initialisation does

    needs_search = True

    def __post_init__(self) -> None:
        require_range("architectures", self.architectures, 1, 1000)
        require_range("temperature", self.temperature, 1e-3, 1e3)
        require_range("copies", self.copies, 1, 1000)

    def check(self, space: Space) -> None:
        """Nothing depends on the space."""

    @property
    def candidates(self) -> int:
        return self.architectures

    def chains(self, needed: int, members: int) -> int:
        return max(min(self.architectures, members), needed)

    def numbers(self, count: int, most: int) -> list[int]:
        """First each architecture once, then each again: as far on as if each of the `most` were there."""
        distinct, apart = -(-count // self.copies), -(-most // self.copies)
        return [n // distinct * apart + n % distinct for n in range(count)]

    def draw(
        self, space: Space, searched: Searched | None, count: int, seed: int
    ) -> tuple[list[Architecture], int]:
        key, distinct = draws.key(seed, "sampled"), -(-count // self.copies)
        drawn, redrawn = _found(searched).draw(distinct, key, self.temperature, self.draw_none)
        return [drawn[n % distinct] for n in range(count)], redrawn


@dataclass(frozen=True)
class Uniform:
    """Architectures drawn at random, every option of every decision equally likely."""

    draw_none: bool = True  # whether the option that leaves a decision out may be drawn

    needs_search = False
    start, candidates = "", 0

    def check(self, space: Space) -> None:
        """Nothing depends on the space."""

    def chains(self, needed: int, members: int) -> int:
        return needed

    def numbers(self, count: int, most: int) -> list[int]:
        return list(range(count))

    def draw(
        self, space: Space, searched: Searched | None, count: int, seed: int
    ) -> tuple[list[Architecture], int]:
        nothing = Searched.nothing(space, Dirichlet())
        return nothing.draw(count, draws.key(seed, "uniform"), draw_absent=self.draw_none)


SOURCES: dict[str, Part[Any]] = {
    "expected": Part(Expected),
    "sampled": Part(Sampled),
    "uniform": Part(Uniform),
}


def _found(searched: Searched | None) -> Searched:
    if searched is None:
        raise UraenasError("this method needs a search first")
    return searched
