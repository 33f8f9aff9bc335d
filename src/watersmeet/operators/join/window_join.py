"""The n-way sliding-window join: one window store per stream, no intermediate results.

New rows of a stream walk the other stores and then enter their own, so each combination is found exactly once,
when its last-arriving member is pushed. What is stored, who is let in and what is accounted for is a matter of
`keeping`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.answers import Answer, FewAnswers, as_batch
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Counters, End, Rows
from watersmeet.operators.counted_elsewhere import NONE, CountedElsewhere
from watersmeet.operators.few_rows import FEW, picked_from, words_as
from watersmeet.operators.join.combinations import Combinations, own_code
from watersmeet.operators.join.door import Admitted
from watersmeet.operators.join.few_step import FewStep, Way, plain_columns, takes_few
from watersmeet.operators.join.keeping import Keeping
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.measures import Measures
from watersmeet.operators.join.piece_size import PieceSize
from watersmeet.operators.join.program import Program
from watersmeet.operators.join.reach import cutoff_us, reach_of
from watersmeet.operators.join.saved_routes import routes_in_words, with_routes_in_words
from watersmeet.operators.join.staged_program import StagedProgram
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.kept_rows import KeptRows, tests_of
from watersmeet.operators.keyed_state import KeyedState, NumberedAnew
from watersmeet.operators.memory_bound import MemoryBound
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.operators.row_windows import Deaths, counts_together
from watersmeet.operators.time_order import Counting
from watersmeet.physical.estimate import Switch
from watersmeet.physical.strategy import Code, JoinStatistics, JoinStrategy, Route
from watersmeet.plan.expressions import Expression

# How many combinations are found before their columns are gathered.
FEW_FOUND = 1 << 12
# A look at the routes is a search over all orders, so some rows come between two.
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
        "routes", "window_stores", "row_windows", "keeping", "measures", "considered_at", "planner", "left_out_us",
    )  # fmt: skip
    GROWS = True
    TABLES = ("table_stores",)

    def __init__(
        self,
        strategy: JoinStrategy,
        columns: tuple[tuple[str, Expression], ...],
        *,
        keeping: Callable[[Layout], Keeping] = Keeping,
        announced: Collection[str] | None = None,
        timeless: Collection[str] = (),
        planner: Planner | None = None,
        measured: bool = False,
        elsewhere: CountedElsewhere = NONE,
    ) -> None:
        """keeping: makes what decides on the rows that are kept, for how they lie; by default all are kept. announced:
        the inputs whose rows' deaths `push_together` is given; by default those with ROWS windows are counted here.
        timeless: the inputs whose times are not event times. planner: is shown what was measured, now and then, and may
        have better routes. measured: whether to measure without a planner too. elsewhere: which rows
        another join has as well, which counts them."""
        self.strategy = strategy
        self.columns = columns
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self._nothing = pa.RecordBatch.from_pylist([], schema=self.schema)
        self.timeless = tuple(timeless)
        self.windows = strategy.join.windows
        self.layout = Layout(strategy, columns, announced, elsewhere)
        self.inputs = self.layout.inputs
        self.keeping = keeping(self.layout)
        self._keeps_all = self.keeping.keeps_all
        self.stores, self.door, self.row_windows = self.keeping.stores, self.keeping.door, self.keeping.row_windows
        self._elsewhere = elsewhere
        codes = {alias: elsewhere.key_of(alias) for alias in self.stores}
        self._copied = {alias: code for alias, code in codes.items() if code is not None}
        self._copies = dict.fromkeys(self._copied, 0)
        self._go_by_routes()
        kept_us = {alias: strategy.join.retention_us(alias) for alias in self.windows.streams}
        self._piece_size = PieceSize(self.stores, kept_us)
        reaches = {alias: reach_of(self.windows, alias) for alias in self.windows.streams if alias in self.stores}
        self._reaches = {alias: others for alias, others in reaches.items() if others is not None}
        self.planner = planner
        self.measures = self._make_measures() if measured or planner is not None else None
        self.considered_at = 0
        self._knows_who_was_left_out = False
        self._kept: deque[dict[str, int]] = deque(maxlen=len(self.stores))

    def _go_by_routes(self) -> None:
        counted = bool(self.layout.mortal)
        self.programs = {route.origin: self._program(route, counted=counted) for route in self.strategy.routes}
        self._few = self._make_few_steps() if self._keeps_all or self.keeping.shares else {}

    def _program(self, route: Route, *, counted: bool) -> Program:
        positions, residuals = self.layout.code_positions, self.strategy.residuals
        if any(step.then for step in route.steps):
            return StagedProgram(route, self.windows, positions, residuals, self._passing, counted=counted)
        return Program(route, self.windows, positions, residuals, counted=counted)

    def _make_few_steps(self) -> dict[str, FewStep]:
        tested = self.strategy.verified or self.strategy.residuals
        columns = None if tested else plain_columns(self.layout)
        steps: dict[str, FewStep] = {}
        for alias, program in self.programs.items():
            codes = self.door.admissions[alias].codes
            # Those take all steps at once.
            if isinstance(program, StagedProgram):
                continue
            if takes_few(program, self.layout, self.stores, codes):
                is_own = all(map(self.keeping.is_own, program.visits[1:]))
                select = partial(self._selected if is_own else self._selected_own, program)
                steps[alias] = FewStep(
                    program,
                    self.layout,
                    self.stores,
                    codes,
                    columns if is_own else None,
                    self.timeless,
                    self.schema,
                    select,
                    settles=self._keeps_all,
                )
        return steps

    def _make_measures(self) -> Measures:
        kept_us = {alias: self.strategy.join.retention_us(alias) for alias in self.windows.streams}
        horizons = {alias: kept for alias, kept in kept_us.items() if 0 < kept < FOREVER_US}
        codes = {alias: tuple(codes) for alias, codes in self.layout.code_positions.items()}
        return Measures(codes, horizons, self.strategy.residuals)

    @property
    def counters(self) -> Counters:  # type: ignore[override]
        return self.keeping.counters

    @property
    def kept_rows(self) -> int:
        return self.keeping.kept_rows

    @property
    def state_bytes(self) -> int:
        return self.keeping.state_bytes

    @property
    def held_by_input(self) -> dict[str, tuple[int, int]]:
        return self.keeping.held_by_input

    @property
    def copies_held(self) -> Mapping[str, int]:
        return self._copies

    def held_keys(self, name: str, key: Code) -> Codes:
        store = self.stores[name]
        keys: Codes = store.codes[self.layout.code_positions[name][key], store.tail : store.head]
        return keys

    @property
    def piece_rows(self) -> int | None:
        return None if self._keeps_all else self.keeping.piece_rows

    @property
    def read_rows(self) -> int | None:
        return self._piece_size.rows() if self.piece_rows is None else self.piece_rows

    @property
    def together_rows(self) -> int | None:
        # A walk that scans finds rows before it is their turn.
        by_key = all(step.access != "scan" for route in self.strategy.routes for step in route.steps)
        return self.keeping.rows_in_hand if by_key else None

    # ---- rows come --------------------------------------------------------------------------------------------------

    def load_table(self, alias: str, data: pa.RecordBatch) -> None:
        """Read part of a static table in, before the first push."""
        # Before all events: no window asks for the times of tables, and a row of one is never the newest member.
        self.store(alias, Rows(data, np.full(data.num_rows, BEGINNING_US, np.int64)))

    def forget_table(self, alias: str) -> None:
        """What streams have met of it stays met."""
        store = self.stores[alias]
        store.forget(len(store))

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        for piece in self.keeping.pieces(alias, rows):
            yield from self.join_and_keep(alias, piece)

    def answers_to(self, alias: str, rows: Rows) -> Iterable[Answer]:
        step = self._few.get(alias) if rows.times.size <= FEW else None
        if step is not None and not self._keeps_all:
            return self._take_few_of_all(step, alias, rows)
        if step is not None:
            answer = self._take_few(step, alias, rows)
            if answer is not Way.USUAL:
                return [] if answer is None else [answer]
        return self._push_usual(alias, rows)

    def _push_usual(self, alias: str, rows: Rows) -> Iterator[Answer]:
        for piece in self.keeping.pieces(alias, rows):
            yield from self._answers(alias, piece, None)

    def _take_few(self, step: FewStep, alias: str, rows: Rows) -> Answer | Way | None:
        admission, counters = self.door.admissions[alias], self.keeping.counters
        if admission.filters:
            rows, _ = admission.filtered(rows)
        count = rows.times.size
        if not count:  # all were left out, here or before
            return None
        started = perf_counter()
        answer = step.take(rows)
        if answer is Way.USUAL:
            return answer
        counters.kernel_seconds += perf_counter() - started
        if self.measures is not None:
            self.measures.saw_few(alias, rows, admission.codes_of)
        if alias in self.stores and alias not in self.layout.uncounted:
            counters.stored_rows += count
        if alias in self._copied:
            self._copies_entered(alias, admission.codes_of(rows))
        if type(answer) is FewAnswers:  # others were counted where they were made
            counters.results += answer.num_rows
        return answer

    def _take_few_of_all(self, step: FewStep, alias: str, rows: Rows) -> Iterable[Answer]:
        """Where rows lie with those of other joins: whoever comes first has put them there."""
        admitted = self.door.let_in(alias, rows)
        if self.measures is not None:
            self.measures.saw(alias, admitted.rows.times, admitted.codes)
        answer: Answer | Way | None = None
        if len(admitted):
            started = perf_counter()
            answer = step.take(rows) if len(admitted) == len(rows) else Way.USUAL
            self.counters.kernel_seconds += perf_counter() - started
        if answer is Way.USUAL:
            return self._joined(alias, admitted)
        self.keeping.joined(alias, admitted)
        if type(answer) is FewAnswers:
            self.counters.results += answer.num_rows
        return [] if answer is None else [answer]

    def take(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """In steps, if that is how rows are kept: those of a step meet before they compete for memory."""
        if self.together_rows is not None:
            yield from self._take_in_hand(batch, watermarks)
            return
        steps = self.keeping.steps(batch)
        if steps is None:
            yield from super().take(batch, watermarks)
            return
        for part, until_us in steps:
            yield from self.push_together(part)
            if until_us is not None:
                yield from self.advance({alias: min(until_us, mark) for alias, mark in watermarks.items()})
        yield from self.advance(watermarks)

    def _take_in_hand(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Who is kept is decided of all rows before the first of them is joined."""
        for part, until_us in self.keeping.hands(batch):
            marks = {alias: min(until_us, mark) for alias, mark in watermarks.items()}
            admitted = {alias: self.door.let_in(alias, rows) for alias, rows in part.items()}
            if self.measures is not None:
                for alias, one in admitted.items():
                    self.measures.saw(alias, one.rows.times, one.codes)
            with self.keeping.in_hand(admitted, marks):
                for alias, one in admitted.items():
                    yield from map(as_batch, self._found(alias, one))
                    self.keeping.joined(alias, one)
            yield from self.advance(marks)
        yield from self.advance(watermarks)

    def moments(self, batch: Mapping[str, Rows]) -> Sequence[int]:
        return self.keeping.moments(batch)

    def push_together(
        self, batch: Mapping[str, Rows], deaths: Mapping[str, Deaths] | None = None, *, quietly: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Rows of several streams that are complete up to one instant, each in time order: what ROWS windows need.

        Every row's death is known before any is joined, as a window at T counts all rows up to T. With `quietly`
        the rows are only stored, as they were joined before.
        """
        for part in self.keeping.rounds(batch, quietly=quietly):
            yield from self._take_round(part, self._count_rows(part) if deaths is None else deaths, quietly=quietly)

    def _count_rows(self, batch: Mapping[str, Rows]) -> dict[str, Deaths]:
        windows = self.row_windows
        deaths = {alias: windows[alias].add(rows) for alias, rows in batch.items() if alias in windows}
        self.keeping.died(deaths)
        return deaths

    def _take_round(
        self, batch: Mapping[str, Rows], deaths: Mapping[str, Deaths], *, quietly: bool
    ) -> Iterator[pa.RecordBatch]:
        # Deaths first: a row that comes now does not meet one that was pushed out before its time.
        for alias, died in deaths.items():
            if alias in self.stores:
                self.stores[alias].kill(died.pushed_out, died.pushed_out_at)
        for alias, rows in batch.items():
            if quietly:
                self.store(alias, rows, deaths.get(alias))
            else:
                yield from self.join_and_keep(alias, rows, deaths.get(alias))
        # Rows that died in this round are forgotten only now, as earlier rows of it have met them.
        for alias in deaths:
            if alias in self.stores:
                self.counters.expired_rows += self.stores[alias].expire_dead()

    def join_and_keep(self, alias: str, rows: Rows, deaths: Deaths | None = None) -> Iterator[pa.RecordBatch]:
        """Join rows with what is stored, then keep them."""
        return map(as_batch, self._answers(alias, rows, deaths))

    def _answers(self, alias: str, rows: Rows, deaths: Deaths | None) -> Iterator[Answer]:
        admitted = self.door.let_in(alias, rows, deaths)
        if self.measures is not None:
            self.measures.saw(alias, admitted.rows.times, admitted.codes)
        yield from self._joined(alias, admitted)

    def _joined(self, alias: str, admitted: Admitted) -> Iterator[Answer]:
        yield from self._found(alias, admitted if admitted.entering is None else admitted.joined)
        started = perf_counter()
        self.keeping.joined(alias, admitted)
        self.counters.kernel_seconds += perf_counter() - started
        if alias in self._copied:
            self._copies_entered(alias, admitted.codes)

    def _copies_entered(self, alias: str, codes: Mapping[Code, Codes]) -> None:
        entered = self._elsewhere.among(alias, codes[self._copied[alias]])
        self._copies[alias] += entered
        self.counters.stored_rows -= entered

    def _copies_left(self, alias: str, gone: int) -> None:
        store = self.stores[alias]
        at = self.layout.code_positions[alias][self._copied[alias]]
        left = self._elsewhere.among(alias, store.codes[at, store.tail - gone : store.tail])
        self._copies[alias] -= left
        self.counters.expired_rows -= left

    def store(self, alias: str, rows: Rows, deaths: Deaths | None = None) -> None:
        """Keep rows that need not be joined with what is stored."""
        admitted = self.door.admit(alias, rows, deaths)
        if self.measures is not None:
            self.measures.saw(alias, admitted.rows.times, admitted.codes)
        self.keeping.store(alias, admitted)
        if alias in self._copied:
            self._copies_entered(alias, admitted.codes)

    def probe(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        """The combinations of some rows with what is stored, without storing them. They are not new, so they are not
        measured: a rate would count them twice."""
        return map(as_batch, self._found(alias, self.door.admit(alias, rows)))

    def _found(self, alias: str, admitted: Admitted) -> Iterator[Answer]:
        if len(admitted) == 0:
            return
        program, counters = self.programs[alias], self.counters
        pieces = self.keeping.walk(program, admitted)
        while True:
            # The kernels' time alone: between two pieces it is the reader's.
            started = perf_counter()
            found = next(pieces, None)
            counters.kernel_seconds += perf_counter() - started
            if found is None:
                return
            numbers, rows = found
            for part in (numbers,) if rows is None else self.keeping.whole(program.visits, numbers, rows):
                answer = self._selected(program, part, rows)
                if answer is not None:
                    yield answer
                # Many are looked through in vain, here or on their way: whoever takes them may stop here.
                elif part.shape[1] >= FEW_FOUND or not part.shape[1]:
                    yield self._nothing

    def _selected_own(self, program: Program, numbers: Codes, rows: Rows) -> pa.RecordBatch | None:
        """The same of what was found among rows of others as well."""
        (own,) = self.keeping.whole(program.visits, numbers, rows)
        return self._selected(program, own, rows) if own.shape[1] else None

    def _selected(self, program: Program, numbers: Codes, rows: Rows | None) -> pa.RecordBatch | None:
        found = self._combinations(program.visits, numbers, rows)
        for predicate in self.strategy.verified:
            found = found.where(predicate)
        for predicate in program.untested:
            found = self._tested(found, predicate)
        if not len(found):
            return None
        # Not the rows of the batch: without columns it has none.
        self.counters.results += len(found)
        return found.select(self.columns, self.schema)

    def _combinations(self, visits: Sequence[str], numbers: Codes, rows: Rows | None) -> Combinations:
        positions = self.layout.code_positions
        return Combinations(visits, numbers, rows, self.stores, self.inputs, positions, self.timeless)

    def _passing(
        self, visits: Sequence[str], numbers: Codes, rows: Rows, predicates: Sequence[Expression]
    ) -> tuple[Codes, list[Expression]]:
        """Of combinations of the first inputs of a route those that pass, and what could not be tested on all of them:
        it may fail for one that is no answer, so whole ones are asked."""
        found, failed = self._combinations(visits, numbers, rows), []
        for predicate in predicates:
            try:
                found = self._tested(found, predicate)
            except DataError:
                failed.append(predicate)
        return np.stack([found.numbers_of[alias] for alias in visits]), failed

    def _tested(self, found: Combinations, predicate: Expression) -> Combinations:
        count = len(found)
        if not count:
            return found
        started = perf_counter()
        passed = found.where(predicate)
        self.counters.tested_combinations += count
        if self.measures is not None:
            self.measures.tested(predicate, count, len(passed), perf_counter() - started)
        return passed

    # ---- time goes on -----------------------------------------------------------------------------------------------

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Forget rows that no future row of any other stream can reach."""
        yield from self.answers_until(watermarks)

    def answers_until(self, watermarks: Mapping[str, int]) -> list[Answer]:
        self._forget(watermarks)
        if not self._keeps_all:
            self.keeping.advanced(min(watermarks.values(), default=BEGINNING_US))
        measures = self.measures
        if measures is not None and measures.rows_seen - self.considered_at >= RECONSIDER_AFTER_ROWS:
            self.reconsider()
        return []

    def cutoff_us(self, alias: str, watermarks: Mapping[str, int]) -> int:
        return cutoff_us(self.windows, alias, watermarks)

    def _forget(self, watermarks: Mapping[str, int]) -> None:
        for alias, others in self._reaches.items():
            cutoff = FOREVER_US
            for stream, limit_us in others:
                at_us = watermarks[stream] - limit_us
                if at_us < cutoff:
                    cutoff = at_us
            kept = self.stores[alias]
            gone = kept.expire(cutoff) if self._keeps_all else self.keeping.expire(alias, cutoff)
            if gone and alias not in self.layout.uncounted:
                self.keeping.counters.expired_rows += gone
            if gone and alias in self._copied:
                self._copies_left(alias, gone)

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        for alias, rows in log.items():
            self.store(alias, rows)
        self._forget(dict.fromkeys(self.windows.streams, complete_until))
        self.keeping.restored(complete_until)

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        cutoff = self.cutoff_us(alias, dict.fromkeys(self.windows.streams, complete_until))
        return rows.times >= cutoff

    def kept_of(self, alias: str, watermarks: Mapping[str, int]) -> KeptRows | None:
        store = self.stores.get(alias)
        one = self.inputs[alias]
        if store is None or one.is_table or self.layout.mortal or one.time is None or one.made:
            return None
        admission = self.door.admissions[alias]
        since_us = max(self.cutoff_us(alias, watermarks), BEGINNING_US)
        rows = self.keeping.since(alias, since_us)
        if rows is None:
            return None
        codes = {own_code(code.expression): at for code, at in self.layout.code_positions[alias].items()}
        # In a window of several joins some are none of the stream.
        columns = {name: column.gather(rows) for name, column in store.payload.items() if name in one.schema.names}
        columns |= {
            name: words_as(picked_from(store.codes[at], rows), one.schema.field(name).type)
            for name, at in codes.items()
            if name is not None
        }
        times = picked_from(store.times, rows)
        columns[one.time] = words_as(times, one.schema.field(one.time).type)
        tested = tests_of(admission.filters, [code.expression for code in admission.codes])
        return KeptRows(pa.RecordBatch.from_pydict(columns), times, since_us, tested, admission.left_out_us)

    # ---- how its state divides --------------------------------------------------------------------------------------

    def undivided(self, key: PartitionKey) -> str | None:
        if (why := self.keeping.undivided(at_rest=key.at_rest)) is not None:
            return why
        counted = (
            counts_together(alias, one.window, key) for alias, one in self.row_windows.items() if not key.at_rest
        )
        return next((why for why in (*map(partial(self._keeps_no, key), self.window_stores), *counted) if why), None)

    def _keeps_no(self, key: PartitionKey, alias: str) -> str | None:
        known = alias in {key.fragment, *key.copied} or key.codes.get(alias) in self.layout.code_positions[alias]
        return None if known else f"the rows of {alias} that a join keeps do not tell the key"

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return key.shown_in(self.columns, self.windows.streams)

    def divided(self, key: PartitionKey) -> KeyedState:
        """The rows of its windows. What it measured is left behind, and routes are those that the plan begins with."""
        self.keeping.be_at_rest()
        state = KeyedState(counters={"counters": self.counters})
        for alias, store in self.window_stores.items():
            held = state.copies if alias in key.copied else state.rows
            at = self.layout.code_positions[alias][key.codes[alias]] if alias in key.codes else None
            held[f"window_stores.{alias}"] = store.keyed(at)
        for alias, window in self.row_windows.items():
            if counts_together(alias, window.window, key) is None:
                state.rows[f"row_windows.{alias}"] = window.keyed(partial(key.codes_of, alias))
                continue
            # Every part counts the same rows, by numbers of its own.
            state.copies[f"row_windows.{alias}"] = window.together()
            stored = {**state.rows, **state.copies}.get(f"window_stores.{alias}")
            if stored is not None:
                stored.numbers["serials"] = window.renumbered(stored.numbers["serials"])
        return state

    def take_rows_over(self, state: KeyedState) -> None:
        held = {**state.rows, **state.copies}
        found = ((alias, held.get(f"window_stores.{alias}")) for alias in self.window_stores)
        stored = {alias: rows for alias, rows in found if rows is not None}
        for alias, window in self.row_windows.items():
            counted = held[f"row_windows.{alias}"]
            if f"row_windows.{alias}" in state.copies and alias in stored:
                stored[alias] = replace(stored[alias], origins=np.zeros(len(stored[alias]), np.int64))
            anew = NumberedAnew(counted, *(stored[one] for one in stored if one == alias))
            window.take_over(counted, anew)
            if alias in stored:
                stored[alias] = anew.of(stored[alias])
        for alias, rows in stored.items():
            self.stores[alias].take_over(rows)
        self.keeping.taken_over()
        if "counters" in state.counters:
            self.keeping.count_on(state.counters["counters"])
        self.loaded()

    # ---- and routes change ------------------------------------------------------------------------------------------

    def reconsider(self) -> None:
        """Between batches: whether the routes still suit the rows."""
        if self.planner is None or self.measures is None:
            return
        seen = self.measures.rows_seen
        if seen - self.considered_at < RECONSIDER_AFTER_ROWS:
            return
        self.considered_at = seen
        better = self.planner.consider(self.measures.statistics(self._kept_lately()), self._newest_us())
        if better is not None:
            strategy, switch = better
            self.reroute(strategy)
            self.counters.switches.append(switch)

    def _kept_lately(self) -> dict[str, int]:
        """The most rows held of each input at the latest looks, one for each input: inputs that are read in turns run
        ahead of each other, so that one of them seems nearly empty just before it is read."""
        self._kept.append({alias: self.keeping.rows_of(alias) for alias in self.stores})
        return {alias: max(kept[alias] for kept in self._kept) for alias in self.stores}

    def _newest_us(self) -> int:
        return min(self.stores[alias].newest_us for alias in self.windows.streams if alias in self.stores)

    def reroute(self, strategy: JoinStrategy) -> None:
        """Go by other routes from now on. What is stored stays; indexes that no route uses go, new ones are built."""
        self.strategy = strategy
        for alias in self.stores:
            self.keeping.index_by(alias, strategy)
        self._go_by_routes()

    def keep_by(self, keeping: Keeping) -> None:
        """Leave rows to another keeping, which has what the one before had."""
        self.keeping, self._keeps_all = keeping, keeping.keeps_all
        self.door = keeping.door
        self._go_by_routes()

    def keep_in(self, alias: str, store: WindowStore, positions: Mapping[Code, int]) -> None:
        """Have the rows of an input in another store from now on, which has its codes at these positions."""
        self.stores[alias] = store
        self.layout.code_positions[alias] = dict(positions)
        self._go_by_routes()

    # ---- what a restart would miss ----------------------------------------------------------------------------------

    @property
    def is_kept_whole(self) -> bool:
        """Which rows are gone early cannot be told from those that are left."""
        return self.bounded is not None

    @property
    def bounded(self) -> MemoryBound | None:
        return self.keeping.bounded

    @property
    def window_stores(self) -> dict[str, WindowStore]:
        """The stores of streams that are its own."""
        others = self.keeping.elsewhere
        own = {alias: store for alias, store in self.stores.items() if alias not in others}
        return {alias: store for alias, store in own.items() if not self.inputs[alias].is_table}

    @property
    def table_stores(self) -> dict[str, WindowStore]:
        """The stores of static tables."""
        return {alias: store for alias, store in self.stores.items() if self.inputs[alias].is_table}

    @property
    def left_out_us(self) -> dict[str, int]:
        """After which instant no row of a stream was left out at the door."""
        return {alias: self.door.admissions[alias].left_out_us for alias in self.windows.streams}

    @left_out_us.setter
    def left_out_us(self, known: Mapping[str, int]) -> None:
        for alias, us in known.items():
            self.door.admissions[alias].left_out_us = us
        self._knows_who_was_left_out = True

    def loaded(self) -> None:
        """What a state does not tell may be anything."""
        if not self._knows_who_was_left_out:
            self.left_out_us = dict.fromkeys(self.windows.streams, FOREVER_US)
        self._copies = {
            alias: self._elsewhere.among(alias, self.held_keys(alias, code)) for alias, code in self._copied.items()
        }

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
