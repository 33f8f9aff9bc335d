"""LATERAL in FROM: a query that sees what stands before it, as what it amounts to.

What reads nothing is expressions over the row, under the names of its columns; lists are taken apart by UNNEST;
aggregates are queries in the place of values. Any other is a query that sees nothing around it, joined by its
conditions on what does; where it gives the first rows only, these are the first of what is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import SqlError, UnsupportedError
from watersmeet.plan.user_functions import UserFunction
from watersmeet.sql.counting import has_aggregates
from watersmeet.sql.ordering import warn_of_unused_order
from watersmeet.sql.scope import HIDDEN, Computed, Text
from watersmeet.sql.syntax import (
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
    UnnestSyntax,
    ValuesSyntax,
    all_of,
    joins_in,
    locate,
    name_parts,
    sources_in,
    span_of,
)
from watersmeet.sql.unnesting import entry_for, unnests
from watersmeet.sql.windows import conjuncts_of


def without_lateral(select: SelectSyntax, text: Text) -> tuple[SelectSyntax, tuple[Computed, ...]]:
    """The same without LATERAL, and the columns that are expressions."""
    if not any(source.lateral for source in select.sources):
        return select, ()
    walk = _Walk(text, {source.shown.lower() for source in select.sources})
    tree = walk.tree(select.tree, top=True)
    where = all_of([select.where, *walk.conditions])
    made = replace(select, tree=tree, where=where, items=tuple(map(walk.named, select.items)))
    return made, tuple(walk.computed)


@dataclass
class _Walk:
    text: Text
    taken: set[str]
    conditions: list[exp.Expr] = field(default_factory=list)
    """What WHERE is to ask, too."""
    computed: list[Computed] = field(default_factory=list)

    @property
    def own(self) -> Mapping[str, UserFunction]:
        return self.text.functions

    def named(self, item: SelectItem | Star) -> SelectItem | Star:
        """A column that is an expression keeps its name."""
        if isinstance(item, Star) or item.alias is not None or not isinstance(item.expression, exp.Column):
            return item
        name = item.expression.name
        if any(name.lower() == each.lower() for one in self.computed for each, _ in one.columns):
            return replace(item, alias=Name(name, item.span))
        return item

    def tree(self, node: FromSyntax, *, top: bool) -> FromSyntax:
        """top: no join around can give rows without these."""
        if isinstance(node, SourceSyntax):
            return replace(node, lateral=False)  # nothing stands before it
        if node.condition is None and isinstance(node.right, JoinSyntax) and sources_in(node.right)[0].lateral:
            return self.tree(_grafted(node.right, node), top=top)
        left = self.tree(node.left, top=top and node.kind not in ("right", "full"))
        if isinstance(node.right, SourceSyntax) and node.right.lateral:
            return self._joined(replace(node, left=left), node.right, top=top)
        right = self.tree(node.right, top=top and node.kind == "inner")
        condition = None if node.condition is None else self._over_columns(node.condition)
        return replace(node, left=left, right=right, condition=condition)

    def _over_columns(self, condition: exp.Expr) -> exp.Expr:
        """A condition of ON, with what its names stand for."""

        def meant(node: exp.Expr) -> exp.Expr:
            found = None
            if isinstance(node, exp.Column) and not node.args.get("db"):
                mine = (one for one in self.computed if one.alias.lower() == node.table.lower())
                found = next((one.column(node.name) for one in mine), None)
            return node if found is None else exp.Paren(this=found.copy())

        return condition.copy().transform(meant)

    def _joined(self, join: JoinSyntax, source: SourceSyntax, *, top: bool) -> FromSyntax:
        query = source.relation
        assert isinstance(query, QuerySyntax)
        if join.kind not in ("inner", "left"):
            raise self._refused("goes with a comma, CROSS JOIN, JOIN and LEFT JOIN", source.span)
        plain = replace(join, right=replace(source, lateral=False))
        if not isinstance(query.body, SelectSyntax):
            return plain
        warn_of_unused_order(query, self.text)
        select = query.body
        named = (*(one.shown for one in sources_in(join.left)), *(one.alias for one in self.computed))
        before = frozenset(name.lower() for name in named)
        reads_nothing = isinstance(select.tree, SourceSyntax) and isinstance(select.tree.relation, ValuesSyntax)
        entries = select.tree if isinstance(select.tree, SourceSyntax) and select.tree.unnest is not None else None
        around = _Around(before, frozenset(one.shown.lower() for one in select.sources))
        aggregates = has_aggregates(select, self.own) and not select.is_grouped
        if not reads_nothing and entries is None and not around.named_in(_written(select)):
            return plain
        if not reads_nothing and entries is None and not aggregates:
            inside = self._inside(join, source, query, select, around, top=top)
            return self._untied(join, source, query, select, around) if inside is None else inside
        if not top or join.using:
            raise self._refused("stands where no join gives rows without what is before it", source.span)
        if query.limit is not None or select.is_grouped or select.distinct or select.having is not None:
            raise self._refused(
                "of expressions, lists or aggregates is a select list and WHERE",
                query.span,
                "write more in a query around: SELECT … FROM (SELECT …) AS q",
            )
        if reads_nothing and any(unnests(one) for one in select.selected):
            return self._entries_selected(join, source, select)
        if entries is not None:
            return self._entries(join, source, select, entries)
        if aggregates:
            return self._values(join, source, query, select)
        return self._row(join, source, select)

    # ---- expressions ------------------------------------------------------------------------------------------------

    def _row(self, join: JoinSyntax, source: SourceSyntax, select: SelectSyntax) -> FromSyntax:
        asked = _known([select.where, _said(join.condition)])
        columns = self._columns(source, select.items)
        if join.kind == "left":
            test = all_of(asked)
            columns = [(name, e if test is None else _if(test, e)) for name, e in columns]
        else:
            self.conditions += asked
        self.computed.append(Computed(source.shown, tuple(columns)))
        return join.left

    def _values(self, join: JoinSyntax, source: SourceSyntax, query: QuerySyntax, select: SelectSyntax) -> FromSyntax:
        """Aggregates are there for every row."""
        if join.kind == "left" and _said(join.condition) is not None:
            raise self._refused("beside LEFT JOIN is joined ON TRUE", source.span)
        self.conditions += _known([_said(join.condition)])
        columns = self._columns(source, select.items)
        made: list[tuple[str, exp.Expr]] = []
        for (name, expression), item in zip(columns, select.items, strict=True):
            assert isinstance(item, SelectItem)
            value = Subquery(query=replace(query, body=replace(select, items=(item,)), order_by=()))
            locate(value, span_of(expression) or item.span)
            made.append((name, value))
        self.computed.append(Computed(source.shown, tuple(made)))
        return join.left

    def _columns(self, source: SourceSyntax, items: Sequence[SelectItem | Star]) -> list[tuple[str, exp.Expr]]:
        found: list[tuple[str, exp.Expr]] = []
        given = [name.text for name in source.columns]
        for place, item in enumerate(items):
            if isinstance(item, Star):
                raise self._refused("of expressions lists its columns", item.span, "write their names")
            name = given[place] if place < len(given) else item.alias.text if item.alias else item.expression.name
            if not name or not (item.alias or place < len(given) or isinstance(item.expression, exp.Column)):
                raise self._refused("needs a name for each column", item.span, "write x + 1 AS y")
            found.append((name, item.expression))
        return found

    # ---- lists ------------------------------------------------------------------------------------------------------

    def _entries(
        self, join: JoinSyntax, source: SourceSyntax, select: SelectSyntax, entries: SourceSyntax
    ) -> FromSyntax:
        unnest = entries.unnest
        assert unnest is not None
        usual = ("unnest", "ordinality") if unnest.numbered else ("unnest",)
        alias = None if entries.alias is None else entries.alias.text
        given = tuple(one.text for one in unnest.columns) or (() if alias is None else (alias,))
        names = (*given, *usual[len(given) :])
        hidden = {name.lower(): f"{HIDDEN}{source.shown}.{name}" for name in names}

        def renamed(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or node.name.lower() not in hidden:
                return node
            if node.table and node.table.lower() != (alias or "unnest").lower():
                return node
            made = exp.column(hidden[node.name.lower()], quoted=True)
            locate(made, span_of(node) or source.span)
            return made

        listed = self._columns(source, self._starless(select, names))
        items = [(name, e.copy().transform(renamed)) for name, e in listed]
        where = None if select.where is None else select.where.copy().transform(renamed)
        columns = tuple(Name(hidden[name.lower()], unnest.span) for name in names)
        return self._taken_apart(join, source, items, where, replace(unnest, columns=columns))

    @staticmethod
    def _starless(select: SelectSyntax, names: Sequence[str]) -> list[SelectItem | Star]:
        listed = [SelectItem(exp.column(name, quoted=True), Name(name, select.span), select.span) for name in names]
        return [one for item in select.items for one in (listed if isinstance(item, Star) else [item])]

    def _entries_selected(self, join: JoinSyntax, source: SourceSyntax, select: SelectSyntax) -> FromSyntax:
        """UNNEST in the select list."""
        calls = [call for one in select.selected for call in unnests(one)]
        if any(call != calls[0] for call in calls) or len(calls[0].expressions) != 1:
            raise self._refused("takes one list apart at a time", source.span)
        hidden = f"{HIDDEN}{source.shown}.unnest"
        items = [(name, entry_for(e, hidden)) for name, e in self._columns(source, select.items)]
        span = span_of(calls[0]) or source.span
        unnest = UnnestSyntax(calls[0].expressions[0], (Name(hidden, span),), False, span)
        return self._taken_apart(join, source, items, select.where, unnest)

    def _taken_apart(
        self,
        join: JoinSyntax,
        source: SourceSyntax,
        items: Sequence[tuple[str, exp.Expr]],
        where: exp.Expr | None,
        unnest: UnnestSyntax,
    ) -> FromSyntax:
        plain = where is None and _said(join.condition) is None and all(isinstance(e, exp.Column) for _, e in items)
        if join.kind == "left" and not plain:
            raise self._refused(
                "of lists beside LEFT JOIN gives their entries as they are, ON TRUE",
                source.span,
                "write LEFT JOIN UNNEST(a.items) AS t (item) ON TRUE, and CASE around the item",
            )
        self.conditions += _known([where, _said(join.condition)])
        self.computed.append(Computed(source.shown, tuple(items)))
        name = Name(f"{HIDDEN}{source.shown}", source.span)
        apart = SourceSyntax(name, name, None, source.span, unnest=unnest)
        return JoinSyntax(join.kind, join.left, apart, None, join.span, crossed=join.kind == "inner")

    # ---- one source -------------------------------------------------------------------------------------------------

    def _inside(
        self,
        join: JoinSyntax,
        source: SourceSyntax,
        query: QuerySyntax,
        select: SelectSyntax,
        around: _Around,
        *,
        top: bool,
    ) -> FromSyntax | None:
        """Rows of one source, joined as they are; None if there is more to it."""
        asked = (select.distinct_on, select.qualify, select.constraints, select.stream_word, query.named, join.using)
        more = query.limit is not None or select.is_grouped or select.distinct or any(asked)
        if more or not isinstance(select.tree, SourceSyntax) or any(one.find(Subquery) for one in _written(select)):
            return None
        whole = len(select.items) == 1 and isinstance(select.items[0], Star) and not source.columns
        if not whole and any(isinstance(item, Star) for item in select.items):
            return None
        plain = all(isinstance(one, exp.Column) and not around.names(one) for one in select.selected)
        if not plain and (join.kind == "left" or not top):
            return None
        alias = source.shown if whole else self._unlike(select.tree.shown.lower(), source.shown)

        def called(node: exp.Expr) -> exp.Expr:
            return around.called(node, alias)

        columns = [] if whole else self._columns(source, select.items)
        made = tuple((name, e.copy().transform(called)) for name, e in columns)
        if not whole:
            self.computed.append(Computed(source.shown, made, alias))
        where = None if select.where is None else select.where.copy().transform(called)
        conditions = map(self._over_columns, _known([where, _said(join.condition)]))
        right = replace(select.tree, alias=Name(alias, select.tree.span))
        condition = all_of(conditions) or _located(exp.true(), source.span)
        return replace(join, right=right, condition=condition, crossed=False)

    def _unlike(self, name: str, alias: str) -> str:
        free = name if name not in self.taken else f"{alias}_{name}"
        self.taken.add(free.lower())
        return free

    # ---- queries ----------------------------------------------------------------------------------------------------

    def _untied(
        self, join: JoinSyntax, source: SourceSyntax, query: QuerySyntax, select: SelectSyntax, around: _Around
    ) -> FromSyntax:
        alias = source.shown
        beside = [key.expression for key in query.order_by] + list(select.group_by)
        beside += _known([*(one.condition for one in joins_in(select.tree)), select.having, select.qualify])
        if around.named_in([*beside, *select.selected]) or select.grouping_sets is not None:
            raise self._refused(
                "names what stands before it in WHERE only",
                source.span,
                "write it in the select list around: SELECT a.x * l.y FROM a, LATERAL (SELECT b.y FROM b WHERE …) AS l",
            )
        parts = [] if select.where is None else conjuncts_of(select.where)
        tied = [part for part in parts if around.named_in([part])]
        hidden = _Hidden(alias, select, query.span)
        if query.limit is None and not select.is_grouped and not select.distinct and select.qualify is None:
            on = [part.copy().transform(lambda one: hidden.column(one, around)) for part in tied]
            keys: list[exp.Expr] = []
        else:
            pairs = [self._pair(part, around) for part in tied]
            keys = [mine for mine, _ in pairs]
            on = [_located(exp.EQ(this=hidden.of(mine), expression=theirs), mine) for mine, theirs in pairs]
        qualify = self._first_rows(query, keys) if query.limit is not None else None
        body = replace(
            select,
            items=(*select.items, *hidden.items),
            where=all_of([part for part in parts if part not in tied]),
            group_by=(*select.group_by, *(key.copy() for key in keys)) if select.is_grouped else select.group_by,
            qualify=all_of([select.qualify, qualify]),
        )
        made = replace(query, body=body, order_by=(), limit=None)
        condition = all_of(map(self._over_columns, _known([*on, _said(join.condition)])))
        right = replace(source, relation=made, lateral=False)
        return replace(join, right=right, condition=condition, crossed=False)

    def _pair(self, part: exp.Expr, around: _Around) -> tuple[exp.Expr, exp.Expr]:
        """What of the query is equal to what stands before it."""
        bare = part.unnest()
        if isinstance(bare, exp.EQ):
            sides = (bare.this, bare.expression)
            for mine, theirs in (sides, sides[::-1]):
                if not around.named_in([mine]) and not around.own_in([theirs]):
                    return mine, theirs
        raise self._refused(
            "with LIMIT, GROUP BY or DISTINCT compares its own columns for equality with what stands before it",
            span_of(part) or (0, 1),
            "write WHERE b.k = a.k",
        )

    def _first_rows(self, query: QuerySyntax, keys: Sequence[exp.Expr]) -> exp.Expr:
        limit = query.limit
        assert limit is not None
        if not query.order_by or limit.rows is None or (limit.ties and limit.offset):
            raise self._refused("with LIMIT says by ORDER BY which rows come first", limit.span, "ORDER BY x LIMIT 3")
        ordered = [
            exp.Ordered(this=key.expression.copy(), desc=key.descending, nulls_first=key.nulls_first)
            for key in query.order_by
        ]
        number = exp.Window(
            this=_located(exp.Anonymous(this="RANK" if limit.ties else "ROW_NUMBER"), limit.span),
            partition_by=[key.copy() for key in keys],
            order=exp.Order(expressions=ordered),
        )
        locate(number, limit.span)
        made: exp.Expr = exp.LTE(this=number, expression=exp.Literal.number(limit.offset + limit.rows))
        if limit.offset:
            behind = exp.GT(this=number.copy(), expression=exp.Literal.number(limit.offset))
            made = exp.And(this=made, expression=behind)
        return _located(made, limit.span)

    def _refused(self, why: str, span: Span, hint: str | None = None) -> SqlError:
        usual = "write FROM a CROSS JOIN LATERAL (SELECT a.x + 1 AS y) AS l"
        return self.text.error(f"LATERAL {why}", span, hint=hint or usual, kind=UnsupportedError)


@dataclass(frozen=True)
class _Around:
    """The names of what stands before a query, and of what it reads; a column without a source is its own."""

    before: frozenset[str]
    own: frozenset[str]

    def names(self, column: exp.Column) -> bool:
        return bool(column.table) and name_parts(column)[0].name.lower() in self.before - self.own

    def called(self, node: exp.Expr, alias: str) -> exp.Expr:
        """A column of the only source that is read, under another name of that."""
        if not isinstance(node, exp.Column) or self.names(node):
            return node
        first = next((key for key in ("catalog", "db", "table") if node.args.get(key) is not None), "table")
        known = node.args.get(first)
        if known is None or known.name.lower() in self.own:
            node = node.copy()
            node.set(first, exp.to_identifier(alias, quoted=True))
        return node

    def named_in(self, expressions: Iterable[exp.Expr]) -> bool:
        return any(self.names(column) for one in expressions for column in one.find_all(exp.Column))

    def own_in(self, expressions: Iterable[exp.Expr]) -> bool:
        return any(not self.names(column) for one in expressions for column in one.find_all(exp.Column))


@dataclass
class _Hidden:
    """Columns that a query gives besides those it selects, for conditions around it."""

    alias: str
    select: SelectSyntax
    span: Span
    items: list[SelectItem] = field(default_factory=list)

    def column(self, node: exp.Expr, around: _Around) -> exp.Expr:
        return self.of(node) if isinstance(node, exp.Column) and not around.names(node) else node

    def of(self, expression: exp.Expr) -> exp.Expr:
        made = exp.column(self._name(expression), table=self.alias, quoted=True)
        return _located(made, expression)

    def _same(self, one: exp.Expr, other: exp.Expr) -> bool:
        alone = isinstance(self.select.tree, SourceSyntax)
        if alone and isinstance(one, exp.Column) and isinstance(other, exp.Column):
            return one.name.lower() == other.name.lower() and not (one.args.get("db") or other.args.get("db"))
        return one == other

    def _name(self, expression: exp.Expr) -> str:
        """What is selected anyway has a name; its time must be known as such by one."""
        for item in self.select.items:
            if isinstance(item, Star):
                if isinstance(expression, exp.Column):
                    return str(expression.name)
            elif self._same(item.expression, expression) and (item.alias or isinstance(expression, exp.Column)):
                return item.alias.text if item.alias else str(expression.name)
        for item in self.items:
            if item.expression == expression:
                assert item.alias is not None
                return item.alias.text
        name = f"{HIDDEN}{len(self.items) + 1}"
        self.items.append(SelectItem(expression.copy(), Name(name, self.span), self.span))
        return name


def _grafted(tree: FromSyntax, comma: JoinSyntax) -> FromSyntax:
    """`a, LATERAL (…) JOIN c ON …`: what stands before the comma is seen by the first behind it."""
    if isinstance(tree, SourceSyntax):
        return replace(comma, right=tree)
    return replace(tree, left=_grafted(tree.left, comma))


def _written(select: SelectSyntax) -> list[exp.Expr]:
    return [*select.selected, *_known([select.where]), *select.on, *select.group_by]


def _said(condition: exp.Expr | None) -> exp.Expr | None:
    """ON TRUE says nothing."""
    return None if isinstance(condition, exp.Boolean) and condition.this else condition


def _known(conditions: Iterable[exp.Expr | None]) -> list[exp.Expr]:
    return [one for one in conditions if one is not None]


def _if(test: exp.Expr, value: exp.Expr) -> exp.Expr:
    return _located(exp.Case(ifs=[exp.If(this=test.copy(), true=value.copy())]), value)


def _located(node: exp.Expr, at: exp.Expr | Span) -> exp.Expr:
    span = at if isinstance(at, tuple) else span_of(at)
    if span is not None:
        locate(node, span)
    return node
