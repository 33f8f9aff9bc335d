"""Queries: names, types and windows checked against a catalog, the result a logical plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from watersmeet.errors import OptionError, ParseError, SqlError, UnsupportedError, WindowError
from watersmeet.model.catalog import Catalog, NamedQuery
from watersmeet.model.declaration import Setting
from watersmeet.model.pace import MONDAY_US, Pace
from watersmeet.model.types import common_type, comparable, sql_type
from watersmeet.model.windows import RowsWindow
from watersmeet.plan.constants import SAID_AT
from watersmeet.plan.expressions import Column, to_text
from watersmeet.plan.frequencies import frequencies_of
from watersmeet.plan.memory import Memory
from watersmeet.plan.nodes import Changes, GroupBy, Input, Join, Node, Project, SetOperation, SortKey, schema_of
from watersmeet.plan.options import Options
from watersmeet.plan.query import Plan, check_options, log_columns
from watersmeet.plan.shapes import constant_table, is_bare_stream, is_monotone, streams_together
from watersmeet.plan.shared_memory import with_memory
from watersmeet.plan.walks import has_windows_that_step, nodes_below, streams_below
from watersmeet.plan.window_words import window_text
from watersmeet.sql.constants import says_all_rows
from watersmeet.sql.context import Context
from watersmeet.sql.grouping import GroupedOutput
from watersmeet.sql.having import groups_before_having
from watersmeet.sql.named_queries import with_columns, with_named
from watersmeet.sql.ordering import (
    check_limit,
    chosen_on,
    limited,
    order_of,
    orders_alone,
    refused_without_order,
    warn_of_unused_order,
)
from watersmeet.sql.parse import parse_query
from watersmeet.sql.scope import UTC, Text
from watersmeet.sql.select import UNION_ALL, Answer, bind_select
from watersmeet.sql.syntax import (
    Body,
    Compound,
    CreateView,
    Length,
    Name,
    QuerySyntax,
    SelectSyntax,
)
from watersmeet.warning import PlanWarning, warn


def bind(text: str, catalog: Catalog, timezone: str = UTC) -> Plan:
    """The plan of one query. `timezone` is its zone if it does not say one itself."""
    return bind_query(parse_query(text), catalog, text, timezone)


def bind_query(
    query: QuerySyntax, catalog: Catalog, text: str, timezone: str = UTC, memory: Memory | None = None
) -> Plan:
    """The plan of a query that was parsed as part of `text`; errors point into `text`. memory: what its script sets."""
    where = Text(text, catalog.functions)
    with _pointing_at(query.settings, where):
        # The query's own settings come later and win over the session's zone.
        options = Options.of({"timezone": timezone} | {setting.name: setting.value for setting in query.settings})
    start, end = query.span
    # From the start of the query, as Plan.sql is its part of the text alone.
    places = {one.name.lower(): (one.span[0] - start, one.span[1] - start) for one in query.settings if one.span}
    changes = options.emit == "changes" or (query.emit is not None and query.emit.value == "changes")
    context = Context(where, catalog, options.boundary, options.timezone, emits_changes=changes)
    try:
        root, order = _bind_root(query, context)
    except RecursionError:
        raise where.error(
            "the query is nested too deeply", (query.span[0], query.span[0] + 1), kind=ParseError
        ) from None
    root = _with_rows_as_stream(root, catalog)
    says_rows = any(stream.time == SAID_AT for stream in streams_below(root))
    _refuse_constants(root, query, where)
    # After binding: which options make sense depends on what the query has become.
    with _pointing_at(query.settings, where):
        options = with_memory(root, options, memory)
        check_options(root, options)
        frequencies = frequencies_of(root, options, catalog)
    if query.emit is not None and query.emit.value == "complete" and not has_windows_that_step(root):
        raise where.error(
            "EMIT FINAL is about windows of TUMBLE, HOP and SESSION, and the query has none",
            query.emit.span or query.span,
            hint="leave it out: an answer over [RANGE …] comes as its changes; final() is all of it at the end",
            kind=UnsupportedError,
        )
    says_less = says_rows or any(name.lower() in text[start:end].lower() for name in catalog.views())
    plan = Plan(root, replace(options, places=places), text[start:end], order, says_less, frequencies)
    _check_output_names(plan, query, where)
    _warn_of_unused_window(plan)
    return plan


def bind_view(statement: CreateView, catalog: Catalog, text: str, timezone: str = UTC) -> NamedQuery:
    """A view as the catalog keeps it; mistakes in it are told when it is created."""
    before = catalog.copy()
    # Not even one that is replaced: the query is put in the place of the name, and would be in its own.
    before.discard(statement.name)
    context = Context(Text(text, catalog.functions), before, "closed", timezone, as_view=True)
    name = Name(statement.name, statement.name_span)
    columns = tuple(column.text for column in statement.columns)
    query = with_columns(statement.query, columns, name, context)
    node = _bind_whole(query, context)
    # What it is told of its order is told once, here.
    unordered = replace(statement.query, order_by=()) if orders_alone(statement.query) else statement.query
    return NamedQuery(statement.name, schema_of(node), unordered, text, columns)


def _bind_root(query: QuerySyntax, context: Context) -> tuple[Node, tuple[SortKey, ...]]:
    """A query that reads nothing but rows that it says itself, and does more than to select from them, reads them as
    streams that end; its answer is given once."""
    as_stream = context.catalog.rows_as_stream
    if as_stream is None or not says_all_rows(query, context):
        return _bind_ordered(query, context)
    refused: SqlError | None = None
    try:
        root, order = _bind_ordered(query, context)
        if constant_table(root, "constants") is not None:
            return root, order
    except SqlError as error:  # of tables, which cannot do all that streams can
        refused = error
    numbers = count(1)
    made = replace(context, said_rows=lambda rows: as_stream(replace(rows, name=f"constants_{next(numbers)}")))
    try:
        root, order = _bind_ordered(query, made)
    except SqlError as error:
        raise refused or error from None
    _refuse_aggregates_of_nothing(root, query, context.text)
    return (root if isinstance(root, Changes) or is_monotone(root) else Changes("complete", root)), order


def _refuse_aggregates_of_nothing(root: Node, query: QuerySyntax, text: Text) -> None:
    """An aggregate without GROUP BY is a row from the first event on, and without rows there is none."""
    for one in nodes_below(root):
        if isinstance(one, GroupBy) and not one.keys and all(s.statistics.rows == 0 for s in streams_below(one)):
            raise text.error(
                "an aggregate without GROUP BY goes over constants that have no rows",
                (query.span[0], query.span[0] + 6),
                hint="begin the series with what is not more than its end",
                kind=UnsupportedError,
            )


def _with_rows_as_stream(root: Node, catalog: Catalog) -> Node:
    """A query that selects from nothing but rows that it says itself gives these, once."""
    table = constant_table(root, "constants")
    if table is None or catalog.rows_as_stream is None:
        return root
    one = Input(table.name, catalog.rows_as_stream(table))
    return Project(
        Join((one,)), tuple((field.name, Column(one.alias, field.name, field.type)) for field in table.schema)
    )


def _refuse_constants(root: Node, query: QuerySyntax, text: Text) -> None:
    """Rows that the query says itself are joined with streams as a static table is."""
    if any(isinstance(one, Join) and one.is_constant for one in nodes_below(root)):
        raise text.error(
            "the query, or a query in it, reads nothing but constants, and does more than to select from them",
            (query.span[0], query.span[0] + 6),
            hint="join them with a stream, FROM a, (VALUES (1), (2)) AS t (k), or ask a database",
            kind=UnsupportedError,
        )


def _check_output_names(plan: Plan, query: QuerySyntax, text: Text) -> None:
    for taken in log_columns(plan.kind):
        if taken in (name.lower() for name in plan.schema.names):
            raise text.error(
                f"{taken} is the name of a column that every answer that changes has",
                # The word SELECT.
                (query.span[0], query.span[0] + 6),
                hint="give the selected column another name with AS",
            )


def _warn_of_unused_window(plan: Plan) -> None:
    """The last rows of each key alone say what is in an answer that changes, or who meets whom: rows of one stream are
    given as they come, whatever pushes them out later."""
    selected = plan.plain_join
    for one in selected.join.streams if selected is not None and len(selected.join.streams) == 1 else ():
        if isinstance(one.window, RowsWindow) and one.window.partition_by:
            window = f"{one.relation.name} [{window_text(one.window)}]"
            keys = ", ".join(one.window.partition_by)
            text = (
                f"{window} by itself changes nothing: every row is given, not only the last of each {keys}; for "
                f"those, as an answer that changes, write SELECT {keys}, LAST(…) AS … FROM {window} GROUP BY {keys}"
            )
            warn(PlanWarning("unused_window", text))


@contextmanager
def _pointing_at(settings: tuple[Setting, ...], text: Text) -> Iterator[None]:
    """An error of an option points at where that option is written."""
    try:
        yield
    except OptionError as error:
        span = next((setting.span for setting in settings if setting.name.lower() == error.option), None)
        raise error.at(text.sql, span) from None


def _bind_whole(query: QuerySyntax, context: Context) -> Node:
    """A query inside of another, whose rows have no order."""
    warn_of_unused_order(query, context.text)
    node, _ = _bind_ordered(query, context, inside=True)
    return node


def _bind_ordered(query: QuerySyntax, context: Context, *, inside: bool = False) -> tuple[Node, tuple[SortKey, ...]]:
    """A query with its WITH, its ORDER BY … LIMIT and its ISTREAM, DSTREAM or RSTREAM; and the order in which it is
    given where it is given whole."""
    context = with_named(query, context)
    query = groups_before_having(query, context)
    head = _check_stream_words(query, context)
    every = _every(query, context)
    check_limit(query, context.text)
    changing = "ORDER BY … LIMIT" if query.limit is not None else None
    if head.stream_word in ("dstream", "rstream"):
        changing = changing or head.stream_word.upper()
    answer = _bind_body(chosen_on(query, context.text), context, changing)
    keys = order_of(query, answer.outputs, answer.scope, inside=inside)
    node = limited(answer.node, keys, query.limit)
    monotone = answer.monotone and (node is answer.node or answer.complete)
    if answer.complete:
        # The first rows of each window are in order among themselves only.
        node, keys = Changes("complete", node), keys if query.limit is None else ()
    # A plain join gives rows that never leave: they are its ISTREAM already.
    if head.stream_word is None or (head.stream_word == "istream" and monotone):
        return node, keys
    return Changes(head.stream_word, node, None if every is None else _pace(every, node)), keys


def _bind_body(body: Body, context: Context, changing: str | None) -> Answer:
    match body:
        case SelectSyntax():
            if body.distinct_on:
                raise refused_without_order(body, context.text)
            return bind_select(body, context, _bind_whole, changing)
        case Compound():
            return _bind_compound(body, context, changing)
        case QuerySyntax():
            context = with_named(body, context)
            check_limit(body, context.text)
            if body.every is not None:
                raise context.text.error("EVERY stands inside parentheses", body.span, hint="write it at the very end")
            # The parser has taken off parentheses that only group: these have an ORDER BY, a LIMIT or a WITH.
            warn_of_unused_order(body, context.text)
            limit = body.limit
            inside = chosen_on(body, context.text)
            answer = _bind_body(inside, context, changing if limit is None else "ORDER BY … LIMIT")
            keys = order_of(body, answer.outputs, answer.scope, inside=True)
            if limit is None:
                return answer
            return replace(answer, node=limited(answer.node, keys, limit), monotone=answer.complete)


def _bind_compound(body: Compound, context: Context, changing: str | None) -> Answer:
    word = body.kind.upper()
    # Rows of streams that are only put together need no windows, unless something around them does.
    together = body.kind == "union" and body.all and changing in (None, UNION_ALL)
    why = UNION_ALL if together else word if changing in (None, UNION_ALL) else changing
    left, right = (_bind_body(side, context, why) for side in (body.left, body.right))
    if len(left.outputs) != len(right.outputs):
        raise context.text.error(
            f"{word} joins answers with the same columns; the first has {len(left.outputs)}, "
            f"the second {len(right.outputs)}",
            body.right.span,
        )
    for a, b in zip(left.outputs, right.outputs, strict=True):
        if a.expression.type != b.expression.type:
            kinds = f"{sql_type(a.expression.type)} and {sql_type(b.expression.type)}"
            raise context.text.error(
                f"{word} joins answers with the same types, but {a.name} and {b.name} are {kinds}",
                b.span,
                hint=_cast_to_write(a, b),
            )
    if left.complete != right.complete:
        raise context.text.error(
            f"{word} joins windows that are given once with an answer that changes",
            (body.right if left.complete else body.left).span,
            hint="group by window_start and window_end of TUMBLE or HOP on both sides; or emit = 'changes'",
            kind=UnsupportedError,
        )
    streams = [is_bare_stream(side.node) or bool(streams_together(side.node)) for side in (left, right)]
    if any(streams) and not all(streams):
        raise context.text.error(
            "UNION ALL joins a stream that has no window with an answer that changes",
            (body.left if streams[0] else body.right).span,
            hint="write windows on both sides, a [RANGE 1 HOUR], or on none: then they are one stream",
            kind=WindowError,
        )
    node = SetOperation(body.kind, body.all, left.node, right.node)
    # Past a set operation only the output columns have names.
    outputs = [replace(one, expression=Column("", one.name, one.expression.type)) for one in left.outputs]
    grows = left.complete or all(streams)
    return Answer(node, outputs, grows, replace(left.scope, inputs=()), complete=left.complete)


def _cast_to_write(first: GroupedOutput, second: GroupedOutput) -> str:
    """How two columns come to be of one type: the one that holds the values of both, if there is one."""
    one, other = first.expression.type, second.expression.type
    target = common_type(one, other) if comparable(one, other) else one
    sides = [(side, place) for side, place in ((first, " in the first"), (second, ""))
             if side.expression.type != target]  # fmt: skip
    casts = [f"CAST({to_text(side.expression)} AS {sql_type(target)}) AS {side.name}{place}" for side, place in sides]
    return f"write {' and '.join(casts)}"


# -- ISTREAM, DSTREAM, RSTREAM --------------------------------------------------------------------------------


def _selects(body: Body) -> Iterator[SelectSyntax]:
    match body:
        case SelectSyntax():
            yield body
        case Compound(left=left, right=right):
            yield from _selects(left)
            yield from _selects(right)
        case QuerySyntax(body=inner):
            yield from _selects(inner)


def _check_stream_words(query: QuerySyntax, context: Context) -> SelectSyntax:
    """The first SELECT, whose word holds for the whole answer."""
    head, *others = _selects(query.body)
    for other in others:
        if other.stream_word is not None:
            raise context.text.error(
                f"{other.stream_word.upper()} stands in a later SELECT of a set operation",
                other.span,
                hint="write it in the first SELECT; it holds for the whole answer",
            )
    return head


def _pace(every: Length, node: Node) -> Pace:
    """Days and longer are those of the calendar, in the zone of the streams' times, which is the query's."""
    zones = [getattr(one.schema.field(one.time).type, "tz", None) for one in streams_below(node)]
    zone = next((zone for zone in zones if zone not in (None, "UTC")), None)
    if every.unit == "us":
        return Pace(every.us)
    origin_us = MONDAY_US if every.unit == "week" else 0
    if every.unit == "month":
        return Pace(every.count, "month", zone=zone)
    return Pace(every.us, offset_us=origin_us) if zone is None else Pace(every.days, "day", origin_us, zone)


def _every(query: QuerySyntax, context: Context) -> Length | None:
    # EVERY is read after each SELECT and after the whole: people write it in both places.
    head, *_ = selects = list(_selects(query.body))
    given = [every for every in (*(select.every for select in selects), query.every) if every is not None]
    if len(given) > 1:
        raise context.text.error("EVERY is given twice", query.span, hint="write it once, at the end")
    if head.stream_word == "rstream" and not given:
        raise context.text.error(
            "RSTREAM needs EVERY: how often the whole answer is sent",
            head.span,
            hint="add for example EVERY 10 SECONDS after the conditions",
        )
    if given and head.stream_word != "rstream":
        raise context.text.error(
            "EVERY goes with RSTREAM, which sends the whole answer again and again",
            query.span,
            hint="write SELECT RSTREAM …, or leave EVERY out: every change is then sent once",
        )
    return given[0] if given else None
