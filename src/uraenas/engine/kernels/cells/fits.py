"""Whether networks of a cell space can run on these kernels."""

from uraenas.engine.kernels.cells.rows import IMAGE_CHANNELS
from uraenas.engine.kernels.cells.tuning import CHANNELS
from uraenas.spaces import CellSpace

KERNELS = (1, 3)  # sizes of convolutions


def why_not(space: CellSpace) -> str:
    """Why these networks do not fit; empty if they do."""
    shape = space.shape
    if space.channels not in CHANNELS:
        return f"they take {' or '.join(map(str, CHANNELS))} channels, not {space.channels}"
    if space.skeleton.halvings:
        return f"their stem does not halve images, and images of {shape.height} × {shape.width} are halved"
    if any(side % 4 or side < 8 for side in (shape.height, shape.width)):
        return f"they take sides that are multiples of 4 from 8 up, not {shape.height} × {shape.width}"
    if shape.channels > IMAGE_CHANNELS:
        return f"they take at most {IMAGE_CHANNELS} image channels, not {shape.channels}"
    if other := [name for name, kernel in space.cell.convolutions.items() if kernel not in KERNELS]:
        return f"they have no {', '.join(other)}"
    return ""
