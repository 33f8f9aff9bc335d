"""OVER in DuckDB's words. The frames are DuckDB's own; only where rows are equal their order is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.checking.duckdb_aggregates import aggregate_sql, interval_mean_sql, sort_key_sql
from watersmeet.checking.duckdb_expressions import InexpressibleError, Translator, quoted, typed
from watersmeet.plan.expressions import OverCall
from watersmeet.plan.nodes import Over, schema_of


def over_sql(node: Over, rows: str, order: Sequence[str], shown: str, apart: str | None = None) -> str:
    """A query for the rows of an OVER, first with a column besides its own. rows: those below it. order: what rows that
    ORDER BY does not tell apart go by. apart: a column by whose values everything happens apart."""
    columns = ", ".join(map(quoted, schema_of(node.child).names))
    places = ", ".join(f"{_place(call, order, apart)} AS {_place_name(name)}" for name, call in node.calls)
    values = ", ".join(
        f"{typed(_value(call, _place_name(name), apart), call.type)} AS {quoted(name)}" for name, call in node.calls
    )
    made = f"SELECT {shown}, {columns}, {values} FROM (SELECT *, {places} FROM ({rows}))"
    translator = Translator()
    selected = ", ".join(f"{translator.output(e)} AS {quoted(name)}" for name, e in node.columns)
    keep = "" if node.keep is None else f" WHERE {translator.sql(node.keep)}"
    return f"SELECT {shown}, {selected} FROM ({made}){keep}"


def _place_name(name: str) -> str:
    return quoted(f"#place of {name}")


def _partition(call: OverCall, apart: str | None) -> str:
    keys = [*([] if apart is None else [apart]), *(Translator().sql(e) for e in call.partition_by)]
    return f"PARTITION BY {', '.join(keys)} " if keys else ""


def _place(call: OverCall, order: Sequence[str], apart: str | None) -> str:
    keys = [*map(sort_key_sql, call.order_by), *order]
    return f"row_number() OVER ({_partition(call, apart)}ORDER BY {', '.join(keys)})"


def _value(call: OverCall, place: str, apart: str | None) -> str:
    partition = _partition(call, apart)
    by_keys = partition + (f"ORDER BY {', '.join(map(sort_key_sql, call.order_by))}" if call.order_by else "")
    by_place = f"{partition}ORDER BY {place}"
    args = [Translator().sql(arg) for arg in call.args]
    match call.function:
        case "row_number":
            return place
        case "rank" | "dense_rank" | "percent_rank" | "cume_dist":
            return f"{call.function}() OVER ({by_keys})"
        case "ntile":
            return f"ntile({call.offset}) OVER ({by_place})"
        case "lag" | "lead":
            return _other_row(call, args, place, by_place)
    if call.frame.unit == "rows" and call.frame.exclude in ("group", "ties"):
        raise InexpressibleError(f"EXCLUDE {call.frame.exclude.upper()} in a frame of rows")
    over = f"({by_place if call.frame.unit == 'rows' else by_keys} {_frame(call)})"
    if call.function == "nth_value":
        number = str(call.offset) if call.by is None else Translator().sql(call.by)
        counted = f" FILTER (WHERE {args[0]} IS NOT NULL)" if call.ignores_nulls else ""
        values = f"list(struct_pack(v := {args[0]}) ORDER BY {place}){counted} OVER {over}"
        return f"CASE WHEN {number} > 0 THEN struct_extract(({values})[{number}], 'v') END"
    if call.function in ("first_value", "last_value", "first", "last") and not call.inside_by:
        best = "arg_min" if call.function.startswith("first") else "arg_max"
        if call.function in ("first", "last"):
            return f"{best}({args[0]}, {place}) OVER {over}"  # which pass over NULL
        return f"struct_extract({best}(struct_pack(v := {args[0]}), {place}) OVER {over}, 'v')"
    value = args[0] if args else "*"
    if call.function == "avg":  # the exact mean is a sum and a count
        total, number = (_aggregate(call, function, value, place, over) for function in ("sum", "count"))
        if pa.types.is_duration(call.type):
            return interval_mean_sql(total, number)
        return f"(CAST({total} AS DOUBLE) / nullif({number}, 0))"
    return _aggregate(call, call.function, value, place, over)


def _aggregate(call: OverCall, function: str, value: str, place: str, over: str) -> str:
    kind = call.args[0].type if function == "sum" and call.function == "avg" else call.type
    aggregate = replace(call.aggregate, function=function, type=kind)
    return f"{aggregate_sql(aggregate, value, place)} OVER {over}"


def _frame(call: OverCall) -> str:
    frame = call.frame
    if frame.whole:
        return "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" if call.order_by else ""
    exclude = f" EXCLUDE {frame.exclude.upper()}" if frame.exclude else ""
    since = _end(frame.start, "PRECEDING", other=frame.end or 0)
    until = _end(frame.end, "FOLLOWING", other=frame.start or 0)
    return f"{frame.unit.upper()} BETWEEN {since} AND {until}{exclude}"


def _end(at: int | None, outermost: str, *, other: int) -> str:
    """Times are numbers of microseconds here, so all units are told by a number. A frame that is empty has both of its
    ends on one side."""
    if at is None:
        return f"UNBOUNDED {outermost}"
    empty = other < at if outermost == "PRECEDING" else other > at
    if at == 0 and not empty:
        return "CURRENT ROW"
    return f"{abs(at)} {'PRECEDING' if (at or other) < 0 else 'FOLLOWING'}"


def _other_row(call: OverCall, args: Sequence[str], place: str, by_place: str) -> str:
    number = str(call.offset) if call.by is None else f"CAST({Translator().sql(call.by)} AS BIGINT)"
    ignoring = " IGNORE NULLS" * call.ignores_nulls
    found = f"{call.function}({args[0]}, {number}{ignoring}) OVER ({by_place})"
    if len(args) == 1:
        return found
    row = f"CASE WHEN {args[0]} IS NOT NULL THEN {place} END" if call.ignores_nulls else place
    there = f"{call.function}({row}, {number}{ignoring}) OVER ({by_place})"
    return f"CASE WHEN {number} = 0 OR {number} IS NULL OR {there} IS NOT NULL THEN {found} ELSE {args[1]} END"
