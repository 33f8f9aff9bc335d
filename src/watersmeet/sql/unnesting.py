"""UNNEST in FROM: the stream whose lists it takes apart has a row for each entry instead."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import SqlError, UnsupportedError, WindowError
from watersmeet.model.catalog import Stream
from watersmeet.model.types import sql_type
from watersmeet.model.windows import Each, counting
from watersmeet.plan.expressions import Call, Column, Expression, Literal
from watersmeet.plan.nodes import Derived, Input, Join, Project
from watersmeet.sql.context import Context
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.scope import Scope, Text, field_index
from watersmeet.sql.syntax import (
    FromSyntax,
    JoinSyntax,
    JoinWord,
    Name,
    SelectItem,
    SelectSyntax,
    SourceSyntax,
    Span,
    UnnestSyntax,
    locate,
    sources_in,
    span_of,
)

LISTS = "#list"
ENTRY = "#unnest"
UNNESTS = ("unnest", "explode")  # as Spark and ksqlDB call it


@dataclass(frozen=True)
class TakenApart:
    """A FROM without UNNEST, its streams told what is taken apart of them; and under which names entries may be asked
    for, by those of the streams that have them."""

    tree: FromSyntax
    names: dict[str, str]


def without_unnest(select: SelectSyntax, text: Text) -> SelectSyntax:
    """UNNEST in the select list as one in FROM, of which the list has the column."""
    calls = [one for written in select.selected for one in unnests(written)]
    if not calls:
        return select
    first = calls[0]
    span = span_of(first) or select.span
    if any(one != first for one in calls) or len(first.expressions) != 1:
        raise text.error(
            "one list is taken apart at a time",
            span_of(calls[-1]) or span,
            hint="take the other apart in a query around: SELECT k, x, UNNEST(ys) AS y FROM (SELECT k, ys, UNNEST(xs) "
            "AS x FROM a) AS q",
            kind=UnsupportedError,
        )
    if select.is_grouped and not any(map(partial(_is_entry, select), select.group_by)):
        raise text.error(
            "lists are taken apart before rows are grouped, and GROUP BY lacks the entry",
            span,
            hint="group by it: SELECT UNNEST(items) AS item, COUNT(*) AS n … GROUP BY item; to take a list of groups "
            "apart, write it in a query around",
            kind=UnsupportedError,
        )
    unnest = UnnestSyntax(first.expressions[0], (Name(ENTRY, span),), False, span)
    source = SourceSyntax(Name("unnest", span), Name(ENTRY, span), None, span, unnest=unnest)
    tree = JoinSyntax("inner", select.tree, source, None, span, crossed=True)
    items = tuple(_with_entry(item) if isinstance(item, SelectItem) else item for item in select.items)
    return replace(select, tree=tree, items=items, group_by=tuple(entry_for(key) for key in select.group_by))


def _is_entry(select: SelectSyntax, key: exp.Expr) -> bool:
    """Whether a key of GROUP BY is an item with UNNEST: as such, by its name or by its number."""
    with_one = [item for item in select.items if isinstance(item, SelectItem) and unnests(item.expression)]
    named = {item.alias.text.lower() if item.alias else item.expression.name.lower() for item in with_one}
    numbers = {str(place) for place, item in enumerate(select.items, start=1) if item in with_one}
    by_name = isinstance(key, exp.Column) and key.name.lower() in named
    return by_name or bool(unnests(key)) or (isinstance(key, exp.Literal) and str(key.this) in numbers)


def unnests(node: exp.Expr) -> list[exp.Anonymous]:
    return [one for one in node.find_all(exp.Anonymous) if one.name.lower() in UNNESTS]


def _with_entry(item: SelectItem) -> SelectItem:
    whole = item.expression in unnests(item.expression)
    alias = Name(item.expression.name.lower(), item.span) if whole and item.alias is None else item.alias
    return replace(item, expression=entry_for(item.expression), alias=alias)


def entry_for(node: exp.Expr, name: str = ENTRY) -> exp.Expr:
    """The expression with a column in the place of UNNEST."""

    def entry(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Anonymous) or part.name.lower() not in UNNESTS:
            return part
        made = exp.column(name, quoted=True)
        locate(made, span_of(part) or (0, 1))
        return made

    return node.copy().transform(entry)


def taken_apart(select: SelectSyntax, text: Text) -> TakenApart:
    if all(source.unnest is None for source in select.sources):
        return TakenApart(select.tree, {})
    found: list[tuple[str, SourceSyntax]] = []
    tree = _without(select.tree, text, found)
    plain = {source.shown.lower(): source for source in sources_in(tree)}
    apart: dict[str, UnnestSyntax] = {}
    names: dict[str, str] = {}
    for owner, source in found:
        assert source.unnest is not None
        if owner in apart:
            raise _refused("one list of a stream is taken apart at a time", source.span, text)
        apart[owner] = source.unnest if source.alias is None else _named(source.unnest, source.alias)
        if source.alias is not None:
            names[source.alias.text.lower()] = plain[owner].shown
    return TakenApart(_rejoined(tree, apart), names)


def _without(tree: FromSyntax, text: Text, found: list[tuple[str, SourceSyntax]]) -> FromSyntax:
    """FROM without UNNEST; found: the name of each stream whose lists are taken apart, and by what."""
    if isinstance(tree, SourceSyntax):
        if tree.unnest is not None:
            raise _refused("UNNEST takes apart the lists of a stream that stands before it", tree.span, text)
        return tree
    left = _without(tree.left, text, found)
    if not isinstance(tree.right, SourceSyntax) or tree.right.unnest is None:
        return replace(tree, left=left, right=_without(tree.right, text, found))
    always = tree.condition is None or (isinstance(tree.condition, exp.Boolean) and tree.condition.this)
    keeps = tree.kind == "left"
    if not (tree.kind == "inner" or keeps) or not always or tree.using:
        raise _refused("UNNEST stands after a comma, CROSS JOIN, or LEFT JOIN … ON TRUE", tree.right.span, text)
    if keeps and tree.right.unnest.numbered:
        raise _refused("WITH ORDINALITY does not go with LEFT JOIN: NULL has no number", tree.right.span, text)
    owner = _owner(tree.right.unnest, [source.shown.lower() for source in sources_in(left)], text)
    found.append((owner, replace(tree.right, unnest=replace(tree.right.unnest, keeps=keeps))))
    return left if keeps else _with_lists(left, owner)


# A row that is given without its partner has no list of it, and so no entries: what a join is to whom it belongs to.
_OF_LEFT: dict[JoinWord, JoinWord] = {"right": "inner", "full": "left"}
_OF_RIGHT: dict[JoinWord, JoinWord] = {"left": "inner", "full": "right", "asof_left": "asof"}


def _with_lists(tree: FromSyntax, owner: str) -> FromSyntax:
    """The combinations in which a stream has a row."""
    if isinstance(tree, SourceSyntax):
        return tree
    if owner in (source.shown.lower() for source in sources_in(tree.left)):
        return replace(tree, kind=_OF_LEFT.get(tree.kind, tree.kind), left=_with_lists(tree.left, owner))
    return replace(tree, kind=_OF_RIGHT.get(tree.kind, tree.kind), right=_with_lists(tree.right, owner))


def _owner(unnest: UnnestSyntax, plain: list[str], text: Text) -> str:
    columns = list(unnest.values.find_all(exp.Column))
    named = {column.table.lower() for column in columns if column.table}
    if not named and (len(plain) == 1 or not columns):
        return plain[0]
    if len(named) != 1 or not named <= set(plain):
        raise _refused("it is not said of which stream the list is", unnest.span, text)
    return named.pop()


def _named(unnest: UnnestSyntax, alias: Name) -> UnnestSyntax:
    return unnest if unnest.columns else replace(unnest, columns=(alias,))


def _rejoined(tree: FromSyntax, apart: dict[str, UnnestSyntax]) -> FromSyntax:
    if isinstance(tree, JoinSyntax):
        return replace(tree, left=_rejoined(tree.left, apart), right=_rejoined(tree.right, apart))
    return replace(tree, unnest=apart.get(tree.shown.lower()))


def _refused(why: str, span: Span, text: Text) -> SqlError:
    hint = "write FROM a CROSS JOIN UNNEST(a.items) AS t (item)"
    return text.error(why, span, hint=hint, kind=UnsupportedError)


def bind_unnest(one: Input, unnest: UnnestSyntax, context: Context) -> Input:
    """The stream with a row for each entry, and the window that it has."""
    if one.time is None:
        raise context.text.error(
            f"{one.alias} is no stream, and only rows of streams are taken apart",
            unnest.span,
            hint="take its lists apart where the rows enter",
            kind=WindowError,
        )
    bare = replace(one, window=None)
    scope = Scope(context.text, (bare,), context.zone)
    values = ExpressionBinder(scope, "UNNEST", event_time=False).bind(unnest.values)
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        raise context.text.error(
            f"UNNEST takes a list, but this is {sql_type(values.type)}", span_of(unnest.values) or unnest.span
        )
    values = _or_null(values) if unnest.keeps else values
    column = values.name if isinstance(values, Column) else LISTS
    each = Each(column, _columns(one, unnest, context))
    if (counts := counting(one.window)) is not None and (isinstance(one.relation, Stream) or column != LISTS):
        # Rows are counted as they come, before they are taken apart.
        made = () if column != LISTS else ((LISTS, values),)
        return replace(bare, window=replace(each, within=counts), made=made)
    if not isinstance(values, Column):
        listed = (*((field.name, Column(one.alias, field.name, field.type)) for field in bare.schema), (LISTS, values))
        project = Project(Join((bare,), boundary=context.boundary), listed)
        bare = Input(one.alias, Derived(one.alias, project, project.schema, one.time, one.hides_time))
    if counts is not None:
        return replace(bare, window=replace(each, within=counts))
    inside = replace(bare, window=each)
    shown = [field for field in inside.schema if field.name != LISTS]
    columns = tuple((field.name, Column(one.alias, field.name, field.type)) for field in shown)
    project = Project(Join((inside,), boundary=context.boundary), columns)
    return Input(one.alias, Derived(one.alias, project, project.schema, one.time, one.hides_time), one.window)


def _or_null(values: Expression) -> Expression:
    """A list with an entry in any case."""
    some = Call("gt", (Call("length", (values,), pa.int64()), Literal(0, pa.int64())), pa.bool_())
    nothing = Call("list_value", (Literal(None, values.type.value_type),), values.type)
    return Call("case", (some, values, nothing), values.type)


def _columns(one: Input, unnest: UnnestSyntax, context: Context) -> tuple[str, ...]:
    usual = ("unnest", "ordinality") if unnest.numbered else ("unnest",)
    given = tuple(column.text for column in unnest.columns)
    if len(given) > len(usual):
        raise context.text.error(
            f"UNNEST has {len(usual)} column{'s' * (len(usual) > 1)}, and {len(given)} are named",
            unnest.columns[len(usual)].span,
            hint="WITH ORDINALITY before AS adds the number of the entry",
        )
    names = (*given, *usual[len(given) :])
    for name in names:
        if field_index(one.schema, name) is not None:
            raise context.text.error(
                f"{one.alias} has a column {name} already",
                unnest.span,
                hint="give the entries another name: AS t (item)",
            )
    return names
