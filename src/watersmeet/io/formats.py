"""How one file of each format is read: its columns, its number of rows if stored, and its rows in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pa_parquet

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError, SourceError, WatersmeetError
from watersmeet.io import csv_errors
from watersmeet.io.connectors.registry import known_sources
from watersmeet.io.filesystems import AnyFile, to_seek, to_stream
from watersmeet.io.json_errors import changing_column
from watersmeet.io.json_guard import guarded_stream
from watersmeet.io.json_types import as_declared, parsed_schema
from watersmeet.io.long_lines import batches_with_long_lines, with_long_lines
from watersmeet.io.path_formats import ALIASES

_BUFFER_BYTES = 1 << 20


class Format(Protocol):
    """One file format. `has_footer`: columns and row counts are stored, not guessed from the first rows."""

    @property
    def kind(self) -> str: ...

    @property
    def has_footer(self) -> bool: ...

    def schema(self, path: AnyFile, declared: pa.Schema | None) -> pa.Schema | None:
        """The columns found in a file; None if it is empty."""

    def count(self, path: AnyFile) -> int | None: ...

    def tells_types(self, path: AnyFile) -> bool:
        """Whether a file says of what types its columns are: one with names and no rows may not."""
        ...

    def read(
        self, path: AnyFile, wanted: pa.Schema, found: pa.Schema, max_rows: int, only: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows, or only one of their columns."""


@dataclass(frozen=True)
class Parquet:
    kind: str = "parquet"
    has_footer: bool = True

    def schema(self, path: AnyFile, declared: pa.Schema | None) -> pa.Schema | None:
        return pa_parquet.read_schema(to_seek(path))

    def count(self, path: AnyFile) -> int | None:
        return int(pa_parquet.read_metadata(to_seek(path)).num_rows)

    def read(
        self, path: AnyFile, wanted: pa.Schema, found: pa.Schema, max_rows: int, only: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        with self.opened(path) as file:
            yield from file.iter_batches(batch_size=max_rows, columns=[only] if only else wanted.names)

    def opened(self, path: AnyFile) -> pa_parquet.ParquetFile:
        """Pages are read as they are needed: memory does not grow with the size of the file or its row groups."""
        return pa_parquet.ParquetFile(to_seek(path), buffer_size=_BUFFER_BYTES, pre_buffer=False)

    def tells_types(self, path: AnyFile) -> bool:
        return True


@dataclass(frozen=True)
class Csv:
    """Comma-separated values. An empty field or one of `null_values` without quotes is NULL, `""` is the empty text. An
    empty line is no row, unless there is only one column, which is NULL then."""

    delimiter: str = ","
    header: bool = True
    kind: str = "csv"
    has_footer: bool = False
    null_values: tuple[str, ...] = ()

    def schema(self, path: AnyFile, declared: pa.Schema | None) -> pa.Schema | None:
        if path.stat().st_size == 0:
            return None
        try:
            found = with_long_lines(lambda size: _columns(self._open(path, declared, None, size)))
        except pa.ArrowInvalid as error:
            if csv_errors.is_blank(error):
                return None
            raise
        # Arrow takes text that is no UTF-8 for bytes, rather than refuse it.
        bytes_ = next((field.name for field in found if pa.types.is_binary(field.type)), None)
        if declared is None and bytes_ is not None:  # which text is taken for that is in another encoding
            raise csv_errors.not_text(path, bytes_)
        return found

    def count(self, path: AnyFile) -> int | None:
        return None

    def tells_types(self, path: AnyFile) -> bool:
        if path.stat().st_size == 0:
            return False
        found = self.schema(path, None)
        # The first batch that has rows ends it, so of a large file one block is read.
        batches = batches_with_long_lines(lambda size: self._open(path, None, None, size))
        return found is not None and any(batch.num_rows for batch in batches)

    def read(
        self, path: AnyFile, wanted: pa.Schema, found: pa.Schema, max_rows: int, only: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        columns = [wanted.field(only)] if only else wanted
        # Only the wanted columns are converted: what is wrong in the others does not matter.
        types = {field.name: _parsed_as(field.type, found.field(field.name).type) for field in columns}
        one = len(found) == 1
        try:
            yield from batches_with_long_lines(lambda size: self._open(path, wanted, types, size, one_column=one))
        except pa.ArrowInvalid as error:
            names = found.names if self.header else wanted.names
            raise (
                csv_errors.value_error(
                    error, path, wanted, names, lambda it: self._text(path, wanted, it, one), header=self.header
                )
                or error
            ) from None

    def _text(self, path: AnyFile, wanted: pa.Schema, column: str, one_column: bool) -> Iterator[pa.Array]:
        """The values of a column as they are written."""
        text = {column: pa.string()}
        for batch in batches_with_long_lines(lambda size: self._open(path, wanted, text, size, one_column=one_column)):
            yield batch.column(0)

    def _open(
        self,
        path: AnyFile,
        columns: pa.Schema | None,
        types: Mapping[str, pa.DataType] | None,
        block_bytes: int,
        *,
        one_column: bool = False,
    ) -> pa_csv.CSVStreamingReader:
        # Without a header the columns are called by the declared names, or f0, f1, … if there are none.
        names = list(columns.names) if columns is not None and not self.header else []
        try:
            return pa_csv.open_csv(
                to_stream(path),
                read_options=pa_csv.ReadOptions(
                    column_names=names,
                    autogenerate_column_names=not self.header and not names,
                    block_size=block_bytes,
                ),
                # Quoted texts may go on over several lines.
                parse_options=pa_csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=not one_column
                ),
                convert_options=csv_conversion(types, self.null_values),
            )
        except pa.ArrowInvalid as error:
            raise (csv_errors.shape_error(error, path, self.delimiter) or error) from None


def csv_conversion(types: Mapping[str, pa.DataType] | None, null_values: tuple[str, ...]) -> pa_csv.ConvertOptions:
    """How values of CSV become those of columns: of these alone, if any are said."""
    return pa_csv.ConvertOptions(
        column_types=dict(types) if types else None,
        include_columns=list(types) if types else None,
        null_values=["", *null_values],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _parsed_as(declared: pa.DataType, guessed: pa.DataType) -> pa.DataType:
    """Times are parsed with a zone exactly if the text has one; the cast to the declared type follows."""
    if not pa.types.is_timestamp(declared):
        return declared
    # A zone in the text, where the column has none declared, is taken off by that cast, which gives UTC.
    zone = guessed.tz if pa.types.is_timestamp(guessed) else declared.tz
    return pa.timestamp(declared.unit, tz=zone)


@dataclass(frozen=True)
class Json:
    """One JSON object per line; a key that a line lacks is NULL."""

    kind: str = "json"
    has_footer: bool = False

    def schema(self, path: AnyFile, declared: pa.Schema | None) -> pa.Schema | None:
        if path.stat().st_size == 0:
            return None
        known: list[pa.Field] = []

        def columns(block_bytes: int) -> pa.Schema:
            reading = pa_json.ReadOptions(block_size=block_bytes)
            parsing = pa_json.ParseOptions(explicit_schema=pa.schema(known))
            return _columns(pa_json.open_json(guarded_stream(path, guessing=True), reading, parsing))

        while True:
            try:
                return with_long_lines(columns)
            except pa.ArrowInvalid as error:
                # What is declared DECIMAL may be numbers and text by turns, of which no type can be guessed. Others are
                # guessed all the same, as it is to be seen whether the file has them.
                name = changing_column(error)
                if declared is None or name not in declared.names or not pa.types.is_decimal(declared.field(name).type):
                    raise
                known.append(declared.field(name))

    def count(self, path: AnyFile) -> int | None:
        return None

    def tells_types(self, path: AnyFile) -> bool:
        return path.stat().st_size > 0

    def read(
        self, path: AnyFile, wanted: pa.Schema, found: pa.Schema, max_rows: int, only: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        columns = pa.schema([wanted.field(only)]) if only else wanted
        options = pa_json.ParseOptions(explicit_schema=parsed_schema(columns), unexpected_field_behavior="ignore")

        def opened(block_bytes: int) -> pa_json.JSONStreamingReader:
            reading = pa_json.ReadOptions(block_size=block_bytes)
            return pa_json.open_json(guarded_stream(path), read_options=reading, parse_options=options)

        yield from (as_declared(batch, columns) for batch in batches_with_long_lines(opened))


def _columns(reader: pa_csv.CSVStreamingReader | pa_json.JSONStreamingReader) -> pa.Schema:
    with reader:
        return reader.schema


def format_named(kind: str, options: Mapping[str, str] | None = None) -> Format:
    """The format called `kind`, with the settings that apply to it."""
    given = options or {}
    match ALIASES.get(kind, kind):
        case "parquet":
            return Parquet()
        case "csv":
            delimiter = delimiter_of(given, "\t" if kind == "tsv" else ",", SourceError)
            return Csv(delimiter, _flag(given, "header", True), null_values=null_values(given))
        case "json":
            return Json()
    raise SourceError(f"there is no source {kind!r}", hint=known_sources(kind))


def delimiter_of(
    options: Mapping[str, str], default: str = ",", wrong: Callable[[str], WatersmeetError] = OptionError
) -> str:
    """What stands between the values of a line of CSV. wrong: the error of whoever asks."""
    # SQL texts have no escapes, so a tab is written as two characters.
    written = options.get("delimiter", options.get("sep", default)).replace("\\t", "\t")
    if len(written) != 1:
        raise wrong(f"delimiter = {written!r} must be one character, for example ';' or '\\t'")
    return written


def null_values(options: Mapping[str, str]) -> tuple[str, ...]:
    """The words that stand for NULL beside the empty field: `null_values = 'NA, -'`."""
    words = [word.strip() for word in options.get("null_values", "").split(",")]
    return tuple(word for word in words if word)


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    written = options.get(name)
    if written is None:
        return default
    if written.lower() not in ("true", "false"):
        raise SourceError(f"{name} = {written!r} must be 'true' or 'false'")
    return written.lower() == "true"
