"""Functions of text and bytes on plain values, none of them NULL unless it says so."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.reference.values import Value

Rule = Callable[[list[Value], pa.DataType], Value]
_NOTHING = object()


def _compiled(pattern: str, options: str = "") -> re.Pattern[str]:
    flags = 0
    for option in options:
        flags |= {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "n": re.MULTILINE, "p": re.MULTILINE}.get(
            option, 0
        )
    try:
        return re.compile(pattern, flags)
    except re.error as error:
        raise DataError(f"{pattern!r} is not a regular expression: {error}") from None


def _extract(text: str, pattern: str, group: int = 0, options: str = "") -> str:
    compiled = _compiled(pattern, options)
    found = compiled.search(text)
    if found is None or group > compiled.groups:
        return ""
    return found[group] or ""


def _replace(text: str, pattern: str, by: str, options: str = "") -> str:
    return _compiled(pattern, options).sub(by, text, count=0 if "g" in options else 1)


def _pad(text: str, size: int, filler: str) -> str:
    """What is missing to a size; nothing if the text is too long already."""
    missing = max(0, size - len(text))
    if missing and not filler:
        raise DataError("an empty text cannot fill up another")
    return (filler * missing)[:missing]


def _lpad(text: str, size: int, filler: str = " ") -> str:
    return _pad(text, size, filler) + text[: max(0, size)]


def _rpad(text: str, size: int, filler: str = " ") -> str:
    return text[: max(0, size)] + _pad(text, size, filler)


def _right(text: str, count: int) -> str:
    if count < 0:
        return text[-count:]
    return text[max(0, len(text) - count) :]


def _pieces(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text) or [""]


def _split_part(text: str, separator: str, place: int) -> str:
    pieces = _pieces(text, separator)
    index = place - 1 if place > 0 else len(pieces) + place
    return pieces[index] if place and 0 <= index < len(pieces) else ""


def _translate(text: str, old: str, new: str) -> str:
    made = ""
    for character in text:
        place = old.find(character)
        made += character if place < 0 else new[place : place + 1]
    return made


def _chr(number: int) -> str:
    if not 0 <= number < 0x110000 or 0xD800 <= number < 0xE000:
        raise DataError(f"there is no character {number}")
    return chr(number)


def _hex(value: Value) -> str:
    if isinstance(value, int):
        return f"{value if value >= 0 else value + 2**64:X}"
    return "".join(f"{byte:02X}" for byte in _bytes(value))


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex("0" * (len(text) % 2) + text)
    except ValueError:
        raise DataError(f"{text!r} is not hexadecimal") from None


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise DataError(f"{text!r} is not Base64") from None


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _decode(value: str | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise DataError(f"{value!r} is not UTF-8") from None


def _printf(form: str, *values: Value) -> str:
    kinds = re.findall(r"%[-+ #0]*\d*(?:\.\d+)?([a-zA-Z])", form.replace("%%", ""))
    # C writes the bits of a negative number, Python a sign.
    bare = [value % 2**64 if kind in "xXo" else value for kind, value in zip(kinds, values, strict=False)]
    return form % tuple(bare)


# -- JSON -----------------------------------------------------------------------------------------------------------


def _json(text: str) -> Any:
    def first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, value in pairs:
            fields.setdefault(name, value)
        return fields

    try:
        return json.loads(text, object_pairs_hook=first)
    except ValueError as error:
        raise DataError(f"{text!r} is not JSON: {error}") from None


def _steps(path: str | int) -> list[str | int]:
    if isinstance(path, int) or not path.startswith(("$", "/")):
        return [path]
    if path.startswith("/"):
        return [int(step) if step.isdecimal() else step for step in path.split("/")[1:]]
    found = re.findall(r"""\.("[^"]*"|[^.\[]+)|\[([^\]]+)\]""", path[1:])
    return [name.strip('"') if name else _place(place) for name, place in found]


def _place(text: str) -> str | int:
    bare = text.lstrip("#")
    return int(bare) if bare.lstrip("-").isdecimal() else text.strip("'\"")


def _inside(text: str, path: str | int) -> Any:
    value: Any = _json(text)
    for step in _steps(path):
        try:
            wanted: Any = dict if isinstance(step, str) else list
            if not isinstance(value, wanted):
                return _NOTHING
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return _NOTHING
    return value


def json_written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json_extract(text: str, path: str | int) -> str | None:
    value = _inside(text, path)
    return None if value is _NOTHING else json_written(value)


def _json_string(text: str, path: str | int) -> str | None:
    value = _inside(text, path)
    if value is _NOTHING or value is None:
        return None
    return value if isinstance(value, str) else json_written(value)


def _json_length(text: str, path: str = "$") -> int | None:
    value = _inside(text, path)
    return None if value is _NOTHING else len(value) if isinstance(value, list) else 0


def _json_valid(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _match(text: str, pattern: str, options: str = "") -> list[str] | None:
    found = _compiled(pattern, options).search(text)
    return None if found is None else [one or "" for one in found.groups() or (found[0],)]


def _extract_all(text: str, pattern: str, group: int = 0, options: str = "") -> list[str]:
    compiled = _compiled(pattern, options)
    if group > compiled.groups or group < 0:
        raise DataError(f"{pattern!r} has no group {group}")
    if compiled.fullmatch(""):
        raise DataError(f"{pattern!r} matches an empty text")
    return [found[group] or "" for found in compiled.finditer(text)]


def _levenshtein(left: str, right: str) -> int:
    ours, theirs = left.encode(), right.encode()
    line = list(range(len(theirs) + 1))
    for place, one in enumerate(ours, start=1):
        corner, line[0] = line[0], place
        for at, other in enumerate(theirs, start=1):
            corner, line[at] = line[at], min(line[at] + 1, line[at - 1] + 1, corner + (one != other))
    return line[-1]


def _strip_accents(text: str) -> str:
    bare = [one for one in unicodedata.normalize("NFD", text) if unicodedata.combining(one) == 0]
    return unicodedata.normalize("NFC", "".join(bare))


def _url_decode(text: str) -> str:
    data = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())
    return _decode(data)


def _url_encode(text: str) -> str:
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~-"
    return "".join(chr(one) if one in plain else f"%{one:02X}" for one in text.encode())


def _json_value(text: str, path: str | int) -> str | None:
    value = _inside(text, path)
    return None if isinstance(value, dict | list) else _json_string(text, path)


def _json_type(text: str, path: str | int = "$") -> str | None:
    value = _inside(text, path)
    if value is _NOTHING:
        return None
    if isinstance(value, bool) or value is None:
        return "NULL" if value is None else "BOOLEAN"
    if isinstance(value, int):
        return "UBIGINT" if value >= 0 else "BIGINT"
    return {dict: "OBJECT", list: "ARRAY", str: "VARCHAR", float: "DOUBLE"}[type(value)]


def _json_keys(text: str, path: str | int = "$") -> list[str] | None:
    value = _inside(text, path)
    return None if value is _NOTHING else list(value) if isinstance(value, dict) else []


def _plain(function: Callable[..., Value]) -> Rule:
    return lambda values, kind: function(*values)


FUNCTIONS: dict[str, Rule] = {
    "reverse": _plain(lambda s: s[::-1]),
    "initcap": _plain(lambda s: re.sub("[^ ]+", lambda word: word[0][0].upper() + word[0][1:].lower(), s)),
    "ltrim": _plain(lambda s, characters=" ": s.lstrip(characters) if characters else s),
    "rtrim": _plain(lambda s, characters=" ": s.rstrip(characters) if characters else s),
    "trim": _plain(lambda s, characters=" ": s.strip(characters) if characters else s),
    "lpad": _plain(_lpad),
    "rpad": _plain(_rpad),
    "repeat": _plain(lambda s, times: s * times),
    "left": _plain(lambda s, count: s[:count]),
    "right": _plain(_right),
    "octet_length": _plain(lambda s: len(_bytes(s))),
    "strpos": _plain(lambda s, part: s.find(part) + 1),
    "ends_with": _plain(lambda s, part: s.endswith(part)),
    "translate": _plain(_translate),
    "ascii": _plain(lambda s: ord(s[0]) if s else 0),
    "unicode": _plain(lambda s: ord(s[0]) if s else -1),
    "chr": _plain(_chr),
    "split": _plain(_pieces),
    "string_split_regex": _plain(lambda s, pattern: _compiled(pattern).split(s)),
    "split_part": _plain(_split_part),
    "regexp_matches": _plain(lambda s, *how: _compiled(*how).search(s) is not None),
    "regexp_full_match": _plain(lambda s, *how: _compiled(*how).fullmatch(s) is not None),
    "regexp_count": _plain(lambda s, *how: len(list(_compiled(*how).finditer(s)))),
    "regexp_extract": _plain(_extract),
    "regexp_replace": _plain(_replace),
    "format": _plain(lambda form, *values: form.format(*values)),
    "printf": _plain(_printf),
    "md5": _plain(lambda s: hashlib.md5(_bytes(s), usedforsecurity=False).hexdigest()),
    "sha1": _plain(lambda s: hashlib.sha1(_bytes(s), usedforsecurity=False).hexdigest()),
    "sha256": _plain(lambda s: hashlib.sha256(_bytes(s)).hexdigest()),
    "crc32": _plain(lambda s: zlib.crc32(_bytes(s))),
    "hex": _plain(_hex),
    "unhex": _plain(_unhex),
    "base64": _plain(lambda s: base64.b64encode(_bytes(s)).decode()),
    "from_base64": _plain(_from_base64),
    "encode": _plain(_bytes),
    "decode": _plain(_decode),
    "json_extract": _plain(_json_extract),
    "json_extract_string": _plain(_json_string),
    "json_array_length": _plain(_json_length),
    "json_valid": _plain(_json_valid),
    "json_value": _plain(_json_value),
    "json_enclosed": _plain(lambda begin, text, end: begin + text + end),
    "json_type": _plain(_json_type),
    "json_keys": _plain(_json_keys),
    "json_exists": _plain(lambda text, path: _inside(text, path) is not _NOTHING),
    "regexp_match": _plain(_match),
    "regexp_extract_all": _plain(_extract_all),
    "regexp_escape": _plain(lambda s: re.sub(r"([^A-Za-z0-9_\u0080-\U0010ffff])", r"\\\1", s)),
    "levenshtein": _plain(_levenshtein),
    "strip_accents": _plain(_strip_accents),
    "url_encode": _plain(_url_encode),
    "url_decode": _plain(_url_decode),
}
