"""Aggregates and keys of ORDER BY in DuckDB's words."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.checking.duckdb_expressions import InexpressibleError, Translator
from watersmeet.model.types import is_text, sql_type
from watersmeet.plan.expressions import Aggregate, Literal, SortKey, Way


def sort_key_sql(key: SortKey) -> str:
    return f"{Translator().sql(key.expression)} {way_sql(key)}"


def way_sql(way: Way | SortKey) -> str:
    return f"{'DESC' if way.descending else 'ASC'} NULLS {'FIRST' if way.nulls_first else 'LAST'}"


def aggregate_sql(call: Aggregate, value: str, order: str) -> str:
    if call.is_marked:
        return _marked_sql(call, value, order)
    each = f"DISTINCT {value}" if call.distinct else value
    number = f"{'DISTINCT ' if call.distinct else ''}CAST({value} AS DOUBLE)"
    match call.function:
        case "count" | "min" | "max":
            return f"{call.function}({each})"
        case "sum":
            # fsum compensates for rounding; the engine's sums are exact.
            return f"{'fsum' if pa.types.is_floating(call.type) else 'sum'}({each})"
        case "avg" if pa.types.is_duration(call.type):
            return interval_mean_sql(f"sum({each})", f"count({each})")
        case "avg":
            total = "fsum" if pa.types.is_floating(call.args[0].type) else "sum"
            return f"(CAST({total}({each}) AS DOUBLE) / count({each}))"
        case "median":
            return f"quantile_cont({number}, 0.5)"
        case "percentile":
            return f"quantile_cont({number}, {Translator().sql(call.args[1])})"
        case "percentile_disc":
            share = call.args[1]
            assert isinstance(share, Literal)
            if len(call.args) > 2:
                return f"max({each})" if not share.value else f"quantile_disc({each}, -{share.value})"
            return f"quantile_disc({each}, {share.value})"
        case "covar_pop" | "covar_samp":
            return f"{call.function}({value}.f0, {value}.f1)"
        case "skewness" | "kurtosis" | "kurtosis_pop":
            return f"{call.function}({number})"
        case "entropy" | "bit_and" | "bit_or" | "bit_xor":
            return f"{call.function}({each})"
        case "stddev" | "variance":
            return f"{'stddev_samp' if call.function == 'stddev' else 'var_samp'}({number})"
        case "stddev_pop" | "var_pop":
            return f"{call.function}({number})"
        case "bool_and" | "bool_or":
            return f"{call.function}({value})"
        case "string_agg" if call.distinct:
            return f"string_agg(DISTINCT {value}, {_separator(call)} ORDER BY {value})"
        case "string_agg":
            return f"string_agg({value}, {_separator(call)} ORDER BY {order})"
        case "mode":
            return f"mode({value} ORDER BY {order})"
        case "arg_min" | "arg_max":
            return f"{call.function}({value}.f0, {value}.f1 ORDER BY {order})"
        case "first" | "last":
            return f"{call.function}({value} ORDER BY {order}) FILTER (WHERE {value} IS NOT NULL)"
    if call.user is not None:
        raise InexpressibleError(f"{call.user.name}, an aggregate that was brought")
    raise InexpressibleError(f"the aggregate {call.function.upper()}")


def interval_mean_sql(total: str, number: str) -> str:
    """Of microseconds, to the nearest one."""
    return f"(sign({total}) * ((2 * abs({total}) + {number}) // nullif(2 * {number}, 0)))"


def _marked_sql(call: Aggregate, packed: str, order: str) -> str:
    """Of rows that count, which is the first field of what is packed, by keys, which are the last ones."""
    if call.user is not None:
        raise InexpressibleError(f"{call.user.name}, an aggregate that was brought")
    width = call.args[0].type.num_fields - len(call.order_by)
    # Distinct values are ordered by themselves, and DuckDB has to see that.
    places = [1 if call.distinct else width + n for n, _ in enumerate(call.order_by)]
    keys = [f"{packed}.f{place} {way_sql(way)}" for place, way in zip(places, call.order_by, strict=True)]
    distinct = "DISTINCT " * call.distinct
    by = ", ".join(keys if call.distinct else [*keys, order])
    counts = f"{packed}.f0" if call.takes_nulls else f"{packed}.f0 AND {packed}.f1 IS NOT NULL"
    only = f"FILTER (WHERE {counts})"
    value = f"{packed}.f1"
    match call.function:
        case "array_agg":
            return f"list({distinct}{value} ORDER BY {by}) {only}"
        case "string_agg":
            return f"string_agg({distinct}{value}, {_separator(call)} ORDER BY {by}) {only}"
        case "first" | "last" | "mode":
            return f"{call.function}({value} ORDER BY {by}) {only}"
        case "json_agg":
            return f"('[' || string_agg({_json(call, packed, 1)}, ',' ORDER BY {by}) {only} || ']')"
        case "json_object_agg":
            pair = f"{_json(call, packed, 1)} || ':' || {_json(call, packed, 2)}"
            return f"('{{' || string_agg({pair}, ',' ORDER BY {by}) {only} || '}}')"
    raise InexpressibleError(f"the aggregate {call.function.upper()}")


def _json(call: Aggregate, packed: str, place: int) -> str:
    """A field of what is packed as JSON, if DuckDB writes it alike."""
    kind = call.args[0].type.field(place).type
    if call.distinct or not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise InexpressibleError(f"{call.function.upper()} of {sql_type(kind)}")
    return f"coalesce(CAST(to_json({packed}.f{place}) AS VARCHAR), 'null')"


def _separator(call: Aggregate) -> str:
    return Translator().sql(call.args[1]) if len(call.args) > 1 else "','"
