"""What a query in a condition, or in the place of a value, says about the rows around it; and the same query without.

Where its WHERE only compares own columns with theirs for equality, the query is asked at once for all values that its
own columns have. Else, and where queries further inside name rows that are not their next ones, the rows around are put
into its FROM, each combination of what is named of them once: it is asked for all of them, and says of which it tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import count

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import BindError, UnsupportedError, WindowError
from watersmeet.plan.expressions import Column, Expression, columns_of, to_text
from watersmeet.plan.nodes import Input
from watersmeet.sql.context import Context, SubqueryBinder
from watersmeet.sql.counting import is_aggregate
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.lateral import without_lateral
from watersmeet.sql.named_queries import with_named
from watersmeet.sql.scope import Computed, Scope
from watersmeet.sql.sources import bind_sources
from watersmeet.sql.syntax import (
    Body,
    Bound,
    Compound,
    FromSyntax,
    JoinSyntax,
    Name,
    QuerySyntax,
    SelectItem,
    SelectSyntax,
    SourceSyntax,
    Span,
    Star,
    Subquery,
    WindowCondition,
    all_of,
    joins_in,
    locate,
    name_parts,
    sources_in,
    span_of,
)
from watersmeet.sql.unnesting import taken_apart, without_unnest
from watersmeet.sql.windows import conjuncts_of


@dataclass(frozen=True)
class Names:
    """What a name of one FROM may begin with, in lower case."""

    sources: frozenset[str]
    columns: frozenset[str]
    structs: frozenset[str]
    """The columns that have parts."""

    def has(self, node: exp.Column) -> bool:
        parts = name_parts(node)
        first = parts[0].name.lower()
        return first in self.sources | self.structs if len(parts) > 1 else first in self.columns | self.sources


_KEEP_THEIR_LEFT = ("inner", "left", "semi", "anti", "asof", "asof_left")


@dataclass(frozen=True)
class Entries:
    """What stands in FROM of a query, and what may be named of it."""

    inputs: tuple[Input, ...]
    places: Mapping[str, Span]
    entries: Mapping[str, str]
    computed: tuple[Computed, ...]

    def scope(self, around: Scope) -> Scope:
        return replace(
            around, inputs=self.inputs, outer=around, entries=self.entries, computed=self.computed, merged=()
        )

    @property
    def names(self) -> Names:
        fields = [one for each in self.inputs for one in each.schema]
        computed = [name.lower() for one in self.computed for name, _ in one.columns]
        sources = [*(one.alias for one in self.inputs), *(one.alias for one in self.computed), *self.entries]
        return Names(
            frozenset(name.lower() for name in sources),
            frozenset((*(one.name.lower() for one in fields), *computed)),
            frozenset(one.name.lower() for one in fields if pa.types.is_struct(one.type)),
        )


def entries_of(select: SelectSyntax, context: Context, bind_subquery: SubqueryBinder) -> Entries:
    plain, computed = without_lateral(without_unnest(select, context.text), context.text)
    apart = taken_apart(plain, context.text)
    inputs, places = bind_sources(sources_in(apart.tree), context, bind_subquery)
    return Entries(inputs, places, apart.names, computed)


@dataclass(frozen=True)
class Pair:
    """What of a query is equal to what of the rows around it."""

    mine: exp.Expr
    theirs: Expression


@dataclass(frozen=True)
class Untied:
    """A query that names nothing around it. Its rows belong to the rows around it for which all `pairs` are equal;
    where `of_rows`, their NULLs are equal, too."""

    select: SelectSyntax
    pairs: tuple[Pair, ...] = ()
    of_rows: bool = False


@dataclass
class Correlation:
    """`around` is the SELECT that a query stands in, and `scope` what it sees there."""

    context: Context
    bind_subquery: SubqueryBinder
    scope: Scope
    around: SelectSyntax

    def untied(self, query: QuerySyntax, select: SelectSyntax) -> Untied:
        """select: that of the query."""
        seen = with_named(query, self.context)
        entries = entries_of(select, seen, self.bind_subquery)
        own = entries.names
        pairs: list[Pair] = []
        others: list[exp.Expr] = []
        of_rows = any(self._names_around(one, seen, own) for one in _outside_of_where(select))
        for part in [] if select.where is None else conjuncts_of(select.where):
            pair = self._pair(part, own, seen)
            if pair is not None:
                pairs.append(pair)
                continue
            others.append(part)
            of_rows = of_rows or self._names_around(part, seen, own)
        if of_rows or pairs or any(part.find(Subquery) for part in others):
            self._require_windows(entries.inputs, entries.places)
            self._refuse_aggregates_of_others(select, seen, own)
        if of_rows:
            return self._with_rows_around(query, select, seen, own)
        return Untied(replace(select, where=all_of(others)), tuple(pairs))

    def names_around(self, query: QuerySyntax, select: SelectSyntax, written: Sequence[exp.Expr]) -> bool:
        """Whether something of a query's SELECT, or a query in it, names what stands around that query."""
        if not written:
            return False
        seen = with_named(query, self.context)
        own = entries_of(select, seen, self.bind_subquery).names
        return any(self._names_around(one, seen, own) for one in written)

    def _names_around(self, part: exp.Expr, context: Context, own: Names) -> bool:
        found: list[exp.Expr] = []
        _Walk(self.bind_subquery, self._noted_in(found)).expression(part, context, (own,))
        return bool(found)

    # ---- own conditions ---------------------------------------------------------------------------------------------

    def _pair(self, part: exp.Expr, own: Names, seen: Context) -> Pair | None:
        part = part.unnest()
        if not isinstance(part, exp.EQ) or part.find(Subquery, WindowCondition):
            return None
        for mine, theirs in ((part.this, part.expression), (part.expression, part.this)):
            if not _has_own(mine, own) or _has_own(theirs, own):
                continue
            if self._names_around(theirs, seen, own) and not self._names_around(mine, seen, own):
                return Pair(mine, self._binder.bind(theirs))
        return None

    @property
    def _binder(self) -> ExpressionBinder:
        return ExpressionBinder(self.scope, "WHERE", event_time=False)

    def _noted_in(self, found: list[exp.Expr]) -> Visit:
        def noted(node: exp.Expr) -> exp.Expr:
            if self._value_around(node) is not None:
                found.append(node)
            return node

        return noted

    def _value_around(self, node: exp.Expr) -> Expression | None:
        """What a name stands for around the query; None if for nothing: it is an error where it is bound."""
        try:
            return self._binder.bind(node)
        except BindError:
            return None

    # ---- rows around in FROM ----------------------------------------------------------------------------------------

    def _with_rows_around(self, query: QuerySyntax, select: SelectSyntax, seen: Context, own: Names) -> Untied:
        taken = own.sources | {one.alias.lower() for one in self.scope.inputs}
        rows = _RowsAround(next(name for name in _names_for_rows() if name not in taken))

        def stand_in(node: exp.Expr) -> exp.Expr:
            value = self._value_around(node)
            return node if value is None else rows.column(node, value)

        self._check_joins(select, seen, own)
        untied = _Walk(self.bind_subquery, stand_in).select(select, seen, ())
        source = SourceSyntax(rows.query(self.around, self.scope), Name(rows.name, query.span), None, query.span)
        pairs = tuple(Pair(rows.column(node, value), value) for value, node in rows.found.items())
        return Untied(replace(untied, tree=_beside_first(source, untied.tree)), pairs, of_rows=True)

    def _check_joins(self, select: SelectSyntax, seen: Context, own: Names) -> None:
        for join in joins_in(select.tree):
            if join.condition is None or join.kind in _KEEP_THEIR_LEFT:
                continue
            if self._names_around(join.condition, seen, own):
                raise self.context.text.error(
                    f"ON of a {join.kind.upper()} JOIN in a query names what stands around that query",
                    span_of(join.condition),
                    hint="write it as a LEFT JOIN, or put the condition into WHERE",
                    kind=UnsupportedError,
                )

    def _refuse_aggregates_of_others(self, select: SelectSyntax, seen: Context, own: Names) -> None:
        calls = [call for one in _outside_of_where(select) for call in one.find_all(exp.Anonymous)]
        for call in calls:
            if not is_aggregate(call, self.context.text.functions) or _has_own(call, own):
                continue
            if self._names_around(call, seen, own):
                raise self.context.text.error(
                    f"the aggregate {self.context.text.piece(span_of(call))} goes over columns that stand around the "
                    f"query only, and SQL takes it for one of the query around",
                    span_of(call),
                    hint="write it there; or use a column of the query's own in it",
                    kind=UnsupportedError,
                )

    def _require_windows(self, inputs: tuple[Input, ...], places: Mapping[str, Span]) -> None:
        bare = [one.alias for one in inputs if one.time is not None and one.window is None]
        if bare:
            raise self.context.text.error(
                f"a query in the place of a value, or inside of a condition, needs a window on {bare[0]}: without one "
                f"it is not said which rows count",
                places[bare[0]],
                hint=f"write {bare[0]} [RANGE 1 HOUR], {bare[0]} [ROWS 100] or {bare[0]} [UNBOUNDED]",
                kind=WindowError,
            )


def _names_for_rows() -> Iterator[str]:
    yield "around"
    yield from (f"around#{number}" for number in count(2))


def _outside_of_where(select: SelectSyntax) -> list[exp.Expr]:
    return [*select.selected, *select.group_by, *([] if select.having is None else [select.having]), *select.on]


@dataclass
class _RowsAround:
    """What is named of the rows around a query, as a query of its own: each combination of it once."""

    name: str
    found: dict[Expression, exp.Expr] = field(default_factory=dict)

    def column(self, node: exp.Expr, value: Expression) -> Bound:
        self.found.setdefault(value, node)
        made = Bound(bound=Column(self.name, to_text(value), value.type))
        locate(made, span_of(node) or (0, 1))
        return made

    def query(self, around: SelectSyntax, scope: Scope) -> QuerySyntax:
        """More rows than there are do no harm, so that conditions with queries in them are left out, and those on what
        LATERAL gives, which may be one."""
        span = around.span
        items = tuple(SelectItem(Bound(bound=value), Name(to_text(value), span), span) for value in self.found)
        parts = [] if around.where is None else conjuncts_of(around.where)
        plain = [part for part in parts if not part.find(Subquery, WindowCondition)]
        plain = [part.copy() for part in plain if not _has_computed(part, scope)]
        body = SelectSyntax(None, True, items, around.tree, all_of(plain), (), (), None, None, span)
        return QuerySyntax(body, (), None, None, (), span)


def _beside_first(source: SourceSyntax, tree: FromSyntax) -> FromSyntax:
    """The first entry of FROM, whose rows every join keeps its columns of, with all rows of another."""
    if isinstance(tree, JoinSyntax) and tree.kind in _KEEP_THEIR_LEFT:
        return replace(tree, left=_beside_first(source, tree.left))
    return JoinSyntax("inner", source, tree, None, source.span, crossed=True)


# ---- through a query ------------------------------------------------------------------------------------------------

Visit = Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True)
class _Walk:
    """Goes through a query, and those in it, and puts something in the place of what they name outside of it."""

    bind_subquery: SubqueryBinder
    visit: Visit

    def query(self, query: QuerySyntax, context: Context, known: tuple[Names, ...]) -> QuerySyntax:
        return replace(query, body=self._body(query.body, with_named(query, context), known))

    def _body(self, body: Body, context: Context, known: tuple[Names, ...]) -> Body:
        match body:
            case SelectSyntax():
                return self.select(body, context, known)
            case Compound():
                left, right = (self._body(side, context, known) for side in (body.left, body.right))
                return replace(body, left=left, right=right)
            case QuerySyntax():
                return self.query(body, context, known)

    def select(self, select: SelectSyntax, context: Context, known: tuple[Names, ...]) -> SelectSyntax:
        own = entries_of(select, context, self.bind_subquery).names
        each = partial(self.expression, context=context, known=(*known, own))
        # GROUP BY may name columns of the answer.
        given = (item.known_as.text.lower() for item in select.items if isinstance(item, SelectItem) and item.known_as)
        answer = Names(frozenset(), frozenset(given), frozenset())
        key = partial(self.expression, context=context, known=(*known, own, answer))
        items = (
            one if isinstance(one, Star) else replace(one, expression=each(one.expression)) for one in select.items
        )
        return replace(
            select,
            items=tuple(items),
            tree=_with_conditions(select.tree, each),
            where=None if select.where is None else each(select.where),
            group_by=tuple(map(key, select.group_by)),
            having=None if select.having is None else each(select.having),
        )

    def expression(self, node: exp.Expr, context: Context, known: tuple[Names, ...]) -> exp.Expr:
        def changed(part: exp.Expr) -> exp.Expr:
            match part:
                case Subquery():
                    inside = Subquery(query=self.query(part.args["query"], context, known))
                    locate(inside, span_of(part) or (0, 1))
                    return inside
                case exp.Column() if not isinstance(part.this, exp.Star):
                    return part if any(names.has(part) for names in known) else self.visit(part)
                case Bound():
                    return self.visit(part) if columns_of(part.args["bound"]) else part
            return part

        return node.transform(changed)


def _with_conditions(tree: FromSyntax, change: Callable[[exp.Expr], exp.Expr]) -> FromSyntax:
    if isinstance(tree, SourceSyntax):
        return tree
    condition = None if tree.condition is None else change(tree.condition)
    left, right = (_with_conditions(side, change) for side in (tree.left, tree.right))
    return replace(tree, left=left, right=right, condition=condition)


def _has_computed(node: exp.Expr, scope: Scope) -> bool:
    names = ([Name(part.name, (0, 1)) for part in name_parts(column)] for column in node.find_all(exp.Column))
    return any(scope.computed_column(one) is not None for one in names)


def _has_own(node: exp.Expr, own: Names) -> bool:
    return any(own.has(one) for one in node.find_all(exp.Column) if not isinstance(one.this, exp.Star))
