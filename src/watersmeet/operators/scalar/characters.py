"""Characters by their numbers, and texts changed character by character. Only Python has these: they are worked out
once for every text that occurs."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.scalar.values import (
    Function,
    Value,
    as_array,
    as_given,
    as_text,
    over_unique,
    per_constant,
    rows_of,
)
from watersmeet.plan.expressions import Call

_LAST = 0x10FFFF
_CELLS = 1 << 22  # of the matrices by which texts are compared at a time


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


def _without_accents(text: str) -> str:
    """Letters without the marks on them; a letter that is no other one with a mark stays."""
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(one for one in apart if not unicodedata.combining(one)))


def _from_url(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise pa.ArrowInvalid(f"{text!r} is not text in UTF-8 once it is decoded") from None


def levenshtein(args: Sequence[Value], call: Call) -> Value:
    """How many bytes must be put in, left out or changed to make one text of another, as in DuckDB."""
    rows = rows_of(args)
    left, right = (as_array(as_text(arg), rows) for arg in args)
    unknown = pc.or_(pc.is_null(left), pc.is_null(right))
    texts = [pc.if_else(unknown, pa.scalar(""), side) for side in (left, right)]
    longest = int(pc.max(pc.binary_length(texts[1])).as_py() or 0) + 1 if rows else 1
    step = max(1, _CELLS // longest)
    parts = [_distances(*(side.slice(at, step) for side in texts)) for at in range(0, rows, step)]
    made = pa.array(np.concatenate([*parts, np.empty(0, np.int64)]))
    return as_given(args, pc.if_else(unknown, pa.scalar(None, pa.int64()), made))


def _distances(left: pa.Array, right: pa.Array) -> npt.NDArray[np.int64]:
    """Of all rows together, a byte of the left texts after the other."""
    (ours, sizes), (theirs, ends) = _padded_bytes(left), _padded_bytes(right)
    rows, width = theirs.shape
    along = np.arange(width + 1)
    line = np.broadcast_to(along, (rows, width + 1)).astype(np.int64)
    made = ends.copy()  # of empty texts
    for place in range(ours.shape[1]):
        changed = line[:, :-1] + (theirs != ours[:, place, None])
        first = np.full((rows, 1), place + 1, np.int64)
        line = np.concatenate([first, np.minimum(line[:, 1:] + 1, changed)], axis=1)
        # What is put in costs one for each byte since the cheapest place before it.
        line = np.minimum.accumulate(line - along, axis=1) + along
        there = sizes == place + 1
        made[there] = line[there, ends[there]]
    return made


def _padded_bytes(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of each text in a row of a matrix, and how many there are."""
    sizes = np.asarray(pc.binary_length(texts).to_numpy(zero_copy_only=False), np.int64)
    there = np.arange(sizes.max(initial=0)) < sizes[:, None]
    made = np.zeros(there.shape, np.uint8)
    whole = pc.binary_join(pa.LargeListArray.from_arrays(pa.array([0, len(texts)], pa.int64()), texts), "")
    made[there] = np.frombuffer(whole[0].as_buffer(), np.uint8)
    return made, sizes


FUNCTIONS: dict[str, Function] = {
    "ascii": _first(of_nothing=0),
    "unicode": _first(of_nothing=-1),
    "chr": lambda args, call: over_unique(args[0], _character, pa.string()),
    "translate": per_constant(1, per_constant(2, translate)),
    "strip_accents": lambda args, call: over_unique(as_text(args[0]), _without_accents, pa.string()),
    "url_encode": lambda args, call: over_unique(as_text(args[0]), lambda text: quote(text, safe=""), pa.string()),
    "url_decode": lambda args, call: over_unique(as_text(args[0]), _from_url, pa.string()),
    "levenshtein": levenshtein,
    "initcap": lambda args, call: over_unique(as_text(args[0]), _capital, pa.string()),
}
