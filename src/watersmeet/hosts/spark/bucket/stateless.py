"""Answers without state: of bounded input, one call per bucket; and of queries that need none, row by row or, for
streams that leave out records or rows, over packets, which tell of those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.archive.folder import OpenRun
from watersmeet.hosts.spark.bucket.account import Account
from watersmeet.hosts.spark.bucket.archive import write_page_into
from watersmeet.hosts.spark.bucket.output import Output, report_of
from watersmeet.hosts.spark.exchange.bad_records import BadCounts, left_out_by_stream
from watersmeet.hosts.spark.exchange.messages import (
    BadRecords,
    Kind,
    LeftOut,
    MemoryNeeds,
    RowsRead,
    Seen,
    decode,
)
from watersmeet.hosts.spark.jobs.ids import GUARD
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.task import batch_number
from watersmeet.hosts.spark.types import arrow_schema, spark_layout
from watersmeet.io.conform import conform, enter
from watersmeet.io.event_times import timed_rows, without_nulls
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.contract import Rows
from watersmeet.runtime.floods import looked_after

Answering = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def bucket_answer(job: SparkJob, run: OpenRun | None = None) -> Answering:
    """The function for applyInArrow that answers one bucket from all its packets, and archives what it let go of."""

    # Spark goes by these types: answers go on block by block, however many come of a bucket.
    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        answers = spark_layout(job.plan.output_schema)
        packets = pa.Table.from_batches(batches)
        # All packets of a call are of one bucket, by which they are grouped. Without state there is nothing to guard.
        if packets.num_rows == 0 or packets["bucket"][0].as_py() == GUARD:
            return
        operator = job.make_operator()
        bucket = packets["bucket"][0].as_py()
        needs = packets.filter(pc.equal(packets["input"], MemoryNeeds.kind))["payload"].to_pylist()
        job.share_memory(operator, bucket, [decode(MemoryNeeds, one).came for one in needs])
        arrived: dict[str, Rows] = {}
        for stream, one in enumerate(job.streams):
            mine = packets.filter(pc.equal(packets["input"], stream)).sort_by("part")["payload"]
            parts = [batch for payload in mine for batch in from_packet(payload.as_buffer())]
            if parts:
                arrived[one.alias] = job.layout(one).rows(pa.concat_batches(parts)).in_time_order()
        # Everything is there, so nothing is late and the watermark is at the end of time.
        results = operator.take(arrived, dict.fromkeys(job.aliases, FOREVER_US))
        for batch in looked_after(results, operator, lambda: _newest(job, arrived), job.tell_of_flood):
            if batch.num_rows:
                yield conform(batch, answers)
        if run is not None:
            write_page_into(run, operator, bucket, 0)

    return answer


def _newest(job: SparkJob, arrived: Mapping[str, Rows]) -> tuple[str, int]:
    last_us = {one.relation.name: int(arrived[one.alias].times.max()) for one in job.streams if one.alias in arrived}
    return max(last_us.items(), key=lambda one: one[1])


def stateless_answer(job: SparkJob) -> Answering:
    """The function for mapInArrow over the only stream of a query, joined with static tables if there are any."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        layout = spark_layout(job.plan.output_schema)
        operator = job.make_operator()
        (one,) = job.streams
        schema = job.row_schema(one)
        for batch in () if job.leaves_out(batch_number()) else batches:
            batch = without_nulls(stream_of(one), batch)
            rows = timed_rows(stream_of(one), enter(batch.select(schema.names), schema, stream_of(one)))
            for result in operator.push(one.alias, rows):
                yield conform(result, layout)
        # A task sees one partition of one batch; as no row waits for another, its end is the end of time for it.
        for result in operator.advance({one.alias: FOREVER_US}):
            yield conform(result, layout)

    return answer


def packed_answer(job: SparkJob, output: Output) -> Answering:
    """The function for mapInArrow over the packets of the only stream of a query: frames as the stateful stage gives
    them, with what was counted in the last."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = arrow_schema(output.schema, "the answer")
        for frame in _frames(job, output, batches):
            yield pa.RecordBatch.from_pandas(frame, columns, preserve_index=False)

    return answer


def _frames(job: SparkJob, output: Output, batches: Iterator[pa.RecordBatch]) -> Iterator[pd.DataFrame]:
    operator = job.make_operator()
    account = Account(operator)
    (one,) = job.streams
    layout = job.layout(one)
    rows_in = skipped = 0
    is_left_out = job.leaves_out(batch_number())
    found: list[BadRecords] = []
    left_out: list[LeftOut] = []
    for batch in batches:
        for packet in batch.to_pylist():
            payload = packet["payload"]
            match packet["input"]:
                case Kind.ROWS_READ:
                    rows_in += decode(RowsRead, payload).rows
                case Kind.BAD_RECORDS:
                    found.append(decode(BadRecords, payload))
                    rows_in += found[-1].rows
                case _ if is_left_out:
                    continue
                case 0 if packet["primary"]:
                    for data in from_packet(payload):
                        results = list(operator.push(one.alias, layout.rows(data)))
                        if results:
                            yield output.frame(results)
                case Kind.LEFT_OUT:
                    left_out.append(decode(LeftOut, payload))
                case Kind.SEEN if packet["bucket"] == job.bucket_ids[0]:
                    skipped += decode(Seen, payload).skipped
    # A task sees one partition of one batch; as no row waits for another, its end is the end of time for it.
    results = list(operator.advance({one.alias: FOREVER_US}))
    if results:
        yield output.frame(results)
    bad = BadCounts.of([] if is_left_out else found)
    for records in bad.kept:
        yield output.side(records)
    name = stream_of(one).name
    counts = account.numbers(operator) | {"rows_in": rows_in, "bad_rows": bad.count, "skipped_rows": skipped}
    more = {"bad_by_stream": bad.by_stream, "bad_by_reason": bad.by_reason, "rows_by_stream": {name: rows_in}}
    more |= {"skipped_by_stream": {name: skipped}} if skipped else {}
    more |= {"left_out_by_stream": left_out_by_stream(left_out)} if left_out else {}
    yield output.report(report_of(GUARD, counts, more), 0)
