"""JSON and tensors on the disk: written whole or not at all, checked when read."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.base.whole_files import whole_file, writing

FORMAT = 2  # of everything that is written; files of another are refused
CHECKSUM = "blake2b"  # in the header of tensors
JSON_CHECKSUM = "checksum"  # the last key of a JSON file


def write_bytes(path: Path, content: bytes) -> None:
    with whole_file(path) as file:
        file.write(content)


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """Write a JSON object whose last key is a checksum of the others."""
    text = json.dumps({**table, JSON_CHECKSUM: _json_checksum(table)}, indent=1, allow_nan=False)
    write_bytes(path, (text + "\n").encode())


def read_json(path: Path) -> Any:
    """What a JSON file holds; a checksum, if it has one, is verified and left out."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise UraenasError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UraenasError(f"{path} is damaged: {error}; delete it and run the same command again") from error
    if isinstance(value, dict) and JSON_CHECKSUM in value:
        stated = value.pop(JSON_CHECKSUM)
        if stated != _json_checksum(value):
            raise UraenasError(
                f"{path} is damaged, or was changed by hand; delete it and run the same command again"
            )
    return value


def _json_checksum(table: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(table).encode(), digest_size=16).hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a safetensors file whose header carries a checksum of header and tensors."""
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    complete = {**header, CHECKSUM: _checksum(tensors, header)}
    write_bytes(path, safetensors.torch.save(tensors, metadata=complete))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and header of a file that `write_tensors` wrote, after its checksum has been verified."""
    with _opened(path) as file:
        header = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    if header.pop(CHECKSUM, None) != _checksum(tensors, header):
        raise _damaged(path)
    return tensors, header


def require_format(path: Path, facts: Any) -> None:
    """Refuse what another version wrote, in one line."""
    found = facts.get("format", 1) if isinstance(facts, Mapping) else None
    if found != FORMAT:
        raise UraenasError(
            f"{path} was written by another version of uraenas (format {found}, this one has {FORMAT}); make it again, "
            "or use the version that wrote it"
        )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(str(path), framework="pt") as file:
            yield file
    except (OSError, safetensors.SafetensorError, ValueError, RuntimeError) as error:
        if not path.exists():
            raise UraenasError(f"cannot read {path}: no such file") from error
        raise _damaged(path) from error


def _checksum(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    digest = hashlib.blake2b(json.dumps(sorted(header.items())).encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.view(torch.int16)  # numpy has no such type
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def digest_of(*parts: object) -> str:
    """One checksum of what these are when written."""
    return hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def checksum_of(path: Path) -> str:
    """The checksum of a whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _damaged(path: Path) -> UraenasError:
    return UraenasError(f"{path} is damaged; delete it and run the same command again")


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Append one JSON line to a log."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(value) + "\n")
