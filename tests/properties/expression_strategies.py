"""Random expressions in SQL, and random values for them: NULL, empty, unicode, negative and extreme ones among them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from watersmeet.plan.functions import FUNCTIONS, scalar_name
from watersmeet.plan.signatures import BYTES, INSTANT, NUMBER, TEXT, WHOLE

# What an expression gives. `near` are doubles that two libraries compute alike but for the last digits: nothing is made
# of them.
KINDS = ("int", "small", "text", "float", "near", "decimal", "time", "date", "bool", "bytes", "list", "texts")
TEXTS = [
    None, "", "a", "ab", "abcabc", "a,b,,c", " x ", "héllo wörld", "日本", "🙂a", "A b-C", "a\nb", "a\\b%_", "12",
    "-1.5", "2.5", "1e3", "+7", "1_000", "0x1F", "99.995", "9223372036854775808", "yes", "2024/1/5 7:05", " true ",
    "2024-02-29", "2024-02-30 10:00:00", "1999-12-31 23:59:59.5", "deadbeef", "YWJj", "xyzzy" * 5,
]  # fmt: skip
FLOATS = [
    None, 0.0, -0.0, 0.5, -0.5, 0.57, 1.0, -1.0, 2.5, -2.5, 100.0, 1e18, -1e300,
    float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
TIMES = [
    None, datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(2024, 2, 29, 12, 30, 1, 500_000),
    datetime(2023, 1, 1), datetime(2000, 12, 31, 23, 0, 59), datetime(1900, 3, 1, 0, 0, 0, 1), datetime(2101, 7, 9, 3),
    datetime(2024, 3, 1), datetime(1969, 7, 20, 20, 17, 40),
]  # fmt: skip
WIDE = ("0", "0.5", "-1.5", "2.5", "127.5", "0.0000000001", "9007199254740992.9999999999", "1844674407370955161.5")
JSON = [
    None, "{}", '{"a": {"b": [1, 2.5]}, "s": "é\\n"}', "[1, 2, 3]", '"x"', "null", '{"a": null, "b": true}',
    '{"a.b": 1}',
]  # fmt: skip
COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "i": ("int", pa.int64(), [None, 0, 1, -1, 7, -8, 63, 64, 255, 2**40, -(2**40), 2**53 + 1, 2**63 - 1, -(2**63)]),
    "n": ("small", pa.int64(), [None, 0, 1, 2, 3, -1, -2, 5, 12]),
    "m": ("small", pa.int32(), [None, 0, 1, 2, 4, -3]),
    "s": ("text", pa.string(), TEXTS),
    "t": ("text", pa.string(), [None, "", "a", "b", ",", "é", "ab", " ", "🙂"]),
    "f": ("float", pa.float64(), FLOATS),
    "g": ("float", pa.float64(), FLOATS[::-1]),
    "d": ("decimal", pa.decimal128(6, 2), [None, Decimal("0.00"), Decimal("1.25"), Decimal("-1.25"), Decimal("99.99")]),
    "e": (
        "decimal",
        pa.decimal128(4, 2),
        [None, *map(Decimal, ("99.99", "-99.99", "99.50", "0.05", "-0.50", "0.57"))],
    ),
    "v": ("wide", pa.decimal128(38, 10), [None, *map(Decimal, WIDE)]),
    "u": ("wide", pa.decimal128(38, 0), [None, *map(Decimal, ("0", "-3", "9007199254740993", "18446744073709551616"))]),
    "r": ("single", pa.float32(), [None, 0.0, 0.1, -2.5, 3.5, 16777216.0, 1e10, 3e-5, float("inf"), float("nan")]),
    "ts": ("time", pa.timestamp("us"), TIMES),
    "us": ("time", pa.timestamp("us"), TIMES[::-1]),
    "day": ("date", pa.date32(), [None, date(1970, 1, 1), date(2024, 2, 29), date(1999, 12, 31), date(1901, 1, 6)]),
    "b": ("bool", pa.bool_(), [None, True, False]),
    "raw": ("bytes", pa.binary(), [None, b"", b"abc", b"\x00\xff"]),
    "l": ("list", pa.list_(pa.int64()), [None, [], [1], [1, 2, 3], [3, None, -1], [None]]),
    "j": ("json", pa.string(), JSON),
    "h": ("map", pa.map_(pa.string(), pa.int64()), [None, [], [("a", 1)], [("b", None), ("é", -2), ("a", 3)]]),
}
_PATTERNS = ("'a'", "'a+b?'", "'[a-c]+'", "'(a)(b)?'", "'^a'", "'[0-9]+'", "'x*'", "'.'", "'b|c'", "'é'")
_FORMATS = (
    "'%Y-%m-%d %H:%M:%S.%f'", "'%a %d %b %y'", "'%-d.%-m. %I %p'", "'%j %U %W %w'", "'%G-%V-%u'", "'%A, %B; %g'",
    "'%x %X 100%%'",
)  # fmt: skip
_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
_PARTS = (
    "year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond", "quarter", "week", "isoyear",
    "yearweek", "dayofweek", "isodow", "dayofyear", "decade", "century", "millennium",
)  # fmt: skip
_ANGLES = ("sqrt", "cbrt", "exp", "ln", "log2", "log10", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
           "cosh", "tanh", "asinh", "acosh", "atanh", "degrees", "radians")  # fmt: skip

# By what comes out. {kind} is an expression of that kind; {…:} are words to choose from.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "int": (
        "gcd({int}, {int})", "lcm({small}, {small})", "({int} // {int})", "({int} & {int})", "({int} | {small})",
        "(~{int})",
        "xor({int}, {int})", "({small} << {int})", "({int} >> {int})", "bit_count({int})", "unix_seconds({time})",
        "sign({int})", "sign({float})", "sign({decimal})", "trunc({int})", "factorial({small})", "epoch_ms({time})",
        "epoch_us({date})", "unix_millis({time})", "epoch_ns({time})",
        "octet_length({text})", "octet_length({bytes})", "unicode({text})",
        "CAST({float} AS BIGINT)", "CAST({decimal} AS BIGINT)", "CAST({wide} AS BIGINT)", "CAST({text} AS BIGINT)",
        "CAST({bool} AS BIGINT)", "CAST(CAST({int} AS INT) AS BIGINT)", "CAST(CAST({decimal} AS TINYINT) AS BIGINT)",
        "CAST(TRY_CAST({wide} AS UTINYINT) AS BIGINT)", "TRY_CAST({float} AS BIGINT)", "TRY_CAST({text} AS BIGINT)",
        "CAST({single} AS BIGINT)",
        "regexp_count({text}, {pattern})", "({small} * {small})", "nullif({int}, {small})", "list_sum({list})",
        "list_unique({list})", "list_count({list})", "width_bucket({small}, 0, 5, 3)", "levenshtein({text}, {text})",
        "width_bucket({float}, 2.5, -1, {small})", "({int} # {small})", "epoch_us({time} - {time})",
        "date_diff('{unit}', {time}, {time})", "date_diff('{unit}', {date}, {time})", "json_array_length({json})",
    ),
    "small": (
        "length({text})", "strpos({text}, {text})", "position({text} IN {text})", "ascii({text})", "{part}({time})",
        "extract({part} FROM {date})", "len({list})", "list_position({list}, {small})", "{list}[{small}]",
        "{map}['a']", "list_max({list})", "list_min({list})", "length({bytes})",
    ),
    "text": (
        "substring({text}, {small})", "substring({text}, {small}, abs({small}))", "({text} || {text})",
        "left({text}, {small})", "right({text}, {small})", "lpad({text}, {small}, {text})",
        "rpad({text}, {small}, 'xy')", "lpad({text}, {small})", "repeat({text}, {small})", "trim({text})",
        "ltrim({text}, {text})", "rtrim({text}, 'ab ')", "trim(BOTH 'a' FROM {text})", "translate({text}, 'abc', 'xy')",
        "split_part({text}, {text}, {small})", "split_part({text}, ',', {small})", "chr({small})", "md5({text})",
        "sha1({bytes})", "sha256({text})", "hex({text})", "hex({int})", "base64({text})", "base64({bytes})",
        "concat_ws({text}, {text}, {text})", "concat_ws('-', {text}, {text}, {text})", "{text}[{small}]",
        "regexp_extract({text}, {pattern})", "regexp_extract({text}, '(a)(b)?', 2)", "{text}[{small}:{small}]",
        "regexp_replace({text}, {pattern}, '-')", "regexp_replace({text}, {pattern}, '<>', 'g')",
        "regexp_replace({text}, '(a)(b)?', '\\2\\1')", "strftime({time}, {format})", "strftime({date}, {format})",
        "dayname({time})", "monthname({date})", "format('{{}}-{{:>5}}', {text}, {text})",
        "format('{{:05d}}|{{}}', {small}, {int})", "printf('%5d|%-4s|%x', {small}, {text}, {small})",
        "array_to_string({list}, ', ')", "array_to_string({texts}, '/')", "{texts}[{small}]",
        "json_extract({json}, '$.a')", "({json} -> '$.a.b[0]')", "({json} ->> 's')", 
        "json_extract_string({json}, '$.a.b')",
        "CAST({int} AS STRING)", "CAST({float} AS STRING)", "CAST({single} AS STRING)", "CAST({decimal} AS STRING)",
        "CAST({wide} AS STRING)", "CAST({time} AS STRING)", "CAST({date} AS STRING)", "CAST({bool} AS STRING)",
        "CAST({time} - {time} AS STRING)", "CAST(CAST({decimal} AS DOUBLE) AS STRING)", "TRY_CAST({bytes} AS STRING)",
        "CAST(CAST({float} AS FLOAT) AS STRING)", "CAST(CAST({wide} AS FLOAT) AS STRING)",
        "json_value({json}, '$.a')", "json_type({json})", "json_type({json}, 'b')", "to_json({text})", "to_json({int})",
        "to_json({float})", "to_json({decimal})", "to_json({time})", "to_json({bool})", "to_json({list})",
        "to_json({texts})", "to_json({map})", "json_object('a', {int}, 'b', {text}, {format}, {json} -> '$.a')",
        "json_array({text}, {int}, to_json({list}))", "({json} #>> '{{a,b,0}}')", "url_decode({text})",
        "({json} ->> '$[-1]')", "CASE WHEN {bool} THEN {text} ELSE {text} END", "coalesce({text}, {text})",
    ),
    "near": (*(f"{name}({{float}})" for name in _ANGLES), *(f"{name}({{decimal}})" for name in _ANGLES[:12]),
             "power({float}, {small})", "atan2({float}, {float})", "log({float}, {float})", "pi()", "epoch({time})",
             "list_avg({list})", "epoch({time} - {time})",
             "({small} ** {small})", "cot({float})"),
    "float": (
        "trunc({float})", "round({float}, 2)", "round({float}, -1)", "trunc({float}, 1)", "round({float})",
        "least({float}, {float})", "CAST({decimal} AS DOUBLE)", "CAST({wide} AS DOUBLE)",
        "CAST({int} AS DOUBLE)", "CAST({text} AS DOUBLE)", "CAST({single} AS DOUBLE)", "greatest({decimal}, {float})",
        "({decimal} / {decimal})", "({wide} / {small})", "({decimal} + {float})",
    ),
    "decimal": (
        "trunc({decimal}, 1)", "greatest({decimal}, {decimal})", "round({decimal})", "round({decimal}, 1)",
        "ceil({decimal})", "floor({decimal})", "CAST({float} AS DECIMAL(12, 3))", "CAST({text} AS DECIMAL(8, 2))",
        "CAST({decimal} AS DECIMAL(3, 1))", "TRY_CAST({decimal} AS DECIMAL(3, 1))", "CAST({int} AS DECIMAL(18, 2))",
        "({decimal} % {decimal})", "CAST({bool} AS DECIMAL(4, 2))", "TRY_CAST({wide} AS DECIMAL(20, 1))",
    ),
    "wide": ("CAST({int} AS DECIMAL(38, 10))", "CAST({decimal} AS DECIMAL(38, 10))", "CAST({text} AS DECIMAL(38, 0))"),
    "single": ("CAST({float} AS FLOAT)", "CAST({decimal} AS FLOAT)", "CAST({wide} AS FLOAT)", 
               "TRY_CAST({text} AS FLOAT)"),
    "time": (
        "(({time} AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'America/New_York')",
        "time_bucket(INTERVAL 5 MINUTES, {time})", "time_bucket(INTERVAL 7 DAYS, {time})", "make_timestamp({small})",
        "({time} + {small} * INTERVAL 1 MONTH)", "({date} - INTERVAL '5' QUARTER)",
        "time_bucket(INTERVAL 3 HOURS, {time}, {time})", "date_trunc('{unit}', {time})",
        "CAST({date} AS TIMESTAMP)", "TRY_CAST({text} AS TIMESTAMP)",
        "strptime({text}, '%Y-%m-%d')", "try_strptime({text}, '%Y-%m-%d')",
        "try_strptime({text}, '%Y-%m-%d %H:%M:%S.%f')",
        "make_timestamp(2000 + {small}, 1 + abs({small}) % 12, 1 + abs({small}) % 28, 0, 59, {small} % 60)",
    ),
    "date": ("CAST({time} AS DATE)", "TRY_CAST({text} AS DATE)",
             "last_day({time})", "last_day({date})", "date_add({date}, {small})", "date_sub({date}, {small})",
             "make_date(2024, {small}, {small})"),
    "bool": (
        "regexp_matches({text}, {pattern})", "regexp_matches({text}, {pattern}, 'i')", "({text} RLIKE {pattern})",
        "regexp_full_match({text}, {pattern})", "ends_with({text}, {text})", "starts_with({text}, {text})",
        "contains({text}, {text})", "isnan({float})", "isinf({float})", "isfinite({float})", "json_valid({text})",
        "list_contains({list}, {small})", "({decimal} = {float})", "({decimal} < {float})", "({wide} = {float})",
        "({wide} >= {decimal})", "({decimal} IN ({float}, {decimal}, 0.05))", "CAST({text} AS BOOLEAN)",
        "CAST({decimal} AS BOOLEAN)", "CAST({float} AS BOOLEAN)", "({decimal} <> {int})", "({bool} AND {bool})",
        "list_has_any({list}, {list})", "list_has_all({list}, {list})", "json_exists({json}, '$.a')",
        "({small} BETWEEN SYMMETRIC {small} AND {small})", "({small} = ANY({list}))", "({small} <> ALL({list}))",
        "({bool} OR NOT {bool})", "({text} IS NULL)", "({int} > {small})", "({int} <= {int})", "({text} LIKE '%a_')",
        "({list} = {list})", "({list} < {list})", "({texts} >= {texts})", "({list} IN ({list}, {list}, [1]))",
        "(STRUCT({small} AS a, {text} AS b) <= STRUCT({small} AS a, {text} AS b))", "(split({text}, ',') <> {texts})",
    ),
    "bytes": ("unhex(hex({text}))", "from_base64(base64({text}))", "encode({text})"),
    "list": (
        "{list}[{small}:{small}]", "{list}[{small}:]", "{list}[:{small}]", "[{int}, NULL, {small}]", "[{int}]",
        "generate_series({small}, {small})", "generate_series({small}, 5, {small})", "list_sort({list})",
        "list_reverse_sort({list})", "list_reverse({list})", "list_distinct({list})", "list_intersect({list}, {list})",
        "list_concat({list}, {list}, {list})", "list_append({list}, {small})", "list_prepend({small}, {list})",
        "map_values({map})",
    ),
    "texts": (
        "split({text}, {text})", "split({text}, ',')", "string_split_regex({text}, '[,a ]')", "ARRAY[{text}, {text}]",
        "regexp_extract_all({text}, {pattern})", "regexp_extract_all({text}, '(a)(b)?', 2)", "json_keys({json})",
        "regexp_match({text}, {pattern})", "regexp_match({text}, '(a)(b)?(é)?', 'i')", "list_sort({texts})",
        "list_distinct({texts})", "map_keys({map})",
    ),
}  # fmt: skip
_KIND_OF_ARGUMENT = {TEXT: "text", BYTES: "bytes", NUMBER: "float", WHOLE: "small", INSTANT: "time"}
_KIND_OF_RESULT = {
    pa.string(): "text", pa.int64(): "int", pa.bool_(): "bool", pa.float64(): "near", pa.binary(): "bytes",
    pa.timestamp("us"): "time", pa.date32(): "date", pa.list_(pa.string()): "texts",
}  # fmt: skip


def _with_those_of_signatures(templates: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Functions that no template calls are called as their signatures say."""
    written = " ".join(one for many in templates.values() for one in many)
    found = dict(templates)
    for name, signature in FUNCTIONS.items():
        wanted = signature.wanted or ()
        known = all(one in _KIND_OF_ARGUMENT for one in wanted) and name not in _PARTS
        if signature.wanted is None or not known or scalar_name(name) is None or re.search(rf"\b{name}\(", written):
            continue
        kind = _KIND_OF_RESULT[signature.rule(name, [pa.null()] * len(wanted))]
        found[kind] += (f"{name}({', '.join(f'{{{_KIND_OF_ARGUMENT[one]}}}' for one in wanted)})",)
    return found


TEMPLATES = _with_those_of_signatures(TEMPLATES)


@dataclass(frozen=True)
class Case:
    """An expression over columns of the table."""

    sql: str
    table: pa.Table

    def __repr__(self) -> str:
        return f"\nSELECT {self.sql}\n{self.table.to_pandas().to_string()}"


@st.composite
def expressions(draw: st.DrawFn, kind: str, depth: int) -> str:
    columns = [name for name, (known, _, _) in COLUMNS.items() if known == kind]
    templates = TEMPLATES.get(kind, ()) if depth > 0 or not columns else ()
    if not templates or (columns and depth < 2 and draw(st.booleans())):
        return draw(st.sampled_from(columns))
    return draw(filled(draw(st.sampled_from(templates)), depth))


@st.composite
def filled(draw: st.DrawFn, template: str, depth: int) -> str:
    made, rest = "", template
    while rest:
        before, brace, rest = rest.partition("{")
        made += before
        if not brace:
            break
        if rest.startswith("{"):  # of the format itself
            inside, _, rest = rest[1:].partition("}}")
            made += "{" + inside + "}"
            continue
        word, _, rest = rest.partition("}")
        choices = {"pattern": _PATTERNS, "format": _FORMATS, "unit": _UNITS, "part": _PARTS}.get(word)
        made += draw(st.sampled_from(choices)) if choices else draw(expressions(word, depth - 1))
    return made


@st.composite
def tables(draw: st.DrawFn, most: int = 12) -> pa.Table:
    rows = draw(st.integers(1, most))
    return pa.table(
        {
            name: pa.array(draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows)), kind)
            for name, (_, kind, values) in COLUMNS.items()
        }
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from([*TEMPLATES, "text", "text", "near", "int"]))
    return Case(draw(expressions(kind, 2)), draw(tables()))
