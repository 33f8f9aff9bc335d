"""Sources and sinks of topics, opened as a host opens them."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.io.connectors.contract import (
    NumberedSink,
    PartitionedSource,
    SinkOpening,
    SourceBatch,
    SourceOpening,
    Start,
)
from watersmeet.io.connectors.registry import connector_named, opener_of

EVENTS = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])


def source(
    brokers: str, topic: str, columns: pa.Schema | None = EVENTS, time: str | None = "ts", **options: str
) -> PartitionedSource:
    given = {"brokers": brokers, "topic": topic, "format": "json", "timeout": "5 seconds"}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    connector = connector_named("kafka")
    assert connector is not None
    opener = opener_of(connector, "source")
    assert opener is not None
    found: PartitionedSource = opener(SourceOpening("events", given, columns, time))
    return found


def sink(
    brokers: str,
    topic: str,
    schema: pa.Schema,
    *,
    run: str = "run",
    keys: tuple[str, ...] = (),
    changes: str | None = None,
    committed: int = -1,
    start: Start | None = None,
    **options: str,
) -> NumberedSink:
    connector = connector_named("kafka")
    assert connector is not None
    opener = opener_of(connector, "sink")
    assert opener is not None
    given = {"brokers": brokers, "topic": topic, "timeout": "5 seconds", **options}
    found: NumberedSink = opener(SinkOpening("answers", given, schema, run, keys, changes, committed, start=start))
    return found


def all_batches(source: PartitionedSource) -> list[SourceBatch]:
    begin = source.begin()
    return [batch for split in source.splits(begin, source.newest(begin)) for batch in source.read(split)]


def all_rows(source: PartitionedSource) -> list[dict[str, object]]:
    found = [row for batch in all_batches(source) for row in batch.rows.to_pylist()]
    source.close()
    return found


def all_bad(source: PartitionedSource) -> list[dict[str, object]]:
    found = [row for batch in all_batches(source) if batch.bad is not None for row in batch.bad.to_pylist()]
    source.close()
    return found
