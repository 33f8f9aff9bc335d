"""Functions that only OVER has: what they take, and whether the frame matters to them."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.plan.expressions import OverCall
from watersmeet.plan.signatures import Types

RANKINGS = ("row_number", "rank", "dense_rank")
# Of these the rows of a partition must be known to its end.
SHARES = ("ntile", "percent_rank", "cume_dist")
OFFSETS = ("lag", "lead")
VALUES = ("first_value", "last_value", "nth_value")
OVER_FUNCTIONS = (*RANKINGS, *SHARES, *OFFSETS, *VALUES)
FRAMELESS = (*RANKINGS, *SHARES, *OFFSETS)
NUMBERED = (*OFFSETS, "nth_value", "ntile")  # those with a number that says which row, or how many parts


def over_type(function: str, args: Types) -> pa.DataType:
    """The type of a function of OVER that is no aggregate; without the number it may have."""
    if function in (*RANKINGS, *SHARES):
        if args:
            known = "1 argument" if function == "ntile" else "no arguments"
            raise TypeError(f"{function.upper()} takes {known}, not {len(args) + (function == 'ntile')}")
        return pa.int64() if function in (*RANKINGS, "ntile") else pa.float64()
    if not args:
        raise TypeError(f"{function.upper()} needs a column, for example {function.upper()}(x)")
    if function in VALUES and len(args) != 1:
        number = 2 if function == "nth_value" else 1
        raise TypeError(f"{function.upper()} takes {number} argument{'s' * (number > 1)}, not {len(args) + number - 1}")
    return args[0]


def looks_ahead(call: OverCall) -> bool:
    """Whether a function asks for rows that come after the current one, and their number or time is known."""
    if call.function in FRAMELESS:
        return call.function == "lead" and call.offset > 0
    return call.frame.end is not None and call.frame.end > 0


def keeps_for_us(call: OverCall) -> int | None:
    """For how long rows matter to a function of OVER by event time; None: there is no end to it."""
    frame = call.frame
    if call.function == "last_value" and frame.ends_here:
        return 0  # one of its own peers
    if call.function in FRAMELESS or frame.unit != "range" or frame.start is None or frame.end is None:
        return None
    # A row that waits for those after it still asks for those before it.
    return max(0, -frame.start) + max(0, frame.end)
