"""Images or rows of several requests predicted together: what waits when the last batch is done goes into the next."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from uraenas.deploy.serving.limits import Refused

Rows = list[dict[str, Any]]


class Batcher:
    """One prediction runs at a time, in a thread of its own."""

    def __init__(self, predict: Callable[[list[Any]], Rows], batch: int, waiting: int) -> None:
        self.predict, self.batch, self.waiting = predict, batch, waiting
        self.queue: list[tuple[Any, asyncio.Future[dict[str, Any]]]] = []
        self.pool = ThreadPoolExecutor(1, "uraenas-predict")
        self.task: asyncio.Task[None] | None = None
        self.sizes: Callable[[int], None] = lambda size: None  # told of each batch

    async def __call__(self, images: list[Any]) -> Rows:
        """What is said of these images; refused where too many wait already."""
        if len(self.queue) + len(images) > self.waiting:
            raise Refused(503, "too many requests are waiting; try again later")
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in images]
        self.queue += zip(images, futures, strict=True)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._work())
        return list(await asyncio.gather(*futures))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self.queue:
            taken, self.queue = self.queue[: self.batch], self.queue[self.batch :]
            waited = [(image, future) for image, future in taken if not future.done()]  # not given up
            if not waited:
                continue
            self.sizes(len(waited))
            try:
                rows = await loop.run_in_executor(self.pool, self.predict, [image for image, _ in waited])
            except Exception as error:
                for _, future in waited:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), row in zip(waited, rows, strict=True):
                if not future.done():
                    future.set_result(row)

    async def finish(self) -> None:
        """Wait for what was begun."""
        if self.task is not None:
            await self.task
        self.pool.shutdown()
