"""The operator around one of the papers' algorithms: it gives the algorithm its rows in one order, and turns the
serials that it finds into result columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import thread_time

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import Counters, End, Rows
from watersmeet.operators.join.admission import Admission
from watersmeet.operators.join.combinations import Combinations, payload_columns
from watersmeet.operators.join.reach import cutoff_us
from watersmeet.operators.join.unmoved import Unmoved
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.row_windows import Deaths, RowWindow
from watersmeet.papers.joins.as_they_come import Unordered
from watersmeet.papers.joins.contract import Algorithm, ArrivedRows, Int64s, Lazy, TakesAnyOrder
from watersmeet.papers.joins.probe import Probe
from watersmeet.papers.joins.shelf import Shelf, shelf_codes
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.expressions import Expression
from watersmeet.plan.published import load


class ClassicJoin(Unordered):
    """Runs a join by a given algorithm. Rows must come in time order and complete (see time_order.InTimeOrder), unless
    `expect` was called, for an algorithm that takes them in any order (see as_they_come.AsTheyCome).

    With `probe_every`, how long arrivals take and what is held is sampled every so many of them. `generation` counts
    the calls of the algorithm, whose buffers move as it goes on.
    """

    generation = 0
    STATE = ("shelf", "row_windows", "algorithm", "counters", "_now_us", "_finished")

    def __init__(
        self,
        strategy: JoinStrategy,
        columns: tuple[tuple[str, Expression], ...],
        algorithm: Algorithm | None = None,
        probe_every: int | None = None,
    ) -> None:
        join = strategy.join
        self.strategy = strategy
        self.columns = columns
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.inputs = {one.alias: one for one in join.inputs}
        self.place = {alias: i for i, alias in enumerate(self.inputs)}
        self.windows = join.windows
        self.row_windows = {i.alias: RowWindow(i.window) for i in join.streams if isinstance(i.window, RowsWindow)}
        self.code_positions = {a: {c: k for k, c in enumerate(shelf_codes(strategy, a))} for a in self.inputs}
        self.admissions = {
            alias: Admission(strategy.filters.get(alias, ()), tuple(self.code_positions[alias]))
            for alias in self.inputs
        }
        self.shelf = Shelf({alias: self._make_store(alias) for alias in self.inputs})
        self.algorithm = algorithm or load(strategy.method.kind.made_by)(strategy)
        self.probe = None if probe_every is None else Probe(probe_every, list(self.inputs))
        self.counters = Counters()
        # one that lets rows wait, which must be told of time
        self._lazy = self.algorithm if isinstance(self.algorithm, Lazy) and self.algorithm.lag_us else None
        # one that was told in which order rows come: in none
        self._unordered: TakesAnyOrder | None = None
        self._now_us = BEGINNING_US
        self._finished = False

    def _make_store(self, alias: str) -> WindowStore:
        shown = [*(e for _, e in self.columns), *self.strategy.residuals, *self.strategy.verified]
        position = self.code_positions[alias]
        payload = {c.name: c.type for c in payload_columns(alias, shown, self.inputs, position)}
        return WindowStore(len(position), payload=payload, counted=alias in self.row_windows)

    @property
    def kept_rows(self) -> int:
        return sum(len(store) for alias, store in self.shelf.stores.items() if not self.inputs[alias].is_table)

    @property
    def state_bytes(self) -> int:
        buffers = int(getattr(self.algorithm, "nbytes", 0))
        return buffers + sum(store.nbytes for store in self.shelf.stores.values())

    @property
    def held_by_input(self) -> dict[str, tuple[int, int]]:
        return {
            alias: (len(store), store.nbytes)
            for alias, store in self.shelf.stores.items()
            if not self.inputs[alias].is_table
        }

    @property
    def lag_us(self) -> int:
        """How long rows may wait to be joined."""
        return 0 if self._lazy is None else self._lazy.lag_us

    def load_table(self, alias: str, data: pa.RecordBatch) -> None:
        """Read part of a static table in, before the first push."""
        rows = Rows(data, np.full(data.num_rows, BEGINNING_US, np.int64))
        self.algorithm.take_back(self._put({alias: rows}, {}), self.shelf.table())

    def expect(self, from_us: int) -> None:
        assert isinstance(self.algorithm, TakesAnyOrder)
        self._unordered = self.algorithm
        self._unordered.expect(from_us)

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        raise AssertionError("rows of all streams are pushed together, in time order")

    def push_together(self, batch: Mapping[str, Rows], *, quietly: bool = False) -> Iterator[pa.RecordBatch]:
        """Rows of all streams that are complete up to one instant. With `quietly` they were joined before."""
        # Every row of the stream counts here, also those that the filters below will not let in, so this comes first.
        deaths = {
            alias: self.row_windows[alias].add(rows) for alias, rows in batch.items() if alias in self.row_windows
        }
        for alias, died in deaths.items():
            self.shelf.stores[alias].kill(died.pushed_out, died.pushed_out_at)
        arrivals = self._put(batch, deaths)
        if not len(arrivals):
            return
        self.generation += 1
        # Taken after rows were put, as that may move the stores; valid until `_forget` moves their tails.
        table = self.shelf.table()
        if quietly:
            self.algorithm.take_back(arrivals, table)
        else:
            yield from self._arrive(arrivals, table)
        self._now_us = max(self._now_us, int(arrivals.times.max()))
        self._forget(table)

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Join what was waiting for this moment; at the end of the inputs, everything that still waits."""
        until_us = min(watermarks.values())
        self.generation += 1
        if self._lazy is not None:
            yield from self._results(self._lazy.advance(until_us, self.shelf.table()))
        if until_us >= FOREVER_US and not self._finished:
            self._finished = True
            yield from self._results(self.algorithm.finish(self.shelf.table()))
        elif self._unordered is not None:
            yield from self._results(self._unordered.pass_by(until_us, self.shelf.table()))
        if self._lazy is not None or self._unordered is not None or self._finished:
            self._forget(self.shelf.table())

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        if log:
            for _ in self.push_together(log, quietly=True):
                raise AssertionError("a restore gives no results")
        if self._lazy is not None:
            self._lazy.resume(complete_until, self.shelf.table())
        self.counters = Counters(work=self.counters.work)  # what it took to come back is where counting goes on

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        until = dict.fromkeys(self.windows.streams, complete_until - self.lag_us)
        return rows.times >= cutoff_us(self.windows, alias, until)

    def _put(self, batch: Mapping[str, Rows], deaths: Mapping[str, Deaths]) -> ArrivedRows:
        """Admit rows and put them on the shelf; all that came in, in the order of their times."""
        places: list[Int64s] = []
        serials: list[Int64s] = []
        times: list[Int64s] = []
        for alias in self.inputs:
            if alias in batch:
                rows, numbers = self._put_one(alias, batch[alias], deaths.get(alias))
                places.append(np.full(len(rows), self.place[alias], np.int64))
                serials.append(numbers)
                times.append(rows.times)
        if not times:
            nothing = np.empty(0, np.int64)
            return ArrivedRows(nothing, nothing, nothing)
        together = np.concatenate(times)
        if self.strategy.method.turns == "round_robin":
            # One row of each stream in turn, in the order of FROM; a stream that has none left is passed over.
            order = np.argsort(np.concatenate([np.arange(one.size) for one in times]), kind="stable")
            return ArrivedRows(np.concatenate(places)[order], np.concatenate(serials)[order], together[order])
        # Of equal times the place in FROM decides, then arrival; without one order tied pairs come twice (AMB-06).
        order = np.argsort(together, kind="stable")
        return ArrivedRows(np.concatenate(places)[order], np.concatenate(serials)[order], together[order])

    def _put_one(self, alias: str, rows: Rows, deaths: Deaths | None) -> tuple[Rows, Int64s]:
        rows, codes, kept = self.admissions[alias].admit(rows)
        if deaths is not None and kept is not None:
            # A ROWS window numbers all rows of its stream, the shelf only those that were let in.
            deaths = replace(deaths, serials=deaths.serials[kept], times=deaths.times[kept])
        payload = {name: rows.data.column(name) for name in self.shelf.stores[alias].payload}
        own = [codes[code] for code in self.code_positions[alias]]
        if not self.inputs[alias].is_table:
            self.counters.stored_rows += len(rows)
        return rows, self.shelf.append(self.place[alias], rows, own, payload, deaths)

    def _arrive(self, arrivals: ArrivedRows, table: Int64s) -> Iterator[pa.RecordBatch]:
        if self.probe is None:
            yield from self._results(self.algorithm.arrive(arrivals, table))
        else:
            for piece in self.probe.pieces(arrivals):
                before = self.counters.kernel_seconds
                yield from self._results(self.algorithm.arrive(piece, table))
                self.probe.sample(self.algorithm, piece, self.counters.kernel_seconds - before, table)

    def _results(self, pieces: Iterator[Int64s]) -> Iterator[pa.RecordBatch]:
        unmoved = Unmoved([self, *self.shelf.stores.values()])
        while True:
            # Of this thread, so that what else the machine does is not counted as work of an algorithm.
            started = thread_time()
            serials = next(pieces, None)
            self.counters.kernel_seconds += thread_time() - started
            if serials is None:
                return
            yield from self._gathered(self.shelf.positions(serials))
            unmoved.check()

    def _gathered(self, positions: Int64s) -> Iterator[pa.RecordBatch]:
        aliases = list(self.inputs)
        found = Combinations(aliases, positions, None, self.shelf.stores, self.inputs, self.code_positions)
        for predicate in (*self.strategy.verified, *self.strategy.residuals):
            found = found.where(predicate)
        if len(found):
            self.counters.results += len(found)
            yield found.select(self.columns, self.schema)

    def _forget(self, table: Int64s) -> None:
        """Let go of what the algorithm will not ask for, and bring the counts up to date."""
        # First, while the addresses in `table` still hold.
        self.counters.work = self.algorithm.work(self._now_us, table).as_dict()
        for alias, place in self.place.items():
            if not self.inputs[alias].is_table:
                self.counters.expired_rows += self.shelf.forget(place, self.algorithm.oldest_needed(place))
