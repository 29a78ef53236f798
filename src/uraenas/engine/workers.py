"""A CPU's cores, shared out so that members do not depend on how many there are.

Small networks gain nothing from several threads on one operation, and lose much on a busy machine, where threads wait
for each other after each operation. So members of a stack are spread over the cores, each operation on one thread: that
is as fast or faster, hardly minds a busy machine, and a member has the same bits on any number of cores, alone or in a
stack. Measuring predictions and drawing them is smaller work still, and is done on one thread, too. A supernet is
always alone; it gets all threads where its batches are large, and its sums are then cut into as many parts.
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
    def threads(self, pixels: int = 0) -> Iterator[None]:
        """Operations run on one thread, or on all where one network is alone with a batch of so many pixels."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.count if pixels >= LARGE else 1)
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
