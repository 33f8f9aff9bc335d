"""Functions that only OVER has: what they take, and whether the frame matters to them."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.plan.expressions import OverCall
from watersmeet.plan.signatures import Types

RANKINGS = ("row_number", "rank", "dense_rank")
OFFSETS = ("lag", "lead")
VALUES = ("first_value", "last_value")
OVER_FUNCTIONS = (*RANKINGS, *OFFSETS, *VALUES)
# Of these the rows of a partition must be known to its end.
NEVER_CERTAIN = ("ntile", "percent_rank", "cume_dist", "nth_value")


def over_type(function: str, args: Types) -> pa.DataType:
    """The type of a function of OVER that is no aggregate."""
    if function in RANKINGS:
        if args:
            raise TypeError(f"{function.upper()} takes no arguments, not {len(args)}")
        return pa.int64()
    if not args:
        raise TypeError(f"{function.upper()} needs a column, for example {function.upper()}(x)")
    if function in VALUES and len(args) != 1:
        raise TypeError(f"{function.upper()} takes 1 argument, not {len(args)}")
    return args[0]


def keeps_for_us(call: OverCall) -> int | None:
    """For how long rows matter to a function of OVER by event time; None: there is no end to it."""
    if call.function == "last_value":
        return 0  # one of its own peers
    if call.function in (*RANKINGS, *OFFSETS) or call.frame.unit == "rows":
        return None
    return call.frame.preceding
