"""What an application holds of a running query: rows are pushed by any thread, answers are taken by any other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import Future
from html import escape
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from watersmeet.errors import RunError, UnsupportedError
from watersmeet.hosts.local.answer_queue import AnswerQueue
from watersmeet.hosts.local.driver import Driver
from watersmeet.hosts.local.instants import datetime_of, instant_us
from watersmeet.operators.answers import as_batch, as_batches
from watersmeet.runtime.run_settings import checkpoint_place


class Run:
    """A query that rows are pushed into. `query.start()` makes one.

    Rows are joined in the thread that pushes them, one push at a time, so a push returns when its answers are there.
    All methods may be called from any thread. Leaving a `with` block finishes the run; leaving it by an error stops
    it, and nothing more is answered.

    >>> import datetime as dt
    >>> import watersmeet as wm
    >>> session = wm.Session()
    >>> session.stream("orders", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    >>> session.stream("paid", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    >>> query = session.sql("SELECT o.id FROM orders o, paid p WHERE o.id = p.id WINDOW = 1 HOUR")
    >>> noon = dt.datetime(2026, 1, 1, 12)
    >>> with query.start() as run:
    ...     run.push("orders", [{"id": 1, "ts": noon}, {"id": 2, "ts": noon}])
    ...     run.push("paid", {"id": [2], "ts": [noon + dt.timedelta(minutes=5)]})
    ...     run.take().to_pylist()
    [{'id': 2}]

    With a checkpoint the query goes on from life to life of its process: `query.start(checkpoint="dir")`. Streams with
    files are read by threads of their own; rows of others are pushed, and a push returns when its rows are on the disk.
    Everything is answered in one thread of the run's. Leaving a `with` block stops the run, with its state saved; the
    same `start` goes on from there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as state:
    ...     with query.start(checkpoint=state) as run:
    ...         _ = run.push("orders", [{"id": 1, "ts": noon}, {"id": 2, "ts": noon}])
    ...     with query.start(checkpoint=state) as run:
    ...         _ = run.push("paid", {"id": 2, "ts": noon + dt.timedelta(minutes=5)})
    ...         run.take(timeout=10).to_pylist()
    [{'id': 2}]
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._execution = driver.execution
        self._schema = driver.execution.plan.output_schema  # which takes a while to find

    # ---- rows and time go in ----------------------------------------------------------------------------------------

    def push(self, stream: str, rows: Any, *, timeout: float | None = None) -> int | None:
        """Take new rows of a stream, in the order in which they came.

        rows: a pyarrow Table or RecordBatch, a pandas or polars frame, a list of dicts (one per row; a name that is
        left out is NULL), a dict of columns, or a dict of values, which is one row. Rows that do not fit the stream
        are refused as a whole, and the run goes on without them.
        timeout: how many seconds to wait, at most, while `max_waiting` answers wait to be taken; by default what
        `start` was told.

        With a checkpoint it returns when the rows are on the disk, with the number of the batch they are in: their
        answers are exact from then on, whatever happens. If that takes longer than `timeout`, nobody knows whether the
        rows are in: `taken` tells.
        """
        return self.driver.push(self._execution.named(stream), rows, timeout)

    def push_soon(self, stream: str, rows: Any, *, timeout: float | None = None) -> list[Future[int]]:
        """With a checkpoint, the same without waiting for the disk: futures that are done when it has the rows, one for
        each batch. Coroutines wait for them with `asyncio.wrap_future`."""
        return self.driver.push_soon(self._execution.named(stream), rows, timeout)

    def advance(self, stream: str, time: Any) -> None:
        """No row of this stream before this time will come any more: answers need not wait for it.

        time: a datetime (UTC if it has no zone), or a text such as '2026-01-31 12:00:00'. Rows before it that come
        all the same may be late, whatever the stream's lateness.
        """
        name = self._execution.named(stream)
        self.driver.advance(name, instant_us(time))

    def end(self, stream: str) -> None:
        """No row of this stream will come any more at all, with a checkpoint in any life; the others go on."""
        self.driver.end(self._execution.named(stream))

    def flush(self) -> None:
        """Answer all that waits for time to go on. Rows that come later and are not newer than that are late. With a
        checkpoint it returns when that is on the disk; the answers follow."""
        self.driver.flush()

    def taken(self, stream: str) -> int:
        """How many rows of a stream have come, with a checkpoint in all lives: whoever pushes after a crash goes on
        behind them."""
        return self.driver.taken(self._execution.named(stream))

    # ---- life -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """No row will come any more: everything that waits is answered. What was not taken yet can still be. With a
        checkpoint it is `flush`, then `stop`: the next start may bring more."""
        self.driver.finish()

    def stop(self) -> None:
        """End the run where it is, without answering what waits for time to go on.

        With a checkpoint the batch in hand is finished and the state saved, so that all this waits for the next start.
        Answers that were not taken by then come again there, also if they are taken from this run later.
        """
        self.driver.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Until the run has ended, because it was stopped, failed, or has read all with `available_now`; raises what
        made it fail. Whether it has ended, if only so many seconds are waited for."""
        return self.driver.wait(timeout)

    @property
    def is_open(self) -> bool:
        """Whether rows may still be pushed; if not, the run was stopped, has failed, or has read all."""
        return self.driver.is_open

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.driver.leave(error)

    # ---- answers come out -------------------------------------------------------------------------------------------

    def take(self, *, timeout: float = 0.0) -> pa.Table:
        """The answers that are ready and were not taken yet; none is an empty table.

        timeout: wait for so many seconds, at most, until there are some.
        """
        found = self._takable("take()").take(timeout)
        if not found:
            self.driver.raise_failure()
        return pa.Table.from_batches(as_batches(found), schema=self.schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The answers as they come, until the run ends. Waits for them, so somebody else pushes."""
        answers = self._takable("iteration")
        while (one := answers.next()) is not None:
            yield as_batch(one)
        self.driver.raise_failure()

    def answer(self) -> pa.Table:
        """What an answer that changes is now: at the watermark, or after `finish` at the last event; with a checkpoint,
        where `finish` has answered all that waited, at its end."""
        self.driver.raise_failure()
        present = self.driver.answer()
        if present is None:
            raise UnsupportedError(
                "this query gives rows that stay, so it has no present answer",
                hint="they go to the sink, to on_answer, or to take(); answers change with GROUP BY, DISTINCT, set "
                "operations and ORDER BY … LIMIT",
            )
        return present

    def metrics(self) -> dict[str, Any]:
        """The numbers of this run so far, with a checkpoint in all its lives; late rows by stream are under
        `late_by_stream`."""
        answers = self.driver.answers
        return {**self.driver.metrics(), "waiting_answers": 0 if answers is None else answers.rows}

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answers."""
        return self._schema

    @property
    def whole_from(self) -> dt.datetime:
        """From which instant on, in event time (UTC), its answer is what it would be if the query had always run. A
        query that was added beside others (`Runs.add`) begins with the rows that they have kept, and says nothing of
        before. It is `datetime.min` where no row is missing, and `datetime.max` where the answer can never be whole, or
        as long as rows have to come that a window counts."""
        return datetime_of(self._execution.whole_us)

    # ---- what a checkpoint keeps ------------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> Path:
        """Where the progress of this run is kept."""
        return self.driver.checkpoint

    @property
    def batches(self) -> int:
        """With a checkpoint, how many batches there were, in all lives."""
        return self.driver.batches

    def savepoint(self, out: str | PathLike[str], *, timeout: float | None = None) -> None:
        """With a checkpoint: write a savepoint, from which another run can go on elsewhere, in this process or on
        Spark. It is taken between two batches, and of a run that has ended as it is; this one may go on. All answers
        before it are in the sink when this returns; such as wait to be taken can still be taken here.

        out: a folder that is not there yet, or an address in a store. timeout: wait for so many seconds, at most, until
        the batch in hand is done."""
        self.driver.savepoint(checkpoint_place(out, "out"), timeout)

    @property
    def repeated_batches(self) -> int:
        """How many of them were answered once more at this start."""
        return self.driver.repeated_batches

    # ---- for people -------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Run over {self._streams}: {self.driver.state}, {self.driver.extent}>"

    def _repr_html_(self) -> str:
        """For notebooks: how far the run is."""
        from watersmeet.io.showing import html_table

        numbers = self.metrics()
        shown = ["rows_in", "results", "waiting_answers", "late_rows", "kept_rows", "held_back_by"]
        cells = [[name, str(numbers[name])] for name in shown]
        said = f"{self._streams}: {self.driver.state}, {self.driver.extent}"
        return f"<p><b>Run</b> over {escape(said)}</p>" + html_table(["", ""], cells)

    @property
    def _streams(self) -> str:
        return ", ".join(self._execution.streams)

    def _takable(self, how: str) -> AnswerQueue:
        if self.driver.answers is None:
            goes_to = self.driver.answers_go_to
            raise RunError(
                f"the answers of this run go to {goes_to}, so there is nothing for {how}",
                hint=f"start() without {goes_to.split()[-1]} keeps them to be taken",
            )
        return self.driver.answers
