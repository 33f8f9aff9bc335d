"""Collects what goes beside the answers of queries, bad records and late rows, until the host takes it to its sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.io.connectors.contract import BAD_RECORDS
from watersmeet.model.catalog import Stream
from watersmeet.model.side_sink import SideSink
from watersmeet.model.time import Times
from watersmeet.model.types import sql_type

# What late rows have beside their own columns: their stream, and the watermark that they missed.
LATE_STREAM, LATE_WATERMARK = "_stream", "_watermark"


class SideOutput:
    """One for each run of a query, or for all queries that are fed together: what several of them leave out is taken
    once. What is collected is the same whenever the same batches are repeated."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        named = list(streams)
        self.sinks: dict[str, SideSink] = {
            sink.name: sink for one in named for sink in (one.bad_to, one.late_to) if sink is not None
        }
        self.schemas: Mapping[str, pa.Schema] = {name: _schema_of(name, named) for name in self.sinks}
        self.collects = True  # a host that takes nothing to sinks says so
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._lock = Lock()  # who reads rows may be another thread than who answers them
        # Of each stream what came last: the same records come once for every query, and rows by their numbers.
        self._last_bad: dict[str, pa.RecordBatch] = {}
        self._last_late: dict[str, npt.NDArray[np.int64]] = {}

    def bad(self, stream: Stream, records: pa.RecordBatch) -> None:
        if stream.bad_to is None or not records.num_rows or self._last_bad.get(stream.name) is records:
            return
        self._last_bad[stream.name] = records
        self._put(stream.bad_to.name, records)

    def late(
        self,
        stream: Stream,
        rows: pa.RecordBatch,
        watermarks: Times,
        numbers: npt.NDArray[np.int64] | None = None,
        first: int = 0,
    ) -> None:
        """numbers: which rows of their stream these are, where several queries may leave out the same, and the first
        one of those that came together: of a row counts what the first of the queries says that leaves it out."""
        if stream.late_to is None or not rows.num_rows:
            return
        if numbers is not None:
            known = self._last_late.get(stream.name, numbers[:0])
            known = known[known >= first]
            self._last_late[stream.name] = np.union1d(known, numbers)
            new = np.flatnonzero(~np.isin(numbers, known))
            rows, watermarks = rows.take(pa.array(new)), watermarks[new]
        if rows.num_rows:
            self._put(stream.late_to.name, late_records(stream, rows, watermarks))

    def _put(self, sink: str, records: pa.RecordBatch) -> None:
        if not self.collects:
            return
        fitting = with_columns(records, self.schemas[sink])
        with self._lock:
            self._waiting.setdefault(sink, []).append(fitting)

    def take(self) -> dict[str, list[pa.RecordBatch]]:
        """What came since it was taken last, by the names of the sinks."""
        if not self.sinks:
            return {}
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        return waiting


def side_run(run: str, sink: str) -> str:
    """The name of a run for one of the sinks beside its answers: the same in all its lives.

    >>> len(side_run("0a1b2c3d", "late")), side_run("0a1b2c3d", "late") == side_run("0a1b2c3d", "bad")
    (12, False)
    """
    return sha256(f"{run} {sink}".encode()).hexdigest()[:12]


def late_schema(stream: Stream) -> pa.Schema:
    """The columns of late rows in a sink: their own, then where they are of and what they missed."""
    fields = [field.with_nullable(True) for field in stream.schema]
    return pa.schema([*fields, (LATE_STREAM, pa.string()), (LATE_WATERMARK, pa.timestamp("us"))])


def late_records(stream: Stream, rows: pa.RecordBatch, watermarks: Times) -> pa.RecordBatch:
    names = pa.array([stream.name]).take(pa.array([0] * rows.num_rows, pa.int64()))
    missed = pa.array(watermarks, pa.int64()).cast(pa.timestamp("us"))
    own = [rows.column(name) for name in stream.schema.names]
    return pa.RecordBatch.from_arrays([*own, names, missed], schema=late_schema(stream))


def _schema_of(sink: str, streams: Iterable[Stream]) -> pa.Schema:
    """The columns of all that goes to a sink; what one kind of it lacks is NULL there."""
    found: dict[str, pa.Field] = {}
    for stream in streams:
        parts = [BAD_RECORDS] if stream.bad_to is not None and stream.bad_to.name == sink else []
        parts += [late_schema(stream)] if stream.late_to is not None and stream.late_to.name == sink else []
        for field in (field for part in parts for field in part):
            before = found.setdefault(field.name, field)
            if before.type != field.type:
                raise OptionError(
                    f"sink {sink!r} would get a column {field.name!r} of two types, {sql_type(before.type)} and "
                    f"{sql_type(field.type)} of stream {stream.name!r}",
                    hint="give bad records and the late rows of each stream sinks of their own",
                )
    return pa.schema(list(found.values()))


def with_columns(records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same with all columns of a sink; what they lack is NULL."""
    columns = [
        records.column(field.name) if field.name in records.schema.names else pa.nulls(records.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
