"""Times as text in any format, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.time_format import time_format
from watersmeet.model.time_text import read_text
from watersmeet.operators.scalar.instants import reading
from watersmeet.operators.scalar.values import Function, Value, as_array, as_text, per_constant
from watersmeet.plan.expressions import Call

_WORD = re.compile(r"%(-?)(.?)", re.DOTALL)
_BY_ARROW = frozenset("aAwdbBmyYHIpMSjUWuVG")
_WITHOUT_ZEROS = frozenset("dmyHIMSj")
_LONGER = {"%c": "%Y-%m-%d %H:%M:%S", "%x": "%Y-%m-%d", "%X": "%H:%M:%S", "%F": "%Y-%m-%d", "%T": "%H:%M:%S"}
_FRACTIONS = {"f": (1, 6), "g": (1000, 3)}


def strftime(args: Sequence[Value], call: Call) -> Value:
    written = args[1].as_py()
    if written is None:
        return pa.scalar(None, pa.string())
    return _formatted(args[0], written)


def _formatted(value: Value, written: str) -> Value:
    spelled = re.sub(r"%[cxXFT]|%%", lambda found: _LONGER.get(found[0], found[0]), written)
    shown = reading(value)
    # Arrow writes as many digits of a second as the unit has.
    seconds = pc.cast(pc.floor_temporal(shown, unit="second"), pa.timestamp("s"))
    parts: list[Value] = []
    pending, position = "", 0
    for word in _WORD.finditer(spelled):
        pending += spelled[position : word.start()].replace("%", "%%")
        position = word.end()
        if not word[1] and (word[2] in _BY_ARROW or word[2] == "%"):
            pending += word[0]  # as many as can be by one call
            continue
        parts += [_by_arrow(seconds, pending), _part(seconds, shown, word[2], bare=bool(word[1]), written=written)]
        pending = ""
    parts.append(_by_arrow(seconds, pending + spelled[position:].replace("%", "%%")))
    if len(parts) == 1 and isinstance(parts[0], pa.Array):
        return parts[0]  # NULL where the value is
    # A constant format has no NULL of its own to hand on.
    made = pc.binary_join_element_wise(*parts, "", null_handling="emit_null")
    return pc.if_else(pc.is_null(value), pa.scalar(None, pa.string()), made)


def _by_arrow(seconds: Value, form: str) -> Value:
    if "%" not in form:
        return pa.scalar(form)
    if isinstance(seconds, pa.Scalar):
        return pc.strftime(seconds, format=form)
    # Slow, and rows of a batch mostly share a few seconds.
    encoded = seconds.dictionary_encode()
    return pc.strftime(encoded.dictionary, format=form).take(encoded.indices)


def _part(seconds: Value, shown: Value, word: str, *, bare: bool, written: str) -> Value:
    if word in _FRACTIONS and not bare:
        per, digits = _FRACTIONS[word]
        fraction = pc.subtract(pc.cast(shown, pa.int64()), pc.cast(pc.cast(seconds, shown.type), pa.int64()))
        return pc.utf8_lpad(pc.cast(pc.divide(fraction, per), pa.string()), digits, "0")
    if word not in _BY_ARROW or (bare and word not in _WITHOUT_ZEROS):
        known = " ".join(f"%{one}" for one in (*sorted(_BY_ARROW), *_FRACTIONS, "%"))
        raise pa.ArrowInvalid(f"{written!r} has %{'-' * bare}{word}, which is not known; the words are {known}")
    text = _by_arrow(seconds, f"%{word}")
    return pc.replace_substring_regex(text, r"^0+(\d)", r"\1") if bare else text


def _strptime(lenient: bool) -> Function:
    def apply(args: Sequence[Value], call: Call) -> Value:
        form = args[1].as_py()
        if form is None:
            return pa.scalar(None, call.type)
        try:
            time_format(form)
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from None
        constant = isinstance(args[0], pa.Scalar)
        text = pc.utf8_trim(as_array(as_text(args[0]), 1), " ")
        if text.null_count == len(text):
            return pa.scalar(None, call.type)
        us, finer, wrong, why = read_text(text, form, "UTC")
        bad = wrong | finer
        bad &= text.is_valid().to_numpy(zero_copy_only=False)
        if bad.any() and not lenient:
            first = int(bad.argmax())
            reason = "is finer than a microsecond" if finer[first] else why(first)
            raise pa.ArrowInvalid(f"{text[first].as_py()!r} {reason}")
        missing = bad | text.is_null().to_numpy(zero_copy_only=False)
        made = pc.cast(pa.array(us, pa.int64(), mask=missing), call.type)
        return made[0] if constant else made

    return per_constant(1, apply)


FUNCTIONS: dict[str, Function] = {
    "strftime": per_constant(1, strftime),
    "strptime": _strptime(lenient=False),
    "try_strptime": _strptime(lenient=True),
    "dayname": lambda args, call: _formatted(args[0], "%A"),
    "monthname": lambda args, call: _formatted(args[0], "%B"),
}
