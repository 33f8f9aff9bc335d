"""EXISTS, IN and values from queries: each is a join of FROM with what stands in the parentheses.

A condition of WHERE asks whether a row has a partner: a semi join, or with NOT an anti join. A value is a row that
there is at most one of: a left join; where there is none it is what aggregates are over nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import UnsupportedError
from watersmeet.model.types import is_text
from watersmeet.model.windows import Bound, Choice
from watersmeet.plan.expressions import Aggregate, Call, Column, Expression, Literal, replaced, streams_of
from watersmeet.plan.nodes import Input, JoinKind, View, schema_of
from watersmeet.sql.correlation import Correlation, Untied, entries_of
from watersmeet.sql.counting import Own, has_aggregates, is_one_row, only_select
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.join_tree import Group, Leaf, Outer, TreeBinder, holder_of, refused_path
from watersmeet.sql.named_queries import with_named
from watersmeet.sql.ordering import warn_of_unused_order
from watersmeet.sql.scope import Scope
from watersmeet.sql.sources import bind_sources
from watersmeet.sql.syntax import Name, QuerySyntax, SelectItem, SelectSyntax, Span, Star, Subquery, span_of
from watersmeet.sql.windows import Conditions, bind_conditions, conjuncts_of

_OF_NOTHING = {"count": 0, "entropy": 0.0}  # all other aggregates are NULL


@dataclass(frozen=True)
class Asked:
    """A condition on a query: whether it has a row, whose columns are equal to `values` if these are given."""

    query: QuerySyntax
    negated: bool
    values: tuple[exp.Expr, ...]
    span: Span


@dataclass(frozen=True)
class Partners:
    """What rows of FROM are asked to have, or to lack: the other side of a semi or anti join."""

    kind: JoinKind
    right: Group
    found: Conditions
    span: Span


@dataclass(frozen=True)
class Value:
    """A query in the place of a value: what is joined, its columns, and what of FROM it depends on. `expression` is the
    value, also where nothing is found: then it is what the query gives over nothing."""

    right: Group
    columns: tuple[Column, ...]
    expression: Expression
    found: Conditions
    span: Span
    depends_on: tuple[Expression, ...] = ()


def asked_in(where: exp.Expr | None, own: Own) -> tuple[list[Asked], list[exp.Expr]]:
    """The conditions of WHERE that are about queries, and the others."""
    if where is None:
        return [], []
    found: list[Asked] = []
    others: list[exp.Expr] = []
    for part in conjuncts_of(where):
        asked = _asked(part)
        # With one row IN is a comparison with its value.
        if asked is None or (len(asked.values) == 1 and is_one_row(asked.query, own)):
            others.append(part)
        else:
            found.append(asked)
    return found, others


def _asked(node: exp.Expr, *, negated: bool = False) -> Asked | None:
    span = span_of(node) or (0, 1)
    match node:
        case exp.Paren(this=inner):
            return _asked(inner, negated=negated)
        case exp.Not(this=inner):
            return _asked(inner, negated=not negated)
        case exp.Exists(this=Subquery() as query):
            return Asked(query.args["query"], negated, (), span)
        case exp.In(this=exp.Tuple(expressions=values), expressions=[Subquery() as query]):
            return Asked(query.args["query"], negated, tuple(values), span)
        case exp.In(this=value, expressions=[Subquery() as query]):
            return Asked(query.args["query"], negated, (value,), span)
    return None


class SubqueryJoiner:
    """Joins queries in conditions to the FROM they are asked of."""

    def __init__(
        self, correlation: Correlation, names: dict[str, Span], grouped: Sequence[frozenset[str]] = ()
    ) -> None:
        """names: those in use, with their places; the inputs of the queries are added. grouped: what `bind_sources` is
        told of FROM, if its rows are in windows that end: partners are in windows, too, then."""
        self.correlation = correlation
        self.context = correlation.context
        self.bind_subquery = correlation.bind_subquery
        self.scope = correlation.scope
        self.names = names
        self.grouped = grouped

    def partners(self, asked: Asked) -> Partners:
        """What is to be looked for in a query, or to be missing in it."""
        warn_of_unused_order(asked.query, self.context.text)
        select = only_select(asked.query)
        if select is not None and self._is_plain(asked.query, select):
            right, columns, found = self._as_partners(select, asked)
        else:
            right, columns, found = self._as_source(asked, select)
        found.predicates += map(partial(self._equal, asked), asked.values, columns)
        return Partners("anti" if asked.negated else "semi", right, found, asked.span)

    def value(self, query: QuerySyntax, span: Span) -> Value:
        """A query that has a row or none, for each row of FROM."""
        warn_of_unused_order(query, self.context.text)
        select = only_select(query)
        if select is None or select.is_grouped or _has_over(select) or not self._is_one_row(select):
            raise self.context.text.error(
                "a query in the place of a value must have one row, and this may have more",
                span,
                hint="select one aggregate without GROUP BY, as in (SELECT MAX(x) FROM b [RANGE 1 HOUR])",
                kind=UnsupportedError,
            )
        (item,) = select.items
        assert isinstance(item, SelectItem)
        # A HAVING that does not hold leaves no row, which is NULL.
        asked = (
            item.expression
            if select.having is None
            else exp.Case(ifs=[exp.If(this=select.having, true=item.expression)])
        )
        select = replace(select, items=(replace(item, expression=asked),), having=None)
        return self._joined(query, select, span)

    # ---- values that depend on the row ------------------------------------------------------------------------------

    def _joined(self, query: QuerySyntax, select: SelectSyntax, span: Span) -> Value:
        """As many values as there are of what is compared: the groups, of which a row has one or none."""
        untied = self.correlation.untied(query, select)
        (item,), (written,) = untied.select.items, select.items
        assert isinstance(item, SelectItem)
        assert isinstance(written, SelectItem)
        nothing = self._over_nothing(query, select, written.expression)
        # A count is never NULL, so that it tells itself whether it is there.
        tells = nothing is None or isinstance(nothing, Literal)
        there = [] if tells else [SelectItem(exp.true(), Name("there", span), span)]
        keys = _keys_of(untied, span)
        item = replace(item, alias=Name("value", span)) if keys else item
        by = tuple(key.expression.copy() for key in keys)
        grouped = replace(untied.select, items=(item, *keys, *there), group_by=by)
        right, (value, *columns) = self._view(replace(query, body=grouped, order_by=()))
        binder = ExpressionBinder(self.scope, "WHERE")
        expression: Expression = value
        if isinstance(nothing, Literal):
            expression = Call("coalesce", (value, nothing), value.type)
        elif nothing is not None:
            missing = binder.call("is_null", [columns[-1]], item.expression)
            expression = binder.call("case", [missing, nothing, value], item.expression)
        found = Conditions(self._tied(untied, columns))
        depends_on = tuple(pair.theirs for pair in untied.pairs)
        return Value(right, (value, *columns[len(keys) :]), expression, found, span, depends_on)

    def _over_nothing(self, query: QuerySyntax, select: SelectSyntax, written: exp.Expr) -> Expression | None:
        """What a query with this aggregate gives where it finds no rows: counts are 0 and the rest is NULL. None if
        that is NULL itself."""

        def emptied(part: Expression) -> Expression | None:
            if not isinstance(part, Aggregate):
                return None
            return Literal(_OF_NOTHING.get(part.function), part.type)

        inside = entries_of(select, with_named(query, self.context), self.bind_subquery).scope(self.scope)
        made = replaced(ExpressionBinder(inside, "the select list", aggregates=True).bind(written.copy()), emptied)
        return None if _is_null(made) else made

    def _tied(self, untied: Untied, columns: Sequence[Column]) -> list[Expression]:
        """That columns of a query, in the order of its pairs, are equal to what is around it."""
        binder = ExpressionBinder(self.scope, "WHERE")
        found: list[Expression] = []
        for pair, column in zip(untied.pairs, columns, strict=False):
            sides: list[Expression] = [pair.theirs, column]
            if untied.of_rows:
                nulls = [binder.call("is_null", [side], pair.mine) for side in sides]
                found.append(binder.call("eq", nulls, pair.mine))
                sides = [Call("coalesce", (side, _zero(side.type)), side.type) for side in sides]
            found.append(binder.call("eq", sides, pair.mine))
        return found

    def _view(self, query: QuerySyntax) -> tuple[Group, list[Column]]:
        """A query that sees nothing around it, as it is at every instant."""
        node = self.bind_subquery(query, replace(self.context, as_view=True))
        name, schema = self.unlike("subquery"), schema_of(node)
        self.names[name] = query.span
        columns = [Column(name, field.name, field.type) for field in schema]
        return Group((Leaf(Input(name, View(name, node, schema))),)), columns

    # ---- queries that are sources of their own ----------------------------------------------------------------------

    def _as_source(self, asked: Asked, select: SelectSyntax | None) -> tuple[Group, Sequence[Expression], Conditions]:
        """A query that is more than FROM and WHERE, or has queries inside."""
        query, untied = asked.query, None if select is None else self.correlation.untied(asked.query, select)
        if select is None or untied is None or not untied.pairs:
            right, columns = self._view(query)
            self._check_columns(asked, len(columns))
            return right, columns, Conditions()
        self._check_tied(asked, select)
        keys = _keys_of(untied, asked.span)
        # Which columns EXISTS selects says nothing, unless groups go by their numbers.
        items = untied.select.items if asked.values or select.is_grouped else ()
        by = (*untied.select.group_by, *(key.expression.copy() for key in keys)) if select.is_grouped else ()
        body = replace(untied.select, items=(*items, *keys), group_by=by, distinct=False)
        right, columns = self._view(replace(query, body=body, order_by=()))
        self._check_columns(asked, len(columns) - len(keys))
        return right, columns, Conditions(self._tied(untied, columns[-len(keys) :]))

    def _check_columns(self, asked: Asked, number: int) -> None:
        if asked.values and number != len(asked.values):
            compared = "one is" if len(asked.values) == 1 else f"{len(asked.values)} are"
            raise self.context.text.error(
                f"the query in the parentheses has {number} column{'s' if number > 1 else ''}, and {compared} compared",
                asked.query.span,
                hint="select the one that is meant" if len(asked.values) == 1 else "select as many as stand before IN",
            )

    def _check_tied(self, asked: Asked, select: SelectSyntax) -> None:
        """Where a query is asked for many rows at once, what it makes of all its rows must be made for each of them."""
        if not select.is_grouped and (select.having is not None or has_aggregates(select, self.context.text.functions)):
            raise self.context.text.error(
                "the query in the parentheses has one row, which depends on the streams around it",
                asked.query.span,
                hint="compare with it by =: x = (SELECT MAX(b.x) FROM b [RANGE 1 HOUR] WHERE b.k = a.k)",
                kind=UnsupportedError,
            )
        if select.grouping_sets is not None or _has_over(select):
            what = "OVER" if _has_over(select) else "GROUPING SETS, ROLLUP and CUBE"
            raise self.context.text.error(
                f"{what} cannot stand in a query of a condition that depends on the streams around it",
                asked.query.span,
                hint="join it in FROM: JOIN (SELECT k, … FROM b [RANGE 1 HOUR]) AS q ON q.k = a.k",
                kind=UnsupportedError,
            )

    # ---- queries whose rows are partners ----------------------------------------------------------------------------

    def _as_partners(self, select: SelectSyntax, asked: Asked) -> tuple[Group, Sequence[Expression], Conditions]:
        """FROM of a query that is not more than that. It sees the streams around it."""
        seen = with_named(asked.query, self.context)
        inputs, places = bind_sources(select.sources, seen, self.bind_subquery, *self.grouped)
        others = {one.alias: self.unlike(one.alias) for one in inputs}
        renamed = tuple(replace(one, alias=others[one.alias]) for one in inputs)
        self.names |= {others[alias]: span for alias, span in places.items()}
        inside = Scope(self.context.text, inputs, self.context.zone, outer=self.scope)
        binder = TreeBinder(inside, inputs, self.context.boundary)
        tree = binder.bind(select.tree)
        binder.add_windows(select.constraints, tree)
        right = _renamed(tree, others, dict(zip((one.alias for one in inputs), renamed, strict=True)))
        found = Conditions()
        for part in conjuncts_of(select.where) if select.where is not None else []:
            self._add(part, inside, others, right, found)
        columns = [_over(column, others) for column in self._selected(select, inside)] if asked.values else []
        self._check_columns(asked, len(columns))
        return right, columns, found

    def _add(self, part: exp.Expr, inside: Scope, others: dict[str, str], right: Group, found: Conditions) -> None:
        own = set(others.values())
        written = bind_conditions((part,), (), inside, self.context.boundary)
        if written.choices:
            raise refused_path(self.context.text, span_of(part))
        for bound in written.bounds:
            moved = _moved(bound, others)
            ends = {moved.earlier, moved.later}
            place = holder_of(right, ends).found if ends <= own else found
            place.bounds.append(moved)
            place.places.update(written.places)
        for predicate in written.predicates:
            renamed = _over(predicate, others)
            # Between the streams of the query it is a condition of their join.
            within = streams_of(renamed) <= own and len(right.members) > 1
            (right.found if within else found).predicates.append(renamed)

    def _selected(self, select: SelectSyntax, inside: Scope) -> list[Expression]:
        binder, found = ExpressionBinder(inside, "the select list"), list[Expression]()
        for item in select.items:
            found += inside.columns(item.source) if isinstance(item, Star) else [binder.bind(item.expression)]
        return found

    def _equal(self, asked: Asked, written: exp.Expr, column: Expression) -> Expression:
        binder = ExpressionBinder(self.scope, "WHERE")
        value = binder.bind(written)
        equal = binder.call("eq", [value, column], written)
        if not asked.negated:
            return equal
        # NOT IN holds for certain only: with a NULL on either side nobody knows, and the row is not given.
        missing = [binder.call("is_null", [side], written) for side in (value, column)]
        return binder.call("or", [equal, *missing], written)

    def _is_one_row(self, select: SelectSyntax) -> bool:
        return len(select.items) == 1 and has_aggregates(select, self.context.text.functions)

    def _is_plain(self, query: QuerySyntax, select: SelectSyntax) -> bool:
        """Whether the rows of a query are those of its FROM: equal ones are as good as one, so DISTINCT says nothing.
        Without queries inside they are partners as they are."""
        if select.is_grouped or select.having is not None or select.stream_word is not None or _has_over(select):
            return False
        if any(one.unnest is not None or one.lateral for one in select.sources):
            return False
        if has_aggregates(select, self.context.text.functions):
            return False
        written = [*select.selected, *([] if select.where is None else [select.where])]
        if any(one.find(Subquery) for one in (*written, *select.on)):
            return False
        # Of one name for both the partners get another, and a column of the other would go with it.
        around = {one.alias.lower() for one in self.scope.inputs}
        alike = any(one.named is not None and one.named.text.lower() in around for one in select.sources)
        return not self.correlation.names_around(query, select, [*select.on, *(written if alike else ())])

    def unlike(self, alias: str) -> str:
        """A name that is not in use."""
        taken = {name.lower() for name in self.names}
        name, number = alias, 1
        while name.lower() in taken:
            number += 1
            name = f"{alias}#{number}"
        return name


def _keys_of(untied: Untied, span: Span) -> list[SelectItem]:
    return [SelectItem(pair.mine.copy(), Name(f"key_{n}", span), span) for n, pair in enumerate(untied.pairs)]


def _has_over(select: SelectSyntax) -> bool:
    return select.qualify is not None or any(one.find(exp.Window) for one in select.selected)


def _is_null(expression: Expression) -> bool:
    """Whether constants are plainly NULL, as a quotient of counts of nothing is."""
    match expression:
        case Literal(value=None):
            return True
        case Call(function="divide" | "multiply", args=args) if any(map(_is_null, args)):
            return True
        case Call(function="divide", args=(_, Literal(value=0))):
            return True
    return False


def _zero(kind: pa.DataType) -> Literal:
    """Any value of a type, to stand for NULL beside what tells that it is one."""
    if is_text(kind):
        return Literal("", kind)
    (value,) = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(16))]).to_pylist()
    return Literal(value, kind)


def _over(expression: Expression, others: dict[str, str]) -> Expression:
    """The expression with inputs under other names."""

    def elsewhere(part: Expression) -> Expression | None:
        if isinstance(part, Column) and part.stream in others:
            return replace(part, stream=others[part.stream])
        return None

    return replaced(expression, elsewhere)


def _moved(bound: Bound, others: dict[str, str]) -> Bound:
    return replace(bound, earlier=others.get(bound.earlier, bound.earlier), later=others.get(bound.later, bound.later))


def _renamed(group: Group, others: dict[str, str], inputs: dict[str, Input]) -> Group:
    """The same tree with inputs under other names."""

    def found(one: Conditions) -> Conditions:
        choices = [
            Choice(tuple(tuple(_moved(bound, others) for bound in way) for way in choice.alternatives))
            for choice in one.choices
        ]
        bounds = [_moved(bound, others) for bound in one.bounds]
        return Conditions([_over(p, others) for p in one.predicates], bounds, choices, dict(one.places))

    def member(one: Leaf | Outer) -> Leaf | Outer:
        if isinstance(one, Leaf):
            return Leaf(inputs[one.input.alias])
        left, right = (_renamed(side, others, inputs) for side in (one.left, one.right))
        within = tuple(_moved(bound, others) for bound in one.within)
        return Outer(one.kind, left, right, found(one.found), one.span, within)

    return Group(tuple(map(member, group.members)), found(group.found))
