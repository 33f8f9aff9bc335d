"""What tasks that read rows tell the buckets, and the guard of their state, beside the rows: every kind of it.

Messages travel as rows do, in packets: the column `input` holds the number of an input, from 0, where the payload is
rows, and the kind of a message where it is one.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, Times
from watersmeet.operators.memory_bound import Came

if TYPE_CHECKING:
    import pandas as pd

NOW = "now_ms"  # the column of the time of the batch, the same when it is repeated, that Spark puts beside packets
# The same columns as reading/splits.py, which says them in Spark's words because it must not import Arrow.
PACKED_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("input", pa.int32()),
        ("part", pa.int64()),
        ("primary", pa.bool_()),
        ("payload", pa.binary()),
    ]
)
NEWEST = "newest"  # the column beside them that Spark takes its watermark from


class Kind(IntEnum):
    ROWS_READ = -1
    SEEN = -2
    WAITING = -3
    PULSE = -4
    ENDED = -5
    MEMORY_NEEDS = -6
    BAD_RECORDS = -7
    MAYBE_LATE = -8
    LEFT_OUT = -9
    GONE = -10
    ROWS_BY_KEY = -11


class Message:
    kind: ClassVar[Kind]


M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    return pickle.dumps(tuple(vars(message).values()))


def decode(kind: type[M], payload: bytes) -> M:
    """
    >>> decode(Seen, encode(Seen(1, 20, 3, 5_000_000, 9_000_000, 2, "7")))
    Seen(stream=1, rows=20, ahead=3, newest_us=5000000, last_us=9000000, skipped=2, partition='7')
    """
    make: Callable[..., M] = kind
    return make(*pickle.loads(payload))


class Packet(NamedTuple):
    """Rows or a message for one bucket, or for the guard. `part` orders rows the same way in every bucket; `primary`
    marks the one copy of them that counts."""

    bucket: int
    input: int
    part: int
    primary: bool
    payload: bytes


def to_buckets(buckets: Iterable[int], message: Message) -> list[Packet]:
    """Every bucket hears the same of every batch, so that all of them decide the same."""
    payload = encode(message)
    return [Packet(bucket, message.kind, 0, False, payload) for bucket in buckets]


def as_batch(packets: Sequence[Packet]) -> pa.RecordBatch:
    columns = zip(*packets, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, PACKED_SCHEMA, strict=True)],
        schema=PACKED_SCHEMA,
    )


class Inbox:
    """The packets that one bucket gets in one batch, by what they hold; `now_ms` is the time of the batch."""

    def __init__(self, frames: Iterable[pd.DataFrame]) -> None:
        # Looked through once: asking pandas for each kind of packet takes longer than most small batches.
        self._packets: dict[int, list[Packet]] = {}
        self.now_ms = 0
        for frame in frames:
            self.now_ms = int(frame[NOW].iloc[0])
            for packet in map(Packet, *(frame[name].tolist() for name in PACKED_SCHEMA.names)):
                self._packets.setdefault(packet.input, []).append(packet)

    def messages(self, kind: type[M]) -> list[M]:
        return [decode(kind, packet.payload) for packet in self._packets.get(kind.kind, ())]

    def rows_of(self, stream: int) -> list[Packet]:
        """Spark delivers packets in any order, and buckets that count rows must all see the same."""
        return sorted(self._packets.get(stream, ()), key=lambda packet: (packet.part, not packet.primary))

    @property
    def rows_in(self) -> int:
        """What was read, as the guard is told."""
        read, bad = self.messages(RowsRead), self.messages(BadRecords)
        return sum(one.rows for one in read) + sum(one.rows for one in bad)


# ---- to all buckets -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen(Message):
    """What a task that packs rows saw of a stream: how many, how many of them too far ahead of the clock to move a
    watermark, the newest time that may move it, and the newest of all (BEGINNING_US: none); and how many more were
    skipped, as they have no event time. `partition`: that of the rows, if they have one."""

    kind: ClassVar = Kind.SEEN
    stream: int
    rows: int
    ahead: int = 0
    newest_us: int = BEGINNING_US
    last_us: int = BEGINNING_US
    skipped: int = 0
    partition: str = ""

    @staticmethod
    def of(stream: int, times: Times, ahead: npt.NDArray[np.bool_] | None = None) -> Seen:
        """At least one row, of which some may lie too far ahead."""
        last_us = int(times.max())
        if ahead is None or not bool(ahead.any()):
            return Seen(stream, times.size, 0, last_us, last_us)
        return Seen(stream, times.size, int(ahead.sum()), int(times[~ahead].max(initial=BEGINNING_US)), last_us)


@dataclass(frozen=True)
class Waiting(Message):
    """The partitions of a stream that have rows which a batch does not read."""

    kind: ClassVar = Kind.WAITING
    stream: int
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pulse(Message):
    """Time has gone on. To the guard too: the first batch after a restart may be nothing else, and must not touch the
    state of another query."""

    kind: ClassVar = Kind.PULSE


@dataclass(frozen=True)
class Ended(Message):
    """Streams that have ended in a run (see stream_end.py)."""

    kind: ClassVar = Kind.ENDED
    run: str
    streams: tuple[int, ...]


@dataclass(frozen=True)
class MemoryNeeds(Message):
    """How many rows each bucket gets of those that came, so that all of them know the same needs (see
    operators.memory_bound.Sharing). Most of the counts are nothing or next to it, hence the compression."""

    kind: ClassVar = Kind.MEMORY_NEEDS
    stream: int
    rows: int
    size: int
    oldest_us: int
    newest_us: int
    counts: bytes

    @staticmethod
    def of(came: Came) -> MemoryNeeds:
        counts = zlib.compress(came.counts.astype(np.uint32).tobytes(), 1)
        return MemoryNeeds(came.stream, came.rows, came.size, came.oldest_us, came.newest_us, counts)

    @property
    def came(self) -> Came:
        counts = np.frombuffer(zlib.decompress(self.counts), np.uint32).astype(np.int64)
        return Came(self.stream, self.rows, self.size, self.oldest_us, self.newest_us, counts)


@dataclass(frozen=True)
class Gone(Message):
    """To the buckets and the guard of a query that is not in the script any more: what they keep is let go."""

    kind: ClassVar = Kind.GONE


# ---- to one bucket, or to the guard ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaybeLate(Message):
    """Rows with all columns, to any one bucket: it tells which are late (see late_rows.py)."""

    kind: ClassVar = Kind.MAYBE_LATE
    packet: bytes


@dataclass(frozen=True)
class RowsRead(Message):
    """To the guard: rows are counted once, where they are read. In the buckets there may be copies of one, or none."""

    kind: ClassVar = Kind.ROWS_READ
    rows: int = 0


@dataclass(frozen=True)
class RowsByKey(Message):
    """To the guard: about how many rows were read of keys that have many, by stream and key."""

    kind: ClassVar = Kind.ROWS_BY_KEY
    rows: dict[str, int]


@dataclass(frozen=True)
class BadRecords(Message):
    """To the guard: records that cannot be read, which are counted as well (see bad_records.py)."""

    kind: ClassVar = Kind.BAD_RECORDS
    rows: int
    packet: bytes


@dataclass(frozen=True)
class LeftOut(Message):
    """To the guard: how many rows of a stream lie on the other side of a handover."""

    kind: ClassVar = Kind.LEFT_OUT
    stream: str
    rows: int
