"""A trained ensemble where it is needed: as one ONNX or PyTorch file, and what runs it without this package."""

from uraenas.deploy.exported import Exported
from uraenas.deploy.writing import FORMATS, PRECISIONS, Wanted, export_file

__all__ = ["FORMATS", "PRECISIONS", "Exported", "Wanted", "export_file"]
