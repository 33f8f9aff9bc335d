"""From an aggregate of a plan to what computes it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from watersmeet.operators.continuous.aggregates.contract import Aggregator
from watersmeet.operators.continuous.aggregates.counts import Count
from watersmeet.operators.continuous.aggregates.distinct import Distinct
from watersmeet.operators.continuous.aggregates.extremes import Extreme, Nothing
from watersmeet.operators.continuous.aggregates.percentiles import Percentile
from watersmeet.operators.continuous.aggregates.sums import DecimalSum, ExactMean, FloatSum, IntegerSum, Variance
from watersmeet.plan.expressions import Aggregate

SAME_IF_DISTINCT = ("min", "max", "first", "last")


def make_aggregator(aggregate: Aggregate, *, fifo: bool) -> Aggregator:
    """An aggregator without rows. `fifo` promises that the rows of a group leave in the order they came."""
    if aggregate.distinct and aggregate.function not in SAME_IF_DISTINCT:
        return Distinct(make_aggregator(replace(aggregate, distinct=False), fifo=False))
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


def _make_sum(aggregate: Aggregate) -> Aggregator:
    argument = aggregate.args[0].type
    if pa.types.is_floating(argument):
        return FloatSum(aggregate)
    if aggregate.function == "avg":
        return ExactMean(aggregate)
    return DecimalSum(aggregate) if pa.types.is_decimal(argument) else IntegerSum(aggregate)
