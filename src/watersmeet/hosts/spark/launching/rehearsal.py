"""What Spark's Python workers will need, loaded before there are any: modules, and the compiled code of kernels.

A tiny join goes all the way of a batch, from rows to packets, through the operator and back, so that whatever loads at
first use has loaded. A worker that is forked afterwards has it all; none is forked from here.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.hosts.spark.bucket import processor  # noqa: F401  # what workers import by themselves
from watersmeet.hosts.spark.bucket.output import output_of
from watersmeet.hosts.spark.exchange.pack import packer
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.reading import connector_packets  # noqa: F401  # what workers import by themselves
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US
from watersmeet.model.windows import single_window
from watersmeet.operators.contract import Rows
from watersmeet.operators.saving import Saved
from watersmeet.plan.expressions import Call, Column
from watersmeet.plan.nodes import Input, Join, Project
from watersmeet.plan.options import Options
from watersmeet.plan.query import Plan

SECOND_US = 1_000_000
BATCHES, ROWS = 2, 64
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string()), ("ts", pa.timestamp("us", tz="UTC"))])


def rehearse() -> None:
    """Two batches of two joins: of three streams by number, and of two by text."""
    for streams, key in (("abc", "k"), ("ab", "t")):
        _run(job_of(_join(streams, key), {}, buckets=2))


def _join(streams: str, key: str) -> Plan:
    inputs = tuple(Input(name, Stream(name, SCHEMA, "ts")) for name in streams)
    keys = [Column(name, key, SCHEMA.field(key).type) for name in streams]
    same = tuple(Call("eq", (keys[0], other), pa.bool_()) for other in keys[1:])
    window = single_window(tuple(streams), SECOND_US, "closed")
    columns = tuple((name, Column(name, "k", pa.int64())) for name in streams)
    return Plan(Project(Join(inputs, same, window), columns), Options())


def _run(job: SparkJob) -> None:
    operator = job.make_operator()
    output = output_of(job)
    for batch in range(BATCHES):
        arrived = {one.alias: _arrived(job, one, batch) for one in job.streams}
        until = dict.fromkeys(job.aliases, BEGINNING_US + batch)
        results = list(operator.take(arrived, until))
        if results:
            output.frame(results)
        for alias, rows in arrived.items():
            operator.still_needed(alias, rows, until[alias])
        saved = operator.save(tables=False).to_bytes()
        operator = job.make_operator()
        operator.load(Saved.from_bytes(saved))


def _arrived(job: SparkJob, one: Input, batch: int) -> Rows:
    numbers = np.arange(ROWS) % 8
    at = pa.array((np.arange(ROWS) + batch * ROWS) * 1000).cast(SCHEMA.field("ts").type)
    rows = pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(numbers.astype(str)), at], schema=SCHEMA)
    made = list(packer(JobGroup((job,)), one.relation.name)(iter([rows])))
    number = job.aliases.index(one.alias)
    parts = [
        data
        for packets in made
        for packet in packets.to_pylist()
        if packet["input"] == number and packet["bucket"] in job.bucket_ids
        for data in from_packet(packet["payload"])
    ]
    return job.layout(one).rows(pa.concat_batches(parts)).in_time_order()
