"""The aggregates over the values of one group, in plain Python. NULLs are passed over, except by COUNT(*).

Sums, means and variances are exact and rounded once, so they do not depend on the order of rows.
NaN and infinities are as in IEEE 754: any NaN gives NaN, and so do two different infinities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.types import sql_type
from watersmeet.plan.expressions import Aggregate
from watersmeet.reference.evaluate import Combination, by_user, evaluate
from watersmeet.reference.nested_functions import json_text
from watersmeet.reference.order import in_order, rank, same
from watersmeet.reference.values import Value, present

_EXACT = Context(prec=100)


def aggregate(call: Aggregate, group: Sequence[Combination]) -> Value:
    """The value of an aggregate over a group, whose members stand in order: oldest first."""
    if not call.args:
        return len(group)
    if call.is_marked:
        return _in_order(call, group)
    if call.user is not None:
        return _by_user(call, group)
    values = [value for member in group if (value := evaluate(call.args[0], member)) is not None]
    if call.distinct:
        values = _distinct(values, first=call.function == "first")
    if call.function == "count":
        return len(values)
    if not values:
        return None
    if call.function == "string_agg":
        ordered = sorted(values) if call.distinct else values
        return (evaluate(call.args[1], group[0]) if len(call.args) > 1 else ",").join(ordered)
    if call.function == "percentile":
        return percentile(values, float(evaluate(call.args[1], group[0])))
    return _AGGREGATES[call.function](values, call.type)


def _by_user(call: Aggregate, group: Sequence[Combination]) -> Value:
    assert call.user is not None
    values = [value for member in group if (value := evaluate(call.args[0], member)) is not None]
    if call.distinct:
        values = sorted(_distinct(values, first=True), key=rank)
    return by_user(call.user, [values]) if values else None


def _in_order(call: Aggregate, group: Sequence[Combination]) -> Value:
    """Of the rows that count their values, in the order of the keys behind them, then by time."""
    rows = [row[1:] for member in group if (row := evaluate(call.args[0], member))[0] is True]
    if not call.takes_nulls:
        rows = [row for row in rows if row[0] is not None]
    width = len(rows[0]) - len(call.order_by) if rows else 0
    for place, way in reversed([*enumerate(call.order_by, width)]):
        rows = in_order(rows, [row[place] for row in rows], descending=way.descending, nulls_first=way.nulls_first)
    values = [row[:width] for row in rows]
    if call.distinct:
        values = [*{same(row): row for row in reversed(values)}.values()][::-1]
    if not values:
        return None
    first = [row[0] for row in values]
    match call.function:
        case "array_agg":
            return [present(value, call.type.value_type) for value in first]
        case "json_agg":
            return json_text(first, pa.list_(call.args[0].type.field(1).type))
        case "json_object_agg" | "jsonb_object_agg":
            kind = call.args[0].type.field(2).type
            pairs = values if call.function == "json_object_agg" else dict(values).items()
            return (
                "{" + ",".join(f"{json_text(key, pa.string())}:{json_text(value, kind)}" for key, value in pairs) + "}"
            )
        case "map_agg":
            kinds = call.type.key_type, call.type.item_type
            return [tuple(map(present, pair, kinds)) for pair in dict(values).items()]
        case "string_agg":
            return (evaluate(call.args[1], group[0]) if len(call.args) > 1 else ",").join(first)
    if call.user is not None:
        return by_user(call.user, [list(column) for column in zip(*values, strict=True)])
    return _AGGREGATES[call.function](first, call.type)


def _mode(values: Sequence[Value], kind: pa.DataType) -> Value:
    """The most frequent one, of several the oldest."""
    counts: dict[object, int] = {}
    for value in values:
        counts[same([value])] = counts.get(same([value]), 0) + 1
    return next(value for value in values if counts[same([value])] == max(counts.values()))


def _arg_extreme(values: Sequence[Value], pick: Callable[..., Value]) -> Value:
    """Of pairs with the smallest or largest second the first; of equal ones the oldest."""
    known = [pair for pair in values if None not in pair]
    return pick(known, key=lambda pair: rank(pair[1]))[0] if known else None


def _distinct(values: list[Value], *, first: bool) -> list[Value]:
    """Each value once, where it occurs first or last: which one FIRST and LAST take depends on it."""
    if first:
        kept: dict[object, Value] = {}
        for value in values:
            kept.setdefault(same([value]), value)
        return list(kept.values())
    return list({same([value]): value for value in reversed(values)}.values())[::-1]


def _sum(values: Sequence[Value], kind: pa.DataType) -> Value:
    if pa.types.is_floating(kind):
        return float_sum(map(float, values))
    total = sum(values) if pa.types.is_integer(kind) else _decimal_sum(values)
    # Decimals have 38 digits in all.
    limit = 2**63 if pa.types.is_integer(kind) else 10 ** (38 - kind.scale)
    if not -limit <= total < limit:
        raise DataError(f"SUM is {total}, which {sql_type(kind)} cannot hold", hint="sum CAST(x AS DOUBLE) instead")
    return total


def _decimal_sum(values: Iterable[Decimal]) -> Decimal:
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, value)
    return total


def float_sum(values: Iterable[float]) -> float:
    """The sum as if computed without rounding, then rounded once."""
    listed = list(values)
    if not all(map(math.isfinite, listed)):
        # Python adds infinities as IEEE 754 does: two different ones are NaN.
        return sum(value for value in listed if not math.isfinite(value))
    return _rounded(sum(map(Fraction, listed), Fraction(0)))


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _avg(values: Sequence[Value], kind: pa.DataType) -> float:
    if not all(map(math.isfinite, values)):
        return float_sum(values)
    return _rounded(sum(map(Fraction, values), Fraction(0)) / len(values))


def _min(values: Sequence[Value], kind: pa.DataType) -> Value:
    return min(values, key=rank)


def _max(values: Sequence[Value], kind: pa.DataType) -> Value:
    return max(values, key=rank)


def percentile(values: Sequence[Value], share: float) -> float:
    """The value at `share` of the way from the smallest to the largest, on the line between its two neighbours;
    computed in doubles, as DuckDB does."""
    ordered = sorted(values, key=rank)
    position = share * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    part = position - math.floor(position)
    # On a line between equal infinities there would be NaN.
    return float(low) if low == high else float(low) * (1 - part) + float(high) * part


def _variance(values: Sequence[Value], kind: pa.DataType, *, sample: bool = True) -> float | None:
    """The squared distances from the mean, summed exactly, over their number; of a sample over one less."""
    if len(values) < 1 + sample:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    return _rounded(sum(((value - mean) ** 2 for value in exact), Fraction(0)) / (len(exact) - sample))


def _stddev(values: Sequence[Value], kind: pa.DataType, *, sample: bool = True) -> float | None:
    variance = _variance(values, kind, sample=sample)
    return None if variance is None else math.sqrt(variance)


_AGGREGATES: dict[str, Callable[[Sequence[Value], pa.DataType], Value]] = {
    "sum": _sum,
    "avg": _avg,
    "min": _min,
    "max": _max,
    "median": lambda values, kind: percentile(values, 0.5),
    "bool_and": lambda values, kind: all(values),
    "bool_or": lambda values, kind: any(values),
    "mode": _mode,
    "arg_min": lambda values, kind: _arg_extreme(values, min),
    "arg_max": lambda values, kind: _arg_extreme(values, max),
    "variance": _variance,
    "var_pop": lambda values, kind: _variance(values, kind, sample=False),
    "stddev_pop": lambda values, kind: _stddev(values, kind, sample=False),
    "stddev": _stddev,
    "first": lambda values, kind: values[0],
    "last": lambda values, kind: values[-1],
}
