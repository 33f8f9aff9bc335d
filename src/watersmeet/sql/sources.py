"""The entries of FROM: streams, tables and subqueries, as plan inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

import pyarrow as pa

from watersmeet.errors import BindError, SqlError, UnsupportedError, WindowError
from watersmeet.model.catalog import Deduplication, Stream, Table
from watersmeet.model.pace import DAY_US
from watersmeet.model.types import sql_type
from watersmeet.model.windows import (
    WINDOW_COLUMNS,
    Hop,
    Landmark,
    RowsWindow,
    Session,
    Stepped,
    SteppedRows,
    Unbounded,
    Window,
)
from watersmeet.model.zones import zoned_schema
from watersmeet.plan.constants import Constants
from watersmeet.plan.expressions import Column, EventTime, Expression, Literal
from watersmeet.plan.nodes import (
    AT,
    OP,
    Changes,
    Derived,
    Input,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    View,
    children,
    constant_table,
    growing_join,
    schema_of,
    streams_together,
)
from watersmeet.sql.constants import bind_constants
from watersmeet.sql.context import Context, SubqueryBinder
from watersmeet.sql.gap_fill import bind_gap_fill
from watersmeet.sql.literals import instant
from watersmeet.sql.named_queries import known_query
from watersmeet.sql.scope import HIDDEN_TIME, event_time_type, field_index, visible_fields
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

Told = tuple[str, Hop | None]  # which column of the windows, and their form where the start tells the end
_END: Told = ("window_end", None)
ONCE = Stepped(1, 1)  # rows are there at the instant of their time, and at no other


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
            one = bind_gap_fill(one, source.gaps, columns_of_windows(one), context)
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
    changes = _is_view(node, says_so=says_so)
    if logged:
        return (_log if changes else _log_of_stream)(alias, source, node, context)
    return (_view if changes else _derived)(alias, source, node, context)


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
            raise context.text.error(
                f"days have 23, 24 or 25 hours in {zone}, so they are no multiple of the slide",
                function.span,
                hint="write 24 HOURS, or a slide in days",
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


def with_complete_windows(one: Input) -> Input:
    """What other windows have given, each at its end: grouped by them again, it is there at that instant."""
    match one:
        case Input(relation=Derived(plan=Changes(kind="complete")), window=None):
            return replace(one, window=ONCE)
    return one


def columns_of_windows(one: Input) -> dict[str, Told]:
    """The columns of an input that each tell in which window a row is."""
    if isinstance(one.window, Hop):
        form = replace(one.window, at_once=False, zone=None)
        # Of windows that begin together the start does not tell which one is meant.
        return {name: (name, form) for name in WINDOW_COLUMNS if name == "window_end" or not form.cumulates}
    if isinstance(one.window, Session):
        return {"window_end": _END}
    match one.relation:
        case Derived(plan=Changes(kind="complete", child=child), schema=schema, time=time):
            first, *others = (_told_by(part) for part in _lists_below(child))
            same = {place: told for place, told in first.items() if all(one.get(place) == told for one in others)}
            told = {schema.names[place]: one for place, one in same.items()}
            return {time: _END} | {name: one for name, one in told.items() if one[1] is not None}
    return {} if one.time is None else {one.time: _END}


def _told_by(node: Project | Over) -> dict[int, Told]:
    """The places of columns that each tell in which window a row is."""
    told: dict[Expression, Told]
    if isinstance(node, Over):
        assert isinstance(node.child, Project)
        told = dict(_told_as("", node.child))
    else:
        join = node.child if isinstance(node.child, Join) else node.child.child
        told = {column: one for stream in join.streams for column, one in _told_in(stream)}
    return {place: told[e] for place, (_, e) in enumerate(node.columns) if e in told}


def _told_in(one: Input) -> Iterator[tuple[Column, Told]]:
    match one.relation:
        case View(plan=Project(child=Join()) as inside):
            # Rows of a join before this one: the columns are those of its members.
            return _told_as(one.alias, inside)
    found = columns_of_windows(one).items()
    return ((Column(one.alias, name, one.schema.field(name).type), told) for name, told in found)


def _told_as(alias: str, node: Project) -> Iterator[tuple[Column, Told]]:
    for place, told in _told_by(node).items():
        name, expression = node.columns[place]
        yield Column(alias, name, expression.type), told


def _is_view(node: Node, *, says_so: bool) -> bool:
    """Whether a subquery is an answer that changes rather than a stream.

    A plain join is a stream of its combinations if it says so: by ISTREAM, by a window of its own, or because an
    input of it has no window, so that nothing would ever leave.
    """
    if isinstance(node, Changes) or (isinstance(node, Over) and node.time is not None) or streams_together(node):
        return False
    growing = growing_join(node)
    if growing is None:
        return True
    return not says_so and all(one.window is not None for one in growing.join.streams)


def _view(alias: str, source: SourceSyntax, node: Node, context: Context) -> View:
    if source.window is not None:
        raise context.text.error(
            f"{alias} is an answer that changes and cannot have a window: its rows are there while they are in "
            f"that answer",
            source.window.span,
            hint="write SELECT ISTREAM … in it to take its rows as they appear, for as long as the window says",
            kind=WindowError,
        )
    return View(alias, node, schema_of(node))


def _refuse_nested(node: Node, source: SourceSyntax, context: Context) -> None:
    for column in schema_of(node):
        if pa.types.is_nested(column.type):
            raise context.text.error(
                f"rows of an answer that changes are compared, and {column.name} is nested: {sql_type(column.type)}",
                source.span,
                hint="leave it out, or write SELECT ISTREAM … in it to take its rows as they appear",
            )


def _log(alias: str, source: SourceSyntax, node: Node, context: Context) -> Derived:
    """CHANGES of an answer that changes: a stream by the instants of its changes."""
    _refuse_nested(node, source, context)
    _refuse_log_names(schema_of(node), source, context)
    log = Changes("log", node)
    sign, *columns = schema_of(log)
    return Derived(alias, log, pa.schema([sign, pa.field(AT, pa.timestamp("us")), *columns]), AT)


def _log_of_stream(alias: str, source: SourceSyntax, node: Node, context: Context) -> Derived:
    """CHANGES of rows that never leave: all enter, each at its time."""
    one = Input(alias, _derived(alias, source, node, context))
    shown = visible_fields(one)
    _refuse_log_names(pa.schema(shown), source, context)
    columns: list[tuple[str, Expression]] = [(OP, Literal("+", pa.string())), (AT, EventTime(pa.timestamp("us")))]
    columns += ((field.name, Column(alias, field.name, field.type)) for field in shown)
    project = Project(Join((one,), boundary=context.boundary), tuple(columns))
    return Derived(alias, project, project.schema, AT)


def _refuse_log_names(schema: pa.Schema, source: SourceSyntax, context: Context) -> None:
    for name in schema.names:
        if name.lower() in (OP, AT):
            raise context.text.error(
                f"{name} is the name of a column that CHANGES gives its rows",
                source.relation.span,
                hint=f"give that column another name: CHANGES((SELECT {name} AS …, … FROM …))",
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


def _derived(alias: str, source: SourceSyntax, node: Node, context: Context) -> Derived:
    if isinstance(node, Changes):
        # A change log has its instants as they are; what it lacks is only the column in its schema.
        schema = schema_of(node)
        if node.kind == "complete":
            return _complete(alias, source, node, context)
        _refuse_hidden_name(schema, source, context)
        with_instant = schema.append(pa.field(HIDDEN_TIME, pa.timestamp("us")))
        return Derived(alias, node, with_instant, HIDDEN_TIME, hides_time=True)
    places = frozenset.intersection(*(_time_places(part) for part in _parts(node)))
    if places:
        return Derived(alias, node, schema_of(node), schema_of(node).names[min(places)])
    if any(_time_places(part) for part in _parts(node)):
        raise context.text.error(
            f"the event times of what UNION ALL makes one stream of are not all in one column of {alias}",
            source.span,
            hint="select the event time of each stream as the same column, or of none",
            kind=WindowError,
        )
    _refuse_hidden_name(schema_of(node), source, context)
    with_time = _with_time(node, context)
    return Derived(alias, with_time, schema_of(with_time), HIDDEN_TIME, hides_time=True)


def _parts(node: Node) -> tuple[Project | Over, ...]:
    """The select lists that a stream is made of, side by side."""
    return (node,) if isinstance(node, Project | Over) else streams_together(node)


def _with_time(node: Node, context: Context) -> Node:
    """The same with the event times of its rows in a column more."""
    match node:
        case Project(child=Join() as join):
            time: Expression = EventTime(event_time_type(join.inputs, context.zone))
            return replace(node, columns=(*node.columns, (HIDDEN_TIME, time)))
        case Over():
            return replace(node, columns=(*node.columns, (HIDDEN_TIME, _own_time(node))))
        case SetOperation(left=left, right=right):
            return replace(node, left=_with_time(left, context), right=_with_time(right, context))
    raise AssertionError(f"{type(node).__name__} is no stream")


def _complete(alias: str, source: SourceSyntax, node: Changes, context: Context) -> Derived:
    """Windows that are given once; the time of a row is the end of its window."""
    schema = schema_of(node)
    ends_in = [_ends_at(part) for part in _lists_below(node.child)]
    for place, name in enumerate(schema.names):
        if all(place in places for places in ends_in):
            return Derived(alias, node, schema, name)
    made = node.child
    if not _is_list(made):
        raise context.text.error(
            f"the rows of {alias} have the ends of their windows as times, which are not selected",
            source.span,
            hint="select window_end, too, as the same column on both sides of a set operation",
            kind=WindowError,
        )
    _refuse_hidden_name(made.schema, source, context)
    made, end = _with_end(made)
    made = replace(made, columns=(*made.columns, (HIDDEN_TIME, end)))
    return Derived(alias, replace(node, child=made), made.schema, HIDDEN_TIME, hides_time=True)


def _ends(node: Project | Over) -> list[Expression]:
    """What in a select list is the end of the windows."""
    if isinstance(node, Over):
        assert isinstance(node.child, Project)
        below = _ends(node.child)
        return [Column("", name, e.type) for name, e in node.child.columns if e in below]
    if isinstance(node.child, Join):
        every = [Column(one.alias, field.name, field.type) for one in node.child.streams for field in one.schema]
        return [column for column in every if _is_end(column, node.child)]
    return [key for key in node.child.keys if isinstance(key, Column) and _is_end(key, node.child.child)]


def _with_end(node: Project | Over) -> tuple[Project | Over, Expression]:
    """The same with the end of the windows at hand, and what it is there."""
    known = _ends(node)
    if known or not isinstance(node, Over):
        return node, known[0]
    assert isinstance(node.child, Project)
    end = _ends(node.child)[0]
    child = replace(node.child, columns=(*node.child.columns, (HIDDEN_TIME, end)))
    return replace(node, child=child), Column("", HIDDEN_TIME, end.type)


def _is_list(node: Node) -> TypeGuard[Project | Over]:
    return isinstance(node, Project) or (isinstance(node, Over) and isinstance(node.child, Project))


def _lists_below(node: Node) -> Iterator[Project | Over]:
    """The select lists over windows, below what goes over them."""
    if _is_list(node):
        yield node
        return
    for child in children(node):
        yield from _lists_below(child)


def _ends_at(node: Project | Over) -> set[int]:
    """The places of the columns that are the ends of windows."""
    ends = _ends(node)
    return {place for place, (_, expression) in enumerate(node.columns) if expression in ends}


def _is_end(key: Column, join: Join) -> bool:
    one = join.input(key.stream)
    match one.relation:
        case View(plan=Project(child=Join() as inside, columns=columns)):
            # Rows of a join before this one: the column is that of a member.
            column = dict(columns)[key.name]
            return isinstance(column, Column) and _is_end(column, inside)
    return key.name == ("window_end" if isinstance(one.window, Hop | Session) else one.time)


def _time_places(node: Project | Over) -> frozenset[int]:
    """The places of selected columns that are the event time of a subquery's rows."""
    if isinstance(node, Over):
        return frozenset(place for place, (_, e) in enumerate(node.columns) if e == _own_time(node))
    assert isinstance(node.child, Join)
    # Of several streams the time is the newest member's, which no single column is.
    only = node.child.streams[0] if len(node.child.streams) == 1 else None
    own = None if only is None else (only.alias, only.time)
    return frozenset(
        place
        for place, (_, e) in enumerate(node.columns)
        if isinstance(e, EventTime) or (isinstance(e, Column) and (e.stream, e.name) == own)
    )


def _own_time(node: Over) -> Column:
    """The event time below it."""
    assert node.time is not None
    return Column("", node.time, schema_of(node.child).field(node.time).type)


def _refuse_hidden_name(schema: pa.Schema, source: SourceSyntax, context: Context) -> None:
    if HIDDEN_TIME in schema.names:
        raise context.text.error(
            f"{HIDDEN_TIME} is the name a subquery's event time gets by itself",
            source.span,
            hint="give the selected column another name with AS",
            kind=BindError,
        )
