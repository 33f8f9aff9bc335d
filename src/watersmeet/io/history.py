"""Opens the history of a stream, which is any source, and puts it before what comes live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.io.bad_rows import OnBad
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.guarded import GuardedSource
from watersmeet.io.connectors.history import HistoryThenLive, handover_of, history_options
from watersmeet.io.event_times import OnSkipped
from watersmeet.io.files import FileSource
from watersmeet.io.sources import source_from_options
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.arrival import PARSERS, arrival_of
from watersmeet.model.arriving import is_arrival, named_time
from watersmeet.model.catalog import Stream
from watersmeet.model.names import column_named, columns_hint


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
