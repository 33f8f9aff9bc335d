"""CORR and REGR_…: of pairs of numbers y and x, of which neither is NULL, read as what they are made of.

Where they divide by nothing they are what they are in DuckDB: NaN or NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.plan.expressions import Literal
from watersmeet.sql.syntax import Constant, all_of, span_of


@dataclass(frozen=True)
class _Pairs:
    """The parts of which such aggregates are made, in rows for which a condition holds."""

    y: exp.Expr
    x: exp.Expr
    only: exp.Expr | None

    def _each(self, name: str, value: exp.Expr) -> exp.Expr:
        there = [exp.Not(this=exp.Is(this=one.copy(), expression=exp.Null())) for one in (self.y, self.x)]
        holds = all_of([*there, None if self.only is None else self.only.copy()])
        counted = exp.Case(ifs=[exp.If(this=holds, true=value.copy())])
        return exp.Anonymous(this=name, expressions=[counted])

    @property
    def count(self) -> exp.Expr:
        return self._each("COUNT", exp.Literal.number(1))

    @property
    def covariance(self) -> exp.Expr:
        call = exp.Anonymous(this="COVAR_POP", expressions=[self.y.copy(), self.x.copy()])
        return call if self.only is None else exp.Filter(this=call, expression=exp.Where(this=self.only.copy()))

    def mean(self, value: exp.Expr) -> exp.Expr:
        return self._each("AVG", value)

    def variance(self, value: exp.Expr) -> exp.Expr:
        return self._each("VAR_POP", value)

    def deviation(self, value: exp.Expr) -> exp.Expr:
        return self._each("STDDEV_POP", value)


def of_pairs(call: exp.Anonymous, only: exp.Expr | None = None) -> exp.Expr | None:
    """What a call stands for, in rows for which a condition holds; None if it is no such aggregate."""
    makes = _MAKERS.get(str(call.name).lower())
    if makes is None or len(call.expressions) != 2 or any(isinstance(e, exp.Distinct) for e in call.expressions):
        return None
    y, last = call.expressions
    # In no order they are another.
    x = last.this if isinstance(last, exp.Order) else last
    made = exp.Paren(this=makes(_Pairs(y, x, only)))
    for part in made.walk():
        if span_of(part) is None:  # errors point at what was written
            part.meta.update(call.meta)
    return made


def _times(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Mul(this=left, expression=right)


def _by(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Div(this=left, expression=right)


def _unless_zero(value: exp.Expr, instead: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    zero = exp.EQ(this=value, expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=zero, true=instead)], default=otherwise)


def _not_a_number() -> exp.Expr:
    return Constant(literal=Literal(math.nan, pa.float64()))


def _corr(pairs: _Pairs) -> exp.Expr:
    spread = _times(pairs.deviation(pairs.x), pairs.deviation(pairs.y))
    return _unless_zero(exp.Paren(this=spread), _not_a_number(), _by(pairs.covariance, exp.Paren(this=spread.copy())))


def _slope(pairs: _Pairs) -> exp.Expr:
    spread = pairs.variance(pairs.x)
    return _unless_zero(spread, _not_a_number(), _by(pairs.covariance, spread.copy()))


def _intercept(pairs: _Pairs) -> exp.Expr:
    spread = pairs.variance(pairs.x)
    rise = _times(_by(pairs.covariance, spread.copy()), pairs.mean(pairs.x))
    return _unless_zero(spread, exp.Null(), exp.Sub(this=pairs.mean(pairs.y), expression=rise))


def _r2(pairs: _Pairs) -> exp.Expr:
    of_x, of_y = pairs.variance(pairs.x), pairs.variance(pairs.y)
    squared = _times(_by(pairs.covariance, of_x.copy()), _by(pairs.covariance, of_y.copy()))
    one = exp.Literal.number("1.0")
    return _unless_zero(of_x, exp.Null(), _unless_zero(of_y, one, squared))


_MAKERS: dict[str, Callable[[_Pairs], exp.Expr]] = {
    "corr": _corr,
    "regr_count": lambda pairs: pairs.count,
    "regr_avgx": lambda pairs: pairs.mean(pairs.x),
    "regr_avgy": lambda pairs: pairs.mean(pairs.y),
    "regr_sxx": lambda pairs: _times(pairs.count, pairs.variance(pairs.x)),
    "regr_syy": lambda pairs: _times(pairs.count, pairs.variance(pairs.y)),
    "regr_sxy": lambda pairs: _times(pairs.count, pairs.covariance),
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _r2,
}
