"""JSON and tensors on the disk: written whole or not at all, checked when read."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from uraenas.base.errors import DamagedFile, UraenasError
from uraenas.base.fields import Fields
from uraenas.base.regular_files import append_to_regular, open_regular, size_of
from uraenas.base.whole_files import whole_file, writing

if TYPE_CHECKING:  # what reads JSON alone should not wait for PyTorch
    from torch import Tensor

FORMAT = 2  # of everything that is written; files of another are refused
CHECKSUM = "blake2b"  # in the header of tensors
JSON_CHECKSUM = "checksum"  # the last key of a JSON file
METADATA = "__metadata__"  # what safetensors calls the part of the header that is not about tensors
INDENTS = (4, 2, 1)  # taken off one after the other: tables and lists in our files are at most 7 deep
MOST_JSON, MOST_HEADER, MOST_BYTES = 256 << 20, 64 << 20, 16 << 30  # no file of ours is larger


def write_bytes(path: Path, content: bytes) -> None:
    with whole_file(path) as file:
        file.write(content)


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """Write a JSON object whose last key is a checksum of the others."""
    text = json.dumps({**table, JSON_CHECKSUM: _json_checksum(table)}, indent=1, allow_nan=False)
    write_bytes(path, (text + "\n").encode())


def read_json(path: Path) -> Any:
    """What a JSON file holds; a checksum, if it has one, is verified and left out."""
    with _reading(path, MOST_JSON) as (file, _):
        text = file.read()
    if (table := _as_written(text)) is not None:
        return table
    value = parse_json(path, text)
    if isinstance(value, dict) and JSON_CHECKSUM in value:
        stated = value.pop(JSON_CHECKSUM)
        if stated != _json_checksum(value):
            raise DamagedFile(f"{path} is damaged, or was changed by hand")
    return value


def _as_written(text: bytes) -> dict[str, Any] | None:
    """The table of a file that is, byte for byte, as `write_json` wrote it: its text alone says so."""
    body, found, end = text.rpartition(f',\n "{JSON_CHECKSUM}": "'.encode())
    if not found or end[32:] != b'"\n}\n':
        return None
    for spaces in INDENTS:  # as it is without lines, of which the checksum is
        body = body.replace(b"\n" + b" " * spaces, b"\n")
    plain = body.replace(b",\n", b", ").replace(b"\n", b"") + b"}"
    if hashlib.blake2b(plain, digest_size=16).hexdigest().encode() != end[:32]:
        return None
    try:
        return json.loads(plain, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None  # and what is wrong is said by those who look closely


def parse_json(where: object, text: bytes | str, finite: bool = True) -> Any:
    """JSON without a key twice in a table, and, unless losses may have diverged, without NaN and infinity."""
    constants = _refuse_constant if finite else None
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=constants)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{where} is damaged: {error}") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("it has a key twice")
    return table


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _json_checksum(table: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(table).encode(), digest_size=16).hexdigest()


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]", header: Mapping[str, str]) -> None:
    """Write a safetensors file whose header carries a checksum of header and tensors."""
    import safetensors.torch

    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    complete = {**header, CHECKSUM: _checksum(tensors, header)}
    write_bytes(path, safetensors.torch.save(tensors, metadata=complete))


def read_header(path: Path, whole: str = "") -> dict[str, str]:
    """What the header of such a file says beside the tensors, of which only the size is looked at.

    `whole` is the checksum of the whole file, where another file vouches for it.
    """
    with _reading(path, MOST_BYTES) as (file, size):
        header, start = _header(path, file, size)
        if whole:
            _require_whole(path, _digest(file, start), whole)
    return {name: text for name, text in header.items() if name != CHECKSUM}


def read_tensors(path: Path, whole: str = "") -> "tuple[dict[str, Tensor], dict[str, str]]":
    """Tensors and header of a file that `write_tensors` wrote, after its checksum has been verified.

    `whole` is the checksum of the whole file, where another file vouches for it. The file is read, not mapped: one that
    is rewritten meanwhile is noticed.
    """
    import safetensors.torch

    with _reading(path, MOST_BYTES) as (file, size):
        header, start = _header(path, file, size)
        content = start + file.read()
    if whole:
        _require_whole(path, hashlib.blake2b(content, digest_size=16).hexdigest(), whole)
    try:
        tensors = safetensors.torch.load(content)
    except Exception as error:  # a handful of kinds, of which none is documented
        raise DamagedFile(f"{path} is damaged") from error
    stated = header.pop(CHECKSUM, None)
    if not whole and stated != _checksum(tensors, header):
        raise DamagedFile(f"{path} is damaged")
    return tensors, header


def _require_whole(path: Path, found: str, whole: str) -> None:
    if found != whole:
        raise DamagedFile(f"{path} is not the file it should be: its checksum is another")


def _header(path: Path, file: BinaryIO, size: int) -> tuple[dict[str, str], bytes]:
    """The header of tensors, and the bytes up to its end."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= min(MOST_HEADER, size - 8):
        raise DamagedFile(f"{path} is damaged")
    text = file.read(length)
    return _checked_header(path, text, size - 8 - length), start + text


def _checked_header(path: Path, text: bytes, room: int) -> dict[str, str]:
    """What the header says beside the tensors, if these fill the rest of the file: nothing is read before that."""
    try:  # not by `Fields`: there are hundreds of tensors, and safetensors looks at each of them again
        table = json.loads(text)
        stored = table.pop(METADATA, {})
        end = max((entry["data_offsets"][1] for entry in table.values()), default=0)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{path} is damaged") from error
    if end != room:
        raise DamagedFile(f"{path} is damaged: it is shorter or longer than its header says")
    facts = Fields(path, stored)
    return {name: facts.text(name, MOST_HEADER) for name in facts.stored}


def require_format(path: Path, facts: Any) -> None:
    """Refuse what another version wrote, in one line."""
    found = facts.get("format", 1) if isinstance(facts, Mapping) else None
    if found != FORMAT:
        raise UraenasError(
            f"{path} was written by another version of uraenas (format {found}, this one has {FORMAT}); make it again, "
            "or use the version that wrote it"
        )


@contextmanager
def _reading(path: Path, most: int) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file of a possible size, and its size."""
    try:
        with open_regular(path) as file:
            size = size_of(file)
            if size > most:
                raise DamagedFile(f"{path} has {size:,} bytes; no such file has more than {most:,}")
            yield file, size
    except OSError as error:
        raise UraenasError(f"cannot read {path}: {error.strerror or error}") from error


def _checksum(tensors: "Mapping[str, Tensor]", header: Mapping[str, str]) -> str:
    import torch

    digest = hashlib.blake2b(json.dumps(sorted(header.items())).encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.view(torch.int16)  # numpy has no such type
        digest.update(tensor.numpy().data)
    return digest.hexdigest()


def digest_of(*parts: object) -> str:
    """One checksum of what these are when written."""
    text = "|".join(map(str, parts)).encode(errors="surrogatepass")  # a name need not be UTF-8
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def checksum_of(path: Path) -> str:
    """The checksum of a whole file."""
    with _reading(path, MOST_BYTES) as (file, _):
        return _digest(file)


def _digest(file: BinaryIO, start: bytes = b"") -> str:
    """The checksum of these bytes and all that follow in a file, of which little is in memory at a time."""
    return hashlib.file_digest(cast(Any, file), lambda: hashlib.blake2b(start, digest_size=16)).hexdigest()


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Append one JSON line to a log."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with append_to_regular(path) as file:
            file.write((json.dumps(value) + "\n").encode())
