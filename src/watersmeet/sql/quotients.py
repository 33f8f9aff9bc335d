"""`/` of integers, which is a DOUBLE here and a whole number in many other systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from watersmeet.plan.expressions import Call, Expression, Literal, to_text
from watersmeet.sql.scope import Text
from watersmeet.warning import PlanWarning

COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "in"))
_ARITHMETIC = frozenset(
    ("add", "subtract", "multiply", "divide", "negate")
)  # others, as FLOOR or CAST, say what is meant


def warn_of_quotients(parts: Iterable[Expression], text: Text) -> None:
    """Tell once in a query that a quotient of integers, of which this asks whether it is equal or less, has a fraction.
    Beside a number with a fraction that is meant."""
    parts = list(parts)
    if any(isinstance(part, Literal) and _has_fraction(part.type) for part in parts):
        return
    for call in (found for part in parts for found in _quotients(part)):
        over, under = map(to_text, call.args)
        text.warn_once(
            PlanWarning(
                "integer_division",
                f"{to_text(call)} divides integers and is a DOUBLE: 7 / 2 is 3.5 here, and 3 in many other systems; "
                f"write {over} // {under} for the whole number, or CAST({over} AS DOUBLE) / {under} if this is meant",
            )
        )


def _quotients(part: Expression) -> Iterator[Call]:
    if not isinstance(part, Call) or part.function not in _ARITHMETIC:
        return
    if part.function == "divide" and all(pa.types.is_integer(one.type) for one in part.args):
        yield part
    for one in part.args:
        yield from _quotients(one)


def _has_fraction(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))
