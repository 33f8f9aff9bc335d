"""FORMAT and PRINTF: each value is written by its own part of the format, once for every value that occurs, and the
parts are joined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from string import Formatter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.model.casts import cast
from watersmeet.model.types import is_number, is_text
from watersmeet.operators.scalar.values import Function, Value, as_text, over_unique, per_constant
from watersmeet.plan.expressions import Call

_PERCENT = re.compile(r"%(?:%|(?P<flags>[-+ #0]*)(?P<width>\d*)(?:\.(?P<digits>\d+))?(?P<kind>[a-zA-Z]))")
_WHOLE, _BITS, _REAL = "dxXob", "xXob", "feEgG"


@dataclass(frozen=True)
class Part:
    """Text, or the place of an argument and how it is written."""

    text: str = ""
    place: int | None = None
    how: str = ""
    unsigned: bool = False  # whether bits are written as C does it, without a sign


def braces(written: str) -> Iterator[Part]:
    """`{}`, `{1}` and `{:.2f}`, as in Python and in the library fmt, which DuckDB uses."""
    following = 0
    try:
        for text, place, how, _ in Formatter().parse(written):
            yield Part(text)
            if place is not None:
                yield Part(place=int(place or following), how=how or "")
                following += 1
    except ValueError as error:
        raise pa.ArrowInvalid(f"{written!r} is not a format: {error}") from None


def percents(written: str) -> Iterator[Part]:
    """`%s`, `%d`, `%.2f` and their like, as in C; turned into what braces hold."""
    position = place = 0
    while (start := written.find("%", position)) >= 0:
        yield Part(written[position:start])
        found = _PERCENT.match(written, start)
        if found is None:
            raise pa.ArrowInvalid(
                f"{written!r} has a % that is followed by nothing known; write %% for the sign itself"
            )
        if found[0] == "%%":
            yield Part("%")
        else:
            yield Part(place=place, how=_as_braces(found), unsigned=True)
            place += 1
        position = found.end()
    yield Part(written[position:])


def _as_braces(found: re.Match[str]) -> str:
    flags, kind = found["flags"], found["kind"]
    side = "<" if "-" in flags else ">" if found["width"] and kind == "s" else ""
    sign = next((one for one in "+ " if one in flags), "")
    zero = "0" if "0" in flags and "-" not in flags else ""
    kind = "d" if kind in "iu" else kind
    digits = f".{found['digits']}" if found["digits"] else ""
    return f"{side}{sign}{'#' * ('#' in flags)}{zero}{found['width']}{digits}{kind}"


def _formatted(parts: Callable[[str], Iterator[Part]]) -> Function:
    def apply(args: Sequence[Value], call: Call) -> Value:
        written, values = args[0].as_py(), args[1:]
        if written is None:
            return pa.scalar(None, pa.string())
        made: list[Value] = [pa.scalar("")]
        for part in parts(written):
            if part.place is None:
                made.append(pa.scalar(part.text))
                continue
            if part.place >= len(values):
                raise pa.ArrowInvalid(f"{written!r} asks for value {part.place + 1}, and {len(values)} are given")
            made.append(_written(values[part.place], part.how, part.unsigned))
        return pc.binary_join_element_wise(*made, "", null_handling="emit_null")

    return per_constant(0, apply)


def _written(value: Value, how: str, unsigned: bool) -> Value:
    kind = how[-1:] if how[-1:].isalpha() else ""
    if not how or kind == "s" or (is_text(value.type) and not kind):
        text = as_text(value) if is_text(value.type) else cast(value, pa.string())
        if kind == "s" and not is_text(value.type):
            raise pa.ArrowInvalid(f"%s and {{:s}} write text, not {value.type}; cast it, or write {{}}")
        return text if not how or how == "s" else over_unique(text, lambda one: format(one, how), pa.string())
    fits = pa.types.is_integer(value.type) if kind and kind in _WHOLE else is_number(value.type)
    if kind and not fits:
        raise pa.ArrowInvalid(f"{how!r} cannot write {value.type}")

    def one(item: Any) -> str:
        try:
            number = float(item) if kind and kind in _REAL else item
            return format(number % 2**64 if unsigned and kind and kind in _BITS else number, how)
        except (ValueError, TypeError) as error:
            raise pa.ArrowInvalid(f"{how!r} cannot write {item!r}: {error}") from None
        except MemoryError:
            raise pa.ArrowInvalid(f"{how!r} is wider than any text") from None

    return over_unique(value, one, pa.string())


FUNCTIONS: dict[str, Function] = {"format": _formatted(braces), "printf": _formatted(percents)}
