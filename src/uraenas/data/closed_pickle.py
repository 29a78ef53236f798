"""Pickles that hold only data, read by a machine that can do nothing else; a parser to be fuzzed on its own.

CIFAR's python files are pickles of a dictionary with a numpy array and lists. Python's own unpickler would
call whatever a file names. This one walks the opcodes itself: it knows lists, tuples, dictionaries, numbers
and strings, and the few globals in `GLOBALS`, each replaced by a function here that builds an array from
checked bytes. Nothing named in a file is ever imported or called, and work and memory stay in proportion to
its size.
"""

import math
import pickletools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from uraenas.data.files import Damaged

MOST_OPERATIONS = 2_000_000  # the largest official file, CIFAR-100's `train`, needs some 400,000
INTEGER_TYPES = {"b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"}


def read_pickle(data: bytes) -> dict[str, Any]:
    """The dictionary in a pickle of plain data: its numpy arrays, lists, numbers and strings."""
    result = _Machine(data).run()
    if not isinstance(result, dict):
        raise Damaged(f"the pickle holds a {type(result).__name__}, not a dictionary")
    return {key: value.array if isinstance(value, _Array) else value for key, value in result.items()}


class _Array:
    """A numpy array in the making: pickles name it first and fill it later."""

    array: np.ndarray

    def fill(self, raw: bytes, dtype: object, shape: object, column_major: object) -> None:
        if not isinstance(dtype, _Type) or not isinstance(shape, tuple) or len(shape) > 4:
            raise Damaged("the pickle holds an array without a proper type and shape")
        numbers = all(type(size) is int and size >= 0 for size in shape)
        if not numbers or math.prod(shape) * dtype.dtype.itemsize != len(raw):
            raise Damaged(f"the pickle holds an array of {len(raw)} bytes that claims another size")
        order: Literal["F", "C"] = "F" if column_major else "C"
        self.array = np.frombuffer(raw, dtype.dtype).reshape(shape, order=order)


class _Type:
    """A numpy dtype in the making: its byte order comes later."""

    def __init__(self, name: object) -> None:
        text = _text(name)
        if text.lstrip("<>|=") not in INTEGER_TYPES:
            raise Damaged(f"the pickle holds an array of type {text!r}; allowed: integers")
        self.dtype = np.dtype(text)

    def set_byte_order(self, order: object) -> None:
        text = _text(order)
        if text not in set("<>|="):
            raise Damaged(f"the pickle holds the byte order {text!r}; allowed: < > | =")
        self.dtype = self.dtype.newbyteorder(text)  # type: ignore[arg-type]


def _text(value: object) -> str:
    """A short string of the file. Nothing else is ever printed: the text of a nested list can be endless."""
    if not isinstance(value, str | bytes):
        raise Damaged(f"the pickle has a {type(value).__name__} where a string belongs")
    return (value.decode("latin-1") if isinstance(value, bytes) else value)[:80]


class _Global:
    """A permitted name of the file, and what stands in for it."""

    def __init__(self, build: Callable[["_Machine", tuple[Any, ...]], object]) -> None:
        self.build = build


def _new_array(machine: "_Machine", arguments: tuple[Any, ...]) -> object:
    if len(arguments) != 3 or arguments[0] is not GLOBALS["numpy ndarray"]:
        raise Damaged("the pickle reconstructs something other than a numpy array")
    return _Array()


def _new_type(machine: "_Machine", arguments: tuple[Any, ...]) -> object:
    return _Type(arguments[0] if arguments else None)


def _array_from_buffer(machine: "_Machine", arguments: tuple[Any, ...]) -> object:
    raw, dtype, shape, order = arguments
    array = _Array()
    array.fill(machine.as_bytes(raw), dtype, shape, order == "F")
    return array


def _scalar(machine: "_Machine", arguments: tuple[Any, ...]) -> object:
    dtype, raw = arguments
    number = _Array()
    number.fill(machine.as_bytes(raw), dtype, (), False)
    return int(number.array)


def _encoded(machine: "_Machine", arguments: tuple[Any, ...]) -> object:
    text, codec = arguments
    if not isinstance(text, str) or _text(codec) not in ("latin1", "latin-1"):
        raise Damaged(f"the pickle asks for the encoding {_text(codec)!r} of a string; allowed: latin1")
    return machine.as_bytes(text)


def _empty_bytes(machine: "_Machine", arguments: tuple[Any, ...]) -> object:
    if arguments:
        raise Damaged("the pickle calls bytes with arguments")
    return b""


def _refused(machine: "_Machine", arguments: tuple[Any, ...]) -> object:
    raise Damaged("the pickle calls numpy.ndarray itself")


_numpy_cores = ("numpy.core", "numpy._core")  # before and since numpy 2
GLOBALS = {
    "numpy ndarray": _Global(_refused),
    "numpy dtype": _Global(_new_type),
    "_codecs encode": _Global(_encoded),
    "__builtin__ bytes": _Global(_empty_bytes),
    "builtins bytes": _Global(_empty_bytes),
    **{f"{core}.multiarray _reconstruct": _Global(_new_array) for core in _numpy_cores},
    **{f"{core}.multiarray scalar": _Global(_scalar) for core in _numpy_cores},
    **{f"{core}.numeric _frombuffer": _Global(_array_from_buffer) for core in _numpy_cores},
}


class _Machine:
    """The pickle machine, reduced to data."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.stack: list[Any] = []
        self.below_marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.copyable = 2 * len(data)  # bytes: a string may be encoded, but not again and again

    def run(self) -> object:
        """What the pickle's last operation leaves."""
        for count, (opcode, argument, _) in enumerate(pickletools.genops(self.data)):
            if count == MOST_OPERATIONS:
                raise Damaged(f"the pickle has more than {MOST_OPERATIONS} operations")
            if opcode.name == "STOP":
                return self.stack.pop()
            if opcode.name in PUSH_ARGUMENT:
                self.stack.append(argument)
            elif opcode.name in PUSH_NEW:
                self.stack.append(PUSH_NEW[opcode.name]())
            elif opcode.name in OPERATIONS:
                OPERATIONS[opcode.name](self, argument)
            else:
                raise Damaged(f"the pickle holds the operation {opcode.name}, which plain data do not need")
        raise Damaged("the pickle ends too early")

    def as_bytes(self, raw: object) -> bytes:
        """The bytes of an array; Python 2 strings arrive as latin-1 text."""
        if isinstance(raw, bytes):
            return raw
        if not isinstance(raw, str | bytearray):
            raise Damaged(f"the pickle fills an array with a {type(raw).__name__}")
        self.copyable -= len(raw)
        if self.copyable < 0:
            raise Damaged("the pickle copies the same bytes again and again")
        return raw.encode("latin-1") if isinstance(raw, str) else bytes(raw)

    def look_up(self, name: str) -> None:
        if name not in GLOBALS:
            shown = _text(name).replace(" ", ".")
            raise Damaged(f"the pickle names {shown!r}, which CIFAR's files never do; nothing of it was run")
        self.stack.append(GLOBALS[name])

    def look_up_from_stack(self) -> None:
        name, module = _text(self.stack.pop()), _text(self.stack.pop())
        self.look_up(f"{module} {name}")

    def pop_to_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below_marks.pop()
        return items

    def mark(self) -> None:
        self.below_marks.append(self.stack)
        self.stack = []

    def push_collected(self, kind: Callable[[list[Any]], object]) -> None:
        items = self.pop_to_mark()  # first: it changes the stack
        self.stack.append(kind(items))

    def pop_tuple(self, size: int) -> None:
        items = tuple(self.stack.pop() for _ in range(size))
        self.stack.append(items[::-1])

    def extend_list(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise Damaged("the pickle appends to something that is not a list")
        target.extend(items)

    def new_dictionary(self) -> None:
        items = self.pop_to_mark()
        self.stack.append({})
        self.update_dictionary(items)

    def update_dictionary(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            raise Damaged("the pickle sets items of something that is not a dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes):  # only their hashes cannot be made to collide
                raise Damaged(f"the pickle has a key of type {type(key).__name__}; allowed: strings")
            target[key.decode("latin-1") if isinstance(key, bytes) else key] = value

    def reduce(self) -> None:
        arguments, called = self.stack.pop(), self.stack.pop()
        if not isinstance(called, _Global) or type(arguments) is not tuple:
            raise Damaged("the pickle calls something that cannot be called")
        self.stack.append(called.build(self, arguments))

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, _Array):
            _, shape, dtype, column_major, raw = state
            target.fill(self.as_bytes(raw), dtype, shape, column_major)
        elif isinstance(target, _Type):
            target.set_byte_order(state[1])
        else:
            raise Damaged("the pickle sets the state of something that has none")

    def memoize(self, index: int) -> None:
        self.memo[index] = self.stack[-1]


_NUMBERS = "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT"
_STRINGS = "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8"
_BYTES = "BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8"
PUSH_ARGUMENT = frozenset(f"{_NUMBERS} {_STRINGS} {_BYTES}".split())
PUSH_NEW: dict[str, Callable[[], object]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
OPERATIONS: dict[str, Callable[[_Machine, Any], object]] = {
    "PROTO": lambda machine, version: None,
    "FRAME": lambda machine, size: None,
    "MARK": lambda machine, _: machine.mark(),
    "POP": lambda machine, _: machine.stack.pop(),
    "TUPLE1": lambda machine, _: machine.pop_tuple(1),
    "TUPLE2": lambda machine, _: machine.pop_tuple(2),
    "TUPLE3": lambda machine, _: machine.pop_tuple(3),
    "TUPLE": lambda machine, _: machine.push_collected(tuple),
    "DICT": lambda machine, _: machine.new_dictionary(),
    "LIST": lambda machine, _: machine.push_collected(list),
    "APPEND": lambda machine, _: machine.extend_list([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.extend_list(machine.pop_to_mark()),
    "SETITEM": lambda machine, _: machine.update_dictionary([machine.stack.pop(), machine.stack.pop()][::-1]),
    "SETITEMS": lambda machine, _: machine.update_dictionary(machine.pop_to_mark()),
    "PUT": lambda machine, index: machine.memoize(index),
    "BINPUT": lambda machine, index: machine.memoize(index),
    "LONG_BINPUT": lambda machine, index: machine.memoize(index),
    "MEMOIZE": lambda machine, _: machine.memoize(len(machine.memo)),
    "GET": lambda machine, index: machine.stack.append(machine.memo[index]),
    "BINGET": lambda machine, index: machine.stack.append(machine.memo[index]),
    "LONG_BINGET": lambda machine, index: machine.stack.append(machine.memo[index]),
    "GLOBAL": lambda machine, name: machine.look_up(name),
    "STACK_GLOBAL": lambda machine, _: machine.look_up_from_stack(),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}
