"""Lists and structs as they are declared: their parts are fitted as columns are, each by what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.model.names import columns_hint, nearest

Fit = Callable[[str, pa.DataType, pa.Array], pa.Array]  # a part by its name, as the type that is declared for it


def with_fitted_parts(name: str, kind: pa.DataType, found: pa.Array, fit: Fit) -> pa.Array | None:
    """The values with parts of the declared types; None if they are of another shape."""
    if pa.types.is_list(kind) and pa.types.is_list(found.type):
        whole = pa.concat_arrays([found])  # without what a slice leaves out
        parts = _fitted(f"{name}[]", kind.value_type, whole.values, fit)
        return pa.ListArray.from_arrays(whole.offsets, parts, type=kind, mask=whole.is_null())
    if pa.types.is_struct(kind) and pa.types.is_struct(found.type):
        _check_fields(name, kind, found.type)
        fields = [_field(name, field, found, fit) for field in kind]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=found.is_null())
    return None


def pairs_of_dicts(values: Iterable[Any]) -> list[Any]:
    """What a map is made of, where Python has it as a dict."""
    return [list(value.items()) if isinstance(value, Mapping) else value for value in values]


def _field(name: str, field: pa.Field, found: pa.StructArray, fit: Fit) -> pa.Array:
    """A field of all structs; one that none of them has is NULL."""
    index = found.type.get_field_index(field.name)
    if index < 0:
        return pa.nulls(len(found), field.type)
    return _fitted(f"{name}.{field.name}", field.type, found.field(index), fit)


def _fitted(name: str, kind: pa.DataType, found: pa.Array, fit: Fit) -> pa.Array:
    return found if found.type == kind else fit(name, kind, found)


def _check_fields(name: str, kind: pa.StructType, found: pa.StructType) -> None:
    """A misspelt name must not become a NULL."""
    known = [field.name for field in kind]
    for field in found:
        if field.name not in known:
            meant = nearest(field.name, known)
            raise SourceError(
                f"column {name!r} has no field {field.name!r}, which was pushed",
                hint=f"did you mean {meant!r}?" if meant else columns_hint(known),
            )
