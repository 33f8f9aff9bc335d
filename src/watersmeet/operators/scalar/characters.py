"""Characters by their numbers, and texts changed character by character. Only Python has these: they are worked out
once for every text that occurs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.scalar.values import Function, Value, as_text, over_unique, per_constant
from watersmeet.plan.expressions import Call

_LAST = 0x10FFFF


def _first(of_nothing: int) -> Function:
    """The number of the first character."""

    def apply(args: Sequence[Value], call: Call) -> Value:
        first = pc.utf8_slice_codeunits(as_text(args[0]), 0, 1)
        return over_unique(first, lambda character: ord(character) if character else of_nothing, pa.int64())

    return apply


def _character(number: int) -> str:
    if not 0 <= number <= _LAST or 0xD800 <= number <= 0xDFFF:
        raise pa.ArrowInvalid(f"there is no character {number}")
    return chr(number)


def translate(args: Sequence[Value], call: Call) -> Value:
    """Each character of the second text becomes the one at its place in the third, or nothing if there is none."""
    old, new = args[1].as_py(), args[2].as_py()
    if old is None or new is None:
        return pa.scalar(None, pa.string())
    # Of a character that stands there twice the first counts.
    table = {ord(character): new[place : place + 1] for place, character in reversed(list(enumerate(old)))}
    return over_unique(as_text(args[0]), lambda text: text.translate(table), pa.string())


def _capital(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


FUNCTIONS: dict[str, Function] = {
    "ascii": _first(of_nothing=0),
    "unicode": _first(of_nothing=-1),
    "chr": lambda args, call: over_unique(args[0], _character, pa.string()),
    "translate": per_constant(1, per_constant(2, translate)),
    "initcap": lambda args, call: over_unique(as_text(args[0]), _capital, pa.string()),
}
