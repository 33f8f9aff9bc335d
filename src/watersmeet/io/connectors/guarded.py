"""Another's connector held to the contract: whatever else it does ends in a sentence that names it and the call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet.errors import SinkError, SourceError, WatersmeetError
from watersmeet.io.conform import conform, fits
from watersmeet.io.connectors.contract import (
    BAD_RECORDS,
    NumberedSink,
    Offsets,
    PartitionedSource,
    Position,
    Range,
    Reader,
    SourceBatch,
    Split,
    WatchedFiles,
)
from watersmeet.io.connectors.secrets import without
from watersmeet.io.connectors.wrapped_reader import WrappedReader

_LONGEST = 200


@contextmanager
def called(
    connector: str, call: str, kind: type[WatersmeetError] = SourceError, secrets: Sequence[str] = ()
) -> Iterator[None]:
    """What a connector raises that is no error of ours becomes one; what is secret is in none."""
    try:
        yield
    except WatersmeetError as error:
        error.message = without(error.message, secrets)
        error.hint = None if error.hint is None else without(error.hint, secrets)
        error.args = (error.message,)
        raise
    except Exception as error:
        said = without((str(error).strip().split("\n", 1)[0] or "without a word"), secrets)[:_LONGEST]
        cause = None if secrets else error  # its own words may have them
        raise kind(
            f"connector {connector!r} failed in {call}: {type(error).__name__}: {said}",
            hint="a connector says what is wrong at the other end by raising SourceError or SinkError",
        ) from cause


class GuardedSource(PartitionedSource):
    """A source of which only what the contract allows comes out."""

    schema: pa.Schema
    description: str

    def __init__(self, connector: str, source: PartitionedSource, secrets: Sequence[str] = ()) -> None:
        check_derived(f"the source of connector {connector!r}", type(source), PartitionedSource)
        self.connector = connector
        self.inner = source
        self._secrets = tuple(secrets)
        with called(connector, "schema", secrets=secrets):
            self.schema = source.schema
        if not isinstance(self.schema, pa.Schema):
            raise _breaks(connector, "schema", f"is a {type(self.schema).__name__}, not a pyarrow.Schema")
        with called(connector, "description", secrets=secrets):
            self.description = without(str(source.description), secrets)

    def begin(self) -> Offsets:
        with self.called("begin()"):
            return self._offsets("begin()", self.inner.begin())

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        with self.called("newest()"):
            found = self._offsets("newest()", self.inner.newest(dict(after), most_rows))
        for partition, offset in after.items():
            if partition not in found:
                found[partition] = offset  # a partition that is gone has nothing more
            elif _is_number(offset) and _is_number(found[partition]) and found[partition] < offset:
                raise _breaks(
                    self.connector,
                    "newest()",
                    f"went back in partition {partition!r}, from {offset:,} to {found[partition]:,}",
                )
        return found

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        with self.called("splits()"):
            found = list(self.inner.splits(dict(after), dict(upto)))
        at = dict(after)
        for one in found:
            if not isinstance(one, Split) or one.partition not in upto:
                raise _breaks(
                    self.connector, "splits()", f"gave {one!r}, which is no Split of a partition that was asked"
                )
            if one.partition in at and at[one.partition] != one.after:
                raise _breaks(
                    self.connector,
                    "splits()",
                    f"gave a part of partition {one.partition!r} behind {one.after!r}, "
                    f"but {at[one.partition]!r} was to come next",
                )
            at[one.partition] = one.upto
        return found

    def read(self, split: Split) -> Iterator[SourceBatch]:
        with self.called("read()"):
            batches = iter(self.inner.read(split))
        while True:
            with self.called("read()"):
                batch = next(batches, None)
            if batch is None:
                return
            yield self.checked(batch)

    def close(self) -> None:
        with self.called("close()"):
            self.inner.close()

    def identity(self) -> str | None:
        with self.called("identity()"):
            return self.inner.identity()

    def note(self, offsets: Offsets) -> None:
        with self.called("note()"):
            self.inner.note(offsets)

    def watched(self) -> WatchedFiles | None:
        return self.inner.watched()

    def only(self, columns: Sequence[str]) -> GuardedSource:
        with self.called("only()"):
            inner = self.inner.only(columns)
        return self if inner is self.inner else GuardedSource(self.connector, inner, self._secrets)

    def reader(self) -> Reader | None:
        with self.called("reader()"):
            own = self.inner.reader()
        if own is None:
            return None
        check_derived(f"the reader of connector {self.connector!r}", type(own), Reader)
        return GuardedReader(self, own)

    def called(self, call: str) -> AbstractContextManager[None]:
        return called(self.connector, call, secrets=self._secrets)

    def _offsets(self, call: str, given: Any) -> dict[str, Any]:
        if not isinstance(given, Mapping) or not all(isinstance(partition, str) for partition in given):
            raise _breaks(self.connector, call, f"gave {given!r:.100}, not offsets by the names of partitions")
        try:
            # As they are after a restart, which finds them as JSON.
            return dict(json.loads(json.dumps(dict(given))))
        except (TypeError, ValueError):
            raise _breaks(self.connector, call, f"gave offsets that are no JSON: {given!r:.100}") from None

    def checked(self, batch: SourceBatch, call: str = "read()") -> SourceBatch:
        """Rows and bad records as the contract has them."""
        if not isinstance(batch, SourceBatch) or not isinstance(batch.rows, pa.RecordBatch):
            given = (
                f"SourceBatch with a {type(batch.rows).__name__}"
                if isinstance(batch, SourceBatch)
                else type(batch).__name__
            )
            raise _breaks(self.connector, call, f"gave a {given}, not a SourceBatch with a RecordBatch")
        if batch.bad is not None and not batch.bad.schema.equals(BAD_RECORDS):
            raise _breaks(self.connector, call, "gave bad records that have not the columns of BAD_RECORDS")
        rows = batch.rows
        if rows.schema.equals(self.schema):
            return batch
        same = rows.schema.names == self.schema.names
        pairs = zip(rows.schema.types, self.schema.types, strict=False)
        if not same or not all(fits(found, said) for found, said in pairs):
            raise _breaks(
                self.connector,
                call,
                f"gave rows with ({_columns(rows.schema)}), but its schema says ({_columns(self.schema)})",
            )
        return replace(batch, rows=conform(rows, self.schema))


class GuardedReader(WrappedReader):
    """The reader that a connector brings itself."""

    def __init__(self, source: GuardedSource, reader: Reader) -> None:
        super().__init__(reader)
        self._source = source

    def poll(self, most_rows: int) -> SourceBatch | None:
        with self._called("poll()"):
            batch = self._reader.poll(most_rows)
        return None if batch is None else self._polled(batch)

    def poll_together(self, most_rows: int) -> list[SourceBatch]:
        with self._called("poll()"):
            batches = list(self._reader.poll_together(most_rows))
        return [self._polled(one) for one in batches]

    def again(self, range: Range) -> SourceBatch:
        with self._called("again()"):
            found = self._reader.again(range)
        return self._source.checked(found, "again() of its reader")

    def position_after(self, range: Range) -> Position:
        with self._called("position_after()"):
            return self._reader.position_after(range)

    def place_after(self, position: Position | None, ranges: Sequence[Range]) -> Position:
        with self._called("place_after()"):
            return self._reader.place_after(position, ranges)

    def where(self, position: Position | None) -> Any:
        with self._called("where()"):
            found = self._reader.where(position)
            json.dumps(found)  # places are compared as JSON
            return found

    def first_position(self) -> Position | None:
        with self._called("first_position()"):
            return self._reader.first_position()

    def resume(self, position: Position) -> None:
        with self._called("resume()"):
            self._reader.resume(position)

    def close(self) -> None:
        with self._called("close()"):
            self._reader.close()

    def _polled(self, batch: SourceBatch) -> SourceBatch:
        checked = self._source.checked(batch, "poll() of its reader")
        try:
            json.dumps(checked.range)
        except (TypeError, ValueError):
            said = f"gave a range that is no JSON: {batch.range!r:.100}"
            raise _breaks(self._source.connector, "poll() of its reader", said) from None
        return checked

    def _called(self, call: str) -> AbstractContextManager[None]:
        return self._source.called(f"{call} of its reader")


class GuardedSink(NumberedSink):
    """A sink whose numbers only grow."""

    def __init__(self, connector: str, sink: NumberedSink, secrets: Sequence[str] = ()) -> None:
        check_derived(f"the sink of connector {connector!r}", type(sink), NumberedSink, SinkError)
        self.connector = connector
        self.inner = sink
        self._secrets = tuple(secrets)
        self.commit_every_s, self.commits_soon, self.may_forget = (
            sink.commit_every_s,
            sink.commits_soon,
            sink.may_forget,
        )
        self.claim = sink.claim
        self._last: int | None = None  # what it had when it was first asked, and what it was given since

    @property
    def taken_number(self) -> int:
        return self.inner.taken_number

    def committed(self) -> int:
        found = self._found()
        self._last = found if self._last is None else self._last
        return found

    def _found(self) -> int:
        with called(self.connector, "committed()", SinkError, self._secrets):
            number = self.inner.committed()
        if not isinstance(number, int) or number < -1:
            raise SinkError(f"connector {self.connector!r} says {number!r} is committed; a number is -1 or more")
        return number

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        found = self.committed()
        assert self._last is not None
        if found > self._last and self.claim is None:  # else it refuses itself, by name
            raise SinkError(
                f"connector {self.connector!r} has batch {found:,} of this run, which another process has written",
                hint="another copy of this checkpoint runs: let one of them run, and stop the other",
            )
        with called(self.connector, "commit()", SinkError, self._secrets):
            self.inner.commit(number, rows)
        self._last = max(self._last, number)

    def close(self) -> None:
        with called(self.connector, "close()", SinkError, self._secrets):
            self.inner.close()


def check_derived(what: str, found: type, base: type, kind: type[WatersmeetError] = SourceError) -> None:
    """Refuses a class of which what its author left out cannot be asked."""
    if not issubclass(found, base):
        raise kind(
            f"{what} is a {found.__name__}, which does not derive from {base.__name__}",
            hint=f"from {base.__module__} import {base.__name__}, and say class {found.__name__}({base.__name__}): it "
            "answers for all that yours leaves out",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _breaks(connector: str, call: str, what: str) -> SourceError:
    return SourceError(f"connector {connector!r}: {call} {what}")
