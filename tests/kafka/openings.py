"""Sources and sinks of topics, opened as a host opens them."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.io.connectors.contract import LanedSource, Lot, NumberedSink, SinkOpening, SourceOpening, Start
from watersmeet.io.connectors.registry import connector_named, opener_of

EVENTS = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])


def source(
    brokers: str, topic: str, columns: pa.Schema | None = EVENTS, time: str | None = "ts", **options: str
) -> LanedSource:
    given = {"brokers": brokers, "topic": topic, "format": "json", "timeout": "5 seconds"}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    connector = connector_named("kafka")
    assert connector is not None
    opener = opener_of(connector, "source")
    assert opener is not None
    found: LanedSource = opener(SourceOpening("events", given, columns, time))
    return found


def sink(
    brokers: str,
    topic: str,
    schema: pa.Schema,
    *,
    run: str = "run",
    keys: tuple[str, ...] = (),
    changes: str | None = None,
    taken: int = -1,
    start: Start | None = None,
    **options: str,
) -> NumberedSink:
    connector = connector_named("kafka")
    assert connector is not None
    opener = opener_of(connector, "sink")
    assert opener is not None
    given = {"brokers": brokers, "topic": topic, "timeout": "5 seconds", **options}
    found: NumberedSink = opener(SinkOpening("answers", given, schema, run, keys, changes, taken, start=start))
    return found


def all_lots(source: LanedSource) -> list[Lot]:
    begin = source.begin()
    return [lot for part in source.slices(begin, source.newest(begin)) for lot in source.read(part)]


def all_rows(source: LanedSource) -> list[dict[str, object]]:
    found = [row for lot in all_lots(source) for row in lot.rows.to_pylist()]
    source.close()
    return found


def all_bad(source: LanedSource) -> list[dict[str, object]]:
    found = [row for lot in all_lots(source) if lot.bad is not None for row in lot.bad.to_pylist()]
    source.close()
    return found
