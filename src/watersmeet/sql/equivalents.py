"""Functions of other dialects that say exactly what something of the language says: they are read as that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from sqlglot import exp

from watersmeet.model.time import UNITS_US
from watersmeet.model.time_format import from_letters, from_postgres
from watersmeet.plan.time_functions import unit_named
from watersmeet.sql.pair_aggregates import of_pairs
from watersmeet.sql.syntax import AsDate, Duration, JsonAccess, Months

Args = Sequence[exp.Expr]


def equivalent(node: exp.Anonymous) -> exp.Expr | None:
    """What a call stands for; None if it is a function by itself, or has another number of arguments."""
    if (made := of_pairs(node)) is not None:
        return made
    makes = _MAKERS.get((str(node.name).lower(), len(node.expressions)))
    if makes is None:
        return None
    made = makes([one.copy() for one in node.expressions])
    made.meta.update(node.meta)  # errors point at what was written
    return made


def _choice(condition: exp.Expr, yes: exp.Expr, no: exp.Expr | None = None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=yes)], default=no)


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=value, expression=exp.Null())


def _call(name: str, args: Args) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(args))


def _count_if(args: Args) -> exp.Expr:
    return _call("COUNT", [_choice(args[0], exp.Literal.number(1))])


def _part(args: Args) -> exp.Expr:
    """The part as a word, as EXTRACT has it; what is no text stays, and is refused as a part."""
    return exp.Extract(this=exp.Var(this=args[0].name), expression=args[1])


def _sha2(args: Args) -> exp.Expr:
    """Spark's SHA2(x, 256), or 0 for the same; other lengths are refused as what they are."""
    return _call("SHA256" if args[1].name in ("0", "256") else f"SHA{args[1].name}", args[:1])


def _slice(args: Args) -> exp.Expr:
    return exp.Bracket(this=args[0], expressions=[exp.Slice(this=args[1], expression=args[2])])


def _entry(of: exp.Expr, from_0: exp.Expr) -> exp.Expr:
    """The entry of a list with a number from 0 on, where the language counts from 1."""
    number = exp.Add(this=exp.Paren(this=from_0), expression=exp.Literal.number(1))
    return _choice(
        exp.GTE(this=from_0.copy(), expression=exp.Literal.number(0)), exp.Bracket(this=of, expressions=[number])
    )


def _as_date(value: exp.Expr) -> exp.Expr:
    return AsDate(this=value)


def _our_format(form: exp.Expr) -> exp.Expr:
    """Spark's and PostgreSQL's letters as the words of STRFTIME; a format with % in it has them already."""
    if not isinstance(form, exp.Literal) or not form.is_string or "%" in str(form.this):
        return form
    return exp.Literal.string(from_letters(str(form.this)))


def _read_format(form: exp.Expr) -> exp.Expr:
    """A format to read by, where digits may lack their zeros anyway and a fraction has any number of digits."""
    ours = _our_format(form)
    return exp.Literal.string(ours.name.replace("%-", "%").replace("%g", "%f")) if ours is not form else ours


def _char(args: Args) -> exp.Expr:
    """PostgreSQL's TO_CHAR of a time."""
    if not isinstance(args[1], exp.Literal) or not args[1].is_string:
        raise ValueError("TO_CHAR needs its format as a constant, for example TO_CHAR(ts, 'YYYY-MM-DD')")
    return _call("STRFTIME", [args[0], exp.Literal.string(from_postgres(str(args[1].this)))])


_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def _added(args: Args) -> exp.Expr:
    """DATEADD(unit, n, ts)"""
    unit = unit_named(args[0].name) or ""
    if unit not in UNITS_US and unit not in _MONTHS:
        raise ValueError(f"{args[0].name or 'this'} is no unit of time; write ts + INTERVAL 1 DAY")
    each = Duration(us=UNITS_US[unit]) if unit in UNITS_US else Months(months=_MONTHS[unit])
    return exp.Add(this=args[2], expression=exp.Mul(this=exp.Paren(this=args[1]), expression=each))


def _encoded(args: Args) -> exp.Expr:
    """PostgreSQL's ENCODE(bytes, form), and Spark's ENCODE(text, charset)."""
    form = args[1].name.lower()
    if form == "hex":
        return _call("LOWER", [_call("HEX", args[:1])])
    return _by_form(form, args, {"base64": "BASE64", "utf-8": "ENCODE", "utf8": "ENCODE"})


def _decoded(args: Args) -> exp.Expr:
    wanted = {"hex": "UNHEX", "base64": "FROM_BASE64", "utf-8": "DECODE", "utf8": "DECODE"}
    return _by_form(args[1].name.lower(), args, wanted)


def _by_form(form: str, args: Args, wanted: dict[str, str]) -> exp.Expr:
    if form not in wanted:
        raise ValueError(f"bytes are written as {', '.join(map(repr, ('hex', *wanted)))}, not as {form!r}")
    return _call(wanted[form], args[:1])


def _into_json(as_text: bool) -> Callable[[Args], exp.Expr]:
    """PostgreSQL's JSON_EXTRACT_PATH(j, 'a', 'b'), a step for each argument."""
    return lambda args: reduce(lambda j, step: JsonAccess(this=j, expression=step, as_text=as_text), args[1:], args[0])


def _thousand(times: int) -> exp.Expr:
    return exp.Literal.number(1000**times)


def _interval(unit: str) -> Callable[[Args], exp.Expr]:
    return lambda args: exp.Mul(this=args[0], expression=Duration(us=UNITS_US[unit]))


def _distinct_count(args: Args) -> exp.Expr:
    """Others estimate; ours is exact."""
    return _call("COUNT", [exp.Distinct(expressions=list(args))])


def _of_known(call: exp.Expr, value: exp.Expr) -> exp.Expr:
    """An aggregate of values that are not NULL, where ours would keep them."""
    return exp.Filter(this=call, expression=exp.Where(this=exp.Not(this=_is_null(value.copy()))))


def _collected(args: Args) -> exp.Expr:
    return _of_known(_call("ARRAY_AGG", args), args[0])


def _largest(distinct: bool) -> Callable[[Args], exp.Expr]:
    """ksqlDB's TOPK(x, n): a list of the n largest."""

    def made(args: Args) -> exp.Expr:
        value: exp.Expr = exp.Distinct(expressions=[args[0]]) if distinct else args[0]
        downwards = exp.Order(this=value, expressions=[exp.Ordered(this=args[0].copy(), desc=True, nulls_first=False)])
        return _slice([_of_known(_call("ARRAY_AGG", [downwards]), args[0]), exp.Literal.number(1), args[1]])

    return made


def _json_of(kinds: Sequence[str], function: str) -> Callable[[Args], exp.Expr]:
    """What JSON has at a path, if it is of these kinds, and else NULL."""

    def made(args: Args) -> exp.Expr:
        wanted = [exp.Literal.string(kind) for kind in kinds]
        return _choice(exp.In(this=_call("JSON_TYPE", args), expressions=wanted), _call(function, _copies(args)))

    return made


def _copies(args: Args) -> list[exp.Expr]:
    return [one.copy() for one in args]


_MAKERS: dict[tuple[str, int], Callable[[Args], exp.Expr]] = {
    ("iff", 3): lambda args: _choice(*args),
    ("if_else", 3): lambda args: _choice(*args),
    ("square", 1): lambda args: exp.Mul(this=args[0], expression=args[0].copy()),
    ("split_index", 3): lambda args: _entry(_call("SPLIT", args[:2]), args[2]),
    ("locate", 2): lambda args: _call("STRPOS", args[::-1]),
    ("charindex", 2): lambda args: _call("STRPOS", args[::-1]),
    ("regexp_replace_all", 3): lambda args: _call("REGEXP_REPLACE", [*args, exp.Literal.string("g")]),
    ("bit_length", 1): lambda args: exp.Mul(this=_call("OCTET_LENGTH", args), expression=exp.Literal.number(8)),
    ("sha2", 2): _sha2,
    ("encode", 2): _encoded,
    ("decode", 2): _decoded,
    ("div", 2): lambda args: exp.IntDiv(this=args[0], expression=args[1]),
    ("nanvl", 2): lambda args: _choice(_call("ISNAN", [args[0].copy()]), args[1], args[0]),
    ("json_extract_path", 3): _into_json(as_text=False),
    ("json_extract_path_text", 3): _into_json(as_text=True),
    ("array_length", 2): lambda args: _call("LENGTH", args[:1]),
    ("list_first", 1): lambda args: exp.Bracket(this=args[0], expressions=[exp.Literal.number(1)]),
    ("list_last", 1): lambda args: exp.Bracket(this=args[0], expressions=[exp.Literal.number(-1)]),
    ("map_contains", 2): lambda args: _call("LIST_CONTAINS", [_call("MAP_KEYS", args[:1]), args[1]]),
    ("list_extract", 2): lambda args: exp.Bracket(this=args[0], expressions=[args[1]]),
    ("list_element", 2): lambda args: exp.Bracket(this=args[0], expressions=[args[1]]),
    ("array_extract", 2): lambda args: exp.Bracket(this=args[0], expressions=[args[1]]),
    ("element_at", 2): lambda args: exp.Bracket(this=args[0], expressions=[args[1]]),
    ("struct_extract", 2): lambda args: exp.Bracket(this=args[0], expressions=[args[1]]),
    ("list_slice", 3): _slice,
    ("array_slice", 3): _slice,
    ("datediff", 2): lambda args: _call("DATE_DIFF", [exp.Literal.string("day"), *args[::-1]]),
    ("date_diff", 2): lambda args: _call("DATE_DIFF", [exp.Literal.string("day"), *args[::-1]]),
    ("datediff", 3): lambda args: _call("DATE_DIFF", args),
    ("timestampdiff", 3): lambda args: _call("DATE_DIFF", args),
    ("timestamp_diff", 3): lambda args: _call("DATE_DIFF", args),
    ("to_timestamp", 2): lambda args: _call("STRPTIME", [args[0], _read_format(args[1])]),
    ("to_date", 2): lambda args: _as_date(_call("STRPTIME", [args[0], _read_format(args[1])])),
    ("to_char", 2): _char,
    ("to_date", 1): lambda args: _as_date(args[0]),
    ("date", 1): lambda args: _as_date(args[0]),
    ("date_format", 2): lambda args: _call("STRFTIME", [args[0], _our_format(args[1])]),
    ("to_timestamp_seconds", 1): lambda args: _call("TIMESTAMP_SECONDS", args),
    ("to_timestamp_millis", 1): lambda args: _call("TIMESTAMP_MILLIS", args),
    ("to_timestamp_micros", 1): lambda args: _call("MAKE_TIMESTAMP", args),
    ("date_bin", 2): lambda args: _call("TIME_BUCKET", [*args, exp.Literal.string("1970-01-01")]),
    ("date_bin", 3): lambda args: _call("TIME_BUCKET", args),
    ("timezone", 2): lambda args: exp.AtTimeZone(this=args[1], zone=args[0]),
    ("add_months", 2): lambda args: _added([exp.Literal.string("month"), args[1], args[0]]),
    ("dateadd", 3): _added,
    ("date_add", 3): _added,
    ("timestampadd", 3): _added,
    ("timestamp_add", 3): _added,
    ("days_in_month", 1): lambda args: _call("DAY", [_call("LAST_DAY", args)]),
    ("timestamp_millis", 1): lambda args: _call("MAKE_TIMESTAMP", [exp.Mul(this=args[0], expression=_thousand(1))]),
    ("make_timestamp_ms", 1): lambda args: _call("MAKE_TIMESTAMP", [exp.Mul(this=args[0], expression=_thousand(1))]),
    ("timestamp_seconds", 1): lambda args: _call("MAKE_TIMESTAMP", [exp.Mul(this=args[0], expression=_thousand(2))]),
    **{(f"to_{unit}s", 1): _interval(unit) for unit in UNITS_US},
    **{(name, 1): _distinct_count for name in ("approx_count_distinct", "approx_distinct", "count_distinct", "uniq")},
    ("collect_list", 1): _collected,
    ("collect_set", 1): lambda args: _of_known(_call("ARRAY_AGG", [exp.Distinct(expressions=[args[0]])]), args[0]),
    ("topk", 2): _largest(distinct=False),
    ("topkdistinct", 2): _largest(distinct=True),
    ("format_timestamp", 2): lambda args: _call("STRFTIME", [args[0], _our_format(args[1])]),
    ("parse_timestamp", 2): lambda args: _call("STRPTIME", [args[0], _read_format(args[1])]),
    ("json_query", 2): _json_of(("OBJECT", "ARRAY"), "JSON_EXTRACT"),
    ("extract_json_string", 2): _json_of(("VARCHAR",), "JSON_EXTRACT_STRING"),
    ("isnull", 1): lambda args: _is_null(args[0]),
    ("isnull", 2): lambda args: _call("COALESCE", args),
    ("isnotnull", 1): lambda args: exp.Not(this=_is_null(args[0])),
    ("nvl2", 3): lambda args: _choice(_is_null(args[0]), args[2], args[1]),
    ("if", 2): lambda args: _choice(args[0], args[1]),
    ("if", 3): lambda args: _choice(*args),
    ("iif", 3): lambda args: _choice(*args),
    ("date_part", 2): _part,
    ("count_if", 1): _count_if,
    ("countif", 1): _count_if,
}
