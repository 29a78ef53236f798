"""A space of nothing but decisions."""

from collections.abc import Sequence
from dataclasses import dataclass

from uraenas.spaces import Decision


@dataclass(frozen=True)
class Choices:
    """A space of nothing but decisions; its architectures are what was chosen, and none is without effect."""

    options: tuple[int, ...]
    name: str = "choices"

    @property
    def decisions(self) -> list[Decision]:
        return [
            Decision(str(d), tuple(f"{d}{o}" for o in range(count)), 0)
            for d, count in enumerate(self.options)
        ]

    def architecture(self, indices: Sequence[int]) -> tuple[str, ...]:
        return tuple(d.options[index] for d, index in zip(self.decisions, indices, strict=True))

    def is_valid(self, architecture: tuple[str, ...]) -> bool:
        return True
