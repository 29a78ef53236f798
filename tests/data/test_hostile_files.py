"""Files from elsewhere do not hang, and do not take more memory than they may."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from uraenas.base.errors import UraenasError
from uraenas.data import load_dataset
from uraenas.data.cifar import load_cifar
from uraenas.data.idx import read_idx
from uraenas.data.npz import load_npz
from uraenas.data.pictures import MOST_PIXELS, read_image


@pytest.mark.parametrize(
    "name", ["cifar-10-batches-py/data_batch_1", "other", "cifar-10-batches-bin/test_batch.bin"]
)
@pytest.mark.parametrize(
    "kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.DIRTYPE]
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_header_that_promises_more_than_the_archive_has_ends_soon(
    tmp_path: Path, name: str, kind: bytes, packed: bool
) -> None:
    header = tarfile.TarInfo(name)
    header.size, header.type = 10**17, kind
    data = header.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    (tmp_path / "a.tar").write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(UraenasError):
        load_cifar(tmp_path / "a.tar")


def test_a_fifo_is_no_image_no_array_and_no_archive(tmp_path: Path) -> None:
    names = ("a.png", "a.npz", "a.tar", "a-idx")
    for name in names:
        os.mkfifo(tmp_path / name)
    reads = (lambda p: read_image(p, 8, 3), load_npz, load_cifar, lambda p: read_idx(p, 3))
    for name, read in zip(names, reads, strict=True):
        with pytest.raises(UraenasError, match="FIFO"):
            read(tmp_path / name)
    (tmp_path / "data/x").mkdir(parents=True)
    os.mkfifo(tmp_path / "data/x/a.png")
    with pytest.raises(UraenasError):
        load_dataset(tmp_path / "data")


def png(width: int, height: int, colour: int) -> bytes:
    """A picture of one colour, which packs to a thousandth."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, colour, 0, 0, 0])
    packer, body = zlib.compressobj(9), b""
    for _ in range(height):
        body += packer.compress(bytes(1 + channels * width))
    body += packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


MEASURE = """
import resource, sys
from uraenas.data.pictures import read_image
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read_image(sys.argv[1], 8, 3)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.parametrize("colour", [2, 6])
def test_a_small_file_with_many_pixels_takes_a_bounded_amount_of_memory(tmp_path: Path, colour: int) -> None:
    side = int(MOST_PIXELS**0.5)
    (tmp_path / "bomb.png").write_bytes(png(side, side, colour))
    assert (tmp_path / "bomb.png").stat().st_size < 500_000
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "bomb.png")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 500  # MB


def test_more_pixels_than_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(png(10_000, MOST_PIXELS // 10_000 + 1, 0))
    with pytest.raises(UraenasError, match="pixels are more than"):
        read_image(tmp_path / "bomb.png", 8, 3)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_strips_on_white_are_the_whole_picture_on_white(tmp_path: Path, mode: str, monkeypatch) -> None:
    draw = np.random.default_rng(0)
    image = Image.fromarray(draw.integers(0, 256, (40, 30, 4), dtype=np.uint8), "RGBA")
    stream = io.BytesIO()
    (image.quantize(8) if mode == "P" else image.convert(mode)).save(stream, "PNG")
    (tmp_path / "a.png").write_bytes(stream.getvalue())
    whole = read_image(tmp_path / "a.png", 16, 3)
    monkeypatch.setattr("uraenas.data.pictures.STRIP", 100)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 16, 3), whole)
    clear = Image.open(tmp_path / "a.png").convert("RGBA")
    plain = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
    np.testing.assert_array_equal(np.asarray(plain.resize((16, 16), Image.Resampling.BILINEAR)), whole)
