"""HAVING that compares groups with the value of a query, as WHERE over the groups.

So a value that changes meets the groups, of which there are few, and not all of their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from watersmeet.sql.context import Context
from watersmeet.sql.counting import only_select
from watersmeet.sql.scope import Text, field_index
from watersmeet.sql.syntax import (
    Name,
    OrderKey,
    QuerySyntax,
    SelectItem,
    SelectSyntax,
    SourceSyntax,
    Subquery,
    locate,
    span_of,
)

_GROUPS = "groups"


def groups_before_having(query: QuerySyntax, context: Context) -> QuerySyntax:
    """The query over its groups, where HAVING asks queries that do not depend on them and the rest can be named."""
    select = query.body
    if not isinstance(select, SelectSyntax) or select.having is None or not _is_plain(select):
        return query
    queries = [found.args["query"] for found in select.having.find_all(Subquery)]
    names = [_name_of(item, context.text) for item in select.items if isinstance(item, SelectItem)]
    known = [name for name in names if name is not None]
    if not queries or len(set(map(str.lower, known))) != len(select.items) or not _are_named(query.order_by, known):
        return query
    if not all(_stands_alone(one, context) for one in queries):
        return query
    return replace(query, body=_over_groups(select, known))


def _is_plain(select: SelectSyntax) -> bool:
    simple = select.grouping_sets is None and select.qualify is None and not select.named_windows
    by_windows = any(source.function is not None for source in select.sources)
    over = any(isinstance(item, SelectItem) and item.expression.find(exp.Window) for item in select.items)
    return bool(select.group_by) and simple and not select.distinct_on and not by_windows and not over


def _name_of(item: SelectItem, text: Text) -> str | None:
    """What its column is called, if that is plain to see."""
    if item.alias is not None:
        return item.alias.text
    if isinstance(item.expression, exp.Column):
        return item.expression.name
    computed = isinstance(item.expression, exp.Anonymous | exp.Binary) and not isinstance(item.expression, exp.Dot)
    return text.piece(span_of(item.expression) or item.span) if computed else None


def _are_named(keys: tuple[OrderKey, ...], names: list[str]) -> bool:
    known = {name.lower() for name in names}
    bare = [one.expression for one in keys if not isinstance(one.expression, exp.Literal)]
    return all(isinstance(key, exp.Column) and not key.table and key.name.lower() in known for key in bare)


def _stands_alone(query: QuerySyntax, context: Context) -> bool:
    """Whether all columns that a query names are those of streams and tables that it reads itself."""
    select = only_select(query)
    if select is None or query.named or not all(isinstance(one.relation, Name) for one in select.sources):
        return False
    read = [one.relation.text for one in select.sources if isinstance(one.relation, Name)]
    if any(name.lower() in context.named for name in read):
        return False
    schemas = [found.schema for name in read if (found := context.catalog.find(name)) is not None]
    aliases = {one.named.text.lower() for one in select.sources if one.named is not None}
    written = list(_expressions_of(select))
    if len(schemas) != len(read) or len(written) < len(select.items) or any(one.find(Subquery) for one in written):
        return False
    return all(
        column.table.lower() in aliases
        if column.table
        else any(field_index(schema, column.name) is not None for schema in schemas)
        for one in written
        for column in one.find_all(exp.Column)
    )


def _expressions_of(select: SelectSyntax) -> Iterator[exp.Expr]:
    yield from select.selected
    yield from select.on
    yield from select.group_by
    yield from (one for one in (select.where, select.having, select.qualify) if one is not None)


def _over_groups(select: SelectSyntax, names: list[str]) -> SelectSyntax:
    assert select.having is not None
    compared: list[SelectItem] = []

    def named(part: exp.Expr) -> exp.Expr:
        """A part of HAVING that is about groups, as a column of them."""
        if part.find(Subquery) or not (part.find(exp.Column) or part.find(exp.Anonymous)):
            return part
        span = span_of(part) or select.span
        compared.append(SelectItem(part, Name(f"compared_{len(compared)}", span), span))
        return _column(compared[-1])

    where = select.having.transform(named)
    groups = replace(
        select, items=(*select.items, *compared), having=None, distinct=False, stream_word=None, every=None
    )
    inside = QuerySyntax(groups, (), None, None, (), select.span)
    source = SourceSyntax(inside, Name(_GROUPS, select.span), None, select.span)
    items = [
        replace(item, expression=_column(item, name), alias=Name(name, item.span))
        for item, name in zip(select.items, names, strict=True)
        if isinstance(item, SelectItem)
    ]
    return replace(select, items=tuple(items), tree=source, where=where, constraints=(), group_by=(), having=None)


def _column(item: SelectItem, name: str | None = None) -> exp.Expr:
    text = name if name is not None else item.alias.text if item.alias is not None else ""
    column = exp.column(exp.to_identifier(text, quoted=True), table=_GROUPS)
    locate(column, item.span)
    return column
