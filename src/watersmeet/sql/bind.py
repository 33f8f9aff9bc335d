"""Queries: names, types and windows checked against a catalog, the result a logical plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from watersmeet.errors import OptionError, ParseError, UnsupportedError
from watersmeet.model.catalog import Catalog, NamedQuery
from watersmeet.model.declaration import Setting
from watersmeet.model.types import sql_type
from watersmeet.model.windows import RowsWindow
from watersmeet.plan.expressions import Aggregate, Column, EventTime, Expression, replaced, walk
from watersmeet.plan.nodes import (
    Changes,
    Node,
    Plan,
    SetOperation,
    SortKey,
    TopK,
    check_options,
    has_windows_that_step,
    log_columns,
    schema_of,
)
from watersmeet.plan.options import Options
from watersmeet.plan.window_words import window_text
from watersmeet.sql.context import Context
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.grouping import GroupedOutput, named_output, ordinal
from watersmeet.sql.named_queries import with_columns, with_named
from watersmeet.sql.parse import parse_query
from watersmeet.sql.scope import UTC, Text
from watersmeet.sql.select import Answer, bind_select
from watersmeet.sql.syntax import (
    Body,
    Compound,
    CreateView,
    Name,
    OrderKey,
    QuerySyntax,
    SelectSyntax,
    span_of,
)
from watersmeet.warning import PlanWarning, warn


def bind(text: str, catalog: Catalog, timezone: str = UTC) -> Plan:
    """The plan of one query. `timezone` is its zone if it does not say one itself."""
    return bind_query(parse_query(text), catalog, text, timezone)


def bind_query(query: QuerySyntax, catalog: Catalog, text: str, timezone: str = UTC) -> Plan:
    """The plan of a query that was parsed as part of `text`; errors point into `text`."""
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
        root = _bind_whole(query, context)
    except RecursionError:
        raise where.error(
            "the query is nested too deeply", (query.span[0], query.span[0] + 1), kind=ParseError
        ) from None
    # After binding: which options make sense depends on what the query has become.
    with _pointing_at(query.settings, where):
        check_options(root, options)
    if query.emit is not None and query.emit.value == "complete" and not has_windows_that_step(root):
        raise where.error(
            "EMIT FINAL is about windows of TUMBLE, HOP and SESSION, and the query has none",
            query.emit.span or query.span,
            hint="leave it out: an answer over [RANGE …] comes as its changes; final() is all of it at the end",
            kind=UnsupportedError,
        )
    plan = Plan(root, replace(options, places=places), text[start:end])
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
    return NamedQuery(statement.name, schema_of(_bind_whole(query, context)), statement.query, text, columns)


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
    """A query with its WITH, its ORDER BY … LIMIT and its ISTREAM, DSTREAM or RSTREAM."""
    context = with_named(query, context)
    head = _check_stream_words(query, context)
    every = _every(query, context)
    _check_limit(query, context)
    changing = "ORDER BY … LIMIT" if query.order_by else None
    if head.stream_word in ("dstream", "rstream"):
        changing = changing or head.stream_word.upper()
    answer = _bind_body(query.body, context, changing)
    node = _top(query, answer)
    monotone = answer.monotone and (node is answer.node or answer.complete)
    if answer.complete:
        node = Changes("complete", node)
    # A plain join gives rows that never leave: they are its ISTREAM already.
    if head.stream_word is None or (head.stream_word == "istream" and monotone):
        return node
    return Changes(head.stream_word, node, every)


def _bind_body(body: Body, context: Context, changing: str | None) -> Answer:
    match body:
        case SelectSyntax():
            return bind_select(body, context, _bind_whole, changing)
        case Compound():
            return _bind_compound(body, context)
        case QuerySyntax():
            context = with_named(body, context)
            _check_limit(body, context)
            if body.every_us is not None:
                raise context.text.error("EVERY stands inside parentheses", body.span, hint="write it at the very end")
            # The parser has taken off parentheses that only group: these have an ORDER BY … LIMIT or a WITH.
            if body.limit is None:
                return _bind_body(body.body, context, changing)
            answer = _bind_body(body.body, context, "ORDER BY … LIMIT")
            return replace(answer, node=_top(body, answer), monotone=answer.complete)


def _bind_compound(body: Compound, context: Context) -> Answer:
    word = body.kind.upper()
    left, right = (_bind_body(side, context, word) for side in (body.left, body.right))
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
                hint=f"write CAST({b.name} AS {sql_type(a.expression.type)})",
            )
    if left.complete != right.complete:
        raise context.text.error(
            f"{word} joins windows that are given once with an answer that changes",
            (body.right if left.complete else body.left).span,
            hint="group by window_start and window_end of TUMBLE or HOP on both sides; or emit = 'changes'",
            kind=UnsupportedError,
        )
    node = SetOperation(body.kind, body.all, left.node, right.node)
    # Past a set operation only the output columns have names.
    outputs = [GroupedOutput(o.name, Column("", o.name, o.expression.type), o.span) for o in left.outputs]
    return Answer(node, outputs, left.complete, replace(left.scope, inputs=()), complete=left.complete)


# -- ORDER BY … LIMIT -----------------------------------------------------------------------------------------


def _check_limit(query: QuerySyntax, context: Context) -> None:
    if query.order_by and query.limit is None:
        raise context.text.error(
            "ORDER BY needs LIMIT: an answer that never ends has no order as a whole",
            span_of(query.order_by[0].expression),
            hint="write ORDER BY … LIMIT 10 to keep the first ten",
        )
    if query.limit is not None and not query.order_by:
        raise context.text.error(
            "LIMIT needs ORDER BY, to say which rows are the first",
            (query.span[1] - 1, query.span[1]),
            hint="write ORDER BY x LIMIT 10",
        )
    if query.limit == 0:
        raise context.text.error("LIMIT 0 keeps nothing; write 1 or more", (query.span[1] - 1, query.span[1]))


def _top(query: QuerySyntax, answer: Answer) -> Node:
    if query.limit is None:
        return answer.node
    keys = tuple(SortKey(_order_key(key, answer), key.descending, key.nulls_first) for key in query.order_by)
    return TopK(answer.node, keys, query.limit)


def _order_key(key: OrderKey, answer: Answer) -> Expression:
    """A sort key over the output columns, which stand as columns of the unnamed stream ''."""
    node: exp.Expr = key.expression
    # Numbers and names of outputs first, as in SQL: what is ordered is the answer.
    chosen = ordinal(node, answer.outputs, answer.scope, "ORDER BY") or named_output(node, answer.outputs)
    if chosen is not None:
        return _as_column(chosen)
    if not answer.scope.inputs:
        raise answer.scope.text.error(
            "ORDER BY after a set operation takes output columns or their numbers",
            span_of(node),
            hint=f"the columns are {', '.join(output.name for output in answer.outputs)}",
        )
    bound = ExpressionBinder(answer.scope, "ORDER BY", aggregates=True).bind(node)
    over_outputs = replaced(bound, lambda part: _selected(part, answer.outputs))
    # What is left of FROM's columns after the outputs were put in was not selected.
    if any(isinstance(p, Aggregate | EventTime) or (isinstance(p, Column) and p.stream) for p in walk(over_outputs)):
        raise answer.scope.text.error(
            "ORDER BY may only use what is selected", span_of(node), hint="add it to the select list"
        )
    return over_outputs


def _selected(part: Expression, outputs: list[GroupedOutput]) -> Expression | None:
    return next((_as_column(output) for output in outputs if output.expression == part), None)


def _as_column(output: GroupedOutput) -> Column:
    return Column("", output.name, output.expression.type)


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


def _every(query: QuerySyntax, context: Context) -> int | None:
    # EVERY is read after each SELECT and after the whole: people write it in both places.
    head, *_ = selects = list(_selects(query.body))
    given = [every for every in (*(select.every_us for select in selects), query.every_us) if every is not None]
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
