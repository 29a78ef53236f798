"""Stage 4: tables and figures from what a run directory holds."""

from uraenas.report import formats
from uraenas.report.page import build
from uraenas.report.reading import Picked, alike, beside_seeds, differing
from uraenas.report.table import COLUMNS, DISAGREEMENT, TableLine, best, mean_name, table

__all__ = [
    "COLUMNS",
    "DISAGREEMENT",
    "Picked",
    "TableLine",
    "alike",
    "beside_seeds",
    "best",
    "build",
    "differing",
    "formats",
    "mean_name",
    "table",
]
