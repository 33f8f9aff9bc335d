"""EXISTS and IN inside of other conditions: whether a query has rows, told by how many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from watersmeet.plan.expressions import Expression
from watersmeet.plan.functions import aggregate_name
from watersmeet.plan.user_functions import UserFunction
from watersmeet.sql.equivalents import equivalent
from watersmeet.sql.syntax import Bound, Name, QuerySyntax, SelectItem, SelectSyntax

Test = Callable[[exp.Expr], exp.Expr]  # a condition on the only column of a query
Own = Mapping[str, UserFunction]


def equal_to(value: Expression) -> Test:
    return lambda column: exp.EQ(this=column, expression=Bound(bound=value))


def is_null(column: exp.Expr) -> exp.Expr:
    return exp.Is(this=column, expression=exp.Null())


def counted(query: QuerySyntax, own: Own, test: Test | None = None) -> QuerySyntax | None:
    """The number of rows that a query has, of those whose only column passes a test if there is one; None if it is
    more than FROM and WHERE."""
    select = only_select(query)
    if select is None or select.is_grouped or select.having is not None or select.stream_word is not None:
        return None
    if has_aggregates(select, own) or select.qualify is not None:
        return None
    where = select.where
    if test is not None:
        item = select.items[0]
        if len(select.items) != 1 or not isinstance(item, SelectItem):
            return None
        passed = test(item.expression.copy())
        where = passed if where is None else exp.And(this=where, expression=passed)
    number = exp.Anonymous(this="COUNT", expressions=[exp.Literal.number(1)])
    item = SelectItem(number, Name("rows", select.span), select.span)
    return replace(query, body=replace(select, items=(item,), where=where, distinct=False))


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
