"""A query running in this process: its operators, clocks and static tables, without threads and without waiting.

Whoever feeds it, by reading sources (`pull.py`), by pushes (`push_driver.py`) or from a journal
(`durable/`), says what comes and how far time is, one call after the other. Each call gives the answers that it made
certain, in blocks, as they are asked for, some of them without rows: between two of them a feeder may do something
else, or stop for good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import pyarrow as pa

from watersmeet.io.event_times import TimedBatch
from watersmeet.io.time_ordered import batches_of, reads_in_time_order
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.answers import Answer
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.kept_rows import KeptRows
from watersmeet.operators.late_start import LateStart
from watersmeet.optimizer.choose_partition_key import choose_partition_key
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.plan.query import Plan
from watersmeet.plan.shared_memory import shares_memory
from watersmeet.runtime.beginning import Beginning, present_at
from watersmeet.runtime.build import Built, LoadsTable, build_query
from watersmeet.runtime.clock import QueryClock, StreamClock
from watersmeet.runtime.floods import MANY, Floods
from watersmeet.runtime.left_out import LeftOutWarnings, Tell
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.placing import Placing
from watersmeet.runtime.present import PresentAnswer
from watersmeet.runtime.reloading import Load, Reloads, loaded, reloaded_tables
from watersmeet.runtime.run_metrics import bring_up_to_date
from watersmeet.runtime.side_output import SideOutput
from watersmeet.runtime.wall_clock import WallClock

LOGGER = logging.getLogger("watersmeet")
BATCH_ROWS = 1 << 16
AT_TIMES_S = 1.0  # how often an operator is asked that joins at moments of its own
Blocks = Iterator[Answer]


class Execution:
    def __init__(
        self,
        plan: Plan,
        built: Built,
        streams: Mapping[str, Stream],
        wall: WallClock,
        tell: Tell,
        metrics: Metrics,
        side: SideOutput | None = None,
    ) -> None:
        """side: what takes that goes beside the answers of queries that are fed together."""
        self.plan, self.metrics, self.wall = plan, metrics, wall
        self.operator = built.operator
        self.clock = QueryClock(streams.values(), wall, side)
        self.floods = Floods(self._warn)
        # What `archiving` asks for.
        self.on_step: Callable[[], None] | None = None
        self.on_table: Callable[[Table, pa.RecordBatch], None] | None = None
        # Whether the feeder has rows of a stream that are not answered yet: it is not waited for then.
        self.is_at_hand: Callable[[str], bool] = lambda name: False
        # Whether operators may wait for what the feeder has at hand, and whether rows that are left out are told as
        # they come, or at the end.
        self.waits_for_more, self.tells_at_once = False, True
        self.reloaded = reloaded_tables(plan)
        self._reloads: Reloads | None = None
        self._now: dict[str, Load] = {}  # the rows of tables that may be loaded again, as they are joined now
        self._tables: Sequence[tuple[Table, LoadsTable]] = built.tables
        self._aliases = {name: [a for a, one in built.streams.items() if one.name == name] for name in streams}
        self._all_aliases = list(built.streams)
        self._in_order = [name for name, one in streams.items() if one.source is not None and reads_in_time_order(one)]
        self._ended: list[str] = []
        self._watermark_us = BEGINNING_US
        self._present: PresentAnswer | None = None
        # If it began beside others: from when on rows of a stream are there, up to when some of them had been left out,
        # and from when on its answer is whole.
        self.since_us: dict[str, int] = {}
        self.left_out_us: dict[str, int] = {}
        self.whole_us = BEGINNING_US
        self._late: LateStart | None = None  # until then
        self.built = built
        self._tell = tell
        self._left_out = LeftOutWarnings(streams.values(), self._warn, wall)

    # ---- static tables ----------------------------------------------------------------------------------------------

    def load_tables(self) -> None:
        """Those that may be loaded again are held; those that are held already are not loaded."""
        for table, load in self._tables:
            if table.name in self.reloaded and table.name not in self._now:
                self._now[table.name] = loaded(table)
            for batch in self._now[table.name] if table.name in self._now else batches_of(table, BATCH_ROWS):
                self._load(table, load, batch)

    @property
    def tables_to_load(self) -> list[Table]:
        """Those that it does not hold already, each once."""
        each = {id(table): table for table, _ in self._tables}
        return [table for table in each.values() if table.name not in self._now]

    def load_table(self, table: Table, rows: pa.RecordBatch) -> None:
        """Part of a table that somebody has read, before the first row comes."""
        for own, load in self._tables:
            if own is table:
                self._load(table, load, rows)

    def hold_table(self, table: Table, rows: Load) -> None:
        """The rows of one that may be loaded again, as it is joined at first."""
        self._now[table.name] = rows

    def _load(self, table: Table, load: LoadsTable, rows: pa.RecordBatch) -> None:
        load(rows)
        if self.on_table is not None:
            self.on_table(table, rows)

    def load_again(self) -> None:
        """Load tables that say so again from now on; `take_loads` joins what has come."""
        if self.reloaded:
            self._reloads = Reloads(self.reloaded, self._warn)
            self._reloads.start(self._now)

    def take_loads(self) -> None:
        if self._reloads is not None:
            for name, rows in self._reloads.take().items():
                self.replace_table(name, rows)

    @property
    def tables_now(self) -> Mapping[str, Load]:
        """The rows of tables that may be loaded again, or are kept, as they are joined now."""
        return self._now

    def replace_table(self, name: str, rows: Load) -> None:
        """Join other rows of a table from now on."""
        self._now[name] = rows
        for table, load in self._tables:
            if table.name == name:
                load.forget()
                for batch in rows:
                    load(batch)

    @property
    def placing(self) -> Placing:
        """In how many threads it runs, and which keys are spread over them."""
        return Placing.of(self.operator.parts, self.plan.options)

    def placed_by(self, placing: Placing) -> None:
        """Run so from now on, each thread with the rows of its keys. Nothing is under way."""
        if placing == self.placing:
            return
        before, self.plan = self.operator, replace(self.plan, options=placing.within(self.plan.options))
        if self._late is not None:  # which has no rows inside
            self._late.inner = self.anew()
            return
        key = choose_partition_key(self.plan, plan_query(self.plan))
        assert key is not None
        self.operator = self.anew()
        self.operator.take_over(before.keyed_state(key))

    @property
    def memory_amount(self) -> int | None:
        """How much it keeps of a memory that several share."""
        bounded = self.operator.bounded if shares_memory(self.plan) else None
        return None if bounded is None else bounded.memory.amount

    def have_memory(self, amount: int) -> None:
        """Keep so much from now on, of a memory that several share."""
        memory, bounded = self.plan.options.memory, self.operator.bounded
        assert memory is not None
        assert memory.whole is not None
        assert bounded is not None
        bounded.bound_by(memory.whole.part(amount))

    def anew(self) -> Operator:
        """The operator as it is before the first row."""
        built = build_query(self.plan)
        self._tables = built.tables
        self.load_tables()
        return built.operator

    # ---- a start beside others --------------------------------------------------------------------------------------

    @property
    def aliases(self) -> Mapping[str, Sequence[str]]:
        """The names that rows are pushed under, by the streams they are of."""
        return self._aliases

    @property
    def waits_to_be_whole(self) -> bool:
        """Whether time has not come yet to where its answer is whole."""
        return self._late is not None

    @property
    def is_never_whole(self) -> bool:
        """Whether it waits for that in vain."""
        return self._late is not None and self._late.is_in_vain

    def kept_of(self, stream: str) -> KeptRows | None:
        """The rows of a stream that it keeps as they came."""
        aliases = self._aliases.get(stream, ())
        if len(aliases) != 1 or self._late is not None:
            return None
        kept = self.operator.kept_of(aliases[0], self._watermarks())
        if kept is None or stream not in self.since_us:
            return kept
        return kept.of_late_start(self.since_us[stream], self.left_out_us.get(stream, BEGINNING_US))

    def begin_late(self, beginning: Beginning) -> Iterable[Answer]:
        """Before the first row: go on from where others are, with rows that they have kept."""
        self.since_us, self.left_out_us = dict(beginning.since_us), dict(beginning.left_out_us)
        self.whole_us = FOREVER_US if beginning.counted else beginning.whole_us
        for name, clock in beginning.clocks.items():
            own = self.clock.clocks[name]
            own.take_over(clock)
            own.mark_active(self.wall.now_us())
            if clock.ended:
                self._ended.append(name)
        self.clock.move(self.wall.now_us())
        self._watermark_us = self.clock.watermark_us
        # An answer that changes is what it was just before that.
        now_us = self._watermark_us - (self.plan.kind == "changes")
        starts_us = now_us if self.plan.options.partial == "yes" else None
        kept = {alias: rows for name, rows in beginning.rows.items() for alias in self._aliases[name]}
        first_us = self.whole_us if starts_us is None else starts_us
        begun = [alias for name in beginning.begun_before(first_us) for alias in self._aliases[name]]
        self.wait_to_be_whole().begin(kept, begun, beginning.whole_us, beginning.counted, starts_us)
        return self._settled(self.operator.answers_until(self._watermarks()))

    def wait_to_be_whole(self) -> LateStart:
        at_first = partial(present_at, self.plan)
        changes = self.plan.kind == "changes"
        self._late = LateStart(self.operator, self._all_aliases, changes, at_first, self._has_started)
        self.operator = self._late
        return self._late

    def _has_started(self) -> None:
        assert self._late is not None
        if self._late.starts_us is None:
            self.whole_us = self._late.whole_us
        self.operator, self._late = self._late.inner, None

    # ---- rows and time ----------------------------------------------------------------------------------------------

    def push(self, name: str, rows: Rows, partition: str = "") -> Iterable[Answer]:
        """Rows of a stream whose times were read. If a list comes back, all is done, as it is for a few rows."""
        return self._answer(name, self._let_in(name, rows, partition))

    def push_some(self, name: str, rows: Rows, concerned: Rows) -> Iterable[Answer]:
        """The same, where no others of the rows can bring anything about than that time goes on."""
        in_time = self._let_in(name, rows)
        return self._answer(name, concerned if in_time is rows else in_time)

    def _let_in(self, name: str, rows: Rows, partition: str = "") -> Rows:
        clock = self.clock.clocks[name]
        in_time = self.clock.let_in(name, rows, partition)
        if self.tells_at_once and (clock.late.count or clock.future_rows or clock.skipped_rows or clock.left_out):
            self._warn_of(clock)
        return in_time

    def _answer(self, name: str, in_time: Rows) -> Iterable[Answer]:
        found: list[Answer] = []
        if in_time.times.size:
            aliases = self._aliases[name]
            for place, alias in enumerate(aliases, 1):
                answers = self.operator.answers_to(alias, in_time)
                if type(answers) is not list:
                    return chain(found, self._at_length(answers, in_time, aliases[place:]))
                if answers:
                    found += self._blocks(answers)
        return self._go_on(found)

    def _at_length(self, answers: Iterable[Answer], rows: Rows, aliases: Sequence[str]) -> Blocks:
        """As `push` goes on where answers are made as they are asked for: aliases of the stream may be left."""
        yield from self._blocks(answers)
        for alias in aliases:
            yield from self._blocks(self.operator.answers_to(alias, rows))
        yield from self._go_on([])

    def push_together(self, rows: Mapping[str, Rows]) -> Blocks:
        """Rows of several streams that are read in time order, up to a common instant."""
        in_time = {name: self.clock.let_in(name, one) for name, one in rows.items()}
        self._watermark_us = self.clock.watermark_us
        batch = {alias: one for name, one in in_time.items() if one.times.size for alias in self._aliases[name]}
        yield from self._blocks(self.operator.take(batch, self._watermarks()))
        self._step()

    @property
    def is_in_order(self) -> bool:
        """Whether no row of any stream comes after a newer one."""
        return len(self._in_order) == len(self._aliases)

    def leave_out_of(self, name: str, batch: TimedBatch) -> None:
        """What is no part of a batch: its rows that are skipped, and its records that could not be read."""
        self.clock.clocks[name].skip(batch.skipped)
        if batch.bad is not None:
            self.leave_out(name, batch.bad)

    def leave_out(self, name: str, bad: pa.RecordBatch) -> None:
        """Records that could not be read are counted, told, and kept beside the answer if the stream says so."""
        clock = self.clock.clocks[name]
        clock.leave_out(bad)
        if self.tells_at_once:
            self._warn_of(clock)

    def end(self, names: Sequence[str]) -> Blocks:
        """No row of these streams will come any more."""
        reached_us = max(self.last_event_us, self.clock.watermark_us)
        for name in names:
            self.clock.end(name)
            self._ended.append(name)
        until_us = FOREVER_US if self.clock.running else reached_us
        self._watermark_us = self.clock.watermark_us
        yield from self._blocks(self.operator.answers_until(self._watermarks()), until_us)
        self._step()

    def tick(self) -> Blocks:
        """Look at the clock on the wall: whether time goes on without rows."""
        if self.clock.tick():
            yield from self._go_on([])

    def settle(self) -> Blocks:
        """Nothing more is at hand for now."""
        yield from self._blocks(self.operator.settle())

    def due_in_s(self) -> float | None:
        """When `tick` will have something to do if no row comes; None if never."""
        if not self.clock.watches_the_wall:
            return None
        waits = [self.clock.silent_in_s]
        if self.clock.goes_on_by_itself:
            if self.operator.wake_us is not None:
                waits.append(self.clock.reached_in_s(self.operator.wake_us))
            elif self.operator.lag_us:
                waits.append(AT_TIMES_S)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _go_on(self, found: list[Answer]) -> Iterable[Answer]:
        """What was found, and what comes as the operators are told how far time is, if it went on. If a list comes
        back, all is done."""
        if self._in_order or self.clock.watermark_us != self._watermark_us:
            self._watermark_us = self.clock.watermark_us
            answers = self.operator.answers_until(self._watermarks())
            if type(answers) is not list:
                return chain(found, self._blocks(answers), self._settled(None))
            if answers:
                found += self._blocks(answers)
        if not self.waits_for_more and type(answers := self.operator.settle()) is not list:
            return chain(found, self._settled(answers))
        if self.on_step is not None:
            self.on_step()
        return found

    def _settled(self, answers: Iterable[Answer] | None) -> Blocks:
        if answers is None:
            answers = [] if self.waits_for_more else self.operator.settle()
        yield from self._blocks(answers)
        self._step()

    def _watermarks(self) -> dict[str, int]:
        """Before which time nothing comes of each stream any more: the query's watermark, as rows below it are left
        out, whichever stream they are of. Of one that is read in time order nothing comes before its newest row, and
        of one that ended nothing at all."""
        marks = dict.fromkeys(self._all_aliases, self.clock.watermark_us)
        for name in self._in_order:
            newest_us = max(self.clock.clocks[name].newest_us, self.clock.watermark_us)
            marks.update(dict.fromkeys(self._aliases[name], newest_us))
        for name in self._ended:
            marks.update(dict.fromkeys(self._aliases[name], FOREVER_US))
        return marks

    def _blocks(self, answers: Iterable[Answer], until_us: int = FOREVER_US) -> Iterable[Answer]:
        """until_us: what a changing answer does after this only tells that nothing more came."""
        if type(answers) is list:  # a few, which are there
            if self._present is not None:
                for one in answers:
                    self._present.add(one, until_us)
            return answers
        return self._looked_at(answers, until_us)

    def _looked_at(self, answers: Iterable[Answer], until_us: int) -> Blocks:
        for one in answers:
            if self.operator.to_come >= MANY:
                self.floods.look(self.operator, self.clock)
            if self._present is not None and one.num_rows:
                self._present.add(one, until_us)
            yield one

    def _step(self) -> None:
        if self.on_step is not None:
            self.on_step()

    # ---- how far it is ----------------------------------------------------------------------------------------------

    @property
    def last_event_us(self) -> int:
        """The newest event time of all streams so far."""
        return max((clock.last_us for clock in self.clock.clocks.values()), default=BEGINNING_US)

    def report(self) -> Metrics:
        bring_up_to_date(self.metrics, self.clock, self.operator, self.is_at_hand)
        if BEGINNING_US < self.whole_us < FOREVER_US:
            self.metrics.whole_from_us = self.whole_us
        return self.metrics

    def tell_what_was_left_out(self, *, at_end: bool) -> None:
        self._left_out.look(self.report(), at_end=at_end)

    def _warn_of(self, clock: StreamClock) -> None:
        name = clock.stream.name
        # All metrics are brought up to date only if something is to be said, which is ever more rarely.
        if any(self._left_out.is_due(code, name, rows) for code, rows in clock.left_out_rows.items()):
            self._left_out.look(self.report(), at_end=False)

    def close(self) -> None:
        if self._reloads is not None:
            self._reloads.close()

    def _warn(self, what: Warning) -> None:
        LOGGER.info("%s", what)
        self._tell(what)
