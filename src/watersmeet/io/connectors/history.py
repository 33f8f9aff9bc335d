"""A stream that begins with what was kept of it, files or a table, and goes on with what comes live.

The handover is an instant of event time: rows of the history before it, rows that come live from it on; or a place in
the live source, before which all is history. Either way each row comes once. The history is read in time order, so that
none of it is late, and before anything live is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.io.conform import conform
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.contract import (
    Offsets,
    PartitionedSource,
    Position,
    Range,
    Reader,
    SourceBatch,
    Split,
    all_bad,
)
from watersmeet.io.connectors.offset_reader import OffsetReader, reader_of_partitions
from watersmeet.warning import ConnectorWarning

READ_ROWS = 1 << 16
PREFIX = "history_"
# The partition of the history has no name, as its rows are before those of all others; those of the live source have
# one.
PAST, DONE, LIVE = "", "done", "live:"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Reads the history from its beginning, in time order, and tells of rows without a time that are skipped, and of records
# that cannot be read.
Past = Callable[[int, Callable[[int], None], Callable[[pa.RecordBatch], None]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Handover:
    """at_us: the instant; None if the live source begins at `offsets`, or where it says itself."""

    at_us: int | None = None
    offsets: Mapping[str, Any] | None = None
    written: str = ""


def handover_of(name: str, options: Mapping[str, str]) -> Handover:
    """What `handover` says; names of options are in lower case."""
    written = options.get("handover", "").strip()
    if written.lower() == "start":
        return Handover(written=written)
    if written.startswith("{"):
        return Handover(offsets=_offsets(name, written), written=written)
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        raise OptionError(
            f"{name!r} has history and handover = {written!r}, which is no time",
            hint="write an instant of event time, '2026-01-31 12:00:00'; or 'start' to take all of the history and go "
            "on where the live source begins, as its options say; or offsets as JSON, '{\"0\": 1500}'",
            option="handover",
        ) from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return Handover((at - _EPOCH) // timedelta(microseconds=1), written=written)


def _offsets(name: str, written: str) -> Mapping[str, Any]:
    try:
        return dict(json.loads(written))
    except ValueError:
        raise OptionError(
            f"{name!r} has handover = {written!r}, which is no JSON", hint="'{\"0\": 1500}'", option="handover"
        ) from None


def history_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of the history, as if it were a stream by itself."""
    own = {key.removeprefix(PREFIX): value for key, value in options.items() if key.startswith(PREFIX)}
    shared = {word: options[word] for word in ("on_null", "on_bad") if word in options}
    return {"source": options["history"], "time": options["time"]} | shared | own


class HistoryThenLive(PartitionedSource):
    """Both as one source of partitions, whose rows are as queries see them."""

    schema: pa.Schema
    description: str

    def __init__(
        self,
        past: Past,
        live: ConnectedSource,
        schema: pa.Schema,
        time: str,
        handover: Handover,
        *,
        in_step: bool = False,
    ) -> None:
        """in_step: partitions are told how far they may be apart."""
        self.schema, self.in_step = schema, in_step
        self.name = live.name
        self.past, self.live, self.time, self.handover = past, live, time, handover
        self.description = f"history, then {live.description}"

    def begin(self) -> Offsets:
        return {PAST: None} | {LIVE + partition: offset for partition, offset in self.live_begin().items()}

    def live_begin(self) -> dict[str, Any]:
        return dict(self.live.partitioned.begin()) | dict(self.handover.offsets or {})

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        if after.get(PAST) != DONE and most_rows is not None:
            return dict(after) | {PAST: DONE}
        newest = self.live.partitioned.newest(_of_live(after), most_rows)
        return {PAST: DONE} | {LIVE + partition: offset for partition, offset in newest.items()}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        past = [Split(PAST, after.get(PAST), DONE)] if after.get(PAST) != upto.get(PAST) else []
        live = self.live.partitioned.splits(_of_live(after), _of_live(upto))
        return [*past, *(Split(LIVE + one.partition, one.after, one.upto, one.rows) for one in live)]

    def read(self, split: Split) -> Iterator[SourceBatch]:
        if split.partition == PAST:
            yield from PastPartition(self).read(split)
            return
        for batch in self.live.partitioned.read(Split(split.partition.removeprefix(LIVE), split.after, split.upto)):
            yield self.live_batch(batch)

    def identity(self) -> str | None:
        return self.live.partitioned.identity()

    def close(self) -> None:
        self.live.partitioned.close()

    def note(self, offsets: Offsets) -> None:
        """The live source may note how far it was read; nothing does so of a history."""
        self.live.partitioned.note(_of_live(offsets))

    def reader(self) -> Reader:
        return HistoryReader(self)

    def live_batch(self, batch: SourceBatch) -> SourceBatch:
        """The rows that are not left to the history, as queries see them."""
        readable, unread = self.live.readable(batch.rows)
        made = conform(readable, self.schema)
        kept = made if self.handover.at_us is None else made.filter(self._is_before(made, invert=True))
        left_out = batch.left_out + made.num_rows - kept.num_rows
        return replace(batch, rows=kept, bad=all_bad(batch.bad, unread), left_out=left_out)

    def past_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        made = conform(rows, self.schema)
        return made if self.handover.at_us is None else made.filter(self._is_before(made))

    def _is_before(self, rows: pa.RecordBatch, *, invert: bool = False) -> pa.Array:
        column = rows.column(self.time)
        at = pa.scalar(self.handover.at_us, pa.int64()).cast(column.type)
        # A row without a time is live's: what becomes of it is said elsewhere.
        return pc.fill_null(pc.greater_equal(column, at), True) if invert else pc.fill_null(pc.less(column, at), True)


def _none_of(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def _of_live(offsets: Offsets) -> dict[str, Any]:
    return {partition.removeprefix(LIVE): one for partition, one in offsets.items() if partition.startswith(LIVE)}


class PastPartition(PartitionedSource):
    """The history alone: one split, which has all of it."""

    schema: pa.Schema
    description: str

    def __init__(self, both: HistoryThenLive) -> None:
        self._both = both
        self.schema, self.description = both.schema, both.description
        self.read_rows = self.left_out = self.skipped = 0

    def begin(self) -> Offsets:
        return {PAST: None}

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        return {PAST: DONE}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        return [] if after.get(PAST) == DONE else [Split(PAST, None, DONE)]

    def read(self, split: Split) -> Iterator[SourceBatch]:
        self.read_rows = self.left_out = self.skipped = 0
        bad: list[pa.RecordBatch] = []
        for batch in self._both.past(READ_ROWS, self._skip, bad.append):
            kept = self._both.past_rows(batch)
            self.read_rows += kept.num_rows
            self.left_out += batch.num_rows - kept.num_rows
            yield SourceBatch(kept, all_bad(*bad), batch.num_rows - kept.num_rows)
            bad.clear()
        if bad:
            yield SourceBatch(_none_of(self.schema), all_bad(*bad))

    def _skip(self, rows: int) -> None:
        self.skipped += rows


class HistoryReader(Reader):
    """First the history, then whatever reads the live source best. Where that begins is fixed at the start. A range is
    that of one of them, and which it is of."""

    keeps_step = True

    def __init__(self, both: HistoryThenLive) -> None:
        self._both = both
        self._history = PastPartition(both)
        self._past = OffsetReader(self._history)
        # Offsets that were said are understood by who reads by offsets; others begin where they say.
        partitioned = both.live.partitioned
        by_offsets = both.handover.offsets is not None
        self._live: Reader = (
            OffsetReader(partitioned) if by_offsets else reader_of_partitions(partitioned, in_step=both.in_step)
        )
        self._is_past = True
        # Read once, as by the time a position in the history is asked for the live source may be read already.
        self._has_begun = False
        self._live_begins: Position | None = None

    def keep_step(self, order: Sequence[str]) -> None:
        self._live.keep_step(order)

    @property
    def pause_s(self) -> float:
        return self._live.pause_s

    @property
    def is_behind(self) -> bool | None:
        return True if self._is_past else self._live.is_behind

    def lag(self) -> dict[str, int]:
        return self._live.lag()

    def first_position(self) -> Position:
        if not self._has_begun:
            self._live_begins, self._has_begun = self._begun(), True
        return {"past": self._past.first_position(), "live": self._live_begins}

    def _begun(self) -> Position | None:
        """Where the live source begins; None for a reader that always begins at the same place."""
        if self._both.handover.offsets is not None:
            self._live.resume({"offsets": self._both.live_begin(), "inside": None})
        return self._live.first_position()

    def poll(self, most_rows: int) -> SourceBatch | None:
        if self._is_past:
            self.first_position()
            batch = self._past.poll(most_rows)
            if batch is not None:
                return replace(batch, range=["past", batch.range], partition="")
            self._hand_over()
        while True:
            batch = self._live.poll(most_rows)
            if batch is None:
                return None
            found = self._of_live(batch)
            if found.rows.num_rows or found.bad is not None or found.left_out:
                return found

    def _of_live(self, batch: SourceBatch) -> SourceBatch:
        return replace(self._both.live_batch(batch), range=["live", batch.range])

    def _hand_over(self) -> None:
        self._is_past = False
        both, past = self._both, self._history
        if not past.read_rows and not past.left_out:
            return  # it was read in another life
        left = f"; {past.left_out:,} rows at it or after are left to live" if both.handover.at_us is not None else ""
        left += f"; {past.skipped:,} rows without a time were left out" if past.skipped else ""
        self.tell(
            ConnectorWarning(
                "handover",
                f"stream {both.name!r}: {past.read_rows:,} rows of its history were read, up to the handover "
                f"{both.handover.written!r}{left}; from here on rows come from {both.live.description}",
            )
        )

    def again(self, range: Range) -> SourceBatch:
        of, inner = range
        self.first_position()
        if of == "past":
            return self._past.again(inner)
        self._is_past = False
        return self._of_live(self._live.again(inner))

    def position_after(self, range: Range) -> Position:
        of, inner = range
        if of == "past":
            return {"past": self._past.position_after(inner), "live": self._live_begins}
        return {"past": None, "live": self._live.position_after(inner)}

    @property
    def may_be_shared(self) -> bool:
        return self._live.may_be_shared

    def place_after(self, position: Position | None, ranges: Sequence[Range]) -> Position:
        assert position is not None
        for of, reader in (("past", self._past), ("live", self._live)):
            given = [inner for one, inner in ranges if one == of]
            if not given:
                continue
            if of == "past":
                position = {"past": reader.place_after(position["past"], given), "live": position["live"]}
            else:
                position = {"past": None, "live": reader.place_after(position["live"], given)}
        return position

    def where(self, position: Position | None) -> Any:
        assert position is not None
        past, live = position["past"], position["live"]
        return [None if past is None else self._past.where(past), self._live.where(live)]

    def be_shared(self) -> None:
        self._past.be_shared()
        self._live.be_shared()

    def resume(self, position: Position) -> None:
        self._is_past = position["past"] is not None
        if self._is_past:
            self._past.resume(position["past"])
        self._live_begins, self._has_begun = position["live"], True
        if position["live"] is not None:
            self._live.resume(position["live"])

    def close(self) -> None:
        self._past.close()
        self._live.close()
