"""The entries of FROM: streams, tables and subqueries, as plan inputs."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from watersmeet.errors import SqlError, UnsupportedError, WindowError
from watersmeet.model.catalog import Deduplication, Stream, Table
from watersmeet.model.pace import DAY_US
from watersmeet.model.types import is_instant, sql_type
from watersmeet.model.windows import (
    WINDOW_COLUMNS,
    Hop,
    Landmark,
    RowsWindow,
    Session,
    SteppedRows,
    Unbounded,
    Window,
)
from watersmeet.model.zones import zoned_schema
from watersmeet.plan.constants import Constants
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import Changes, Derived, Input, Join, Project, View
from watersmeet.plan.shapes import constant_table
from watersmeet.sql.constants import bind_constants
from watersmeet.sql.context import Context, SubqueryBinder
from watersmeet.sql.gap_fill import bind_gap_fill
from watersmeet.sql.literals import instant
from watersmeet.sql.named_queries import known_query
from watersmeet.sql.queries_as_inputs import query_as_input
from watersmeet.sql.scope import field_index, visible_fields
from watersmeet.sql.syntax import (
    ChangesSyntax,
    FirstRows,
    Name,
    SeriesSyntax,
    SourceSyntax,
    Span,
    ValuesSyntax,
    WindowFunction,
    stream_word,
)
from watersmeet.sql.unnesting import bind_unnest
from watersmeet.sql.window_columns import columns_of_windows, with_complete_windows


def bind_sources(
    sources: tuple[SourceSyntax, ...],
    context: Context,
    bind_subquery: SubqueryBinder,
    grouped_by: frozenset[str] = frozenset(),
    partitioned_by: frozenset[str] = frozenset(),
    ordered_by: frozenset[str] = frozenset(),
) -> tuple[tuple[Input, ...], dict[str, Span]]:
    """The inputs in order, and where each stands in the text. grouped_by: the names of columns, in lower case, that
    GROUP BY mentions; where there is none, those by which every OVER keeps rows apart, and by which they go first."""
    inputs: list[Input] = []
    places: dict[str, Span] = {}
    for source in sources:
        one = _input(source, context, bind_subquery, taken=[known.lower() for known in places])
        if source.unnest is not None:
            one = bind_unnest(one, source.unnest, context)
        if source.gaps is not None:
            times = [name for name in columns_of_windows(one) if is_instant(one.schema.field(name).type)]
            one = bind_gap_fill(one, source.gaps, times, context)
        if source.function is not None:
            # By event time OVER needs no end of the window to be certain; rows of a session come at its end.
            by_time = ordered_by <= {(one.time or "").lower(), "event_time"}
            final = by_time and not isinstance(source.function.window, Session)
            grouped = _tells_windows(grouped_by, source.function) or (
                _tells_windows(partitioned_by, source.function) and not final
            )
            one = bind_window_function(one, source, source.function, context, grouped=grouped)
        elif {name.lower() for name in columns_of_windows(one)} & (grouped_by | partitioned_by):
            one = with_complete_windows(one)
        inputs.append(one)
        places[one.alias] = source.span
    return tuple(inputs), places


def _tells_windows(names: frozenset[str], function: WindowFunction) -> bool:
    """Whether columns of these names tell windows apart. Of windows of one length the start tells the end, and the end
    the start; of sessions they do if they are of one partition."""
    if isinstance(function.window, Hop) and function.window.cumulates:
        return "window_end" in names
    alone = isinstance(function.window, Hop) or names >= {key.text.lower() for key in function.partition_by}
    return bool(names & set(WINDOW_COLUMNS)) if alone else names >= set(WINDOW_COLUMNS)


def _input(source: SourceSyntax, context: Context, bind_subquery: SubqueryBinder, taken: list[str]) -> Input:
    alias = _alias(source, taken)
    if alias.lower() in taken:
        span = (source.alias or source.relation).span
        raise context.text.error(f"{alias} is used twice; give one an alias", span, hint=f"write {alias} AS {alias}2")
    relation = _relation(source, alias, context, bind_subquery)
    if source.first is not None:
        relation = _deduplicated(relation, source.first, alias, context)
    if source.columns:
        relation = _renamed(relation, source, alias, context)
    if context.said_rows is not None:
        _refuse_times(source, alias, context)
        if isinstance(relation, Constants) and source.unnest is None:
            return Input(alias, context.said_rows(relation), Unbounded())
    window = _window(source, relation, alias, context)
    if isinstance(relation, Stream):
        _check_versions(relation, source, context)
        # What is left says that its versions are meant, of which each counts until the next.
        if source.as_of is None:
            return Input(alias, relation if relation.versions is None else replace(relation, versions=None), window)
        return Input(alias, relation, Unbounded())
    if source.as_of is not None and not isinstance(relation, Table):
        raise context.text.error(
            f"{alias} is a query, and only a table has versions",
            source.span,
            hint="write its rows to a sink, and declare that as a table: WITH (time = '_ts', op = '_op', key = '…')",
            kind=UnsupportedError,
        )
    return Input(alias, relation, window)


def _refuse_times(source: SourceSyntax, alias: str, context: Context) -> None:
    """Rows that the query says itself have no times, though they are read as those of a stream."""
    if any(one is not None for one in (source.window, source.function, source.gaps, source.as_of, source.first)):
        raise context.text.error(
            f"{alias} is made of rows that the query says itself, and they have no times", source.span, kind=WindowError
        )


def _relation(
    source: SourceSyntax, alias: str, context: Context, bind_subquery: SubqueryBinder
) -> Stream | Table | Derived | View:
    logged = isinstance(source.relation, ChangesSyntax)
    read = source.relation.of if isinstance(source.relation, ChangesSyntax) else source.relation
    if isinstance(read, ValuesSyntax | SeriesSyntax):
        return bind_constants(read, alias, context)
    inside = context
    if isinstance(read, Name) and (known := known_query(read, context)) is not None:
        read, inside = known
    if isinstance(read, Name):
        relation = _named(read, context)
        if logged:
            raise _no_log(relation, source, context)
        return relation
    # A window says that rows are meant as they appear; around CHANGES it is one of the log.
    says_so = stream_word(read) is not None or (source.window is not None and not logged)
    node = bind_subquery(read, replace(inside, as_view=not says_so))
    if (table := constant_table(node, alias)) is not None:
        return table
    return query_as_input(alias, source, node, context, says_so=says_so, logged=logged)


def _renamed(
    relation: Stream | Table | Derived | View, source: SourceSyntax, alias: str, context: Context
) -> Derived | View | Constants:
    """`AS t (a, b)`: the first columns under other names."""
    given = [name.text for name in source.columns]
    is_read_table = isinstance(relation, Table) and not isinstance(relation, Constants)
    made = source.function or source.gaps
    if is_read_table or made is not None or source.as_of is not None:
        what = "a table" if made is None else "rows in windows" if source.gaps is None else "the rows that have gaps"
        raise context.text.error(
            f"the columns of {alias} are those of {what}, and cannot be given other names there",
            source.columns[0].span,
            hint="give them other names in the select list, with AS",
            kind=UnsupportedError,
        )
    if isinstance(relation, Stream):
        relation = replace(relation, versions=None)
    bare = Input(alias, relation)
    shown = [field.name for field in visible_fields(bare)]
    if len(given) > len(shown):
        raise context.text.error(
            f"{alias} has {len(shown)} columns, and {len(given)} are named",
            source.columns[len(shown)].span,
            hint=f"its columns are {', '.join(shown)}",
        )
    named = dict(zip(shown, given, strict=False))
    columns = tuple((named.get(one.name, one.name), Column(alias, one.name, one.type)) for one in bare.schema)
    lowered = [name.lower() for name, _ in columns]
    twice = next((name for name in source.columns if lowered.count(name.text.lower()) > 1), None)
    if twice is not None:
        raise context.text.error(f"{alias} would have two columns {twice.text}", twice.span)
    project = Project(Join((bare,), boundary=context.boundary), columns)
    if (table := constant_table(project, alias)) is not None:
        return table
    if bare.time is None:
        return View(alias, project, project.schema)
    return Derived(alias, project, project.schema, named.get(bare.time, bare.time), bare.hides_time)


def _check_versions(stream: Stream, source: SourceSyntax, context: Context) -> None:
    name, versions = stream.name, stream.versions
    if source.as_of is None:
        if versions is not None and versions.is_table:
            key = " AND ".join(f"a.{column} = {name}.{column}" for column in versions.key)
            raise context.text.error(
                f"{name} is a table with versions, and it is not said which one is meant",
                source.span,
                hint=f"write a JOIN {name} FOR SYSTEM_TIME AS OF a.ts ON {key}; to read its changes as they come, "
                f"declare it with CREATE STREAM",
                kind=WindowError,
            )
        return
    if versions is None:
        raise context.text.error(
            f"{name} is a stream that says no key, so it has no versions",
            source.span,
            hint=f"declare it WITH (…, key = 'k'); or write ASOF JOIN {name} ON a.k = {name}.k AND "
            f"{name}.{stream.time} <= a.ts",
            kind=WindowError,
        )
    if source.window is not None or source.function is not None:
        raise context.text.error(
            f"{name} has versions, each of which holds until the next: it has no window",
            source.span if source.window is None else source.window.span,
            hint="leave the window out; WHERE can say how old a version may be",
            kind=WindowError,
        )


def _deduplicated(relation: Stream | Table | Derived | View, first: FirstRows, alias: str, context: Context) -> Stream:
    if not isinstance(relation, Stream):
        what = "a static table" if isinstance(relation, Table) else "a query"
        raise context.text.error(
            f"DEDUPLICATE goes over a stream that is declared, as its rows arrive, and {relation.name} is {what}",
            first.span,
            hint="write it inside: SELECT … FROM DEDUPLICATE(a, 10 MINUTES PARTITION BY k)",
        )
    if first.time is not None and first.time.text.lower() != relation.time.lower():
        raise context.text.error(
            f"{first.time.text} is not the event time of {relation.name}, which is {relation.time}",
            first.time.span,
            hint=f"write DESCRIPTOR({relation.time}), or leave DESCRIPTOR out",
        )
    keys = _partition_columns(first.keys, relation.schema, alias, context)
    if not keys:
        nested = [field.name for field in relation.schema if pa.types.is_nested(field.type)]
        if nested:
            raise context.text.error(
                f"{nested[0]} is nested, so rows cannot be compared as a whole",
                first.span,
                hint="say what tells rows apart: DEDUPLICATE(…, 10 MINUTES PARTITION BY k)",
            )
        keys = tuple(name for name in relation.schema.names if name != relation.time)
    return replace(relation, first=Deduplication(keys, first.within_us))


def _alias(source: SourceSyntax, taken: list[str]) -> str:
    if source.named is not None:
        return source.named.text
    names = ["subquery", *(f"subquery_{n}" for n in range(1, len(taken) + 1))]
    # As many names as are taken, and one more: one is free.
    return next(name for name in names if name not in taken)


def _named(name: Name, context: Context) -> Stream | Table:
    relation = context.catalog.find(name.text)
    if relation is not None:
        schema = zoned_schema(relation.schema, context.zone)
        return relation if schema == relation.schema else replace(relation, schema=schema)
    near = context.catalog.suggestion(name.text)
    known = ", ".join([*(one.name.text for one, _ in context.named.values()), *context.catalog.names()])
    listing = f"declared are {known}" if known else "none is declared yet: use CREATE STREAM"
    raise context.text.error(
        f"there is no stream or table {name.text}",
        name.span,
        hint=f"did you mean {near}? {listing}" if near else listing,
    )


def _window(
    source: SourceSyntax, relation: Stream | Table | Derived | View, alias: str, context: Context
) -> Window | None:
    clause, schema = source.window, relation.schema
    if clause is not None and clause.landmark is not None and not isinstance(relation, Table | View):
        assert isinstance(clause.window, Landmark)
        return replace(clause.window, since_us=_landmark_us(clause.landmark, schema.field(relation.time).type, context))
    if clause is None or not isinstance(clause.window, RowsWindow | SteppedRows):
        return clause.window if clause else None
    return replace(clause.window, partition_by=_partition_columns(clause.partition_by, schema, alias, context))


def _landmark_us(written: Name, kind: pa.DataType, context: Context) -> int:
    """As any text beside such a time: as written, or in the query's zone if it is an instant."""
    try:
        return int(pa.scalar(instant(written.text, kind).value, pa.timestamp("us", "UTC")).value)
    except ValueError as error:
        raise context.text.error(str(error), written.span) from None


def _partition_columns(names: tuple[Name, ...], schema: pa.Schema, alias: str, context: Context) -> tuple[str, ...]:
    columns = []
    for name in names:
        index = field_index(schema, name.text)
        if index is None:
            raise context.text.error(
                f"{alias} has no column {name.text} to partition by",
                name.span,
                hint=f"its columns are {', '.join(schema.names)}",
            )
        field = schema.field(index)
        if pa.types.is_nested(field.type):
            message = f"rows cannot be counted by {name.text}, which is nested: {sql_type(field.type)}"
            raise context.text.error(message, name.span)
        columns.append(field.name)
    return tuple(columns)


def bind_window_function(
    one: Input, source: SourceSyntax, function: WindowFunction, context: Context, *, grouped: bool
) -> Input:
    """The rows of an input in their windows. Those that are not grouped by windows are a stream: of TUMBLE and HOP at
    their own times, of SESSION at the end of the session."""
    _check_windowed(one, source, function, context)
    assert one.time is not None
    zone = getattr(one.schema.field(one.time).type, "tz", None)
    window: Hop | Session
    if isinstance(function.window, Session):
        keys = _partition_columns(function.partition_by, one.schema, one.alias, context)
        window = replace(function.window, partition_by=keys, at_once=context.emits_changes and grouped, zone=zone)
    else:
        hop = _in_zone(function.window, zone)
        if hop.calendar is None and function.has_days and zone not in (None, "UTC"):
            why = "CUMULATE takes all for 24" if hop.cumulates else "they are no multiple of the slide"
            raise context.text.error(
                f"days have 23, 24 or 25 hours in {zone}, {'and' if hop.cumulates else 'so'} {why}",
                function.span,
                hint="write 24 HOURS, which begin with those of UTC"
                if hop.cumulates
                else "write 24 HOURS, or a slide in days",
                kind=WindowError,
            )
        window = replace(hop, at_once=context.emits_changes or not grouped)
    inside = replace(one, window=window)
    if grouped:
        return inside
    columns = tuple((field.name, Column(one.alias, field.name, field.type)) for field in inside.schema)
    project = Project(Join((inside,), boundary=context.boundary), columns)
    relation = Derived(one.alias, project, project.schema, one.time, one.hides_time)
    if isinstance(window, Session):
        relation = Derived(one.alias, Changes("complete", project), project.schema, "window_end")
    return Input(one.alias, relation, one.window)


def _in_zone(hop: Hop, zone: str | None) -> Hop:
    """The windows of times in a zone. Days that all have 24 hours are multiples of these."""
    pace = hop.calendar
    if pace is None:
        return replace(hop, zone=zone)
    if zone not in (None, "UTC"):
        return replace(hop, zone=zone, calendar=replace(pace, zone=zone))
    if pace.unit == "month":
        return replace(hop, zone=zone)
    slide_us = pace.every * DAY_US
    return Hop(slide_us * hop.steps, slide_us, pace.offset_us, zone=zone)


def _check_windowed(one: Input, source: SourceSyntax, function: WindowFunction, context: Context) -> None:
    if one.time is None:
        what = "a static table" if one.is_table else "an answer that changes"
        raise context.text.error(
            f"{one.alias} is {what}, and its rows have no event time that windows could be made of",
            source.relation.span,
            hint="name a stream, or a query that is one: SELECT ISTREAM …",
            kind=WindowError,
        )
    if function.time is not None and function.time.text.lower() != one.time.lower():
        raise context.text.error(
            f"{function.time.text} is not the event time of {one.alias}, which is {one.time}",
            function.time.span,
            hint=f"write DESCRIPTOR({one.time}), or leave DESCRIPTOR out",
        )
    for name in WINDOW_COLUMNS:
        if field_index(one.schema, name) is not None:
            raise context.text.error(
                f"{one.alias} has a column {name} already", function.span, hint="select it under another name first"
            )
    if source.window is not None:
        raise context.text.error(
            f"{one.alias} has windows by the function, and one in brackets",
            source.window.span,
            hint="write one of them",
            kind=WindowError,
        )


def _no_log(relation: Stream | Table, source: SourceSyntax, context: Context) -> SqlError:
    name = relation.name
    if isinstance(relation, Table):
        why, hint = "a static table, which does not change", f"leave CHANGES out: FROM {name}"
    elif relation.versions is not None and relation.versions.is_table:
        why = "a table with versions, whose changes come in from outside"
        hint = "declare it with CREATE STREAM to read them as they come"
    else:
        why = "a stream, whose rows never leave"
        hint = f"leave CHANGES out, FROM {name}; or write CHANGES((SELECT * FROM {name} [RANGE 1 HOUR])), which tells "
        hint += "when rows leave the window, too"
    return context.text.error(
        f"CHANGES is of an answer, and {name} is {why}", source.relation.span, hint=hint, kind=UnsupportedError
    )
