"""Driving an algorithm by hand: rows pushed together in time order, its counts read in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.contract import Rows
from watersmeet.optimizer.stages import optimize
from watersmeet.papers.joins.classic_join import ClassicJoin
from watersmeet.papers.joins.loops import OUTPUT_ROWS, LoopJoin, Slips
from watersmeet.plan.nodes import Join, Project
from watersmeet.sql import bind

Numbers = npt.NDArray[np.int64]
SCHEMA = pa.schema([("v", pa.int64()), ("ts", pa.timestamp("us"))])
SECOND = 1_000_000


class Drive:
    """A join of streams with a value `v` and a time, by one algorithm. Give it batches, then look at its counts."""

    def __init__(
        self,
        sql: str,
        streams: Sequence[str],
        slips: Slips | None = None,
        probe_every: int | None = None,
        output_rows: int = OUTPUT_ROWS,
    ) -> None:
        catalog = Catalog()
        for name in streams:
            catalog.add(Stream(name, SCHEMA, "ts"))
        plan = bind(sql, catalog)
        assert isinstance(plan.root, Project)
        assert isinstance(plan.root.child, Join)
        strategy = optimize(plan.root.child, plan.method)
        self.loops = LoopJoin(strategy, slips, output_rows)
        self.join = ClassicJoin(strategy, plan.root.columns, self.loops, probe_every)
        self.now_us = 0

    def push(
        self, batch: Mapping[str, tuple[Sequence[int] | Numbers, Sequence[int] | Numbers]]
    ) -> list[tuple[int, ...]]:
        """Times and values per stream, complete up to the newest of them; the results."""
        found: list[tuple[int, ...]] = []
        rows = {alias: rows_of(times, values) for alias, (times, values) in batch.items()}
        for results in self.join.push_together(rows):
            found += zip(*(column.to_pylist() for column in results.columns), strict=True)
        self.now_us = max([self.now_us, *(int(one.times[-1]) for one in rows.values() if len(one))])
        return found

    def finish(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for results in self.join.advance(dict.fromkeys(self.join.windows.streams, 2**61)):
            found += zip(*(column.to_pylist() for column in results.columns), strict=True)
        return found

    @property
    def work(self) -> dict[str, int]:
        return self.join.counters.work

    def occupancy(self) -> tuple[Numbers, Numbers]:
        """Live and stale rows per input."""
        return self.loops.occupancy(self.now_us, self.join.shelf.table())


def rows_of(times: Sequence[int] | Numbers, values: Sequence[int] | Numbers) -> Rows:
    instants = np.asarray(times, np.int64)
    columns = [pa.array(np.asarray(values, np.int64)), pa.array(instants, pa.timestamp("us"))]
    return Rows(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), instants)


def seconds(rows: str) -> tuple[list[int], list[int]]:
    """`1@0 2@1.5` as times and values."""
    cells = [cell.split("@") for cell in rows.split()]
    return [round(float(at) * SECOND) for _, at in cells], [int(value) for value, _ in cells]
