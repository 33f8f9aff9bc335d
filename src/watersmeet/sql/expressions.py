"""Scalar expressions: from sqlglot trees to typed plan expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import BindError, UnsupportedError
from watersmeet.model.types import arrow_type, is_instant, is_text, sql_type
from watersmeet.model.zones import zoned_type
from watersmeet.plan.expressions import Aggregate, Call, EventTime, Expression, Literal
from watersmeet.plan.functions import (
    TRUNCATION_UNITS,
    aggregate_name,
    aggregate_type,
    check_cast,
    near_name,
    result_type,
    scalar_name,
)
from watersmeet.sql import literals
from watersmeet.sql.equivalents import equivalent
from watersmeet.sql.foreign import FUNCTIONS as FOREIGN
from watersmeet.sql.midnights import mixes_dates, warn_of_midnights, with_midnights
from watersmeet.sql.scope import Scope, event_time_type
from watersmeet.sql.syntax import Constant, Duration, Name, Subquery, WindowCondition, span_of

_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
    exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply", exp.Div: "divide", exp.Mod: "modulo",
    exp.And: "and", exp.Or: "or",
}  # fmt: skip
_ALIKE = ("eq", "ne", "lt", "le", "gt", "ge", "coalesce", "greatest", "least")
_MEETING = ("eq", "ne", "lt", "le", "gt", "ge", "in", "coalesce", "nullif", "greatest", "least")
_PARTS = ("year", "month", "day", "hour", "minute", "second")


@dataclass(frozen=True)
class ExpressionBinder:
    """Binds expressions of one clause. `clause` names it in messages about what may not stand there."""

    scope: Scope
    clause: str
    aggregates: bool = False
    event_time: bool = True

    def bind(self, node: exp.Expr) -> Expression:
        match node:
            case exp.Column():
                return self._column(node)
            case exp.Paren():
                return self.bind(node.this)
            case Duration():
                return literals.interval(node.args["us"])
            case Constant():
                literal: Literal = node.args["literal"]
                return Literal(literal.value, zoned_type(literal.type, self.scope.zone))
            case exp.Literal():
                return literals.number(node.this) if not node.is_string else Literal(node.this, pa.string())
            case exp.Boolean():
                return Literal(bool(node.this), pa.bool_())
            case exp.Null():
                return literals.NULL
            case exp.Neg():
                return self._negation(node)
            case exp.Not():
                return self.call("not", [self.bind(node.this)], node)
            case exp.Anonymous():
                return self._function(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Case():
                return self._case(node)
            case Subquery():
                return self._value_of_query(node)
        return self._predicate(node)

    def condition(self, node: exp.Expr) -> Expression:
        bound = self.bind(node)
        # WHERE NULL is legal: a condition that never holds.
        if bound == literals.NULL:
            return Literal(None, pa.bool_())
        if not pa.types.is_boolean(bound.type):
            raise self.error(
                f"{self.clause} needs a condition, but this is {sql_type(bound.type)}",
                node,
                hint="compare it with something, for example = 1",
            )
        return bound

    def call(self, function: str, args: Sequence[Expression], node: exp.Expr) -> Expression:
        try:
            # Before the arguments are fitted, which makes a time of the date.
            if function == "eq":
                warn_of_midnights(*args)
            fitted = self._fit(function, list(args))
            if function in ("in", "nullif") and mixes_dates(fitted):
                return self._by_pairs(function, fitted, node)
            return Call(function, tuple(fitted), result_type(function, [arg.type for arg in fitted]))
        except (TypeError, ValueError) as error:
            raise self.error(str(error), node) from None

    def error(
        self,
        message: str,
        node: exp.Expr,
        *,
        hint: str | None = None,
        kind: type[BindError | UnsupportedError] = BindError,
    ) -> Exception:
        return self.scope.text.error(message, span_of(node), hint=hint, kind=kind)

    def _by_pairs(self, function: str, args: list[Expression], node: exp.Expr) -> Expression:
        """IN and NULLIF between dates and times, where a date is another midnight for each it is compared with."""
        tests = [self.call("eq", [args[0], other], node) for other in args[1:]]
        if function == "nullif":
            return self.call("case", [tests[0], literals.NULL, args[0]], node)
        return tests[0] if len(tests) == 1 else self.call("or", tests, node)

    @staticmethod
    def _fit(function: str, args: list[Expression]) -> list[Expression]:
        if function in _MEETING:
            met = literals.meet(args)
            # IN and NULLIF keep their dates here: each pair is compared by itself, below.
            return with_midnights(met) if function in _ALIKE else met
        if function == "case":
            # The results of a CASE meet each other; its conditions, in between, stay as they are.
            values = with_midnights(literals.meet([*args[1:-1:2], args[-1]]))
            pairs = [part for pair in zip(args[0:-1:2], values[:-1], strict=True) for part in pair]
            return [*pairs, values[-1]]
        if function in ("add", "subtract") and any(is_instant(a.type) or pa.types.is_duration(a.type) for a in args):
            return with_midnights([_as_interval(arg) for arg in args])
        return args

    def _column(self, node: exp.Column) -> Expression:
        if isinstance(node.this, exp.Star):
            raise self.error("* cannot stand inside an expression", node)
        if node.args.get("db") is not None:
            raise self.error(f"{self.scope.text.piece(span_of(node))} has too many parts", node, hint="write a.column")
        table = node.args.get("table")
        name = Name(node.name, span_of(node.this) or span_of(node) or (0, 1))
        source = Name(table.name, span_of(table) or name.span) if table is not None else None
        return self.scope.column(source, name)

    def _negation(self, node: exp.Neg) -> Expression:
        inner = self.bind(node.this)
        if isinstance(inner, Literal) and isinstance(inner.value, int | float) and not isinstance(inner.value, bool):
            return literals.negated(inner)
        return self.call("negate", [inner], node)

    def _predicate(self, node: exp.Expr) -> Expression:
        function = _BINARY.get(type(node))
        if function is not None:
            return self.call(function, [self.bind(node.this), self.bind(node.expression)], node)
        match node:
            case exp.DPipe():
                return self._joined_texts(node)
            case exp.Between():
                return self._between(node)
            case exp.In(expressions=[Subquery()]):
                raise self._misplaced_query(node)
            case exp.In() if node.expressions:
                return self.call("in", [self.bind(part) for part in (node.this, *node.expressions)], node)
            case exp.Is():
                return self._is(node)
            case exp.NullSafeEQ():
                return self._same(node)
            case exp.NullSafeNEQ():
                return self.call("not", [self._same(node)], node)
            case exp.Like() | exp.ILike():
                return self._like(node)
            case exp.Extract():
                return self._part(str(node.this.name).lower(), node.expression, node)
        raise self._unsupported(node)

    def _value_of_query(self, node: Subquery) -> Expression:
        if self.scope.value_of is None:
            raise self.error(
                f"a query cannot stand in {self.clause}",
                node,
                hint="write it into the select list, WHERE or HAVING",
                kind=UnsupportedError,
            )
        return self.scope.value_of(node.args["query"], span_of(node) or (0, 1))

    def _joined_texts(self, node: exp.DPipe) -> Expression:
        try:
            return self.call("concat", [self.bind(node.this), self.bind(node.expression)], node)
        except BindError as error:
            error.hint = error.hint or "|| joins texts; between conditions write OR"
            raise

    def _between(self, node: exp.Between) -> Expression:
        value = self.bind(node.this)
        low = self.call("ge", [value, self.bind(node.args["low"])], node)
        high = self.call("le", [value, self.bind(node.args["high"])], node)
        return self.call("and", [low, high], node)

    def _is(self, node: exp.Is) -> Expression:
        value = self.bind(node.this)
        match node.expression:
            case exp.Null():
                test = self.call("is_null", [value], node)
            case exp.Boolean(this=truth):
                same = self.call("eq", [value, Literal(bool(truth), pa.bool_())], node)
                # IS TRUE is false of NULL, where = would be NULL.
                test = self.call("coalesce", [same, Literal(False, pa.bool_())], node)
            case _:
                raise self.error("IS goes with NULL, TRUE or FALSE", node, hint="compare other values with =")
        return self.call("not", [test], node) if node.args.get("negate") else test

    def _same(self, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Expression:
        """IS NOT DISTINCT FROM: equal, or both NULL; never NULL itself."""
        left, right = self.bind(node.this), self.bind(node.expression)
        equal = self.call("eq", [left, right], node)
        certain = self.call("coalesce", [equal, Literal(False, pa.bool_())], node)
        missing = [self.call("is_null", [one], node) for one in (left, right)]
        return self.call("or", [certain, self.call("and", missing, node)], node)

    def _like(self, node: exp.Like | exp.ILike) -> Expression:
        args = [self.bind(node.this), self.bind(node.expression)]
        if isinstance(node, exp.ILike):
            args = [self.call("lower", [arg], node) for arg in args]
        test = self.call("like", args, node)
        return self.call("not", [test], node) if node.args.get("negate") else test

    def _cast(self, node: exp.Cast) -> Expression:
        value = self.bind(node.this)
        sql = self.scope.text.piece(span_of(node.args["to"]))
        target = arrow_type(sql)
        if target is None:
            raise self.error(f"{sql} is not a type that CAST knows", node)
        target = zoned_type(target, self.scope.zone)
        try:
            # How an instant reads as text is left to the operators, so that constants and columns read alike.
            if isinstance(value, Literal) and not (is_instant(value.type) and is_text(target)):
                return literals.cast(value, target)
            check_cast(value.type, target)
        except (TypeError, ValueError) as error:
            raise self.error(str(error), node) from None
        return Call("cast", (value,), target)

    def _case(self, node: exp.Case) -> Expression:
        args: list[Expression] = []
        for when in node.args["ifs"]:
            condition = self.bind(when.this)
            if node.this is not None:
                condition = self.call("eq", [self.bind(node.this), condition], when)
            args += [condition, self.bind(when.args["true"])]
        otherwise = node.args.get("default")
        args.append(self.bind(otherwise) if otherwise is not None else literals.NULL)
        return self.call("case", args, node)

    def _part(self, part: str, value: exp.Expr, node: exp.Expr) -> Expression:
        if part not in _PARTS:
            epoch = "EPOCH_US(ts) is microseconds since 1970; " if part == "epoch" else ""
            raise self.error(f"{part} is not a part of a time", node, hint=f"{epoch}the parts are {', '.join(_PARTS)}")
        return self.call(part, [self.bind(value)], node)

    # -- functions ------------------------------------------------------------------------------------------

    def _function(self, node: exp.Anonymous) -> Expression:
        written = str(node.name)
        if written.lower() == "event_time":
            return self._event_time(node)
        if (aggregate := aggregate_name(written)) is not None:
            return self._aggregate(aggregate, node)
        if (meant := equivalent(node)) is not None:
            return self.bind(meant)
        scalar = scalar_name(written)
        if scalar is None:
            near = near_name(written)
            hint = FOREIGN.get(written.lower()) or (f"did you mean {near}?" if near else None)
            raise self.error(f"there is no function {written}", node, hint=hint)
        if scalar == "date_trunc":
            self._check_unit(node)
        return self.call(scalar, [self.bind(arg) for arg in node.expressions], node)

    def _check_unit(self, node: exp.Anonymous) -> None:
        unit = node.expressions[0] if node.expressions else None
        if not isinstance(unit, exp.Literal) or str(unit.this).lower() not in TRUNCATION_UNITS:
            raise self.error(
                "DATE_TRUNC needs one of its units as a text constant",
                node,
                hint=f"the units are {', '.join(TRUNCATION_UNITS)}; write DATE_TRUNC('hour', ts)",
            )
        # The operators know the units in lower case.
        unit.set("this", str(unit.this).lower())

    def _event_time(self, node: exp.Anonymous) -> Expression:
        if node.expressions:
            raise self.error("event_time() takes no arguments: it is the newest member's time", node)
        if not self.event_time:
            raise self.error(
                f"event_time() cannot stand in {self.clause}: it is known once a combination is complete",
                node,
                hint="compare the time columns of the streams instead",
            )
        if all(one.time is None for one in self.scope.inputs):
            raise self.error(
                "event_time() is the time of the newest row, and rows of an answer that changes have none",
                node,
                hint="select a time inside the subquery, for example MAX(ts) AS newest",
            )
        return EventTime(event_time_type(self.scope.inputs, self.scope.zone))

    def _aggregate(self, function: str, node: exp.Anonymous) -> Expression:
        if not self.aggregates:
            raise self.error(
                f"{node.name.upper()} is an aggregate and cannot stand in {self.clause}",
                node,
                hint="conditions on aggregates go into HAVING; one inside another needs a subquery",
            )
        if function in ("first", "last") and any(one.is_view for one in self.scope.inputs):
            raise self.error(
                f"{node.name.upper()} goes by event time, and rows of an answer that changes have none",
                node,
                hint="write MIN or MAX, or take the rows as they appear: (SELECT ISTREAM …) [RANGE 1 HOUR]",
            )
        # Aggregates do not nest.
        inside = ExpressionBinder(self.scope, "an aggregate", aggregates=False)
        nodes, distinct = list(node.expressions), False
        if len(nodes) == 1 and isinstance(nodes[0], exp.Distinct):
            nodes, distinct = list(nodes[0].expressions), True
        if function == "count" and len(nodes) == 1 and isinstance(nodes[0], exp.Star) and not distinct:
            nodes = []
        elif function == "count" and not nodes and not distinct:
            raise self.error("COUNT needs a column or *", node, hint="write COUNT(*)")
        args = [inside.bind(arg) for arg in nodes]
        try:
            self._check_percentile(function, args)
            return Aggregate(function, tuple(args), aggregate_type(function, [arg.type for arg in args]), distinct)
        except TypeError as error:
            raise self.error(str(error), node) from None

    @staticmethod
    def _check_percentile(function: str, args: list[Expression]) -> None:
        if function == "percentile" and len(args) == 2:
            share = args[1].value if isinstance(args[1], Literal) else None
            if not isinstance(share, int | float) or not 0 <= share <= 1:
                raise TypeError("PERCENTILE needs a constant between 0 and 1, for example PERCENTILE(x, 0.95)")

    def _misplaced_query(self, node: exp.Expr) -> Exception:
        return self.error(
            "EXISTS and IN with a query are conditions of WHERE, joined to the others by AND",
            node,
            hint="with OR write two queries and UNION, or a LEFT JOIN and a condition on its columns",
            kind=UnsupportedError,
        )

    def _unsupported(self, node: exp.Expr) -> Exception:
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and not node.expressions):
            return self._misplaced_query(node)
        if isinstance(node, WindowCondition):
            return self.error("a WINDOW constraint must stand by itself, joined to the rest by AND", node)
        if isinstance(node, exp.Window):
            return self.error(
                "OVER (…) is not supported",
                node,
                kind=UnsupportedError,
                hint="give the stream a window and use GROUP BY: FROM a [RANGE 1 HOUR] GROUP BY k",
            )
        if isinstance(node, exp.Filter):
            return self.error(
                "FILTER (WHERE …) is not supported",
                node,
                kind=UnsupportedError,
                hint="write COUNT(CASE WHEN x > 1 THEN 1 END) or SUM(CASE WHEN x > 1 THEN y END)",
            )
        if isinstance(node, exp.AtTimeZone):
            return self.error(
                "AT TIME ZONE is not supported",
                node,
                kind=UnsupportedError,
                hint="OPTIONS (timezone = 'America/New_York') says in which zone a query reads instants",
            )
        if isinstance(node, exp.RegexpLike):
            return self.error("REGEXP is not supported", node, kind=UnsupportedError, hint="LIKE knows % and _")
        if isinstance(node, exp.Alias):
            return self.error("AS can name only a whole column of the select list", node)
        if isinstance(node, exp.Star):
            return self.error("* cannot stand inside an expression", node, hint="COUNT(*) counts rows")
        words = self.scope.text.piece(span_of(node))
        return self.error(f"{words} is not supported in an expression", node, kind=UnsupportedError)


def _as_interval(arg: Expression) -> Expression:
    """A text constant added to a time or an interval is an interval."""
    if isinstance(arg, Literal) and is_text(arg.type):
        return literals.fitted(arg, pa.duration("us"))
    return arg
