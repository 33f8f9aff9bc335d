"""FROM and WHERE of one SELECT: what is read, who meets whom, and what of that is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from watersmeet.errors import UnsupportedError
from watersmeet.plan.expressions import (
    Aggregate,
    Column,
    Expression,
    Literal,
    columns_of,
    replaced,
    streams_of,
    walk,
)
from watersmeet.plan.nodes import GroupBy, Input, Project, View
from watersmeet.plan.over_functions import NUMBERED, SHARES
from watersmeet.sql.context import Context, SubqueryBinder
from watersmeet.sql.correlation import Correlation
from watersmeet.sql.enriching import enriched, looked_up, may_have_several
from watersmeet.sql.join_sides import JoinBuilder, Made, is_never_certain, with_where
from watersmeet.sql.join_tree import Group, Leaf, Outer, TreeBinder, outer_joins, together
from watersmeet.sql.scope import Computed, Scope, visible_fields
from watersmeet.sql.sources import bind_sources
from watersmeet.sql.subqueries import SubqueryJoiner, Value, asked_in
from watersmeet.sql.syntax import (
    FromSyntax,
    QuerySyntax,
    SelectItem,
    SelectSyntax,
    SourceSyntax,
    Span,
    joins_in,
    sources_in,
)
from watersmeet.sql.unnesting import taken_apart
from watersmeet.sql.window_groups import window_inputs
from watersmeet.sql.windows import Conditions, bind_conditions, make_join
from watersmeet.warning import PlanWarning, warn


class FromClause:
    """`scope` is what the clauses of the SELECT may name. Queries that stand in them for a value are joined as they are
    met, so the join is made when all are bound."""

    def __init__(
        self,
        select: SelectSyntax,
        context: Context,
        bind_subquery: SubqueryBinder,
        computed: tuple[Computed, ...] = (),
    ) -> None:
        """computed: what may be named besides columns of FROM."""
        self.context = context
        written = select
        apart = taken_apart(select, context.text)
        select = replace(select, tree=apart.tree)
        grouped: Sequence[frozenset[str]] = (_grouped_by(select), *_kept_apart_by(select))
        inputs, self.places = bind_sources(select.sources, context, bind_subquery, *grouped)
        # Partners of rows in windows that end are looked for in windows, too.
        grouped = grouped if window_inputs(inputs) else ()
        refuse_natural(select, inputs, context)
        # Only for a hint: WHERE cannot see these names, and people expect it to.
        named = (item.known_as.text.lower() for item in select.items if isinstance(item, SelectItem) and item.known_as)
        plain = Scope(context.text, inputs, context.zone, tuple(named), entries=apart.names, computed=computed)
        asked, where = asked_in(select.where, context.text.functions)
        self._values: dict[tuple[Span, str], Value] = {}
        if select.joins_inside_only:
            self.scope = replace(plain, value_of=self._value)
            self._joiner = self._joining(bind_subquery, written, grouped)
            self.found = bind_conditions((*select.on, *where), select.constraints, self.scope, context.boundary)
            self._tree: Group | None = None
        else:
            binder = TreeBinder(plain, inputs, context.boundary)
            self._tree = binder.bind(select.tree)
            binder.add_windows(select.constraints, self._tree)
            self.scope = replace(plain, inputs=self._tree.visible, value_of=self._value, merged=binder.merged)
            self._joiner = self._joining(bind_subquery, written, grouped)
            self.found = bind_conditions(where, (), self.scope, context.boundary)
            if self._tree.is_flat:  # a static table has one version only
                self.found, self._tree = together(self._tree.found, self.found), None
        self._inputs = inputs
        warn_of_untied(inputs, [*self._tied(), *crossed_in(select.tree)])
        self._partners = [self._joiner.partners(one) for one in asked]

    def _joining(
        self, bind_subquery: SubqueryBinder, written: SelectSyntax, grouped: Sequence[frozenset[str]]
    ) -> SubqueryJoiner:
        return SubqueryJoiner(Correlation(self.context, bind_subquery, self.scope, written), self.places, grouped)

    def _tied(self) -> Iterator[frozenset[str]]:
        """The inputs that conditions are about together; those of an outer join belong together in any case."""
        yield from self.found.tied
        if self._tree is not None:
            yield from self._tree.found.tied
            for one in outer_joins(self._tree):
                yield frozenset(each.alias for side in (one.left, one.right) for each in side.everything)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Everything that is read, also by queries in conditions and values that were bound so far."""
        return tuple(one for one in self._whole(list(self._values.values()))[0].everything)

    @property
    def has_trees(self) -> bool:
        """Whether there is anything but inner joins."""
        return self._tree is not None or bool(self._partners) or bool(self._values)

    @property
    def has_no_end(self) -> bool:
        """Whether rows without a partner are never certain to have none, so that they come and go."""
        if not self.has_trees:
            return False
        tree, _ = self._whole(list(self._values.values()))
        return any(is_never_certain(one, self.context.boundary) for one in outer_joins(tree))

    @property
    def looked_up(self) -> frozenset[str]:
        """The streams in which as-of joins look for partners, and which need no windows."""
        return frozenset() if self._tree is None else looked_up(self._tree)

    @property
    def is_one_stream(self) -> bool:
        """Whether rows come as those of one stream do: it is joined with nothing but partners as of its time."""
        if not self.has_trees:
            return len(self._inputs) == 1
        if self._tree is None or self._partners or self._values:
            return False
        return enriched(self._tree.only) is not None and not may_have_several(self._tree.only)

    @property
    def conditions(self) -> list[Expression]:
        """All that must hold between rows that match, wherever it is written."""
        tree, after = self._whole(list(self._values.values()))
        inside = [group for one in outer_joins(tree) for group in (one, one.left, one.right)]
        return [predicate for one in (*inside, tree) for predicate in one.found.predicates] + after.predicates

    @property
    def sure(self) -> frozenset[str]:
        """The inputs that every row has."""
        missing = frozenset[str]() if self._tree is None else self._tree.nullable
        return frozenset(one.alias for one in self.scope.inputs) - missing

    @property
    def values(self) -> frozenset[Column]:
        """The columns that stand for queries in the place of values: the same in all rows of an instant."""
        return frozenset(column for one in self._values.values() for column in one.columns)

    def depends(self, expressions: Iterable[Expression]) -> list[tuple[Expression, Span]]:
        """What the values of queries depend on that stand beside aggregates, and where they stand."""
        return [(one, value.span) for value in self._beside(expressions) for one in value.depends_on]

    def join(self, asked: Sequence[Expression], *, changing: bool) -> Made:
        """The join, for expressions that are asked of it."""
        return self._joined(asked, list(self._values.values()), changing=changing)

    def _joined(self, asked: Sequence[Expression], values: Sequence[Value], *, changing: bool) -> Made:
        if self._tree is None and not self._partners and not values:
            return Made(make_join(self.scope, self.found, self.context.boundary, self.places), lambda one: one)
        tree, after = self._whole(values)
        return self._builder(changing=changing).whole(tree, after, asked)

    def _builder(self, *, changing: bool) -> JoinBuilder:
        return JoinBuilder(self.scope, self.context.boundary, self.places, changing=changing)

    def has_values_beside(self, expressions: Iterable[Expression]) -> bool:
        """Whether values of queries stand beside aggregates, not inside of them."""
        return bool(self._beside(expressions))

    def _beside(self, expressions: Iterable[Expression]) -> list[Value]:
        seen = {column for expression in expressions for column in columns_of(_without_aggregates(expression))}
        return [value for value in self._values.values() if seen & set(value.columns)]

    def aggregated(self, columns: Sequence[tuple[str, Expression]], having: Expression | None, span: Span) -> Project:
        """Aggregates over everything, with values of queries beside them, which are there where there are no rows."""
        expressions = [*(e for _, e in columns), *([] if having is None else [having])]
        beside = self._beside(expressions)
        inside = [value for value in self._values.values() if value not in beside]
        found = dict.fromkeys(part for e in expressions for part in walk(e) if isinstance(part, Aggregate))
        made = self._joined(list(found), inside, changing=True)
        row = Project(GroupBy(made.join, ()), tuple((f"aggregate_{n}", made.over(one)) for n, one in enumerate(found)))
        name = self._joiner.unlike("aggregates")
        self.places[name] = span
        stands: dict[Expression, Expression] = {
            one: Column(name, f"aggregate_{n}", one.type) for n, one in enumerate(found)
        }
        asked = [(column, replaced(e, stands.get)) for column, e in columns]
        after = Conditions([] if having is None else [replaced(having, stands.get)])
        tree = _with_values(Group((Leaf(Input(name, View(name, row, row.schema))),)), beside)
        made = self._builder(changing=True).whole(tree, after, [e for _, e in asked])
        return Project(made.join, tuple((column, made.over(e)) for column, e in asked))

    def _value(self, query: QuerySyntax, span: Span, asked: str) -> Expression:
        """What is written once is bound again for every clause that names it, and is one value all the same."""
        if (span, asked) not in self._values:
            self._values[span, asked] = self._joiner.value(query, span)
        return self._values[span, asked].expression

    def _whole(self, of_queries: Sequence[Value]) -> tuple[Group, Conditions]:
        """The tree with the queries of conditions and some values, and what WHERE asks of what comes of it."""
        values = {column.stream for column in self.values}
        later = [p for p in self.found.predicates if streams_of(p) & values]
        where = replace(self.found, predicates=[p for p in self.found.predicates if p not in later])
        tree = self._tree or Group(tuple(map(Leaf, self._inputs)))
        after = Conditions()
        if isinstance(tree.only, Outer):
            after = where
        else:
            tree, after = with_where(tree, where)
        tree = _with_values(tree, of_queries)
        for one in self._partners:
            tree = Group((Outer(one.kind, tree, one.right, one.found, one.span),))
        return tree, replace(after, predicates=[*after.predicates, *later])


def _with_values(tree: Group, values: Iterable[Value]) -> Group:
    for value in values:
        tree = Group((Outer("left", tree, value.right, value.found, value.span),))
    return tree


def _without_aggregates(expression: Expression) -> Expression:
    return replaced(expression, lambda part: Literal(None, part.type) if isinstance(part, Aggregate) else None)


def _kept_apart_by(select: SelectSyntax) -> tuple[frozenset[str], frozenset[str]]:
    """The names of columns, in lower case, by which every OVER keeps rows apart, and those by which they go first,
    upwards; an empty name for anything else, and where all rows must be there. Nothing where rows are grouped
    before."""
    named = {name.text.lower(): window for name, window in select.named_windows}
    written = [*select.selected, *([] if select.qualify is None else [select.qualify])]
    keys: list[frozenset[str]] = []
    orders: set[str] = set()
    for window in (window for expression in written for window in expression.find_all(exp.Window)):
        parts = _said_of(window, "partition_by", named) or []
        keys.append(frozenset(part.name.lower() for part in parts if isinstance(part, exp.Column)))
        order = _said_of(window, "order", named)
        first = order.expressions[0] if order is not None else None
        plain = first is not None and not first.args.get("desc") and isinstance(first.this, exp.Column | exp.Anonymous)
        plain = plain and not _asks_all_rows(window.this, _said_of(window, "spec", named))
        orders.add(first.this.name.lower() if plain and first is not None else "")
    if not keys or select.group_by:
        return frozenset(), frozenset()
    return frozenset.intersection(*keys), frozenset(orders)


def _said_of(window: exp.Window, what: str, named: Mapping[str, exp.Window]) -> Any:
    """What OVER says, or one of the windows of WINDOW that it begins with."""
    alias = window.args.get("alias")
    base = None if alias is None else named.get(alias.name.lower())
    others = {name: one for name, one in named.items() if one is not base}  # none begins with itself
    return window.args.get(what) or (None if base is None else _said_of(base, what, others))


def _asks_all_rows(called: exp.Expr, frame: exp.Expr | None) -> bool:
    """Whether a function of OVER is certain only when all rows are there, in whatever order (see `is_changing`)."""
    told = {} if frame is None else frame.args
    if told.get("end") == "UNBOUNDED" or (told.get("exclude") is not None and told.get("start") == "UNBOUNDED"):
        return True
    call = called.find(exp.Anonymous)
    name = "" if call is None else call.name.lower()
    computed = call is not None and len(call.expressions) > 1 and call.expressions[1].find(exp.Column) is not None
    return name in SHARES or (name in NUMBERED and computed)


def _grouped_by(select: SelectSyntax) -> frozenset[str]:
    """The names of columns, in lower case, that GROUP BY mentions, also by their number or by the name of AS."""
    found: set[str] = set()
    items = [item for item in select.items if isinstance(item, SelectItem)]
    named = {item.known_as.text.lower(): item for item in items if item.known_as}
    for key in select.group_by:
        if isinstance(key, exp.Literal) and str(key.this).isdecimal() and 1 <= int(key.this) <= len(select.items):
            item = select.items[int(key.this) - 1]
            found |= {item.expression.name.lower()} if isinstance(item, SelectItem) else set()
        elif isinstance(key, exp.Column):
            found.add(key.name.lower())
            if not key.args.get("table") and key.name.lower() in named:
                found.add(named[key.name.lower()].expression.name.lower())
    return frozenset(found)


def warn_of_untied(inputs: Iterable[Input], tied: Iterable[frozenset[str]]) -> None:
    """A comma in FROM, and no condition that says which rows belong together: often one was forgotten.

    tied: which inputs a condition is about together. Answers that change are often a single row, and meant.
    """
    # Names are written in any case.
    shown = {one.alias.lower(): one.alias for one in inputs if not one.is_view}
    groups: list[set[str]] = [{name} for name in shown]
    for some in tied:
        names = {name.lower() for name in some}
        met = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names] + ([set().union(*met)] if met else [])
    if len(groups) < 2:
        return
    first = [next(name for name in shown if name in group) for group in groups]
    one, other = (shown[name] for name in sorted(first, key=list(shown).index)[:2])
    text = (
        f"no condition says which rows of {one} and {other} belong together, so each meets all of the other that are "
        f"in the window; write WHERE {one}.… = {other}.…, or CROSS JOIN if that is meant"
    )
    warn(PlanWarning("cross_join", text))


def refuse_natural(select: SelectSyntax, inputs: Iterable[Input], context: Context) -> None:
    """What a NATURAL JOIN compares changes with any column that is added to a side, so the columns are to be said."""
    known = {source.span: visible_fields(one) for source, one in zip(select.sources, inputs, strict=True)}
    for join in (one for one in joins_in(select.tree) if one.natural):
        left, right = (
            {field.name.lower(): field.name for source in sources_in(side) for field in known[source.span]}
            for side in (join.left, join.right)
        )
        shared = [name for lowered, name in left.items() if lowered in right]
        word = {"inner": "JOIN", "asof_left": "ASOF LEFT JOIN"}.get(join.kind, f"{join.kind.upper()} JOIN")
        other = _name(sources_in(join.right)[0]) or "b"
        raise context.text.error(
            "NATURAL JOIN is not supported: any column that is added to a side would change what it means",
            join.span,
            hint=f"write {word} {other} USING ({', '.join(shared)})"
            if shared
            else f"the sides have no column in common: write CROSS JOIN {other}, or {word} {other} ON …",
            kind=UnsupportedError,
        )


def crossed_in(tree: FromSyntax) -> list[frozenset[str]]:
    """The inputs of each CROSS JOIN, which is meant."""
    return [
        frozenset(_name(one) for side in (join.left, join.right) for one in sources_in(side))
        for join in joins_in(tree)
        if join.crossed
    ]


def _name(one: SourceSyntax) -> str:
    return "" if one.named is None else one.named.text.lower()
