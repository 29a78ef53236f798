"""The columns of the plan's tables, as kernels read them, and the tables as tensors."""

from dataclasses import astuple
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from uraenas.engine.kernels.cells import wiring
from uraenas.engine.kernels.cells.rows import NORMED, NOTHING, PACKED_UNIT

# Edge, Sum, Source, Passage and Pack of rows.py, field by field.
(
    EDGE_INPUT,
    EDGE_OUTPUT,
    EDGE_GRADIENT,
    EDGE_ARRIVING,
    EDGE_PACKED,
    EDGE_PARTIAL,
    EDGE_TAPS,
    EDGE_WEIGHT,
    EDGE_SCALE,
    EDGE_SHIFT,
    EDGE_MEAN,
    EDGE_VARIANCE,
    EDGE_FACTOR,
    EDGE_COLUMNS,
) = map(tl.constexpr, range(14))
# Terms, three numbers each, stand at the end of a row; how many there is room for is a matter of the program.
SUM_OUTPUT, SUM_TERMS = map(tl.constexpr, range(2))
SOURCE_INPUT, SOURCE_OUTPUT, SOURCE_FIRST, SOURCE_COUNT, SOURCE_SHORTCUT, SOURCE_TERMS = map(
    tl.constexpr, range(6)
)
TERM_KIND, TERM_MAP, TERM_FACTOR, TERM_COLUMNS = map(tl.constexpr, range(4))
PASSAGE_INPUT, PASSAGE_ARRIVING, PASSAGE_SKIP, PASSAGE_POOL, PASSAGE_COLUMNS = map(tl.constexpr, range(5))
(
    PACK_WEIGHT,
    PACK_PACKED,
    PACK_PARTIAL,
    PACK_OUTPUTS,
    PACK_INPUTS,
    PACK_PADDED,
    PACK_TAPS,
    PACK_POOLED,
    PACK_SPLITS,
    PACK_GROUP,
    PACK_SPAN,
    PACK_FACTOR,
    PACK_COLUMNS,
) = map(tl.constexpr, range(13))
UNIT = tl.constexpr(PACKED_UNIT)
KIND_NOTHING, KIND_NORMED = map(tl.constexpr, (NOTHING, NORMED))
KIND_SKIP, KIND_POOL = map(tl.constexpr, (wiring.SKIP, wiring.POOL))


def table(rows: list[Any], device: torch.device, terms: int = 0) -> Tensor:
    """Rows of a plan as a tensor [rows, columns]; a row's list of terms is filled up to so many."""
    numbers = []
    for row in rows:
        values: list[int] = []
        for value in astuple(row):
            if isinstance(value, list):
                filled = value + [(NOTHING, 0, 0)] * (terms - len(value))
                values += [number for term in filled for number in term]
            else:
                values.append(value)
        numbers.append(values)
    return torch.tensor(numbers, dtype=torch.int64, device=device)
