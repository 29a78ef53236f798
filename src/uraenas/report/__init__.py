"""Tables and figures from what a run directory holds."""

from uraenas.report import formats
from uraenas.report.page import build, write
from uraenas.report.partial import build_partial
from uraenas.report.picked import Picked, alike, same_shifts, same_tests
from uraenas.report.seeds import why_no_mean
from uraenas.report.table import COLUMNS, DISAGREEMENT, TableLine, best, columns_of, table

__all__ = [
    "COLUMNS",
    "DISAGREEMENT",
    "Picked",
    "TableLine",
    "alike",
    "best",
    "build",
    "build_partial",
    "columns_of",
    "formats",
    "same_shifts",
    "same_tests",
    "table",
    "why_no_mean",
    "write",
]
