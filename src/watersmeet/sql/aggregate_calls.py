"""Calls of aggregates: what they are of, with FILTER, DISTINCT, ORDER BY and WITHIN GROUP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeGuard

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import UnsupportedError
from watersmeet.model.types import is_text
from watersmeet.model.windows import moves_in_steps
from watersmeet.plan.expressions import (
    BY_TIME,
    IN_ORDER,
    WITH_NULLS,
    Aggregate,
    Call,
    Column,
    Expression,
    Literal,
    SortKey,
    Way,
)
from watersmeet.plan.functions import PAIRED, aggregate_name, aggregate_type, exact_share
from watersmeet.plan.text_functions import GIVING_JSON
from watersmeet.plan.user_functions import UserFunction
from watersmeet.sql import literals
from watersmeet.sql.clause_binder import ClauseBinder
from watersmeet.sql.equivalents import equivalent
from watersmeet.sql.function_calls import as_declared
from watersmeet.sql.json_calls import is_json
from watersmeet.sql.pair_aggregates import of_pairs

_WITH_KEYS = ("json_object_agg", "jsonb_object_agg", "map_agg")  # rows whose first argument is NULL do not count
_EXTREMES = ("arg_min", "arg_max")
_PERCENTILES = ("percentile", "percentile_disc")


def names_aggregate(call: exp.Expr, own: Mapping[str, UserFunction]) -> TypeGuard[exp.Anonymous]:
    """Whether it is a call of an aggregate, of the language or of one's own."""
    if not isinstance(call, exp.Anonymous):
        return False
    brought = own.get(call.name.lower())
    return aggregate_name(call.name) is not None if brought is None else brought.kind == "aggregate"


def made_of_aggregates(call: exp.Expr, only: exp.Expr | None, own: Mapping[str, UserFunction]) -> exp.Expr | None:
    """What an aggregate with a FILTER stands for that is said by others: CORR, COUNT_IF; None if it is no such one."""
    if not isinstance(call, exp.Anonymous) or call.name.lower() in own or names_aggregate(call, own):
        return None
    if (made := of_pairs(call, only)) is not None:
        return made
    try:
        meant = equivalent(call)
    except ValueError:  # of no aggregate
        return None
    if isinstance(meant, exp.Filter):
        own_condition, meant = meant.expression.this, meant.this
        only = own_condition if only is None else exp.And(this=own_condition, expression=exp.Paren(this=only.copy()))
    if meant is None or not names_aggregate(meant, own):
        return None
    return meant if only is None else exp.Filter(this=meant, expression=exp.Where(this=only.copy()))


def without_word_on_nulls(call: exp.Expr) -> tuple[exp.Expr, bool | None]:
    """A call without IGNORE NULLS or RESPECT NULLS, which stands in its parentheses or behind them; and whether it says
    to ignore them, None if it says nothing."""
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        return call.this, isinstance(call, exp.IgnoreNulls)
    args = list(call.expressions) if isinstance(call, exp.Anonymous) else []
    inside = [one.this if isinstance(one, exp.Order) else one for one in args]
    place = next((i for i, one in enumerate(inside) if isinstance(one, exp.IgnoreNulls | exp.RespectNulls)), None)
    if place is None:
        return call, None
    plain = call.copy()
    word = plain.expressions[place]
    word = word.this if isinstance(word, exp.Order) else word
    word.replace(word.this)
    return plain, isinstance(word, exp.IgnoreNulls)


@dataclass(frozen=True)
class _Asked:
    """What is asked for: an aggregate of bound arguments. `only` is the condition of FILTER; changing: rows have no
    time."""

    node: exp.Anonymous
    function: str
    args: list[Expression]
    only: exp.Expr | None
    keys: tuple[SortKey, ...]
    distinct: bool
    changing: bool


@dataclass(frozen=True)
class AggregateCalls:
    """Binds aggregates that stand in a clause, which `around` binds; their arguments `inside` binds. over: OVER
    follows."""

    around: ClauseBinder
    inside: ClauseBinder
    over: bool = False

    def bind(self, node: exp.Anonymous, only: exp.Expr | None = None) -> Expression:
        """`only` is the condition of FILTER."""
        brought = self.around.own_functions.get(node.name.lower())
        function = aggregate_name(node.name) if brought is None else brought.call_name
        assert function is not None
        self._check_place(node)
        self._check_time(node, function, brought)
        node = self._without_word(node, function)
        asked = self._asked(node, function, only)
        of_json = function in GIVING_JSON and bool(asked.args) and is_json(asked.args[-1])
        if of_json and (self.over or function == "jsonb_object_agg"):
            raise self.around.error(
                f"{node.name.upper()} of JSON {'with OVER ' * self.over}is not supported",
                node,
                kind=UnsupportedError,
                hint="write JSON_AGG or JSON_OBJECT_AGG of it, in a query with GROUP BY",
            )
        try:
            if of_json:
                return self._of_json(asked)
            return self._known(asked) if brought is None else self._brought(brought, asked)
        except TypeError as error:
            raise self.around.error(str(error), node) from None

    def filtered(self, node: exp.Filter) -> Expression:
        """`f(x) FILTER (WHERE c)`: rows where the condition does not hold do not count."""
        call, condition = node.this, node.expression.this
        if isinstance(call, exp.WithinGroup):
            return self.within(call, condition)
        if (made := made_of_aggregates(call, condition, self.around.own_functions)) is not None:
            return self.around.bind(made)
        if not names_aggregate(call, self.around.own_functions):
            raise self.around.error(
                "FILTER (WHERE …) goes with an aggregate", node, hint="write COUNT(*) FILTER (WHERE x > 1)"
            )
        return self.bind(call, condition)

    def with_word_on_nulls(self, node: exp.IgnoreNulls | exp.RespectNulls) -> Expression:
        """`f(x) IGNORE NULLS` as `f(x IGNORE NULLS)`, which aggregates read."""
        call = node.this
        if not isinstance(call, exp.Anonymous) or aggregate_name(call.name) is None or not call.expressions:
            words = "IGNORE NULLS" if isinstance(node, exp.IgnoreNulls) else "RESPECT NULLS"
            raise self.around.error(f"{words} goes with FIRST(x) and LAST(x), or with functions of OVER", node)
        return self.bind(_instead(node, call.name, [type(node)(this=call.expressions[0]), *call.expressions[1:]]))

    def within(self, node: exp.WithinGroup, only: exp.Expr | None = None) -> Expression:
        """`PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)` is PERCENTILE(x, 0.5), `MODE() WITHIN GROUP (ORDER BY x)`
        MODE(x ORDER BY x), and `LISTAGG(s, ',') WITHIN GROUP (ORDER BY x)` LISTAGG(s, ',' ORDER BY x)."""
        call, keys = node.this, list(node.expression.expressions)
        given = list(call.expressions) if isinstance(call, exp.Anonymous) else []
        function = aggregate_name(call.name)
        by = keys[0]
        match function:
            case "percentile" | "percentile_disc" if len(keys) == 1 and _is_share(call, given):
                made = [by.this, given[0]]
            case "mode" if len(keys) == 1 and not given:
                made = [exp.Order(this=by.this, expressions=keys)]
            case "string_agg" | "array_agg" | "json_agg" | "first" | "last" if given:
                made = [*given[:-1], exp.Order(this=given[-1], expressions=keys)]
            case _:
                raise self.around.error(
                    "WITHIN GROUP goes with a percentile, a mode or a list",
                    node,
                    hint="write PERCENTILE_DISC(0.95) WITHIN GROUP (ORDER BY x), MODE() WITHIN GROUP (ORDER BY x) or "
                    "LISTAGG(s, ',') WITHIN GROUP (ORDER BY x)",
                )
        bound = self.bind(_instead(node, call.name, made), only)
        if not by.args.get("desc") or function not in _PERCENTILES:
            return bound
        assert isinstance(bound, Aggregate)
        return _from_the_top(bound)

    # -- what is written ------------------------------------------------------------------------------------

    def _check_place(self, node: exp.Anonymous) -> None:
        if not self.around.aggregates:
            raise self.around.error(
                f"{node.name.upper()} is an aggregate and cannot stand in {self.around.clause}",
                node,
                hint="conditions on aggregates go into HAVING; one inside another needs a subquery",
            )

    @property
    def _changing(self) -> bool:
        """Whether the rows are those of an answer that changes, and have no time."""
        return not self.over and any(one.is_view for one in self.around.scope.inputs)

    def _check_time(self, node: exp.Anonymous, function: str, brought: UserFunction | None) -> None:
        picks = function in BY_TIME and function not in (*IN_ORDER, "mode")
        picks = picks or (brought is not None and not brought.is_incremental)
        ordered = any(isinstance(part, exp.Order) for part in node.expressions)
        if picks and not ordered and self._changing:
            raise self.around.error(
                f"{node.name.upper()} goes by event time, and rows of an answer that changes have none",
                node,
                hint=f"say in which order: {node.name.upper()}(x ORDER BY y); or write MIN or MAX, or take the rows as "
                f"they appear: (SELECT ISTREAM …) [RANGE 1 HOUR]",
            )

    def _without_word(self, node: exp.Anonymous, function: str) -> exp.Anonymous:
        """The call without IGNORE NULLS, which says what is so anyway."""
        said, ignores = without_word_on_nulls(node)
        if ignores is not None and function not in ("first", "last"):
            raise self.around.error(
                "IGNORE NULLS and RESPECT NULLS go with FIRST and LAST",
                node,
                hint=f"others pass over NULLs anyway; or write {node.name.upper()}(x) FILTER (WHERE x IS NOT NULL)",
            )
        if ignores is False:
            raise self.around.error(
                f"{node.name.upper()} passes over NULLs, and RESPECT NULLS is not supported outside OVER",
                node,
                hint="write FIRST_VALUE(x) OVER (PARTITION BY k ORDER BY ts), or COALESCE(x, …) in its place",
                kind=UnsupportedError,
            )
        assert isinstance(said, exp.Anonymous)
        return said

    def _asked(self, node: exp.Anonymous, function: str, only: exp.Expr | None) -> _Asked:
        nodes, written, distinct = _written_inside(node)
        if function == "count" and len(nodes) == 1 and isinstance(nodes[0], exp.Star) and not distinct:
            nodes = []
        elif function == "count" and not nodes and not distinct:
            raise self.around.error("COUNT needs a column or *", node, hint="write COUNT(*)")
        if function in ("first", "last") and len(nodes) == 2 and nodes[1] == exp.true():
            nodes = nodes[:1]  # Spark's word for IGNORE NULLS
        args, keys = self.inside.bind_all(nodes), self._sort_keys(written)
        if distinct and any(key.expression not in args for key in keys):
            raise self.around.error(
                "with DISTINCT an aggregate is ordered by what it is of: rows with equal values are one",
                node,
                hint=f"write {node.name.upper()}(DISTINCT x ORDER BY x)",
            )
        return _Asked(node, function, args, only, keys, distinct, self._changing)

    def _sort_keys(self, written: Sequence[exp.Expr]) -> tuple[SortKey, ...]:
        """ORDER BY inside an aggregate."""
        keys = []
        for one in written:
            bound = self.inside.bind(one.this)
            keys.append(SortKey(bound, bool(one.args.get("desc")), bool(one.args.get("nulls_first"))))
        scope = self.inside.scope
        match keys, scope.inputs:
            # In the order of event time values come anyway, if rows enter so.
            case [SortKey(Column() as time, False)], [read] if not self.over and scope.is_time(time):
                if not moves_in_steps(read.window):
                    return ()
        # Constants tell no rows apart.
        return tuple(key for key in dict.fromkeys(keys) if not isinstance(key.expression, Literal))

    # -- what is made of it ---------------------------------------------------------------------------------

    def _of_json(self, asked: _Asked) -> Expression:
        """JSON_AGG and JSON_OBJECT_AGG of values that are JSON already: they stay as they are, between commas."""
        function, args, node = asked.function, asked.args, asked.node
        if asked.distinct and len(args) > 1:
            raise TypeError(_of_one(function))
        text = self.inside.call("coalesce", [args[-1], Literal("null", pa.string())], node)
        if function == "json_object_agg":
            name = self.inside.call("to_json", [self.inside.converted(args[0], pa.string(), node)], node)
            text = self.inside.call("concat", [name, Literal(":", pa.string()), text], node)
        joined = self._known(replace(asked, function="string_agg", args=[text, Literal(",", pa.string())]))
        begin, end = (Literal(one, pa.string()) for one in ("{}" if function == "json_object_agg" else "[]"))
        return self.inside.call("json_enclosed", [begin, joined, end], node)

    def _known(self, asked: _Asked) -> Aggregate:
        """An aggregate of the language. Raises TypeError."""
        function = asked.function
        _check_known(asked)
        args = self._as_collected(asked)
        nested = bool(args) and pa.types.is_nested(args[0].type)
        if nested and function in ("min", "max"):
            return self._first_by(replace(asked, function=f"arg_{function}", args=[args[0], args[0]]), args[0].type)
        kind = aggregate_type(function, [arg.type for arg in args])
        if asked.distinct and len(args) > 1 and function in WITH_NULLS:
            raise TypeError(_of_one(function))
        if function in _EXTREMES and (asked.keys or nested):
            return self._first_by(replace(asked, args=args), kind)
        if function not in BY_TIME:
            asked = replace(asked, keys=())  # what has an order of its own, or none
        distinct = asked.distinct and function not in ("first", "last")
        made = Aggregate(function, tuple(args), kind, distinct, timeless=distinct and function in IN_ORDER)
        by_values = asked.changing and function in (*IN_ORDER, "mode") and not distinct
        if asked.keys or function in WITH_NULLS or by_values:
            return self._marked(made, self._present(args[:1], asked) if function in _WITH_KEYS else [], asked)
        args = self._where(asked.only, args)
        if function in PAIRED:
            args = [Call("cast", (arg,), pa.float64()) if arg.type != pa.float64() else arg for arg in args]
        if function in (*_EXTREMES, *PAIRED):
            args = [self.inside.call("pack", args, asked.node)]
        return replace(made, args=tuple(args))

    def _first_by(self, asked: _Asked, kind: pa.DataType) -> Aggregate:
        """ARG_MIN and ARG_MAX with ORDER BY, or of what is nested: the first by what it is compared by, and then by the
        others."""
        value, by = asked.args
        keys = (SortKey(by, asked.function == "arg_max"), *asked.keys)
        return self._marked(
            Aggregate("first", (value,), kind), self._present(asked.args, asked), replace(asked, keys=keys)
        )

    def _present(self, values: list[Expression], asked: _Asked) -> list[Expression]:
        tests = [self.inside.call("is_null", [value], asked.node) for value in dict.fromkeys(values)]
        return [self.inside.call("not", [test], asked.node) for test in tests]

    def _as_collected(self, asked: _Asked) -> list[Expression]:
        """Keys of objects are text, and NULL has a type."""
        if asked.function not in WITH_NULLS:
            return asked.args
        typed = [Literal(None, pa.string()) if arg == literals.NULL else arg for arg in asked.args]
        if asked.function in ("json_object_agg", "jsonb_object_agg") and not is_text(typed[0].type):
            typed[0] = self.inside.converted(typed[0], pa.string(), asked.node)
        return typed

    def _marked(self, made: Aggregate, conditions: list[Expression], asked: _Asked) -> Aggregate:
        """An aggregate of rows that count, in an order. Where rows have no time they go by their values in the end."""
        constants = made.args[1:] if made.function == "string_agg" else ()
        values = made.args[: len(made.args) - len(constants)]
        keys = asked.keys
        # Values that are equal, and compared by themselves, are one in any order.
        if asked.changing or made.distinct:
            keys = (*keys, *(SortKey(value) for value in values if value not in [key.expression for key in keys]))
        whole = {key.expression for key in keys} >= set(values)
        if asked.only is not None:
            conditions = [*conditions, self._filter(asked.only)]
        counts = (
            Literal(True, pa.bool_())
            if not conditions
            else reduce(lambda left, right: self.inside.call("and", [left, right], asked.node), conditions)
        )
        packed = self.inside.call("pack", [counts, *values, *(key.expression for key in keys)], asked.node)
        ways = tuple(Way(key.descending, key.nulls_first) for key in keys)
        return replace(made, args=(packed, *constants), order_by=ways, timeless=whole or made.timeless)

    def _filter(self, condition: exp.Expr) -> Expression:
        return replace(self.inside, clause="FILTER").condition(condition)

    def _where(self, condition: exp.Expr | None, args: list[Expression]) -> list[Expression]:
        """The arguments of an aggregate, NULL where a condition does not hold: NULLs are passed over."""
        if condition is None:
            return args
        value, *others = args or [Literal(1, pa.int64())]
        chosen = [self._filter(condition), value, Literal(None, value.type)]
        return [self.inside.call("case", chosen, condition), *others]

    def _brought(self, brought: UserFunction, asked: _Asked) -> Aggregate:
        """An aggregate of one's own. Raises TypeError."""
        located, args = as_declared(self.inside, brought, asked.args, asked.node)
        if asked.distinct and len(args) > 1:
            raise TypeError("DISTINCT goes with an aggregate of one argument")
        # One argument as declared, so that nothing has to be converted for every group.
        typed = [arg if arg.type == want else Call("cast", (arg,), want)
                 for arg, want in zip(args, located.arguments, strict=True)]  # fmt: skip
        made = Aggregate(located.call_name, tuple(typed), located.result, asked.distinct, located)
        if brought.is_incremental:
            if asked.keys:
                raise TypeError(
                    f"{brought.name} is told values as they come and go, so ORDER BY in it would say nothing; leave it "
                    "out, or bring a function of all values"
                )
            # In whichever order they came: of rows that have no time too.
            asked, made = replace(asked, changing=False), replace(made, timeless=True)
        if asked.keys or len(typed) > 1 or asked.changing:
            return self._marked(made, [], asked)
        return replace(made, args=tuple(self._where(asked.only, typed)))


def _instead(node: exp.Expr, name: str, args: Sequence[exp.Expr]) -> exp.Anonymous:
    """A call that stands for something else; errors point at what was written."""
    meant = exp.Anonymous(this=name, expressions=list(args))
    meant.meta.update(node.meta)
    return meant


def _is_share(call: exp.Anonymous, given: list[exp.Expr]) -> bool:
    """A share, and of what is approximate elsewhere how much it may be off: here it is exact."""
    extra = given[1:]
    return len(given) == 1 or (len(extra) == 1 and "approx" in call.name.lower() and isinstance(extra[0], exp.Literal))


def _from_the_top(call: Aggregate) -> Aggregate:
    """A percentile of values in descending order."""
    value, share = call.args
    assert isinstance(share, Literal)
    if call.function == "percentile_disc":
        return replace(call, args=(value, share, Literal(True, pa.bool_())))
    return replace(call, args=(value, Literal(float(1 - exact_share(share.value)), pa.float64())))


def _written_inside(node: exp.Anonymous) -> tuple[list[exp.Expr], list[exp.Expr], bool]:
    """The arguments of an aggregate, its ORDER BY, and whether they are DISTINCT."""
    nodes, order = list(node.expressions), []
    if nodes and isinstance(nodes[-1], exp.Order):
        nodes, order = [*nodes[:-1], nodes[-1].this], list(nodes[-1].expressions)
    if len(nodes) == 1 and isinstance(nodes[0], exp.Distinct):
        return list(nodes[0].expressions), order, True
    return nodes, order, False


def _check_known(asked: _Asked) -> None:
    """What an aggregate of the language needs, besides types. Raises TypeError."""
    function, args, name = asked.function, asked.args, asked.function.upper()
    if asked.distinct and function in ("mode", *_EXTREMES):
        raise TypeError(f"{name} over DISTINCT values has no meaning")
    if function in _PERCENTILES and len(args) == 2:
        share = args[1].value if isinstance(args[1], Literal) else None
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            several = "; of several each is a column of its own" if isinstance(args[1], Call) else ""
            raise TypeError(f"{name} needs a constant between 0 and 1, for example {name}(x, 0.95){several}")
        if function == "percentile_disc" and exact_share(share).denominator > 10**9:
            raise TypeError("PERCENTILE_DISC counts with nine digits behind the point, and this has more")
    separator = args[1] if function == "string_agg" and len(args) > 1 else Literal(",", pa.string())
    if not isinstance(separator, Literal) or separator.value is None:
        raise TypeError("STRING_AGG needs a constant text between the values, for example STRING_AGG(s, ', ')")
    if function in ("min", "max") and len(args) == 2:
        most = "TOPK(x, 3)" if function == "max" else "ARRAY_AGG(x ORDER BY x)[1:3]"
        raise TypeError(f"{name} takes one argument; a list of three such values is {most}")
    if asked.distinct and function in PAIRED:
        raise TypeError(f"{name} is of pairs, and DISTINCT goes with one argument")


def _of_one(function: str) -> str:
    return f"DISTINCT goes with an aggregate of one argument, and {function.upper()} has two"
