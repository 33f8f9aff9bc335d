"""Types that hold others, as SQL writes them: BIGINT[], STRUCT(a BIGINT, b STRING), MAP(STRING, DOUBLE)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

_HOLDER = re.compile(r"(ARRAY|LIST|STRUCT|ROW|MAP)\s*[<(](.*)[>)]", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r'\s*(?:"([^"]+)"|(\w+))\s*(?::|\s)\s*(.+)', re.DOTALL)
Plain = Callable[[str], "pa.DataType | None"]


def nested_type(sql: str, inside: Plain) -> pa.DataType | None:
    """The type that is written, or None if it is none of these; `inside` reads what it holds.

    >>> from watersmeet.model.types import arrow_type
    >>> nested_type("STRUCT<a: INT, b ARRAY<DOUBLE>>", arrow_type)
    StructType(struct<a: int32, b: list<item: double>>)
    """
    text = sql.strip()
    if re.search(r"\[\s*\]$", text):
        return _list(inside(text[: text.rindex("[")]))
    found = _HOLDER.fullmatch(text)
    if found is None:
        return None
    parts = _apart(found[2])
    match found[1].upper():
        case "ARRAY" | "LIST":
            return _list(inside(parts[0])) if len(parts) == 1 else None
        case "MAP":
            kinds = [inside(part) for part in parts]
            return pa.map_(*kinds) if len(kinds) == 2 and all(kind is not None for kind in kinds) else None
    fields = [_field(part, inside) for part in parts]
    return None if any(field is None for field in fields) else pa.struct(fields)


def _list(kind: pa.DataType | None) -> pa.DataType | None:
    return None if kind is None else pa.list_(kind)


def _field(text: str, inside: Plain) -> pa.Field | None:
    found = _FIELD.fullmatch(text)
    kind = None if found is None else inside(found[3])
    return None if found is None or kind is None else pa.field(found[1] or found[2], kind)


def _apart(text: str) -> list[str]:
    """What commas separate that stand in no brackets."""
    parts, depth = [""], 0
    for mark in text:
        depth += (mark in "(<[") - (mark in ")>]")
        if mark == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += mark
    return parts


def nested_name(kind: pa.DataType, name: Callable[[pa.DataType], str]) -> str | None:
    """How SQL writes a type that holds others; None for other types."""
    if _is_list(kind):
        return f"{name(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{field.name} {name(field.type)}' for field in kind)})"
    if pa.types.is_map(kind):
        return f"MAP({name(kind.key_type)}, {name(kind.item_type)})"
    return None


def together(
    left: pa.DataType, right: pa.DataType, parts: Callable[[pa.DataType, pa.DataType], pa.DataType | None]
) -> pa.DataType | None:
    """Two types of one form as one, by what is made of what they hold; None if they have not, or that is None."""
    if left == right:
        return left
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        fields = [pa.field(a.name, parts(a.type, b.type)) for a, b in zip(left, right, strict=False)
                  if a.name == b.name and parts(a.type, b.type) is not None]  # fmt: skip
        return pa.struct(fields) if len(fields) == len(left) == len(right) else None
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, item = parts(left.key_type, right.key_type), parts(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if _is_list(left) and _is_list(right):
        return _list(parts(left.value_type, right.value_type))
    return None


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
