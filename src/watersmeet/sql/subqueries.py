"""EXISTS, IN and values from queries: each is a join of FROM with what stands in the parentheses.

A condition of WHERE asks whether a row has a partner: a semi join, or with NOT an anti join. A value is a row that
there is at most one of: a left join; where there is none it is what aggregates are over nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import UnsupportedError, WindowError
from watersmeet.model.windows import Bound, Choice
from watersmeet.plan.expressions import Aggregate, Call, Column, Expression, Literal, conjuncts, replaced, streams_of
from watersmeet.plan.nodes import Input, JoinKind, View, schema_of
from watersmeet.sql.context import Context, SubqueryBinder
from watersmeet.sql.counting import has_aggregates, only_select
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.join_tree import Group, Leaf, Outer, TreeBinder, holder_of
from watersmeet.sql.named_queries import with_named
from watersmeet.sql.ordering import warn_of_unused_order
from watersmeet.sql.scope import Scope
from watersmeet.sql.sources import bind_sources
from watersmeet.sql.syntax import Name, QuerySyntax, SelectItem, SelectSyntax, Span, Subquery, WindowCondition, span_of
from watersmeet.sql.time_bounds import time_bounds
from watersmeet.sql.windows import Conditions, conjuncts_of

TRUE = Literal(True, pa.bool_())


@dataclass(frozen=True)
class Asked:
    """A condition on a query: whether it has a row, one of whose columns is equal to `value` if that is given."""

    query: QuerySyntax
    negated: bool
    value: exp.Expr | None
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


Pair = tuple[exp.Expr, Expression]  # of a query in the place of a value, and of the streams around it


def asked_in(where: exp.Expr | None) -> tuple[list[Asked], list[exp.Expr]]:
    """The conditions of WHERE that are about queries, and the others."""
    if where is None:
        return [], []
    found: list[Asked] = []
    others: list[exp.Expr] = []
    for part in conjuncts_of(where):
        asked = _asked(part)
        if asked is None:
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
            return Asked(query.args["query"], negated, None, span)
        case exp.In(this=value, expressions=[Subquery() as query]):
            return Asked(query.args["query"], negated, value, span)
    return None


class SubqueryJoiner:
    """Joins queries in conditions to the FROM they are asked of."""

    def __init__(self, context: Context, bind_subquery: SubqueryBinder, scope: Scope, names: dict[str, Span]) -> None:
        """names: those in use, with their places; the inputs of the queries are added."""
        self.context = context
        self.bind_subquery = bind_subquery
        self.scope = scope
        self.names = names

    def partners(self, asked: Asked) -> Partners:
        """What is to be looked for in a query, or to be missing in it."""
        warn_of_unused_order(asked.query, self.context.text)
        select = self._plain_select(asked.query)
        column: Expression
        found = Conditions()
        if select is None:
            right, column = self._as_source(asked.query)
        else:
            right, column, found = self._as_partners(select, asked)
        if asked.value is not None:
            found.predicates.append(self._equal(asked, asked.value, column))
        return Partners("anti" if asked.negated else "semi", right, found, asked.span)

    def value(self, query: QuerySyntax, span: Span) -> Value:
        """A query that has a row or none, for each row of FROM."""
        select = only_select(query)
        if select is None or select.is_grouped or not self._is_one_row(select):
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
        inside, pairs, others = self._compared(query, select)
        return self._joined(query, select, pairs, others, inside, span)

    # ---- values that depend on the row ------------------------------------------------------------------------------

    def _compared(self, query: QuerySyntax, select: SelectSyntax) -> tuple[Scope, list[Pair], list[exp.Expr]]:
        """What the query sees; what of WHERE compares it with the streams around it, and the rest."""
        pairs: list[Pair] = []
        others: list[exp.Expr] = []
        inputs, places = bind_sources(select.sources, with_named(query, self.context), self.bind_subquery)
        inside = Scope(self.context.text, inputs, self.context.zone, outer=self.scope)
        own = {one.alias for one in inputs}
        binder = ExpressionBinder(inside, "WHERE", event_time=False)
        for part in [] if select.where is None else conjuncts_of(select.where):
            if isinstance(part, WindowCondition) or part.find(Subquery) or streams_of(binder.bind(part)) <= own:
                others.append(part)
                continue
            pairs.append(self._pair(part, binder, own))
        bare = [one.alias for one in inputs if one.time is not None and one.window is None]
        if pairs and bare:
            raise self.context.text.error(
                f"a query in the place of a value, or inside of a condition, needs a window on {bare[0]}: without one "
                f"it is not said which rows count",
                places[bare[0]],
                hint=f"write {bare[0]} [RANGE 1 HOUR], {bare[0]} [ROWS 100] or {bare[0]} [UNBOUNDED]",
                kind=WindowError,
            )
        return inside, pairs, others

    def _pair(self, part: exp.Expr, binder: ExpressionBinder, own: set[str]) -> Pair:
        part = part.unnest()
        if isinstance(part, exp.EQ):
            for mine, theirs in ((part.this, part.expression), (part.expression, part.this)):
                outer = binder.bind(theirs)
                if streams_of(binder.bind(mine)) <= own and not streams_of(outer) & own:
                    return mine, outer
        raise self.context.text.error(
            "a query in the place of a value is compared with the streams around it by equality only",
            span_of(part),
            hint="write b.k = a.k; or join: LEFT JOIN (SELECT k, MAX(x) AS most FROM b [RANGE 1 HOUR] GROUP BY k) AS g "
            "ON …",
            kind=UnsupportedError,
        )

    def _joined(
        self,
        query: QuerySyntax,
        select: SelectSyntax,
        pairs: list[Pair],
        others: list[exp.Expr],
        inside: Scope,
        span: Span,
    ) -> Value:
        """As many values as there are of what is compared: the groups, of which a row has one or none."""
        (item,) = select.items
        assert isinstance(item, SelectItem)
        nothing = _over_nothing(item.expression, inside)
        # A count is never NULL, so that it tells itself whether it is there.
        tells = nothing is None or isinstance(nothing, Literal)
        there = [] if tells else [SelectItem(exp.true(), Name("there", span), span)]
        keys = [SelectItem(mine.copy(), Name(f"key_{n}", span), span) for n, (mine, _) in enumerate(pairs)]
        item = replace(item, alias=Name("value", span)) if pairs else item
        where = reduce(lambda a, b: exp.And(this=a, expression=b), others) if others else None
        by = tuple(mine.copy() for mine, _ in pairs)
        grouped = replace(select, items=(item, *keys, *there), where=where, group_by=by)
        node = self.bind_subquery(replace(query, body=grouped), replace(self.context, as_view=True))
        name, schema = self.unlike("subquery"), schema_of(node)
        self.names[name] = query.span
        value, *columns = (Column(name, field.name, field.type) for field in schema)
        binder = ExpressionBinder(self.scope, "WHERE")
        equal = [binder.call("eq", [outer, key], mine) for (mine, outer), key in zip(pairs, columns, strict=False)]
        right = Group((Leaf(Input(name, View(name, node, schema))),))
        expression: Expression = value
        if isinstance(nothing, Literal):
            expression = Call("coalesce", (value, nothing), value.type)
        elif nothing is not None:
            missing = binder.call("is_null", [columns[-1]], item.expression)
            expression = binder.call("case", [missing, nothing, value], item.expression)
        found = Conditions(equal)
        return Value(right, (value, *columns[len(keys) :]), expression, found, span, tuple(outer for _, outer in pairs))

    # ---- queries that are sources of their own ----------------------------------------------------------------------

    def _as_source(self, query: QuerySyntax) -> tuple[Group, Column]:
        """A query that does not see the streams around it."""
        node = self.bind_subquery(query, replace(self.context, as_view=True))
        schema = schema_of(node)
        if len(schema) != 1:
            raise self.context.text.error(
                f"the query in the parentheses has {len(schema)} columns, and one is compared",
                query.span,
                hint="select the one that is meant",
            )
        name = self.unlike("subquery")
        self.names[name] = query.span
        one = Input(name, View(name, node, schema))
        return Group((Leaf(one),)), Column(name, schema.names[0], schema.types[0])

    # ---- queries whose rows are partners ----------------------------------------------------------------------------

    def _as_partners(self, select: SelectSyntax, asked: Asked) -> tuple[Group, Expression, Conditions]:
        """FROM of a query that is not more than that. It sees the streams around it."""
        seen = with_named(asked.query, self.context)
        inputs, places = bind_sources(select.sources, seen, self.bind_subquery)
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
        column: Expression = TRUE
        if asked.value is not None:
            column = _over(self._selected(select, inside, asked), others)
        return right, column, found

    def _add(self, part: exp.Expr, inside: Scope, others: dict[str, str], right: Group, found: Conditions) -> None:
        bound = ExpressionBinder(inside, "WHERE", event_time=False).condition(part)
        span = span_of(part) or (0, 1)
        words = self.context.text.piece(span)
        own = set(others.values())
        for each in conjuncts(bound):
            bounds = time_bounds(each, inside, words)
            if bounds is not None:
                for one in bounds:
                    moved = _moved(one, others)
                    ends = {moved.earlier, moved.later}
                    place = holder_of(right, ends).found if ends <= own else found
                    place.bounds.append(moved)
                    place.places.setdefault(words, span)
                continue
            renamed = _over(each, others)
            # Between the streams of the query it is a condition of their join.
            within = streams_of(renamed) <= own and len(right.members) > 1
            (right.found if within else found).predicates.append(renamed)

    def _selected(self, select: SelectSyntax, inside: Scope, asked: Asked) -> Expression:
        if len(select.items) != 1 or not isinstance(select.items[0], SelectItem):
            raise self.context.text.error(
                "IN compares with one column, and the query in the parentheses does not select just one",
                select.span,
                hint="write x IN (SELECT y FROM b [RANGE 1 HOUR])",
            )
        return ExpressionBinder(inside, "the select list").bind(select.items[0].expression)

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

    def _plain_select(self, query: QuerySyntax) -> SelectSyntax | None:
        """A query whose rows are those of its FROM: equal ones are as good as one, so DISTINCT says nothing."""
        select = only_select(query)
        if select is None or select.is_grouped or select.having is not None or select.stream_word is not None:
            return None
        return None if has_aggregates(select, self.context.text.functions) else select

    def unlike(self, alias: str) -> str:
        """A name that is not in use."""
        taken = {name.lower() for name in self.names}
        name, number = alias, 1
        while name.lower() in taken:
            number += 1
            name = f"{alias}#{number}"
        return name


def _over_nothing(written: exp.Expr, inside: Scope) -> Expression | None:
    """What a query with this aggregate gives where it finds no rows: counts are 0 and the rest is NULL. None if that is
    NULL itself, or another query is asked for it."""

    def emptied(part: Expression) -> Expression | None:
        if not isinstance(part, Aggregate):
            return None
        return Literal(0 if part.function == "count" else None, part.type)

    if written.find(Subquery):
        return None
    made = replaced(ExpressionBinder(inside, "the select list", aggregates=True).bind(written.copy()), emptied)
    return None if isinstance(made, Literal) and made.value is None else made


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
