"""Files read in the order of event times, without holding them in memory.

A file is read in sections: the row groups of Parquet, whose statistics tell where their times begin, else the whole
file. Sections come in the order of their first times. One that is in order by itself and ends before the next begins is
passed on as it is; all others go through a sorter, which gives out what is before the next section's first row. Whether
a section is in order shows when it is read: small ones are held until that is known, of large ones the times are looked
at beforehand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, pairwise, zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from watersmeet.dataclass import dataclass
from watersmeet.io.bad_rows import OnCounted
from watersmeet.io.event_times import in_microseconds, is_sorted, refuse_nulls, without_nulls
from watersmeet.io.files import FileSource, pieces, readable
from watersmeet.io.filesystems import AnyFile
from watersmeet.io.formats import Parquet
from watersmeet.io.read_times import Place
from watersmeet.io.spill import END, Key, Piece, TimeSorter, sort_memory
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US, times_of

# Room for the rows of a section between the places of two in the order of arrival.
PLACES = 1 << 40
LOOK_ROWS = 1 << 17
READ_ROWS = 1 << 14  # at least, as whoever takes them one by one would read them no sooner
HELD_OF_MEMORY = 1 / 4
_PER_US = {"milliseconds": (1_000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1_000)}
_OF_UNIT = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


@dataclass(frozen=True)
class Look:
    """What the time column of a section tells of the rows that have an event time."""

    rows: int
    first_us: int
    last_us: int
    is_sorted: bool
    nulls: int = 0


@dataclass(frozen=True)
class Section:
    """Part of a file: a row group of Parquet, or all of it. `number` is its place among all."""

    path: AnyFile
    group: int | None
    number: int
    first_us: int
    look: Look | None = None

    @property
    def key(self) -> Key:
        """Before the first of its rows, in the order of time and arrival."""
        return self.first_us, self.number * PLACES


def batches_in_order(
    stream: Stream, source: FileSource, max_rows: int, on_skipped: OnCounted | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of some files in the order of their event times; among equal ones as they stand in the files."""
    with _Reader(stream, source, max_rows, on_skipped) as reader, TimeSorter(sort_memory()) as sorter:
        sections = sorted(reader.sections(), key=lambda section: section.key)
        for section, following in zip_longest(sections, sections[1:]):
            until = END if following is None else following.key
            held, rest, look = reader.begun(section)
            # The place behind its last row.
            last = (look.last_us, section.number * PLACES + look.rows)
            # Passed on if no row to come, and none that waits in the sorter, belongs between its rows.
            if look.is_sorted and last <= until and last <= sorter.first:
                for piece in chain(held, rest):
                    yield from pieces(piece.data, max_rows)
            else:
                for piece in chain(held, rest):
                    sorter.add(piece)
            for batch in sorter.release(until):
                yield from pieces(batch, max_rows)


class _Reader:
    """Reads sections; the Parquet file that was read last stays open, as the next section is mostly of it."""

    def __init__(self, stream: Stream, source: FileSource, max_rows: int, on_skipped: OnCounted | None = None) -> None:
        self.stream, self.source, self.max_rows, self.on_skipped = stream, source, max_rows, on_skipped
        self._held_bytes = int(sort_memory() * HELD_OF_MEMORY)
        self._open = ExitStack()
        self._path: AnyFile | None = None
        self._file: pa_parquet.ParquetFile | None = None

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def sections(self) -> list[Section]:
        """All sections that have rows, in the order of arrival."""
        # A single section has nobody to be compared with: where it begins need not be known.
        if len(self.source.paths) == 1 and not isinstance(self.source.format, Parquet):
            return [Section(self.source.paths[0], None, 0, BEGINNING_US)]
        found: list[Section] = []
        for path in self.source.paths:
            with readable(path, self.source.hint):
                if isinstance(self.source.format, Parquet):
                    found += self._groups(path, len(found))
                else:
                    found += self._looked_at(Section(path, None, len(found), BEGINNING_US))
        return found

    def _groups(self, path: AnyFile, number: int) -> list[Section]:
        file = self._parquet(path)
        found: list[Section] = []
        for group in range(file.num_row_groups):
            first_us = _first_us(file, group, self.stream)
            section = Section(path, group, number + len(found), BEGINNING_US if first_us is None else first_us)
            # Where statistics are missing the time column is read twice, once for this.
            found += self._looked_at(section) if first_us is None else [section]
        return found

    def _looked_at(self, section: Section) -> list[Section]:
        look = self.look(section)
        if not look.rows:  # nobody will read it
            self._skipped(look.nulls)
            if self.source.stream is not None:  # what is bad in it is told all the same
                for _ in self._read(section, LOOK_ROWS):
                    pass
            return []
        return [Section(section.path, section.group, section.number, look.first_us, look)]

    def _skipped(self, rows: int) -> None:
        if rows and self.on_skipped is not None:
            self.on_skipped(rows)

    def look(self, section: Section) -> Look:
        """Read the time column alone."""
        rows, nulls, first, last, in_order = 0, 0, FOREVER_US, BEGINNING_US, True
        for batch in self._read(section, LOOK_ROWS, only=self.stream.time):
            column = batch.column(0)
            rows, nulls = rows + len(column), nulls + column.null_count
            if self.stream.arrival.skips_nulls:
                column = column.drop_null()
            elif nulls:  # once there is one, only their number is of interest
                continue
            if not len(column):
                continue
            times = times_of(in_microseconds(self.stream, column, 0))
            in_order = in_order and last <= int(times[0]) and is_sorted(times)
            first, last = min(first, int(times.min())), max(last, int(times.max()))
        if not self.stream.arrival.skips_nulls:
            refuse_nulls(self.stream, nulls, rows, 0, str(section.path))
        return Look(rows - nulls, first, last, in_order, nulls)

    def begun(self, section: Section) -> tuple[list[Piece], Iterator[Piece], Look]:
        """The first rows of a section, the others, and what its times tell."""
        rest = self._pieces(section)
        if section.look is not None:
            return [], rest, section.look
        held: list[Piece] = []
        held_bytes = 0
        for piece in rest:
            held.append(piece)
            held_bytes += int(piece.data.nbytes)
            if held_bytes > self._held_bytes:
                # Too large to be held until its end is seen: its times are read by themselves.
                return held, rest, self.look(section)
        return held, rest, _look_of(held)

    def _pieces(self, section: Section) -> Iterator[Piece]:
        """The rows with their times and their places in the order of arrival."""
        place = section.number * PLACES
        for batch in self._read(section, max(self.max_rows, READ_ROWS)):
            batch = without_nulls(self.stream, batch, self.on_skipped)
            if batch.num_rows == 0:
                continue
            column = batch.column(self.stream.time)
            if column.null_count:
                self.look(section)  # which says how many there are
            times = times_of(in_microseconds(self.stream, column, 0))
            yield Piece(batch, times, np.arange(place, place + len(times), dtype=np.int64))
            place += len(times)

    def _read(self, section: Section, max_rows: int, only: str | None = None) -> Iterator[pa.RecordBatch]:
        with readable(section.path, self.source.hint):
            if section.group is None:
                yield from self.source.read(section.path, max_rows, only)
                return
            names = [only] if only else self.source.taken(self.source.schema).names
            file = self._parquet(section.path)
            before = sum(file.metadata.row_group(group).num_rows for group in range(section.group))
            for batch in file.iter_batches(batch_size=max_rows, row_groups=[section.group], columns=names):
                rows = self.source.conformed(batch, only, Place(before, str(section.path)))
                yield self.source.readable_rows(rows, before, section.path, tell=only is None)
                before += batch.num_rows

    def _parquet(self, path: AnyFile) -> pa_parquet.ParquetFile:
        if self._file is None or self._path != path:
            assert isinstance(self.source.format, Parquet)
            self._open.close()
            self._file = self._open.enter_context(self.source.format.opened(path))
            self._path = path
            self.source.check(self._file.schema_arrow, path)
        return self._file


def _look_of(held: Sequence[Piece]) -> Look:
    if not held:
        return Look(0, FOREVER_US, BEGINNING_US, True)
    times = [piece.times for piece in held]
    in_order = all(map(is_sorted, times)) and all(bool(one[-1] <= after[0]) for one, after in pairwise(times))
    first, last = (times[0][0], times[-1][-1]) if in_order else (min(map(np.min, times)), max(map(np.max, times)))
    return Look(sum(map(len, held)), int(first), int(last), in_order)


def _first_us(file: pa_parquet.ParquetFile, group: int, stream: Stream) -> int | None:
    """The first event time of a row group, rounded down, as its statistics tell it; None if they do not."""
    column = file.schema_arrow.get_field_index(stream.time)
    if any(pa.types.is_nested(field.type) for field in file.schema_arrow):
        return None  # columns of the file are then more than those of the table
    unit = _unit(file, column, stream)
    statistics = file.metadata.row_group(group).column(column).statistics
    if unit is None or statistics is None or not statistics.has_min_max or statistics.physical_type != "INT64":
        return None
    multiplier, divisor = unit
    # Rounded down, as a section must not seem to begin later than it does.
    return int(statistics.min_raw) * multiplier // divisor


def _unit(file: pa_parquet.ParquetFile, column: int, stream: Stream) -> tuple[int, int] | None:
    """By what a number in a time column is multiplied and divided to be microseconds; None if it is no such number."""
    if stream.reading is None:
        described = json.loads(file.metadata.schema.column(column).logical_type.to_json())
        return _PER_US.get(described.get("timeUnit", ""))
    is_number = file.schema_arrow.field(column).type == pa.int64()
    return _OF_UNIT.get(stream.reading.unit or "") if is_number else None
