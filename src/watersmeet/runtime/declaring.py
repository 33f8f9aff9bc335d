"""How what is declared gets into the catalog, opened or not: one way for SQL and Python, and for every host."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError
from watersmeet.io.connectors.registry import connector_of
from watersmeet.io.declared_source import open_declared
from watersmeet.io.sink_options import check_sink_options
from watersmeet.io.source_options import check_source_options
from watersmeet.io.sources import TableSource
from watersmeet.io.time_column import check_time_column
from watersmeet.model.arrival import arrival_of
from watersmeet.model.arriving import ARRIVAL, MOMENT, Arrivals, named_time, with_moments
from watersmeet.model.catalog import Catalog, Statistics, Stream, Table
from watersmeet.model.declaration import Declaration
from watersmeet.model.names import column_named
from watersmeet.model.side_sink import SideSink
from watersmeet.model.stream_options import meaningless_by_arrival
from watersmeet.model.time_reading import in_schema
from watersmeet.plan.constants import SAID_AT, Constants, with_time

# The columns of an input, what the host reads it from, and its number of rows if that is known.
Opened = tuple[pa.Schema, Any, int | None]


class Opener(Protocol):
    """Opens inputs for a host, which is known by its name."""

    @property
    def host(self) -> str: ...

    def __call__(self, declared: Declaration) -> Opened: ...


@dataclass(frozen=True)
class InProcess:
    """may_be_empty: for a run that goes on, in which the first file of a stream may come later."""

    host: ClassVar[str] = "local"
    may_be_empty: bool = False

    def __call__(self, declared: Declaration) -> Opened:
        source = open_declared(declared, may_be_empty=self.may_be_empty and not declared.is_static)
        columns = declared.schema if declared.is_given else None
        return source.schema if columns is None else columns, source, source.known_rows


open_in_process = InProcess()
open_to_go_on = InProcess(may_be_empty=True)


def declare(
    declared: Declaration,
    catalog: Catalog,
    *,
    opener: Opener = open_in_process,
    open_sources: bool = True,
    pushed: bool = False,
) -> None:
    """Add a stream or a table to the catalog. Without `open_sources`, inputs whose columns are declared are not looked
    at. `pushed`: a stream may be without a source."""
    check_source_options(declared, opener.host)
    try:
        catalog.add(_relation(declared, catalog, opener, open_sources, pushed), replace=declared.replace)
    except CatalogError as error:
        raise declared.misnamed(error) from None


class OpenOnce:
    """Opens what is declared in the same words once, so that queries of several scripts look at the same rows."""

    def __init__(self, opener: Opener) -> None:
        self._opener, self.host = opener, opener.host
        self._opened: dict[object, Opened] = {}

    def __call__(self, declared: Declaration) -> Opened:
        if declared.data is not None:
            return self._opener(declared)
        said = frozenset(declared.options.items())
        words = declared.kind, declared.name.lower(), str(declared.schema), said
        if words not in self._opened:
            self._opened[words] = self._opener(declared)
        return self._opened[words]


def rows_as_stream(rows: Constants, opener: Opener) -> Stream:
    """Rows that a query says itself and that are all it reads, as a stream that ends: all of one time."""
    from watersmeet.operators.constants import constant_rows  # what evaluates takes long to load

    declared = Declaration.in_python(
        "stream", rows.name, {"time": SAID_AT}, data=pa.Table.from_batches([constant_rows(with_time(rows))])
    )
    made = _relation(declared, Catalog(), opener, open_sources=True, pushed=False)
    assert isinstance(made, Stream)
    return made


def declare_sink(declared: Declaration, catalog: Catalog, host: str) -> None:
    """Add a sink that takes what goes beside answers to the catalog."""
    check_sink_options(declared, host)
    try:
        catalog.add_sink(SideSink(declared.name, declared.options))
    except CatalogError as error:
        raise declared.misnamed(error) from None


def _relation(
    declared: Declaration, catalog: Catalog, opener: Opener, open_sources: bool, pushed: bool
) -> Stream | Table:
    _check_values(declared, pushed=pushed)
    opened = _opened_later(declared, pushed) if not open_sources or (pushed and declared.is_pushed) else None
    opened = opener(declared) if opened is None else opened
    return _table(declared, opened) if declared.is_static else _stream(declared, opened, catalog)


def _check_values(declared: Declaration, *, pushed: bool) -> None:
    """Refuse options that do not go with each other."""
    values = declared.values
    if declared.by_arrival:
        wrong = meaningless_by_arrival(values)
        if wrong is not None:
            raise declared.wrong(wrong[1], wrong[0], hint=f"leave {wrong[0]} out")
    elif "arrival_column" in values:
        raise declared.wrong(
            "arrival_column names the moment of arrival, which is not the event time of this stream",
            "arrival_column",
            hint="leave it out, or say time = 'arrival'",
        )
    if "max_drift" in values and pushed and declared.is_pushed:
        raise declared.wrong(
            f"stream {declared.name!r} says max_drift, which is for streams that are read, and this one is pushed",
            "max_drift",
            hint="leave it out: whoever pushes decides what comes when",
        )


def _opened_later(declared: Declaration, pushed: bool) -> Opened | None:
    """What is known of an input that is not opened now: its columns. None if only opening it tells them."""
    if declared.schema is not None and declared.data is None:
        columns = _known_columns(declared, declared.schema)
        return None if columns is None else (columns, None, None)
    if pushed and declared.is_pushed and declared.is_given:
        raise CatalogError(
            f"stream {declared.name!r} has neither data nor a schema",
            hint=f"write session.stream({declared.name!r}, data, time='ts'), or say its columns to push rows: "
            "schema={'k': 'BIGINT', 'ts': 'TIMESTAMP'}",
        )
    return None


def _known_columns(declared: Declaration, columns: pa.Schema) -> pa.Schema | None:
    """The declared columns, and the event time if it is one that a connector adds. None if only the source itself can
    tell: it may have a column of that name that was not declared."""
    time = declared.values.get("time")
    if declared.is_static or time is None or declared.by_arrival or column_named(named_time(time), columns.names):
        return columns
    connector = connector_of("source", declared.options)
    if connector is None:
        return columns
    if connector.moment is None:
        return None
    return columns.append(pa.field(connector.moment, MOMENT)) if time == connector.moment else columns


def _table(declared: Declaration, opened: Opened) -> Table:
    schema, source, rows = opened
    values = declared.values
    known = Statistics(None, rows, values.get("distinct", {}), values.get("unique", ()))
    rounding = values.get("rounding", "error")
    return Table(declared.name, schema, source, known, rounding, values.get("reload"))


def _stream(declared: Declaration, opened: Opened, catalog: Catalog) -> Stream:
    schema, source, rows = opened
    values, reading = declared.values, declared.reading
    time = _time_column(declared, schema)
    if declared.by_arrival:
        schema = with_moments(declared.name, schema, time)
    elif reading is None:
        check_time_column(declared.name, time, schema, source, declared.data)
    else:
        reading, schema = in_schema(reading, declared.name, schema)
    return Stream(
        declared.name,
        schema,
        time,
        values.get("lateness", 0),
        source,
        arrival=arrival_of(values),
        rounding=values.get("rounding", "error"),
        reading=reading,
        versions=declared.versions,
        arrivals=Arrivals() if declared.by_arrival else None,
        bad_to=_sink_of(declared, "on_bad", catalog),
        late_to=_sink_of(declared, "on_late", catalog),
        is_pushed=source is None and declared.is_pushed,
        statistics=Statistics(
            _rate(declared, source, time, rows), rows, values.get("distinct", {}), values.get("unique", ())
        ),
    )


def _time_column(declared: Declaration, schema: pa.Schema) -> str:
    time = declared.values.get("time")
    if declared.by_arrival:
        return str(declared.values.get("arrival_column", ARRIVAL))
    if time is not None:
        return named_time(time)
    candidates = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    said = f"time = '{candidates[0] if candidates else '…'}'"
    raise declared.wrong(
        f"stream {declared.name!r} does not say which column holds its event time",
        hint=f"add {said} to WITH (…)" if declared.sql is not None else f"say {said}",
    )


def _sink_of(declared: Declaration, option: str, catalog: Catalog) -> SideSink | None:
    """The sink that an option speaks of, if it does."""
    policy = declared.values.get(option)
    try:
        return None if policy is None else catalog.sink_of(policy)
    except CatalogError as error:
        raise declared.misnamed(error, option) from None


def _rate(declared: Declaration, source: object, time: str, rows: int | None) -> float | None:
    """What was said, or else what a table that is in memory shows; None for what would have to be read first."""
    rate: float | None = declared.values.get("rate")
    data = declared.data
    if rate is not None or not isinstance(data, pa.Table) or not rows:
        return rate
    if isinstance(source, TableSource) and declared.reading is not None:
        data = source.table  # where its event times are timestamps
    if time not in data.column_names or not pa.types.is_timestamp(data.schema.field(time).type):
        return None
    # What a rate is taken from need not be exact: finer digits are cut off.
    ends = pc.min_max(pc.cast(data[time], pa.timestamp("us"), safe=False))
    first, last = ends["min"].value, ends["max"].value
    return None if first is None or last == first else rows * 1e6 / (last - first)
