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
from watersmeet.io.connectors.contract import BAD_RECORDS, LanedSource, Lot, NumberedSink, Offsets, Slice
from watersmeet.io.connectors.identity import identity_of
from watersmeet.io.connectors.secrets import without

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


class GuardedSource:
    """A source of which only what the contract allows comes out."""

    def __init__(self, connector: str, source: LanedSource, secrets: Sequence[str] = ()) -> None:
        missing = [name for name in ("begin", "newest", "slices", "read", "close") if not _can(source, name)]
        if missing:
            raise _breaks(connector, "source", f"gave a {type(source).__name__} without {', '.join(missing)}()")
        self.connector = connector
        self.inner = source
        self._secrets = tuple(secrets)
        with called(connector, "schema", secrets=secrets):
            self.schema: pa.Schema = source.schema
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
        for lane, offset in after.items():
            if lane not in found:
                found[lane] = offset  # a lane that is gone has nothing more
            elif _is_number(offset) and _is_number(found[lane]) and found[lane] < offset:
                raise _breaks(
                    self.connector, "newest()", f"went back in lane {lane!r}, from {offset:,} to {found[lane]:,}"
                )
        return found

    def slices(self, after: Offsets, upto: Offsets) -> list[Slice]:
        with self.called("slices()"):
            found = list(self.inner.slices(dict(after), dict(upto)))
        at = dict(after)
        for one in found:
            if not isinstance(one, Slice) or one.lane not in upto:
                raise _breaks(self.connector, "slices()", f"gave {one!r}, which is no Slice of a lane that was asked")
            if one.lane in at and at[one.lane] != one.after:
                raise _breaks(
                    self.connector,
                    "slices()",
                    f"gave a part of lane {one.lane!r} behind {one.after!r}, but {at[one.lane]!r} was to come next",
                )
            at[one.lane] = one.upto
        return found

    def read(self, part: Slice) -> Iterator[Lot]:
        with self.called("read()"):
            lots = iter(self.inner.read(part))
        while True:
            with self.called("read()"):
                lot = next(lots, None)
            if lot is None:
                return
            yield self.checked(lot)

    def close(self) -> None:
        with self.called("close()"):
            self.inner.close()

    def identity(self) -> str | None:
        with self.called("identity()"):
            return identity_of(self.inner)

    def called(self, call: str) -> AbstractContextManager[None]:
        return called(self.connector, call, secrets=self._secrets)

    def _offsets(self, call: str, given: Any) -> dict[str, Any]:
        if not isinstance(given, Mapping) or not all(isinstance(lane, str) for lane in given):
            raise _breaks(self.connector, call, f"gave {given!r:.100}, not offsets by the names of lanes")
        try:
            # As they are after a restart, which finds them as JSON.
            return dict(json.loads(json.dumps(dict(given))))
        except (TypeError, ValueError):
            raise _breaks(self.connector, call, f"gave offsets that are no JSON: {given!r:.100}") from None

    def checked(self, lot: Lot, call: str = "read()") -> Lot:
        """Rows and bad records as the contract has them."""
        if not isinstance(lot, Lot) or not isinstance(lot.rows, pa.RecordBatch):
            given = f"Lot with a {type(lot.rows).__name__}" if isinstance(lot, Lot) else type(lot).__name__
            raise _breaks(self.connector, call, f"gave a {given}, not a Lot with a RecordBatch")
        if lot.bad is not None and not lot.bad.schema.equals(BAD_RECORDS):
            raise _breaks(self.connector, call, "gave bad records that have not the columns of BAD_RECORDS")
        rows = lot.rows
        if rows.schema.equals(self.schema):
            return lot
        same = rows.schema.names == self.schema.names
        pairs = zip(rows.schema.types, self.schema.types, strict=False)
        if not same or not all(fits(found, said) for found, said in pairs):
            raise _breaks(
                self.connector,
                call,
                f"gave rows with ({_columns(rows.schema)}), but its schema says ({_columns(self.schema)})",
            )
        return replace(lot, rows=conform(rows, self.schema))


class GuardedSink:
    """A sink whose numbers only grow."""

    def __init__(self, connector: str, sink: NumberedSink, secrets: Sequence[str] = ()) -> None:
        missing = [name for name in ("commit", "close") if not _can(sink, name)]
        missing += [] if hasattr(sink, "last_number") else ["last_number"]
        if missing:
            raise SinkError(
                f"connector {connector!r} opened a {type(sink).__name__} without {', '.join(missing)} as its sink",
                hint="a sink has last_number (-1 at first), commit(number, batches) and close()",
            )
        self.connector = connector
        self.inner = sink
        self._secrets = tuple(secrets)
        # How often it wants to be given answers, if it says so.
        self.commit_every_s: float | None = getattr(sink, "commit_every_s", None)
        self.may_forget = bool(getattr(sink, "may_forget", False))
        self.commits_soon: bool = getattr(sink, "commits_soon", False)
        self._last: int | None = None  # what it had when it was first asked, and what it was given since

    @property
    def written_by(self) -> str | None:
        return getattr(self.inner, "written_by", None)

    @property
    def last_number(self) -> int:
        found = self._found()
        self._last = found if self._last is None else self._last
        return found

    def _found(self) -> int:
        with called(self.connector, "last_number", SinkError, self._secrets):
            number = self.inner.last_number
        if not isinstance(number, int) or number < -1:
            raise SinkError(f"connector {self.connector!r} says {number!r} is its last_number; it is -1 or more")
        return number

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        found = self.last_number
        assert self._last is not None
        if found > self._last and not hasattr(self.inner, "written_by"):  # else it refuses itself, by name
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


def _can(one: object, name: str) -> bool:
    return callable(getattr(one, name, None))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _breaks(connector: str, call: str, what: str) -> SourceError:
    return SourceError(f"connector {connector!r}: {call} {what}")
