"""Scalar expressions: from sqlglot trees to typed plan expressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import BindError, UnsupportedError
from watersmeet.model.types import arrow_type, is_number, is_text, sql_type
from watersmeet.model.zones import zoned_type
from watersmeet.plan.expressions import Call, Expression, Literal, to_text
from watersmeet.plan.functions import check_cast
from watersmeet.plan.nested_functions import is_list
from watersmeet.plan.time_functions import PARTS, part_named
from watersmeet.sql import literals
from watersmeet.sql.aggregate_calls import AggregateCalls, names_aggregate
from watersmeet.sql.clause_binder import ClauseBinder
from watersmeet.sql.counting import has_rows, is_among, misplaced_query, value_of_query
from watersmeet.sql.function_calls import bind_function, in_zone, struct
from watersmeet.sql.json_calls import JSON_TYPES, cast_to_json, json_access
from watersmeet.sql.months import moved_by_months, uneven
from watersmeet.sql.scope import field_index
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
    name_parts,
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


@dataclass(frozen=True)
class ExpressionBinder(ClauseBinder):
    """Binds expressions of any kind."""

    def bind(self, node: exp.Expr) -> Expression:
        match node:
            case exp.Column():
                return self._column(node)
            case exp.Paren():
                return self.bind(node.this)
            case Months():
                raise uneven(self, node)
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
                return self._named_call(node)
            case exp.IgnoreNulls() | exp.RespectNulls():
                return self._aggregates.with_word_on_nulls(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Case():
                return self._case(node)
            case Subquery():
                return value_of_query(self, node)
            case Bound():
                known: Expression = node.args["bound"]
                return known
            case AsDate():
                return self.converted(self.bind(node.this), pa.date32(), node)
        return self._predicate(node)

    def _column(self, node: exp.Column) -> Expression:
        if isinstance(node.this, exp.Star):
            raise self.error("* cannot stand inside an expression", node)
        names = [Name(part.name, span_of(part) or span_of(node) or (0, 1)) for part in name_parts(node)]
        computed = self.scope.computed_column(names)
        struct = self._struct_column(names) if computed is None else (self.bind(computed[0]), computed[1])
        if struct is not None:
            return reduce(lambda value, one: self._field(value, one.text, node), struct[1], struct[0])
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

    def _struct_column(self, names: list[Name]) -> tuple[Expression, Sequence[Name]] | None:
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
        if isinstance(node, exp.Add | exp.Sub) and (moved := moved_by_months(self, node)) is not None:
            return moved
        if (listed := _any_of(node)) is not None:
            return self._among_listed(node, listed)
        if (function := _BINARY.get(type(node))) is not None:
            return self.call(function, [self.bind(node.this), self.bind(node.expression)], node)
        match node:
            case exp.DPipe():
                return self._joined_texts(node)
            case exp.Between():
                return self._between(node)
            case exp.In(expressions=[Subquery() as query]):
                return is_among(self, query, node)
            case exp.Exists(this=Subquery() as query):
                return has_rows(self, query, node)
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
            case exp.AtTimeZone():
                return in_zone(self, node)
            case exp.Struct():
                return struct(self, node)
            case exp.Dot():
                return self._field(self.bind(node.this), node.expression.name, node)
            case JsonAccess():
                return json_access(self, node)
            case exp.Filter():
                return self._aggregates.filtered(node)
            case exp.WithinGroup():
                return self._aggregates.within(node)
            case exp.Window():
                return self.over(node)
        raise self._unsupported(node)

    def _among_listed(self, node: exp.Expr, listed: exp.Expr) -> Expression:
        """`x = ANY(l)` and `x <> ALL(l)`: not known if it is not found and there is a NULL in the list."""
        value, among = self.bind(node.this), self.bind(listed)
        found = self.call("list_contains", [among, value], node)
        nulls = self.call("lt", [self.call("list_count", [among], node), self.call("length", [among], node)], node)
        known = self.call("case", [found, Literal(True, pa.bool_()), nulls, Literal(None, pa.bool_()), found], node)
        return self.call("not", [known], node) if isinstance(node, exp.NEQ) else known

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
            lists = any(is_list(part.type) for part in parts)
            error.hint = "|| joins lists with lists; LIST_APPEND(l, x) adds a value" if lists else error.hint
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

    def _named_call(self, node: exp.Anonymous) -> Expression:
        if names_aggregate(node, self.own_functions):
            return self._aggregates.bind(node)
        return bind_function(self, node)

    @property
    def _aggregates(self) -> AggregateCalls:
        # Aggregates do not nest.
        return AggregateCalls(self, ExpressionBinder(self.scope, "an aggregate", aggregates=False))

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

    def _cast(self, node: exp.Cast) -> Expression:
        value = self._written(node.this)
        sql = self.scope.text.piece(span_of(node.args["to"]))
        if sql.upper() == "INTERVAL":
            return self._interval(value, node)
        if sql.upper() in JSON_TYPES:
            return cast_to_json(self, value, node)
        target = arrow_type(sql)
        if target is None:
            of_day = "the time of day is an interval: ts - DATE_TRUNC('day', ts)" if sql.upper() == "TIME" else None
            raise self.error(f"{sql} is not a type that CAST knows", node, hint=of_day)
        target = zoned_type(target, self.scope.zone)
        if isinstance(node, exp.TryCast):
            return self._tried(value, target, node)
        return self.converted(value, target, node)

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

    def _unsupported(self, node: exp.Expr) -> Exception:
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and not node.expressions):
            return misplaced_query(self, node)
        if isinstance(node, WindowCondition):
            return self.error("a WINDOW constraint must stand by itself, joined to the rest by AND", node)
        if isinstance(node, exp.Any | exp.All) and not isinstance(node.this, exp.Tuple | exp.Paren):
            return self.error(
                "ANY and ALL with a query go with = ANY and <> ALL",
                node,
                kind=UnsupportedError,
                hint="compare with an aggregate: x > (SELECT MAX(b.x) FROM b [RANGE 1 HOUR])",
            )
        if isinstance(node, exp.Alias):
            return self.error("AS can name only a whole column of the select list", node)
        if isinstance(node, exp.Star):
            return self.error("* cannot stand inside an expression", node, hint="COUNT(*) counts rows")
        words = self.scope.text.piece(span_of(node))
        hint = next((hint for kind, hint in _INSTEAD if isinstance(node, kind)), None)
        return self.error(f"{words} is not supported in an expression", node, kind=UnsupportedError, hint=hint)


_INSTEAD: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Tuple, "several values as one are STRUCT(x, y AS name), or [x, y] if they are of one type"),
    (exp.Comprehension, "unfold the list: FROM a CROSS JOIN UNNEST(a.items) AS t (item)"),
    (exp.Glob, "write LIKE 'b%', or REGEXP_MATCHES(s, '^b')"),
    (exp.Any, "write x LIKE 'a%' OR x LIKE 'b%'"),
)


def _any_of(node: exp.Expr) -> exp.Expr | None:
    """The list of `= ANY(l)` or `<> ALL(l)`."""
    words = ("any", "some") if isinstance(node, exp.EQ) else ("all",) if isinstance(node, exp.NEQ) else ()
    right = node.expression if words else None
    if isinstance(right, exp.Anonymous) and right.name.lower() in words and len(right.expressions) == 1:
        listed: exp.Expr = right.expressions[0]
        return None if isinstance(listed, Subquery) else listed
    return None
