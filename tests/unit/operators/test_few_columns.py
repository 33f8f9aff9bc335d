"""Where the columns of a few rows lie, by Arrow's C data interface, is where Arrow's own objects say."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.contract import Rows
from watersmeet.operators.few_columns import FewColumns

MOST_US = 10**17
COLUMNS = {
    "plain": pa.array([1, 2, 3, 4], pa.int32()),
    "nulls": pa.array([1, None, 3, 4]),
    "text": pa.array(["a", "bc", "", "d"]),
    "nothing": pa.nulls(4),
    "flag": pa.array([True, False, True, True]),
    "exact": pa.array([1, 2, 3, 4]).cast(pa.decimal128(20, 0)),
    "nested": pa.array([{"x": 1}, {"x": 2}, None, {"x": 4}]),
    "coded": pa.array(["a", "b", "a", "b"]).dictionary_encode(),
    "ts": pa.array([7, 7, 8, 9], pa.timestamp("us")),
}
BATCH = pa.RecordBatch.from_arrays(list(COLUMNS.values()), list(COLUMNS))
OF_ONE_WIDTH = ("plain", "nulls", "exact", "ts")


def start_of(column: pa.Array) -> int:
    return int(column.buffers()[1].address + column.offset * column.type.bit_width // 8)


@pytest.mark.parametrize(("first", "rows"), [(0, 4), (1, 3), (2, 2), (3, 1)])
def test_every_column_of_one_width_without_nulls_lies_where_arrow_says(first: int, rows: int) -> None:
    batch = BATCH.slice(first, rows)
    timed = FewColumns(BATCH.schema, "ts", MOST_US).timed(batch)
    assert timed is not None
    assert timed.times.tolist() == batch.column("ts").cast(pa.int64()).to_pylist()
    assert timed.in_order
    untimed = FewColumns(BATCH.schema).addresses(Rows(batch, timed.times))
    assert untimed is not None
    for found in (FewColumns(BATCH.schema).addresses(timed), untimed):
        assert found is not None
        for at, name in zip(found[1:].tolist(), BATCH.schema.names, strict=True):
            usable = name in OF_ONE_WIDTH and batch.column(name).null_count == 0
            assert at == (start_of(batch.column(name)) if usable else 0), name


def test_times_out_of_order_are_told_and_those_that_cannot_be_read_are_left() -> None:
    def read(*times: int | None) -> Rows | None:
        column = pa.array(times, pa.timestamp("us"))
        batch = pa.RecordBatch.from_arrays([column], ["ts"])
        return FewColumns(batch.schema, "ts", MOST_US).timed(batch)

    swapped = read(5, 4)
    assert swapped is not None
    assert not swapped.in_order
    assert swapped.times.tolist() == [5, 4]
    assert read(1, MOST_US + 1) is None
    assert read(-MOST_US - 1) is None
    assert read(1, None) is None
    assert read() is None


def test_other_columns_are_not_read() -> None:
    columns = FewColumns(pa.schema([("k", pa.int64())]))
    assert columns.addresses(Rows(BATCH, np.zeros(4, np.int64))) is None
    assert FewColumns(BATCH.schema.remove(0), "ts", MOST_US).timed(BATCH) is None


def test_what_was_looked_at_is_not_kept_alive() -> None:
    class Values(np.ndarray):  # which may be known weakly
        pass

    values = np.arange(4).view(Values)
    gone = weakref.ref(values)
    buffer = pa.py_buffer(values)
    batch = pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.int64(), 4, [None, buffer])], ["k"])
    assert FewColumns(batch.schema).addresses(Rows(batch, np.zeros(4, np.int64))) is not None
    del values, buffer, batch
    gc.collect()
    assert gone() is None
