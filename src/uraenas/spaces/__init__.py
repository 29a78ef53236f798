"""Which networks exist. A space is a row of SPACES; `space.py` says what it must offer."""

from collections.abc import Mapping
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.base.parts import Part, row_of
from uraenas.spaces.cells import NASBENCH201, CellSpace, Genotype
from uraenas.spaces.layout import Entry, Layout, Tensors
from uraenas.spaces.networks import Forward, Stack, Supernet
from uraenas.spaces.space import (
    Architecture,
    Cost,
    Decision,
    Features,
    Shape,
    Space,
    architecture_count,
    facts_of,
    option_counts,
    require_valid,
    shape_of,
)

SPACES: dict[str, Part[Any]] = {
    "nasbench201": Part(
        CellSpace,
        about="NAS-Bench-201: a cell of four nodes and five operations, 15,625 genotypes.",
        name="nasbench201",
        nodes=4,
        operations=NASBENCH201,
    ),
}

FORMERLY = {"halvings": 0}  # what a space has that was stored before there was such a setting


def space_of(facts: Mapping[str, Any]) -> Space:
    """The space that `facts_of` described."""
    try:
        row = row_of(SPACES, "space", str(facts["name"]))
        values = {name: {**FORMERLY, **facts}[name] for name in row.settings}
        return row.make({**values, "shape": shape_of(facts)})
    except (KeyError, TypeError, ValueError) as error:
        raise UraenasError(f"no space is described: {error}") from error


__all__ = [
    "SPACES",
    "Architecture",
    "CellSpace",
    "Cost",
    "Decision",
    "Entry",
    "Features",
    "Forward",
    "Genotype",
    "Layout",
    "Shape",
    "Space",
    "Stack",
    "Supernet",
    "Tensors",
    "architecture_count",
    "facts_of",
    "option_counts",
    "require_valid",
    "shape_of",
    "space_of",
]
