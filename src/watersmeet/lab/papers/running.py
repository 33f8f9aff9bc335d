"""How the lab runs queries: on the product's operators, by SQL with OPTIONS, over tables in memory.

`serve` is for joins and gives what each block of arrivals cost. `replay` is for answers that change: rows come one at a
time in event time, so that it is known when each change was told and how long after the fact.

Seconds are of processor time, of this thread, so that other programs on the machine do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from time import thread_time

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.operators.continuous.node import Node, everything_below
from watersmeet.operators.continuous.pipeline import Continuous
from watersmeet.operators.contract import Rows
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.papers.joins.classic_join import ClassicJoin
from watersmeet.papers.joins.contract import Algorithm
from watersmeet.papers.joins.description import JoinDescription, describe
from watersmeet.papers.pipelines.group_by import Contents, Increments
from watersmeet.plan.published import PUBLISHED_PIPELINES
from watersmeet.runtime.build import Built, build, build_query
from watersmeet.session import Query, Session

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
        """Time per arrival, with what making the results takes."""
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
    algorithm: Callable[[JoinDescription], Algorithm] | None = None,
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
    taken = [_so_far(join, 0, 0, 0.0)]
    for block in _blocks(batches, every):
        arrived, _, _, _, spent = taken[-1]
        started = thread_time()
        # Blocks are in time order already, so they go past InTimeOrder to the join, whose work alone is timed.
        for _ in join.push_together(block):
            pass
        spent += thread_time() - started
        newest = max(int(rows.times[-1]) for rows in block.values())
        taken.append(_so_far(join, arrived + sum(map(len, block.values())), newest, spent))
    for _ in join.advance(dict.fromkeys(batches, FOREVER_US)):
        pass
    arrivals, newest_us, compared, touched, seconds = (np.array(column) for column in zip(*taken, strict=True))
    sizes = np.diff(arrivals)
    return Served(
        arrivals[1:],
        newest_us[1:],
        np.diff(compared) / sizes,
        np.diff(touched) / sizes,
        np.diff(seconds) / sizes,
        dict(join.counters.work),
    )


def _so_far(join: ClassicJoin, arrived: int, newest_us: int, spent: float) -> tuple[int, int, int, int, float]:
    work = join.counters.work
    compared = sum(work.get(name, 0) for name in COMPARISONS)
    return arrived, newest_us, compared, work.get("scanned", 0), spent


def join_streams(join: ClassicJoin) -> Iterator[tuple[str, Stream]]:
    for one in join.strategy.join.streams:
        assert isinstance(one.relation, Stream)
        yield one.alias, one.relation


def _rows(stream: Stream) -> Rows:
    """All rows of a stream in memory."""
    data = pa.concat_batches(list(stream.source.batches(1 << 30)))
    return Rows(data, data.column(stream.time).cast(pa.int64()).to_numpy())


def part_of(rows: Rows, start: int, stop: int) -> Rows:
    return Rows(rows.data.slice(start, stop - start), rows.times[start:stop])


def _blocks(batches: Mapping[str, Rows], every: int) -> Iterator[dict[str, Rows]]:
    """All rows in the order of their times, cut into blocks."""
    places = np.concatenate([np.full(len(rows), i, np.int8) for i, rows in enumerate(batches.values())])
    times = np.concatenate([rows.times for rows in batches.values()])
    streams = places[np.argsort(times, kind="stable")]
    # A block ends at a number of arrivals, wherever that falls in each stream.
    edges = np.append(np.arange(0, streams.size, every), streams.size)
    cuts = [np.searchsorted(np.flatnonzero(streams == i), edges) for i in range(len(batches))]
    for block in range(edges.size - 1):
        pieces = {
            alias: part_of(rows, int(cut[block]), int(cut[block + 1]))
            for (alias, rows), cut in zip(batches.items(), cuts, strict=True)
        }
        yield {alias: piece for alias, piece in pieces.items() if len(piece)}


@dataclass(frozen=True)
class Replayed:
    """How an answer that changes was told, row of input by row of input.

    `waits_us` has a place for each change of the log: how long after its instant, in event time, it was told.
    `seconds` has one for each instant at which rows came: how long they took to process; `told` how many changes were
    told then.
    """

    waits_us: Int64s
    seconds: Float64s
    told: Int64s

    @property
    def mean_wait(self) -> float:
        return float(self.waits_us.mean()) / 1e6

    @property
    def longest_wait(self) -> float:
        return float(self.waits_us.max()) / 1e6

    @property
    def processing_us(self) -> float:
        """The mean for an instant, without the slowest tenth: now and then memory is tidied up."""
        ordered = np.sort(self.seconds)
        return float(ordered[: max(1, ordered.size * 9 // 10)].mean()) * 1e6


def replay(session: Session, sql: str) -> Replayed:
    """Run a query as if its rows came in now: whenever one has come, and with it time, changes are told.

    Nothing else makes time go on, as in H04's prototype, where rows come in through scans. What is left in the windows
    when the rows end is not told any more.
    """
    return replay_together(session, {"": sql})[""]


def replay_together(session: Session, queries: Mapping[str, str]) -> dict[str, Replayed]:
    """Replay several queries over the same streams in step, so that a busy machine slows all of them alike."""
    runs = {name: _Replay(session, sql) for name, sql in queries.items()}
    instants = np.unique(np.concatenate([one.times for one in runs.values()]))
    for now in instants.tolist():
        for one in runs.values():
            one.step(now)
    return {name: one.replayed for name, one in runs.items()}


class _Replay:
    """One query being replayed."""

    def __init__(self, session: Session, sql: str) -> None:
        self.built, self.batches = opened(session, sql)
        self.times = np.concatenate([rows.times for rows in self.batches.values()])
        self.waits_us = [np.empty(0, np.int64)]
        self.seconds: list[float] = []
        self._read = dict.fromkeys(self.batches, 0)
        self._told: list[int] = []
        # As printed, a scan knows the time by its own tuples; our hosts know it by those of all streams.
        self._own_clocks = session.sql(sql).plan.options.pipeline in PUBLISHED_PIPELINES

    @property
    def replayed(self) -> Replayed:
        return Replayed(np.concatenate(self.waits_us), np.array(self.seconds), np.array(self._told))

    def _clocks(self, now: int) -> dict[str, int]:
        """Time gives out what lies before an instant, so the changes of this one need the next."""
        if not self._own_clocks:
            return dict.fromkeys(self.batches, now + 1)
        return {
            alias: int(self.batches[alias].times[read - 1]) + 1 if read else BEGINNING_US
            for alias, read in self._read.items()
        }

    def step(self, now: int) -> None:
        """Let the rows of this instant come in."""
        started = thread_time()
        for alias, rows in self.batches.items():
            first = last = self._read[alias]
            while last < len(rows) and rows.times[last] == now:
                last += 1
            self._read[alias] = last
            if last > first:
                for _ in self.built.operator.push(alias, part_of(rows, first, last)):
                    raise AssertionError("an answer that changes is told when time goes on")
        told = list(self.built.operator.advance(self._clocks(now)))
        self.seconds.append(thread_time() - started)
        self._told.append(sum(batch.num_rows for batch in told))
        self.waits_us += [now - batch.column("_ts").cast(pa.int64()).to_numpy() for batch in told]


def warm_up(session: Session, sql: str, rows: int = 200) -> None:
    """Run a query over the first rows, so that what is measured next does not have the loading of kernels in it."""
    plan = session.sql(sql).plan
    tables = {name: _head(session, name, rows) for name in session.catalog.names()}
    Query(plan).over(tables).to_arrow()


def _head(session: Session, name: str, rows: int) -> pa.Table:
    relation = session.catalog.find(name)
    assert relation is not None
    return pa.Table.from_batches(list(relation.source.batches(1 << 30)), schema=relation.schema).slice(0, rows)


def opened(session: Session, sql: str) -> tuple[Built, dict[str, Rows]]:
    """The operators of a query with its tables loaded, and the rows of its streams."""
    built = build_query(session.sql(sql).plan)
    for table, load in built.tables:
        for batch in table.source.batches(1 << 30):
            load(batch)
    return built, {alias: _rows(stream) for alias, stream in built.streams.items()}


@dataclass(frozen=True)
class Weighed:
    """The most that a continuous query held at any time: rows, bytes, and tuples inside of the papers' aggregates."""

    rows: int
    bytes: int
    in_aggregates: int


def weigh(session: Session, sql: str, *, every: int = 64) -> Weighed:
    """Run a continuous query and look at its state every so many rows."""
    built, batches = opened(session, sql)
    assert isinstance(built.operator, Continuous)
    found = []
    for block in _blocks(batches, every):
        for alias, rows in block.items():
            for _ in built.operator.push(alias, rows):
                raise AssertionError("an answer that changes is told when time goes on")
        now = max(int(rows.times[-1]) for rows in block.values())
        for _ in built.operator.advance(dict.fromkeys(batches, now)):  # the next block may have rows of this instant
            pass
        below = (node.child for node in everything_below(built.operator.root) if isinstance(node, GroupByOperator))
        inside = sum(one.held_rows_here for one in below if isinstance(one, Contents | Increments))
        found.append((built.operator.kept_rows, built.operator.state_bytes, inside))
    return Weighed(*(max(column) for column in zip(*found, strict=True)))


def negatives_sent(session: Session, sql: str) -> int:
    """How many rows windows sent once more as they left, under negative tuples."""
    run = PulledExecution(session.sql(sql).plan)
    for _ in run.batches():
        pass
    operator = run.built.operator
    assert isinstance(operator, Continuous)
    nodes = [*everything_below(operator.root), *_published_below(operator.root)]
    return sum(getattr(node, "sent_again", 0) for node in nodes)


def _published_below(root: Node) -> Iterator[object]:
    """The papers' operators that stand below the log of an answer."""
    waiting: list[object] = [one.child for one in everything_below(root) if isinstance(one, Contents | Increments)]
    while waiting:
        one = waiting.pop()
        yield one
        both = getattr(one, "both", None)
        waiting += [getattr(one, "child", None), getattr(both, "left", None), getattr(both, "right", None)]
        waiting = [each for each in waiting if each is not None]


def times_to(session: Session, sql: str, outputs: Sequence[int], *, batch_rows: int) -> tuple[list[float], float]:
    """Seconds until so many changes had been told, for each of a rising list; and rows read in a second."""
    run = PulledExecution(session.sql(sql).plan, batch_rows=batch_rows)
    told = 0
    seconds: list[float] = []
    started = thread_time()
    for batch in run.batches():
        told += batch.num_rows
        while len(seconds) < len(outputs) and told >= outputs[len(seconds)]:
            seconds.append(thread_time() - started)
        # The rest of the rows would only take time.
        if len(seconds) == len(outputs):
            break
    if len(seconds) < len(outputs):
        raise ValueError(f"only {told} changes were told, but {outputs[-1]} are to be timed")
    return seconds, run.metrics.rows_in / seconds[-1]


FLIGHTS = "watersmeet.lab.workloads.flights"


def have_flights() -> bool:
    """Whether there are real flights to run on."""
    return find_spec(FLIGHTS) is not None and bool(import_module(FLIGHTS).have_flights())


def real_flights(rows: int) -> dict[str, pa.Table]:
    """The first so many flights, by airport."""
    found: dict[str, pa.Table] = import_module(FLIGHTS).flights(rows)
    return found
