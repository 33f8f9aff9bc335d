"""Queries inside of expressions: their value; EXISTS and IN by how many rows they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import UnsupportedError
from watersmeet.plan.expressions import Aggregate, Expression, Literal, walk
from watersmeet.plan.user_functions import UserFunction
from watersmeet.sql.aggregate_calls import names_aggregate
from watersmeet.sql.clause_binder import ClauseBinder
from watersmeet.sql.equivalents import equivalent
from watersmeet.sql.syntax import (
    Body,
    Bound,
    Compound,
    Name,
    QuerySyntax,
    SelectItem,
    SelectSyntax,
    SourceSyntax,
    Span,
    Subquery,
    span_of,
    stream_word,
)

Test = Callable[[exp.Expr], exp.Expr]  # a condition on the only column of a query
Own = Mapping[str, UserFunction]


def value_of_query(binder: ClauseBinder, node: Subquery) -> Expression:
    if binder.scope.value_of is None:
        raise binder.error(
            f"a query cannot stand in {binder.clause}",
            node,
            hint="write it into the select list, WHERE or HAVING",
            kind=UnsupportedError,
        )
    return binder.scope.value_of(node.args["query"], span_of(node) or (0, 1), "value")


def has_rows(
    binder: ClauseBinder, query: Subquery, node: exp.Expr, asked: str = "rows", test: Test | None = None
) -> Expression:
    number = _counted(query.args["query"], binder.own_functions, test)
    if number is None or binder.scope.value_of is None:
        raise misplaced_query(binder, node)
    found = binder.scope.value_of(number, span_of(node) or (0, 1), asked)
    none = Literal(0, pa.int64())
    return binder.call("gt", [binder.call("coalesce", [found, none], node), none], node)


def is_among(binder: ClauseBinder, query: Subquery, node: exp.In) -> Expression:
    """x IN (a query): not known if it is not found and NULL is on either side, unless the query has no rows."""
    value = binder.bind(node.this)
    if any(isinstance(part, Aggregate) for part in walk(value)):
        raise binder.error(
            "IN with a query looks for values of rows, and these are values of groups",
            node,
            hint="write a query around: SELECT … FROM (SELECT k, COUNT(*) AS n … GROUP BY k) AS g WHERE g.n IN (…)",
            kind=UnsupportedError,
        )
    if is_one_row(query.args["query"], binder.own_functions):
        return binder.call("eq", [value, value_of_query(binder, query)], node)
    found = has_rows(binder, query, node, "found", lambda column: exp.EQ(this=column, expression=Bound(bound=value)))
    if _false_is_as_good(binder, node):
        return found
    some, nulls = has_rows(binder, query, node), has_rows(binder, query, node, "nulls", _is_null)
    unknown = binder.call("and", [some, binder.call("or", [binder.call("is_null", [value], node), nulls], node)], node)
    yes, no, neither = (Literal(truth, pa.bool_()) for truth in (True, False, None))
    return binder.call("case", [found, yes, unknown, neither, no], node)


def misplaced_query(binder: ClauseBinder, node: exp.Expr) -> Exception:
    return binder.error(
        "EXISTS and IN with a query are conditions of WHERE, joined to the others by AND",
        node,
        hint="with OR write two queries and UNION, or a LEFT JOIN and a condition on its columns",
        kind=UnsupportedError,
    )


def _false_is_as_good(binder: ClauseBinder, node: exp.Expr) -> bool:
    """Whether a condition stands where what is not known counts as false."""
    below, above = node, node.parent
    while isinstance(above, exp.And | exp.Or | exp.Paren):
        below, above = above, above.parent
    if above is None:
        return binder.clause in ("WHERE", "HAVING")
    asked = isinstance(above, exp.If) and above.this is below
    return asked and isinstance(above.parent, exp.Case) and above.parent.this is None


def _is_null(column: exp.Expr) -> exp.Expr:
    return exp.Is(this=column, expression=exp.Null())


def _counted(query: QuerySyntax, own: Own, test: Test | None = None) -> QuerySyntax | None:
    """The number of rows that a query has, of those whose only column passes a test if there is one; None if it has
    more of them, or if its rows come one by one, as a stream."""
    if stream_word(query) is not None or (test is not None and not _is_one_item(_first_select(query))):
        return None
    select = only_select(query)
    if select is None or not _has_rows_of_from(select, own):
        return _as_source(query, test)
    where = select.where
    if test is not None:
        item = select.items[0]
        assert isinstance(item, SelectItem)
        passed = test(item.expression.copy())
        where = passed if where is None else exp.And(this=where, expression=passed)
    item = _number(select.span)
    return replace(query, body=replace(select, items=(item,), where=where, distinct=False), order_by=())


def _has_rows_of_from(select: SelectSyntax, own: Own) -> bool:
    plain = not select.is_grouped and select.having is None and select.qualify is None
    return plain and not has_aggregates(select, own)


def is_one_row(query: QuerySyntax, own: Own) -> bool:
    """Whether a query is an aggregate of all its rows, and no more."""
    select = only_select(query)
    plain = select is not None and not select.is_grouped and select.having is None and select.qualify is None
    return plain and select is not None and _is_one_item(select) and has_aggregates(select, own)


def _first_select(body: Body) -> SelectSyntax:
    match body:
        case SelectSyntax():
            return body
        case Compound(left=first) | QuerySyntax(body=first):
            return _first_select(first)


def _is_one_item(select: SelectSyntax) -> bool:
    return len(select.items) == 1 and isinstance(select.items[0], SelectItem)


def _as_source(query: QuerySyntax, test: Test | None) -> QuerySyntax:
    """The same of what a query gives, which sees nothing around it."""
    span, name, column = query.span, "subquery", "found"
    columns = () if test is None else (Name(column, span),)
    source = SourceSyntax(query, Name(name, span), None, span, columns=columns)
    where = None if test is None else test(exp.column(column, name))
    select = SelectSyntax(None, False, (_number(span),), source, where, (), (), None, None, span)
    return QuerySyntax(select, (), None, None, (), span)


def _number(span: Span) -> SelectItem:
    number = exp.Anonymous(this="COUNT", expressions=[exp.Literal.number(1)])
    return SelectItem(number, Name("rows", span), span)


def only_select(query: QuerySyntax) -> SelectSyntax | None:
    """The SELECT that a query is, if its rows are those of it: ORDER BY alone says nothing of them."""
    body = query.body
    plain = query.limit is None and query.every is None
    return body if plain and isinstance(body, SelectSyntax) and not body.distinct_on else None


def has_aggregates(select: SelectSyntax, own: Own) -> bool:
    """Whether it selects an aggregate: of the language, under another name that it has, or of one's own."""
    return any(is_aggregate(call, own) for one in select.selected for call in one.find_all(exp.Anonymous))


def is_aggregate(call: exp.Anonymous, own: Own) -> bool:
    if names_aggregate(call, own):
        return True
    meant = None if call.name.lower() in own else equivalent(call)
    return meant is not None and any(names_aggregate(one, own) for one in meant.find_all(exp.Anonymous))
