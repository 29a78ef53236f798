"""The closed unpickler reads data of every spelling and runs nothing."""

import os
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uraenas.base.errors import UraenasError
from uraenas.data.closed_pickle import read_pickle
from uraenas.data.files import blaming

CONTENT = {
    "data": np.arange(24, dtype=np.uint8).reshape(4, 6),
    "labels": [3, 1, 2, 300000],
    "filenames": ["a.png", "b.png"],
    "more": (1, 2, 3, 4, None, True, 2.5),
    "big-endian": np.arange(3, dtype=">i4"),
    "column-major": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
}


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in found)


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_of_this_python_is_read(protocol: int) -> None:
    assert same(read_pickle(pickle.dumps(CONTENT, protocol)), CONTENT)


def python_2_pickle() -> bytes:
    """What Python 2 and its numpy wrote into the official files: protocol 2, byte strings, old module names."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03"
        b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89U\x06\x00\x01\xfe\xff\n'tb"
    )
    return b"\x80\x02}q\x00(U\x04data" + array + b"U\x06labels](K\x05K\x06eU\x0bbatch_labelU\x01xu."


def test_the_official_spelling_is_read() -> None:
    found = read_pickle(python_2_pickle())
    np.testing.assert_array_equal(found["data"], np.array([[0, 1, 254], [255, 10, 39]], np.uint8))
    assert found["labels"] == [5, 6]


def test_old_and_new_numpy_spellings_are_equal() -> None:
    new = pickle.dumps(CONTENT, 2)
    assert b"numpy._core" in new
    assert same(read_pickle(new.replace(b"numpy._core", b"numpy.core")), CONTENT)


def test_byte_keys_and_numpy_numbers_are_read() -> None:
    found = read_pickle(pickle.dumps({b"labels": [np.int64(7), np.uint8(8)], b"none": b""}, 2))
    assert found == {"labels": [7, 8], "none": b""}


class Harmful:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_command_in_a_pickle_is_not_run(tmp_path: Path, protocol: int) -> None:
    witness = tmp_path / "witness"
    with pytest.raises(UraenasError, match=r"'(posix|nt)\.system'"):
        read_pickle(pickle.dumps({"data": Harmful(witness)}, protocol))
    assert not witness.exists()


@pytest.mark.parametrize(
    "body",
    [
        b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R.",
        b"c__builtin__\ngetattr\n.",
        b"cnumpy\nload\n.",
        b"cnumpy.core.multiarray\n_reconstruct\ncbuiltins\nlist\nK\x00\x85U\x01b\x87R.",
        b"(cos\nsystem\nX\x01\x00\x00\x001o.",
        b"(X\x01\x00\x00\x001ios\nsystem\n.",
        b"X\x01\x00\x00\x001Q.",
        b"Pfoo\n.",
        b"\x82\x01.",
        b"cnumpy\nndarray\n)\x81.",
    ],
)
def test_other_globals_and_operations_are_refused(body: bytes) -> None:
    with pytest.raises(UraenasError):
        read_pickle(b"\x80\x02" + body)


def test_small_bombs_fizzle() -> None:
    """A few bytes that would make Python's unpickler allocate gigabytes, or work for hours."""
    bombs = [
        b"\x80\x04Nr\xff\xff\xff\xff.",  # a memo of four thousand million entries
        b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b".",  # a terabyte of bytes
        b"\x80\x02]q\x00" + b"(h\x00h\x00e" * 50 + b"h\x00\x93.",  # a list whose text has no end, as a name
        b"\x80\x02c_codecs\nencode\nq\x00X\x00\x00\x10\x00"
        + b"a" * (1 << 20)
        + b"q\x01X\x06\x00\x00\x00latin1q\x02"
        + b"h\x00h\x01h\x02\x86R0" * 50
        + b".",
    ]
    for bomb in bombs:
        with pytest.raises(UraenasError), blaming("bomb", ""):
            read_pickle(bomb)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), protocol=st.sampled_from([0, 2, 4, 5]))
def test_damage_never_ends_in_a_traceback(data: st.DataObject, protocol: int) -> None:
    whole = pickle.dumps(CONTENT, protocol) if data.draw(st.booleans()) else python_2_pickle()
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    for _ in range(data.draw(st.integers(0, 4)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        with blaming("damaged", ""):
            assert isinstance(read_pickle(bytes(damaged)), dict)
    except UraenasError:
        pass


OPCODES = st.sampled_from([opcode.code.encode("latin-1") for opcode in pickletools.opcodes])


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(OPCODES | st.binary(max_size=3), max_size=30))
def test_random_programs_never_end_in_a_traceback(pieces: list[bytes]) -> None:
    try:
        with blaming("random", ""):
            read_pickle(b"".join(pieces))
    except UraenasError:
        pass
