"""Expressions of a plan in DuckDB's SQL. Instants and intervals are BIGINT microseconds there, whatever their type.

What means something else in DuckDB, or cannot be said, raises InexpressibleError: the caller then asks another oracle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import UNITS_US
from watersmeet.model.types import is_bytes, is_instant, is_number, is_text, sql_type
from watersmeet.plan.expressions import Aggregate, Call, Column, EventTime, Expression, Literal, OverCall
from watersmeet.plan.time_functions import PARTS

_INFIX = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "AND", "or": "OR",
    "add": "+", "subtract": "-", "multiply": "*", "concat": "||",
    "json_enclosed": "||", "like": "LIKE", "int_divide": "//", "bit_and": "&",
    "bit_or": "|", "shift_left": "<<", "shift_right": ">>",
}  # fmt: skip
# DuckDB has no function that does the same; its JSON_VALUE keeps the quotes of texts.
_ONLY_OURS = frozenset(("crc32", "initcap", "regexp_count", "regexp_match", "width_bucket", "json_value"))
_SHORT_DIGITS = 18  # of decimals that are 64 bits in DuckDB
_YEAR_1_US = -62_135_596_800_000_000
_WITHIN_AN_HOUR = ("microsecond", "millisecond", "second", "minute", "hour")


# What clocks of a zone show at an instant, and the first instant at which they show it; all in microseconds. Around a
# change of clocks the offsets before and after it are tried, for DuckDB takes the last of two.
MACROS = (
    "CREATE OR REPLACE TEMP MACRO wm_shown(t, z) AS epoch_us(timezone(z, make_timestamptz(t)))",
    "CREATE OR REPLACE TEMP MACRO wm_with_offset_of(r, t, z) AS r - (wm_shown(t, z) - t)",
    # 15 hours before and 13 after, as zones lie between 12 hours behind UTC and 14 ahead.
    "CREATE OR REPLACE TEMP MACRO wm_before(r, z) AS wm_with_offset_of(r, r - 54000000000, z)",
    "CREATE OR REPLACE TEMP MACRO wm_after(r, z) AS wm_with_offset_of(r, r + 46800000000, z)",
    "CREATE OR REPLACE TEMP MACRO wm_first(r, z, skipped) AS CASE WHEN r IS NULL THEN NULL "
    "WHEN wm_shown(wm_before(r, z), z) = r THEN wm_before(r, z) "
    "WHEN wm_shown(wm_after(r, z), z) = r THEN wm_after(r, z) "
    "WHEN skipped AND wm_shown(wm_before(r, z) - 1, z) < r THEN wm_before(r, z) "
    "ELSE error('a time that clocks skip') END",
    # What is skipped is by as much later, as in DuckDB.
    "CREATE OR REPLACE TEMP MACRO wm_moved(r, z) AS CASE WHEN wm_shown(wm_before(r, z), z) = r THEN wm_before(r, z) "
    "WHEN wm_shown(wm_after(r, z), z) = r THEN wm_after(r, z) ELSE wm_before(r, z) END",
)


class InexpressibleError(Exception):
    """Something that DuckDB cannot be asked; the text says what."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def named(alias: str) -> str:
    """An input of FROM, called as no column is: in a subquery a column b would hide an alias b from outside."""
    return quoted(f"#as {alias}")


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
            case Call(user=user) if user is not None:
                raise InexpressibleError(f"{user.name}, a function that was brought")
            case Call():
                return _call(expression, [self.sql(arg) for arg in expression.args])
            case Aggregate(function=function) | OverCall(function=function):
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
    if pa.types.is_nested(kind) and not _holds_times(kind, as_well=_stays):
        return text
    if pa.types.is_null(kind) or pa.types.is_nested(kind):
        raise InexpressibleError(f"a column of type {sql_type(kind)}")
    return f"CAST({text} AS {sql_type(kind)})"


def _holds_times(kind: pa.DataType, *, as_well: Callable[[pa.DataType], bool] = lambda kind: False) -> bool:
    """Whether there are times inside, which stay what they are there, and are microseconds everywhere else; as_well:
    of which that does not matter."""
    if pa.types.is_nested(kind):
        return any(_holds_times(kind.field(place).type, as_well=as_well) for place in range(kind.num_fields))
    return (is_instant(kind) or bool(pa.types.is_duration(kind))) and not as_well(kind)


def _stays(kind: pa.DataType) -> bool:
    """Whether it is a time that DuckDB gives as it has it."""
    return bool(kind == pa.timestamp("us"))


_OF_WHOLES = ("eq", "ne", "lt", "le", "gt", "ge", "in", "is_null", "coalesce", "case")  # of values, not of parts


def _column(column: Column) -> str:
    name = quoted(column.name) if not column.stream else f"{named(column.stream)}.{quoted(column.name)}"
    if is_instant(column.type):
        # Without its zone an instant is UTC.
        return f"epoch_us(CAST({name} AS TIMESTAMP))"
    # Computed in 64 bits, as in the engine: DuckDB would overflow in the column's own type.
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
    # As text, so that DuckDB does not choose another type for the digits.
    return f"CAST('{value}' AS {sql_type(kind)})"


def _call(call: Call, args: Sequence[str]) -> str:
    function = call.function
    if any(pa.types.is_floating(arg.type) for arg in call.args):
        args = [_beside_doubles(text, arg.type) for text, arg in zip(args, call.args, strict=True)]
    if function == "field" and is_instant(call.type):
        return f"epoch_us(CAST(struct_extract({args[0]}, {args[1]}) AS TIMESTAMP))"
    if function == "named_struct":
        parts = zip(call.type, args[1::2], strict=True)
        return f"struct_pack({', '.join(f'{quoted(one.name)} := {typed(text, one.type)}' for one, text in parts)})"
    if function not in _OF_WHOLES and any(pa.types.is_nested(arg.type) and _holds_times(arg.type) for arg in call.args):
        raise InexpressibleError(f"times inside a value of type {sql_type(call.args[0].type)}")
    if function in _INFIX:
        return "(" + f" {_INFIX[function]} ".join(args) + ")"
    if function in PARTS or function in ("dayname", "monthname"):
        return f"{function}(make_timestamp({_shown(args[0], call.args[0].type)}))"
    if function in _SPELLED:
        return _SPELLED[function](*args)
    match function:
        case "divide":
            # Always a double, and NULL where the divisor is zero.
            left, right = (_beside_doubles(text, arg.type) for text, arg in zip(args, call.args, strict=True))
            return f"(CAST({left} AS DOUBLE) / nullif(CAST({right} AS DOUBLE), 0))"
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
            return _truncated(args[0], args[1], call.args[1].type)
        case "epoch_us":
            return args[0]
        case "date_diff":
            return _difference(args, call)
        case "last_day":
            return _midnight(f"last_day(make_timestamp({_shown(args[0], call.args[0].type)}))")
        case "plus_months":
            shown, zone = _shown(args[0], call.args[0].type), _zone(call.type)
            moved = f"epoch_us(make_timestamp({shown}) + to_months(CAST({args[1]} AS INTEGER)))"
            return moved if zone is None else f"wm_moved({moved}, {zone})"
        case "at_time_zone":
            read = getattr(call.args[0].type, "tz", None) is None
            return f"wm_first({args[0]}, {args[1]}, false)" if read else f"wm_shown({args[0]}, {args[1]})"
        case "date_plus_days":
            day = f"CAST(make_timestamp({_shown(args[0], call.args[0].type)}) AS DATE)"
            return _midnight(f"({day} + CAST({args[1]} AS INTEGER))")
        case "strftime":
            return f"strftime(make_timestamp({_shown(args[0], call.args[0].type)}), {args[1]})"
        case "length" if not is_text(call.args[0].type):
            return f"{'octet_length' if is_bytes(call.args[0].type) else 'len'}({args[0]})"
        case "length":
            return f"length({args[0]})"
        case "base64" | "octet_length":
            return f"{function}({f'encode({args[0]})' if is_text(call.args[0].type) else args[0]})"
        case "format" | "printf":
            if any(is_instant(arg.type) for arg in call.args):
                raise InexpressibleError(f"{function.upper()} of times")
            return f"{function}({', '.join(args)})"
        case "pack":
            return f"struct_pack({', '.join(f'f{place} := {text}' for place, text in enumerate(args))})"
        case "list_value" if any(is_instant(arg.type) for arg in call.args):
            raise InexpressibleError("lists of times")
        case "slice":
            first, last = ("" if text == "NULL" else text for text in args[1:])
            return f"({args[0]})[{first}:{last}]"
        case "to_json":
            if not _written_alike(call.args[0].type):
                raise InexpressibleError(f"{sql_type(call.args[0].type)} as JSON")
            return f"CAST(to_json({args[0]}) AS VARCHAR)"
        case "cast" | "try_cast":
            return _cast(args[0], call.args[0].type, call.type, function.upper())
    if function in _ONLY_OURS:
        raise InexpressibleError(f"the function {function.upper()}")
    # The same by the same name, unless it is said above: tests/properties/test_expressions.py compares.
    return f"{function}({', '.join(args)})"


def _written_alike(kind: pa.DataType) -> bool:
    """Whether DuckDB writes the same digits in JSON."""
    if pa.types.is_nested(kind):
        return all(_written_alike(kind.field(place).type) for place in range(kind.num_fields))
    return is_text(kind) or bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind))


def _midnight(day: str) -> str:
    return f"epoch_us(CAST({day} AS TIMESTAMP))"


def _difference(args: Sequence[str], call: Call) -> str:
    """Starts of units between two times. In a zone hours go by, and days are those that clocks show."""
    # A timestamp beside an instant is one, too.
    zoned = [arg.type for arg in call.args[1:] if _zone(arg.type)]
    kinds = [zoned[0] if zoned else arg.type for arg in call.args[1:]]
    unit = args[0].strip("'")
    if any(_zone(kind) for kind in kinds) and unit in _WITHIN_AN_HOUR:
        start, end = (_truncated(args[0], text, kind) for text, kind in zip(args[1:], kinds, strict=True))
        return f"(({end} - {start}) // {UNITS_US[unit]})"
    start, end = (f"make_timestamp({_shown(text, kind)})" for text, kind in zip(args[1:], kinds, strict=True))
    # In whole days first: DuckDB counts weeks by the hours that have passed.
    cast = (lambda text: f"CAST({text} AS DATE)") if unit in ("day", "week") else (lambda text: text)
    return f"date_diff({args[0]}, {cast(start)}, {cast(end)})"


def _bare(number: str) -> str:
    """A constant without its type, where DuckDB takes nothing else."""
    found = re.fullmatch(r"CAST\('(-?\d+)' AS \w+\)", number)
    return number if found is None else found[1]


def _first_of_each(items: str, kept: str) -> str:
    return (
        f"list_filter({items}, lambda one, place: one IS NOT NULL AND list_position({items}, one) = place AND {kept})"
    )


def _read_json(text: str) -> str:
    return f"CAST({text} AS JSON)"


# What has another name or takes its arguments otherwise in DuckDB.
_SPELLED: dict[str, Callable[..., str]] = {
    "bit_not": lambda x: f"(~{x})",
    "isnan": lambda x: f"isnan(CAST({x} AS DOUBLE))",
    "isinf": lambda x: f"isinf(CAST({x} AS DOUBLE))",
    "isfinite": lambda x: f"isfinite(CAST({x} AS DOUBLE))",
    "factorial": lambda x: f"factorial(CAST({x} AS INTEGER))",
    "round": lambda x, *digits: f"round({', '.join([x, *(f'CAST({one} AS INTEGER)' for one in digits)])})",
    "trunc": lambda x, *digits: f"trunc({', '.join([x, *(f'CAST({one} AS INTEGER)' for one in digits)])})",
    "regexp_extract": lambda s, p, group="0", *how: f"regexp_extract({', '.join([s, p, _bare(group), *how])})",
    # DuckDB looks for NULL, too.
    "list_position": lambda x, one: f"CASE WHEN {one} IS NOT NULL THEN list_position({x}, {one}) END",
    # An empty list is an empty text here.
    "array_to_string": lambda x, by: f"CASE WHEN {x} IS NOT NULL THEN coalesce(array_to_string({x}, {by}), '') END",
    # At NULL DuckDB splits nowhere.
    "split": lambda s, by: f"CASE WHEN {by} IS NOT NULL THEN split({s}, {by}) END",
    "string_split_regex": lambda s, by: f"CASE WHEN {by} IS NOT NULL THEN string_split_regex({s}, {by}) END",
    "chr": lambda x: f"chr(CAST({x} AS INTEGER))",
    "lpad": lambda s, n, by="' '": f"lpad({s}, CAST({n} AS INTEGER), {by})",
    "rpad": lambda s, n, by="' '": f"rpad({s}, CAST({n} AS INTEGER), {by})",
    "json_array_length": lambda *args: f"CAST(json_array_length({', '.join(args)}) AS BIGINT)",
    # A group that took no part is an empty text here.
    "regexp_extract_all": lambda s, p, group="0", *how: (
        f"list_transform(regexp_extract_all({', '.join([s, p, _bare(group), *how])}), lambda x: coalesce(x, ''))"
    ),
    # Of nothing but NULLs it is NULL.
    "list_concat": lambda *lists: (
        f"CASE WHEN {' OR '.join(f'{one} IS NOT NULL' for one in lists)} THEN list_concat({', '.join(lists)}) END"
    ),
    # In the order of the list; DuckDB has none.
    "list_distinct": lambda x: _first_of_each(x, "true"),
    "list_intersect": lambda x, y: (
        f"CASE WHEN {y} IS NOT NULL THEN {_first_of_each(x, f'list_contains({y}, one)')} END"
    ),
    "json_array": lambda *values: f"CAST(json_array({', '.join(map(_read_json, values))}) AS VARCHAR)",
    "json_object": lambda *args: (
        "CAST(json_object("
        + ", ".join(_read_json(one) if at % 2 else one for at, one in enumerate(args))
        + ") AS VARCHAR)"
    ),
    "json_keys": lambda *args: f"json_keys({', '.join(args)})",
    "json_extract": lambda j, path: f"CAST(json_extract({j}, {path}) AS VARCHAR)",
    "make_date": lambda *parts: _midnight(f"make_date({', '.join(parts)})"),
    "make_timestamp": lambda *parts: parts[0] if len(parts) == 1 else f"epoch_us(make_timestamp({', '.join(parts)}))",
    "time_bucket": lambda width, *times: (
        f"epoch_us(time_bucket(to_microseconds({width}), {', '.join(f'make_timestamp({one})' for one in times)}))"
    ),
    "epoch": lambda x: f"epoch(make_timestamp({x}))",
    "epoch_ms": lambda x: f"epoch_ms(make_timestamp({x}))",
    "unix_millis": lambda x: f"(({x} - (({x} % 1000) + 1000) % 1000) // 1000)",
    "epoch_ns": lambda x: f"({x} * 1000)",
    "unix_seconds": lambda x: f"(({x} - (({x} % 1000000) + 1000000) % 1000000) // 1000000)",
    "strptime": lambda s, form: f"epoch_us(strptime({s}, {form}))",
    "try_strptime": lambda s, form: f"epoch_us(try_strptime({s}, {form}))",
    "element": lambda x, place: f"({x})[{place}]",
    "field": lambda x, name: f"struct_extract({x}, {name})",
}


def _zone(kind: pa.DataType) -> str | None:
    zone = getattr(kind, "tz", None)
    return None if zone in (None, "UTC") else f"'{zone}'"


def _shown(text: str, kind: pa.DataType) -> str:
    """What clocks show at an instant; any other time as it is."""
    zone = _zone(kind)
    return text if zone is None else f"wm_shown({text}, {zone})"


def _truncated(unit: str, text: str, kind: pa.DataType) -> str:
    shown, zone = _shown(text, kind), _zone(kind)
    start = f"epoch_us(CAST(date_trunc({unit}, make_timestamp({shown})) AS TIMESTAMP))"
    if zone is None:
        return start
    if unit.strip("'") in _WITHIN_AN_HOUR:
        return f"({text} - ({shown} - {start}))"
    return f"wm_first({start}, {zone}, true)"


def _cast_instant(text: str, source: pa.DataType, target: pa.DataType) -> str:
    zone = _zone(target)
    if zone is not None:
        return f"wm_first({text}, {zone}, false)" if pa.types.is_date(source) else text
    shown = _shown(text, source)
    day = f"epoch_us(CAST(date_trunc('day', make_timestamp({shown})) AS TIMESTAMP))"
    return day if pa.types.is_date(target) else shown


def _cast(text: str, source: pa.DataType, target: pa.DataType, word: str = "CAST") -> str:
    """By DuckDB's own casts, where they mean the same; what it refuses is asked of another oracle."""
    if source == target:
        return text
    if is_instant(source) and is_instant(target) and word == "CAST":
        return _cast_instant(text, source, target)
    if is_text(target) and not is_text(source):
        return _written(text, source)
    if not (is_number(target) or pa.types.is_boolean(target)):
        raise InexpressibleError(f"a cast from {sql_type(source)} to {sql_type(target)}")
    if is_text(source) and word == "CAST":
        return f"CAST(trim({text}) AS {sql_type(target)})"
    if is_number(source) or pa.types.is_boolean(source):
        given = text if pa.types.is_integer(source) else typed(text, source)
        if _is_huge(source) and pa.types.is_floating(target):
            given = f"CAST({given} AS VARCHAR)"
        return f"{word}({given} AS {sql_type(target)})"
    raise InexpressibleError(f"a cast from {sql_type(source)} to {sql_type(target)}")


def _is_huge(kind: pa.DataType) -> bool:
    """Whether DuckDB gives the nearest double of such a number only if it reads it."""
    return bool(pa.types.is_decimal(kind) and kind.scale == 0 and kind.precision > _SHORT_DIGITS)


def _beside_doubles(text: str, kind: pa.DataType) -> str:
    return f"CAST(CAST({text} AS VARCHAR) AS DOUBLE)" if _is_huge(kind) else text


def _written(text: str, source: pa.DataType) -> str:
    if pa.types.is_integer(source) or pa.types.is_boolean(source):
        return f"CAST({text} AS VARCHAR)"
    if pa.types.is_floating(source):
        # Columns are doubles here; and a NaN has a sign in DuckDB.
        return f"CASE WHEN isnan({text}) THEN 'nan' ELSE CAST({typed(text, source)} AS VARCHAR) END"
    if pa.types.is_decimal(source) and source.scale < source.precision:  # else there is no digit before the point
        return f"CAST({typed(text, source)} AS VARCHAR)"
    if pa.types.is_duration(source):
        return f"CAST(to_microseconds({text}) AS VARCHAR)"
    if is_instant(source) and getattr(source, "tz", None) is None:
        # Years before the first are written otherwise.
        later = f"CASE WHEN {text} < {_YEAR_1_US} THEN error('a year before the first') ELSE make_timestamp({text}) END"
        return f"CAST(CAST({later} AS {sql_type(source)}) AS VARCHAR)"
    raise InexpressibleError(f"a cast from {sql_type(source)} to STRING")
