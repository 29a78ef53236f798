"""Stage 4: tables and figures from the rows."""

from uraenas.report.page import page
from uraenas.report.table import COLUMNS, DISAGREEMENT, TableLine, best, mean_name, table

__all__ = ["COLUMNS", "DISAGREEMENT", "TableLine", "best", "mean_name", "page", "table"]
