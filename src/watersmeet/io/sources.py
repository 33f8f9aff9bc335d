"""Where rows come from: anything that gives Arrow batches in arrival order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError, SourceError
from watersmeet.io.conform import check_columns, conform, held_columns, plain_schema
from watersmeet.io.files import FIRST_ROWS, open_files
from watersmeet.io.frames import of_library
from watersmeet.io.pushed_rows import PushedRows, columns_of
from watersmeet.io.read_times import Place, doubt_unit, read_batch, read_table
from watersmeet.model.catalog import Table
from watersmeet.model.names import column_named
from watersmeet.model.plain_types import is_run_or_view
from watersmeet.model.time_reading import TimeReading, in_schema

_KINDS_OF_DATA = (
    "a pyarrow Table or RecordBatchReader, an iterable of RecordBatches, a pandas or polars frame, a list of dicts, "
    "a dict of columns, or the path of a Parquet, CSV or JSON file"
)


class Source(Protocol):
    """An input of a query. `known_rows` is None when only reading would tell. `at_hand`: the rows are all there, and
    may be read in any order; if not, they come when they come."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def description(self) -> str: ...

    @property
    def bounded(self) -> bool: ...

    @property
    def at_hand(self) -> bool: ...

    @property
    def known_rows(self) -> int | None: ...

    def batches(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in arrival order, in pieces of at most `max_rows`."""


@dataclass(frozen=True)
class TableSource:
    """Rows in memory; may be read again and again."""

    table: pa.Table
    schema: pa.Schema
    bounded: bool = True
    at_hand: bool = True

    @property
    def description(self) -> str:
        return f"table of {self.table.num_rows} rows"

    @property
    def known_rows(self) -> int | None:
        return int(self.table.num_rows)

    def first_values(self, column: str) -> list[object]:
        """The first values of a column that are not NULL."""
        found: list[object] = self.table[column].drop_null().slice(0, FIRST_ROWS).to_pylist()
        return found

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    def only(self, columns: Collection[str]) -> TableSource:
        """The same rows with some of their columns, if none of the others would be looked at for what it may not be."""
        wanted = [name for name in self.schema.names if name in columns] or self.schema.names[:1]
        if len(wanted) == len(self.schema) or not self.table.schema.equals(self.schema):
            return self
        table = self.table.select(wanted)
        return replace(self, table=table, schema=table.schema)

    def batches(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        for batch in self.table.to_batches(max_chunksize=max_rows):
            if batch.num_rows:
                yield conform(batch, self.schema)


class OnceSource:
    """Rows that flow past once, from a reader or a generator."""

    known_rows: int | None = None
    at_hand = False

    def __init__(self, name: str, schema: pa.Schema, batches: Iterator[Any], bounded: bool, description: str) -> None:
        self.schema = plain_schema(schema, f"the input of stream {name}")
        self.bounded = bounded
        self.description = description
        self._name = name
        self._given = schema
        self._batches: Iterator[Any] | None = batches

    def batches(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        if self._batches is None:
            raise SourceError(
                f"the input of stream {self._name} was already consumed; give a table or a path, or a new reader"
            )
        # Taken before the first row is read, as two runs at once would each get a part of them.
        flowing, self._batches = self._batches, None
        return self._flow(flowing, max_rows)

    def _flow(self, flowing: Iterator[Any], max_rows: int) -> Iterator[pa.RecordBatch]:
        for item in flowing:
            for batch in _as_batches(item, self._name):
                self._check(batch)
                for start in range(0, batch.num_rows, max_rows):
                    yield conform(batch.slice(start, max_rows), self.schema)

    def _check(self, batch: pa.RecordBatch) -> None:
        if not batch.schema.equals(self._given):
            raise SourceError(
                f"the batches of stream {self._name} change their columns from ({_columns(self._given)}) "
                f"to ({_columns(batch.schema)})"
            )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _as_batches(item: object, name: str) -> list[pa.RecordBatch]:
    if isinstance(item, pa.RecordBatch):
        return [item]
    if isinstance(item, pa.Table):
        return list(item.to_batches())
    raise SourceError(f"the input of stream {name} gave a {type(item).__name__}, not a RecordBatch or a Table")


def source_of(
    data: object,
    name: str,
    declared: pa.Schema | None = None,
    reading: TimeReading | None = None,
    rounding: str = "error",
    on_bad: str = "error",
) -> Source:
    """The source for whatever the user gave as the data of stream `name`: with the columns that were declared, if any,
    and event times that are written in some way."""
    if isinstance(data, str | Path):
        return open_files(name, str(data), None, {"on_bad": on_bad}, declared, rounding, reading)
    if _is_of_python(data):
        rows: Any = data
        columns = rows if isinstance(rows, Mapping) else columns_of(rows)
        if declared is not None:
            return _of_values(columns, name, declared, reading, rounding)
        data = _guessed(columns, name)
    source = _of_data(data, name)
    if declared is not None:
        source = _as_declared(source, name, declared, reading)
    return source if reading is None else with_times(source, reading, name)


def _is_of_python(data: object) -> bool:
    """Whether these are rows as dicts, or a dict of columns."""
    return isinstance(data, Mapping) or (isinstance(data, list | tuple) and all(isinstance(x, Mapping) for x in data))


def _of_values(
    columns: Mapping[str, Sequence[Any]], name: str, declared: pa.Schema, reading: TimeReading | None, rounding: str
) -> Source:
    """Values of Python as the columns that were declared, as if they were pushed."""
    schema = declared
    if reading is not None:
        reading, schema = in_schema(reading, name, declared)
    taken = {column: values for column, values in columns.items() if column in schema.names}
    given = PushedRows(Table(name, schema, rounding=rounding), "given", reading)
    table = pa.Table.from_batches(given.batches(taken) if columns else [], given.stream.schema)
    if reading is not None:
        doubt_unit(table[reading.column], reading, name)
    return TableSource(table, table.schema)


def _guessed(columns: Mapping[str, Sequence[Any]], name: str) -> pa.Table:
    if not columns:
        raise SourceError(f"stream {name} is given no rows, so its columns are unknown", hint="say them: schema={…}")
    made = {}
    for column, values in columns.items():
        try:
            made[column] = pa.array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SourceError(
                f"the values given for column {column!r} of stream {name} are of no one type: "
                f"{str(error).splitlines()[0].rstrip('.')}",
                hint="say the columns and their types: schema={…}",
            ) from None
    lengths = {column: len(values) for column, values in made.items()}
    if len(set(lengths.values())) > 1:
        raise SourceError(f"the columns given for stream {name} differ in length: {lengths}")
    return pa.table(made)


def with_times(source: Source, reading: TimeReading, name: str) -> Source:
    """The same rows with timestamps as event times."""
    found = reading.of(name, source.schema)
    if found is None:  # which the stream itself tells
        return source
    try:
        if isinstance(source, TableSource):
            made = read_table(source.table, found)
            doubt_unit(made[found.column], found, name)
            return replace(source, table=made, schema=found.shown(source.schema))
    except DataError as error:
        raise DataError(f"stream {name!r}: {error.message}", hint=error.hint) from None
    return _Converted(source, found.shown(source.schema), _TimesRead(name, found))


def _as_declared(source: Source, name: str, declared: pa.Schema, reading: TimeReading | None) -> Source:
    """The same rows with the columns that were declared. Times stay as fine as they are until they enter."""
    found = source.schema
    time = None if reading is None else column_named(reading.column, declared.names)
    schema = held_columns(found, declared, time)
    check_columns(found, schema, name, source.description)
    if isinstance(source, TableSource):
        return TableSource(source.table.select(schema.names), schema)
    return _Converted(source, schema, lambda batch: conform(batch.select(schema.names), schema))


class _TimesRead:
    """Makes timestamps of the event times of batches that flow past."""

    def __init__(self, name: str, reading: TimeReading) -> None:
        self._name, self._reading, self._before = name, reading, 0

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            made = read_batch(batch, self._reading, Place(self._before))
        except DataError as error:
            raise DataError(f"stream {self._name!r}: {error.message}", hint=error.hint) from None
        if not self._before:
            doubt_unit(made[self._reading.column], self._reading, self._name)
        self._before += batch.num_rows
        return made


@dataclass(frozen=True)
class Passing:
    """Rows of another source, with which something is done on their way."""

    source: Source

    @property
    def description(self) -> str:
        return self.source.description

    @property
    def bounded(self) -> bool:
        return self.source.bounded

    @property
    def at_hand(self) -> bool:
        return self.source.at_hand

    @property
    def known_rows(self) -> int | None:
        return self.source.known_rows


@dataclass(frozen=True)
class _Converted(Passing):
    """Rows that flow past once, each batch made another on its way."""

    schema: pa.Schema
    convert: Callable[[pa.RecordBatch], pa.RecordBatch]

    def batches(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        return map(self.convert, self.source.batches(max_rows))


def _of_data(data: object, name: str) -> Source:
    if isinstance(data, pa.Table):
        return _of_table(data, name)
    if isinstance(data, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([data]), name)
    if isinstance(data, pa.RecordBatchReader):
        return OnceSource(name, data.schema, iter(data), bounded=True, description="record batch reader")
    framed = of_library(data, name)
    if framed is not None:
        return _of_table(framed, name)
    # After the frames, which have it too: as tables they can be read again and in time order.
    if hasattr(data, "__arrow_c_stream__"):
        return source_of(pa.RecordBatchReader.from_stream(data), name)
    if isinstance(data, Iterable):
        return _of_iterable(data, name)
    raise _unknown(data, name)


def _of_table(table: pa.Table, name: str) -> TableSource:
    schema = plain_schema(table.schema, f"the input of stream {name}")
    return TableSource(_sortable(table, schema), schema)


def _sortable(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Arrow neither sorts nor filters runs and views, so these columns are made plain at once, the others when they are
    read."""
    for place, field in enumerate(table.schema):
        if is_run_or_view(field.type):
            made = [conform(one, pa.schema([schema.field(place)])) for one in table.select([place]).to_batches()]
            table = table.set_column(place, schema.field(place), [one.column(0) for one in made])
    return table


def _of_iterable(data: Iterable[Any], name: str) -> Source:
    flowing = iter(data)
    first = next(flowing, None)
    if first is None:
        raise SourceError(
            f"the input of stream {name} is an iterable without any batch, so its columns are unknown",
            hint="pyarrow.RecordBatchReader.from_batches(schema, batches) says them",
        )
    if not isinstance(first, pa.RecordBatch | pa.Table):
        odd = next((one for one in flowing if not isinstance(one, Mapping)), first)
        raise _unknown(odd if isinstance(first, Mapping) else first, name, inside=type(data).__name__)
    # A list can be walked again, so it is a table and not a flow.
    if isinstance(data, list | tuple):
        return _of_list(list(data), name)
    return OnceSource(name, first.schema, chain([first], flowing), bounded=False, description="iterable of batches")


def _of_list(items: list[Any], name: str) -> Source:
    batches = [batch for item in items for batch in _as_batches(item, name)]
    try:
        return _of_table(pa.Table.from_batches(batches, items[0].schema), name)
    except pa.ArrowInvalid:
        raise SourceError(f"the batches of stream {name} do not all have the columns of the first") from None


def _unknown(data: object, name: str, inside: str | None = None) -> SourceError:
    what = type(data).__name__ if inside is None else f"{inside} of {type(data).__name__}"
    return SourceError(f"stream {name} cannot be read from a {what}", hint=f"give {_KINDS_OF_DATA}")


def provided_source(table: pa.Table, name: str, kind: str, declared: pa.Schema | None) -> TableSource:
    if declared is None:
        return _of_table(table, name)
    check_columns(table.schema, declared, name, kind)
    return TableSource(table.select(declared.names), declared)
