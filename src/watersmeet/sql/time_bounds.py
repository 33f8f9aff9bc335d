"""Conditions that only bound how far apart two streams' times may be, as difference bounds.

A side of a comparison is read as a linear form: a sum of event times and a constant. If the two sides together
hold one event time with +1 and one of another stream with -1, the condition is a bound; anything else stays a
predicate.
"""

from __future__ import annotations

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.windows import Bound
from watersmeet.plan.expressions import Call, Column, Expression, Literal
from watersmeet.sql.scope import Scope

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


@dataclass(frozen=True)
class Linear:
    """`sum(coefficient × event time of stream) + constant_us`."""

    coefficients: tuple[tuple[str, int], ...]
    constant_us: int

    def plus(self, other: Linear, sign: int) -> Linear:
        total = dict(self.coefficients)
        for stream, coefficient in other.coefficients:
            total[stream] = total.get(stream, 0) + sign * coefficient
        kept = tuple((stream, c) for stream, c in total.items() if c)
        return Linear(kept, self.constant_us + sign * other.constant_us)


_ZERO = Linear((), 0)


def time_bounds(condition: Expression, scope: Scope, written: str) -> tuple[Bound, ...] | None:
    """The bounds a condition says and nothing else, or None if it must stay a predicate."""
    if not isinstance(condition, Call) or condition.function not in _MIRRORED:
        return None
    left, right = condition.args
    if _is_abs(left) or _is_abs(right):
        return _absolute(condition.function, left, right, scope, written)
    difference = _difference(left, right, scope)
    return None if difference is None else _compared(difference, condition.function, written)


def shifted_time(expression: Expression, scope: Scope) -> tuple[str, int] | None:
    """The stream of which an expression is the event time, and by how much it is shifted; None if there is none."""
    match _linear(expression, scope):
        case Linear(coefficients=((stream, 1),), constant_us=us):
            return stream, us
    return None


def _difference(left: Expression, right: Expression, scope: Scope) -> Linear | None:
    a, b = _linear(left, scope), _linear(right, scope)
    return None if a is None or b is None else a.plus(b, -1)


def _compared(form: Linear, operator: str, written: str) -> tuple[Bound, ...] | None:
    """`form operator 0` where form is `t_plus - t_minus + c`."""
    pair = _pair(form)
    if pair is None:
        return None
    plus, minus = pair
    c = form.constant_us
    match operator:
        case "le":
            return (Bound(minus, plus, -c, written),)
        case "lt":
            # Times are whole microseconds, so < is <= with one less.
            return (Bound(minus, plus, -c - 1, written),)
        case "ge":
            return (Bound(plus, minus, c, written),)
        case "gt":
            return (Bound(plus, minus, c - 1, written),)
    return (Bound(minus, plus, -c, written), Bound(plus, minus, c, written))


def _pair(form: Linear) -> tuple[str, str] | None:
    """The stream with +1 and the one with -1."""
    signs = {coefficient: stream for stream, coefficient in form.coefficients}
    return (signs[1], signs[-1]) if len(form.coefficients) == 2 and set(signs) == {1, -1} else None


def _is_abs(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.function == "abs"


def _absolute(
    operator: str, left: Expression, right: Expression, scope: Scope, written: str
) -> tuple[Bound, ...] | None:
    """`ABS(a.ts - b.ts) <= w`, either way round; `ABS(…) >= w` is not convex and stays a predicate."""
    if _is_abs(right):
        left, right, operator = right, left, _MIRRORED[operator]
    assert isinstance(left, Call)
    inside, size = _linear(left.args[0], scope), _linear(right, scope)
    if inside is None or size is None or size.coefficients or operator not in ("le", "lt"):
        return None
    limit = Linear((), size.constant_us)
    # |x| <= w is x - w <= 0 and -x - w <= 0.
    above = _compared(inside.plus(limit, -1), operator, written)
    below = _compared(_ZERO.plus(inside, -1).plus(limit, -1), operator, written)
    return None if above is None or below is None else above + below


def _linear(expression: Expression, scope: Scope) -> Linear | None:
    match expression:
        case Column() if scope.is_time(expression):
            return Linear(((expression.stream, 1),), 0)
        case Literal(value=int(us), type=kind) if pa.types.is_duration(kind):
            return Linear((), us)
        case Call(function="add" | "subtract" as function, args=(left, right)):
            a, b = _linear(left, scope), _linear(right, scope)
            sign = 1 if function == "add" else -1
            return None if a is None or b is None else a.plus(b, sign)
        case Call(function="negate", args=(inner,)):
            form = _linear(inner, scope)
            return None if form is None else _ZERO.plus(form, -1)
        # 2 * INTERVAL 1 HOUR: calls of constants are not computed before they come here.
        case Call(function="multiply", args=(Literal(value=int(n)), Literal(value=int(us)))):
            return Linear((), n * us) if pa.types.is_duration(expression.type) else None
    return None
