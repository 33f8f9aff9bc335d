"""WITH and CREATE VIEW: a name in FROM that stands for a query, which is put in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.sql.context import Context
from watersmeet.sql.scope import Text
from watersmeet.sql.syntax import Body, Compound, Name, QuerySyntax, SelectItem, SelectSyntax, Star


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
    body: Body = replace(first, items=tuple(map(_renamed, first.items, columns)))
    for outer in reversed(around):
        body = replace(outer, left=body) if isinstance(outer, Compound) else replace(outer, body=body)
    return replace(query, body=body)


def _renamed(item: SelectItem | Star, column: str) -> SelectItem:
    assert isinstance(item, SelectItem)
    return replace(item, alias=Name(column, item.span), inside=item.alias)
