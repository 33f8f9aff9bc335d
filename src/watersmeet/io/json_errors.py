"""Why objects of JSON could not be read as the columns that were declared: a reason that is counted, and a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pyarrow as pa

from watersmeet.io.connectors.bad_reasons import NOT_JSON, WRONG_TYPE
from watersmeet.model.types import is_text, sql_type

_ARTICLES = {"array": "an", "object": "an"}
_SCALE = re.compile(r"requires scale (\d+)")
_COLUMN = re.compile(r"Column\(/(?P<name>[^)/]*)[^)]*\)")
# By Arrow's words, as its errors carry nothing else: the value, not the column.
_VALUES = (
    re.compile(r"Failed to convert JSON to .+?, couldn't parse:(?P<value>.*)"),
    re.compile(r"Failed to convert JSON to .+?\): (?P<value>\S+) (?P<needs>requires .*)"),
    re.compile(r"The string '(?P<value>.*)' is not a valid"),
    re.compile(r"Failed to parse string: '(?P<value>.*)' as"),
)


def changing_column(error: pa.ArrowInvalid) -> str | None:
    """The column of which Arrow says that its type changes from row to row."""
    found = _COLUMN.search(str(error))
    return found["name"] if found is not None and "changed from" in str(error) else None


def why_unread(words: str, schema: pa.Schema, values: Sequence[bytes]) -> tuple[str, str]:
    """Arrow's words for a value of another type name the column; for text that is no JSON they do not."""
    words = words.split("\n", 1)[0].removeprefix("JSON parse error: ")
    words = re.sub(r" in row \d+$", "", words)
    if (found := _COLUMN.match(words)) is not None:
        return _of_named(found["name"], words, schema)
    matched = next((match for one in _VALUES if (match := one.match(words))), None)
    if matched is not None:
        return WRONG_TYPE, _of_column(matched, schema, values) or words
    broken = not_json(values[0]) if len(values) == 1 else words
    return (WRONG_TYPE, words) if broken is None else (NOT_JSON, broken)


def not_json(value: bytes) -> str | None:
    """What keeps a text from being a JSON object; None if it is one."""
    try:
        found = json.loads(value)
    except RecursionError:
        return "it is nested too deeply"
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
        return "it is cut off" if is_cut else f"it is not JSON from character {error.pos + 1:,} on"
    except ValueError:  # as of an integer that Python does not read
        return "it holds a number of too many digits"
    return None if isinstance(found, dict) else "it is no JSON object"


def _of_named(name: str, words: str, schema: pa.Schema) -> tuple[str, str]:
    if " was specified twice" in words:
        return NOT_JSON, f"it has {name!r} twice"
    if not name:
        return NOT_JSON, "it is no JSON object"
    found = words.rpartition(" to ")[2]
    if name not in schema.names:
        return WRONG_TYPE, words
    return WRONG_TYPE, _is_not(schema.field(name), f"{_ARTICLES.get(found, 'a')} {found}")


def _of_column(matched: re.Match[str], schema: pa.Schema, values: Sequence[bytes]) -> str | None:
    """A sentence on the column that has the value which could not be read, if the value of one alone is asked about."""
    record = _plain(values[0]) if len(values) == 1 else {}
    for column in schema:
        value = record.get(column.name)
        if not is_text(column.type) and isinstance(value, str) and value == matched["value"]:
            needs = matched.groupdict().get("needs")
            needs = needs and _SCALE.sub(r"has \1 digits behind the point", needs)
            return _is_not(column, value if isinstance(value, _Number) else repr(value)) + (
                "" if needs is None else f", which {needs}"
            )
    return None


def _is_not(column: pa.Field, what: str) -> str:
    return f"{column.name!r} is {sql_type(column.type)}, but {what} is there"


class _Number(str):
    """A number as it is written."""


def _plain(value: bytes) -> dict[str, object]:
    try:
        found = json.loads(value, parse_int=_Number, parse_float=_Number)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
