"""Files of text, line by line, where the stream says what becomes of lines that cannot be read: on_bad.

Many lines are read at once. Only where that fails they are halved, until the lines that make it fail stand alone; so
what is read does not depend on how lines are put together.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from watersmeet.dataclass import dataclass
from watersmeet.errors import LONGEST_LINE, DataError, SourceError
from watersmeet.io.bad_rows import bad_records
from watersmeet.io.connectors.bad_reasons import NOT_CSV, NOT_TEXT, UNREADABLE_TIME, WRONG_TYPE
from watersmeet.io.csv_errors import misfit, ragged
from watersmeet.io.filesystems import AnyFile
from watersmeet.io.formats import Csv, csv_conversion
from watersmeet.io.json_errors import not_json, why_unread
from watersmeet.io.json_guard import refuse_null
from watersmeet.io.json_types import as_declared, parsed_schema

_BLOCK_BYTES = 1 << 20
_LONGEST_RECORD = 1 << 10  # lines that a quoted text may go on for
_QUOTE = b'"'
_JSON = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t]*")
_ROW = re.compile(r"( in row \d+|Row #\d+: )")


@dataclass(frozen=True)
class Lines:
    """Records as they stand in a file, and which row each is, counted from 1: neither a header nor an empty line is
    one."""

    raw: Sequence[bytes]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.raw)

    def part(self, start: int, end: int) -> Lines:
        return Lines(self.raw[start:end], self.numbers[start:end])

    def behind(self, more: int) -> Lines:
        """The same with so many rows more before them."""
        return Lines(self.raw, [number + more for number in self.numbers]) if more else self


@dataclass(frozen=True)
class Found:
    """Rows that were read, with the lines they are of; and the lines that could not be, as BAD_RECORDS."""

    rows: pa.RecordBatch
    lines: Lines
    bad: pa.RecordBatch | None


class TolerantText:
    """Reads one file. `conformed` makes of parsed rows those of the stream, and raises DataError."""

    def __init__(
        self,
        stream: str,
        path: AnyFile,
        format_: object,
        wanted: pa.Schema,
        conformed: Callable[[pa.RecordBatch], pa.RecordBatch],
    ) -> None:
        self._stream, self._path, self._wanted, self._conformed = stream, path, wanted, conformed
        self._csv = format_ if isinstance(format_, Csv) else None
        self._names: list[str] = []
        self._more = 0  # rows that were found in records which first were taken for one

    def read(self) -> Iterator[Found]:
        return (self._found(records) for records in self._all_records())

    def first_broken(self) -> tuple[int, bytes, str] | None:
        """The first record that is none of any columns, where nobody knows them yet: which row, its bytes, and why."""
        for records in self._all_records():
            for number, raw in zip(records.numbers, records.raw, strict=True):
                why = not_json(raw) if self._csv is None else self._ragged(raw)
                if why is not None:
                    return number, raw, why
        return None

    def _all_records(self) -> Iterator[Lines]:
        number = 1
        for lines in self._blocks():
            if self._csv is not None and not self._names:
                if self._csv.header and lines:
                    self._names, lines = self._header(lines[0]), lines[1:]
                else:
                    self._names = list(self._wanted.names)
            records = self._records(lines, number)
            number += len(records)
            if len(records):
                yield records

    # ---- lines ------------------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[list[bytes]]:
        """Whole lines, many at a time. A quoted text that goes on stays with the line it begins in."""
        rest = b""
        # Packed ones are unpacked, by their name.
        with pa.input_stream(self._path) if isinstance(self._path, Path) else self._path.streamed() as file:
            while block := file.read(_BLOCK_BYTES):
                rest += block
                end = self._whole(rest)
                if end:
                    yield self._lines(rest[:end])
                    rest = rest[end:]
        if rest:
            yield self._lines(rest)

    def _lines(self, text: bytes) -> list[bytes]:
        if self._csv is not None and b"\r" in text:
            text = _with_one_end(text)
        return text.removesuffix(b"\n").split(b"\n")

    def _whole(self, text: bytes) -> int:
        """Behind which byte the last line ends that nothing is missing of."""
        end = text.rfind(b"\n") + 1
        if self._csv is None or text.count(_QUOTE, 0, end) % 2 == 0 or len(text) > 2 * _BLOCK_BYTES:
            return end
        return text.rfind(b"\n", 0, text.rfind(_QUOTE, 0, end)) + 1

    def _records(self, lines: list[bytes], number: int) -> Lines:
        # Of CSV the ends of lines are alike already, and what is left of them belongs to a text.
        raw = [line.removesuffix(b"\r") for line in lines] if self._csv is None else lines
        if self._csv is not None:
            raw = _joined(raw)
        if not self._one_column:
            raw = [line for line in raw if line and not line.isspace()]  # an empty line is no record
        return Lines(raw, range(number, number + len(raw)))

    @property
    def _one_column(self) -> bool:
        """Of CSV: then an empty line is a NULL."""
        return self._csv is not None and len(self._names) == 1

    def _header(self, line: bytes) -> list[str]:
        assert self._csv is not None
        text = line.decode("utf-8-sig", errors="replace")
        try:
            names = next(csv.reader([text], delimiter=self._csv.delimiter), [])
        except csv.Error as error:
            raise SourceError(f"the header of {self._path} cannot be read: {error}") from None
        for field in self._wanted:
            if field.name not in names:
                raise SourceError(
                    f"{self._stream!r} is declared with a column {field.name!r}, but {self._path} has none",
                    hint=f"its columns are {', '.join(names)}",
                )
        return names

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _found(self, records: Lines) -> Found:
        rows: list[pa.RecordBatch] = []
        good: list[Lines] = []
        bad: list[tuple[Lines, Exception]] = []
        self._read(records, rows, good, bad)
        return Found(
            rows[0] if len(rows) == 1 else pa.concat_batches(rows) if rows else self._conformed(self._none()),
            Lines([line for one in good for line in one.raw], [number for one in good for number in one.numbers]),
            self._bad_records(bad) if bad else None,
        )

    def _read(
        self,
        records: Lines,
        rows: list[pa.RecordBatch],
        good: list[Lines],
        bad: list[tuple[Lines, Exception]],
    ) -> None:
        try:
            made = self._conformed(self._parsed(records.raw))
        except (pa.ArrowException, DataError, SourceError, UnicodeDecodeError) as error:
            if len(records) == 1:
                self._alone(records, error, rows, good, bad)
                return
            half = len(records) // 2
            self._read(records.part(0, half), rows, good, bad)
            self._read(records.part(half, len(records)), rows, good, bad)
            return
        rows.append(made)
        good.append(records.behind(self._more))

    def _alone(
        self,
        record: Lines,
        error: Exception,
        rows: list[pa.RecordBatch],
        good: list[Lines],
        bad: list[tuple[Lines, Exception]],
    ) -> None:
        # A quote that opened no text has drawn other lines to it.
        parts = _objects(record.raw[0]) if self._csv is None else [one for one in record.raw[0].split(b"\n") if one]
        if len(parts) < 2:
            bad.append((record.behind(self._more), error))
            return
        for part in parts:
            self._read(Lines([part], record.numbers), rows, good, bad)
            self._more += 1
        self._more -= 1

    def _parsed(self, lines: Sequence[bytes]) -> pa.RecordBatch:
        text = b"\n".join([*lines, b""])  # with the end of the last, which may be empty
        text.decode("utf-8")  # Arrow takes other bytes for text
        table = self._as_csv(text) if self._csv is not None else self._as_json(text)
        if table.num_rows != len(lines):
            raise DataError(f"{len(lines)} lines are {table.num_rows} rows")
        if not table.num_rows:
            return self._none()
        rows = table.combine_chunks().to_batches()[0]
        return rows if self._csv is not None else as_declared(rows, self._wanted)

    def _as_json(self, text: bytes) -> pa.Table:
        refuse_null(text)
        options = pa_json.ParseOptions(explicit_schema=parsed_schema(self._wanted), unexpected_field_behavior="ignore")
        reading = pa_json.ReadOptions(block_size=max(len(text) + 1, _BLOCK_BYTES), use_threads=False)
        return pa_json.read_json(pa.BufferReader(text), reading, options)

    def _as_csv(self, text: bytes) -> pa.Table:
        types = {field.name: field.type for field in self._wanted}
        try:
            return self._typed_csv(text, types)
        except pa.ArrowInvalid:
            # Times are parsed with a zone exactly if the text has one; the cast to the declared type follows.
            other = {name: _other_zone(kind) for name, kind in types.items()}
            if other == types:
                raise
            try:
                return self._typed_csv(text, other)
            except pa.ArrowInvalid:
                pass
            raise

    def _typed_csv(self, text: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
        assert self._csv is not None
        return pa_csv.read_csv(
            pa.BufferReader(text),
            pa_csv.ReadOptions(
                column_names=self._names, block_size=max(len(text) + 1, _BLOCK_BYTES), use_threads=False
            ),
            pa_csv.ParseOptions(
                delimiter=self._csv.delimiter, newlines_in_values=True, ignore_empty_lines=not self._one_column
            ),
            csv_conversion(types, self._csv.null_values),
        )

    def _none(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in self._wanted], schema=self._wanted)

    # ---- what is bad ------------------------------------------------------------------------------------------------

    def _bad_records(self, bad: Sequence[tuple[Lines, Exception]]) -> pa.RecordBatch:
        whys = [self._why(record.raw[0], error) for record, error in bad]
        return bad_records(
            self._stream,
            [reason for reason, _ in whys],
            [detail if len(detail) <= LONGEST_LINE else f"{detail[:LONGEST_LINE]}…" for _, detail in whys],
            str(self._path),
            [record.numbers[0] for record, _ in bad],
            [record.raw[0] for record, _ in bad],
        )

    def _why(self, line: bytes, error: Exception) -> tuple[str, str]:
        """A reason that is counted, and what is wrong with this one."""
        if isinstance(error, UnicodeDecodeError):
            return NOT_TEXT, f"it is no UTF-8: {error.reason} at byte {error.start}"
        if isinstance(error, DataError) and "rows" not in error.message:
            return UNREADABLE_TIME, _first_line(error)
        if self._csv is None:
            return why_unread(_first_line(error), self._wanted, [line])
        if not self._has_all_fields(line):
            return NOT_CSV, self._ragged(line) or _first_line(error)
        return WRONG_TYPE, misfit(str(error), self._wanted, self._names, self._fields(line)) or _first_line(error)

    def _ragged(self, line: bytes) -> str | None:
        """Whether it has another number of values than the header, which is told then."""
        expected, found = len(self._names), len(self._fields(line))
        return None if found == expected or not (found and expected) else ragged(expected, found)

    def _fields(self, line: bytes) -> list[str]:
        assert self._csv is not None
        text = line.decode("utf-8", errors="replace")
        try:
            return next(csv.reader(text.splitlines(keepends=True), delimiter=self._csv.delimiter), [])
        except csv.Error:  # as of a field that is very long: what is wrong is told without it
            return []

    def _has_all_fields(self, line: bytes) -> bool:
        """Whether it is a record, whatever is in it."""
        try:
            return bool(self._typed_csv(line, {field.name: pa.string() for field in self._wanted}).num_rows == 1)
        except pa.ArrowInvalid:
            return False


def _with_one_end(text: bytes) -> bytes:
    """CSV whose lines all end in the same way. A carriage return ends one too, also alone, except in a quoted text."""
    pieces = text.split(_QUOTE)
    pieces[::2] = [piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") for piece in pieces[::2]]
    return _QUOTE.join(pieces)


def _objects(line: bytes) -> list[bytes]:
    """The parts of a line of JSON that may be objects each: between carriage returns, which no text holds, or with
    nothing but blanks between them.

    >>> _objects(b'{"a": 1}\\r{"a": '), _objects(b'{"a": 1} {"a": 2}'), _objects(b'{"a": 1} null')
    ([b'{"a": 1}', b'{"a": '], [b'{"a": 1}', b'{"a": 2}'], [b'{"a": 1} null'])
    """
    parts = [part for part in line.split(b"\r") if part and not part.isspace()]
    if len(parts) > 1:
        return parts
    found = []
    try:
        text, at = line.decode().rstrip(), 0
        while at < len(text):
            start = _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # which always matches
            value, at = _JSON.raw_decode(text, start)
            if not isinstance(value, dict):
                return [line]
            found.append(text[start:at].encode())
    except (ValueError, RecursionError):
        return [line]
    return found


def _other_zone(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp(kind.unit, tz=None if kind.tz else "UTC") if pa.types.is_timestamp(kind) else kind


def _first_line(error: Exception) -> str:
    message = error.message if isinstance(error, DataError | SourceError) else str(error)
    # Arrow counts rows from where it was told to begin, which was here.
    return _ROW.sub("", message.split("\n", 1)[0]).rstrip(".")


def _joined(lines: list[bytes]) -> list[bytes]:
    """Lines of CSV with those that a quoted text goes on over put together: between two quotes that stand alone."""
    odd = np.flatnonzero(pc.count_substring(pa.array(lines, pa.binary()), '"').to_numpy(zero_copy_only=False) % 2)
    if not odd.size:
        return lines
    made: list[bytes] = []
    at, places = 0, iter(odd.tolist())
    for first in places:
        last = next(places, None)
        if last is None or last - first > _LONGEST_RECORD:
            break
        made += [*lines[at:first], b"\n".join(lines[first : last + 1])]
        at = last + 1
    return made + lines[at:]
