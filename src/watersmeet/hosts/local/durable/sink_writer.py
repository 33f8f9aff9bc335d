"""Answers on their way into a sink, in a thread of their own: a sink that commits must not hold up the rows.

Answers of many batches are committed together, under the number of the last. Only so many rows wait; then whoever
brings more waits for the sink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from time import monotonic

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.hosts.local.news import News
from watersmeet.io.connectors.contract import NumberedSink
from watersmeet.io.too_many_files import tried_again
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.runtime.run_settings import RunSettings

EVERY_S = 1.0  # how often answers are committed, unless somebody says otherwise


class SinkWriter:
    def __init__(
        self,
        sink: NumberedSink,
        settings: RunSettings,
        on_error: Callable[[BaseException], None],
        before: Callable[[int], None] = lambda number: None,
    ) -> None:
        """before: is called with the number of a batch before the answers up to it are committed."""
        self._sink = sink
        self._before = before
        # A sink of files may want few large ones, and says so.
        self._is_patient = sink.commit_every_s is not None
        self._every_s = _every_s(sink, settings)
        self._settings = settings
        self._on_error = on_error
        self._changed = News()
        self._waiting: list[Answer] = []
        self._rows = 0
        self._since_s = 0.0  # when the first of them came
        self._last = -1  # the last batch whose answers came here
        self.committed = -1  # up to this batch all answers are in the sink
        self._hurry = False
        self._closed = False
        self._ended = False  # nothing is committed any more
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="watersmeet commits", daemon=True)
        self._thread.start()

    def put(self, number: int, answers: Sequence[Answer]) -> None:
        """Take the answers of a batch; waits while too many rows wait for the sink."""
        rows = sum(one.num_rows for one in answers)
        with self._changed:
            while self._rows and self._rows + rows > self._settings.most_uncommitted and not self._has_stopped:
                self._changed.wait()
            self._check()
            is_first = not self._waiting
            if rows and is_first:
                self._since_s = monotonic()
            self._waiting += [one for one in answers if one.num_rows]
            self._rows += rows
            self._last = number
            if rows and (is_first or self._rows >= self._settings.commit_rows):
                self._changed.tell()

    def flush(self, number: int) -> None:
        """Return when all answers up to a batch are in the sink. A sink that wants few commits is waited for."""
        with self._changed:
            while self.committed < number and not self._has_stopped:
                if not (self._is_patient and self._waiting):
                    self._hurry = True
                    self._changed.tell()
                self._changed.wait()
            self._check()
            if self.committed < number:  # another sink of the run has failed
                raise RunError("the run ended before all of its answers were in their sink")

    def hurry(self) -> None:
        """From now on nothing waits for the time of its commit."""
        with self._changed:
            self._is_patient = False
            self._hurry = True
            self._changed.tell()

    def close(self, *, commit: bool) -> None:
        """End the thread; what waits is committed, or left for a later run."""
        with self._changed:
            self._closed = True
            self._hurry = commit
            self._changed.tell()
        self._thread.join()
        self._sink.close()
        if commit:
            self._check()

    @property
    def _has_stopped(self) -> bool:
        return self._error is not None or self._ended

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while self._next():
                pass
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.tell()
            self._on_error(error)
        finally:
            with self._changed:
                self._ended = True
                self._changed.tell()

    def _next(self) -> bool:
        with self._changed:
            while not self._is_due():
                if self._closed:
                    return False
                self._changed.wait(self._patience_s())
            answers, number = self._waiting, self._last
            self._waiting = []
            self._hurry = False
        if answers:
            self._before(number)
            rows = _as_one(as_batches(answers))
            tried_again(lambda: self._sink.commit(number, rows))
        with self._changed:
            self._rows = sum(one.num_rows for one in self._waiting)
            self.committed = number
            self._changed.tell()
        return True

    def _is_due(self) -> bool:
        if self._hurry:
            return self.committed < self._last
        if self._closed or not self._waiting:
            return False
        return self._rows >= self._settings.commit_rows or monotonic() >= self._since_s + self._every_s

    def _patience_s(self) -> float | None:
        return max(self._since_s + self._every_s - monotonic(), 0.0) if self._waiting else None


def _every_s(sink: NumberedSink, settings: RunSettings) -> float:
    """What a sink was told itself comes before what the run was told; if neither was, a sink knows what it costs."""
    if sink.commit_every_s is not None:
        return sink.commit_every_s
    if settings.commit_every_s is not None:
        return settings.commit_every_s
    return 0.0 if sink.commits_soon else EVERY_S


def _as_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Many small batches as one, which files hold better."""
    return batches if len(batches) <= 1 else [pa.concat_batches(batches)]
