"""Expressions of a plan in DuckDB's SQL. Instants and intervals are BIGINT microseconds there, whatever their type.

What means something else in DuckDB, or cannot be said, raises InexpressibleError: the caller then asks another oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from watersmeet.model.types import is_instant, is_text, sql_type
from watersmeet.plan.expressions import Aggregate, Call, Column, EventTime, Expression, Literal

_INFIX = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "AND", "or": "OR",
    "add": "+", "subtract": "-", "multiply": "*", "concat": "||", "like": "LIKE",
}  # fmt: skip
_SAME_NAME = frozenset(
    ("abs", "floor", "ceil", "round", "sqrt", "power", "greatest", "least", "lower", "upper", "trim", "length",
     "substring", "starts_with", "contains", "replace", "coalesce", "nullif")
)  # fmt: skip
_PARTS = ("year", "month", "day", "hour", "minute", "second")


class InexpressibleError(Exception):
    """Something that DuckDB cannot be asked; the text says what."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Translator:
    """Writes expressions over inputs that stand in FROM under their aliases.

    `event_time` is the newest member's time in SQL. `known` are expressions that are already computed, and the columns
    that hold them.
    """

    event_time: str = "NULL"
    known: Mapping[Expression, str] = field(default_factory=dict)

    def sql(self, expression: Expression) -> str:
        if expression in self.known:
            return self.known[expression]
        match expression:
            case Column():
                return _column(expression)
            case Literal(value=value, type=kind):
                return _literal(value, kind)
            case EventTime():
                return self.event_time
            case Call():
                return _call(expression, [self.sql(arg) for arg in expression.args])
            case Aggregate(function=function):
                raise InexpressibleError(f"{function.upper()} outside a group")

    def output(self, expression: Expression) -> str:
        """The value in the type that the column of the answer has; intervals stay microseconds."""
        return typed(self.sql(expression), expression.type)


def typed(text: str, kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return f"make_timestamp({text})"
    if pa.types.is_date(kind):
        return f"CAST(make_timestamp({text}) AS DATE)"
    if pa.types.is_duration(kind):
        return f"CAST({text} AS BIGINT)"
    if pa.types.is_null(kind) or pa.types.is_nested(kind):
        raise InexpressibleError(f"a column of type {sql_type(kind)}")
    return f"CAST({text} AS {sql_type(kind)})"


def _column(column: Column) -> str:
    name = quoted(column.name) if not column.stream else f"{quoted(column.stream)}.{quoted(column.name)}"
    if is_instant(column.type):
        return f"epoch_us(CAST({name} AS TIMESTAMP))"
    if pa.types.is_integer(column.type) and column.type != pa.uint64():
        return f"CAST({name} AS BIGINT)"
    return f"CAST({name} AS DOUBLE)" if pa.types.is_float32(column.type) else name


def _literal(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "NULL"
    if pa.types.is_duration(kind):
        return f"CAST({value} AS BIGINT)"
    if is_instant(kind):
        return f"CAST({pa.scalar(value, kind).cast(pa.timestamp('us')).value} AS BIGINT)"
    if isinstance(value, bytes):
        raise InexpressibleError("a constant of bytes")
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"CAST('{value}' AS {sql_type(kind)})"


def _call(call: Call, args: Sequence[str]) -> str:
    function = call.function
    if function in _INFIX:
        return "(" + f" {_INFIX[function]} ".join(args) + ")"
    if function in _SAME_NAME:
        return f"{function}({', '.join(args)})"
    if function in _PARTS:
        return f"{function}(make_timestamp({args[0]}))"
    match function:
        case "divide":
            return f"(CAST({args[0]} AS DOUBLE) / nullif(CAST({args[1]} AS DOUBLE), 0))"
        case "modulo":
            return f"({args[0]} % nullif({args[1]}, 0))"
        case "not":
            return f"(NOT {args[0]})"
        case "negate":
            return f"(-{args[0]})"
        case "is_null":
            return f"({args[0]} IS NULL)"
        case "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        case "case":
            whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(args[0:-1:2], args[1:-1:2], strict=True))
            return f"(CASE {whens} ELSE {args[-1]} END)"
        case "date_trunc":
            return f"epoch_us(CAST(date_trunc({args[0]}, make_timestamp({args[1]})) AS TIMESTAMP))"
        case "epoch_us":
            return args[0]
        case "cast":
            return _cast(args[0], call.args[0].type, call.type)
    raise InexpressibleError(f"the function {function.upper()}")


def _cast(text: str, source: pa.DataType, target: pa.DataType) -> str:
    exact = pa.types.is_integer(source) or pa.types.is_decimal(source) or pa.types.is_boolean(source)
    if is_instant(source) and pa.types.is_date(target):
        return f"epoch_us(CAST(date_trunc('day', make_timestamp({text})) AS TIMESTAMP))"
    if source == target or (is_instant(source) and is_instant(target)):
        return text
    if pa.types.is_integer(target) and (exact or pa.types.is_floating(source)):
        return (
            f"CAST(trunc({text}) AS {sql_type(target)})" if not pa.types.is_boolean(source) else f"CAST({text} AS INT)"
        )
    if exact and (pa.types.is_decimal(target) or pa.types.is_floating(target)):
        return f"CAST({text} AS {sql_type(target)})"
    if is_text(target) and (pa.types.is_integer(source) or pa.types.is_boolean(source)):
        return f"CAST({text} AS VARCHAR)"
    if pa.types.is_floating(source) and pa.types.is_floating(target):
        return f"CAST({text} AS {sql_type(target)})"
    raise InexpressibleError(f"a cast from {sql_type(source)} to {sql_type(target)}")
