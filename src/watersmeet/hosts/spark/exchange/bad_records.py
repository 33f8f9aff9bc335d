"""Records of a stream that cannot be read, on Spark: from the task that finds them to the sink beside the answers.

They travel with the packets of their part to the guard, which counts them. Those that are kept go on beside the answers
to the driver, which commits both under the number of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import UnsupportedError
from watersmeet.hosts.spark.exchange.messages import BadRecords, LeftOut
from watersmeet.hosts.spark.packets import from_packet, to_packet
from watersmeet.model.catalog import Stream
from watersmeet.model.metric import sum_by_name
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below

STREAM = b"stream"
REASON = "reason"


def bad_packet(stream: Stream, records: Sequence[pa.RecordBatch]) -> bytes:
    """Records of a stream: whole if some sink takes them, else only why they are bad, which is counted."""
    kept = [one if stream.bad_to is not None else one.select([REASON]) for one in records]
    return to_packet(kept, kept[0].schema.with_metadata({STREAM: stream.name.encode()}))


@dataclass
class BadCounts:
    """What the packets of a batch hold of such records: how many, by stream and by reason, and those that are kept."""

    by_stream: dict[str, int] = field(default_factory=dict)
    by_reason: dict[str, int] = field(default_factory=dict)
    kept: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, found: Iterable[BadRecords]) -> BadCounts:
        counts = cls()
        for one in found:
            for records in from_packet(one.packet):
                counts._add(stream_named(records), records.column(REASON))
                is_whole = records.num_columns > 1
            counts.kept += [one.packet] if is_whole else []
        return counts

    @property
    def count(self) -> int:
        return sum(self.by_stream.values())

    def told(self, left_out: Iterable[LeftOut]) -> dict[str, dict[str, int]]:
        """In the names of the table of metrics, with what was left out at a handover."""
        counts = {"rows_by_stream": self.by_stream, "bad_by_stream": self.by_stream, "bad_by_reason": self.by_reason}
        counts |= {"left_out_by_stream": left_out_by_stream(left_out)}
        return {name: one for name, one in counts.items() if one}

    def _add(self, stream: str, reasons: pa.Array) -> None:
        self.by_stream = sum_by_name(self.by_stream, {stream: len(reasons)})
        for one in pc.value_counts(reasons):
            reason = f"{stream}: {one['values'].as_py() or 'unreadable'}"
            self.by_reason = sum_by_name(self.by_reason, {reason: one["counts"].as_py()})


def left_out_by_stream(messages: Iterable[LeftOut]) -> dict[str, int]:
    return reduce(sum_by_name, ({one.stream: one.rows} for one in messages), {})


def stream_named(records: pa.RecordBatch) -> str:
    """The stream that records of a packet are of."""
    return str((records.schema.metadata or {})[STREAM].decode())


def has_side_outputs(plan: Plan) -> bool:
    """Whether something goes to sinks beside the answers of a query."""
    return any(one.bad_to is not None or one.late_to is not None for one in streams_below(plan.root))


def refuse_bad_files(name: str, path: str) -> UnsupportedError:
    """Of files that Spark's own reader reads: a line that it cannot read ends the query."""
    return UnsupportedError(
        f"stream {name!r} says on_bad, but {path} is read by Spark's own reader, which ends at the first record that "
        "it cannot read",
        hint="leave out packed = 'false' and options of Spark's reader, so that our own reads the files; those of "
        "stores are read by source = 'files'",
    )


def refuse_bad_frame(stream: Stream, *, is_streaming: bool) -> None:
    """Of a DataFrame only the event times are looked at here; what else is in it, somebody else has read. Those that
    are written in some way are read by Spark, and only batches of a streaming query tell what was left out."""
    if not stream.arrival.keeps_going or (is_streaming and stream.reading is None):
        return
    what = "a DataFrame whose event times Spark reads" if is_streaming else "a batch DataFrame, of which nobody tells"
    raise UnsupportedError(
        f"stream {stream.name!r} says on_bad = '{stream.arrival.on_bad}', but it is {what}",
        hint="leave on_bad out, and filter the rows before; or run it in-process: Session()",
    )
