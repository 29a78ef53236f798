"""Want of memory, told apart from other errors and given one type."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# A CPU's; CUDA's and Triton's own, outside PyTorch's allocator; cuBLAS's and cuDNN's.
TOLD_AS = ("DefaultCPUAllocator", "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED")


def is_want_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: PyTorch has a type of its own only for what its allocator on a GPU cannot get."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in TOLD_AS)


@contextmanager
def naming_want_of_memory() -> Iterator[None]:
    """All want of memory gets the type that PyTorch has for a GPU's."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, torch.OutOfMemoryError) or not is_want_of_memory(error):
            raise
        raise torch.OutOfMemoryError(str(error)) from error
