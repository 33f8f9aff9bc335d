"""A run with a checkpoint as an application holds it: rows go in, answers come out, and the next start goes on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from watersmeet.errors import RunError, UnsupportedError
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.kept_answers import KeptAnswers, NotTaken
from watersmeet.hosts.local.instants import instant_us
from watersmeet.runtime.metrics import Metrics


class DurableRun:
    """A query that goes on from life to life of its process. `query.start(checkpoint="dir")` makes one.

    Streams with files are read by threads of their own; rows of others are pushed, and a push returns when its rows are
    on the disk. Everything is answered in one thread of the run's. All methods may be called from any thread. Leaving a
    `with` block stops the run, with its state saved; the same `start` goes on from there.

    >>> import datetime as dt, tempfile
    >>> import watersmeet as wm
    >>> session = wm.Session()
    >>> session.stream("orders", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    >>> session.stream("paid", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    >>> query = session.sql("SELECT o.id FROM orders o, paid p WHERE o.id = p.id WINDOW = 1 HOUR")
    >>> noon = dt.datetime(2026, 1, 1, 12)
    >>> with tempfile.TemporaryDirectory() as state:
    ...     with query.start(checkpoint=state) as run:
    ...         _ = run.push("orders", [{"id": 1, "ts": noon}, {"id": 2, "ts": noon}])
    ...     with query.start(checkpoint=state) as run:
    ...         _ = run.push("paid", {"id": 2, "ts": noon + dt.timedelta(minutes=5)})
    ...         run.take(timeout=10).to_pylist()
    [{'id': 2}]
    """

    def __init__(self, run: DurableExecution, kept: KeptAnswers | None, timeout_s: float | None) -> None:
        """kept: where answers wait, unless they go elsewhere."""
        self._run, self._kept, self._timeout_s = run, kept, timeout_s
        self._is_told = False  # whether somebody was told what ended it

    # ---- rows and time go in ----------------------------------------------------------------------------------------

    def push(self, stream: str, rows: Any, *, timeout: float | None = None) -> int:
        """Take new rows of a stream, in the order in which they came; returns when they are on the disk, with the
        number of the batch they are in. Their answers are exact from then on, whatever happens.

        rows: as for `Run.push`. Rows that do not fit the stream are refused as a whole, and the run goes on.
        timeout: how many seconds to wait, at most, for room and for the disk; by default what `start` was told. After
        that nobody knows whether the rows are in: `taken` tells.
        """
        self._check_elsewhere("push()", "push_soon() does not wait")
        timeout = self._timeout_s if timeout is None else timeout
        futures = self._pushed(stream, rows, timeout)
        try:
            return max((future.result(timeout) for future in futures), default=self._run.progress.number)
        except NotInTime:
            raise self._not_in_time(stream, timeout) from None

    def _not_in_time(self, stream: str, timeout: float | None) -> RunError:
        waiting = 0 if self._kept is None else self._kept.rows
        why = f": {waiting:,} rows of the answer wait to be taken" if waiting else ""
        return RunError(
            f"the rows pushed to {stream!r} were not on the disk within {timeout:g} s{why}",
            hint=f"they still come to it when there is room, so do not push them again; taken({stream!r}) tells how "
            "many rows of it are in",
        )

    def push_soon(self, stream: str, rows: Any, *, timeout: float | None = None) -> list[Future[int]]:
        """The same without waiting for the disk: futures that are done when it has the rows, one for each batch.
        Coroutines wait for them with `asyncio.wrap_future`."""
        timeout = self._timeout_s if timeout is None else timeout
        return self._pushed(stream, rows, 0.0 if self._run.is_own_thread else timeout)

    def _pushed(self, stream: str, rows: Any, timeout: float | None) -> list[Future[int]]:
        self._check_pushed(stream, "pushed")
        return [self._run.push_soon(stream, one, timeout_s=timeout) for one in self._run.checked(stream, rows)]

    def advance(self, stream: str, time: Any) -> None:
        """No row of this stream before this time will come any more; as of `Run`, and it is kept too."""
        self._check_elsewhere("advance()", "call it from another thread")
        self._check_pushed(stream, "told how far it is")
        self._run.advance(stream, instant_us(time))

    def end(self, stream: str) -> None:
        """No row of this stream will come any more at all, in any life; the others go on."""
        self._check_elsewhere("end()", "call it from another thread")
        self._check_pushed(stream, "ended")
        self._run.end(stream)

    def flush(self) -> None:
        """Answer all that waits for time to go on. Rows that come later and are not newer than that are late."""
        self._check_elsewhere("flush()", "call it from another thread")
        self._run.flush()

    def taken(self, stream: str) -> int:
        """How many rows of a stream have come, in all lives. Whoever pushes after a crash goes on behind them."""
        return self._run.taken(stream)

    # ---- life -------------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Until the run has ended, because it was stopped, failed, or has read all with `available_now`; raises what
        made it fail. Whether it has ended, if only so many seconds are waited for."""
        self._check_elsewhere("wait()", "call it from another thread")
        try:
            return self._run.wait(timeout)
        except NotTaken:
            return True
        except BaseException:
            self._is_told = self._run.failed
            raise

    def stop(self) -> None:
        """Finish the batch in hand, save the state, and end; what waits for time to go on waits for the next start.

        Answers that were not taken by then come again at the next start, also if they are taken from this run later.
        """
        self._run.request_stop()
        if self._kept is not None:
            self._kept.end()
        if not self._run.is_own_thread:
            self.wait()

    def finish(self) -> None:
        """`flush`, then `stop`."""
        self.flush()
        self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        known = self._is_told or error is not None  # what went wrong was raised before, or is on its way
        try:
            self.stop()
        except Exception:
            if not known:
                raise

    @property
    def is_open(self) -> bool:
        """Whether it goes on; if not, it was stopped, has failed, or has read all."""
        return self._run.is_open

    # ---- answers come out -------------------------------------------------------------------------------------------

    def take(self, *, timeout: float = 0.0) -> pa.Table:
        """The answers that are ready and were not taken yet; none is an empty table.

        timeout: wait for so many seconds, at most, until there are some.
        """
        found = self._takable("take()").all(self._has_ended, timeout)
        if not found:
            self._raise_failure()
        return pa.Table.from_batches(found, schema=self.schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The answers as they come, until the run ends. Waits for them, so somebody else pushes."""
        kept = self._takable("iteration")
        while (batch := kept.next(self._has_ended)) is not None:
            yield batch
        self._raise_failure()

    def answer(self) -> pa.Table:
        """What an answer that changes is now: at the watermark."""
        self._raise_failure()
        present = self._run.answer()
        if present is None:
            raise UnsupportedError(
                "this query gives rows that stay, so it has no present answer",
                hint="they go to the sink, to on_answer, or to take(); answers change with GROUP BY, DISTINCT, set "
                "operations and ORDER BY … LIMIT",
            )
        return present

    def metrics(self) -> dict[str, Any]:
        """The numbers of this run, in all its lives: late rows by stream are under `late_by_stream`."""
        waiting = 0 if self._kept is None else self._kept.rows
        return {**self._run.metrics(), "waiting_answers": waiting}

    @property
    def latest(self) -> Metrics:
        """The numbers of this run as they were when somebody last asked."""
        return self._run.execution.metrics

    def is_latest_of(self, metrics: object) -> bool:
        """Whether these are the numbers of this run, which are brought up to date when they are asked for."""
        return self._run.execution.metrics is metrics

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answers."""
        return self._run.plan.output_schema

    @property
    def checkpoint(self) -> Path:
        """Where its progress is kept."""
        return self._run.folder

    @property
    def batches(self) -> int:
        """How many batches there were, in all lives."""
        return self._run.progress.number + 1

    @property
    def repeated_batches(self) -> int:
        """How many of them were answered once more at this start."""
        return self._run.progress.repeated

    def __repr__(self) -> str:
        return f"<DurableRun over {self._streams}: {self._state}, {self.batches:,} batches in {self.checkpoint}>"

    def _repr_html_(self) -> str:
        """For notebooks: how far the run is."""
        from watersmeet.io.showing import html_table

        told = self.metrics()
        shown = ["rows_in", "results", "waiting_answers", "late_rows", "window_rows", "held_back_by"]
        cells = [["batches", f"{self.batches}"], *([name, str(told[name])] for name in shown)]
        return f"<p><b>DurableRun</b> over {escape(self._streams)}: {self._state}</p>" + html_table(["", ""], cells)

    # ---- inside -----------------------------------------------------------------------------------------------------

    @property
    def _streams(self) -> str:
        return ", ".join(self._run.execution.streams)

    @property
    def _state(self) -> str:
        if self._run.is_open:
            return "running"
        return "ended by an error" if self._failure() is not None else "stopped"

    def _failure(self) -> BaseException | None:
        error = self._run.error
        return None if isinstance(error, NotTaken) else error

    def _raise_failure(self) -> None:
        error = self._failure()
        if error is not None:
            self._is_told = True
            raise error

    def _has_ended(self) -> bool:
        return self._run.has_ended

    def _takable(self, how: str) -> KeptAnswers:
        if self._kept is None:
            raise RunError(
                f"the answers of this run go to its sink or to on_answer, so there is nothing for {how}",
                hint="start() without sink and on_answer keeps them to be taken",
            )
        return self._kept

    def _check_pushed(self, stream: str, what: str) -> None:
        name = self._run.execution.named(stream)
        if self._run.is_read(name):
            raise RunError(
                f"stream {name!r} is read by the run itself, so it cannot be {what}",
                hint=f"declare it by its columns alone to push it: session.stream({name!r}, schema=…, time=…)",
            )

    def _check_elsewhere(self, how: str, hint: str) -> None:
        """In the thread that answers, nothing can be waited for that it would do itself."""
        if self._run.is_own_thread:
            raise RunError(f"{how} would wait for ever inside on_answer or on_late", hint=hint)
