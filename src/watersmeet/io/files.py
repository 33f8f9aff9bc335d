"""Parquet, CSV and JSON-lines files, one or a folder of them, read in pieces."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError, OptionError, SourceError
from watersmeet.io.bad_rows import OnBad, without_bad_rows
from watersmeet.io.broken_text import check_names
from watersmeet.io.conform import check_columns, conform, plain_schema
from watersmeet.io.connectors.contract import SourceBatch
from watersmeet.io.filesystems import AnyFile
from watersmeet.io.formats import Csv, Format, format_named
from watersmeet.io.json_guard import TOO_DEEP
from watersmeet.io.path_formats import ALIASES, data_kind, is_data_name, is_hidden, named_kind
from watersmeet.io.read_times import Place, doubt_unit, read_batch, stored_type
from watersmeet.io.tolerant_text import TolerantText
from watersmeet.model.catalog import Stream
from watersmeet.model.time_reading import TimeReading
from watersmeet.model.types import sql_type
from watersmeet.warning import ConnectorWarning, warn

FIRST_ROWS = 1 << 10  # that are looked at when a stream is declared
_SHOWN = 60  # characters of a row
_IS_ARRAY = "Column() changed from object to array"
_CHANGED = re.compile(r"Column\(/(.+?)\) changed from (\w+) to (\w+)")


@dataclass(frozen=True)
class FileSource:
    """Files of one format with the same columns, read in the order of their names. `reading`: how they hold the event
    times that the schema has as timestamps. `columns`: the names of those that are read, if not all. `where`: the file,
    folder or pattern that was given. `stream` and `on_bad`: whose rows these are, and who takes the records that cannot
    be read, where the stream says what becomes of them."""

    name: str
    paths: tuple[AnyFile, ...]
    format: Format
    schema: pa.Schema
    description: str
    declared: bool
    known_rows: int | None = None
    bounded: bool = True
    rounding: str = "error"
    at_hand: bool = True
    reading: TimeReading | None = None
    columns: frozenset[str] | None = None
    where: str = ""
    stream: Stream | None = None
    on_bad: OnBad | None = None

    def tolerant(self, stream: Stream, on_bad: OnBad | None = None) -> FileSource:
        """The same files without the records that cannot be read, which are handed over when they are come by."""
        return replace(self, stream=stream, on_bad=on_bad) if stream.arrival.keeps_going else self

    def as_of_now(self) -> FileSource:
        """The same, of the files that are there now: some may have come or gone since it was declared."""
        return replace(self, paths=tuple(find_files(self.where, self.format.kind))) if self.where else self

    def of_file(self, path: AnyFile, max_rows: int) -> Iterator[SourceBatch]:
        """The same; whatever goes wrong names the file."""
        with readable(path, self.hint):
            yield from self.source_batches(path, max_rows)

    def source_batches(self, path: AnyFile, max_rows: int) -> Iterator[SourceBatch]:
        """The rows of one file, and the records among them that cannot be read."""
        if self.stream is None:
            yield from (SourceBatch(batch) for batch in self._read(path, max_rows, None))
        elif self.format.has_footer:
            before = 0
            for batch in self._read(path, max_rows, None):
                yield SourceBatch(*without_bad_rows(self.stream, batch, before, str(path)))
                before += batch.num_rows
        else:
            yield from self.text_batches(path, self.stream)

    def readable_rows(self, rows: pa.RecordBatch, before: int, path: AnyFile, *, tell: bool) -> pa.RecordBatch:
        """Rows of a file, or only their times, without those whose times cannot be read; `tell`: hand those over."""
        if self.stream is None:
            return rows
        rows, bad = without_bad_rows(self.stream, rows, before, str(path))
        if bad is not None and tell and self.on_bad is not None:
            self.on_bad(bad)
        return rows

    def text_batches(self, path: AnyFile, stream: Stream | None) -> Iterator[SourceBatch]:
        """The lines of a text file that can be read, and those that cannot. Without a stream times are not judged."""
        stored = self._stored(self.schema)
        wanted = stored if self.rounding == "error" else with_nanoseconds(stored)
        text = TolerantText(self.name, path, self.format, wanted, lambda rows: self.conformed(rows, None, Place(None)))
        for found in text.read():
            rows, timeless = found.rows, None
            if stream is not None:
                rows, timeless = without_bad_rows(stream, rows, 0, str(path), found.lines.raw, found.lines.numbers)
            bad = [one for one in (found.bad, timeless) if one is not None]
            yield SourceBatch(rows, pa.concat_batches(bad) if bad else None)

    def only(self, columns: Collection[str]) -> FileSource:
        """The same files with some of their columns, where others need not be read: text is read as a whole."""
        if not self.format.has_footer or set(self.schema.names) <= set(columns):
            return self
        # One at least, as rows without any cannot be counted.
        wanted = frozenset(columns) & frozenset(self.schema.names)
        return replace(self, columns=wanted or frozenset(self.schema.names[:1]))

    def narrowed(self, columns: Collection[str]) -> FileSource:
        """The same files, of which only these columns need be there. Without a header, columns are known by their
        position, so that all of them are named."""
        by_position = isinstance(self.format, Csv) and not self.format.header
        if by_position or self.stream is not None or set(self.schema.names) <= set(columns):
            return self
        return replace(self, schema=pa.schema([one for one in self.schema if one.name in columns]))

    def taken(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are read, of all that there are."""
        if self.columns is None:
            return schema
        return pa.schema([field for field in schema if field.name in self.columns])

    def batches(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            with readable(path, self.hint):
                for batch in self.read(path, max_rows):
                    yield from pieces(batch, max_rows)

    def read(self, path: AnyFile, max_rows: int, only: str | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of one file, or only one of their columns."""
        if self.stream is None:
            yield from self._read(path, max_rows, only)
            return
        for batch in self.source_batches(path, max_rows):
            # Whoever reads only the times reads the rows as well, now or later.
            if batch.bad is not None and only is None and self.on_bad is not None:
                self.on_bad(batch.bad)
            if batch.rows.num_rows:
                yield batch.rows if only is None else batch.rows.select([only])

    def _read(self, path: AnyFile, max_rows: int, only: str | None) -> Iterator[pa.RecordBatch]:
        with self.naming_rows(path):
            yield from self._strictly(path, max_rows, only)

    def _strictly(self, path: AnyFile, max_rows: int, only: str | None) -> Iterator[pa.RecordBatch]:
        found = self.format.schema(path, self.schema)
        if found is None and only is None and lacks_header(self.format):
            warn(ConnectorWarning("empty_file", f"{path} is empty: there is not even a header in it"))
        # A file with a header and no rows tells no types of columns that nobody declared; it has nothing to read.
        if found is None or not (self.declared or self.format.tells_types(path)):
            return
        self.check(found, path)
        stored = self._stored(found)
        wanted = self.taken(stored if self.rounding == "error" else with_nanoseconds(stored))
        before = 0
        for batch in self.format.read(path, wanted, found, max_rows, only):
            yield self.conformed(batch, only, Place(before, str(path)))
            before += batch.num_rows

    @contextmanager
    def naming_rows(self, path: AnyFile) -> Iterator[None]:
        """What is wrong with a text is told by the first row that cannot be read."""
        try:
            yield
        except pa.ArrowInvalid as error:
            raise (None if _concerns_all(error) else self._misread_row(path)) or error from None

    def _misread_row(self, path: AnyFile) -> SourceError | None:
        """What keeps a text from being read, by the first row that cannot be; None if none is to blame."""
        if self.format.has_footer:
            return None
        bad = next((one.bad for one in self.text_batches(path, None) if one.bad is not None), None)
        if bad is None:
            return None
        number, raw, why = (bad.column(name)[0].as_py() for name in ("offset", "raw", "detail"))
        return wrong_row(path, self.format, number, raw, why)

    def _stored(self, found: pa.Schema) -> pa.Schema:
        """The columns as a file holds them, of which these were found."""
        if self.reading is None or self.reading.column not in found.names:
            return self.schema
        kind = found.field(self.reading.column).type
        return self.reading.held(self.schema, stored_type(kind, self.reading, self.format))

    def conformed(self, batch: pa.RecordBatch, only: str | None = None, place: Place | None = None) -> pa.RecordBatch:
        """Rows of a file, or only one of their columns, in the types of the source; at which place they stand."""
        schema = pa.schema([self.schema.field(only)]) if only else self.taken(self.schema)
        try:
            if self.reading is not None:
                batch = read_batch(batch, self.reading, place or Place(None))
            return conform(batch, schema, self.rounding)
        except DataError as error:
            raise DataError(f"{self.name!r}: {error.message}", hint=error.hint) from None

    def check(self, found: pa.Schema, path: AnyFile) -> None:
        """Refuse a file whose columns do not fit those of the source."""
        check_names(found, str(path))
        schema = self.schema
        if self.reading is not None and self.reading.column in found.names:
            kind = found.field(self.reading.column).type
            self.reading.check(self.name, kind, is_text_file=not self.format.has_footer)
            schema = self.reading.held(schema, self.reading.kind or kind)
        if not self.declared:
            first = f"in {self.paths[0]}" if path != self.paths[0] else f"when {self.name!r} was declared"
            _check_drift(found, plain_schema(schema, str(path)), path, first)
        # Only such a file has types of its own: text is parsed in the declared ones.
        elif self.format.has_footer:
            check_columns(found, schema, self.name, str(path))
        else:
            check_columns(found, _untyped(schema, found), self.name, str(path))

    def first_values(self, column: str) -> list[object]:
        """The values of a column that are not NULL, among the first rows."""
        if not self.paths:
            return []
        with readable(self.paths[0]):
            first = next(iter(self.read(self.paths[0], FIRST_ROWS, only=column)), None)
        found: list[object] = [] if first is None else first.column(0).slice(0, FIRST_ROWS).drop_null().to_pylist()
        return found

    def misread_as_time(self, column: str) -> str | None:
        """What is found where a column that was taken for text is read as times; None if that cannot be told."""
        if self.declared or self.format.has_footer or self.reading is not None:
            return None
        zoned = self._misread(column, "UTC")
        plain = self._misread(column, None)
        # If times failed only for want of a zone, what is wrong with them as instants is the better answer.
        return zoned if plain is None or (zoned is not None and "a zone" in plain) else plain

    def _misread(self, column: str, zone: str | None) -> str | None:
        """What the first rows, from which types are guessed, have that is no time with or without a zone."""
        index = self.schema.get_field_index(column)
        as_time = self.schema.set(index, self.schema.field(index).with_type(pa.timestamp("us", tz=zone)))
        try:
            with readable(self.paths[0]):
                # The first block is enough: it is what the types were guessed from.
                next(iter(self.format.read(self.paths[0], as_time, as_time, 1, only=column)), None)
        except SourceError as error:
            return error.message
        return None

    @property
    def hint(self) -> str | None:
        guessed = not self.declared and not self.format.has_footer
        return "the types were guessed from the first rows; declare the columns to say them" if guessed else None


def open_files(
    name: str,
    path: str,
    kind: str | None,
    options: Mapping[str, str],
    declared: pa.Schema | None,
    rounding: str = "error",
    reading: TimeReading | None = None,
    *,
    may_be_empty: bool = False,
) -> FileSource:
    """The source behind a path: a file, a folder or a glob pattern. `kind` is the format if it was said, `reading` how
    the files hold event times. may_be_empty: where columns and format are said, files may still come."""
    asked = ALIASES.get(kind, kind) if kind else None
    if may_be_empty and declared is not None and asked is not None and is_empty(path, asked):
        none_yet = FileSource(
            name, (), format_named(kind or asked, options), declared, f"no file of {path} yet", True, 0,
            rounding=rounding, where=path,
        )  # fmt: skip
        return none_yet if reading is None else with_event_times(none_yet, reading)
    paths = find_files(path, asked)
    format_ = format_named(kind or _kind_of(paths[0], path), options)
    tolerates = options.get("on_bad", "error").lower() != "error" and not format_.has_footer
    if tolerates and declared is None:
        raise undeclared(name)
    schema = declared or first_schema(name, paths, format_)
    description = _description(format_.kind, path, len(paths))
    source = FileSource(
        name, tuple(paths), format_, schema, description, declared is not None, rounding=rounding, where=path
    )
    if tolerates:  # the first lines may be bad ones, so that nothing can be told from them
        return source if reading is None else with_event_times(source, reading, look=False)
    return _looked_over(source if reading is None else with_event_times(source, reading))


def undeclared(name: str) -> OptionError:
    return OptionError(
        f"{name!r} says on_bad, and not its columns: what is wrong with a line can only be told by them",
        hint=f"declare them: CREATE STREAM {name} (id BIGINT, …) WITH (…)",
        option="on_bad",
    )


def with_event_times(source: FileSource, reading: TimeReading, *, look: bool = True) -> FileSource:
    """The same files whose event times are to be read so; looks at the first of them."""
    # Of declared columns what the files hold decides, file by file; a zone alone is for text files.
    unlooked = not source.format.has_footer or (source.declared and reading.says_how)
    found = reading.of(source.name, source.schema, is_text_file=unlooked)
    if found is None:
        return source
    found = found.declared_in(source.schema if source.declared else None)
    made = replace(source, schema=found.shown(source.schema), reading=found)
    if not made.paths or not look:
        return made
    with readable(made.paths[0], made.hint):
        first = next(iter(made.read(made.paths[0], FIRST_ROWS, only=found.column)), None)
    if first is not None:
        doubt_unit(first.column(0), found, source.name)
    return made


def first_schema(name: str, paths: Sequence[AnyFile], format_: Format) -> pa.Schema:
    """The columns of the first file that tells their types."""
    for path in paths:
        with readable(path), _naming_rows(name, path, format_):
            if format_.tells_types(path):
                found = format_.schema(path, None)
                assert found is not None
                return plain_schema(found, str(path))
    with readable(paths[0]):
        bare = format_.schema(paths[0], None)
    if bare is None and lacks_header(format_):
        raise SourceError(
            f"{paths[0]} is empty: it has no header, so the columns of {name!r} are unknown",
            hint="write their names into its first line, as in id,ts; or declare its columns",
        )
    raise unknown_types(name, str(paths[0]), () if bare is None else bare.names)


@contextmanager
def _naming_rows(name: str, path: AnyFile, format_: Format) -> Iterator[None]:
    """What is wrong with text whose columns nobody knows yet is told by the first row that is none of any columns."""
    try:
        yield
    except pa.ArrowInvalid as error:
        text = TolerantText(name, path, format_, pa.schema([]), lambda rows: rows)
        by_row = not format_.has_footer and not _concerns_all(error)
        broken = text.first_broken() if by_row else None
        raise error if broken is None else wrong_row(path, format_, *broken) from None


def _concerns_all(error: pa.ArrowInvalid) -> bool:
    """Whether no one row is to blame."""
    return _IS_ARRAY in str(error) or TOO_DEEP in str(error)


def lacks_header(format_: Format) -> bool:
    """Whether a file without anything in it lacks what it should have."""
    return isinstance(format_, Csv) and format_.header


def wrong_row(path: AnyFile, format_: Format, number: int, raw: bytes, why: str) -> SourceError:
    """What to say of the first row of a text that cannot be read."""
    text = raw.decode("utf-8", "backslashreplace")
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
    after = " after the header" if lacks_header(format_) else ""
    return SourceError(
        f"{path} cannot be read: row {number:,}{after} is wrong: {why}; it is {shown}",
        hint="mend it, or say on_bad = 'skip' in WITH (…) to leave such rows out and count them, or 'sink NAME' to "
        "keep them; the columns must be declared for that",
    )


def unknown_types(name: str, path: str, columns: Sequence[str]) -> SourceError:
    """What to say of an input whose columns nobody declared, and no row shows."""
    if not columns:
        return SourceError(f"{path} is empty, so the columns of {name!r} are unknown", hint="declare its columns")
    return SourceError(
        f"{path} has a header ({', '.join(columns)}) but no rows, so the types of the columns of {name!r} are unknown",
        hint=f"declare them: CREATE STREAM {name} ({columns[0]} BIGINT, …) WITH (…); or wait for the first rows",
    )


def _looked_over(source: FileSource) -> FileSource:
    """Look at the columns of every file that stores them, else of the first, before the first row is read."""
    counts: list[int | None] = []
    # Text would have to be parsed to tell more than its header.
    for path in source.paths if source.format.has_footer else source.paths[:1]:
        with readable(path), source.naming_rows(path):
            found = source.format.schema(path, source.schema)
            counts.append(source.format.count(path))
            knows_types = source.declared or source.format.tells_types(path)
        if found is not None and knows_types:
            source.check(found, path)
    known = [count for count in counts if count is not None]
    return replace(source, known_rows=sum(known) if len(known) == len(source.paths) else None)


def _untyped(declared: pa.Schema, found: pa.Schema) -> pa.Schema:
    """Text formats are parsed with the declared types, so only the names must be there."""
    return pa.schema([found.field(f.name) if found.names.count(f.name) == 1 else f for f in declared])


def with_nanoseconds(schema: pa.Schema) -> pa.Schema:
    """Text is read with all the digits it has, for what is too fine to be cut off afterwards."""
    return pa.schema(
        [f.with_type(pa.timestamp("ns", tz=f.type.tz)) if pa.types.is_timestamp(f.type) else f for f in schema]
    )


def _check_drift(found: pa.Schema, schema: pa.Schema, path: AnyFile, first: str) -> None:
    """Refuse a file whose columns are not those that were found first."""
    plain = plain_schema(found, str(path))
    for name in sorted({*plain.names, *schema.names}):
        here, there = _type_in(plain, name), _type_in(schema, name)
        if not _same_column(here, there):
            raise SourceError(
                f"the columns change from file to file: {name!r} is {here or 'missing'} in {path}, "
                f"but {there or 'missing'} {first}",
                hint=_declared_hint(name, here, there),
            )


def _declared_hint(name: str, here: pa.DataType | None, there: pa.DataType | None) -> str:
    if here is not None and there is not None and {"BIGINT", "DOUBLE"} == {sql_type(here), sql_type(there)}:
        return f"declare the columns, {name} as DOUBLE, which takes both"
    return "declare the columns, or read the files as two streams"


def _same_column(here: pa.DataType | None, there: pa.DataType | None) -> bool:
    return here is not None and there is not None and here == there


def _type_in(schema: pa.Schema, name: str) -> pa.DataType | None:
    return schema.field(name).type if name in schema.names else None


def missing(path: str) -> SourceError:
    """Nothing is there; perhaps something with nearly the same name is."""
    target, near = Path(path).expanduser(), []
    with suppress(OSError):
        near = get_close_matches(target.name, os.listdir(target.parent), n=1)
    hint = f"did you mean {target.with_name(near[0])}?" if near else "relative paths start at the current folder"
    return SourceError(f"there is no file or folder {path}", hint=hint)


def find_files(path: str, kind: str | None) -> list[Path]:
    """The files a path stands for, sorted by name; hidden files and those that start with _ are no data."""
    target = Path(path).expanduser()
    if target.is_file():
        return [target]
    if target.is_dir():
        # Of a million files none is looked at: their names tell.
        with os.scandir(target) as entries:
            names = sorted(one.name for one in entries if is_data_name(one.name, kind) and one.is_file())
        wanted = [target / name for name in names]
    elif glob.has_magic(path):
        found = (p for p in map(Path, glob.glob(str(target), recursive=True)) if p.is_file())
        wanted = sorted(p for p in found if is_data_name(p.name, kind))
    else:
        raise missing(path)
    if not wanted:
        raise SourceError(f"{path} holds no {kind or 'parquet, csv or json'} file", hint=subfolder_hint(path, kind))
    kinds = sorted({data_kind(p.name) or "" for p in wanted})
    if len(kinds) > 1:
        raise SourceError(f"{path} holds files of several formats: {', '.join(kinds)}", hint="say which: source='…'")
    return wanted


def is_empty(path: str, kind: str) -> bool:
    """Whether a folder or a pattern is there and no file of a format in it yet."""
    target = Path(path).expanduser()
    if target.is_dir():
        with os.scandir(target) as entries:
            return not any(is_data_name(one.name, kind) and one.is_file() for one in entries)
    return glob.has_magic(path) and not glob.glob(str(target), recursive=True)


def subfolder_hint(path: str, kind: str | None) -> str | None:
    """What to say of a folder whose data lies further down, as in month=01/x.parquet."""
    target = Path(path).expanduser()
    files = target.rglob("*") if target.is_dir() else iter(())
    found = next((one for one in files if _is_below(one, target, kind)), None)
    if found is None:
        return None
    pattern = Path(path) / "**" / f"*{found.suffix}"
    return f"its subfolders do: say path = '{pattern}'; what the folders' names tell is no column"


def _is_below(file: Path, folder: Path, kind: str | None) -> bool:
    """Whether this is a data file in a subfolder that readers look into."""
    inner = file.relative_to(folder).parts
    hidden = any(map(is_hidden, inner))
    return len(inner) > 1 and not hidden and is_data_name(file.name, kind) and file.is_file()


def _kind_of(first: Path, path: str) -> str:
    kind = named_kind(first.name)
    if kind is None:
        raise SourceError(
            f"the format of {path} is not clear from its name",
            hint="name it .parquet, .csv, .tsv or .json, or declare it with source='parquet', 'csv', 'tsv' or 'json'",
        )
    return kind


def _description(kind: str, path: str, count: int) -> str:
    return f"{kind} {path}" if count == 1 else f"{count} {kind} files in {path}"


def pieces(batch: pa.RecordBatch, max_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, max_rows):
        yield batch.slice(start, max_rows)


@contextmanager
def readable(path: AnyFile, hint: str | None = None) -> Iterator[None]:
    """Whatever goes wrong while a file is read becomes one sentence that names it."""
    try:
        yield
    except FileNotFoundError:
        raise SourceError(f"there is no file {path}") from None
    except PermissionError:
        raise SourceError(f"{path} may not be read: permission denied") from None
    except SourceError as error:
        raise SourceError(error.message, hint=error.hint or hint) from None
    except (pa.ArrowException, OSError) as error:
        detail = str(error).split("\n", 1)[0].rstrip(".")
        # What Arrow says of a file that is one JSON array, and of rows that do not agree.
        if _IS_ARRAY in detail:
            hint = "a JSON file has one object a line, without [ and ] around them"
        elif (changed := _CHANGED.search(detail)) is not None:
            detail = f"{changed[1]!r} is of type {changed[2]} in some rows, and {changed[3]} in others"
            hint = "declare the columns; on_bad = 'skip' then leaves out rows that do not fit, and counts them"
        raise SourceError(f"{path} cannot be read: {detail}", hint=hint) from None
