"""A script of CREATE STREAM, TABLE, VIEW and SINK and of queries: what it declares, and the jobs it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from dataclasses import replace as with_fields
from typing import Any, TypeVar, cast

import pyarrow as pa

from watersmeet.errors import BindError, CatalogError, OptionError, ParseError, UnusedSinkWarning
from watersmeet.io.connectors.added_time import known_columns
from watersmeet.io.declared_source import source_from_options
from watersmeet.io.files import FileSource
from watersmeet.io.hidden_text import hidden, hiding
from watersmeet.io.reopened import ReopenedFiles
from watersmeet.io.sink_options import check_sink_options
from watersmeet.io.source_options import check_source_options
from watersmeet.io.time_column import check_time_column
from watersmeet.model.arrival import PARSERS, arrival_of, parse_reload
from watersmeet.model.arriving import ARRIVAL, Arrivals, is_arrival, meaningless_option, named_time, with_moments
from watersmeet.model.catalog import Catalog, Statistics, Stream, Table
from watersmeet.model.hints import parse_distinct, parse_rate, parse_unique
from watersmeet.model.side_sink import SideSink
from watersmeet.model.telling import warn
from watersmeet.model.time_reading import TimeReading, in_schema, time_reading
from watersmeet.model.versions import Versions, versions_of
from watersmeet.plan.explaining import Explaining
from watersmeet.plan.nodes import Plan
from watersmeet.sql import bind_query, bind_view, parse_script
from watersmeet.sql.parameters import Parameters
from watersmeet.sql.scope import UTC
from watersmeet.sql.syntax import CreateSink, CreateStream, CreateTable, CreateView, Explain, QuerySyntax

T = TypeVar("T")

CONSOLE: Mapping[str, str] = {"sink": "console"}
# Opens the input of a CREATE: its columns, what the host reads it from, and its number of rows if that is known.
Opened = tuple[pa.Schema, Any, int | None]
Opener = Callable[[CreateStream | CreateTable], Opened]


@dataclass(frozen=True)
class Job:
    """One query to run and the options of the sink its results go to; or, with `told`, to explain."""

    name: str
    plan: Plan
    sink: Mapping[str, str] = field(repr=False)  # a password may be among them
    told: Explaining | None = None


def open_in_process(statement: CreateStream | CreateTable) -> Opened:
    is_table = isinstance(statement, CreateTable)
    source = source_from_options(statement.name, statement.options, statement.schema, is_table=is_table)
    return source.schema, source, source.known_rows


def open_to_go_on(statement: CreateStream | CreateTable) -> Opened:
    """The same for a run that goes on: the first file of a stream may come later."""
    is_table = isinstance(statement, CreateTable)
    source = source_from_options(
        statement.name, statement.options, statement.schema, may_be_empty=not is_table, is_table=is_table
    )
    return source.schema, source, source.known_rows


def read_script(
    text: str,
    catalog: Catalog | None = None,
    *,
    open_sources: bool = True,
    opener: Opener = open_in_process,
    explain: bool = False,
    parameters: Parameters | None = None,
    timezone: str = UTC,
    pushed: bool = False,
) -> list[Job]:
    """Declare what a script creates in the catalog and give its queries as jobs, in order.

    Without `open_sources`, inputs whose columns are declared are not looked at: enough for EXPLAIN. `opener` is
    how the host opens the others. With `explain` its EXPLAIN statements are among the jobs; else they are only checked.
    `parameters` are the values of the places in its text, `timezone` is the zone of queries that say none, and with
    `pushed` a stream may be without a source.
    """
    known = Catalog() if catalog is None else catalog
    jobs: list[Job] = []
    told: list[Job] = []
    sinks: list[CreateSink] = []
    with hiding(text):
        statements = parse_script(text, parameters)
    text = hidden(text, statements)  # it is shown with errors, plans and on pages
    # EXPLAIN ANALYZE runs its query.
    open_sources = open_sources or (explain and any(isinstance(one, Explain) and one.analyze for one in statements))
    for statement in statements:
        match statement:
            case CreateStream() | CreateTable():
                declare(statement, known, text, open_sources=open_sources, opener=opener, pushed=pushed)
            case CreateView():
                declare_view(statement, known, text, timezone)
            case CreateSink(query=None):
                check_sink_options(statement, text, on_spark=opener not in (open_in_process, open_to_go_on))
                _check_new(statement, jobs, text)
                declare_sink(statement, known, text)
                sinks.append(statement)
            case CreateSink(query=QuerySyntax() as query):
                _check_new(statement, jobs, text)
                _check_not_beside(statement, sinks, text)
                check_sink_options(statement, text, on_spark=opener not in (open_in_process, open_to_go_on))
                jobs.append(Job(statement.name, bind_query(query, known, text, timezone), statement.options))
            case QuerySyntax():
                number = sum(job.told is None for job in jobs) + 1  # a checkpoint goes by it, so EXPLAIN counts apart
                jobs.append(Job(f"query {number}", bind_query(statement, known, text, timezone), CONSOLE))
            case Explain(query=query, analyze=analyze, format=form):
                told.append(
                    Job(
                        f"plan {len(told) + 1}",
                        bind_query(query, known, text, timezone),
                        CONSOLE,
                        Explaining(form, analyze),
                    )
                )
                jobs += told[-1:] if explain else []
    tell_of_unused(sinks, known)
    if not jobs:
        raise ParseError("the script has nothing to run", hint="add a SELECT, or CREATE SINK … AS SELECT …")
    return jobs


def check_declared(text: str) -> None:
    """Raise what is wrong with a script that is to run on another host, as far as can be told before that is started:
    all of it if every CREATE says its columns, else what stands before the first that does not."""
    with suppress(_ColumnsUnknownError):
        read_script(text, open_sources=False, opener=_open_nothing, explain=True)


class _ColumnsUnknownError(Exception):
    pass


def _open_nothing(statement: CreateStream | CreateTable) -> Opened:
    raise _ColumnsUnknownError


def _check_new(statement: CreateSink, jobs: list[Job], text: str) -> None:
    if any(job.name.lower() == statement.name.lower() for job in jobs):
        raise BindError(
            f"sink {statement.name!r} is created twice",
            sql=text,
            span=statement.name_span,
            hint="rename one",
        )


def _check_not_beside(statement: CreateSink, sinks: list[CreateSink], text: str) -> None:
    if any(one.name.lower() == statement.name.lower() for one in sinks):
        raise BindError(
            f"sink {statement.name!r} is created twice", sql=text, span=statement.name_span, hint="rename one"
        )


def declare_sink(statement: CreateSink, catalog: Catalog, text: str) -> None:
    """Add a sink that takes what goes beside answers to the catalog."""
    try:
        catalog.add_sink(SideSink(statement.name, statement.options))
    except CatalogError as error:
        raise BindError(error.message, hint=error.hint, sql=text, span=statement.name_span) from None


def tell_of_unused(sinks: Sequence[CreateSink], catalog: Catalog) -> None:
    """A sink that no stream speaks of stays empty, for a reason that somebody should know."""
    streams = [one for name in catalog.names() if isinstance(one := catalog[name], Stream)]
    spoken_of = {sink.name.lower() for one in streams for sink in (one.bad_to, one.late_to) if sink is not None}
    for sink in sinks:
        if sink.name.lower() not in spoken_of:
            warn(
                UnusedSinkWarning(
                    f"nothing goes to sink {sink.name!r}: it has no query, and no stream says on_bad = 'sink "
                    f"{sink.name}' or on_late = 'sink {sink.name}'"
                )
            )


def declare(
    statement: CreateStream | CreateTable,
    catalog: Catalog,
    text: str,
    *,
    open_sources: bool = True,
    opener: Opener = open_in_process,
    pushed: bool = False,
) -> None:
    """Add the stream or table of a CREATE statement to the catalog. `pushed`: a stream may be without a source."""
    is_table = isinstance(statement, CreateTable)
    statement = _as_stream(statement)
    on_spark = opener not in (open_in_process, open_to_go_on)
    check_source_options(statement, text, on_spark=on_spark)
    versions = _versions(statement, text, is_table=is_table)
    columns = _known_columns(statement)
    needed = (open_sources and not (pushed and _is_pushed(statement))) or columns is None
    said = {name: _hint(statement, name, parse, text) for name, parse in PARSERS.items()}
    _check_arrival(statement, said, text)
    if said["max_drift"] is not None and (on_spark or (pushed and _is_pushed(statement))):
        raise OptionError(
            f"stream {statement.name!r} says max_drift, which is for streams that are read in-process",
            hint="leave it out: Spark reads what its limits allow of every stream"
            if on_spark
            else "leave it out: whoever pushes decides what comes when",
            sql=text,
            span=_span(statement, "max_drift"),
        )
    reading = _reading(statement, said, text)
    try:
        opened = opener(statement) if needed else (columns, None, None)
        relation = _relation(statement, opened, said, reading, versions, text)
        if isinstance(relation, Stream):
            relation = with_fields(relation, **_beside(statement, relation, catalog, text))
        catalog.add(relation, replace=statement.replace)
    except CatalogError as error:
        raise BindError(error.message, hint=error.hint, sql=text, span=statement.name_span) from None


def _known_columns(statement: CreateStream | CreateTable) -> pa.Schema | None:
    """The columns before the input is opened; None if that is needed to know them."""
    if statement.schema is None or isinstance(statement, CreateTable):
        return statement.schema
    return known_columns(statement.options, statement.schema)


def _as_stream(statement: CreateStream | CreateTable) -> CreateStream | CreateTable:
    """A table with a key has versions: it is read as the stream of its changes."""
    if isinstance(statement, CreateStream) or _option(statement, "key") is None:
        return statement
    return CreateStream(**{field.name: getattr(statement, field.name) for field in fields(statement)})


def _versions(statement: CreateStream | CreateTable, text: str, *, is_table: bool) -> Versions | None:
    if isinstance(statement, CreateTable):
        return None
    try:
        return versions_of(_option(statement, "key"), _option(statement, "op"), is_table=is_table)
    except ValueError as error:
        raise OptionError(str(error), sql=text, span=_span(statement, "key", "op")) from None


def declare_view(statement: CreateView, catalog: Catalog, text: str, timezone: str = UTC) -> None:
    try:
        catalog.add(bind_view(statement, catalog, text, timezone), replace=statement.replace)
    except CatalogError as error:
        raise BindError(error.message, hint=error.hint, sql=text, span=statement.name_span) from None


def _is_pushed(statement: CreateStream | CreateTable) -> bool:
    sourced = any(_option(statement, name) for name in ("source", "path"))
    return isinstance(statement, CreateStream) and not sourced


def _is_by_arrival(statement: CreateStream | CreateTable) -> bool:
    return isinstance(statement, CreateStream) and is_arrival(_option(statement, "time"))


def _check_arrival(statement: CreateStream | CreateTable, said: Mapping[str, Any], text: str) -> None:
    """Refuse options that do not go with the event time."""
    if _is_by_arrival(statement):
        wrong = meaningless_option(said)
        if wrong is not None:
            raise OptionError(wrong[1], hint=f"leave {wrong[0]} out", sql=text, span=_span(statement, wrong[0]))
    elif said["arrival_column"] is not None and isinstance(statement, CreateStream):
        raise OptionError(
            "arrival_column names the moment of arrival, which is not the event time of this stream",
            hint="leave it out, or say time = 'arrival'",
            sql=text,
            span=_span(statement, "arrival_column"),
        )


def _reading(statement: CreateStream | CreateTable, said: Mapping[str, Any], text: str) -> TimeReading | None:
    time = _option(statement, "time")
    try:
        reading = time_reading(None if time is None else named_time(time), said)
        return None if reading is None else reading.declared_in(statement.schema)
    except ValueError as error:
        raise OptionError(str(error), sql=text, span=_span(statement, "time_unit", "time_format")) from None


def _relation(
    statement: CreateStream | CreateTable,
    opened: Opened,
    said: Mapping[str, Any],
    reading: TimeReading | None,
    versions: Versions | None,
    text: str,
) -> Stream | Table:
    schema, source, rows = opened
    distinct = _hint(statement, "distinct", parse_distinct, text) or {}
    unique = _hint(statement, "unique", parse_unique, text) or ()
    statistics = Statistics(_hint(statement, "rate", parse_rate, text), rows, distinct, unique)
    rounding = said["rounding"] or "error"
    if isinstance(statement, CreateTable):
        reload_us = _hint(statement, "reload", parse_reload, text)
        source = source if reload_us is None else _opened_again(statement, source)
        return Table(statement.name, schema, source, statement.options, statistics, rounding, reload_us)
    time, lateness_us = _time_column(statement, schema, text), said["lateness"] or 0
    by_arrival = _is_by_arrival(statement)
    if by_arrival:
        time = said["arrival_column"] or ARRIVAL
        schema = with_moments(statement.name, schema, time)
    elif reading is None:
        check_time_column(statement.name, time, schema, source)
    else:
        reading, schema = in_schema(reading, statement.name, schema)
    return Stream(
        statement.name,
        schema,
        time,
        lateness_us,
        source,
        statement.options,
        statistics,
        arrival_of(said),
        rounding,
        reading,
        versions,
        Arrivals() if by_arrival else None,
    )


def _opened_again(statement: CreateTable, source: Any) -> Any:
    """The input of a table that is loaded again: a folder may hold other files then."""
    if not isinstance(source, FileSource):
        return source
    return ReopenedFiles(
        source, lambda: cast(FileSource, source_from_options(statement.name, statement.options, statement.schema))
    )


def _beside(statement: CreateStream | CreateTable, stream: Stream, catalog: Catalog, text: str) -> dict[str, Any]:
    """The sinks that a stream speaks of."""
    found: dict[str, Any] = {}
    for option, policy in {"bad": stream.arrival.on_bad, "late": stream.arrival.on_late}.items():
        try:
            found[f"{option}_to"] = catalog.sink_of(policy)
        except CatalogError as error:
            span = _span(statement, f"on_{option}")
            raise BindError(error.message, hint=error.hint, sql=text, span=span) from None
    return found


def _time_column(statement: CreateStream, schema: pa.Schema, text: str) -> str:
    time = _option(statement, "time")
    if time:
        return named_time(time)
    candidates = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    raise OptionError(
        f"stream {statement.name!r} does not say which column holds its event time",
        hint=f"add time = '{candidates[0] if candidates else '…'}' to WITH (…)",
        sql=text,
        span=statement.name_span,
    )


def _hint(statement: CreateStream | CreateTable, name: str, parse: Callable[[str], T], text: str) -> T | None:
    """What is said under a name, or None if nothing is."""
    written = _option(statement, name)
    try:
        return None if written is None else parse(written)
    except ValueError as error:
        raise OptionError(f"{name}: {error}", sql=text, span=_span(statement, name)) from None


def _span(statement: CreateStream | CreateTable, *names: str) -> tuple[int, int]:
    return next(s.span for s in statement.settings if s.name.lower() in names)


def _option(statement: CreateStream | CreateTable, name: str) -> str | None:
    return next((value for key, value in statement.options.items() if key.lower() == name), None)
