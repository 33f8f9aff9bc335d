"""The durable state of a bucket: a log of the rows it took in, in segments, and a manifest that names them.

Each batch appends one segment per stream. Segments whose rows have all expired are dropped from the tail; many
small ones are merged, and rows that have become useless meanwhile are left out. An operator is rebuilt by
restoring the rows of all live segments. A join in bounded memory is saved whole instead: which rows are gone cannot
be told from rows, and its state is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.exchange.messages import Ended
from watersmeet.hosts.spark.jobs.layout import PacketLayout
from watersmeet.hosts.spark.packets import from_packet, to_packet
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.contract import End, Operator, Rows
from watersmeet.operators.saving import Values

# Segments are merged by eights, so a row is written again once per level, about log8 of the number of batches.
FANOUT = 8
WHOLE = -1  # stands for the number of a stream where a state was saved whole
# What together is larger stays apart: a segment goes only when its newest row does, and values of many MB are slow to
# write and to read through Spark's state interface.
MERGED_BYTES = 8 << 20
MIN_ROWS_TO_REWRITE = 4096  # below that a log in which rows count is not worth writing anew


@dataclass
class Segment:
    """`level` is how often its rows have been merged; only neighbours of one level are merged."""

    number: int
    rows: int
    newest_us: int
    size: int
    level: int = 0


@dataclass
class Manifest:
    """What of the log is live, and how far time had come when it was written."""

    complete_until: int = BEGINNING_US  # the watermark after the last batch; rows below it are late
    next_number: int = 0  # numbers of segments are never used twice
    segments: dict[int, list[Segment]] = field(default_factory=dict)
    kept: dict[int, int] = field(default_factory=dict)  # how many rows each log had when it was last written anew
    newest_us: dict[int, int] = field(default_factory=dict)  # per stream, rows of the far future included
    oldest_us: dict[int, int] = field(default_factory=dict)  # per stream, of the rows that were in time
    saved: Segment | None = None  # the state of an operator that is kept whole
    ended: dict[int, str] = field(default_factory=dict)  # streams that have ended, and in which run
    ends: list[End] = field(default_factory=list)  # where runs ended that others went on from
    clock: Values | None = None  # the state of it; None before the first batch
    kept_for: list[int] = field(default_factory=list)  # the slots of the queries that have one log

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Manifest:
        read = json.loads(data)
        # JSON has made texts of the numbers of streams.
        read["segments"] = {int(i): [Segment(**entry) for entry in log] for i, log in read["segments"].items()}
        for by_stream in ("kept", "newest_us", "oldest_us", "ended"):
            read[by_stream] = {int(i): value for i, value in read.get(by_stream, {}).items()}
        read["ends"] = [End(**end) for end in read.get("ends", [])]
        saved = read["saved"]
        read["saved"] = None if saved is None else Segment(**saved)
        return Manifest(**read)

    def note_oldest(self, stream: int, rows: Rows) -> None:
        if len(rows):
            self.oldest_us[stream] = min(rows.first_us, self.oldest_us.get(stream, rows.first_us))

    @property
    def begun(self) -> list[int]:
        """The streams of which rows came before the watermark."""
        return [stream for stream, oldest_us in self.oldest_us.items() if oldest_us < self.complete_until]

    def note_ended(self, ends: Sequence[Ended], streams: int) -> str | None:
        """Remember which streams have ended; if with that all of them have, in which run. Then they may go on."""
        self.ended |= {stream: one.run for one in ends for stream in one.streams}
        runs = set(self.ended.values())
        # Ends of different runs do not add up: a stream that ended in an earlier run may have brought more in this one.
        if len(self.ended) < streams or len(runs) > 1:
            return None
        self.ended = {}
        return runs.pop()

    @property
    def bytes_held(self) -> int:
        whole = 0 if self.saved is None else self.saved.size
        return whole + sum(segment.size for log in self.segments.values() for segment in log)


class SegmentStore(Protocol):
    """Where segments lie: Spark's state store, or a dictionary in tests."""

    def read(self, stream: int, number: int) -> bytes: ...
    def write(self, stream: int, number: int, packet: bytes) -> None: ...
    def remove(self, stream: int, number: int) -> None: ...


class BucketLog:
    """The log of one bucket during one batch. The layouts tell the columns, event times and codes of streams: codes are
    kept with the rows, so that a restore need not make them again, nor keep what they were made of."""

    def __init__(self, manifest: Manifest, store: SegmentStore, layouts: Sequence[PacketLayout]) -> None:
        self.manifest = manifest
        self.store = store
        self.layouts = layouts

    def rows(self, stream: int) -> Rows:
        """All live rows of a stream, in the order they came."""
        return self._read(stream, self._log(stream))

    def _read(self, stream: int, segments: list[Segment]) -> Rows:
        batches = [b for s in segments for b in from_packet(self.store.read(stream, s.number))]
        layout = self.layouts[stream]
        return layout.rows(pa.concat_batches(batches)) if batches else layout.no_rows()

    def append(self, stream: int, rows: Rows, level: int = 0, at: int | None = None) -> None:
        if len(rows) == 0:
            return
        packet = to_packet([rows.data], self.layouts[stream].schema)
        segment = Segment(self.manifest.next_number, len(rows), int(rows.times.max()), len(packet), level)
        self.manifest.next_number += 1
        log = self._log(stream)
        log.insert(len(log) if at is None else at, segment)
        self.store.write(stream, segment.number, packet)

    def rewrite(self, stream: int, needed: Callable[[Rows], Rows]) -> None:
        """Keep of a stream only some rows, with the columns that the layout has now."""
        log, layout = self._log(stream), self.layouts[stream]
        for place in reversed(range(len(log))):
            rows, level = self._read(stream, [log[place]]), log[place].level
            left = needed(layout.rows(rows.data.select(layout.schema.names)))
            self._replace(stream, place, 1, left, level)

    def save(self, state: bytes, rows: int, newest_us: int) -> None:
        """Replace what was saved whole before."""
        manifest = self.manifest
        self.forget_saved()
        manifest.saved = Segment(manifest.next_number, rows, newest_us, len(state))
        manifest.next_number += 1
        self.store.write(WHOLE, manifest.saved.number, state)

    def forget_saved(self) -> None:
        if self.manifest.saved is not None:
            self.store.remove(WHOLE, self.manifest.saved.number)
            self.manifest.saved = None

    def saved(self) -> bytes | None:
        held = self.manifest.saved
        return None if held is None else self.store.read(WHOLE, held.number)

    def trim(self, stream: int, alias: str, operator: Operator, complete_until: int, *, counted: bool) -> None:
        """Forget rows that a restore would not miss, and keep the number of segments small.

        By time alone whole segments fall off the tail. With ROWS windows (`counted`) any row may be the one that
        still counts, so the log is written anew whenever it has doubled.
        """
        if not counted:
            self._drop_expired(stream, alias, operator, complete_until)
        # Doubling makes the cost of writing anew constant per row.
        elif self._total(stream) > 2 * self.manifest.kept.get(stream, 0) + MIN_ROWS_TO_REWRITE:
            rows = self.rows(stream)
            needed = rows.take(np.flatnonzero(operator.still_needed(alias, rows, complete_until)))
            self._replace(stream, 0, len(self._log(stream)), needed, 0)
            self.manifest.kept[stream] = len(needed)
        for start, count in self._runs(stream):
            # A merge may complete a run of the next level; _runs looks at the log again each time.
            merged = self._log(stream)[start : start + count]
            self._replace(stream, start, count, self._read(stream, merged), merged[0].level + 1)

    def _drop_expired(self, stream: int, alias: str, operator: Operator, complete_until: int) -> None:
        log = self._log(stream)
        # By time alone a segment is needed as long as its newest row is; so only times are given, without the data.
        newest = Rows(self.layouts[stream].no_rows().data, np.array([segment.newest_us for segment in log], np.int64))
        needed = operator.still_needed(alias, newest, complete_until)
        for segment in [s for s, kept in zip(log, needed, strict=True) if not kept]:
            self.store.remove(stream, segment.number)
            log.remove(segment)

    def _replace(self, stream: int, start: int, count: int, rows: Rows, level: int) -> None:
        log = self._log(stream)
        for segment in log[start : start + count]:
            self.store.remove(stream, segment.number)
        del log[start : start + count]
        self.append(stream, rows, level, start)

    def _log(self, stream: int) -> list[Segment]:
        return self.manifest.segments.setdefault(stream, [])

    def _total(self, stream: int) -> int:
        return sum(segment.rows for segment in self._log(stream))

    def _runs(self, stream: int) -> Iterator[tuple[int, int]]:
        """Where a run of FANOUT neighbours of one level ends the log, small enough to be merged."""
        while True:
            log = self._log(stream)
            run = log[-FANOUT:]
            alike = len(run) == FANOUT and len({segment.level for segment in run}) == 1
            if not alike or sum(segment.size for segment in run) > MERGED_BYTES:
                return
            yield len(log) - FANOUT, FANOUT
