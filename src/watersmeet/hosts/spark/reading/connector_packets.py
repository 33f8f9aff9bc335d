"""The rows of a connector read straight into packets, where its partitions are read; and as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from watersmeet.hosts.spark.exchange.pack import NOTHING_NEW_US, left_out_packets, waiting_packets, with_newest
from watersmeet.hosts.spark.reading.source_packets import (
    packed_rows,
    packets_of_bad,
    shipped,
    shipped_stream,
)
from watersmeet.hosts.spark.reading.splits import SourceSplit
from watersmeet.hosts.spark.types import spark_layout
from watersmeet.io.bad_rows import OnBad
from watersmeet.io.conform import conform, enter
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.contract import Split
from watersmeet.model.catalog import Stream
from watersmeet.runtime.bad_records import refusal


def packets_of_split(
    encoded_jobs: str, connected: ConnectedSource, source: str, split: SourceSplit
) -> Iterator[pa.RecordBatch]:
    group = shipped(encoded_jobs)
    stream = group.stream(source)
    bad: list[pa.RecordBatch] = []
    left_out: list[int] = []
    if split.waiting is not None and not stream.by_arrival:  # what arrives now is not behind
        yield with_newest(waiting_packets(group, source, split.waiting), NOTHING_NEW_US)

    def read(wanted: pa.Schema, stream: Stream) -> Iterator[pa.RecordBatch]:
        return batches_of_split(connected, split, wanted, stream, bad.append, left_out.append)

    partition, is_alone = split.partition, split.is_alone
    yield from packed_rows(group, source, read, split.number, split.moments, partition=partition, is_alone=is_alone)
    yield from packets_of_bad(group, source, bad)
    if sum(left_out):
        yield with_newest(left_out_packets(group, source, sum(left_out)), NOTHING_NEW_US)


def rows_of_split(encoded_stream: str, connected: ConnectedSource, split: SourceSplit) -> Iterator[pa.RecordBatch]:
    """The rows themselves, as Spark has them."""
    stream = shipped_stream(encoded_stream)
    schema = stream.given_schema
    layout = spark_layout(schema)
    for batch in batches_of_split(connected, split, schema, stream, _nobody_takes, _nobody_counts):
        yield conform(enter(batch, schema, stream), layout)


def batches_of_split(
    source: ConnectedSource,
    split: SourceSplit,
    wanted: pa.Schema,
    stream: Stream,
    on_bad: OnBad,
    on_left_out: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a split, as queries see them. Records that cannot be read are handed over where
    the stream says what becomes of them; of rows on the other side of a handover is told how many they are."""
    keeps_going = stream.arrival.keeps_going
    # Of records that cannot be read all columns are told.
    taken = source if keeps_going else _narrowed(source, wanted)
    taken = taken.telling(stream, on_bad)
    before = 0
    with closing(taken.partitioned):
        for batch in taken.partitioned.read(Split(split.partition, split.after, split.upto)):
            rows, unfit = taken.readable(batch.rows, before if keeps_going else None)
            before += batch.rows.num_rows
            on_left_out(batch.left_out)
            for bad in (batch.bad, unfit):
                if bad is not None and bad.num_rows:
                    if not keeps_going:
                        raise refusal(stream, bad)
                    on_bad(bad)
            yield rows.select(wanted.names) if keeps_going else rows


def _narrowed(source: ConnectedSource, wanted: pa.Schema) -> ConnectedSource:
    held = pa.schema([source.held.field(name) for name in wanted.names])
    return replace(source, partitioned=source.partitioned.only(wanted.names), held=held)


def _nobody_counts(rows: int) -> None:
    assert not rows, "streams that have a history are read into packets"


def _nobody_takes(records: pa.RecordBatch) -> None:
    raise AssertionError("streams that leave records out are read into packets")
