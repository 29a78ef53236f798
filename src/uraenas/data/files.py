"""Files that come from elsewhere are read within limits."""

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from uraenas.base.errors import UraenasError
from uraenas.base.regular_files import open_regular

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 1 << 20
MOST_IN_VAIN = 100


@contextmanager
def blaming(path: str | os.PathLike[str], mend: str) -> Iterator[None]:
    """Whatever goes wrong while these bytes are parsed is the file's fault, told in one line.

    The parsers of the standard library raise a dozen kinds of error on hostile bytes and list them nowhere,
    so all are caught; the original stays attached as the cause.
    """
    try:
        yield
    except Damaged as error:
        raise UraenasError(f"{path} is damaged or of another kind: {error}. {mend}".strip()) from error
    except UraenasError:
        raise
    except FileNotFoundError as error:
        raise UraenasError(f"{path} does not exist. {mend}".strip()) from error
    except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise UraenasError(f"{path} cannot be read: {error.strerror}. {mend}".strip()) from error
    except Exception as error:
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise UraenasError(f"{path} is damaged or of another kind: {reason}. {mend}".strip()) from error


def get_again(name: str) -> str:
    """What mends the files of an official dataset."""
    return f"Get whole files with: uraenas data {name}, or: uraenas data {name} --from PATH"


class Damaged(UraenasError):
    """Bytes are not what they should be. Whoever knows their path adds it, with the way to mend them."""


class LimitedReader:
    """A stream that refuses to give more than a fixed number of bytes, however small its compressed form."""

    def __init__(self, stream: BinaryIO, most: int) -> None:
        self.stream = stream
        self.left = most
        self.asked_in_vain = 0  # beyond the end: whoever skips what a header promises would do so for years

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, or all that are left; an error once the limit is passed."""
        if size < 0:
            return b"".join(iter(lambda: self.read(CHUNK), b""))
        data = self.stream.read(size)
        self.left -= len(data)
        self.asked_in_vain += size > 0 and not data
        if self.asked_in_vain > MOST_IN_VAIN:
            raise Damaged("it promises more bytes than it has")
        if self.left < 0:
            raise Damaged("it unpacks to more bytes than any file of its kind holds")
        return data


@contextmanager
def open_limited(path: Path, most: int) -> Iterator[LimitedReader]:
    """The file's bytes, unpacked where it is gzip, up to a limit."""
    with open_regular(path) as plain:
        packed = plain.read(2) == GZIP_MAGIC
        plain.seek(0)
        if not packed:
            yield LimitedReader(plain, most)
            return
        with gzip.GzipFile(fileobj=plain) as unpacked:
            yield LimitedReader(cast(BinaryIO, unpacked), most)
