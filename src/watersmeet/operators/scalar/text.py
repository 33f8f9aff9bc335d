"""Text functions. Positions count characters from 1, as in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import is_bytes
from watersmeet.operators.scalar.lists import lengths
from watersmeet.operators.scalar.values import Function, Value, as_text, null_where, per_constant
from watersmeet.plan.expressions import Call
from watersmeet.plan.nested_functions import is_list

_LAST = 2**63 - 1


def _plain(kernel: Callable[[Value], Value]) -> Function:
    return lambda args, call: kernel(as_text(args[0]))


def like(args: Sequence[Value], call: Call) -> Value:
    """`%` stands for any text, `_` for any one character; there is no escape character."""
    text, pattern = as_text(args[0]), args[1].as_py()
    if pattern is None:
        return pa.scalar(None, pa.bool_())
    # To match_like a backslash is an escape.
    return pc.match_like(text, pattern.replace("\\", "\\\\"))


def _matching(kernel: Callable[[Value, str], Value]) -> Function:
    def apply(args: Sequence[Value], call: Call) -> Value:
        pattern = args[1].as_py()
        return pa.scalar(None, pa.bool_()) if pattern is None else kernel(as_text(args[0]), pattern)

    return per_constant(1, apply)


def concat(args: Sequence[Value], call: Call) -> Value:
    return pc.binary_join_element_wise(*map(as_text, args), pa.scalar(""), null_handling="emit_null")


def concat_ws(args: Sequence[Value], call: Call) -> Value:
    """CONCAT_WS(between, s, …): NULLs are passed over; NULL between them makes all NULL."""
    between, *texts = (as_text(arg) for arg in args)

    # Not by Arrow's own way to skip NULLs, which loses rows that hold nothing else.
    def joined(left: Value, right: Value) -> Value:
        both = pc.binary_join_element_wise(left, right, between, null_handling="emit_null")
        return pc.coalesce(both, left, right)

    made = pc.coalesce(reduce(joined, texts), pa.scalar(""))
    return null_where(pc.is_null(between), made)


def _trimming(kernel: Callable[[Value, str], Value]) -> Function:
    """Blanks, or any of the characters of a second text, are taken off."""

    def apply(args: Sequence[Value], call: Call) -> Value:
        characters = args[1].as_py() if len(args) > 1 else " "
        if characters is None:
            return pa.scalar(None, pa.string())
        return kernel(as_text(args[0]), characters) if characters else as_text(args[0])

    return per_constant(1, apply)


def length(args: Sequence[Value], call: Call) -> Value:
    if is_list(args[0].type):
        return lengths(args[0])
    return pc.binary_length(args[0]) if is_bytes(args[0].type) else pc.utf8_length(as_text(args[0]))


def replace(args: Sequence[Value], call: Call) -> Value:
    old, new = args[1].as_py(), args[2].as_py()
    if old is None or new is None:
        return pa.scalar(None, pa.string())
    text = as_text(args[0])
    # Arrow would look for an empty text for ever.
    return pc.replace_substring(text, old, new) if old else text


def substring(args: Sequence[Value], call: Call) -> Value:
    """SUBSTRING(text, start, length); a negative start counts from the end."""
    start, count = args[1].as_py(), args[2].as_py() if len(args) > 2 else None
    if start is None or (count is None and len(args) > 2):
        return pa.scalar(None, pa.string())
    if count is not None and count < 0:
        raise pa.ArrowInvalid(f"the length {count} is negative")
    # Places before the first count as well: SUBSTRING('abc', 0, 2) is 'a'.
    first = start if start < 0 else start - 1
    stop = None if count is None else min(first + count, _LAST)
    if start < 0:
        return pc.utf8_slice_codeunits(as_text(args[0]), start, None if stop is None or stop >= 0 else stop)
    return pc.utf8_slice_codeunits(as_text(args[0]), max(0, first), None if stop is None else max(0, stop))


FUNCTIONS: dict[str, Function] = {
    "like": per_constant(1, like),
    "concat": concat,
    "lower": _plain(pc.utf8_lower),
    "upper": _plain(pc.utf8_upper),
    "reverse": _plain(pc.utf8_reverse),
    "trim": _trimming(pc.utf8_trim),
    "ltrim": _trimming(pc.utf8_ltrim),
    "rtrim": _trimming(pc.utf8_rtrim),
    "length": length,
    "substring": per_constant(1, per_constant(2, substring)),
    "starts_with": _matching(pc.starts_with),
    "ends_with": _matching(pc.ends_with),
    "contains": _matching(pc.match_substring),
    "replace": per_constant(1, per_constant(2, replace)),
}
# With NULLs of their own way.
LENIENT: dict[str, Function] = {"concat_ws": concat_ws}
