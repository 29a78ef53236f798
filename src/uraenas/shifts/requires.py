"""The optional parts some corruptions need: OpenCV, and the frost textures of `imagecorruptions`."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from uraenas.base.errors import UraenasError

# The sixth is never drawn.
FROST_TEXTURES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
FROST_REMEDY = "pip install --no-deps imagecorruptions==1.1.2"


def opencv(shift: str) -> ModuleType:
    """OpenCV, or one line that says which corruption needs it and how to get it."""
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        raise UraenasError(f"{shift} needs OpenCV: pip install opencv-python-headless") from error


def frost_texture_paths() -> list[Path]:
    """The five textures, read as data: the package's own code needs old libraries and is never imported."""
    package = importlib.util.find_spec("imagecorruptions")
    if package is None or not package.submodule_search_locations:
        raise UraenasError(f"frost needs the textures of the package imagecorruptions: {FROST_REMEDY}")
    folder = Path(package.submodule_search_locations[0]) / "frost"
    paths = [folder / name for name in FROST_TEXTURES]
    for path in paths:
        if not path.is_file():
            raise UraenasError(f"frost texture {path.name} is missing: {FROST_REMEDY} --force-reinstall")
    return paths
