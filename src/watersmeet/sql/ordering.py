"""ORDER BY, LIMIT and DISTINCT ON: which rows are the first, and in which order an answer is given whole."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import UnsupportedError
from watersmeet.plan.expressions import (
    Aggregate,
    Call,
    Column,
    EventTime,
    Expression,
    Frame,
    Literal,
    OverCall,
    replaced,
    walk,
)
from watersmeet.plan.nodes import Node, Over, SortKey, TopK, schema_of
from watersmeet.plan.over_functions import over_type
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.grouping import GroupedOutput, named_output, ordinal
from watersmeet.sql.scope import Scope, Text
from watersmeet.sql.syntax import Body, LimitSyntax, OrderKey, QuerySyntax, SelectItem, SelectSyntax, span_of
from watersmeet.warning import PlanWarning

# -- ORDER BY -----------------------------------------------------------------------------------------------------


def orders_alone(query: QuerySyntax) -> bool:
    """Whether ORDER BY says nothing of which rows there are."""
    chooses = isinstance(query.body, SelectSyntax) and query.body.distinct_on
    return bool(query.order_by) and query.limit is None and not chooses


def warn_of_unused_order(query: QuerySyntax, text: Text) -> None:
    """Inside of another query, or in a view, rows have no order."""
    if orders_alone(query):
        keys = ", ".join(text.piece(span_of(key.expression)) for key in query.order_by)
        said = (
            f"ORDER BY {keys} means nothing in a view or a subquery, whose rows have no order; write it at the end of "
            f"the whole query, or with LIMIT to keep the first rows"
        )
        text.warn_once(PlanWarning("unused_order", said))


def order_of(query: QuerySyntax, outputs: list[GroupedOutput], scope: Scope, *, inside: bool) -> tuple[SortKey, ...]:
    """The keys of ORDER BY over the output columns. inside: of another query, where without LIMIT they order nothing,
    and may name what is not selected."""
    keys = query.order_by
    if isinstance(query.body, SelectSyntax):
        keys = _telling_apart(query.body, keys)
    if not inside or query.limit is not None:
        return tuple(SortKey(_order_key(key, outputs, scope), key.descending, key.nulls_first) for key in keys)
    for key in keys:
        if _output_named(key, outputs, scope) is None and scope.inputs:
            ExpressionBinder(scope, "ORDER BY", aggregates=True).bind(key.expression)
    return ()


def _order_key(key: OrderKey, outputs: list[GroupedOutput], scope: Scope) -> Expression:
    """A sort key over the output columns, which stand as columns of the unnamed stream ''."""
    node: exp.Expr = key.expression
    chosen = _output_named(key, outputs, scope)
    if chosen is not None:
        return _as_column(chosen)
    if not scope.inputs:
        raise scope.text.error(
            "ORDER BY after a set operation takes output columns or their numbers",
            span_of(node),
            hint=f"the columns are {', '.join(output.name for output in outputs)}",
        )
    bound = ExpressionBinder(scope, "ORDER BY", aggregates=True).bind(node)
    over_outputs = replaced(bound, lambda part: _selected(part, outputs))
    # What is left of FROM's columns after the outputs were put in was not selected.
    if any(isinstance(p, Aggregate | EventTime) or (isinstance(p, Column) and p.stream) for p in walk(over_outputs)):
        raise scope.text.error(
            "ORDER BY may only use what is selected", span_of(node), hint="add it to the select list"
        )
    return over_outputs


def _output_named(key: OrderKey, outputs: list[GroupedOutput], scope: Scope) -> GroupedOutput | None:
    """Numbers and names of outputs first, as in SQL: what is ordered is the answer."""
    return ordinal(key.expression, outputs, scope, "ORDER BY") or named_output(key.expression, outputs)


def _selected(part: Expression, outputs: list[GroupedOutput]) -> Expression | None:
    return next((_as_column(output) for output in outputs if output.expression == part), None)


def _as_column(output: GroupedOutput) -> Column:
    return Column("", output.name, output.expression.type)


# -- LIMIT, OFFSET, FETCH -----------------------------------------------------------------------------------------


def check_limit(query: QuerySyntax, text: Text) -> None:
    limit = query.limit
    if limit is None:
        return
    words = text.piece(limit.span)
    if not query.order_by:
        raise text.error(
            f"{words.split()[0].upper()} needs ORDER BY, to say which rows are the first",
            limit.span,
            hint=f"write ORDER BY x {words}",
        )
    if limit.rows == 0:
        raise text.error(f"{words} keeps nothing; write 1 or more", limit.span)


def limited(node: Node, keys: tuple[SortKey, ...], limit: LimitSyntax | None) -> Node:
    """The rows of an answer that LIMIT lets through."""
    if limit is None:
        return node
    if not limit.ties or limit.rows is None:
        return TopK(node, keys, limit.rows, limit.offset)
    return _with_ties(node, keys, limit.offset, limit.offset + limit.rows)


def _with_ties(node: Node, keys: tuple[SortKey, ...], start: int, stop: int) -> Over:
    """The rows behind the first `start` whose rank is at most `stop`: those up to it, and their equals."""
    columns = tuple((field.name, Column("", field.name, field.type)) for field in schema_of(node))
    taken = {name.lower() for name, _ in columns}
    rank, number = (_ranked(function, keys, taken) for function in ("rank", "row_number"))
    kept: Expression = Call("le", (_named(rank), Literal(stop, pa.int64())), pa.bool_())
    if not start:
        return Over(node, (rank,), columns, kept)
    behind = Call("gt", (_named(number), Literal(start, pa.int64())), pa.bool_())
    return Over(node, (rank, number), columns, Call("and", (kept, behind), pa.bool_()))


def _ranked(function: str, keys: tuple[SortKey, ...], taken: set[str]) -> tuple[str, OverCall]:
    name = function
    while name in taken:
        name += "_"
    return name, OverCall(function, (), over_type(function, []), (), keys, Frame("range", None))


def _named(call: tuple[str, OverCall]) -> Column:
    return Column("", call[0], call[1].type)


# -- DISTINCT ON --------------------------------------------------------------------------------------------------


def chosen_on(query: QuerySyntax, text: Text) -> Body:
    """The body with DISTINCT ON as what it stands for: the first row by ORDER BY of those that are alike."""
    select = query.body
    if not isinstance(select, SelectSyntax) or not select.distinct_on:
        return select
    if not query.order_by:
        raise refused_without_order(select, text)
    if select.qualify is not None:
        raise text.error(
            "DISTINCT ON comes after QUALIFY, and both choose rows",
            span_of(select.qualify) or select.span,
            hint="write one of them in a query around: SELECT DISTINCT ON (k) * FROM (SELECT … QUALIFY …) AS x ORDER "
            "BY …",
            kind=UnsupportedError,
        )
    alike = [_meant(node, select, text) for node in select.distinct_on]
    keys = [(_meant(key.expression, select, text), key) for key in query.order_by]
    # Rows that are alike have one value of what they are alike in, which orders nothing among them.
    telling = [(node, key) for node, key in keys if node not in alike] or keys
    order = [exp.Ordered(this=node.copy(), desc=key.descending, nulls_first=key.nulls_first) for node, key in telling]
    number = exp.Anonymous(this="ROW_NUMBER", expressions=[])
    partition = [node.copy() for node in alike]
    window = exp.Window(this=number, partition_by=partition, order=exp.Order(expressions=order))
    first = exp.EQ(this=window, expression=exp.Literal.number(1))
    return replace(select, distinct_on=(), qualify=first, chooses="DISTINCT ON")


def refused_without_order(select: SelectSyntax, text: Text) -> Exception:
    span = span_of(select.distinct_on[0]) or select.span
    keys = ", ".join(text.piece(span_of(node)) for node in select.distinct_on)
    return text.error(
        "DISTINCT ON needs ORDER BY, to say which of the rows that are alike is kept",
        span,
        hint=f"write ORDER BY {keys}, x DESC at the end of the query; in a set operation with parentheses around it",
    )


def _telling_apart(select: SelectSyntax, keys: tuple[OrderKey, ...]) -> tuple[OrderKey, ...]:
    """The keys that order what DISTINCT ON leaves: of rows that are alike in all it names there is one."""
    left = list(select.distinct_on)
    for place, key in enumerate(keys if left else ()):
        if key.expression in left:
            left.remove(key.expression)
            if not left:
                return keys[: place + 1]
    return keys


def _meant(node: exp.Expr, select: SelectSyntax, text: Text) -> exp.Expr:
    """What a number or a name of the select list stands for."""
    items = [item for item in select.items if isinstance(item, SelectItem)]
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
        if len(items) < len(select.items) or not 1 <= int(node.this) <= len(items):
            raise text.error(
                f"{node.name} is no number of a column of the select list, or that has a *",
                span_of(node) or select.span,
                hint="write the column itself",
            )
        return items[int(node.this) - 1].expression
    plain = isinstance(node, exp.Column) and not node.args.get("table")
    named = (item.expression for item in items if item.known_as and item.known_as.text.lower() == node.name.lower())
    return next(named, node) if plain else node
