"""Bounded input: the same operators without state, one call per bucket; and queries that need no state at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.archive.folder import OpenRun
from watersmeet.hosts.spark.bucket.archive import write_page_into
from watersmeet.hosts.spark.exchange.messages import GUARD, MemoryNeeds, decode
from watersmeet.hosts.spark.exchange.pack import in_time_order
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.task import batch_number
from watersmeet.hosts.spark.types import spark_layout
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
                layout = job.layout(one)
                arrived[one.alias] = in_time_order([layout.rows(part) for part in parts])
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
