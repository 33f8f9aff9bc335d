"""What a plan asks, as text: equal for two plans that must give the same answer from the same state."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import pyarrow as pa

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Bound

# Names that are written in any case; output columns, which belong to no stream, are not among them.
_ANY_CASE = frozenset({"alias", "stream", "earlier", "later"})


def meaning_of(value: Any) -> str:
    """The text of a plan, a node or an expression.

    Of a relation only its name and columns count: not what is known of its rows, where they come from, nor how late
    they may be. Fields that have their default say nothing, so that a field more does not change what was said before.

    >>> from watersmeet.model.windows import Range, Rows
    >>> meaning_of(Rows(5)), meaning_of((Range(1_000_000), None))
    ('Rows(count=5)', '(Range(size_us=1000000), None)')
    """
    match value:
        case Stream(name=name, schema=schema, time=time):
            return f"Stream({name.lower()} {meaning_of(schema)} by {time})"
        case Table(name=name, schema=schema):
            return f"Table({name.lower()} {meaning_of(schema)})"
        case Bound(earlier=earlier, later=later, at_most_us=at_most_us):
            return f"Bound({later.lower()} - {earlier.lower()} <= {at_most_us})"
        case pa.Schema():
            return "[" + ", ".join(f"{field.name} {field.type}" for field in value) + "]"
        case pa.DataType():
            return str(value)
        case tuple():
            return "(" + ", ".join(map(meaning_of, value)) + ")"
    if not is_dataclass(value):
        return repr(value)
    said = [_said(field.name, getattr(value, field.name)) for field in fields(value) if _says(field, value)]
    return f"{type(value).__name__}({', '.join(said)})"


def _said(name: str, value: Any) -> str:
    lowered = value.lower() if name in _ANY_CASE and isinstance(value, str) else value
    return f"{name}={meaning_of(lowered)}"


def _says(field: Field[Any], value: Any) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return default is MISSING or getattr(value, field.name) != default
