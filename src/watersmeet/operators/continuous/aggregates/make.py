"""From an aggregate of a plan to what computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.errors import UnsupportedError
from watersmeet.model.types import is_bytes, is_text, sql_type
from watersmeet.operators.continuous.aggregates.arg_extremes import ArgExtreme
from watersmeet.operators.continuous.aggregates.bits import Bits
from watersmeet.operators.continuous.aggregates.collected import Collected, Summary
from watersmeet.operators.continuous.aggregates.contract import Aggregator, BySlots
from watersmeet.operators.continuous.aggregates.counts import Count
from watersmeet.operators.continuous.aggregates.distinct import DistinctValues
from watersmeet.operators.continuous.aggregates.extremes import Extreme, Nothing
from watersmeet.operators.continuous.aggregates.incremental import Incremental
from watersmeet.operators.continuous.aggregates.moments import entropy, kurtosis, kurtosis_of_all, skewness
from watersmeet.operators.continuous.aggregates.moments_of_one import SPREADS, MomentsOfOne
from watersmeet.operators.continuous.aggregates.percentiles import DiscretePercentile, Percentile
from watersmeet.operators.continuous.aggregates.summaries import (
    first_of_all,
    in_order,
    joined,
    json_list,
    json_object,
    last_of_all,
    listed,
    mapped,
    mode,
    of_user,
    separator,
    with_last_of_each,
)
from watersmeet.operators.continuous.aggregates.sums import (
    Covariance,
    DecimalSum,
    ExactMean,
    FloatSum,
    IntegerSum,
    IntervalMean,
)
from watersmeet.physical.strategy import is_exact
from watersmeet.plan.expressions import Aggregate, to_text
from watersmeet.plan.functions import PAIRED

SAME_IF_DISTINCT = ("min", "max", "first", "last", "bool_and", "bool_or", "bit_and", "bit_or")
# Of all values, in whichever order they came.
BY_VALUE = ("skewness", "kurtosis", "kurtosis_pop", "entropy")
MAX_DIGITS = 38  # of decimals


def make_aggregators(aggregates: Sequence[tuple[Aggregate, str | None]], *, fifo: bool) -> list[Aggregator]:
    """Aggregators of the same rows, each with the name of its argument column, if it has one. Where the variance of a
    column is kept, its count, sum and mean are those that this has."""
    shared: dict[str, MomentsOfOne] = {}
    for one, argument in aggregates:
        if argument is not None and one.function in SPREADS and _is_plain(one):
            shared.setdefault(argument, MomentsOfOne(one.args[0].type))
    made: list[Aggregator] = []
    for one, argument in aggregates:
        moments = None if argument is None else shared.get(argument)
        if moments is not None and _is_moment(one):
            _check_plain(one)
            made.append(moments.member(one))
        else:
            made.append(make_aggregator(one, fifo=fifo))
    return made


def counts_up_and_down(aggregates: Sequence[tuple[Aggregate, str | None]], *, fifo: bool) -> bool:
    """Whether a value for each group is enough to let rows enter and leave, as with SUM, COUNT and AVG."""
    return all(isinstance(one, BySlots) for one in make_aggregators(aggregates, fifo=fifo))


def _is_moment(aggregate: Aggregate) -> bool:
    """Whether the sums that make a variance tell it."""
    if aggregate.function == "sum" and not pa.types.is_floating(aggregate.args[0].type):
        return False
    return aggregate.function in ("count", "sum", "avg", *SPREADS) and _is_plain(aggregate)


def _is_plain(aggregate: Aggregate) -> bool:
    """Whether it is of all values as they are, and there are any."""
    is_other = aggregate.distinct or aggregate.is_marked or aggregate.user is not None
    return not is_other and not pa.types.is_null(aggregate.args[0].type)


def make_aggregator(aggregate: Aggregate, *, fifo: bool) -> Aggregator:
    """An aggregator without rows. `fifo` promises that the rows of a group leave in the order they came."""
    if aggregate.user is not None and aggregate.user.is_incremental:
        return DistinctValues(Incremental(aggregate, by_value=True)) if aggregate.distinct else Incremental(aggregate)
    if aggregate.is_marked:
        return _make_collected(aggregate)
    if aggregate.user is not None and not aggregate.distinct:
        return Collected(aggregate.args[0].type, of_user(aggregate))
    if aggregate.function in ("arg_min", "arg_max"):
        return ArgExtreme(aggregate)
    if aggregate.function in PAIRED:
        return Covariance(aggregate)
    nested = bool(aggregate.args) and pa.types.is_nested(aggregate.args[0].type)
    if nested and aggregate.function in ("first", "last") and (summary := _summary(aggregate)):
        return Collected(aggregate.args[0].type, summary)
    if not nested and (aggregate.distinct or aggregate.function != "count"):
        _check_plain(aggregate)
    if aggregate.distinct and aggregate.function not in SAME_IF_DISTINCT and (summary := _summary(aggregate)):
        return DistinctValues(Collected(aggregate.args[0].type, summary, by_value=True))
    if aggregate.distinct and aggregate.function not in SAME_IF_DISTINCT:
        return DistinctValues(make_aggregator(replace(aggregate, distinct=False), fifo=False))
    if aggregate.function == "count":
        return Count()
    if pa.types.is_null(aggregate.args[0].type):
        return Nothing(aggregate)
    match aggregate.function:
        case "sum" | "avg":
            return _make_sum(aggregate)
        case "variance" | "stddev" | "var_pop" | "stddev_pop":
            return MomentsOfOne(aggregate.args[0].type).member(aggregate)
        case "bit_and" | "bit_or" | "bit_xor":
            return Bits(aggregate)
        case "median" | "percentile":
            return Percentile(aggregate)
        case "percentile_disc":
            return DiscretePercentile(aggregate)
        case "min" | "max" | "first" | "last" | "bool_and" | "bool_or":
            return Extreme(aggregate, fifo=fifo)
    if summary := _summary(aggregate):
        return Collected(aggregate.args[0].type, summary, by_value=aggregate.function in BY_VALUE)
    raise ValueError(f"there is no aggregate {aggregate.function}")


def _make_collected(aggregate: Aggregate) -> Aggregator:
    """All rows of a group that count, in their order."""
    summary = _summary(aggregate)
    assert summary is not None
    if aggregate.order_by:
        summary = in_order(summary, aggregate.order_by, distinct=aggregate.distinct)
    return Collected(aggregate.args[0].type, summary, marked=True, nulls=aggregate.takes_nulls)


def _summary(aggregate: Aggregate) -> Summary | None:
    """What an aggregate makes of all values of a group, if it needs them all."""
    if aggregate.user is not None:
        return of_user(aggregate)
    match aggregate.function:
        case "string_agg":
            return joined(separator(aggregate))
        case "mode":
            return mode
        case "first":
            return first_of_all
        case "last":
            return last_of_all
        case "skewness":
            return skewness
        case "kurtosis":
            return kurtosis
        case "kurtosis_pop":
            return kurtosis_of_all
        case "entropy":
            return entropy
        case "array_agg":
            return listed
        case "json_agg":
            return json_list
        case "json_object_agg":
            return json_object
        case "jsonb_object_agg":
            return with_last_of_each(json_object)
        case "map_agg":
            return with_last_of_each(mapped)
    return None


def _check_plain(aggregate: Aggregate) -> None:
    """Refuse what has neither an order nor a key."""
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
        return IntervalMean(aggregate) if pa.types.is_duration(argument) else ExactMean(aggregate)
    return DecimalSum(aggregate) if pa.types.is_decimal(argument) else IntegerSum(aggregate)
