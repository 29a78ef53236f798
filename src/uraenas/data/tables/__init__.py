"""Tables: readers, columns as numbers, and the dataset that they make."""

from uraenas.data.tables.columns import Category, Columns, Number, columns_of
from uraenas.data.tables.frame import Frame, frame_of
from uraenas.data.tables.reading import breast_cancer, diabetes, is_table, load_table, read_frame
from uraenas.data.tables.table import TableSettings, table_dataset

__all__ = [
    "Category",
    "Columns",
    "Frame",
    "Number",
    "TableSettings",
    "breast_cancer",
    "columns_of",
    "diabetes",
    "frame_of",
    "is_table",
    "load_table",
    "read_frame",
    "table_dataset",
]
