"""Which networks exist. A space is a row of SPACES; `space.py` says what it must offer, and what it may."""

from typing import Any

from uraenas.base.fields import Fields
from uraenas.base.parts import Part, stored_row
from uraenas.spaces.cells import NASBENCH201, CellSpace, Genotype
from uraenas.spaces.layout import Entry, Layout, Tensors, carried_over
from uraenas.spaces.networks import Draw, Forward, Network, Stack, Supernet, as_it_is
from uraenas.spaces.passage import PLAIN, Apply, Layer, Passage, Term
from uraenas.spaces.perceptrons import Perceptron, PerceptronSpace
from uraenas.spaces.space import (
    Architecture,
    ChosenAlone,
    Cost,
    Decision,
    Features,
    Folding,
    InParts,
    Shape,
    Space,
    Together,
    architecture_count,
    facts_of,
    folded,
    option_counts,
    require_valid,
    shape_of,
)

SPACES: dict[str, Part[Space]] = {
    "nasbench201": Part(
        CellSpace,
        about="NAS-Bench-201: a cell of four nodes and five operations, 15,625 genotypes.",
        name="nasbench201",
        nodes=4,
        operations=NASBENCH201,
    ),
    "perceptrons": Part(PerceptronSpace, name="perceptrons"),
}


# Settings that a stored space may lack, since they came later: by default they change nothing.
LATER = ("halvings",)


def space_of(stored: Any, where: object = "the space") -> Space:
    """The space that `facts_of` described."""
    facts = Fields(where, stored)
    row = stored_row(SPACES, "space", facts)
    for name in row.settings:
        if not facts.has(name) and name not in LATER:
            raise facts.error(f"{name} is missing")
    for name, fixed in row.fixed.items():
        found = stored.get(name)
        if (tuple(found) if isinstance(found, list) else found) != fixed:
            raise facts.error(f"{name} is not that of {facts.text('name')}")
    return row.make({**row.restored(facts), "shape": shape_of(facts.table("shape"))})


__all__ = [
    "PLAIN",
    "SPACES",
    "Apply",
    "Architecture",
    "CellSpace",
    "ChosenAlone",
    "Cost",
    "Decision",
    "Draw",
    "Entry",
    "Features",
    "Folding",
    "Forward",
    "Genotype",
    "InParts",
    "Layer",
    "Layout",
    "Network",
    "Passage",
    "Perceptron",
    "PerceptronSpace",
    "Shape",
    "Space",
    "Stack",
    "Supernet",
    "Tensors",
    "Term",
    "Together",
    "architecture_count",
    "as_it_is",
    "carried_over",
    "facts_of",
    "folded",
    "option_counts",
    "require_valid",
    "shape_of",
    "space_of",
]
