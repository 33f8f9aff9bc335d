"""EXISTS and IN inside of other conditions: whether a query has rows, told by how many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from watersmeet.plan.expressions import Expression
from watersmeet.plan.functions import aggregate_name
from watersmeet.plan.user_functions import UserFunction
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
    stream_word,
)

Test = Callable[[exp.Expr], exp.Expr]  # a condition on the only column of a query
Own = Mapping[str, UserFunction]


def equal_to(value: Expression) -> Test:
    return lambda column: exp.EQ(this=column, expression=Bound(bound=value))


def is_null(column: exp.Expr) -> exp.Expr:
    return exp.Is(this=column, expression=exp.Null())


def counted(query: QuerySyntax, own: Own, test: Test | None = None) -> QuerySyntax | None:
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
    items = [item.expression for item in select.items if isinstance(item, SelectItem)]
    return any(is_aggregate(call, own) for item in items for call in item.find_all(exp.Anonymous))


def is_aggregate(call: exp.Anonymous, own: Own) -> bool:
    if (brought := own.get(str(call.name).lower())) is not None:
        return brought.kind == "aggregate"
    if aggregate_name(str(call.name)) is not None:
        return True
    meant = equivalent(call)
    return meant is not None and any(aggregate_name(str(one.name)) for one in meant.find_all(exp.Anonymous))
