"""A sink that takes numbers, on Spark: the number of a batch is Spark's own, which it repeats after a crash.

The rows of a batch come to the driver as Arrow and are committed there, as a number is taken whole or not at all. A
batch that is repeated has the same rows, maybe in another order; the sink passes over it if it has its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.bucket.output import SIDE
from watersmeet.hosts.spark.exchange.bad_records import stream_named
from watersmeet.hosts.spark.exchange.late_rows import missed_watermark_us
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.io.conform import conform
from watersmeet.io.connectors.contract import NumberedSink
from watersmeet.model.catalog import Stream
from watersmeet.plan.nodes import AT, OP
from watersmeet.plan.query import Plan
from watersmeet.runtime.side_output import SideOutput
from watersmeet.runtime.watched import OnAnswers

Noted = Callable[[str, int], None]


@dataclass(frozen=True)
class SideSinks:
    """The sinks beside the answers of a query, by their names, and the streams of which something goes there."""

    output: SideOutput
    sinks: Mapping[str, NumberedSink]
    streams: Mapping[str, Stream]

    def commit(self, number: int, packets: Iterable[bytes], noted: Noted) -> None:
        for packet in packets:
            for records in from_packet(packet):
                stream, missed_us = self.streams[stream_named(records)], missed_watermark_us(records)
                if missed_us is None:
                    self.output.bad(stream, records)
                else:
                    self.output.late(stream, records, np.full(records.num_rows, missed_us))
        for name, records in self.output.take().items():
            self.sinks[name].commit(number, records)
            noted(name, number)

    def close(self) -> None:
        for sink in self.sinks.values():
            sink.close()


def unpacked(packets: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """The rows of some packets."""
    return pa.Table.from_batches([conform(one, schema) for packet in packets for one in from_packet(packet)], schema)


class SinkWriter:
    """Takes batches into a sink, and what goes beside them into others: for `foreachBatch`."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        sink: NumberedSink,
        noted: Noted,
        on_rows: OnAnswers | None = None,
        sides: SideSinks | None = None,
    ) -> None:
        """noted: is told of every batch whose rows a sink has, before Spark hears that it is done."""
        self._name, self._plan, self._sink, self._noted = name, plan, sink, noted
        self._on_rows, self._sides = on_rows, sides

    def __call__(self, batch: DataFrame, number: int) -> None:
        # Asked for in any case: the state goes on, and numbers are observed, only when the batch is computed.
        found = batch.toArrow()
        if self._sides is None:
            self._commit(number, found)
            return
        self._sides.commit(number, found[SIDE].drop_null().to_pylist(), self._noted)
        self.take(number, found["payload"].drop_null().to_pylist())

    def take(self, number: int, packets: Sequence[bytes]) -> None:
        """The rows of a batch, in packets."""
        self._commit(number, unpacked(packets, self._plan.output_schema))

    def _commit(self, number: int, answer: pa.Table) -> None:
        rows = self._rows(answer)
        if rows:
            self._sink.commit(number, rows)
            self._noted(self._name, number)
        if rows and self._on_rows is not None:
            self._on_rows(number, rows)

    def committed(self) -> dict[str, int]:
        """The last number that each of the sinks has, by its name."""
        sides = {} if self._sides is None else {name: one.committed() for name, one in self._sides.sinks.items()}
        return sides | {self._name: self._sink.committed()}

    def close(self) -> None:
        self._sink.close()
        if self._sides is not None:
            self._sides.close()

    def _rows(self, answer: pa.Table) -> Sequence[pa.RecordBatch]:
        if self._plan.kind == "changes":
            # Buckets answer in any order. A sink that keeps a table goes by it: "-" before "+" at one instant.
            answer = answer.sort_by([(AT, "ascending"), (OP, "descending")])
        batches = answer.combine_chunks().to_batches()
        return [conform(one, self._plan.output_schema) for one in batches if one.num_rows]
