"""From an aggregate of a plan to what computes it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from watersmeet.errors import UnsupportedError
from watersmeet.model.types import is_bytes, is_text, sql_type
from watersmeet.operators.continuous.aggregates.contract import Aggregator
from watersmeet.operators.continuous.aggregates.counts import Count
from watersmeet.operators.continuous.aggregates.distinct import DistinctValues
from watersmeet.operators.continuous.aggregates.extremes import Extreme, Nothing
from watersmeet.operators.continuous.aggregates.percentiles import Percentile
from watersmeet.operators.continuous.aggregates.sums import DecimalSum, ExactMean, FloatSum, IntegerSum, Variance
from watersmeet.physical.strategy import is_exact
from watersmeet.plan.expressions import Aggregate, to_text

SAME_IF_DISTINCT = ("min", "max", "first", "last")
MAX_DIGITS = 38  # of decimals


def make_aggregator(aggregate: Aggregate, *, fifo: bool) -> Aggregator:
    """An aggregator without rows. `fifo` promises that the rows of a group leave in the order they came."""
    if aggregate.distinct or aggregate.function != "count":
        _check_plain(aggregate)
    if aggregate.distinct and aggregate.function not in SAME_IF_DISTINCT:
        return DistinctValues(make_aggregator(replace(aggregate, distinct=False), fifo=False))
    if aggregate.function == "count":
        return Count()
    if pa.types.is_null(aggregate.args[0].type):
        return Nothing(aggregate)
    match aggregate.function:
        case "sum" | "avg":
            return _make_sum(aggregate)
        case "variance" | "stddev":
            return Variance(aggregate)
        case "median" | "percentile":
            return Percentile(aggregate)
        case "min" | "max" | "first" | "last":
            return Extreme(aggregate, fifo=fifo)
    raise ValueError(f"there is no aggregate {aggregate.function}")


def _check_plain(aggregate: Aggregate) -> None:
    """Refuse lists, structs and their like, which have neither an order nor a key."""
    kind = aggregate.args[0].type
    decimal = pa.types.is_decimal(kind) and kind.precision <= MAX_DIGITS
    if not (is_exact(kind) or is_text(kind) or is_bytes(kind) or decimal or pa.types.is_null(kind)):
        raise UnsupportedError(
            f"{to_text(aggregate)} does not work on values of type {sql_type(kind)}",
            hint="numbers, text, bytes, times and booleans have an order",
        )


def _make_sum(aggregate: Aggregate) -> Aggregator:
    argument = aggregate.args[0].type
    if pa.types.is_floating(argument):
        return FloatSum(aggregate)
    if aggregate.function == "avg":
        return ExactMean(aggregate)
    return DecimalSum(aggregate) if pa.types.is_decimal(argument) else IntegerSum(aggregate)
