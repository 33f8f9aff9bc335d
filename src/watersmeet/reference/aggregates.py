"""The aggregates over the values of one group, in plain Python. NULLs are passed over, except by COUNT(*).

Sums, means and variances are exact and rounded once, so they do not depend on the order of rows.
NaN and infinities are as in IEEE 754: any NaN gives NaN, and so do two different infinities.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.types import sql_type
from watersmeet.plan.expressions import Aggregate
from watersmeet.plan.functions import exact_share
from watersmeet.reference.evaluate import Combination, by_user, evaluate
from watersmeet.reference.nested_functions import json_text
from watersmeet.reference.order import in_order, rank, same
from watersmeet.reference.values import Value

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
        return 0.0 if call.function == "entropy" else None
    if call.function == "string_agg":
        ordered = sorted(values) if call.distinct else values
        return (evaluate(call.args[1], group[0]) if len(call.args) > 1 else ",").join(ordered)
    if call.function == "percentile_disc":
        return _percentile_disc(values, float(evaluate(call.args[1], group[0])), descending=len(call.args) > 2)
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
            return first
        case "json_agg":
            return json_text(first, pa.list_(call.args[0].type.field(1).type))
        case "json_object_agg" | "jsonb_object_agg":
            kind = call.args[0].type.field(2).type
            pairs = values if call.function == "json_object_agg" else dict(values).items()
            return (
                "{" + ",".join(f"{json_text(key, pa.string())}:{json_text(value, kind)}" for key, value in pairs) + "}"
            )
        case "map_agg":
            return list(dict(values).items())
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
    if pa.types.is_duration(kind):
        return sum(values)
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


def _avg(values: Sequence[Value], kind: pa.DataType) -> Value:
    if pa.types.is_duration(kind):
        return _interval_mean(values)
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


def _percentile_disc(values: Sequence[Value], share: float, *, descending: bool) -> Value:
    """The first value with at least so many of all up to it."""
    ordered = sorted(values, key=rank, reverse=descending)
    return ordered[max(math.ceil(exact_share(share) * len(ordered)), 1) - 1]


def _covariance(pairs: Sequence[Value], *, sample: bool) -> float | None:
    known = [tuple(map(float, pair)) for pair in pairs if None not in pair]
    if len(known) < 1 + sample:
        return None
    if not all(math.isfinite(value) for pair in known for value in pair):
        return math.nan
    left, right = ([Fraction(pair[place]) for pair in known] for place in (0, 1))
    joint = sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))
    spread = joint - sum(left, Fraction(0)) * sum(right, Fraction(0)) / len(known)
    return _rounded(spread / (len(known) - sample))


def _moments(values: Sequence[Value]) -> list[Fraction]:
    """The means of the powers of the distances from the mean, from the second to the fourth."""
    exact = [Fraction(float(value)) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    return [sum(((one - mean) ** power for one in exact), Fraction(0)) / len(exact) for power in (2, 3, 4)]


def _shape(values: Sequence[Value], at_least: int, formula: Callable[..., float]) -> float | None:
    if len(values) < at_least or len({same([float(value)]) for value in values}) == 1:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    second, third, fourth = _moments(values)
    return formula(len(values), second, third, fourth)


def _skewness(n: int, second: Fraction, third: Fraction, fourth: Fraction) -> float:
    return math.sqrt(n * (n - 1)) / (n - 2) * math.copysign(math.sqrt(third**2 / second**3), 1 if third > 0 else -1)


def _kurtosis(n: int, second: Fraction, third: Fraction, fourth: Fraction) -> float:
    return float((n - 1) * ((n + 1) * fourth / second**2 - 3 * (n - 1)) / Fraction((n - 2) * (n - 3)))


def _entropy(values: Sequence[Value], kind: pa.DataType) -> float:
    shares = [count / len(values) for count in Counter(same([value]) for value in values).values()]
    return math.fsum(-share * math.log2(share) for share in shares)


def _interval_mean(values: Sequence[Value]) -> int:
    """To the nearest microsecond, away from zero if two are as near."""
    mean = Fraction(sum(values), 1000 * len(values))
    return 1000 * int(math.copysign(math.floor(abs(mean) + Fraction(1, 2)), mean))


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
    "covar_pop": lambda values, kind: _covariance(values, sample=False),
    "covar_samp": lambda values, kind: _covariance(values, sample=True),
    "skewness": lambda values, kind: _shape(values, 3, _skewness),
    "kurtosis": lambda values, kind: _shape(values, 4, _kurtosis),
    "kurtosis_pop": lambda values, kind: _shape(values, 2, lambda n, m2, m3, m4: float(m4 / m2**2) - 3),
    "entropy": _entropy,
    "bit_and": lambda values, kind: reduce(and_, values),
    "bit_or": lambda values, kind: reduce(or_, values),
    "bit_xor": lambda values, kind: reduce(xor, values),
    "variance": _variance,
    "var_pop": lambda values, kind: _variance(values, kind, sample=False),
    "stddev_pop": lambda values, kind: _stddev(values, kind, sample=False),
    "stddev": _stddev,
    "first": lambda values, kind: values[0],
    "last": lambda values, kind: values[-1],
}
