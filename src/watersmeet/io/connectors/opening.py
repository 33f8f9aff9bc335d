"""Opens what a connector has, by the options of a CREATE: a stream, a static table, a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet.errors import SinkError, SourceError, WatersmeetError
from watersmeet.io.conform import check_columns, held_columns, plain_schema
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.connected_table import ConnectedTable
from watersmeet.io.connectors.contract import Connector, NumberedSink, SinkOpening, SourceOpening, Start, TableOpening
from watersmeet.io.connectors.gone import makes_anew
from watersmeet.io.connectors.guarded import GuardedSink, GuardedSource, called
from watersmeet.io.connectors.registry import opener_of, with_environment
from watersmeet.io.connectors.secrets import secret_values
from watersmeet.io.path_formats import ALIASES, written_kind
from watersmeet.model.arriving import is_arrival, named_time
from watersmeet.model.names import column_named
from watersmeet.model.time_format import ISO
from watersmeet.model.time_reading import TimeReading

_CANNOT = {
    "source": ("be read as a stream", "CREATE STREAM … WITH (source = …)"),
    "table": ("be read as a table", "CREATE TABLE … WITH (source = …)"),
    "sink": ("be written to", "CREATE SINK … WITH (sink = …)"),
}


def open_source(
    connector: Connector,
    name: str,
    options: Mapping[str, str],
    declared: pa.Schema | None,
    reading: TimeReading | None = None,
) -> ConnectedSource:
    """The stream of that name; names of options are in lower case."""
    reading = _of_text(connector, options, declared, reading)
    partitioned = open_partitioned(connector, name, options, declared, reading)
    time = options.get("time")
    held = _held(name, partitioned, declared, None if time is None or is_arrival(time) else named_time(time), reading)
    found = None if reading is None else reading.of(name, held)
    return ConnectedSource(name, partitioned, held, found)


def open_partitioned(
    connector: Connector,
    name: str,
    options: Mapping[str, str],
    declared: pa.Schema | None,
    reading: TimeReading | None = None,
) -> GuardedSource:
    """What a stream is read from, as it comes."""
    said = {key: options[key] for key in ("time",) if key in options}
    opening = SourceOpening(
        name, with_environment(name, options), _as_written(declared, reading), time=said.get("time")
    )
    secrets = secret_values(opening.options, connector.source_options)
    return GuardedSource(connector.name, _opened(connector, "source", opening, SourceError, secrets), secrets)


def open_table(
    connector: Connector, name: str, options: Mapping[str, str], declared: pa.Schema | None
) -> ConnectedTable:
    opening = TableOpening(name, with_environment(name, options), declared)
    _opener(connector, "table", SourceError)
    secrets = secret_values(opening.options, connector.table_options)
    return ConnectedTable(connector, opening, lambda: _opened(connector, "table", opening, SourceError, secrets))


def open_sink(
    connector: Connector,
    name: str,
    options: Mapping[str, str],
    schema: pa.Schema,
    run: str,
    keys: tuple[str, ...] = (),
    changes: str | None = None,
    committed: int = -1,
    start: Start | None = None,
    threads: int = 1,
) -> NumberedSink:
    given = with_environment(name, options)
    opening = SinkOpening(name, given, schema, run, keys, changes, committed, makes_anew(name, given), start, threads)
    secrets = secret_values(opening.options, connector.sink_options)
    return GuardedSink(connector.name, _opened(connector, "sink", opening, SinkError, secrets), secrets)


def _opened(
    connector: Connector, half: str, opening: Any, kind: type[WatersmeetError], secrets: tuple[str, ...]
) -> Any:
    opener = _opener(connector, half, kind)
    with called(connector.name, half, kind, secrets):
        try:
            return opener(opening)
        except KeyError as error:
            lacking = error.args[0] if error.args else None
            if lacking in opening.options or lacking not in getattr(connector, f"{half}_options").names:
                raise
            raise kind(
                f"{opening.name!r} has no option {lacking}, which {connector.name!r} needs",
                hint=f"add {lacking} = '…' to its WITH (…)",
            ) from None


def _opener(connector: Connector, half: str, kind: type[WatersmeetError]) -> Any:
    opener = opener_of(connector, half)
    if opener is None:
        ways = [how for other, (_, how) in _CANNOT.items() if getattr(connector, other) is not None]
        raise kind(f"{connector.name!r} cannot {_CANNOT[half][0]}", hint=f"it is for {' and '.join(ways)}")
    return opener


def _of_text(
    connector: Connector, options: Mapping[str, str], declared: pa.Schema | None, reading: TimeReading | None
) -> TimeReading | None:
    """A zone alone is for files of text, whose times are of ISO 8601 then."""
    if reading is None or reading.says_how or declared is None or connector.name != "files":
        return reading
    kind = (options.get("format") or options.get("source", "")).lower()
    is_text = not {ALIASES.get(kind, kind), written_kind(options.get("path", ""))}.isdisjoint({"csv", "tsv", "json"})
    return replace(reading, format=ISO) if is_text else reading


def _as_written(declared: pa.Schema | None, reading: TimeReading | None) -> pa.Schema | None:
    """The declared columns as they come: event times that are numbers or text are no timestamps yet."""
    if declared is None or reading is None or not reading.says_how:
        return declared
    column = column_named(reading.column, declared.names)
    if column is None or not pa.types.is_timestamp(declared.field(column).type):
        return declared
    index = declared.get_field_index(column)
    kind = pa.int64() if reading.unit is not None else pa.string()
    return declared.set(index, declared.field(index).with_type(kind))


def _held(
    name: str, partitioned: GuardedSource, declared: pa.Schema | None, time: str | None, reading: TimeReading | None
) -> pa.Schema:
    """The columns that are taken: those that were declared, and the event time if it is one that the source adds."""
    if declared is None:
        return plain_schema(partitioned.schema, partitioned.description)
    written = None if reading is None else column_named(reading.column, declared.names)
    held = held_columns(partitioned.schema, declared, written)
    check_columns(partitioned.schema, held, name, partitioned.description)
    added = None if time is None or column_named(time, held.names) else column_named(time, partitioned.schema.names)
    return held if added is None else held.append(partitioned.schema.field(added))
