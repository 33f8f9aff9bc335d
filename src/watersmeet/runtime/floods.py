"""Rows that bring about far more answers than anybody asks for: told before they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, format_instant
from watersmeet.operators.contract import Operator
from watersmeet.runtime.clock import QueryClock
from watersmeet.runtime.left_out import FAR_AHEAD_US, Tell
from watersmeet.warning import DataWarning

MANY = 10_000_000


class Floods:
    """Tells of each once."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.way_out: Callable[[], str] = lambda: ""  # what else would do, if the run has come this far
        self._warned_us = BEGINNING_US

    def look(self, operator: Operator, clock: QueryClock) -> None:
        """To be called between two blocks of answers if `MANY` are still to come."""
        if clock.watermark_us > self._warned_us:
            self._warned_us = clock.watermark_us
            newest = max(clock.clocks.values(), key=lambda one: one.last_us)
            sentence = flood_sentence(operator.to_come, newest.stream.name, newest.last_us, newest.wall.today_us())
            way_out = self.way_out()
            self.tell(DataWarning("many_answers", f"{sentence}; {way_out}" if way_out else sentence))


def looked_after(
    answers: Iterator[pa.RecordBatch],
    operator: Operator,
    newest: Callable[[], tuple[str, int]],
    tell: Callable[[str, int], None],
) -> Iterator[pa.RecordBatch]:
    """The same where whoever answers has no clock of the query at hand. newest: the stream with the newest row, and the
    time of that. tell: hears also about how many bytes the answers are."""
    has_warned = False
    for one in answers:
        if not has_warned and operator.to_come >= MANY:
            has_warned = True
            size = operator.to_come * one.nbytes // max(one.num_rows, 1)
            tell(flood_sentence(operator.to_come, *newest(), time.time_ns() // 1_000), size)
        yield one


def flood_sentence(to_come: int, stream: str, last_us: int, today_us: int) -> str:
    row = f"the row of {format_instant(last_us)} in stream {stream!r}"
    if last_us <= today_us + FAR_AHEAD_US:
        return f"{to_come:,} more answers come of {row}; a longer EVERY, or slide of HOP, gives fewer"
    return (
        f"{to_come:,} more answers come of {row}, which lies in the future; max_future='1 hour' keeps such rows from "
        "moving time"
    )
