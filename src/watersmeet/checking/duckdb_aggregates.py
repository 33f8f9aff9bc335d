"""Aggregates and keys of ORDER BY in DuckDB's words."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.checking.duckdb_expressions import InexpressibleError, Translator
from watersmeet.plan.expressions import Aggregate, SortKey


def sort_key_sql(key: SortKey) -> str:
    direction, nulls = "DESC" if key.descending else "ASC", "FIRST" if key.nulls_first else "LAST"
    return f"{Translator().sql(key.expression)} {direction} NULLS {nulls}"


def aggregate_sql(call: Aggregate, value: str, order: str) -> str:
    each = f"DISTINCT {value}" if call.distinct else value
    number = f"{'DISTINCT ' if call.distinct else ''}CAST({value} AS DOUBLE)"
    match call.function:
        case "count" | "min" | "max":
            return f"{call.function}({each})"
        case "sum":
            # fsum compensates for rounding; the engine's sums are exact.
            return f"{'fsum' if pa.types.is_floating(call.type) else 'sum'}({each})"
        case "avg":
            total = "fsum" if pa.types.is_floating(call.args[0].type) else "sum"
            return f"(CAST({total}({each}) AS DOUBLE) / count({each}))"
        case "median":
            return f"quantile_cont({number}, 0.5)"
        case "percentile":
            return f"quantile_cont({number}, {Translator().sql(call.args[1])})"
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


def _separator(call: Aggregate) -> str:
    return Translator().sql(call.args[1]) if len(call.args) > 1 else "','"
