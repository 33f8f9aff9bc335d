"""What a person is told of rows that came too late or that wait, in words."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from watersmeet.model.time import format_interval
from watersmeet.model.wording import counted
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.progress import waiting
from watersmeet.warning import DataWarning, WatersmeetWarning, warn

log = logging.getLogger("watersmeet")
MILLISECOND_US = 1_000


def tell_both(what: WatersmeetWarning) -> None:
    """A warning reaches a notebook or a test, the log a service."""
    log.warning("%s", what.message)
    warn(what)


def late_text(metrics: Metrics) -> str:
    """How many rows were left out, of which streams, how late they were, and what would keep them.

    >>> late_text(Metrics(late_rows=3, late_by_stream={"a": 2, "b": 1}, late_by_us={"a": 2_500_001, "b": 1}))
    "3 rows came too late and were left out of the answer: 2 of a, by up to 2 s 501 ms, 1 of b, by up to 1 ms; a \
longer lateness lets such rows in, on_late = 'error' ends the query instead"
    """
    rows = metrics.late_rows
    told = ", ".join(
        f"{count:,} of {stream}, by up to {_rounded_up(metrics.late_by_us.get(stream, 0))}"
        for stream, count in metrics.late_by_stream.items()
        if count
    )
    which = f": {told}" if told else ""
    came = f"{rows:,} row{'s' if rows != 1 else ''} came too late and {'were' if rows != 1 else 'was'} left out of the"
    return f"{came} answer{which}; a longer lateness lets such rows in, on_late = 'error' ends the query instead"


def skipped_text(metrics: Metrics) -> str:
    """How many rows had no event time, and of which streams.

    >>> skipped_text(Metrics(skipped_rows=3, skipped_by_stream={"a": 2, "b": 1}))
    "3 rows have no event time and were left out, as on_null = 'skip' says: 2 of a, 1 of b"
    """
    rows = metrics.skipped_rows
    have = "row has no event time and was" if rows == 1 else "rows have no event time and were"
    of = ", ".join(f"{count:,} of {stream}" for stream, count in metrics.skipped_by_stream.items() if count)
    return f"{rows:,} {have} left out, as on_null = 'skip' says" + (f": {of}" if of else "")


def bad_text(metrics: Metrics) -> str:
    """How many records could not be read, of which streams and why.

    >>> bad_text(Metrics(bad_rows=3, bad_by_reason={"a: not json": 2, "b: null time": 1}))
    '3 records cannot be read and were left out, as on_bad says: 2 of a: not json, 1 of b: null time'
    """
    records = metrics.bad_rows
    were = "record cannot be read and was" if records == 1 else "records cannot be read and were"
    of = ", ".join(f"{count:,} of {what}" for what, count in metrics.bad_by_reason.items() if count)
    return f"{records:,} {were} left out, as on_bad says" + (f": {of}" if of else "")


def left_out_text(metrics: Metrics) -> str:
    """How many rows a history and what comes live both have, which come once.

    >>> left_out_text(Metrics(left_out_by_stream={"a": 1200}))
    '1,200 rows of a lie on the other side of the handover and were left out: there they come once'
    """
    of = ", ".join(f"{count:,} rows of {stream}" for stream, count in metrics.left_out_by_stream.items() if count)
    return f"{of} lie on the other side of the handover and were left out: there they come once"


def skipped_batches_text(metrics: Metrics) -> str:
    """How many rows came in batches that somebody wanted to be left out.

    >>> skipped_batches_text(Metrics(skipped_batch_rows=1200))
    '1,200 rows came in batches that were left out, as skip_batches says'
    """
    return f"{counted(metrics.skipped_batch_rows, 'row')} came in batches that were left out, as skip_batches says"


@dataclass(frozen=True)
class Telling:
    """Something that is left out of answers: how many rows, how that is said, and which warning it is."""

    count: Callable[[Metrics], int]
    text: Callable[[Metrics], str]
    code: str

    def warn(self, name: str, metrics: Metrics) -> None:
        tell_both(DataWarning(self.code, f"{name}: {self.text(metrics)}"))


TELLINGS = (
    Telling(lambda metrics: metrics.late_rows, late_text, "late_rows"),
    Telling(lambda metrics: metrics.skipped_rows, skipped_text, "skipped_rows"),
    Telling(lambda metrics: metrics.bad_rows, bad_text, "bad_rows"),
    Telling(lambda metrics: sum(metrics.left_out_by_stream.values()), left_out_text, "handed_over_rows"),
    Telling(lambda metrics: metrics.skipped_batch_rows, skipped_batches_text, "skipped_batch"),
)


def warn_of_skipped(name: str, metrics: Metrics) -> None:
    Telling(lambda told: told.skipped_rows, skipped_text, "skipped_rows").warn(name, metrics)


def _rounded_up(us: int) -> str:
    """In whole milliseconds: a lateness of that length is enough."""
    return format_interval(-(-us // MILLISECOND_US) * MILLISECOND_US)


def warn_of_waiting(name: str, metrics: Metrics) -> None:
    """Say what a query leaves behind that has ended, if it does."""
    told = waiting(metrics)
    if told:
        text = f"{name} has ended, but {told}; later rows bring their answers, or query.finish() does now"
        tell_both(DataWarning("waiting_rows", text))
