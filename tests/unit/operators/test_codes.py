"""Codes: int64 images that keep order where the type has one, and hashes elsewhere."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from watersmeet.operators.codes import encode, hash_values

INT64 = np.iinfo(np.int64)
some = random_cases(100)

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    **{
        f"int{bits}": (getattr(pa, f"int{bits}")(), st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
        for bits in (8, 16, 32, 64)
    },
    **{f"uint{bits}": (getattr(pa, f"uint{bits}")(), st.integers(0, 2**bits - 1)) for bits in (8, 16, 32, 64)},
    "bool": (pa.bool_(), st.booleans()),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "decimal": (pa.decimal128(18, 4), st.decimals(Decimal(-(10**13)), Decimal(10**13), places=4)),
    "decimal256": (pa.decimal256(18, 2), st.decimals(Decimal(-(10**15)), Decimal(10**15), places=2)),
    "timestamp": (pa.timestamp("us"), st.integers(-(2**60), 2**60)),
    "timestamp in UTC": (pa.timestamp("us", "UTC"), st.integers(-(2**60), 2**60)),
    "date": (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "duration": (pa.duration("us"), st.integers(-(2**62), 2**62)),
    "time": (pa.time64("us"), st.integers(0, 86_399_999_999)),
    "time of seconds": (pa.time32("s"), st.integers(0, 86_399)),
}


@pytest.mark.parametrize("name", KINDS)
def test_codes_keep_order_and_equality(name: str) -> None:
    kind, values = KINDS[name]

    @some
    @given(st.lists(values, min_size=2, max_size=20), st.integers(0, 3))
    def check(drawn: list[Any], offset: int) -> None:
        array = pa.array([*drawn[:offset], None, *drawn], kind)  # a slice of an array that has a NULL
        codes = encode(array.slice(1 + min(offset, len(drawn))))
        assert codes.dtype == np.int64
        for i, j in zip(range(len(drawn)), range(1, len(drawn)), strict=False):
            assert (codes[i] < codes[j]) == (drawn[i] < drawn[j])
            assert (codes[i] == codes[j]) == (drawn[i] == drawn[j])

    check()


def test_doubles_have_one_zero_and_one_nan_above_everything() -> None:
    negative_nan = np.array([0xFFF8000000000001], np.uint64).view(np.float64)[0]
    ordered = [-math.inf, -1.7e308, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1.7e308, math.inf, math.nan]
    codes = encode(pa.array(ordered))
    assert np.all(np.diff(codes) > 0)
    assert encode(pa.array([-0.0, negative_nan])).tolist() == [codes[4], INT64.max]


@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.decimal128(10, 2), pa.timestamp("us"), pa.bool_()])
def test_nothing_has_no_codes(kind: pa.DataType) -> None:
    assert encode(pa.array([], kind)).size == 0
    assert encode(pa.nulls(3, kind).slice(1, 0)).size == 0


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.decimal128(38, 6), pa.decimal256(60, 6)]
)
def test_equal_values_hash_alike_wherever_they_lie(kind: pa.DataType) -> None:
    values = (
        [1, 22, 333, -1, 22, None, 333] if pa.types.is_decimal(kind) else ["", "a", "ä€", "x" * 99, "a", None, "ä€"]
    )
    array = pa.array([Decimal(v) if v is not None and pa.types.is_decimal(kind) else v for v in values], kind)
    codes = hash_values(array)
    assert codes[1] == codes[4]
    assert codes[2] == codes[6]
    assert len(set(codes[:4].tolist())) == 4
    assert hash_values(array.slice(2)).tolist() == codes[2:].tolist()
    assert hash_values(array.slice(0, 0)).size == 0
