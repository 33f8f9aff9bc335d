"""The conditions of an ASOF JOIN, by what they are about."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.types import common_type
from watersmeet.plan.expressions import Call, Expression, streams_of


@dataclass(frozen=True)
class AsOfConditions:
    """What must be equal, as pairs of one side's value and the other's in one type; what is asked of each side alone;
    and what else compares the two, which such a join cannot go by."""

    equal: tuple[tuple[Expression, Expression], ...]
    left_only: tuple[Expression, ...]
    right_only: tuple[Expression, ...]
    others: tuple[Expression, ...]


def asof_conditions(predicates: Iterable[Expression], right: str) -> AsOfConditions:
    """`right` is the alias of the side that is looked up; everything else is the other."""
    equal: list[tuple[Expression, Expression]] = []
    left_only: list[Expression] = []
    right_only: list[Expression] = []
    others: list[Expression] = []
    for predicate in predicates:
        streams = streams_of(predicate)
        if right not in streams:
            left_only.append(predicate)
        elif streams == {right}:
            right_only.append(predicate)
        else:
            pair = _pair(predicate, right)
            if pair is None:
                others.append(predicate)
            else:
                equal.append(pair)
    return AsOfConditions(tuple(equal), tuple(left_only), tuple(right_only), tuple(others))


def _pair(predicate: Expression, right: str) -> tuple[Expression, Expression] | None:
    if not isinstance(predicate, Call) or predicate.function != "eq":
        return None
    one, other = predicate.args
    if streams_of(one) == {right}:
        one, other = other, one
    if streams_of(other) != {right} or right in streams_of(one):
        return None
    kind = common_type(one.type, other.type)
    return _as(one, kind), _as(other, kind)


def _as(expression: Expression, kind: pa.DataType) -> Expression:
    return expression if expression.type == kind else Call("cast", (expression,), kind)
