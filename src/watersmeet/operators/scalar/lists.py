"""Lists and structs. Places in a list count from 1, and from -1 at its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import common_type
from watersmeet.operators.scalar.values import (
    Function,
    Value,
    as_array,
    as_given,
    convert,
    from_numpy,
    numpy_of,
    rows_of,
)
from watersmeet.plan.expressions import Call, Literal

Int64s = npt.NDArray[np.int64]


def lengths(value: Value) -> Value:
    return pc.cast(pc.list_value_length(value), pa.int64())


def spread(value: Value, rows: int) -> tuple[Int64s, Int64s, pa.Array]:
    """Where the list of each row begins among all elements, how long it is (0 for NULL), and the elements."""
    lists = as_array(value, rows)
    if pa.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.list_(lists.type.value_type))
    sizes = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    offsets = np.asarray(lists.offsets.to_numpy(zero_copy_only=False), np.int64)
    return offsets[:-1], sizes, lists.values


def places_of(starts: Int64s | int, sizes: Int64s) -> Int64s:
    """The places of lists that begin somewhere and are so long, one list after the other."""
    ends = np.cumsum(sizes)
    places: Int64s = np.arange(ends[-1] if sizes.size else 0) + np.repeat(starts - ends + sizes, sizes)
    return places


def picked(value: Value, places: Int64s, rows: int) -> pa.Array:
    """The element of each row at a place from 1 on, or from -1 at the end; NULL where there is none."""
    starts, sizes, elements = spread(value, rows)
    index = np.where(places > 0, places - 1, sizes + places)
    there = (places != 0) & (index >= 0) & (index < sizes)
    return elements.take(pa.array(np.where(there, starts + index, 0), mask=~there))


def _found(args: Sequence[Value]) -> tuple[Int64s, Value, int]:
    """The place of a value in each list, 0 where it is not."""
    from watersmeet.operators.scalar.comparisons import equal

    rows = rows_of(args)
    starts, sizes, elements = spread(args[0], rows)
    within = places_of(0, sizes)
    owner = np.repeat(np.arange(rows), sizes)
    wanted = as_array(args[1], rows).take(pa.array(owner))
    target = common_type(elements.type, wanted.type)
    held = elements.take(pa.array(np.repeat(starts, sizes) + within))
    same = pc.fill_null(equal(convert(held, target), convert(wanted, target)), False).to_numpy(zero_copy_only=False)
    places = np.zeros(rows, np.int64)
    # From the last to the first, so that the first of several stays.
    hits = np.flatnonzero(same)[::-1]
    places[owner[hits]] = within[hits] + 1
    return places, args[0], rows


def contains(args: Sequence[Value], call: Call) -> Value:
    places, _, rows = _found(args)
    return as_given(args, as_array(from_numpy(places > 0, [as_array(a, rows) for a in args], pa.bool_()), rows))


def position(args: Sequence[Value], call: Call) -> Value:
    places, _, rows = _found(args)
    found = as_array(from_numpy(places, [as_array(a, rows) for a in args], pa.int64()), rows)
    return as_given(args, pc.if_else(pc.equal(found, 0), pa.scalar(None, pa.int64()), found))


def joined(args: Sequence[Value], call: Call) -> Value:
    """The elements as text, with something between them; NULLs are passed over."""
    rows = rows_of(args)
    lists = as_array(args[0], rows)
    starts, sizes, elements = spread(lists, rows)
    owner = np.repeat(np.arange(rows), sizes)
    texts = pc.cast(elements.take(pa.array(places_of(starts, sizes))), pa.string())
    kept = texts.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner[kept], minlength=rows))])
    packed = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts.drop_null())
    made = pc.binary_join(packed, as_array(args[1], rows))
    return as_given(args, pc.if_else(pc.is_null(lists), pa.scalar(None, pa.string()), made))


def _folded(kernel: str) -> Function:
    def apply(args: Sequence[Value], call: Call) -> Value:
        rows = rows_of(args)
        starts, sizes, elements = spread(args[0], rows)
        values = convert(elements.take(pa.array(places_of(starts, sizes))), call.type)
        owner = pa.array(np.repeat(np.arange(rows), sizes))
        grouped = pa.table({"owner": owner, "x": values}).group_by("owner").aggregate([("x", kernel)])
        made = grouped[f"x_{kernel}"].combine_chunks()
        place = pc.index_in(pa.array(np.arange(rows)), value_set=grouped["owner"].combine_chunks())
        return as_given(args, convert(made.take(place), call.type))

    return apply


MOST_ENTRIES = 100_000_000


def series(args: Sequence[Value], call: Call) -> Value:
    """Whole numbers from one to another, both included, by a step."""
    rows = rows_of(args)
    nulls = np.zeros(rows, np.bool_)
    for arg in args:
        nulls |= as_array(arg, rows).is_null().to_numpy(zero_copy_only=False)
    first, last, *given = (numpy_of(as_array(convert(arg, pa.int64()), rows), 1) for arg in args)
    step = given[0] if given else np.ones(rows, np.int64)
    nowhere = nulls | (step == 0)
    sizes = np.where(nowhere, 0, np.maximum((last - first) // np.where(nowhere, 1, step) + 1, 0))
    if int(sizes.sum()) > MOST_ENTRIES:
        raise pa.ArrowInvalid(f"the series are longer than {MOST_ENTRIES:,} entries together")
    offsets = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int32), mask=np.append(nulls, False))
    entries = pa.array(np.repeat(first, sizes) + places_of(0, sizes) * np.repeat(step, sizes))
    return as_given(args, pa.ListArray.from_arrays(offsets, entries))


def field(args: Sequence[Value], call: Call) -> Value:
    name = call.args[1]
    assert isinstance(name, Literal)
    return pc.struct_field(args[0], [name.value])


def pack(args: Sequence[Value], call: Call) -> Value:
    """Several values as one."""
    rows = rows_of(args)
    arrays = [as_array(convert(arg, kind.type), rows) for arg, kind in zip(args, call.type, strict=True)]
    return as_given(args, pa.StructArray.from_arrays(arrays, fields=list(call.type)))


def listed(args: Sequence[Value], call: Call) -> Value:
    """A list of its arguments in each row."""
    rows, size = rows_of(args), len(args)
    values = pa.concat_arrays([as_array(convert(arg, call.type.value_type), rows) for arg in args])
    in_turn = np.arange(rows * size).reshape(size, rows).T.ravel()
    offsets = pa.array(np.arange(rows + 1) * size, pa.int32())
    return as_given(args, pa.ListArray.from_arrays(offsets, values.take(pa.array(in_turn))).cast(call.type))


FUNCTIONS: dict[str, Function] = {
    "list_contains": contains,
    "list_position": position,
    "array_to_string": joined,
    "list_sum": _folded("sum"),
    "list_min": _folded("min"),
    "list_max": _folded("max"),
    "generate_series": series,
    "list_avg": _folded("mean"),
    "field": field,
}
LENIENT: dict[str, Function] = {
    "pack": pack,
    "named_struct": lambda args, call: pack(args[1::2], call),
    "list_value": listed,
}
