"""Times moved by months, which go by the calendar: `ts + INTERVAL 1 MONTH`, `INTERVAL 1 YEAR * n + ts`."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import UnsupportedError
from watersmeet.model.types import is_instant, is_text
from watersmeet.plan.expressions import Call, Expression, Literal
from watersmeet.sql import literals
from watersmeet.sql.clause_binder import ClauseBinder
from watersmeet.sql.syntax import Months

_CALLS = {"to_months": 1, "to_quarters": 3, "to_years": 12}


def moved_by_months(binder: ClauseBinder, node: exp.Add | exp.Sub) -> Expression | None:
    """A sum or difference of a time and months; None if it is another."""
    backwards = isinstance(node, exp.Sub)
    moved = months_later(binder, node.this, node.expression, node, backwards=backwards)
    return moved if moved is not None or backwards else months_later(binder, node.expression, node.this, node)


def months_later(
    binder: ClauseBinder, start: exp.Expr, interval: exp.Expr, node: exp.Expr, *, backwards: bool = False
) -> Expression | None:
    """A time and an interval of months; None if that has none, or is no interval."""
    months = _months_in(binder, interval)
    if months is None:
        return None
    return _moved(
        binder, binder.bind(start), _folded(binder.call("negate", [months], node) if backwards else months), node
    )


def uneven(binder: ClauseBinder, node: exp.Expr) -> Exception:
    return binder.error(
        "months and years have no fixed length, and are only added to times",
        node,
        hint="write ts + INTERVAL '1' MONTH; or the interval in days",
        kind=UnsupportedError,
    )


def _months_in(binder: ClauseBinder, node: exp.Expr) -> Expression | None:
    match node:
        case exp.Paren():
            return _months_in(binder, node.this)
        case Months():
            return Literal(node.args["months"], pa.int64())
        case exp.Anonymous() if (each := _CALLS.get(node.name.lower())) and len(node.expressions) == 1:
            return binder.call("multiply", [binder.bind(node.expressions[0]), Literal(each, pa.int64())], node)
        case exp.Neg():
            months = _months_in(binder, node.this)
            return None if months is None else binder.call("negate", [months], node)
        case exp.Mul():
            sides = (node.this, node.expression)
            for side, times in (sides, sides[::-1]):
                if (months := _months_in(binder, side)) is not None:
                    return binder.call("multiply", [binder.bind(times), months], node)
    return None


def _folded(months: Expression) -> Expression:
    """A number of months that is known."""
    match months:
        case Call(function="negate", args=(Literal(value=int(value)),)):
            return Literal(-value, pa.int64())
        case Call(function="multiply", args=(Literal(value=int(a)), Literal(value=int(b)))):
            return Literal(a * b, pa.int64())
    return months


def _moved(binder: ClauseBinder, start: Expression, months: Expression, node: exp.Expr) -> Expression:
    if isinstance(start, Literal) and is_text(start.type):
        start = binder.converted(start, pa.timestamp("us"), node)
    match start, months:
        case Literal(value=date()), Literal(value=int(count)) if getattr(start.type, "tz", None) is None:
            try:
                return literals.months_later(start, count)
            except ValueError as error:
                raise binder.error(str(error), node) from None
    if not is_instant(start.type) and not pa.types.is_null(start.type):
        raise uneven(binder, node)
    return binder.call("plus_months", [start, months], node)
