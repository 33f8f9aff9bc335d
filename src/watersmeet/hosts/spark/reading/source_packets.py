"""What our own sources read, as packets, in Spark's tasks."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from watersmeet.hosts.spark.exchange.pack import (
    NOTHING_NEW_US,
    Packing,
    bad_packets,
    end_packets,
    gathered,
    with_newest,
)
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.reading.splits import Moments
from watersmeet.model.arriving import stamped
from watersmeet.model.catalog import Stream

# Reads columns of a stream, of whatever it is read from.
Read = Callable[[pa.Schema, Stream], Iterator[pa.RecordBatch]]


def encoded(job: JobGroup | Stream) -> str:
    """What travels with a data source, whose options are texts."""
    return base64.b64encode(pickle.dumps(job)).decode()


def shipped(encoded_jobs: str) -> JobGroup:
    group: JobGroup = pickle.loads(base64.b64decode(encoded_jobs))
    return group


def shipped_stream(encoded_stream: str) -> Stream:
    stream: Stream = pickle.loads(base64.b64decode(encoded_stream))
    return stream


def packed_rows(
    group: JobGroup,
    source: str,
    read: Read,
    number: int,
    moments: Moments,
    *,
    partition: str = "",
    is_alone: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The packets of a part of a source, the part's number in its batch being this. `partition`: that of the rows, if
    they have one; `is_alone`: there is no other."""
    packing, stream = Packing(group, source), group.stream(source)
    needed = group.columns_read(source)
    wanted = pa.schema([column for column in stream.schema if column.name in needed])
    if stream.by_arrival:
        wanted = _without_moments(wanted, stream)
    batches = read(wanted, stream)
    if moments.arrival_us is not None:
        batches = _arrived(batches, stream, moments.arrival_us)
    for place, some in enumerate(gathered(batches)):
        at = (number << 32) + place
        packed = packing.packets(some, at, moments.limit_us, partition=partition, dated=is_alone)
        # Spark would take the newest of all partitions for the time of a stream, and refuse answers of slower ones.
        yield packed if is_alone else with_newest(packed, NOTHING_NEW_US)


def _without_moments(wanted: pa.Schema, stream: Stream) -> pa.Schema:
    """The columns to read; one of them at least, as rows without any cannot be counted."""
    read = [field for field in wanted if field.name != stream.time]
    return pa.schema(read or [stream.given_schema.field(0)])


def _arrived(batches: Iterator[pa.RecordBatch], stream: Stream, moment_us: int) -> Iterator[pa.RecordBatch]:
    field = stream.schema.field(stream.time)
    return (stamped(batch, field, moment_us) for batch in batches)


def packets_of_bad(group: JobGroup, source: str, records: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What tells of records of a source that cannot be read, if there are any."""
    if records:
        yield with_newest(bad_packets(group, source, records), NOTHING_NEW_US)


def end_of_stream(encoded_jobs: str, source: str, run: str) -> pa.RecordBatch:
    """What tells every bucket that a stream has ended in a run."""
    return with_newest(end_packets(shipped(encoded_jobs), {source}, run), NOTHING_NEW_US)
