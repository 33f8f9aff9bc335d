"""Lists by the values of their elements: sorted, compared with others, joined; and the parts of maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.operators.scalar.lists import Int64s, places_of, spread
from watersmeet.operators.scalar.values import Function, Value, as_array, as_given, convert, rows_of
from watersmeet.plan.expressions import Call

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Elements:
    """All elements of the lists of a column, with the row that each belongs to."""

    owner: Int64s
    values: pa.Array

    @classmethod
    def of(cls, value: Value, kind: pa.DataType, rows: int) -> Elements:
        starts, sizes, elements = spread(value, rows)
        held = elements.take(pa.array(places_of(starts, sizes)))
        return cls(np.repeat(np.arange(rows), sizes), convert(held, kind))

    def chosen(self, places: Int64s | Mask) -> Elements:
        index = np.flatnonzero(places) if places.dtype == np.bool_ else places
        return Elements(self.owner[index], self.values.take(pa.array(index)))

    @property
    def known(self) -> Mask:
        return np.asarray(self.values.is_valid().to_numpy(zero_copy_only=False))

    def counts(self, rows: int) -> Int64s:
        return np.bincount(self.owner, minlength=rows).astype(np.int64)

    def lists(self, rows: int, missing: Mask, kind: pa.DataType) -> pa.Array:
        """As lists again, NULL where they are missing."""
        offsets = pa.array(np.concatenate([[0], np.cumsum(self.counts(rows))]), pa.int32())
        made = pa.ListArray.from_arrays(offsets, self.values)
        return pc.if_else(pa.array(missing), pa.scalar(None, made.type), made).cast(kind)


def _missing(value: Value, rows: int) -> Mask:
    return np.asarray(as_array(value, rows).is_null().to_numpy(zero_copy_only=False))


def _codes(values: pa.Array) -> Int64s:
    """A number for each value, the same for equal ones: -0 is 0, NaN is NaN. There are no NULLs."""
    plain = pc.add(values, 0.0) if pa.types.is_floating(values.type) else values
    return np.asarray(plain.dictionary_encode().indices.to_numpy(zero_copy_only=False), np.int64)


def _first_of_each(elements: Elements) -> Int64s:
    """The places of the first of equal elements of a row, in order."""
    codes = _codes(elements.values)
    _, first = np.unique(elements.owner * (codes.max(initial=0) + 1) + codes, return_index=True)
    return np.sort(first)


def _ascending(elements: Elements) -> Int64s:
    values = convert(elements.values, pa.int8()) if pa.types.is_boolean(elements.values.type) else elements.values
    keys = pa.table({"owner": elements.owner, "value": values})
    order = pc.sort_indices(keys, sort_keys=[("owner", "ascending"), ("value", "ascending")])
    return np.asarray(order.to_numpy(), np.int64)


def _sorted(args: Sequence[Value], call: Call, *, downwards: bool) -> Value:
    """NULLs come last, either way; NaN is the largest number."""
    rows = rows_of(args)
    elements = Elements.of(args[0], call.type.value_type, rows)
    order = _ascending(elements.chosen(elements.known))
    if downwards:
        order = order[::-1]
    upwards = np.flatnonzero(elements.known)[order]
    places = np.concatenate([upwards, np.flatnonzero(~elements.known)])
    by_row = places[np.argsort(elements.owner[places], kind="stable")]
    return as_given(args, elements.chosen(by_row).lists(rows, _missing(args[0], rows), call.type))


def reverse(args: Sequence[Value], call: Call) -> Value:
    rows = rows_of(args)
    elements = Elements.of(args[0], call.type.value_type, rows)
    backwards = np.arange(len(elements.owner))[::-1]
    places = backwards[np.argsort(elements.owner[backwards], kind="stable")]
    return as_given(args, elements.chosen(places).lists(rows, _missing(args[0], rows), call.type))


def distinct(args: Sequence[Value], call: Call) -> Value:
    """The first of equal elements, without NULLs."""
    rows = rows_of(args)
    elements = Elements.of(args[0], call.type.value_type, rows)
    known = elements.chosen(elements.known)
    return as_given(args, known.chosen(_first_of_each(known)).lists(rows, _missing(args[0], rows), call.type))


def _counting(count: str) -> Function:
    """How many elements are not NULL, or how many values they have."""

    def apply(args: Sequence[Value], call: Call) -> Value:
        rows = rows_of(args)
        elements = Elements.of(args[0], args[0].type.value_type, rows)
        known = elements.chosen(elements.known)
        counted = known.chosen(_first_of_each(known)) if count == "values" else known
        return as_given(args, pa.array(counted.counts(rows), pa.int64(), mask=_missing(args[0], rows)))

    return apply


def _pair(args: Sequence[Value], call: Call, rows: int) -> tuple[Elements, Elements, Mask]:
    """The elements of two lists that are not NULL, and which of the second are in the first."""
    kind = pa.list_(call.type.value_type) if pa.types.is_list(call.type) else _wider(args)
    first, second = (Elements.of(arg, kind.value_type, rows) for arg in args)
    first, second = first.chosen(first.known), second.chosen(second.known)
    codes = _codes(pa.concat_arrays([first.values, second.values]))
    keys = np.concatenate([first.owner, second.owner]) * (codes.max(initial=0) + 1) + codes
    return first, second, np.isin(keys[len(first.owner) :], keys[: len(first.owner)])


def _wider(args: Sequence[Value]) -> pa.DataType:
    from watersmeet.model.types import common_type

    left, right = (arg.type.value_type for arg in args)
    return pa.list_(left if left == right else common_type(left, right))


def _either_missing(args: Sequence[Value], rows: int) -> Mask:
    return np.logical_or(*(_missing(arg, rows) for arg in args))


def has_any(args: Sequence[Value], call: Call) -> Value:
    rows = rows_of(args)
    _, second, found = _pair(args, call, rows)
    some = np.bincount(second.owner[found], minlength=rows) > 0
    return as_given(args, pa.array(some, mask=_either_missing(args, rows)))


def has_all(args: Sequence[Value], call: Call) -> Value:
    rows = rows_of(args)
    _, second, found = _pair(args, call, rows)
    every = np.bincount(second.owner[~found], minlength=rows) == 0
    return as_given(args, pa.array(every, mask=_either_missing(args, rows)))


def intersect(args: Sequence[Value], call: Call) -> Value:
    """The values of the first list that are in the second, in the order of the first."""
    rows = rows_of(args)
    _, first, found = _pair(args[::-1], call, rows)
    shared = first.chosen(found)
    made = shared.chosen(_first_of_each(shared)).lists(rows, _either_missing(args, rows), call.type)
    return as_given(args, made)


def concat(args: Sequence[Value], call: Call) -> Value:
    """Lists that are NULL are passed over, unless all are."""
    rows = rows_of(args)
    parts = [Elements.of(arg, call.type.value_type, rows) for arg in args if not pa.types.is_null(arg.type)]
    missing = np.logical_and.reduce([_missing(arg, rows) for arg in args])
    return as_given(args, _one_after_the_other(parts, rows, missing, call))


def _one_after_the_other(parts: Sequence[Elements], rows: int, missing: Mask, call: Call) -> pa.Array:
    owner = np.concatenate([part.owner for part in parts])
    order = np.argsort(owner, kind="stable")
    together = Elements(owner, pa.concat_arrays([part.values for part in parts]))
    return together.chosen(order).lists(rows, missing, call.type)


def _grown(at_the_end: bool) -> Function:
    """A value more in a list; a list that is NULL is taken as empty."""

    def apply(args: Sequence[Value], call: Call) -> Value:
        listed, value = args if at_the_end else (args[1], args[0])
        rows, kind = rows_of(args), call.type.value_type
        untyped = pa.types.is_null(listed.type)
        held = Elements.of(pa.nulls(rows, call.type) if untyped else listed, kind, rows)
        one = Elements(np.arange(rows), as_array(convert(value, kind), rows))
        parts = (held, one) if at_the_end else (one, held)
        return as_given(args, _one_after_the_other(parts, rows, np.zeros(rows, np.bool_), call))

    return apply


def _of_map(part: str) -> Function:
    def apply(args: Sequence[Value], call: Call) -> Value:
        rows = rows_of(args)
        maps = as_array(args[0], rows)
        offsets = np.asarray(maps.offsets.to_numpy(), np.int64)
        sizes = np.where(_missing(maps, rows), 0, np.diff(offsets))
        index = places_of(offsets[:-1], sizes)
        held = Elements(np.repeat(np.arange(rows), sizes), getattr(maps, part).take(pa.array(index)))
        return as_given(args, held.lists(rows, _missing(maps, rows), call.type))

    return apply


FUNCTIONS: dict[str, Function] = {
    "list_sort": lambda args, call: _sorted(args, call, downwards=False),
    "list_reverse_sort": lambda args, call: _sorted(args, call, downwards=True),
    "list_reverse": reverse,
    "list_distinct": distinct,
    "list_count": _counting("elements"),
    "list_unique": _counting("values"),
    "list_has_any": has_any,
    "list_has_all": has_all,
    "list_intersect": intersect,
    "map_keys": _of_map("keys"),
    "map_values": _of_map("items"),
}
LENIENT: dict[str, Function] = {
    "list_concat": concat,
    "list_append": _grown(at_the_end=True),
    "list_prepend": _grown(at_the_end=False),
}
