"""How the lab runs queries: on the product's operators, by SQL with OPTIONS, over tables in memory.

`serve` is for joins and gives what each block of arrivals cost. `replay` is for answers that change: rows come one at a
time in event time, so that it is known when each change was told and how long after the fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.engine.build import build
from watersmeet.model.catalog import Stream
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.classic.classic_join import ClassicJoin
from watersmeet.operators.classic.contract import Algorithm
from watersmeet.operators.classic.description import Description, describe
from watersmeet.operators.contract import Rows
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.session import Session

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
COMPARISONS = ("attribute_comparisons", "window_comparisons", "invalidation_comparisons")


@dataclass(frozen=True)
class Served:
    """What a join did. The arrays have a place per block of arrivals.

    `arrivals` so far and the time of the newest; comparisons, rows looked at and seconds are per arrival of the block.
    """

    arrivals: Int64s
    times_us: Int64s
    comparisons: Float64s
    touched: Float64s
    seconds: Float64s
    work: Mapping[str, int]

    @property
    def rows(self) -> int:
        return int(self.arrivals[-1])

    @property
    def mean_comparisons(self) -> float:
        """Comparisons of all kinds per arrival, over the whole run."""
        return sum(self.work[name] for name in COMPARISONS) / self.rows

    @property
    def mean_touched(self) -> float:
        """Rows looked at per arrival."""
        return self.work["scanned"] / self.rows

    @property
    def mean_seconds(self) -> float:
        """Time inside the algorithm per arrival."""
        return float(self.seconds @ np.diff(self.arrivals, prepend=0)) / self.rows


def session_of(streams: Mapping[str, pa.Table], tables: Mapping[str, pa.Table] | None = None) -> Session:
    """A session with these streams, whose event time is `ts`, and static tables."""
    session = Session()
    for name, data in streams.items():
        session.stream(name, data, time="ts")
    for name, data in (tables or {}).items():
        session.table(name, data)
    return session


def serve(
    session: Session,
    sql: str,
    *,
    every: int = 1000,
    algorithm: Callable[[Description], Algorithm] | None = None,
) -> Served:
    """Run a join by one of the papers' algorithms, and note what every so many arrivals cost.

    algorithm: makes the algorithm with switches that no option has; all arrivals are then given to it at once.
    """
    plan = session.sql(sql).plan
    operator = build(plan)
    assert isinstance(operator, InTimeOrder)
    join = operator.inner
    assert isinstance(join, ClassicJoin)
    batches = {alias: _rows(stream) for alias, stream in join_streams(join)}
    if algorithm is not None:
        join = ClassicJoin(join.strategy, join.columns, algorithm(describe(join.strategy)))
        every = max(1, sum(map(len, batches.values())))
    taken = [_so_far(join, 0, 0)]
    for block in _blocks(batches, every):
        for _ in join.push_together(block):
            pass
        newest = max(int(rows.times[-1]) for rows in block.values())
        taken.append(_so_far(join, taken[-1][0] + sum(map(len, block.values())), newest))
    for _ in join.advance(dict.fromkeys(batches, FOREVER_US)):
        pass
    arrived, newest_us, compared, touched, spent = (np.array(column) for column in zip(*taken, strict=True))
    sizes = np.diff(arrived)
    return Served(
        arrived[1:],
        newest_us[1:],
        np.diff(compared) / sizes,
        np.diff(touched) / sizes,
        np.diff(spent) / sizes,
        dict(join.counters.work),
    )


def _so_far(join: ClassicJoin, arrived: int, newest_us: int) -> tuple[int, int, int, int, float]:
    work = join.counters.work
    compared = sum(work.get(name, 0) for name in COMPARISONS)
    return arrived, newest_us, compared, work.get("scanned", 0), join.counters.kernel_seconds


def join_streams(join: ClassicJoin) -> Iterator[tuple[str, Stream]]:
    for one in join.strategy.join.streams:
        assert isinstance(one.relation, Stream)
        yield one.alias, one.relation


def _rows(stream: Stream) -> Rows:
    """All rows of a stream in memory."""
    data = pa.concat_batches(list(stream.source.batches(1 << 30)))
    return Rows(data, data.column(stream.time).cast(pa.int64()).to_numpy())


def _part(rows: Rows, start: int, stop: int) -> Rows:
    return Rows(rows.data.slice(start, stop - start), rows.times[start:stop])


def _blocks(batches: Mapping[str, Rows], every: int) -> Iterator[dict[str, Rows]]:
    """All rows in the order of their times, cut into blocks."""
    places = np.concatenate([np.full(len(rows), i, np.int8) for i, rows in enumerate(batches.values())])
    times = np.concatenate([rows.times for rows in batches.values()])
    streams = places[np.argsort(times, kind="stable")]
    edges = np.append(np.arange(0, streams.size, every), streams.size)
    cuts = [np.searchsorted(np.flatnonzero(streams == i), edges) for i in range(len(batches))]
    for block in range(edges.size - 1):
        pieces = {
            alias: _part(rows, int(cut[block]), int(cut[block + 1]))
            for (alias, rows), cut in zip(batches.items(), cuts, strict=True)
        }
        yield {alias: piece for alias, piece in pieces.items() if len(piece)}
