"""What a suite's folder says about itself, and the checksums it is held to."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypedDict, cast

import numpy as np
import PIL
import PIL.features

from uraenas.base.errors import DamagedFile, UraenasError
from uraenas.base.fields import Fields
from uraenas.base.files import read_json
from uraenas.base.regular_files import open_regular
from uraenas.base.versions import version_of
from uraenas.base.whole_files import whole_file

FORMAT = 1


class Noted(TypedDict):
    """What is known of a file: its checksum, and the libraries that made it, by version."""

    md5: str
    libraries: dict[str, str | None]


@dataclass
class Manifest:
    """The seed and the images a suite is made of, and its files by name."""

    seed: int
    images_sha256: str
    files: dict[str, Noted] = field(default_factory=dict)
    format: int = FORMAT

    @classmethod
    def load(cls, folder: Path) -> "Manifest | None":
        """The folder's manifest, or None where there is none, as with the official files."""
        path = folder / "manifest.json"
        if not path.exists():
            return None
        try:
            manifest = cls._of(Fields(path, read_json(path)))
        except DamagedFile as error:
            raise UraenasError(
                f"{path} cannot be read ({error}); delete it and make the suite again"
            ) from error
        if manifest.format != FORMAT:
            raise UraenasError(
                f"{path} has format {manifest.format}; this version reads {FORMAT}: upgrade uraenas"
            )
        return manifest

    @classmethod
    def _of(cls, stored: Fields) -> "Manifest":
        files = stored.table("files")
        entries = {name: files.table(name) for name in files.stored}
        known: dict[str, Noted] = {
            name: {"md5": entry.text("md5"), "libraries": dict(entry.table("libraries").stored)}
            for name, entry in entries.items()
        }
        return cls(stored.any_whole("seed"), stored.text("images_sha256"), known, stored.whole("format"))

    def save(self, folder: Path) -> None:
        """Write the manifest in one piece."""
        with whole_file(folder / "manifest.json") as file:
            file.write((json.dumps(asdict(self), indent=2, sort_keys=True) + "\n").encode())

    def record(self, folder: Path, name: str, md5: str, libraries: dict[str, str | None]) -> None:
        """Note a file and save."""
        self.files[name] = {"md5": md5, "libraries": libraries}
        self.save(folder)

    def holds(self, folder: Path, name: str) -> bool:
        """Whether this file is there, and is the one that was noted."""
        return (
            name in self.files
            and (folder / name).is_file()
            and md5_of(folder / name) == self.files[name]["md5"]
        )


def write_array(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]) -> str:
    """Write blocks one after the other as one `.npy` array, as `np.save` would; returns the file's md5."""
    header = BytesIO()
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, description)
    digest = hashlib.md5(header.getvalue(), usedforsecurity=False)
    file.write(header.getvalue())
    for block in blocks:
        data = np.ascontiguousarray(block).data
        file.write(data)
        digest.update(data)
    return digest.hexdigest()


def md5_of(path: Path) -> str:
    """The md5 of a file, which need not fit in memory."""
    with open_regular(path) as file:
        return hashlib.file_digest(cast(Any, file), lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def sha256_of(images: np.ndarray) -> str:
    """The fingerprint of an array: its shape, its type and its bytes."""
    digest = hashlib.sha256(f"{images.shape} {images.dtype.str}".encode())
    for image in images:
        digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()


def library_versions() -> dict[str, str | None]:
    """The libraries on whose arithmetic the bytes of a suite depend."""
    try:
        import cv2

        opencv_version = cv2.__version__
    except ImportError:
        opencv_version = None
    turbo = PIL.features.version("libjpeg_turbo")
    return {
        "uraenas": version_of("uraenas"),
        "numpy": np.__version__,
        "scipy": version_of("scipy"),
        "opencv": opencv_version,
        "pillow": PIL.__version__,
        "libjpeg": f"turbo {turbo}" if turbo else PIL.features.version("jpg"),
    }
