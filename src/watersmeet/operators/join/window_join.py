"""The n-way sliding-window join: one window store per stream, no intermediate results.

New rows of a stream walk the other stores and then enter their own, so each combination is found exactly once,
when its last-arriving member is pushed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.windows import Rows as RowsWindow
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Counters, Rows
from watersmeet.operators.join.admission import Admission
from watersmeet.operators.join.combinations import Combinations, payload_columns
from watersmeet.operators.join.measures import Measures
from watersmeet.operators.join.program import Program
from watersmeet.operators.join.reach import cutoff_us
from watersmeet.operators.join.saved_routes import routes_in_words, with_routes_in_words
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.row_windows import Deaths, RowWindow
from watersmeet.operators.time_order import Counting
from watersmeet.physical.estimate import Switch
from watersmeet.physical.statistics import JoinStatistics
from watersmeet.physical.strategy import Code, JoinStrategy
from watersmeet.plan.expressions import Expression

OUTPUT_ROWS = 1 << 16
RECONSIDER_AFTER_ROWS = 4096


class Planner(Protocol):
    """Finds better routes for what was measured, if there are any."""

    STATE: ClassVar[tuple[str, ...]]
    strategy: JoinStrategy  # what the join goes by now

    def consider(self, measured: JoinStatistics, at_us: int) -> tuple[JoinStrategy, Switch] | None: ...


class WindowJoin(Counting):
    """Runs a JoinStrategy and computes the select list over its combinations.

    A join with ROWS windows must be given its rows in time order (see time_order.InTimeOrder).
    """

    # Routes come first: stores are loaded with the indexes that these ask for.
    STATE: ClassVar[tuple[str, ...]] = (
        "routes", "window_stores", "row_windows", "counters", "measures", "considered_at", "planner",
    )  # fmt: skip
    TABLES = ("table_stores",)

    def __init__(
        self,
        strategy: JoinStrategy,
        columns: tuple[tuple[str, Expression], ...],
        *,
        announced: Collection[str] | None = None,
        timeless: Collection[str] = (),
        planner: Planner | None = None,
    ) -> None:
        """announced: the inputs whose rows' deaths `push_together` is given; by default those with ROWS windows
        are counted here. timeless: the inputs whose times are not event times. planner: is shown what was measured,
        now and then, and may have better routes."""
        self.timeless = tuple(timeless)
        join = strategy.join
        self.strategy = strategy
        self.columns = columns
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.inputs = {one.alias: one for one in join.inputs}
        self.windows = join.windows
        counted = [i for i in join.streams if isinstance(i.window, RowsWindow)] if announced is None else []
        self.row_windows = {i.alias: RowWindow(i.window) for i in counted if isinstance(i.window, RowsWindow)}
        self.mortal = set(self.row_windows if announced is None else announced)
        self.code_positions = {a: {c: k for k, c in enumerate(strategy.stored_codes(a))} for a in self.inputs}
        self.probing = {alias: strategy.probing_codes(alias) for alias in self.inputs}
        self.admissions = {
            alias: Admission(strategy.filters.get(alias, ()), (*self.probing[alias], *self.code_positions[alias]))
            for alias in self.inputs
        }
        self.stores = {alias: self._make_store(alias) for alias in self.inputs if self._is_visited(alias)}
        self.programs = self._make_programs()
        self.counters = Counters()
        self.planner = planner
        self.measures = None if planner is None else self._make_measures()
        self.considered_at = 0

    def _make_programs(self) -> dict[str, Program]:
        return {
            route.origin: Program(route, self.windows, self.code_positions, counted=bool(self.mortal))
            for route in self.strategy.routes
        }

    def _make_measures(self) -> Measures:
        kept_us = {alias: self.strategy.join.retention_us(alias) for alias in self.windows.streams}
        horizons = {alias: kept for alias, kept in kept_us.items() if 0 < kept < FOREVER_US}
        return Measures({alias: tuple(codes) for alias, codes in self.code_positions.items()}, horizons)

    def _is_visited(self, alias: str) -> bool:
        """A stream that joins only static tables is never looked up again."""
        return any(step.stream == alias for route in self.strategy.routes for step in route.steps)

    def _make_store(self, alias: str) -> WindowStore:
        position = self.code_positions[alias]
        shown = [*(e for _, e in self.columns), *self.strategy.residuals, *self.strategy.verified]
        return WindowStore(
            len(position),
            *self._index_keys(alias),
            {column.name: column.type for column in payload_columns(alias, shown, self.inputs, position)},
            counted=alias in self.mortal,
        )

    def _index_keys(self, alias: str) -> tuple[list[tuple[int, ...]], list[int]]:
        position = self.code_positions[alias]
        hashed = [tuple(position[code] for code in key) for key in self.strategy.hash_keys(alias)]
        return hashed, [position[code] for code in self.strategy.sorted_keys(alias)]

    @property
    def window_rows(self) -> int:
        return sum(len(store) for alias, store in self.stores.items() if not self.inputs[alias].is_table)

    @property
    def state_bytes(self) -> int:
        return sum(store.nbytes for store in self.stores.values())

    def load_table(self, alias: str, data: pa.RecordBatch) -> None:
        """Read part of a static table in, before the first push."""
        rows = Rows(data, np.full(data.num_rows, BEGINNING_US, np.int64))
        self._store(alias, *self._admit(alias, rows))

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        yield from self._join_and_store(alias, rows)

    def restore(self, log: Mapping[str, Rows], complete_until: int) -> None:
        for alias, rows in log.items():
            self._store(alias, *self._admit(alias, rows))
        self._forget(dict.fromkeys(self.windows.streams, complete_until))
        self.counters = Counters()

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        cutoff = self.cutoff_us(alias, dict.fromkeys(self.windows.streams, complete_until))
        return rows.times >= cutoff

    def push_together(
        self, batch: Mapping[str, Rows], deaths: Mapping[str, Deaths] | None = None, *, quietly: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Rows of several streams that are complete up to one instant, each in time order: what ROWS windows need.

        Every row's death is known before any is joined, as a window at T counts all rows up to T. With `quietly`
        the rows are only stored, as they were joined before.
        """
        if deaths is None:
            deaths = {
                alias: self.row_windows[alias].add(rows) for alias, rows in batch.items() if alias in self.row_windows
            }
        for alias, died in deaths.items():
            if alias in self.stores:
                self.stores[alias].kill(died.pushed_out, died.pushed_out_at)
        for alias, rows in batch.items():
            if quietly:
                self._store(alias, *self._admit(alias, rows, deaths.get(alias)))
            else:
                yield from self._join_and_store(alias, rows, deaths.get(alias))
        for alias in deaths:
            if alias in self.stores:
                self.counters.expired_rows += self.stores[alias].expire_dead()

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Forget rows that no future row of any other stream can reach."""
        self._forget(watermarks)
        self._reconsider()
        yield from ()

    def _reconsider(self) -> None:
        """Between batches: whether the routes still suit the rows."""
        if self.planner is None or self.measures is None:
            return
        seen = self.measures.rows_seen
        if seen - self.considered_at < RECONSIDER_AFTER_ROWS:
            return
        self.considered_at = seen
        kept = {alias: len(store) for alias, store in self.stores.items()}
        better = self.planner.consider(self.measures.statistics(kept), self._newest_us())
        if better is not None:
            strategy, switch = better
            self.reroute(strategy)
            self.counters.switches.append(switch)

    def _newest_us(self) -> int:
        return min(self.stores[alias].newest_us for alias in self.windows.streams if alias in self.stores)

    def reroute(self, strategy: JoinStrategy) -> None:
        """Go by other routes from now on. What is stored stays; indexes that no route uses go, new ones are built."""
        self.strategy = strategy
        for alias, store in self.stores.items():
            store.index_by(*self._index_keys(alias))
        self.programs = self._make_programs()

    @property
    def window_stores(self) -> dict[str, WindowStore]:
        """The stores of streams."""
        return {alias: store for alias, store in self.stores.items() if not self.inputs[alias].is_table}

    @property
    def table_stores(self) -> dict[str, WindowStore]:
        """The stores of static tables."""
        return {alias: store for alias, store in self.stores.items() if self.inputs[alias].is_table}

    @property
    def routes(self) -> dict[str, Any] | None:
        """The routes as they are saved, if they may have changed."""
        return None if self.planner is None else routes_in_words(self.strategy)

    @routes.setter
    def routes(self, words: dict[str, Any] | None) -> None:
        if self.planner is None or words is None or words == self.routes:
            return
        self.reroute(with_routes_in_words(self.strategy, words))
        self.planner.strategy = self.strategy

    def cutoff_us(self, alias: str, watermarks: Mapping[str, int]) -> int:
        return cutoff_us(self.windows, alias, watermarks)

    def _forget(self, watermarks: Mapping[str, int]) -> None:
        for alias in self.windows.streams:
            if alias in self.stores:
                self.counters.expired_rows += self.stores[alias].expire(self.cutoff_us(alias, watermarks))

    def probe(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        """The combinations of some rows with what is stored, without storing them."""
        rows, codes, _ = self._admit(alias, rows)
        if len(rows):
            yield from self._found(alias, rows, codes, None)

    def _join_and_store(self, alias: str, rows: Rows, deaths: Deaths | None = None) -> Iterator[pa.RecordBatch]:
        rows, codes, deaths = self._admit(alias, rows, deaths)
        if len(rows) == 0:
            return
        yield from self._found(alias, rows, codes, deaths)
        started = perf_counter()
        self._store(alias, rows, codes, deaths)
        self.counters.kernel_seconds += perf_counter() - started

    def _found(
        self, alias: str, rows: Rows, codes: Mapping[Code, Codes], deaths: Deaths | None
    ) -> Iterator[pa.RecordBatch]:
        program = self.programs[alias]
        probing = {code: codes[code] for code in self.probing[alias]}
        pieces = program.run(rows.times, deaths.times if deaths else None, probing, self.stores, OUTPUT_ROWS)
        while True:
            started = perf_counter()
            numbers = next(pieces, None)
            self.counters.kernel_seconds += perf_counter() - started
            if numbers is None:
                return
            yield from self._results(program, numbers, rows)

    def _results(self, program: Program, numbers: Codes, rows: Rows) -> Iterator[pa.RecordBatch]:
        found = Combinations(
            program.visits, numbers, rows, self.stores, self.inputs, self.code_positions, self.timeless
        )
        for predicate in (*self.strategy.verified, *self.strategy.residuals):
            found = found.where(predicate)
        if len(found):
            self.counters.results += len(found)
            yield found.select(self.columns, self.schema)

    def _admit(
        self, alias: str, rows: Rows, deaths: Deaths | None = None
    ) -> tuple[Rows, dict[Code, Codes], Deaths | None]:
        """The rows that can match at all, with what belongs to them."""
        rows, codes, kept = self.admissions[alias].admit(rows)
        if self.measures is not None:
            self.measures.saw(alias, rows.times, codes)
        if deaths is not None and kept is not None:
            deaths = replace(deaths, serials=deaths.serials[kept], times=deaths.times[kept])
        return rows, codes, deaths

    def _store(self, alias: str, rows: Rows, codes: Mapping[Code, Codes], deaths: Deaths | None) -> None:
        store = self.stores.get(alias)
        if store is None or len(rows) == 0:
            return
        payload = {name: rows.data.column(name) for name in store.payload}
        own = [codes[code] for code in self.code_positions[alias]]
        if deaths is None:
            store.append(rows.times, own, payload)
        else:
            store.append(rows.times, own, payload, deaths.serials, deaths.times)
        if not self.inputs[alias].is_table:
            self.counters.stored_rows += len(rows)
