"""Running a query with OPTIONS over rows in memory, stretch by stretch of event time, and reading what it counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.lab.experiment import Panel
from watersmeet.lab.papers.spread import in_turn
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.contract import Rows
from watersmeet.optimizer.stages import optimize
from watersmeet.papers.joins.classic_join import ClassicJoin
from watersmeet.papers.joins.contract import Int64s, Observable
from watersmeet.papers.joins.loops import LoopJoin, Slips
from watersmeet.runtime.build import build_query, join_inside
from watersmeet.session import Query, Session

K = TypeVar("K")


@dataclass(frozen=True)
class MeasuredStretch:
    """What a join did in a stretch of event time. `work` is as docs/lab.md lists it, as differences; `seconds`
    are those inside the algorithm, of processor time, without the gathering of result columns."""

    rows: int
    results: int
    seconds: float
    work: Mapping[str, int]

    @property
    def comparisons(self) -> int:
        """All looks at rows: candidates scanned, and rows looked at whether they have expired."""
        return self.work["scanned"] + self.work["invalidation_comparisons"]

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


class StagedRun:
    """A plain join, run over tables that are at hand, with stops to look at its counts."""

    def __init__(self, sql: str, tables: Mapping[str, pa.Table]) -> None:
        """tables: by the names of the streams, in time order; `ts` is their event time."""
        built = build_query(query_over(sql, tables).plan)
        self._operator = built.operator
        self._rows = {alias: _rows(tables[stream.name]) for alias, stream in built.streams.items()}
        self._done = dict.fromkeys(self._rows, 0)

    def until(self, edge_us: int) -> MeasuredStretch:
        """Take in all rows before an instant."""
        counters = self._operator.counters
        before, results, seconds = dict(counters.work), counters.results, counters.kernel_seconds
        taken = 0
        for alias, rows in self._rows.items():
            start, end = self._done[alias], int(np.searchsorted(rows.times, edge_us))
            self._done[alias], taken = end, taken + end - start
            part = Rows(rows.data.slice(start, end - start), rows.times[start:end])
            # Stream after stream will do: rows of the papers' joins wait until time goes on, which puts them in order.
            _drain(self._operator.push(alias, part))
        _drain(self._operator.advance(dict.fromkeys(self._rows, edge_us)))
        counters = self._operator.counters
        work = {name: count - before.get(name, 0) for name, count in counters.work.items()}
        return MeasuredStretch(taken, counters.results - results, counters.kernel_seconds - seconds, work)

    def rest(self) -> MeasuredStretch:
        """Take in what is left, and end."""
        return self.until(FOREVER_US)

    def held(self) -> dict[str, int]:
        """Rows in the buffers of each input, live and stale."""
        join = join_inside(self._operator)
        assert isinstance(join, ClassicJoin)
        assert isinstance(join.algorithm, Observable)
        # what is live depends on the instant, what is held does not
        live, stale = join.algorithm.occupancy(0, join.shelf.table())
        held: Int64s = live + stale
        return dict(zip(join.inputs, map(int, held), strict=True))


def query_over(sql: str, tables: Mapping[str, pa.Table]) -> Query:
    """A query whose streams are tables with the event time `ts`."""
    session = Session()
    for name, table in tables.items():
        session.stream(name, table, time="ts")
    return session.sql(sql)


def after(sql: str, tables: Mapping[str, pa.Table], edge_us: int) -> MeasuredStretch:
    """What a join does with the rows from an instant on, by when its windows are full."""
    run = StagedRun(sql, tables)
    run.until(edge_us)
    return run.rest()


@dataclass(frozen=True)
class Repeated:
    """One thing measured several times: the median, the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Repeated:
        """
        >>> Repeated.of([3, 1, 2])
        Repeated(median=2, least=1, most=3)
        """
        return cls(median(samples), min(samples), max(samples))


def repeated(contenders: Mapping[K, Callable[[], float]], repeats: int) -> dict[K, Repeated]:
    """Each measured several times, in turn."""
    return {name: Repeated.of(samples) for name, samples in in_turn(contenders, repeats).items()}


def medians(contenders: Mapping[K, Callable[[], float]], repeats: int) -> dict[K, float]:
    """The median of each, measured in turn."""
    return {name: one.median for name, one in repeated(contenders, repeats).items()}


@dataclass
class SpreadLines:
    """Lines of medians with what lies above and below them, grown point by point: what a Panel takes."""

    lines: dict[str, list[float | None]] = field(default_factory=dict)
    low: dict[str, list[float | None]] = field(default_factory=dict)
    high: dict[str, list[float | None]] = field(default_factory=dict)

    def add(self, points: Mapping[str, Repeated | None]) -> None:
        for name, one in points.items():
            for lines, y in zip(
                (self.lines, self.low, self.high),
                (None, None, None) if one is None else (one.median, one.least, one.most),
                strict=True,
            ):
                lines.setdefault(name, []).append(y)

    def panel(self, title: str, x_label: str, y_label: str, x: Sequence[float | str], **how: Any) -> Panel:
        return Panel(title, x_label, y_label, x, self.lines, low=self.low, high=self.high, **how)


def seconds_for(query: Query, batch_rows: int = 1 << 14) -> float:
    """How long a whole run takes, results gathered and let go."""
    started = perf_counter()
    _drain(query.batches(batch_rows=batch_rows))
    return perf_counter() - started


def _rows(table: pa.Table) -> Rows:
    whole = table.combine_chunks().to_batches()
    data = whole[0] if whole else pa.RecordBatch.from_pylist([], schema=table.schema)
    times = data.column("ts").cast(pa.int64()).to_numpy(zero_copy_only=False)
    return Rows(data, times)


def _drain(batches: Iterator[pa.RecordBatch]) -> None:
    for _ in batches:
        pass


def results_with_slips(sql: str, tables: Mapping[str, pa.Table], slips: Slips) -> pa.Table:
    """What a join would give if it made mistakes that the papers warn of, which no option asks for."""
    plan = query_over(sql, tables).plan
    plain = plan.plain_join
    assert plain is not None
    strategy = optimize(plain.join, plan.method)
    faulty = ClassicJoin(strategy, plain.columns, LoopJoin(strategy, slips))
    found = list(faulty.push_together({name: _rows(table) for name, table in tables.items()}))
    found += faulty.advance(dict.fromkeys(tables, FOREVER_US))
    return pa.Table.from_batches(found, schema=plan.output_schema)
