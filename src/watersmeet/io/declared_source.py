"""Opens the source that the options of a declaration ask for, with its history before what comes live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError, SourceError
from watersmeet.io.bad_rows import OnBad, OnCounted
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.guarded import GuardedSource
from watersmeet.io.connectors.history import HistoryThenLive, handover_of, history_options
from watersmeet.io.connectors.opening import open_source, open_table
from watersmeet.io.connectors.registry import connector_of
from watersmeet.io.files import FileSource, open_files
from watersmeet.io.formats import format_named
from watersmeet.io.providers import is_provided, provided
from watersmeet.io.sources import Source, provided_source, source_of, with_times
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.arrival import arrival_of
from watersmeet.model.arriving import is_arrival, named_time
from watersmeet.model.catalog import Stream
from watersmeet.model.declaration import Declaration
from watersmeet.model.names import column_named, columns_hint


def open_declared(declared: Declaration, *, may_be_empty: bool = False) -> Source:
    """The source of a stream or a table: the rows that Python gave, or what WITH (source = …, path = …) asks for;
    options of other hosts are left alone. may_be_empty: its files may still come."""
    name, schema, options = declared.name, declared.schema, declared.options
    rounding, on_bad = declared.values.get("rounding", "error"), declared.values.get("on_bad", "error")
    if declared.is_given:
        return source_of(declared.data, name, schema, declared.reading, rounding, on_bad)
    kind = options.get("source", "").lower() or None
    if kind is not None and is_provided(kind):
        made = provided_source(provided(kind, options), name, kind, schema)
        return made if declared.reading is None else with_times(made, declared.reading, name)
    connector = connector_of("source", options)
    if connector is not None:
        if declared.is_static and connector.table is not None:
            return open_table(connector, name, options, schema)
        live = open_source(connector, name, options, schema, declared.reading)
        return with_history(live, declared) if "history" in options else live
    if kind is not None:
        format_named(kind, options)  # an unknown source is told before a missing path
    if "path" not in options:
        raise SourceError(f"{name!r} has no path to read from", hint="add path = '…' to its WITH (…)")
    return open_files(
        name, options["path"], kind, options, schema, rounding, declared.reading, may_be_empty=may_be_empty
    )


@dataclass(frozen=True)
class Kept:
    """The rows of a history from its beginning, in time order, whenever they are asked for."""

    stream: Stream

    def __call__(self, max_rows: int, on_skipped: OnCounted, on_bad: OnBad) -> Iterator[pa.RecordBatch]:
        return batches_of(self.stream, max_rows, on_skipped, on_bad)


def with_history(live: ConnectedSource, declared: Declaration) -> ConnectedSource:
    """The same stream with the history that its options say."""
    name, options, time = live.name, declared.options, declared.options.get("time", "")
    if is_arrival(time):
        raise OptionError(
            f"{name!r} has history and time = 'arrival', but rows of a history do not arrive",
            hint="name the column that holds the event time",
            option="time",
        )
    handover = handover_of(name, options)
    column = column_named(named_time(time), live.schema.names)
    if column is None:
        raise OptionError(f"{name!r} has no column {time!r}", hint=columns_hint(live.schema.names), option="time")
    kept = open_declared(Declaration.in_python("stream", name, history_options(options), schema=live.schema))
    # On Spark it is read by processes that run elsewhere, and it is read again from a place in the middle, so the files
    # stay the same.
    if isinstance(kept, FileSource):
        absolute = tuple(one.absolute() if isinstance(one, Path) else one for one in kept.paths)
        kept = replace(kept, paths=absolute, where="")
    values = declared.values
    judging = arrival_of({word: values.get(word) for word in ("on_null", "on_bad")})
    rounding = values.get("rounding", "error")
    past = Stream(name, live.schema, column, source=kept, arrival=judging, rounding=rounding)
    live = live.telling(replace(past, source=None), None)
    both = HistoryThenLive(Kept(past), live, past.schema, column, handover, in_step="max_drift" in options)
    return replace(live, partitioned=GuardedSource(live.partitioned.connector, both), held=past.schema, reading=None)
