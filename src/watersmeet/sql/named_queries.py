"""WITH and CREATE VIEW: a name in FROM that stands for a query, which is put in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from watersmeet.sql.context import Context
from watersmeet.sql.scope import Text
from watersmeet.sql.syntax import Body, Compound, Name, QuerySyntax, SelectItem, SelectSyntax, Star, span_of


def with_named(query: QuerySyntax, context: Context) -> Context:
    """What a query sees that begins with WITH; each of its names sees those before it."""
    for one in query.named:
        context = replace(context, named={**context.named, one.name.text.lower(): (one, context)})
    return context


def known_query(name: Name, context: Context) -> tuple[QuerySyntax, Context] | None:
    """The query that a name stands for, and what it sees."""
    found = context.named.get(name.text.lower())
    if found is not None:
        syntax, seen = found
        return with_columns(syntax.query, [column.text for column in syntax.columns], syntax.name, seen), seen
    view = context.catalog.find_query(name.text)
    if view is None:
        return None
    # It was bound when it was created, so what is wrong with it now is so because of what was replaced since.
    text = Text(view.text, context.text.functions)
    return with_columns(view.query, view.columns, name, context), replace(context, text=text, named={})


def with_columns(query: QuerySyntax, columns: Sequence[str], name: Name, context: Context) -> QuerySyntax:
    """The query with its columns under the names that are listed for them."""
    if not columns:
        return query
    first, around = query.body, list[Compound | QuerySyntax]()
    while not isinstance(first, SelectSyntax):
        around.append(first)
        first = first.left if isinstance(first, Compound) else first.body
    if any(isinstance(item, Star) for item in first.items) or len(first.items) != len(columns):
        raise context.text.error(
            f"{name.text} lists {len(columns)} columns, and its query selects another number of them, or *",
            name.span,
            hint="list a name for each column that is selected, or leave the list out",
        )
    aliases = [item.alias.text.lower() if isinstance(item, SelectItem) and item.alias else None for item in first.items]
    known = {alias: column for alias, column in zip(aliases, columns, strict=True) if alias is not None}
    chosen = tuple(_under(node, known) for node in first.distinct_on)
    body: Body = replace(first, items=tuple(map(_renamed, first.items, columns)), distinct_on=chosen)
    for outer in reversed(around):
        body = replace(outer, left=body) if isinstance(outer, Compound) else replace(outer, body=body)
    keys = tuple(replace(key, expression=_under(key.expression, known)) for key in query.order_by)
    return replace(query, body=body, order_by=keys)


def _under(node: exp.Expr, known: Mapping[str, str]) -> exp.Expr:
    """A name of the select list as it is called now; ORDER BY and DISTINCT ON look there first."""
    name = known.get(node.name.lower()) if isinstance(node, exp.Column) and not node.args.get("table") else None
    if name is None:
        return node
    renamed = exp.column(exp.to_identifier(name, quoted=True))
    renamed.meta["span"] = span_of(node)
    return renamed


def _renamed(item: SelectItem | Star, column: str) -> SelectItem:
    assert isinstance(item, SelectItem)
    return replace(item, alias=Name(column, item.span))
