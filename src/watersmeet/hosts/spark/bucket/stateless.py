"""Queries without state over packets: for streams that leave out records or rows, of which packets tell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pandas as pd
import pyarrow as pa

from watersmeet.hosts.spark.bucket.account import Account
from watersmeet.hosts.spark.bucket.output import Output
from watersmeet.hosts.spark.exchange.bad_records import BadCounts, left_out_by_stream
from watersmeet.hosts.spark.exchange.messages import GUARD, BadRecords, Kind, LeftOut, RowsRead, Seen, decode
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.task import batch_number
from watersmeet.hosts.spark.types import arrow_schema
from watersmeet.model.time import FOREVER_US


def packed_answer(job: SparkJob, output: Output) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
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
    yield output.report(counts, 0, json.dumps({"bucket": GUARD, **more}))
