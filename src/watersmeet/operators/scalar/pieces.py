"""Texts taken apart and filled up: by places, which count characters from 1, and by separators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.scalar.lists import picked
from watersmeet.operators.scalar.values import Function, Value, as_array, as_text, convert, numpy_of, per_constant
from watersmeet.plan.expressions import Call

_NULL = pa.scalar(None, pa.string())
_EMPTY = pa.scalar("")
_LONGEST = 1 << 24  # characters that a text is filled up to


def left(args: Sequence[Value], call: Call) -> Value:
    """The first n characters, or all but the last n if n is negative."""
    count = args[1].as_py()
    if count is None:
        return _NULL
    return pc.utf8_slice_codeunits(as_text(args[0]), 0, count)


def right(args: Sequence[Value], call: Call) -> Value:
    """The last n characters, or all but the first n if n is negative."""
    count = args[1].as_py()
    if count is None:
        return _NULL
    if count == 0:
        return pc.if_else(pc.is_null(args[0]), _NULL, _EMPTY)
    return pc.utf8_slice_codeunits(as_text(args[0]), -count, None)


def _padded(at_the_end: bool) -> Function:
    def apply(args: Sequence[Value], call: Call) -> Value:
        size, filler = args[1].as_py(), args[2].as_py() if len(args) > 2 else " "
        if size is None or filler is None:
            return _NULL
        if size > _LONGEST:
            raise pa.ArrowInvalid(f"a text of {size} characters is too long")
        text = as_text(args[0])
        missing = pc.subtract(pa.scalar(size, pa.int64()), pc.cast(pc.utf8_length(text), pa.int64()))
        if not filler:
            if pc.any(pc.greater(missing, 0)).as_py() if not isinstance(missing, pa.Scalar) else _above(missing):
                raise pa.ArrowInvalid("an empty text cannot fill up another")
            return pc.utf8_slice_codeunits(text, 0, max(0, size))
        return _filled([text, missing], call, filler, at_the_end)

    return per_constant(1, per_constant(2, apply))


def _above(value: pa.Scalar) -> bool:
    return bool(value.is_valid and value.as_py() > 0)


def _filled(args: Sequence[Value], call: Call, filler: str, at_the_end: bool) -> Value:
    """Texts that miss equally many characters are filled together."""

    def fill(group: Sequence[Value], call: Call) -> Value:
        text, missing = group[0], group[1].as_py()
        if missing is None:
            return _NULL
        if missing <= 0:
            return text if missing == 0 else _shortened(text, missing)
        padding = pa.scalar((filler * (missing // len(filler) + 1))[:missing])
        parts = (text, padding) if at_the_end else (padding, text)
        return pc.binary_join_element_wise(*parts, "")

    return per_constant(1, fill)(args, call)


def _shortened(text: Value, by: int) -> Value:
    # Of equally many characters too many; a wanted size below zero keeps none.
    return pc.utf8_slice_codeunits(text, 0, by)


def repeat(args: Sequence[Value], call: Call) -> Value:
    times = convert(args[1], pa.int64())
    return pc.binary_repeat(as_text(args[0]), pc.max_element_wise(times, pa.scalar(0, pa.int64()), skip_nulls=False))


def strpos(args: Sequence[Value], call: Call) -> Value:
    """Where the first occurrence begins; 0 if there is none."""
    part = args[1].as_py()
    if part is None:
        return pa.scalar(None, pa.int64())
    text = as_text(args[0])
    if not part:
        return pc.if_else(pc.is_null(text), pa.scalar(None, pa.int64()), pa.scalar(1, pa.int64()))
    before = pc.list_element(pc.split_pattern(text, part, max_splits=1), 0)
    place = pc.add(pc.cast(pc.utf8_length(before), pa.int64()), 1)
    return pc.if_else(pc.match_substring(text, part), place, pa.scalar(0, pa.int64()))


def split(args: Sequence[Value], call: Call) -> Value:
    separator = args[1].as_py()
    return pa.scalar(None, call.type) if separator is None else pieces(as_text(args[0]), separator)


def pieces(text: Value, separator: str) -> Value:
    """What stands between separators; without a separator every character by itself."""
    if separator:
        return pc.split_pattern(text, separator)
    apart = pc.replace_substring_regex(text, r"(?s)(.)", "\\1\U0010ffff")
    # Behind the last character stands a mark, too.
    return pc.split_pattern(pc.utf8_slice_codeunits(apart, 0, -1), "\U0010ffff")


def split_part(args: Sequence[Value], call: Call) -> Value:
    """The piece at a place, which from the end is negative; empty where there is none."""
    separator = args[1].as_py()
    if separator is None:
        return _NULL
    constant = all(isinstance(arg, pa.Scalar) for arg in args)
    rows = next((len(arg) for arg in args if not isinstance(arg, pa.Scalar)), 1)
    lists = as_array(pieces(as_text(args[0]), separator), rows)
    places = np.broadcast_to(numpy_of(args[2], 0), rows).astype(np.int64)
    found = pc.fill_null(picked(lists, places, rows), "")
    unknown = pc.or_(pc.is_null(lists), pc.is_null(as_array(args[2], rows)))
    made = pc.if_else(unknown, _NULL, found)
    return made[0] if constant else made


FUNCTIONS: dict[str, Function] = {
    "left": per_constant(1, left),
    "right": per_constant(1, right),
    "lpad": _padded(at_the_end=False),
    "rpad": _padded(at_the_end=True),
    "repeat": repeat,
    "strpos": per_constant(1, strpos),
    "split": per_constant(1, split),
    "split_part": per_constant(1, split_part),
}
