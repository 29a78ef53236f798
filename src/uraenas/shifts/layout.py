"""Where the files of a suite lie, what the release's checksums are, and how one file is read.

`<corruption>.npy` holds uint8 [5·N, H, W, C], severity 1 first, and `labels.npy` the N labels five times.
One severity of one corruption is one part, `parts/<corruption>-<severity>.npy` of [N, H, W, C]: the unit of
work and of restart. Five parts are joined to the corruption's file; fewer stay parts, so that no file is
ever shorter than its name says.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.base.regular_files import open_regular
from uraenas.shifts.table import SEVERITIES, SHIFTS

# Of the official CIFAR-10-C. The other eleven are random; their bytes cannot be made again.
RELEASE_MD5 = {
    "labels.npy": "c439b113295ed5254878798ffe28fd54",
    "brightness.npy": "0a81ef75e0b523c3383219c330a85d48",
    "contrast.npy": "3c8262171c51307f916c30a3308235a8",
    "saturate.npy": "1cfae0964219c5102abbb883e538cc56",
    "pixelate.npy": "0f14f7e2db14288304e1de10df16832f",
    "defocus_blur.npy": "7d1322666342a0702b1957e92f6254bc",
    "gaussian_blur.npy": "c33370155bc9b055fb4a89113d3c559d",
    "zoom_blur.npy": "6ea8e63f1c5cdee1517533840641641b",
    "jpeg_compression.npy": "2b9cc4c864e0193bb64db8d7728f8187",
}


@dataclass(frozen=True)
class Part:
    """Where one severity of one corruption lies: N images from `start` on in a file."""

    corruption: str
    severity: int
    path: Path
    start: int = 0


def part_name(corruption: str, severity: int) -> str:
    """The part's file, from the suite's folder."""
    return f"parts/{corruption}-{severity}.npy"


def loose_parts(folder: Path) -> list[Part]:
    """The parts that are not joined to a whole file yet."""
    every = (Part(n, s, folder / part_name(n, s)) for n in SHIFTS for s in SEVERITIES)
    return [part for part in every if part.path.exists()]


def map_array(path: Path) -> np.ndarray:
    """An array mapped from disk; a file that is missing, cut short or no array is one clear line."""
    if not path.exists():
        raise UraenasError(f"{path} is missing; {remedy(path)}")
    open_regular(path).close()
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy evaluates the header as a Python literal, with all kinds of errors
        raise UraenasError(f"{path} is truncated or no array; {remedy(path)}") from error
    if not isinstance(array, np.ndarray):
        raise UraenasError(f"{path} is an archive, not an array; {remedy(path)}")
    return array


def read_rows(path: Path, start: int, count: int) -> np.ndarray:
    """Some rows of an array on disk, read and not mapped: a file that is cut short meanwhile would end the process."""
    whole = map_array(path)
    row = whole.itemsize * int(np.prod(whole.shape[1:]))
    if not whole.flags.c_contiguous or not isinstance(whole, np.memmap):
        return np.array(whole[start : start + count])
    with open_regular(path) as file:
        file.seek(whole.offset + start * row)
        data = file.read(count * row)
    if len(data) != count * row:
        raise UraenasError(f"{path} is truncated or no array; {remedy(path)}")
    return np.frombuffer(data, whole.dtype).reshape(count, *whole.shape[1:])


def remedy(path: Path) -> str:
    """How to mend one file of a suite."""
    folder = path.parent.parent if path.parent.name == "parts" else path.parent
    corruption = path.stem.rsplit("-", 1)[0]
    only = "" if corruption == "labels" else f" --only {corruption}"
    return f"copy it again, or delete it and run `uraenas corrupt DATASET --out {folder}{only}`"
