"""A trained ensemble where it is needed: as one ONNX or PyTorch file, and what runs it without this package."""

from uraenas.deploy.accelerated import accelerated
from uraenas.deploy.exported import Exported
from uraenas.deploy.writing import FORMATS, PRECISIONS, Wanted, export_file

__all__ = ["FORMATS", "PRECISIONS", "Exported", "Wanted", "accelerated", "export_file"]
