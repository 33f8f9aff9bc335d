"""What a function takes and gives: a number of arguments, and a rule from their types to the type of the result.

A rule raises TypeError with a sentence for the user. NULL literals have Arrow's null type and fit anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.types import is_bytes, is_instant, is_number, is_text, sql_type
from watersmeet.plan.arithmetic import promoted

Types = Sequence[pa.DataType]
Rule = Callable[[str, Types], pa.DataType]
# Whether a type will do, and the words for those that will.
Wanted = tuple[Callable[[pa.DataType], bool], str]


@dataclass(frozen=True)
class Signature:
    """How many arguments a function takes and what type comes out; `at_most` None means any number. `wanted`: the kinds
    of its arguments, where these are all that its rule asks for."""

    rule: Rule
    at_least: int
    at_most: int | None
    wanted: tuple[Wanted, ...] | None = None


TEXT: Wanted = (is_text, "text (STRING)")
BYTES: Wanted = (lambda t: is_text(t) or is_bytes(t), "text or bytes (STRING, BINARY)")
NUMBER: Wanted = (is_number, "a number")
WHOLE: Wanted = (pa.types.is_integer, "a whole number")
INSTANT: Wanted = (is_instant, "a TIMESTAMP or DATE")
COUNTED: Wanted = (
    lambda t: is_instant(t) or pa.types.is_duration(t), "a TIMESTAMP, DATE or interval"
)  # fmt: skip
SPAN: Wanted = (pa.types.is_duration, "an interval such as INTERVAL 5 MINUTES")
ANY: Wanted = (lambda t: True, "a value")


# How functions are written that cannot be called by their name.
_SIGNS = {"int_divide": "//", "bit_and": "&", "bit_or": "|", "bit_not": "~", "date_plus_days": "DATE_ADD",
          "plus_months": "+ INTERVAL 1 MONTH *", "at_time_zone": "AT TIME ZONE"}  # fmt: skip


def check(function: str, position: int, given: pa.DataType, wanted: Wanted) -> None:
    """Refuse an argument of another kind."""
    fits, words = wanted
    if not (pa.types.is_null(given) or fits(given)):
        way_out = "; CAST(… AS STRING) would do" if wanted in (TEXT, BYTES) else ""
        if way_out and pa.types.is_list(given):
            way_out = "; ARRAY_TO_STRING(l, ', ') makes a text of a list"
        if wanted == INSTANT and pa.types.is_duration(given):
            way_out = "; EPOCH(…) gives the seconds of an interval"
        where = f" as argument {position}" if position else ""
        name = _SIGNS.get(function, function.upper())
        raise TypeError(f"{name} needs {words}{where}, not {sql_type(given)}{way_out}")


def gives(result: pa.DataType, *wanted: Wanted, optional: int = 0, more: bool = False) -> Signature:
    """A function of arguments of these kinds, the last few of them optional; with `more` the last kind may go on."""

    def rule(function: str, args: Types) -> pa.DataType:
        for position, given in enumerate(args):
            # Where all are of one kind it does not matter which is meant.
            place = position + 1 if len(set(wanted)) > 1 else 0
            check(function, place, given, wanted[min(position, len(wanted) - 1)])
        return result

    return Signature(rule, len(wanted) - optional, None if more else len(wanted), wanted)


def number_in(function: str, args: Types) -> pa.DataType:
    for t in args:
        check(function, 0, t, NUMBER)
    return promoted(args[0])


def to_double(function: str, args: Types) -> pa.DataType:
    number_in(function, args)
    return pa.float64()


def rounding(function: str, args: Types) -> pa.DataType:
    result = number_in(function, args[:1])
    if len(args) > 1 and not pa.types.is_integer(args[1]):
        raise TypeError(f"{function.upper()} needs a whole number of digits, not {sql_type(args[1])}")
    if pa.types.is_decimal(result) and len(args) == 1:
        # One digit more before the point, as 9.9 becomes 10.
        return pa.decimal128(min(38, result.precision - result.scale + 1), 0)
    if pa.types.is_decimal(result) and function == "round":
        return pa.decimal128(min(38, result.precision + 1), result.scale)
    return result
