"""What is read for queries: each stream once, of it the columns that any of them looks at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import pyarrow as pa

from watersmeet.hosts.local.execution import Execution
from watersmeet.io.broken_text import holds_text
from watersmeet.io.files import FileSource
from watersmeet.io.sources import TableSource
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.catalog import Statistics, Stream
from watersmeet.operators.contract import Operator
from watersmeet.runtime.bad_records import refusal
from watersmeet.runtime.clock import StreamClock
from watersmeet.runtime.sharing import is_same_stream

# With so many queries more a batch has as many rows more again, up to so many times as many.
CROWD, MOST_TIMES = 64, 8


class Looking(Protocol):
    """A query that looks at streams."""

    execution: Execution
    operator: Operator
    streams: Mapping[str, Stream]
    batch_rows: int

    @property
    def clocks(self) -> Mapping[str, StreamClock]: ...

    def columns_of(self, stream: str) -> frozenset[str] | None: ...


L = TypeVar("L", bound=Looking)


def lines_of(runs: Sequence[L]) -> list[tuple[Stream, list[L]]]:
    """What is read, and for whom."""
    lines: list[tuple[Stream, list[L]]] = []
    for run in runs:
        for stream in run.streams.values():
            for other, readers in lines:
                if is_same_stream(stream, other) and _judged(run, stream) == _judged(readers[0], other):
                    readers.append(run)
                    break
            else:
                lines.append((stream, [run]))
    return lines


def _judged(run: Looking, stream: Stream) -> frozenset[str] | None:
    """The columns that decide which records of a stream are bad, where some are left out and not all columns are read:
    what another query looks at must not decide about this one."""
    looked_at = _looked_at([run], stream)
    if looked_at is None or not stream.arrival.keeps_going:
        return None
    return frozenset(one.name for one in stream.schema if holds_text(one.type) and one.name in looked_at)


def batches_for(stream: Stream, readers: Sequence[Looking]) -> Iterator[pa.RecordBatch]:
    """The rows of a stream; whoever looks at it hears of what is none."""

    def bad(records: pa.RecordBatch) -> None:
        if not stream.arrival.keeps_going:
            raise refusal(stream, records)
        for run in list(readers):
            run.execution.leave_out(stream.name, records)

    def skip(rows: int) -> None:
        for run in list(readers):
            run.clocks[stream.name].skip(rows)

    def hand_over(rows: int) -> None:
        for run in list(readers):
            run.clocks[stream.name].hand_over(rows)

    # Each part takes its own. A batch costs every query something, however few of its rows concern it.
    most_rows = max(run.batch_rows * run.operator.parts for run in readers) * min(1 + len(readers) // CROWD, MOST_TIMES)
    return batches_of(_as_read(stream, readers), most_rows, skip, bad, hand_over)


def _looked_at(readers: Sequence[Looking], stream: Stream) -> frozenset[str] | None:
    """The columns that are read of tables and of files that can leave columns out: what any query looks at. None: all
    of them."""
    if not isinstance(stream.source, FileSource | TableSource):
        return None
    if stream.bad_to is not None or stream.late_to is not None:  # rows go to a sink whole
        return None
    found = frozenset({stream.time})
    for run in readers:
        columns = run.columns_of(stream.name)
        if columns is None:
            return None
        found |= columns
    source = stream.source.only(found)
    return None if source is stream.source or source.columns is None else source.columns | {stream.time}


def _as_read(stream: Stream, readers: Sequence[Looking]) -> Stream:
    looked_at = _looked_at(readers, stream)
    if looked_at is None:
        return stream
    schema = pa.schema([one for one in stream.schema if one.name in looked_at])
    # What is known of the rows has guided the plan; it may be of columns that are not here.
    return replace(stream, source=stream.source.only(looked_at), schema=schema, statistics=Statistics())


def flows(stream: Stream, lines: int) -> bool:
    """Whether a thread waits for the rows of a stream: only where another may be read instead of it, or time go on
    without it."""
    waits = lines == 1 and stream.arrival.idle_us is None and not stream.by_arrival
    return not stream.source.at_hand and not waits


def read_rows(readers: Sequence[Looking]) -> int | None:
    """Of how many rows pieces are: what suits the most demanding."""
    if len(readers) == 1:
        return readers[0].operator.read_rows
    return min((rows for run in readers if (rows := run.operator.read_rows) is not None), default=None)
