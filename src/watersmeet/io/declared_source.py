"""Opens the source that the options of a declaration ask for, with its history before what comes live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from watersmeet.errors import OptionError, SourceError
from watersmeet.io.bad_rows import OnBad
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.guarded import GuardedSource
from watersmeet.io.connectors.history import HistoryThenLive, handover_of, history_options
from watersmeet.io.connectors.opening import open_source, open_table
from watersmeet.io.connectors.registry import connector_of
from watersmeet.io.event_times import OnSkipped
from watersmeet.io.files import FileSource, open_files
from watersmeet.io.formats import format_named
from watersmeet.io.providers import is_provided, provided
from watersmeet.io.sources import Source, provided_source, with_times
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.arrival import PARSERS, arrival_of
from watersmeet.model.arriving import is_arrival, named_time
from watersmeet.model.catalog import Stream
from watersmeet.model.names import column_named, columns_hint
from watersmeet.model.time_reading import TimeReading, time_reading

_OF_READING = ("time_unit", "time_format", "time_zone", "rounding")


def source_from_options(
    name: str,
    options: Mapping[str, str],
    declared: pa.Schema | None,
    *,
    may_be_empty: bool = False,
    is_table: bool = False,
) -> Source:
    """The source that WITH (source = …, path = …) asks for; options of other hosts are left alone. may_be_empty: its
    files may still come. is_table: it is read once, for a static table."""
    given = {key.lower(): value for key, value in options.items()}
    kind = given.get("source", "").lower() or None
    path = given.get("path")
    if kind is not None and is_provided(kind):
        made = provided_source(provided(kind, given), name, kind, declared)
        reading = reading_from(given)
        return made if reading is None else with_times(made, reading, name)
    connector = connector_of("source", given)
    if connector is not None:
        if is_table and connector.table is not None:
            return open_table(connector, name, given, declared)
        live = open_source(connector, name, given, declared, reading_from(given))
        return with_history(live, given) if "history" in given else live
    if kind is not None:
        format_named(kind, given)  # an unknown source is told before a missing path
    if not path:
        raise SourceError(f"{name!r} has no path to read from", hint="add path = '…' to its WITH (…)")
    rounding, reading = given.get("rounding", "error").lower(), reading_from(given)
    return open_files(name, path, kind, given, declared, rounding, reading, may_be_empty=may_be_empty)


def reading_from(options: Mapping[str, str]) -> TimeReading | None:
    """How event times are written, as options say it, whose names are in lower case; they were checked before."""
    said = {name: PARSERS[name](options[name]) for name in _OF_READING if name in options}
    time = options.get("time")
    return time_reading(None if time is None else named_time(time), said)


@dataclass(frozen=True)
class Kept:
    """The rows of a history from its beginning, in time order, whenever they are asked for."""

    stream: Stream

    def __call__(self, max_rows: int, on_skipped: OnSkipped, on_bad: OnBad) -> Iterator[pa.RecordBatch]:
        return batches_of(self.stream, max_rows, on_skipped, on_bad)


def with_history(live: ConnectedSource, options: Mapping[str, str]) -> ConnectedSource:
    """The same stream with the history that its options say, whose names are in lower case."""
    name, time = live.name, options.get("time", "")
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
    kept = source_from_options(name, history_options(options), live.schema)
    if isinstance(kept, FileSource):  # on Spark it is read by processes that run elsewhere
        kept = replace(kept, paths=tuple(one.absolute() if isinstance(one, Path) else one for one in kept.paths))
    said = {word: PARSERS[word](options[word]) for word in ("on_null", "on_bad") if word in options}
    past = Stream(
        name, live.schema, column, source=kept, arrival=arrival_of(said), rounding=options.get("rounding", "error")
    )
    live = live.telling(replace(past, source=None), None)
    both = HistoryThenLive(Kept(past), live, past.schema, column, handover, in_step="max_drift" in options)
    return replace(live, laned=GuardedSource(live.laned.connector, both), held=past.schema, reading=None)
