"""Scalar expressions: from sqlglot trees to typed plan expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import BindError, UnsupportedError, underline
from watersmeet.model.types import arrow_type, is_instant, is_number, is_text, sql_type
from watersmeet.model.windows import moves_in_steps
from watersmeet.model.zones import zoned_type
from watersmeet.plan.expressions import (
    BY_TIME,
    IN_ORDER,
    WITH_NULLS,
    Aggregate,
    Call,
    Column,
    EventTime,
    Expression,
    Literal,
    SortKey,
    Way,
    to_text,
    walk,
)
from watersmeet.plan.functions import (
    PAIRED,
    TRUNCATION_UNITS,
    aggregate_name,
    aggregate_type,
    check_cast,
    exact_share,
    near_name,
    result_type,
    scalar_name,
)
from watersmeet.plan.nested_functions import is_list
from watersmeet.plan.text_functions import GIVING_JSON
from watersmeet.plan.time_functions import PARTS, part_named, unit_named
from watersmeet.plan.user_functions import UserFunction
from watersmeet.sql import literals
from watersmeet.sql.counting import Test, counted, equal_to, is_null, is_one_row
from watersmeet.sql.equivalents import equivalent
from watersmeet.sql.foreign import FUNCTIONS as FOREIGN
from watersmeet.sql.midnights import mixes_dates, warn_of_midnights, with_midnights
from watersmeet.sql.pair_aggregates import of_pairs
from watersmeet.sql.quotients import COMPARISONS, warn_of_quotients
from watersmeet.sql.refused_functions import REFUSED
from watersmeet.sql.scope import Scope, event_time_type, field_index
from watersmeet.sql.syntax import (
    AsDate,
    Bound,
    Constant,
    Duration,
    JsonAccess,
    Months,
    Name,
    Subquery,
    WindowCondition,
    Xor,
    span_of,
)

_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
    exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply", exp.Div: "divide", exp.Mod: "modulo",
    exp.And: "and", exp.Or: "or",
    exp.IntDiv: "int_divide", exp.BitwiseAnd: "bit_and", exp.BitwiseOr: "bit_or", exp.Pow: "power",
    exp.BitwiseLeftShift: "shift_left", exp.BitwiseRightShift: "shift_right", exp.RegexpLike: "regexp_matches",
    exp.SimilarTo: "regexp_full_match", Xor: "xor",
}  # fmt: skip
_WITH_KEYS = ("json_object_agg", "jsonb_object_agg", "map_agg")  # rows whose first argument is NULL do not count
_TO_MONTHS = {"to_months": 1, "to_quarters": 3, "to_years": 12}
_JSON_TYPES = ("JSON", "JSONB")
_ALIKE = ("eq", "ne", "lt", "le", "gt", "ge", "coalesce", "greatest", "least", "list_value")
_MEETING = ("eq", "ne", "lt", "le", "gt", "ge", "in", "coalesce", "nullif", "greatest", "least", "list_value")


@dataclass(frozen=True)
class ExpressionBinder:
    """Binds expressions of one clause. `clause` names it in messages about what may not stand there."""

    scope: Scope
    clause: str
    aggregates: bool = False
    event_time: bool = True
    outputs: Mapping[str, Expression] = field(default_factory=dict)
    """What may be named besides columns, in lower case: those of the select list."""

    def bind(self, node: exp.Expr) -> Expression:
        match node:
            case exp.Column():
                return self._column(node)
            case exp.Paren():
                return self.bind(node.this)
            case Months():
                raise self._uneven(node)
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
            case exp.IgnoreNulls() | exp.RespectNulls():
                return self._with_word_on_nulls(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Case():
                return self._case(node)
            case Subquery():
                return self._value_of_query(node)
            case Bound():
                known: Expression = node.args["bound"]
                return known
            case AsDate():
                return self.converted(self.bind(node.this), pa.date32(), node)
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
            if function in COMPARISONS:
                warn_of_quotients(args, self.scope.text)
            if (constant := literals.computed(function, args)) is not None:
                return constant
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
        if function == "date_diff":
            return [args[0], *with_midnights(literals.meet([*args[1:]]))]
        if function == "time_bucket" and len(args) > 1:
            return [_as_interval(args[0]), *literals.meet(args[1:])]
        if function in ("add", "subtract") and any(is_instant(a.type) or pa.types.is_duration(a.type) for a in args):
            return with_midnights([_as_interval(arg) for arg in args])
        return args

    def _column(self, node: exp.Column) -> Expression:
        if isinstance(node.this, exp.Star):
            raise self.error("* cannot stand inside an expression", node)
        parts = [part for key in ("catalog", "db", "table", "this") if (part := node.args.get(key)) is not None]
        names = [Name(part.name, span_of(part) or span_of(node) or (0, 1)) for part in parts]
        computed = self.scope.computed_column(names)
        if computed is not None:
            made = self.bind(computed[0])
            for one in computed[1]:
                made = self._field(made, one.text, node)
            return made
        struct = self._struct_column(names)
        if struct is not None:
            value, fields = struct
            for one in fields:
                value = self._field(value, one.text, node)
            return value
        if len(names) > 2:
            raise self.error(f"{self.scope.text.piece(span_of(node))} has too many parts", node, hint="write a.column")
        if (
            len(names) == 1
            and (named := self.outputs.get(names[0].text.lower())) is not None
            and not any(field_index(one.schema, names[0].text) is not None for one in self.scope.inputs)
        ):
            return named
        merged = self.scope.merged_column(names[0]) if len(names) == 1 else None
        if merged is not None:
            return self.bind(merged)
        return self.scope.column(names[0] if len(names) == 2 else None, names[-1])

    def _struct_column(self, names: list[Name]) -> tuple[Expression, list[Name]] | None:
        """`s.field` and `a.s.field`: a struct and the fields to take of it. Sources win over columns."""
        inputs = {one.alias.lower() for one in self.scope.inputs} | set(self.scope.entries)
        # UNNEST(…) AS t without columns: t is the entry itself, whose fields may be asked for.
        if names[0].text.lower() in self.scope.entries and len(names) > 1:
            schema = self.scope.input(names[0]).schema
            if field_index(schema, names[1].text) is None and field_index(schema, names[0].text) is not None:
                return self.scope.column(names[0], names[0]), names[1:]
        if names[0].text.lower() in inputs:
            return (self.scope.column(names[0], names[1]), names[2:]) if len(names) > 2 else None
        if len(names) < 2 or not any(field_index(one.schema, names[0].text) is not None for one in self.scope.inputs):
            return None
        column = self.scope.column(None, names[0])
        if self.scope.stands_around(names[0].text) and not pa.types.is_struct(column.type):
            return None
        return column, names[1:]

    def _negation(self, node: exp.Neg) -> Expression:
        return self._negated(self.bind(node.this), node)

    def _negated(self, inner: Expression, node: exp.Expr) -> Expression:
        if isinstance(inner, Literal) and is_number(inner.type) and inner.value is not None:
            return literals.negated(inner)
        return self.call("negate", [inner], node)

    def _predicate(self, node: exp.Expr) -> Expression:
        function = _BINARY.get(type(node))
        if function in ("add", "subtract") and (moved := self._moved_by_months(node, function)) is not None:
            return moved
        if (listed := _any_of(node)) is not None:
            return self._among_listed(node, listed)
        if function is not None:
            return self.call(function, [self.bind(node.this), self.bind(node.expression)], node)
        match node:
            case exp.DPipe():
                return self._joined_texts(node)
            case exp.Between():
                return self._between(node)
            case exp.In(expressions=[Subquery() as query]):
                return self._is_among(query, node)
            case exp.Exists(this=Subquery() as query):
                return self._has_rows(query, node)
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
            case exp.Escape(this=exp.Like() | exp.ILike()):
                return self._like_with_escape(node)
            case exp.In() if node.args.get("field") is not None:
                return self.call("list_contains", [self.bind(node.args["field"]), self.bind(node.this)], node)
            case exp.Extract():
                return self._part(str(node.this.name).lower(), node.expression, node)
            case exp.BitwiseNot():
                return self.call("bit_not", [self.bind(node.this)], node)
            case exp.BitwiseXor():
                raise self.error(
                    "^ is a power in some languages and bits in others", node, hint="write POWER(x, y) or XOR(x, y)"
                )
            case exp.Trim():
                return self._trim(node)
            case exp.StrPosition():
                return self.call("strpos", [self.bind(node.this), self.bind(node.args["substr"])], node)
            case exp.Bracket():
                return self._bracket(node)
            case exp.Array():
                return self._list(node)
            case exp.Dot():
                return self._field(self.bind(node.this), node.expression.name, node)
            case JsonAccess():
                name = "json_extract_string" if node.args["as_text"] else "json_extract"
                path = self._json_steps(node) if node.args.get("by_steps") else self.bind(node.expression)
                return self.call(name, [self._json_text(node.this), path], node)
            case exp.Filter():
                return self._filtered(node)
            case exp.WithinGroup():
                return self.within(node)
            case exp.Window():
                return self.over(node)
        raise self._unsupported(node)

    def _moved_by_months(self, node: exp.Expr, function: str) -> Expression | None:
        """A time and months, which go by the calendar: `ts + INTERVAL 1 MONTH`, `INTERVAL 1 YEAR * n + ts`."""
        if (months := self._months_in(node.expression)) is not None:
            months = self.call("negate", [months], node) if function == "subtract" else months
            return self._months_later(self.bind(node.this), _folded(months), node)
        if function == "add" and (months := self._months_in(node.this)) is not None:
            return self._months_later(self.bind(node.expression), _folded(months), node)
        return None

    def _months_in(self, node: exp.Expr) -> Expression | None:
        """How many months an interval has; None if it has none, or is no interval."""
        match node:
            case exp.Paren():
                return self._months_in(node.this)
            case Months():
                return Literal(node.args["months"], pa.int64())
            case exp.Anonymous() if (each := _TO_MONTHS.get(str(node.name).lower())) and len(node.expressions) == 1:
                return self.call("multiply", [self.bind(node.expressions[0]), Literal(each, pa.int64())], node)
            case exp.Neg():
                months = self._months_in(node.this)
                return None if months is None else self.call("negate", [months], node)
            case exp.Mul():
                sides = (node.this, node.expression)
                for side, times in (sides, sides[::-1]):
                    if (months := self._months_in(side)) is not None:
                        return self.call("multiply", [self.bind(times), months], node)
        return None

    def _months_later(self, start: Expression, months: Expression, node: exp.Expr) -> Expression:
        if isinstance(start, Literal) and is_text(start.type):
            start = self.converted(start, pa.timestamp("us"), node)
        match start, months:
            case Literal(value=date()), Literal(value=int(count)) if getattr(start.type, "tz", None) is None:
                try:
                    return literals.months_later(start, count)
                except ValueError as error:
                    raise self.error(str(error), node) from None
        if not is_instant(start.type) and not pa.types.is_null(start.type):
            raise self._uneven(node)
        return self.call("plus_months", [start, months], node)

    def _uneven(self, node: exp.Expr) -> Exception:
        return self.error(
            "months and years have no fixed length, and are only added to times",
            node,
            hint="write ts + INTERVAL '1' MONTH; or the interval in days",
            kind=UnsupportedError,
        )

    def _among_listed(self, node: exp.Expr, listed: exp.Expr) -> Expression:
        """`x = ANY(l)` and `x <> ALL(l)`: not known if it is not found and there is a NULL in the list."""
        value, among = self.bind(node.this), self.bind(listed)
        found = self.call("list_contains", [among, value], node)
        nulls = self.call("lt", [self.call("list_count", [among], node), self.call("length", [among], node)], node)
        known = self.call("case", [found, Literal(True, pa.bool_()), nulls, Literal(None, pa.bool_()), found], node)
        return self.call("not", [known], node) if isinstance(node, exp.NEQ) else known

    def _value_of_query(self, node: Subquery) -> Expression:
        if self.scope.value_of is None:
            raise self.error(
                f"a query cannot stand in {self.clause}",
                node,
                hint="write it into the select list, WHERE or HAVING",
                kind=UnsupportedError,
            )
        return self.scope.value_of(node.args["query"], span_of(node) or (0, 1), "value")

    def _has_rows(self, query: Subquery, node: exp.Expr, asked: str = "rows", test: Test | None = None) -> Expression:
        number = counted(query.args["query"], self.scope.text.functions, test)
        if number is None or self.scope.value_of is None:
            raise self._misplaced_query(node)
        found = self.scope.value_of(number, span_of(node) or (0, 1), asked)
        none = Literal(0, pa.int64())
        return self.call("gt", [self.call("coalesce", [found, none], node), none], node)

    def _is_among(self, query: Subquery, node: exp.In) -> Expression:
        """x IN (a query): not known if it is not found and NULL is on either side, unless the query has no rows."""
        value = self.bind(node.this)
        if any(isinstance(part, Aggregate) for part in walk(value)):
            raise self.error(
                "IN with a query looks for values of rows, and these are values of groups",
                node,
                hint="write a query around: SELECT … FROM (SELECT k, COUNT(*) AS n … GROUP BY k) AS g WHERE g.n IN (…)",
                kind=UnsupportedError,
            )
        if is_one_row(query.args["query"], self.scope.text.functions):
            return self.call("eq", [value, self._value_of_query(query)], node)
        found = self._has_rows(query, node, "found", equal_to(value))
        if self._false_is_as_good(node):
            return found
        some, nulls = self._has_rows(query, node), self._has_rows(query, node, "nulls", is_null)
        unknown = self.call("and", [some, self.call("or", [self.call("is_null", [value], node), nulls], node)], node)
        yes, no, neither = (Literal(truth, pa.bool_()) for truth in (True, False, None))
        return self.call("case", [found, yes, unknown, neither, no], node)

    def _false_is_as_good(self, node: exp.Expr) -> bool:
        """Whether a condition stands where what is not known counts as false."""
        below, above = node, node.parent
        while isinstance(above, exp.And | exp.Or | exp.Paren):
            below, above = above, above.parent
        if above is None:
            return self.clause in ("WHERE", "HAVING")
        asked = isinstance(above, exp.If) and above.this is below
        return asked and isinstance(above.parent, exp.Case) and above.parent.this is None

    def _joined_texts(self, node: exp.DPipe) -> Expression:
        parts = [self.bind(node.this), self.bind(node.expression)]
        if all(is_list(part.type) for part in parts):
            missing = self.call("or", [self.call("is_null", [part], node) for part in parts], node)
            joined = self.call("list_concat", parts, node)
            # Unlike LIST_CONCAT it is NULL where one of them is.
            return self.call("case", [missing, Literal(None, joined.type), joined], node)
        try:
            return self.call("concat", parts, node)
        except BindError as error:
            error.hint = error.hint or "|| joins texts; between conditions write OR"
            raise

    def _between(self, node: exp.Between) -> Expression:
        value, low, high = self.bind(node.this), self.bind(node.args["low"]), self.bind(node.args["high"])
        within = self._within(value, low, high, node)
        if not node.args.get("symmetric"):
            return within
        return self.call("or", [within, self._within(value, high, low, node)], node)

    def _within(self, value: Expression, low: Expression, high: Expression, node: exp.Expr) -> Expression:
        return self.call("and", [self.call("ge", [value, low], node), self.call("le", [value, high], node)], node)

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

    def _like_with_escape(self, node: exp.Escape) -> Expression:
        """A constant pattern in which a mark takes the meaning from what follows it, as the pattern that says so."""
        pattern, mark = node.this.expression, node.expression
        if not (isinstance(pattern, exp.Literal) and isinstance(mark, exp.Literal) and len(mark.name) == 1):
            raise self.error("LIKE … ESCAPE needs a constant pattern, and one character", node)
        try:
            expression = literals.like_pattern(pattern.name, mark.name)
        except ValueError as error:
            raise self.error(str(error), node) from None
        options = "si" if isinstance(node.this, exp.ILike) else "s"
        given = [self.bind(node.this.this), *(Literal(one, pa.string()) for one in (expression, options))]
        test = self.call("regexp_full_match", given, node)
        return self.call("not", [test], node) if node.this.args.get("negate") else test

    def _trim(self, node: exp.Trim) -> Expression:
        """TRIM([LEADING | TRAILING | BOTH] [characters FROM] s)"""
        side = str(node.args.get("position") or "BOTH").upper()
        function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim")
        characters = node.expression
        given = [node.this] if characters is None else [node.this, characters]
        return self.call(function, [self.bind(one) for one in given], node)

    def _list(self, node: exp.Array) -> Expression:
        """`[x, y]` and `ARRAY[x, y]`."""
        if not node.expressions:
            raise self.error(
                "a list without elements has no type", node, hint="write SPLIT(…) or [x, y]; NULL will do for no list"
            )
        return self.call("list_value", [self.bind(one) for one in node.expressions], node)

    def _bracket(self, node: exp.Bracket) -> Expression:
        """`x[1]` and `x[1:2]` of a list or a text, `s['field']` of a struct."""
        value, (place, *others) = self.bind(node.this), node.expressions
        if others:
            raise self.error("one place or one range stands in brackets", node, hint="write x[1], x[1:3] or x[1][2]")
        if isinstance(place, exp.Slice):
            ends = [literals.NULL if end is None else self.bind(end) for end in (place.this, place.expression)]
            return self.call("slice", [value, *ends], node)
        if isinstance(place, exp.Literal) and place.is_string and not pa.types.is_map(value.type):
            return self._field(value, str(place.this), node)
        return self.call("element", [value, self.bind(place)], node)

    def _field(self, value: Expression, name: str, node: exp.Expr) -> Expression:
        if not pa.types.is_struct(value.type):
            raise self.error(
                f"{to_text(value)} is {sql_type(value.type)}, which has no fields", node,
                hint="JSON in a text is read by j ->> '$.field'" if is_text(value.type) else None,
            )  # fmt: skip
        names = [one.name for one in value.type]
        index = field_index(pa.schema(list(value.type)), name)
        if index is None:
            raise self.error(f"{to_text(value)} has no field {name}", node, hint=f"its fields are {', '.join(names)}")
        field = value.type.field(index)
        return Call("field", (value, Literal(field.name, pa.string())), field.type)

    def _filtered(self, node: exp.Filter) -> Expression:
        """`f(x) FILTER (WHERE c)`: rows where the condition does not hold do not count."""
        call, condition = node.this, node.expression.this
        if isinstance(call, exp.WithinGroup):
            return self.within(call, condition)
        if isinstance(call, exp.Anonymous) and (made := of_pairs(call, condition)) is not None:
            return self.bind(made)
        brought = self.scope.text.functions.get(call.name.lower()) if isinstance(call, exp.Anonymous) else None
        if not isinstance(call, exp.Anonymous) or (
            aggregate_name(call.name) is None and (brought is None or brought.kind != "aggregate")
        ):
            raise self.error(
                "FILTER (WHERE …) goes with an aggregate", node, hint="write COUNT(*) FILTER (WHERE x > 1)"
            )
        return self.aggregate(call, only=condition)

    def _with_word_on_nulls(self, node: exp.IgnoreNulls | exp.RespectNulls) -> Expression:
        """`f(x) IGNORE NULLS` as `f(x IGNORE NULLS)`, which aggregates read."""
        call = node.this
        if not isinstance(call, exp.Anonymous) or aggregate_name(call.name) is None or not call.expressions:
            words = "IGNORE NULLS" if isinstance(node, exp.IgnoreNulls) else "RESPECT NULLS"
            raise self.error(f"{words} goes with FIRST(x) and LAST(x), or with functions of OVER", node)
        inside = [type(node)(this=call.expressions[0]), *call.expressions[1:]]
        meant = exp.Anonymous(this=call.this, expressions=inside)
        meant.meta.update(node.meta)
        return self.bind(meant)

    def over(self, node: exp.Window) -> Expression:
        """Refused: where it may stand, `OverBinder` binds."""
        if self.clause == "ORDER BY":
            raise self.error(
                "OVER (…) cannot stand in ORDER BY",
                node,
                hint="select it under a name and order by that: SELECT …, f(x) OVER (…) AS y … ORDER BY y LIMIT 3",
            )
        nested = self.clause in ("OVER (…)", "an aggregate")
        inner = "write the inner one in a query of its own: FROM (SELECT …, f(x) OVER (…) AS y FROM a) AS q"
        around = "write QUALIFY …, or a query around it: SELECT * FROM (SELECT …, f(x) OVER (…) AS y …) WHERE y = 1"
        raise self.error(
            f"OVER (…) cannot stand in {self.clause}" + ("" if nested else ", which comes before it"),
            node,
            hint=inner if nested else around,
        )

    def within(
        self, node: exp.WithinGroup, only: exp.Expr | None = None, inside: ExpressionBinder | None = None
    ) -> Expression:
        """`PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)` is PERCENTILE(x, 0.5), `MODE() WITHIN GROUP (ORDER BY x)`
        MODE(x ORDER BY x), and `LISTAGG(s, ',') WITHIN GROUP (ORDER BY x)` LISTAGG(s, ',' ORDER BY x)."""
        call, keys = node.this, list(node.expression.expressions)
        given = list(call.expressions) if isinstance(call, exp.Anonymous) else []
        function = aggregate_name(call.name)
        by = keys[0]
        match function:
            case "percentile" | "percentile_disc" if len(keys) == 1 and self._is_share(call, given):
                made = [by.this, given[0]]
            case "mode" if len(keys) == 1 and not given:
                made = [exp.Order(this=by.this, expressions=keys)]
            case "string_agg" | "array_agg" | "json_agg" | "first" | "last" if given:
                made = [*given[:-1], exp.Order(this=given[-1], expressions=keys)]
            case _:
                raise self.error(
                    "WITHIN GROUP goes with a percentile, a mode or a list",
                    node,
                    hint="write PERCENTILE_DISC(0.95) WITHIN GROUP (ORDER BY x), MODE() WITHIN GROUP (ORDER BY x) or "
                    "LISTAGG(s, ',') WITHIN GROUP (ORDER BY x)",
                )
        meant = exp.Anonymous(this=call.name, expressions=made)
        meant.meta.update(node.meta)
        bound = self.aggregate(meant, only, inside)
        if not by.args.get("desc") or function not in ("percentile", "percentile_disc"):
            return bound
        assert isinstance(bound, Aggregate)
        return _from_the_top(bound)

    @staticmethod
    def _is_share(call: exp.Anonymous, given: list[exp.Expr]) -> bool:
        """A share, and of what is approximate elsewhere how much it may be off: here it is exact."""
        extra = given[1:]
        return len(given) == 1 or (
            len(extra) == 1 and "approx" in call.name.lower() and isinstance(extra[0], exp.Literal)
        )

    def sort_keys(self, written: Sequence[exp.Expr], *, by_time: bool) -> tuple[SortKey, ...]:
        """ORDER BY inside an aggregate. by_time: in the order of event time values come anyway, if rows enter so."""
        keys = []
        for one in written:
            bound = self.bind(one.this)
            if pa.types.is_nested(bound.type):
                raise self.error(f"values cannot be ordered by {sql_type(bound.type)}, which is nested", one)
            keys.append(SortKey(bound, bool(one.args.get("desc")), bool(one.args.get("nulls_first"))))
        match keys, self.scope.inputs:
            case [SortKey(Column() as time, False)], [read] if by_time and self.scope.is_time(time):
                if not moves_in_steps(read.window):
                    return ()
        # Constants tell no rows apart.
        return tuple(key for key in dict.fromkeys(keys) if not isinstance(key.expression, Literal))

    def _cast(self, node: exp.Cast) -> Expression:
        value = self._written(node.this)
        sql = self.scope.text.piece(span_of(node.args["to"]))
        if sql.upper() == "INTERVAL":
            return self._interval(value, node)
        if sql.upper() in _JSON_TYPES:
            return self._as_json(value, node)
        target = arrow_type(sql)
        if target is None:
            raise self.error(f"{sql} is not a type that CAST knows", node)
        target = zoned_type(target, self.scope.zone)
        if isinstance(node, exp.TryCast):
            return self._tried(value, target, node)
        return self.converted(value, target, node)

    def _as_json(self, value: Expression, node: exp.Cast) -> Expression:
        """`x::JSON`: a text is read, and is an error if it is none; any other value is written."""
        if _is_json(value) or not is_text(value.type):
            return value if _is_json(value) else self.call("to_json", [value], node)
        read = self.call("json_extract", [value, Literal("$", pa.string())], node)
        if not isinstance(node, exp.TryCast):
            return read
        return self.call("case", [self.call("json_valid", [value], node), read, literals.NULL], node)

    def _interval(self, value: Expression, node: exp.Cast) -> Expression:
        """PostgreSQL's `'5 minutes'::INTERVAL`."""
        if not (isinstance(value, Literal) and isinstance(value.value, str)):
            raise self.error("only a constant can be cast to INTERVAL", node, hint="write x * INTERVAL 1 SECOND")
        try:
            return literals.fitted(value, pa.duration("us"))
        except ValueError as error:
            raise self.error(str(error), node) from None

    def _written(self, node: exp.Expr) -> Expression:
        """What is cast; a number in it is the one that is written."""
        match node:
            case exp.Paren():
                return self._written(node.this)
            case exp.Literal(is_string=False):
                return literals.written(node.this)
            case exp.Neg():
                return self._negated(self._written(node.this), node)
        return self.bind(node)

    def converted(self, value: Expression, target: pa.DataType, node: exp.Expr) -> Expression:
        try:
            check_cast(value.type, target)
            if isinstance(value, Literal):
                return literals.cast(value, target)
        except (TypeError, ValueError) as error:
            raise self.error(str(error), node) from None
        return Call("cast", (value,), target)

    def _tried(self, value: Expression, target: pa.DataType, node: exp.Cast) -> Expression:
        try:
            check_cast(value.type, target)
        except TypeError as error:
            raise self.error(str(error), node) from None
        return Literal(None, target) if value == literals.NULL else Call("try_cast", (value,), target)

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

    def _part(self, written: str, value: exp.Expr, node: exp.Expr) -> Expression:
        part = part_named(written)
        if part is None:
            raise self.error(
                f"{written} is not a part of a time", node, hint=f"the parts are {', '.join(PARTS)}, epoch"
            )
        return self.call(part, [self.bind(value)], node)

    # -- functions ------------------------------------------------------------------------------------------

    def _function(self, node: exp.Anonymous) -> Expression:
        written = str(node.name)
        if written.lower() == "event_time":
            return self._event_time(node)
        if written.lower() == "grouping" and self.aggregates and node.expressions:
            return Call("grouping", tuple(self.bind(arg) for arg in node.expressions), pa.int64())
        if (brought := self.scope.text.functions.get(written.lower())) is not None:
            return self._brought(brought, node) if brought.kind == "function" else self.aggregate(node)
        if aggregate_name(written) is not None:
            return self.aggregate(node)
        if written.lower() == "to_char" and node.expressions and is_number(self.bind(node.expressions[0]).type):
            raise self.error(
                "TO_CHAR is of times, not of numbers",
                node,
                hint="write PRINTF('%.2f', x), FORMAT('{:,}', x) or CAST(x AS STRING)",
            )
        if (meant := self._equivalent(node)) is not None:
            return self.bind(meant)
        if written.lower() in ("date_add", "date_sub") and len(node.expressions) == 2:
            return self._moved(node)
        if written.lower() == "to_timestamp" and len(node.expressions) == 1:
            value = self.bind(node.expressions[0])
            return self._instant(value, node)
        scalar = scalar_name(written)
        if scalar is None:
            near = near_name(written, self.scope.text.functions)
            hint = (
                REFUSED.get(written.lower())
                or FOREIGN.get(written.lower())
                or (f"did you mean {near}?" if near else None)
            )
            raise self.error(f"there is no function {written}", node, hint=hint)
        if scalar in ("date_trunc", "date_diff"):
            self._check_unit(scalar, node)
        args = [self.bind(arg) for arg in node.expressions]
        if scalar == "epoch_ms" and len(args) == 1 and pa.types.is_integer(args[0].type):
            # DuckDB's other way: a number of milliseconds is a time.
            return self.call(
                "make_timestamp", [self.call("multiply", [args[0], Literal(1000, pa.int64())], node)], node
            )
        if scalar in ("to_json", "json_array", "json_object"):
            return self._json(scalar, args, node)
        if scalar == "format":
            self._check_format(args, node)
        return self.call(scalar, args, node)

    def _json_text(self, node: exp.Expr) -> Expression:
        """What a path goes into; a text that is cast to JSON before is read but once."""
        inner = node.this if isinstance(node, exp.Paren) else node
        if isinstance(inner, exp.Cast) and not isinstance(inner, exp.TryCast):
            value = self.bind(inner.this)
            if is_text(value.type) and self.scope.text.piece(span_of(inner.args["to"])).upper() in _JSON_TYPES:
                return value
        return self.bind(node)

    def _json_steps(self, node: exp.Expr) -> Expression:
        """The path of PostgreSQL's `j #> '{a,b}'` as one of ours."""
        steps = node.expression.name if isinstance(node.expression, exp.Literal) else ""
        if not (steps.startswith("{") and steps.endswith("}")) or "/" in steps:
            raise self.error(
                "#> and #>> need a path as PostgreSQL writes it, a constant such as '{a,b}'",
                node,
                hint="write j -> '$.a.b', or j ->> '$.a.b'",
            )
        names = [one.strip().strip('"') for one in steps[1:-1].split(",") if one]
        return Literal("/".join(["", *names]) or "$", pa.string())

    def _instant(self, value: Expression, node: exp.Expr) -> Expression:
        """TO_TIMESTAMP of a text, or of seconds since 1970."""
        if not is_number(value.type):
            return self.converted(value, pa.timestamp("us"), node)
        us = self.call("multiply", [value, Literal(1_000_000, pa.int64())], node)
        if not pa.types.is_integer(us.type):
            us = self.converted(self.call("round", [us], node), pa.int64(), node)
        made = self.call("make_timestamp", [us], node)
        return self.converted(made, zoned_type(pa.timestamp("us", tz="UTC"), self.scope.zone), node)

    def _json(self, function: str, args: list[Expression], node: exp.Expr) -> Expression:
        """Values become JSON, unless they are; the names of fields are text."""
        names = range(0, len(args) if function == "json_object" else 0, 2)
        self.call(function, args, node)  # which knows what may stand where
        values = [
            one if at in names or _is_json(one) else self.call("to_json", [one], node) for at, one in enumerate(args)
        ]
        return values[0] if function == "to_json" else self.call(function, values, node)

    def _check_format(self, args: list[Expression], node: exp.Expr) -> None:
        form = args[0].value if args and isinstance(args[0], Literal) else None
        if isinstance(form, str) and len(args) > 1 and "{" not in form:
            raise self.error(
                f"{form!r} has no {{}} in it, so that no value is written",
                node,
                hint="FORMAT is DuckDB's: FORMAT('{} is {:.1f}', s, x); with %s, as in PostgreSQL, write PRINTF",
            )

    def _brought(self, brought: UserFunction, node: exp.Anonymous) -> Expression:
        """A function that a user has brought."""
        args = [self.bind(arg) for arg in node.expressions]
        located = self._located(brought, node)
        args = self._as_declared(located, args, node)
        return Call(located.call_name, tuple(args), located.result, located)

    def _located(self, brought: UserFunction, node: exp.Expr) -> UserFunction:
        """The function with its place in the text, and its types in the zone of the query."""
        place = span_of(node)
        zone = self.scope.zone
        return replace(
            brought,
            place=underline(self.scope.text.sql, place) if place else "",
            arguments=tuple(zoned_type(one, zone) for one in brought.arguments),
            result=zoned_type(brought.result, zone),
        )

    def _as_declared(self, brought: UserFunction, args: list[Expression], node: exp.Expr) -> list[Expression]:
        try:
            if len(args) == len(brought.arguments):
                pairs = zip(args, brought.arguments, strict=True)
                args = [literals.fitted(arg, kind) if isinstance(arg, Literal) else arg for arg, kind in pairs]
            brought.check([arg.type for arg in args])
        except (TypeError, ValueError) as error:
            raise self.error(str(error), node) from None
        return args

    def _equivalent(self, node: exp.Anonymous) -> exp.Expr | None:
        try:
            return equivalent(node)
        except ValueError as error:
            raise self.error(str(error), node) from None

    def _moved(self, node: exp.Anonymous) -> Expression:
        """DATE_ADD and DATE_SUB: of an interval, or of a number of days."""
        backwards = str(node.name).lower() == "date_sub"
        if (months := self._months_in(node.expressions[1])) is not None:
            months = self.call("negate", [months], node) if backwards else months
            return self._months_later(self.bind(node.expressions[0]), _folded(months), node)
        value, by = (self.bind(one) for one in node.expressions)
        if not pa.types.is_integer(by.type):
            return self.call("subtract" if backwards else "add", [value, by], node)
        if isinstance(value, Literal) and is_text(value.type):
            value = self.converted(value, pa.date32(), node)
        return self.call("date_plus_days", [value, self.call("negate", [by], node) if backwards else by], node)

    def _check_unit(self, function: str, node: exp.Anonymous) -> None:
        """A unit is a constant, in quotes or as a bare word; the operators know it by its one name."""
        unit = node.expressions[0] if node.expressions else None
        word = str(unit.this) if isinstance(unit, exp.Literal) else unit.name if isinstance(unit, exp.Column) else ""
        found = unit_named(word)
        if found is None or unit is None:
            times = "ts" if function == "date_trunc" else "a.ts, b.ts"
            raise self.error(
                f"{function.upper()} needs one of its units as a text constant",
                node,
                hint=f"the units are {', '.join(TRUNCATION_UNITS)}; write {function.upper()}('hour', {times})",
            )
        unit.replace(exp.Literal.string(found))

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

    def aggregate(
        self, node: exp.Anonymous, only: exp.Expr | None = None, inside: ExpressionBinder | None = None
    ) -> Expression:
        """`only` is the condition of FILTER. inside: what binds the arguments, if OVER follows."""
        over = inside is not None
        brought = self.scope.text.functions.get(str(node.name).lower())
        function = aggregate_name(str(node.name)) if brought is None else brought.call_name
        assert function is not None
        if not self.aggregates:
            raise self.error(
                f"{node.name.upper()} is an aggregate and cannot stand in {self.clause}",
                node,
                hint="conditions on aggregates go into HAVING; one inside another needs a subquery",
            )
        ordered = any(isinstance(part, exp.Order) for part in node.expressions)
        picks = function in BY_TIME and function not in (*IN_ORDER, "mode")
        picks = picks or (brought is not None and not brought.is_incremental)
        if not over and picks and not ordered and any(one.is_view for one in self.scope.inputs):
            raise self.error(
                f"{node.name.upper()} goes by event time, and rows of an answer that changes have none",
                node,
                hint=f"say in which order: {node.name.upper()}(x ORDER BY y); or write MIN or MAX, or take the rows as "
                f"they appear: (SELECT ISTREAM …) [RANGE 1 HOUR]",
            )
        said, ignores = without_word_on_nulls(node)
        if ignores is not None and function not in ("first", "last"):
            raise self.error(
                "IGNORE NULLS and RESPECT NULLS go with FIRST and LAST",
                node,
                hint=f"others pass over NULLs anyway; or write {node.name.upper()}(x) FILTER (WHERE x IS NOT NULL)",
            )
        if ignores is False:
            raise self.error(
                f"{node.name.upper()} passes over NULLs, and RESPECT NULLS is not supported outside OVER",
                node,
                hint="write FIRST_VALUE(x) OVER (PARTITION BY k ORDER BY ts), or COALESCE(x, …) in its place",
                kind=UnsupportedError,
            )
        assert isinstance(said, exp.Anonymous)
        node = said
        # Aggregates do not nest.
        inside = inside or ExpressionBinder(self.scope, "an aggregate", aggregates=False)
        nodes, written, distinct = _written_inside(node)
        if function == "count" and len(nodes) == 1 and isinstance(nodes[0], exp.Star) and not distinct:
            nodes = []
        elif function == "count" and not nodes and not distinct:
            raise self.error("COUNT needs a column or *", node, hint="write COUNT(*)")
        args = [inside.bind(arg) for arg in nodes]
        keys = inside.sort_keys(written, by_time=not over)
        if distinct and any(key.expression not in args for key in keys):
            raise self.error(
                "with DISTINCT an aggregate is ordered by what it is of: rows with equal values are one",
                node,
                hint=f"write {node.name.upper()}(DISTINCT x ORDER BY x)",
            )
        changing = not over and any(one.is_view for one in self.scope.inputs)
        of_json = function in GIVING_JSON and bool(args) and _is_json(args[-1])
        if of_json and (over or function == "jsonb_object_agg"):
            raise self.error(
                f"{node.name.upper()} of JSON {'with OVER ' * over}is not supported",
                node,
                kind=UnsupportedError,
                hint="write JSON_AGG or JSON_OBJECT_AGG of it, in a query with GROUP BY",
            )
        try:
            if of_json:
                return inside.aggregate_of_json(function, args, node, only, keys, distinct=distinct, changing=changing)
            if brought is not None:
                return inside.brought_aggregate(brought, args, node, only, keys, distinct=distinct, changing=changing)
            return inside.known_aggregate(function, args, node, only, keys, distinct=distinct, changing=changing)
        except TypeError as error:
            raise self.error(str(error), node) from None

    def aggregate_of_json(
        self,
        function: str,
        args: list[Expression],
        node: exp.Expr,
        only: exp.Expr | None,
        keys: tuple[SortKey, ...],
        *,
        distinct: bool,
        changing: bool,
    ) -> Expression:
        """JSON_AGG and JSON_OBJECT_AGG of values that are JSON already: they stay as they are, between commas."""
        if distinct and len(args) > 1:
            raise TypeError(f"DISTINCT goes with an aggregate of one argument, and {function.upper()} has two")
        text = self.call("coalesce", [args[-1], Literal("null", pa.string())], node)
        if function == "json_object_agg":
            name = self.call("to_json", [self.converted(args[0], pa.string(), node)], node)
            text = self.call("concat", [name, Literal(":", pa.string()), text], node)
        parts = [text, Literal(",", pa.string())]
        joined = self.known_aggregate("string_agg", parts, node, only, keys, distinct=distinct, changing=changing)
        begin, end = ("{", "}") if function == "json_object_agg" else ("[", "]")
        return self.call("json_enclosed", [Literal(begin, pa.string()), joined, Literal(end, pa.string())], node)

    def known_aggregate(
        self,
        function: str,
        args: list[Expression],
        node: exp.Expr,
        only: exp.Expr | None,
        keys: tuple[SortKey, ...],
        *,
        distinct: bool,
        changing: bool,
    ) -> Expression:
        """An aggregate of the language. changing: rows have no time. Raises TypeError."""
        if distinct and function in ("mode", "arg_min", "arg_max"):
            raise TypeError(f"{function.upper()} over DISTINCT values has no meaning")
        self._check_percentile(function, args)
        self._check_separator(function, args)
        if distinct and function in PAIRED:
            raise TypeError(f"{function.upper()} is of pairs, and DISTINCT goes with one argument")
        args = self._as_collected(function, args, node)
        kind = aggregate_type(function, [arg.type for arg in args])
        compared = distinct or function not in ("count", *WITH_NULLS)
        if args and compared and pa.types.is_nested(args[0].type):
            raise TypeError(_incomparable(node, args[0]))
        if distinct and len(args) > 1 and function in WITH_NULLS:
            raise TypeError(f"DISTINCT goes with an aggregate of one argument, and {function.upper()} has two")
        if function in ("arg_min", "arg_max") and keys:
            # The first by what it is compared by, and then by the others.
            missing = [self.call("not", [self.call("is_null", [arg], node)], node) for arg in args]
            keys = (SortKey(args[1], function == "arg_max"), *keys)
            return self._marked(Aggregate("first", (args[0],), kind), missing, node, only, keys, changing=changing)
        if function not in BY_TIME:
            keys = ()  # what has an order of its own, or none
        distinct = distinct and function not in ("first", "last")
        made = Aggregate(function, tuple(args), kind, distinct, timeless=distinct and function in IN_ORDER)
        if keys or function in WITH_NULLS or (changing and function in (*IN_ORDER, "mode") and not distinct):
            there = [self.call("not", [self.call("is_null", [args[0]], node)], node)] if function in _WITH_KEYS else []
            return self._marked(made, there, node, only, keys, changing=changing)
        if only is not None:
            args = self.where(only, args)
        if function in PAIRED:
            args = [Call("cast", (arg,), pa.float64()) if arg.type != pa.float64() else arg for arg in args]
        if function in ("arg_min", "arg_max", *PAIRED):
            args = [self.call("pack", args, node)]
        return replace(made, args=tuple(args))

    def _as_collected(self, function: str, args: list[Expression], node: exp.Expr) -> list[Expression]:
        """Keys of objects are text, and NULL has a type."""
        if function not in WITH_NULLS:
            return args
        typed = [Literal(None, pa.string()) if arg == literals.NULL else arg for arg in args]
        if function in ("json_object_agg", "jsonb_object_agg") and not is_text(typed[0].type):
            typed[0] = self.converted(typed[0], pa.string(), node)
        return typed

    def _marked(
        self,
        made: Aggregate,
        conditions: list[Expression],
        node: exp.Expr,
        only: exp.Expr | None,
        keys: tuple[SortKey, ...],
        *,
        changing: bool,
    ) -> Aggregate:
        """An aggregate of rows that count, in an order. Where rows have no time they go by their values in the end."""
        constants = made.args[1:] if made.function == "string_agg" else ()
        values = made.args[: len(made.args) - len(constants)]
        # Values that are equal, and compared by themselves, are one in any order.
        if changing or made.distinct:
            keys = (*keys, *(SortKey(value) for value in values if value not in [key.expression for key in keys]))
        whole = {key.expression for key in keys} >= set(values)
        if any(pa.types.is_nested(key.expression.type) for key in keys):
            raise TypeError(_incomparable(node, values[0]))
        if only is not None:
            conditions = [*conditions, replace(self, clause="FILTER").condition(only)]
        counts = Literal(True, pa.bool_()) if not conditions else reduce(self._both(node), conditions)
        packed = self.call("pack", [counts, *values, *(key.expression for key in keys)], node)
        ways = tuple(Way(key.descending, key.nulls_first) for key in keys)
        return replace(made, args=(packed, *constants), order_by=ways, timeless=whole or made.timeless)

    def _both(self, node: exp.Expr) -> Callable[[Expression, Expression], Expression]:
        return lambda left, right: self.call("and", [left, right], node)

    def where(self, condition: exp.Expr, args: list[Expression]) -> list[Expression]:
        """The arguments of an aggregate, NULL where a condition does not hold: NULLs are passed over."""
        holds = replace(self, clause="FILTER").condition(condition)
        value, *others = args or [Literal(1, pa.int64())]
        return [self.call("case", [holds, value, Literal(None, value.type)], condition), *others]

    def brought_aggregate(
        self,
        brought: UserFunction,
        args: list[Expression],
        node: exp.Expr,
        only: exp.Expr | None,
        keys: tuple[SortKey, ...],
        *,
        distinct: bool,
        changing: bool,
    ) -> Expression:
        located = self._located(brought, node)
        args = self._as_declared(located, args, node)
        if distinct and len(args) > 1:
            raise TypeError("DISTINCT goes with an aggregate of one argument")
        if distinct and pa.types.is_nested(args[0].type):
            raise TypeError(_incomparable(node, args[0]))
        # One argument as declared, so that nothing has to be converted for every group.
        typed = [arg if arg.type == want else Call("cast", (arg,), want)
                 for arg, want in zip(args, located.arguments, strict=True)]  # fmt: skip
        made = Aggregate(located.call_name, tuple(typed), located.result, distinct, located)
        if brought.is_incremental:
            if keys:
                raise TypeError(
                    f"{brought.name} is told values as they come and go, so ORDER BY in it would say nothing; leave it "
                    "out, or bring a function of all values"
                )
            # In whichever order they came: of rows that have no time too.
            changing, made = False, replace(made, timeless=True)
        if keys or len(typed) > 1 or changing:
            return self._marked(made, [], node, only, keys, changing=changing)
        return replace(made, args=tuple(typed if only is None else self.where(only, typed)))

    @staticmethod
    def _check_separator(function: str, args: list[Expression]) -> None:
        if (
            function == "string_agg"
            and len(args) > 1
            and not (isinstance(args[1], Literal) and args[1].value is not None)
        ):
            raise TypeError("STRING_AGG needs a constant text between the values, for example STRING_AGG(s, ', ')")

    @staticmethod
    def _check_percentile(function: str, args: list[Expression]) -> None:
        if function in ("percentile", "percentile_disc") and len(args) == 2:
            share = args[1].value if isinstance(args[1], Literal) else None
            if not isinstance(share, int | float) or not 0 <= share <= 1:
                name = function.upper()
                raise TypeError(f"{name} needs a constant between 0 and 1, for example {name}(x, 0.95)")
            if function == "percentile_disc" and exact_share(share).denominator > 10**9:
                raise TypeError("PERCENTILE_DISC counts with nine digits behind the point, and this has more")

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
        if isinstance(node, exp.AtTimeZone):
            return self.error(
                "AT TIME ZONE is not supported",
                node,
                kind=UnsupportedError,
                hint="OPTIONS (timezone = 'America/New_York') says in which zone a query reads instants",
            )
        if isinstance(node, exp.Alias):
            return self.error("AS can name only a whole column of the select list", node)
        if isinstance(node, exp.Star):
            return self.error("* cannot stand inside an expression", node, hint="COUNT(*) counts rows")
        words = self.scope.text.piece(span_of(node))
        return self.error(f"{words} is not supported in an expression", node, kind=UnsupportedError)


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


def _is_json(value: Expression) -> bool:
    """Whether it is JSON by what it is made with, and no text that may be anything."""
    if isinstance(value, Call) and value.function in ("case", "coalesce"):
        chosen = value.args if value.function == "coalesce" else (*value.args[1:-1:2], value.args[-1])
        return all(_is_json(one) or (isinstance(one, Literal) and one.value is None) for one in chosen)
    return isinstance(value, Call | Aggregate) and value.function in GIVING_JSON


def _any_of(node: exp.Expr) -> exp.Expr | None:
    """The list of `= ANY(l)` or `<> ALL(l)`."""
    words = ("any", "some") if isinstance(node, exp.EQ) else ("all",) if isinstance(node, exp.NEQ) else ()
    right = node.expression if words else None
    if isinstance(right, exp.Anonymous) and right.name.lower() in words and len(right.expressions) == 1:
        listed: exp.Expr = right.expressions[0]
        return None if isinstance(listed, Subquery) else listed
    return None


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


def _folded(months: Expression) -> Expression:
    """A number of months that is known."""
    match months:
        case Call(function="negate", args=(Literal(value=int(value)),)):
            return Literal(-value, pa.int64())
        case Call(function="multiply", args=(Literal(value=int(a)), Literal(value=int(b)))):
            return Literal(a * b, pa.int64())
    return months


def _as_interval(arg: Expression) -> Expression:
    """A text constant added to a time or an interval is an interval."""
    if isinstance(arg, Literal) and is_text(arg.type):
        return literals.fitted(arg, pa.duration("us"))
    return arg


def _incomparable(aggregate: exp.Expr, argument: Expression) -> str:
    return f"{aggregate.name.upper()} needs values that can be compared, not {sql_type(argument.type)}"
