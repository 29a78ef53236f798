"""How convolutions are cut into programs, by their channels; what measured best, see docs/performance.md."""

from dataclasses import dataclass

# Of the first stage. Wider products spill out of a program's registers, others are no power of two or too small.
CHANNELS = (16, 32)


@dataclass(frozen=True)
class Grouping:
    """How many neighbouring pixels a row of a convolution's product holds, and how many source pixels it reads."""

    group: int
    span: int

    def steps(self, reach: int) -> int:
        """Products that make up a convolution of reach × reach taps."""
        return reach * ((self.group + reach - 1) // self.span)


@dataclass(frozen=True)
class Tuning:
    """Groups in a block, warps of a program, loads in flight, and (input gradients only) blocks of a program."""

    block: int
    warps: int
    stages: int
    run: int = 1


GROUPINGS = {  # by kernel and output channels
    ("convolve", 16): Grouping(2, 4),
    ("input_gradient", 16): Grouping(2, 4),
    ("weight_gradient", 16): Grouping(2, 4),
    ("input_gradient", 32): Grouping(2, 2),
    ("weight_gradient", 32): Grouping(2, 2),
}
TUNINGS = {  # by kernel and channels
    ("convolve", 16): Tuning(64, 4, 2),
    ("convolve", 32): Tuning(128, 4, 2),
    ("convolve", 64): Tuning(128, 4, 2),
    ("input_gradient", 16): Tuning(64, 4, 1),
    ("input_gradient", 32): Tuning(64, 4, 2),
    ("input_gradient", 64): Tuning(64, 4, 2),
    ("weight_gradient", 16): Tuning(128, 4, 1),
    ("weight_gradient", 32): Tuning(64, 4, 2),
    ("weight_gradient", 64): Tuning(128, 4, 2),
    ("convolve", 128): Tuning(64, 4, 2),
    ("input_gradient", 128): Tuning(64, 4, 2),
    ("weight_gradient", 128): Tuning(64, 4, 2),
}
OTHERWISE = Tuning(64, 8, 1)


def grouping(kernel: str, outputs: int, stride: int, of_images: bool = False) -> Grouping:
    """Narrow maps are convolved two pixels at a time; see `convolutions.py`.

    Images have so few channels that a product over one pixel's would be too small for the matrix units.
    """
    if stride != 1:
        return Grouping(1, 1)
    return GROUPINGS.get((kernel, outputs), Grouping(2, 4) if of_images else Grouping(1, 1))


def tuned(kernel: str, channels: int) -> Tuning:
    return TUNINGS.get((kernel, channels), OTHERWISE)
