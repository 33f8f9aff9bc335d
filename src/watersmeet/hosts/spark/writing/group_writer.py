"""Takes the batches of queries that Spark runs as one, and gives each sink its rows: for `foreachBatch`.

Rows come as packets, each with the slot of its query. What goes by way of the driver is fetched at once for all of
them; files that Spark writes are written from where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.bucket.output import QUERY, SIDE, unpacker
from watersmeet.hosts.spark.exchange.bad_records import stream_named
from watersmeet.hosts.spark.exchange.late_rows import missed_watermark_us
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.types import spark_schema
from watersmeet.hosts.spark.writing.sink_writer import Noted, SideSinks

PAYLOAD = "payload"
# Spark's own, by our names of them.
FORMATS = {"parquet": "parquet.Parquet", "orc": "orc.Orc", "csv": "csv.CSV", "json": "json.Json", "text": "text.Text"}
Take = Callable[[int, Sequence[bytes]], None]


class GroupWriter:
    def __init__(
        self, takers: Mapping[int, Take], files: Mapping[int, SparkFiles], sides: SideSinks | None, noted: Noted
    ) -> None:
        """Of each slot, what takes its rows here, or the files that Spark writes; and the sinks beside the answers."""
        self._takers, self._files, self._sides, self._noted = takers, files, sides, noted

    def __call__(self, batch: DataFrame, number: int) -> None:
        if not self._files:
            self._take(batch.toArrow(), number)
            return
        batch.persist()  # what is computed twice would be twice in the state
        try:
            self._take(batch.filter(~F.col(QUERY).isin(list(self._files)) | F.col(SIDE).isNotNull()).toArrow(), number)
            for slot, files in self._files.items():
                packets = batch.filter((F.col(QUERY) == slot) & F.col(PAYLOAD).isNotNull()).select(PAYLOAD)
                files.add(packets, number)
        finally:
            batch.unpersist()

    def _take(self, found: pa.Table, number: int) -> None:
        if self._sides is not None:
            beside = found.filter(pc.is_valid(found[SIDE]))
            packets = _once(beside[QUERY].to_pylist(), beside[SIDE].to_pylist())
            self._sides.commit(number, packets, self._noted)
        for slot, take in self._takers.items():
            own = found.filter(pc.and_(pc.equal(found[QUERY], slot), pc.is_valid(found[PAYLOAD])))
            take(number, own[PAYLOAD].to_pylist())


def _once(slots: Sequence[int], packets: Sequence[bytes]) -> list[bytes]:
    """Late rows once, whichever queries they are late for: those of one that is furthest, among which are all that are
    late for another."""
    found: dict[str, dict[tuple[int, int], list[bytes]]] = {}
    others = []
    for slot, packet in zip(slots, packets, strict=True):
        for records in from_packet(packet)[:1]:
            missed_us = missed_watermark_us(records)
            if missed_us is None:
                others.append(packet)
            else:
                found.setdefault(stream_named(records), {}).setdefault((missed_us, slot), []).append(packet)
    return others + [packet for by_query in found.values() for packet in by_query[max(by_query)]]


@dataclass(frozen=True)
class SparkFiles:
    """Files that Spark's own writer adds batch by batch, with its list of what is whole."""

    path: str
    kind: str
    options: Mapping[str, str]
    partition_by: tuple[str, ...]
    schema: pa.Schema

    def add(self, packets: DataFrame, number: int) -> None:
        """Passed over if the list has the number."""
        rows = packets.mapInArrow(unpacker(self.schema), spark_schema(self.schema))
        self._sink(packets.sparkSession).addBatch(number, rows._jdf)

    def _sink(self, spark: Any) -> Any:
        jvm = spark._jvm
        of_python = jvm.org.apache.spark.api.python.PythonUtils
        spark_sql = jvm.org.apache.spark.sql.execution
        written_as = reduce(getattr, f"{FORMATS[self.kind]}FileFormat".split("."), spark_sql.datasources)()
        columns, options = of_python.toSeq(list(self.partition_by)), of_python.toScalaMap(dict(self.options))
        sink = spark_sql.streaming.sinks.FileStreamSink
        return sink(spark._jsparkSession, self.path, written_as, columns, options)
