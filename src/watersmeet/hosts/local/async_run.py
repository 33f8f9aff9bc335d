"""The same run for code that awaits: nothing blocks the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from watersmeet.hosts.local.answer_queue import AnswerQueue
from watersmeet.hosts.local.run import Run
from watersmeet.operators.answers import as_batch
from watersmeet.runtime.run_settings import OnAnswer

T = TypeVar("T")


class AsyncRun:
    """A query that rows are pushed into by coroutines. `async with query.start_async() as run` makes one.

    It has the methods of `Run`, to be awaited. What is pushed is joined in a thread of the run's own, in the order of
    the calls. A call that is cancelled may still have its effect.

    >>> import asyncio, datetime as dt
    >>> import watersmeet as wm
    >>> session = wm.Session()
    >>> session.stream("s", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    >>> query = session.sql("SELECT k FROM s WHERE k > 1")
    >>> async def main():
    ...     async with query.start_async() as run:
    ...         await run.push("s", {"k": [1, 2], "ts": [dt.datetime(2026, 1, 1)] * 2})
    ...         await run.finish()
    ...         return [batch.to_pylist() async for batch in run]
    >>> asyncio.run(main())
    [[{'k': 2}]]
    """

    def __init__(self, start: Callable[[], Run], on_answer: Callable[[pa.RecordBatch], Any] | None = None) -> None:
        """start: makes the run, in its thread. on_answer: a function or a coroutine function, called on the loop."""
        self._start, self._on_answer = start, on_answer
        self._run: Run | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watersmeet runs")
        self._ready = asyncio.Event()
        self._handing_on: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._run = await self._loop.run_in_executor(self._thread, self._start)
        self._answers.on_ready = self._wake
        if self._on_answer is not None:
            self._handing_on = self._loop.create_task(self._hand_on(self._on_answer))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if error is None and self.is_open:
                await self.finish()
            if self._handing_on is not None:
                await self._handed_on(error)
            if error is None:
                await self._call(partial(self._running.driver.leave, None))
        finally:
            await self.stop()
            self._thread.shutdown(wait=False)

    async def _handed_on(self, error: BaseException | None) -> None:
        """Wait until all answers were handed on; not after an error, which is told instead of any other."""
        assert self._handing_on is not None
        if error is not None:
            self._handing_on.cancel()
        (outcome,) = await asyncio.gather(self._handing_on, return_exceptions=True)
        if error is None and outcome is not None:
            raise outcome

    async def push(self, stream: str, rows: Any, *, timeout: float | None = None) -> None:
        """Take new rows of a stream; see `Run.push`."""
        await self._call(partial(self._running.push, stream, rows, timeout=timeout))

    async def advance(self, stream: str, time: Any) -> None:
        """No row of this stream before this time will come any more; see `Run.advance`."""
        await self._call(partial(self._running.advance, stream, time))

    async def end(self, stream: str) -> None:
        """No row of this stream will come any more at all."""
        await self._call(partial(self._running.end, stream))

    async def flush(self) -> None:
        """Answer all that waits for time to go on; see `Run.flush`."""
        await self._call(self._running.flush)

    async def taken(self, stream: str) -> int:
        """How many rows of a stream have come."""
        return await self._call(partial(self._running.taken, stream))

    async def finish(self) -> None:
        """No row will come any more: everything that waits is answered."""
        await self._call(self._running.finish)

    async def stop(self) -> None:
        """End the run where it is."""
        # Not in the run's own thread, where a push may be waiting for room.
        await asyncio.to_thread(self._running.stop)

    async def wait(self, timeout: float | None = None) -> bool:
        """Until the run has ended; see `Run.wait`."""
        return await asyncio.to_thread(self._running.wait, timeout)

    async def take(self, *, timeout: float = 0.0) -> pa.Table:
        """The answers that are ready and were not taken yet; waits so long, at most, for some."""
        return await asyncio.to_thread(partial(self._running.take, timeout=timeout))

    async def answer(self) -> pa.Table:
        """What an answer that changes is now."""
        return await self._call(self._running.answer)

    def metrics(self) -> dict[str, Any]:
        """The numbers of this run so far."""
        return self._running.metrics()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answers."""
        return self._running.schema

    @property
    def is_open(self) -> bool:
        """Whether rows may still be pushed."""
        return self._running.is_open

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """The answers as they come, until the run is finished or closed."""
        run = self._running
        while True:
            self._ready.clear()
            is_open = run.is_open  # asked first: what came before the end is still to be taken
            answer = self._answers.next(wait=False)
            if answer is not None:
                yield as_batch(answer)
            elif not is_open:
                run.driver.raise_failure()
                return
            else:
                await self._ready.wait()

    async def _hand_on(self, on_answer: OnAnswer) -> None:
        try:
            async for batch in self:
                given = on_answer(batch)
                if isawaitable(given):
                    await given
        except BaseException as error:
            await asyncio.to_thread(self._running.driver.fail, error)
            raise

    @property
    def _running(self) -> Run:
        if self._run is None:
            raise RuntimeError("this run has not begun: write `async with query.start_async() as run:`")
        return self._run

    @property
    def _answers(self) -> AnswerQueue:
        answers = self._running.driver.answers
        assert answers is not None, "it was started without on_answer"
        return answers

    async def _call(self, step: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, step)

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ready.set)
