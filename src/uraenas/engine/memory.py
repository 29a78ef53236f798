"""Want of memory, told apart from other errors and given one type."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def is_want_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: PyTorch has a type of its own for a GPU's, and none for a CPU's."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)


@contextmanager
def naming_want_of_memory() -> Iterator[None]:
    """A CPU's want of memory gets the type that PyTorch has for a GPU's."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, torch.OutOfMemoryError) or not is_want_of_memory(error):
            raise
        raise torch.OutOfMemoryError(str(error)) from error
