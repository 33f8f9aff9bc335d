"""A DATE among times is its midnight: beside an instant in the query's zone, beside a TIMESTAMP as written."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa

from watersmeet.model.types import common_type, sql_type
from watersmeet.plan.expressions import Call, Expression, Literal, to_text
from watersmeet.sql import literals
from watersmeet.warning import PlanWarning, warn


def mixes_dates(args: list[Expression]) -> bool:
    """Whether dates stand beside times."""
    kinds = [arg.type for arg in args]
    return any(map(pa.types.is_date, kinds)) and any(map(pa.types.is_timestamp, kinds))


def with_midnights(args: list[Expression]) -> list[Expression]:
    """The values with every date as the time it stands for among the others. Raises ValueError for a constant whose
    midnight is skipped."""
    if not mixes_dates(args):
        return args
    target = reduce(common_type, [arg.type for arg in args if not pa.types.is_null(arg.type)])
    return [_at_midnight(arg, target) if pa.types.is_date(arg.type) else arg for arg in args]


def warn_of_midnights(left: Expression, right: Expression) -> None:
    """Tell that a date equals a time only at midnight, which is rarely what is meant. Constants are meant."""
    if not mixes_dates([left, right]) or isinstance(left, Literal) or isinstance(right, Literal):
        return
    day, time = (left, right) if pa.types.is_date(left.type) else (right, left)
    # Whoever truncates a time, or casts it, means midnight.
    if isinstance(time, Call) and time.function in ("cast", "date_trunc"):
        return
    text = (
        f"{to_text(left)} = {to_text(right)} compares a DATE with a {sql_type(time.type)}: only times at midnight are "
        f"equal to it; for any time of that day write CAST({to_text(time)} AS DATE) = {to_text(day)}"
    )
    warn(PlanWarning("midnight", text))


def _at_midnight(arg: Expression, target: pa.DataType) -> Expression:
    return literals.cast(arg, target) if isinstance(arg, Literal) else Call("cast", (arg,), target)
