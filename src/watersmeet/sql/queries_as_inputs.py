"""Queries in FROM: as an answer that changes, as a stream with its event time, or as the log of its changes."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from watersmeet.errors import BindError, WindowError
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
    schema_of,
)
from watersmeet.plan.shapes import growing_join, streams_together
from watersmeet.sql.context import Context
from watersmeet.sql.scope import HIDDEN_TIME, event_time_type, visible_fields
from watersmeet.sql.syntax import SourceSyntax
from watersmeet.sql.window_columns import is_select_list, places_of_ends, select_lists_below, with_end


def query_as_input(
    alias: str, source: SourceSyntax, node: Node, context: Context, *, says_so: bool, logged: bool
) -> Derived | View:
    """says_so: whether it is said that its rows are meant as they appear. logged: whether CHANGES stands around it."""
    changes = _is_view(node, says_so=says_so)
    if logged:
        return (_log if changes else _log_of_stream)(alias, source, node, context)
    return (_view if changes else _derived)(alias, source, node, context)


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


def _log(alias: str, source: SourceSyntax, node: Node, context: Context) -> Derived:
    """CHANGES of an answer that changes: a stream by the instants of its changes."""
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
    ends_in = [places_of_ends(part) for part in select_lists_below(node.child)]
    for place, name in enumerate(schema.names):
        if all(place in places for places in ends_in):
            return Derived(alias, node, schema, name)
    made = node.child
    if not is_select_list(made):
        raise context.text.error(
            f"the rows of {alias} have the ends of their windows as times, which are not selected",
            source.span,
            hint="select window_end, too, as the same column on both sides of a set operation",
            kind=WindowError,
        )
    _refuse_hidden_name(made.schema, source, context)
    made, end = with_end(made)
    made = replace(made, columns=(*made.columns, (HIDDEN_TIME, end)))
    return Derived(alias, replace(node, child=made), made.schema, HIDDEN_TIME, hides_time=True)


def _time_places(node: Project | Over) -> frozenset[int]:
    """The places of selected columns that are the event time of a subquery's rows."""
    if isinstance(node, Over):
        return frozenset(place for place, (_, e) in enumerate(node.columns) if e == _own_time(node))
    assert isinstance(node.child, Join)
    own = _time_columns(node.child)
    return frozenset(
        place
        for place, (_, e) in enumerate(node.columns)
        if isinstance(e, EventTime) or (isinstance(e, Column) and (e.stream, e.name) in own)
    )


def _time_columns(join: Join) -> set[tuple[str, str | None]]:
    """The columns, by stream and name, that are the event time of every row of a join."""
    # Of several streams the time is the newest member's, which no single column is.
    if len(join.streams) != 1 and not (join.asof is not None and join.asof.at_own_time):
        return set()
    one = join.streams[0]
    below = set[str]()
    if isinstance(one.relation, Derived) and isinstance(one.relation.plan, Project):
        names = one.relation.schema.names
        below = {names[place] for place in _time_places(one.relation.plan)}
    return {(one.alias, name) for name in (one.time, *below)}


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
