"""OVER in DuckDB's words. The frames are DuckDB's own; only where rows are equal their order is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.checking.duckdb_aggregates import aggregate_sql, sort_key_sql
from watersmeet.checking.duckdb_expressions import Translator, quoted, typed
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
        case "rank" | "dense_rank":
            return f"{call.function}() OVER ({by_keys})"
        case "lag" | "lead":
            found = f"{call.function}({args[0]}, {call.offset}) OVER ({by_place})"
            there = f"{call.function}({place}, {call.offset}) OVER ({by_place})"
            return found if len(args) == 1 else f"CASE WHEN {there} IS NULL THEN {args[1]} ELSE {found} END"
    over = f"({by_keys if call.frame.unit == 'range' else by_place} {_frame(call)})"
    if call.function in ("first_value", "last_value"):
        best = "arg_min" if call.function == "first_value" else "arg_max"
        # In a struct, as these pass over NULL.
        return f"struct_extract({best}(struct_pack(v := {args[0]}), {place}) OVER {over}, 'v')"
    value = args[0] if args else "*"
    if call.function == "avg":  # the exact mean is a sum and a count
        total, number = (_aggregate(call, function, value, place, over) for function in ("sum", "count"))
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
    # Times are numbers of microseconds here, so both units are told by a number.
    since = "UNBOUNDED" if frame.preceding is None else str(frame.preceding)
    return f"{frame.unit.upper()} BETWEEN {since} PRECEDING AND CURRENT ROW"
