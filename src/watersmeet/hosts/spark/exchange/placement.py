"""Where the rows of one input go: cut by bucket, copied along the dimensions that do not place them, and where keys are
spread along one that does."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import OWN
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Rows
from watersmeet.operators.frequent_keys import frequent
from watersmeet.operators.join.admission import Admission
from watersmeet.operators.kernels.spread import coordinates, grouped
from watersmeet.operators.memory_bound import Came, Sharing
from watersmeet.operators.spread_rows import homes, is_copied, spread_out
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import Input

Cells = npt.NDArray[np.int64]
_pickle: Any = cloudpickle


@dataclass(frozen=True)
class Part:
    """Rows for one bucket; `primary` marks the one copy by which rows are counted."""

    bucket: int
    primary: bool
    rows: pa.RecordBatch


@dataclass(frozen=True)
class Placed:
    """Rows with the first bucket of each, and how far from it its other copies are. Where keys are spread a row may
    have several first buckets: `at` then has the position of the row of each, and `primary` which is the one that
    counts."""

    rows: Rows
    codes: dict[Code, Codes]
    cells: Cells
    copies: list[int]
    at: Cells | None = None
    primary: Mask | None = None


class Placement:
    """The placing of one input in the grid of a job."""

    def __init__(self, job: SparkJob, one: Input) -> None:
        self.one = one
        self.buckets = job.partitioning.buckets
        self.dimensions = job.partitioning.dimensions
        self.announced = one.alias in job.partitioning.announced
        self.admission = job.admission(one)
        self.layout = job.layout(one)
        self.keys = Admission((), job.keys_of(one))
        self.nulls_count = job.nulls_count
        self.schema = job.row_schema(one)

    @cached_property
    def alike(self) -> Hashable:
        """Equal for inputs of other jobs whose rows lie in the same places, with the same columns and codes."""
        inside = (self.one.alias, self.buckets, self.dimensions, self.announced, self.admission, self.layout)
        return bytes(_pickle.dumps((*inside, self.keys, self.nulls_count, self.schema)))

    def placed(self, rows: Rows) -> Placed:
        """The rows that go anywhere, and where."""
        rows = Rows(rows.data.select(self.schema.names), rows.times)
        rows, codes, _ = self.admission.admit(rows)
        # The admission of such jobs makes no codes. NULLs must land in one place to be grouped, hence a fixed code for
        # them; an announced row without a key matches nothing, so any bucket may own it.
        if self.nulls_count:
            codes = self.keys.codes_of(rows, at_null=0)
        elif self.announced:
            codes = self.keys.codes_of(rows)
        return Placed(rows, codes, *self._cells(rows, codes))

    def parts(self, placed: Placed) -> Iterator[Part]:
        """The rows of every bucket that gets any, in their order, those first that count there."""
        rows, copies = placed.rows, placed.copies
        if len(rows) == 0:
            return
        if self.announced:
            yield from self._announced(placed)
            return
        for cell, counts, found in self._cut(placed):
            for k, offset in enumerate(copies):
                yield Part(cell + offset, counts and k == 0, found)

    def _cut(self, placed: Placed) -> Iterator[tuple[int, bool, pa.RecordBatch]]:
        """The rows of every first bucket, and whether they count there."""
        rows, cells = placed.rows, placed.cells
        if placed.primary is not None:
            cells = 2 * cells + ~placed.primary
        order, starts = grouped(cells, self.buckets if placed.primary is None else 2 * self.buckets)
        data = self.layout.batch(rows, placed.codes)
        if placed.at is not None:
            data = data.take(pa.array(placed.at[order]))
        # If all lie in the first cell, as with one bucket, they are in order already.
        elif not bool((starts[1:] == len(rows)).all()):
            data = data.take(pa.array(order))
        for cell in np.flatnonzero(np.diff(starts)).tolist():
            start, end = int(starts[cell]), int(starts[cell + 1])
            found = data.slice(start, end - start)
            yield (cell, True, found) if placed.primary is None else (cell // 2, cell % 2 == 0, found)

    def counted(self, placed: Placed, stream: int, sharing: Sharing) -> Came:
        """How many of the rows each cell of a memory that is shared gets."""
        if sharing.finer == 1:
            # Where a dimension only copies, first cells have coordinate 0, so rolling by an offset never wraps.
            firsts = np.bincount(placed.cells, minlength=sharing.cells)
            counts = np.sum([np.roll(firsts, offset) for offset in placed.copies], axis=0)
        else:
            # The number of cells is a multiple of that of buckets, so hash % cells % buckets is the bucket of a row.
            (dimension,) = self.dimensions
            finer = coordinates(placed.codes[dimension.keys[self.one.alias]], sharing.cells)
            counts = np.bincount(finer, minlength=sharing.cells)
        times = placed.rows.times
        oldest_us, newest_us = int(times.min()), int(times.max())
        return Came(stream, len(times), placed.rows.data.nbytes, oldest_us, newest_us, counts.astype(np.int64))

    def rows_by_key(self, placed: Placed) -> dict[str, int]:
        """About how many rows there are of keys that have many, by stream and key, where one key places them."""
        codes = [one.keys[self.one.alias] for one in self.dimensions if self.one.alias in one.keys]
        if len(codes) != 1 or not isinstance(codes[0].expression, Column):
            return {}
        return {
            f"{self.one.alias}: {key}": rows
            for key, rows in frequent(placed.codes[codes[0]], placed.rows.data.column(codes[0].expression.name))
        }

    def _announced(self, placed: Placed) -> Iterator[Part]:
        """Every row to every bucket, because every bucket counts; only where a row belongs it has its values."""
        for bucket in range(self.buckets):
            own = pa.array(np.isin(placed.cells, [bucket - offset for offset in placed.copies]))
            yield Part(bucket, bucket == 0, self._with_own(placed.rows.data, own))

    def _with_own(self, data: pa.RecordBatch, own: pa.Array) -> pa.RecordBatch:
        counting = {self.one.time, *getattr(self.one.window, "partition_by", ())}
        columns = []
        for field, column in zip(data.schema, data.columns, strict=True):
            values = column if field.name in counting else _only_where(own, column)
            columns.append(values)
        return pa.RecordBatch.from_arrays([*columns, own], [*data.schema.names, OWN])

    def _cells(self, rows: Rows, codes: dict[Code, Codes]) -> tuple[Cells, list[int], Cells | None, Mask | None]:
        """What `Placed` has of them."""
        # Buckets are numbered like the digits of a number, the first dimension the lowest: `stride` is a digit's worth.
        cells: Cells = np.zeros(len(rows), np.int64)
        at: Cells | None = None
        primary: Mask | None = None
        copies, stride = [0], 1
        for dimension in self.dimensions:
            code = dimension.keys.get(self.one.alias)
            if code is not None and is_copied(dimension.spread, self.one.alias):
                assert at is None, "one dimension has spread keys"
                keys = codes[code]
                at, where, primary = spread_out(dimension.spread, self.one.alias, keys, rows.times, dimension.size)
                cells = cells[at] + stride * where
            elif dimension.places(self.one.alias):
                # A fragment has no key; its rows are dealt out by their place among those that are packed together.
                where = (
                    coordinates(np.arange(len(rows)), dimension.size)
                    if code is None
                    else homes(dimension.spread, self.one.alias, codes[code], rows.times, dimension.size)
                )
                cells += stride * (where if at is None else where[at])
            else:
                copies = [copy + stride * i for i in range(dimension.size) for copy in copies]
            stride *= dimension.size
        return cells, sorted(copies), at, primary


def _only_where(own: pa.Array, column: pa.Array) -> pa.Array:
    """The column with NULL where a row belongs elsewhere."""
    if pa.types.is_nested(column.type):
        numbers = pc.if_else(own, pa.array(np.arange(len(own))), pa.scalar(None, pa.int64()))
        return column.take(numbers)
    return pc.if_else(own, column, pa.scalar(None, column.type))
