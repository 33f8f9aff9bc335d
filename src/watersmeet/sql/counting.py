"""EXISTS and IN inside of other conditions: whether a query has rows, told by how many."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from watersmeet.plan.expressions import Expression
from watersmeet.plan.functions import aggregate_name
from watersmeet.sql.syntax import Bound, Name, QuerySyntax, SelectItem, SelectSyntax


def counted(query: QuerySyntax, equal: Expression | None = None) -> QuerySyntax | None:
    """The number of rows that a query has, of those whose only column is equal to a value if one is given; None if it
    is more than FROM and WHERE."""
    select = only_select(query)
    if select is None or select.is_grouped or select.having is not None or select.stream_word is not None:
        return None
    if has_aggregates(select):
        return None
    where = select.where
    if equal is not None:
        item = select.items[0]
        if len(select.items) != 1 or not isinstance(item, SelectItem):
            return None
        test = exp.EQ(this=item.expression.copy(), expression=Bound(bound=equal))
        where = test if where is None else exp.And(this=where, expression=test)
    number = exp.Anonymous(this="COUNT", expressions=[exp.Literal.number(1)])
    item = SelectItem(number, Name("rows", select.span), select.span)
    return replace(query, body=replace(select, items=(item,), where=where, distinct=False))


def only_select(query: QuerySyntax) -> SelectSyntax | None:
    plain = not query.order_by and query.limit is None and query.every_us is None
    return query.body if plain and isinstance(query.body, SelectSyntax) else None


def has_aggregates(select: SelectSyntax) -> bool:
    items = [item.expression for item in select.items if isinstance(item, SelectItem)]
    calls = (node for item in items for node in item.walk() if isinstance(node, exp.Anonymous))
    return any(aggregate_name(str(call.name)) is not None for call in calls)
