"""A CPU's cores, shared out so that the result does not depend on how many there are.

Small networks gain nothing from several threads on one operation, and lose much on a busy machine, where threads wait
for each other after each operation. So members of a stack are spread over the cores, each operation on one thread: that
is as fast or faster, has the same bits on any number of cores, and hardly minds a busy machine. A network alone gets
several threads where its maps are large; its sums are then cut into as many parts as there are threads.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

LARGE = 1 << 16  # pixels of a batch from which several threads on one operation pay

T = TypeVar("T")


class Workers:
    """As many threads as PyTorch would use, for members side by side or for one network's operations."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or torch.get_num_threads()
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def suited(self, members: int, pixels: int) -> Iterator[None]:
        """Operations run on one thread, or on all where one network is alone with a batch of so many pixels."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.count if members == 1 and pixels >= LARGE else 1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def each(self, work: Callable[[int], T], members: Sequence[int]) -> list[T]:
        """What `work` makes of each member, side by side."""
        if self.count == 1 or len(members) == 1:
            return [work(m) for m in members]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                self.count, "uraenas", initializer=torch.set_num_threads, initargs=(1,)
            )
        return list(self._pool.map(work, members))
