"""Sort the AND-ed predicates: filters of one input, equalities, comparisons between two, and the rest.

A predicate between two inputs that can be written `f(a) OPERATOR g(b)` runs inside the kernels on codes. What
cannot (OR across inputs, LIKE, arithmetic over three inputs) is tested on whole combinations afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pyarrow as pa

from watersmeet.model.types import common_type
from watersmeet.physical.strategy import MIRRORED, Code, Comparison, Equality, JoinStrategy, Order, is_exact
from watersmeet.plan.expressions import Call, Expression, Literal, conjuncts, streams_of, uses_event_time, walk
from watersmeet.plan.functions import result_type
from watersmeet.plan.nodes import Join

INT64_MIN = -(2**63)
ORDERS: dict[str, Order] = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "ne": "ne"}


def classify_predicates(strategy: JoinStrategy) -> JoinStrategy:
    filters: dict[str, list[Expression]] = defaultdict(list)
    equalities: list[Equality] = []
    comparisons: list[Comparison] = []
    residuals: list[Expression] = []
    verified: list[Expression] = []
    for predicate in strategy.join.predicates:
        streams = streams_of(predicate)
        equality = _equality(predicate)
        found = _comparisons(predicate)
        if _is_filter(predicate):
            filters[streams.pop()].append(predicate)
        elif equality is not None:
            equalities.append(equality)
            # Both sides have one type by now, so both are exact or neither is.
            if not equality.left.exact:
                verified.append(predicate)
        else:
            comparisons += found
            if not found or any(map(_is_wide, found)):
                residuals.append(predicate)
    return replace(
        strategy,
        filters={stream: tuple(parts) for stream, parts in filters.items()},
        equalities=tuple(equalities),
        comparisons=tuple(comparisons),
        residuals=tuple(residuals),
        verified=tuple(verified),
    )


def is_implied(predicate: Expression) -> bool:
    """Whether kernels test it already, if generously, so that hardly any combination fails it afterwards."""
    return bool(_comparisons(predicate))


def alternatives(join: Join) -> tuple[Join, ...]:
    """Joins that together find the combinations of one which has no key but in an OR, as NOT IN has: each equality in
    it is the key of one of them, and each condition on one input, such as that it is NULL, lets few rows into another.
    What holds by several of its parts is found by as many."""
    if any(_equality(predicate) is not None for predicate in join.predicates):
        return (join,)
    for predicate in join.predicates:
        parts = conjuncts(predicate, "or")
        keyed = [_equality(part) is not None for part in parts]
        if any(keyed) and all(key or _is_filter(part) for key, part in zip(keyed, parts, strict=True)):
            others = tuple(one for one in join.predicates if one is not predicate)
            ways = sorted(zip(keyed, parts, strict=True), key=lambda way: not way[0])
            return tuple(replace(join, predicates=(*others, part)) for _, part in ways)
    return (join,)


def _is_filter(predicate: Expression) -> bool:
    # event_time() is known of whole combinations only.
    return len(streams_of(predicate)) == 1 and not uses_event_time(predicate)


def _sides(predicate: Expression) -> tuple[Expression, Expression] | None:
    """Both sides of a two-argument call if each depends on exactly one input, and not the same."""
    if not isinstance(predicate, Call) or len(predicate.args) != 2 or uses_event_time(predicate):
        return None
    left, right = predicate.args
    if len(streams_of(left)) == 1 and len(streams_of(right)) == 1 and streams_of(left) != streams_of(right):
        return left, right
    return None


def code_of(expression: Expression, compared_as: pa.DataType) -> Code:
    (stream,) = streams_of(expression)
    # The cast is part of the code: rows are encoded once, in the type in which they are compared.
    if expression.type != compared_as:
        expression = Call("cast", (expression,), compared_as)
    return Code(stream, expression)


def _codes(left: Expression, right: Expression) -> tuple[Code, Code]:
    compared_as = common_type(left.type, right.type)
    return code_of(left, compared_as), code_of(right, compared_as)


def _equality(predicate: Expression) -> Equality | None:
    sides = _sides(predicate)
    if sides is None or not isinstance(predicate, Call) or predicate.function != "eq":
        return None
    if pa.types.is_nested(sides[0].type) and sides[0].type != sides[1].type:
        return None
    return Equality(*_codes(*sides))


def _comparisons(predicate: Expression) -> list[Comparison]:
    """The comparisons on codes that the predicate implies; empty if there are none."""
    if not isinstance(predicate, Call) or predicate.function not in ORDERS:
        return []
    sides = _sides(predicate)
    if sides is not None:
        left, right = _codes(*sides)
        # Codes of other types are hashes, which have no order.
        if not left.exact:
            return []
        operator = ORDERS[predicate.function]
        # Twice, as either input may be the one that is searched.
        return [Comparison(left, operator, right), Comparison(right, MIRRORED[operator], left)]
    return _band(predicate)


def _band(predicate: Call) -> list[Comparison]:
    """`ABS(a - b) <= d` and `a - b < d`: what must lie between what."""
    difference, limit, operator = predicate.args[0], predicate.args[1], ORDERS[predicate.function]
    # `d >= a - b` is read from the other side.
    if isinstance(difference, Literal):
        difference, limit, operator = limit, difference, MIRRORED[operator]
    if not isinstance(limit, Literal) or limit.value is None or operator == "ne":
        return []
    symmetric = isinstance(difference, Call) and difference.function == "abs"
    if symmetric:
        assert isinstance(difference, Call)
        difference = difference.args[0]
        # `ABS(a - b) >= d` leaves two pieces and is no interval.
        if operator not in ("lt", "le"):
            return []
    if not isinstance(difference, Call) or difference.function != "subtract":
        return []
    sides = _sides(difference)
    if sides is None:
        return []
    a, b = sides
    made = _shifted(a, operator, b, limit)
    if symmetric:
        made = made + _shifted(b, operator, a, limit) if made else []
    return made


def _shifted(a: Expression, operator: Order, b: Expression, limit: Literal) -> list[Comparison]:
    """`a - b OPERATOR d` as `a OPERATOR b + d`, and as `b MIRRORED a - d`."""
    made = []
    for own, function, other, order in ((a, "add", b, operator), (b, "subtract", a, MIRRORED[operator])):
        found = _sum(function, other, limit, own.type, order)
        if found is None:
            return []
        order, bound = found
        compared_as = common_type(own.type, bound.type)
        if not is_exact(compared_as):
            return []
        made.append(Comparison(code_of(own, compared_as), order, code_of(bound, compared_as)))
    return made


def _sum(
    function: str, value: Expression, limit: Literal, compared_with: pa.DataType, order: Order
) -> tuple[Order, Expression] | None:
    """`ORDER value + limit` or `ORDER value - limit`. In floating point that may round past the exact sum, so there it
    is taken generously (wide_add, wide_subtract) and the predicate itself is tested later."""
    kinds = (value.type, limit.type, compared_with)
    # Any of the three: a double on one side makes the whole comparison one.
    if any(map(pa.types.is_floating, kinds)):
        return order, Call(f"wide_{function}", (value, limit), pa.float64())
    try:
        kind = result_type(function, [value.type, limit.type])
    except TypeError:
        return None
    if all(pa.types.is_integer(one) and one != pa.uint64() for one in kinds):
        return _stopping_sum(function, value, limit, order)
    return order, Call(function, (value, limit), kind)


def _stopping_sum(function: str, value: Expression, limit: Literal, order: Order) -> tuple[Order, Expression] | None:
    """Nobody has written this sum, so it is no error where it does not fit: it stops at the largest or smallest number
    (stopping_add, stopping_subtract). Of `<` and `<=`, or of `>` and `>=`, the one is taken that is right there."""
    if limit.value == INT64_MIN:
        return None
    sign = 1 if function == "add" else -1
    by = sign * limit.value
    if by > 0 and order in ("lt", "ge"):
        order, by = "le" if order == "lt" else "gt", by - 1
    elif by < 0 and order in ("le", "gt"):
        order, by = "lt" if order == "le" else "ge", by + 1
    shift = Literal(sign * by, pa.int64())
    return order, Call(f"stopping_{function}", (value, shift), pa.int64())


def _is_wide(comparison: Comparison) -> bool:
    """Whether the comparison lets through more than its predicate, which must then still be tested."""
    return any(isinstance(e, Call) and e.function.startswith("wide_") for e in walk(comparison.bound.expression))
