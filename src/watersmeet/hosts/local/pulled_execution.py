"""A query that reads its sources: its execution, what it is told by whoever runs it, and what it tells."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet.hosts.local.archiving import archiving
from watersmeet.hosts.local.execution import BATCH_ROWS, Execution
from watersmeet.hosts.local.pull import Pull
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.answers import Answer
from watersmeet.operators.contract import Rows
from watersmeet.optimizer.asked_rows import AskedRows, asked_of
from watersmeet.optimizer.choose_join import ends_by_itself
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import Built, build_query
from watersmeet.runtime.clock import OnLateRows, StreamClock
from watersmeet.runtime.final import answer_over_nothing, final_answer
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.side_output import SideOutput
from watersmeet.runtime.wall_clock import SystemClock, WallClock
from watersmeet.warning import warn

if TYPE_CHECKING:
    from watersmeet.hosts.local.side_files import SideSinks

LOGGER = logging.getLogger("watersmeet")


class PulledExecution:
    """One execution of a plan over its sources. Results come from `batches`, which may be iterated once; or from the
    `Pull` that feeds it together with others."""

    def __init__(self, plan: Plan, *, batch_rows: int = BATCH_ROWS, built: Built | None = None) -> None:
        """built: run these operators instead of those the plan asks for."""
        self.plan = plan
        self.batch_rows = batch_rows
        self.on_progress: Callable[[Metrics], None] | None = None
        self.on_step: Callable[[], None] | None = None
        self.on_table: Callable[[Table, pa.RecordBatch], None] | None = None
        self.on_late_rows: OnLateRows | None = None
        # Whether bad records and late rows go to the sinks that streams name, or are only counted.
        self.writes_beside = False
        self.beside: SideSinks | None = None  # the sinks for that, if other runs share them
        self.tell: Tell = warn
        self.wall: WallClock = SystemClock()
        self.metrics = Metrics()
        self.steps = 0  # how many times rows were read, and how many seconds that took with what it brought about
        self.busy_s = 0.0
        self.failure: Exception | None = None  # why it gives no more answers
        self.built = built or build_query(plan, to_the_end=ends_by_itself(plan))
        self._asked = {} if self.built.physical is None else asked_of(self.built.physical)
        self._columns = _columns_by_stream(self.built)
        self.operator = self.built.operator
        self.streams: Mapping[str, Stream] = {one.name: one for one in self.built.streams.values()}
        self.notice: Callable[[str], None] = LOGGER.info
        # Without streams until it begins.
        self.execution = self._executing({}, None)
        self.pull = Pull([self])

    def request_stop(self) -> None:
        """End as if the inputs had paused; see `Pull.request_stop`."""
        self.pull.request_stop()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The results as they become certain, of a query by itself."""
        with closing(self.pull.answers()) as answers:
            for _, block in answers:
                if block is not None:
                    yield block
        if self.failure is not None:
            raise self.failure

    def archived_batches(self) -> Iterator[pa.RecordBatch]:
        """The same, archived if the plan asks for it; it counts when the last one was given."""
        with archiving(self):
            yield from self.batches()

    # ---- by whoever feeds it ----------------------------------------------------------------------------------------

    @property
    def clocks(self) -> Mapping[str, StreamClock]:
        return self.execution.clock.clocks

    def columns_of(self, stream: str) -> frozenset[str] | None:
        """The columns of a stream that it looks at; None: all."""
        return self._columns.get(stream)

    def asks_of(self, stream: str) -> Sequence[AskedRows]:
        """Which rows of a stream can bring anything about, if that is known."""
        return self._asked.get(stream, ())

    def begin(self, side: SideOutput) -> None:
        """side: takes that goes beside the answers."""
        self.execution = self._executing(self.streams, side)

    def begun(self) -> None:
        """Static tables are loaded, and the first row comes soon."""
        self.execution.load_again()
        for clock in self.clocks.values():
            clock.on_late_rows = self.on_late_rows
        for said in self.built.notices(self.plan):
            self.notice(said)

    def step(self, stream: str, rows: Rows | None, concerned: Rows | None = None) -> Iterable[Answer]:
        """What the next rows of a stream bring about; None at its end. concerned: those of them that can, if that is
        known."""
        if rows is None:
            return self.execution.end([stream])
        arrived = self.clocks[stream].in_turn(rows)
        if concerned is None or arrived is not rows:
            return self.execution.push(stream, arrived)
        return self.execution.push_some(stream, rows, concerned)

    def end(self) -> None:
        """Nothing more comes."""
        self.execution.tell_what_was_left_out(at_end=True)
        self._show()

    def report(self) -> None:
        """Bring the metrics up to date and show them."""
        self.execution.report()
        self._show()

    def _show(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self.metrics)

    def announce(self, stream: Stream) -> None:
        """Say before the first row what would surprise later."""
        if stream.by_arrival or stream.arrival.says_lateness or stream.source is None or stream.source.bounded:
            return
        self.notice(
            f"stream {stream.name!r} says no lateness, so it is 0: rows that come out of order are left out; "
            "lateness='2 seconds' would wait for them"
        )

    def _executing(self, streams: Mapping[str, Stream], side: SideOutput | None) -> Execution:
        made = Execution(self.plan, self.built, streams, self.wall, lambda what: self.tell(what), self.metrics, side)
        made.on_step, made.on_table = self.on_step, self.on_table
        made.waits_for_more = True
        made.is_at_hand = lambda name: self.pull.is_ready(name)
        made.tells_at_once = any(not one.source.bounded for one in streams.values() if one.source is not None)
        return made

    # ---- how far it is ----------------------------------------------------------------------------------------------

    def final_answer(self, log: pa.Table) -> pa.Table:
        """What the log of this run adds up to at its last event."""
        if self.last_event_us > BEGINNING_US:
            return final_answer(log, self.plan, self.last_event_us)
        return answer_over_nothing(self.plan, self.execution.anew)

    @property
    def last_event_us(self) -> int:
        """The newest event time of all streams so far."""
        return self.execution.last_event_us

    @property
    def common_event_us(self) -> int:
        """The event time that every stream has reached."""
        return min((one.newest_us for one in self.execution.clock.clocks.values()), default=BEGINNING_US)

    @property
    def first_event_us(self) -> int:
        """The oldest event time of all streams so far."""
        return min((one.oldest_us for one in self.execution.clock.clocks.values()), default=BEGINNING_US)


def _columns_by_stream(built: Built) -> dict[str, frozenset[str]]:
    """What is looked at of each stream, whatever it is called in a query, if that is known."""
    found: dict[str, frozenset[str]] = {}
    if built.columns is not None:
        for alias, stream in built.streams.items():
            found[stream.name] = found.get(stream.name, frozenset()) | built.columns[alias]
    return found
