"""Int64 images of column values: exact and order-preserving where the type allows, hashes elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import is_bytes, is_text
from watersmeet.operators.evaluate import evaluate
from watersmeet.operators.kernels.hashing import hash_bytes
from watersmeet.operators.kernels.identity import fold, fold_entries, second_hash
from watersmeet.operators.scalar.values import convert
from watersmeet.physical.strategy import is_exact
from watersmeet.plan.expressions import Call, Column, Expression, Literal

Number = TypeVar("Number", bound=np.generic)
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
UInt64s = npt.NDArray[np.uint64]

INT64 = np.iinfo(np.int64)
_INT64, _DOUBLE = pa.int64(), pa.float64()
# Doubles near 1 lie 2**-52 apart, and a rounding is off by half of that at most; only a few of them are at stake.
FLOAT_SLACK = 8 * 2.0**-52
_NO_MASK = np.empty(0, np.bool_)


def codes_of(expression: Expression, columns: Callable[[Column], pa.Array], length: int) -> tuple[Codes, Mask | None]:
    """The codes of an expression over a batch, and where it is not NULL (None: nowhere NULL)."""
    if isinstance(expression, Call):
        for special in (_shifted_integers, _widened_floats):
            made = special(expression, columns, length)
            if made is not None:
                return made
    values = evaluate(expression, columns, length)
    valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    return (encode(values) if is_exact(values.type) else hash_values(values)), valid


def _shifted_integers(
    expression: Expression, columns: Callable[[Column], pa.Array], length: int
) -> tuple[Codes, Mask | None] | None:
    """`x + d` and `x - d` that stop at the int64 limits, see optimizer.classify_predicates."""
    match expression:
        case Call(function="stopping_add" | "stopping_subtract" as function, args=(inner, Literal(value=int() as by))):
            codes, valid = codes_of(inner, columns, length)
            by = by if function == "stopping_add" else -by
            # Sums that wrap around are made too, and not taken.
            if by >= 0:
                return np.where(codes > INT64.max - by, INT64.max, codes + np.int64(by)), valid
            return np.where(codes < INT64.min - by, INT64.min, codes + np.int64(by)), valid
    return None


def _widened_floats(
    expression: Expression, columns: Callable[[Column], pa.Array], length: int
) -> tuple[Codes, Mask | None] | None:
    """`x + d` moved outwards by more than any rounding error of `x - y <= d`, so that no match is missed."""
    match expression:
        case Call(function="wide_add" | "wide_subtract" as function, args=(inner, Literal(value=by))):
            values = convert(evaluate(inner, columns, length), _DOUBLE)
            valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
            x = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
            sign = 1.0 if function == "wide_add" else -1.0
            with np.errstate(over="ignore", invalid="ignore"):
                outwards = sign * FLOAT_SLACK * (np.abs(x) + abs(float(by)))
                wide = x + sign * float(by) + outwards
            return encode(pa.array(wide)), valid
    return None


def encode(values: pa.Array) -> Codes:
    """Order-preserving int64s; what stands at NULLs is arbitrary."""
    kind = values.type
    if pa.types.is_floating(kind):
        return _encode_floats(values)
    if pa.types.is_decimal(kind):
        return _encode_decimals(values)
    if kind == pa.uint64():
        # Turning the highest bit round makes signed order of unsigned order.
        raw = _buffer(values, np.dtype(np.uint64))
        return (raw ^ np.uint64(1 << 63)).view(np.int64)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _filled(values if kind == _INT64 else values.cast(_INT64))
    width = kind.bit_width
    return _buffer(values, np.dtype(np.int64 if width == 64 else np.int32)).astype(np.int64, copy=False)


def _filled(values: pa.Array) -> Codes:
    return _buffer(values, np.dtype(np.int64))


def _buffer(values: pa.Array, dtype: np.dtype[np.generic]) -> npt.NDArray[np.int64]:
    """The raw values, without a copy."""
    if len(values) == 0:
        return np.empty(0, dtype)
    raw = np.frombuffer(values.buffers()[1], dtype)
    return raw[values.offset : values.offset + len(values)]


def _encode_floats(values: pa.Array) -> Codes:
    """IEEE doubles as integers in the same order: -0 is 0, every NaN is one value above all numbers."""
    doubles = values if values.type == _DOUBLE else values.cast(_DOUBLE)
    if doubles.null_count:
        doubles = pc.fill_null(doubles, 0.0)
    floats = doubles.to_numpy(zero_copy_only=True) + 0.0  # makes 0.0 of -0.0
    bits = floats.view(np.int64)
    # A negative double is a sign and a magnitude, and becomes minus the magnitude.
    ordered = np.where(bits >= 0, bits, INT64.min - bits)
    return np.where(np.isnan(floats), INT64.max, ordered)


def _encode_decimals(values: pa.Array) -> Codes:
    """At most 18 digits fit the low half of a 128-bit decimal."""
    wide = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    if len(wide) == 0:
        return np.empty(0, np.int64)
    halves = np.frombuffer(wide.buffers()[1], np.int64)
    # Every other word; a copy, as kernels read without gaps.
    return halves[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2].copy()


def identities(columns: Sequence[pa.Array], length: int) -> tuple[UInt64s, UInt64s]:
    """128 bits per row that tell rows apart. Those of a single column of numbers are exact; otherwise two of a billion
    different rows share them with a probability of about 10^-21."""
    first = np.zeros(length, np.uint64)
    second = np.zeros(length, np.uint64)
    for column in columns:
        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        one, other = _codes(column)
        mask = _NO_MASK if valid is None else valid
        fold(first, second, read_only(one), read_only(other), read_only(mask), valid is None)
    return first, second


def _codes(column: pa.Array) -> tuple[Codes, Codes]:
    if pa.types.is_null(column.type):
        nothing = np.zeros(len(column), np.int64)
        return nothing, nothing
    if is_exact(column.type):
        codes = encode(column)
        return codes, codes
    if pa.types.is_nested(column.type):
        first, second = _nested(column)
        return first.view(np.int64), second.view(np.int64)
    data, offsets = as_slices(column)
    other = np.empty(len(column), np.int64)
    second_hash(data, offsets, other)
    return hash_values(column), other


def _nested(column: pa.Array) -> tuple[UInt64s, UInt64s]:
    """Of structs by their fields, of lists by their entries, which those of a map are too."""
    if pa.types.is_struct(column.type):
        return identities(column.flatten(), len(column))
    kind = column.type
    entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)]) if pa.types.is_map(kind) else kind.value_type
    lists = column.cast(pa.large_list(entry))
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    entries = lists.flatten()
    codes = identities([entries], len(entries))
    first, second = np.empty(len(column), np.uint64), np.empty(len(column), np.uint64)
    fold_entries(*codes, np.cumsum(sizes), first, second)
    return first, second


def hash_values(values: pa.Array) -> Codes:
    """A 64-bit hash per value; equality of the values themselves is verified on results."""
    if pa.types.is_nested(values.type):
        return _nested(values)[0].view(np.int64)
    data, offsets = as_slices(values)
    out = np.empty(len(values), np.int64)
    hash_bytes(data, offsets, out)
    return out


def as_slices(values: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of every value as slices of one array."""
    if pa.types.is_decimal(values.type):
        width = values.type.bit_width // 8
        values = pc.fill_null(values, 0)
        offsets = width * (values.offset + np.arange(len(values) + 1, dtype=np.int64))
        return _bytes(values.buffers()[1]), read_only(offsets)
    if is_text(values.type):
        values = pc.cast(values, pa.large_string())
    elif is_bytes(values.type):
        values = pc.cast(values, pa.large_binary())
    else:
        raise TypeError(f"values of type {values.type} have no key")
    offsets = np.frombuffer(values.buffers()[1], np.int64) if len(values) else np.zeros(1, np.int64)
    return _bytes(values.buffers()[2]), read_only(offsets[values.offset : values.offset + len(values) + 1])


def _bytes(buffer: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    return read_only(np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8))


def read_only(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """A view that cannot be written to: kernels are compiled for such arrays and for others apart, and whether what
    comes from Arrow is one depends on where Arrow had it from."""
    view = array.view()
    view.flags.writeable = False
    return view
