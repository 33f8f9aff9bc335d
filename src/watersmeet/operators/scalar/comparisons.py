"""Comparisons with SQL's NULL, and with a NaN that equals itself and is larger than every number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import common_type
from watersmeet.operators.scalar.nested_order import ranks
from watersmeet.operators.scalar.values import Function, Value, as_array, convert, null_where, rows_of
from watersmeet.plan.expressions import Call

Compare = Callable[[Value, Value], Value]


def align(left: Value, right: Value) -> tuple[Value, Value]:
    """Two values in the type they are compared in; nested ones as numbers that have their order."""
    target = comparison_type(left.type, right.type)
    left, right = convert(left, target), convert(right, target)
    return _ranked(left, right) if pa.types.is_nested(target) else (left, right)


def _ranked(left: Value, right: Value) -> tuple[Value, Value]:
    rows = rows_of([left, right])
    both = ranks(pa.concat_arrays([as_array(left, rows), as_array(right, rows)]))
    made = both.slice(0, rows), both.slice(rows)
    return (made[0][0], made[1][0]) if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar) else made


def comparison_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which two values are compared."""
    common = common_type(left, right)
    if pa.types.is_null(common):
        return pa.bool_()
    if pa.types.is_decimal(common) and common.precision == 38:
        return pa.decimal256(76, common.scale)  # no digit of either side is lost
    if pa.types.is_duration(common) and left != right:
        return pa.duration("ns" if "ns" in (left.unit, right.unit) else "us")
    return common


def equal(left: Value, right: Value) -> Value:
    left, right = align(left, right)
    same = pc.equal(left, right)
    if has_nan(left) and has_nan(right):
        return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return same


def less(left: Value, right: Value) -> Value:
    left, right = align(left, right)
    smaller = pc.less(left, right)
    if has_nan(right):
        return pc.or_(smaller, pc.and_not(pc.is_nan(right), pc.is_nan(left)))
    return smaller


def less_equal(left: Value, right: Value) -> Value:
    # With NaN above all numbers the order is total, so at most is not above; and NULL stays NULL.
    return pc.invert(less(right, left))


def has_nan(value: Value) -> bool:
    return bool(pa.types.is_floating(value.type) and pc.any(pc.is_nan(value)).as_py())


def is_in(args: Sequence[Value], call: Call) -> Value:
    """`x IN (…)`: true if found, else NULL if x or any candidate is NULL."""
    needle, candidates = args[0], args[1:]
    known = [c for c in candidates if not isinstance(c, pa.Scalar) or c.is_valid]
    if len(known) > 2 and _same_constants(needle, known):
        found = _in_set(needle, known)
    else:
        found = reduce(pc.or_kleene, [equal(needle, c) for c in known], pa.scalar(False))
    return found if len(known) == len(candidates) else pc.or_kleene(found, pa.scalar(None, pa.bool_()))


def _same_constants(needle: Value, candidates: Sequence[Value]) -> bool:
    """Whether all candidates are constants that are compared in the needle's own type, so that a set will do."""
    if pa.types.is_nested(needle.type):
        return False
    return all(isinstance(c, pa.Scalar) and common_type(needle.type, c.type) == needle.type for c in candidates)


def _in_set(needle: Value, candidates: Sequence[Value]) -> Value:
    members = pa.concat_arrays([pa.repeat(convert(c, needle.type), 1) for c in candidates])
    # is_in finds NaN, but goes by bits, in which -0.0 is not 0.0.
    found = pc.is_in(_without_negative_zero(needle), value_set=_without_negative_zero(members))
    return null_where(pc.is_null(needle), found)


def _without_negative_zero(value: Value) -> Value:
    return pc.add(value, pa.scalar(0.0, value.type)) if pa.types.is_floating(value.type) else value


def null_if(args: Sequence[Value], call: Call) -> Value:
    return null_where(equal(args[0], args[1]), args[0])


def _extreme(is_before: Compare) -> Function:
    def pick(left: Value, right: Value) -> Value:
        # A comparison with NULL picks neither; then it is the one that is not NULL.
        return pc.coalesce(pc.if_else(is_before(left, right), right, left), left, right)

    return lambda args, call: reduce(pick, [convert(arg, call.type) for arg in args])


def _binary(compare: Compare) -> Function:
    return lambda args, call: compare(args[0], args[1])


FUNCTIONS: dict[str, Function] = {
    "eq": _binary(equal),
    "ne": _binary(lambda left, right: pc.invert(equal(left, right))),
    "lt": _binary(less),
    "le": _binary(less_equal),
    "gt": _binary(lambda left, right: less(right, left)),
    "ge": _binary(lambda left, right: less_equal(right, left)),
    "in": is_in,
    "is_null": lambda args, call: pc.is_null(args[0]),
    "nullif": null_if,
    "greatest": _extreme(less),
    "least": _extreme(lambda left, right: less(right, left)),
}
