"""Queries of a script from their sources into their sinks, each whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from functools import partial

import pyarrow as pa

from watersmeet.hosts.local.archiving import archiving
from watersmeet.hosts.local.execution import BATCH_ROWS
from watersmeet.hosts.local.printing import ByName, InTurn, Screen
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.io.console import ConsoleSink
from watersmeet.io.sinks import Sink, check_sink, sink_from_options
from watersmeet.model.wording import listed
from watersmeet.plan.answer_keys import answer_keys, change_column
from watersmeet.plan.query import Plan
from watersmeet.plan.shared_memory import in_parts_of_all
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.final import check_final, given_whole
from watersmeet.runtime.interrupt import Interrupts
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.script import Job
from watersmeet.runtime.shared_parts import built_together
from watersmeet.runtime.sharing import answered_together, may_share
from watersmeet.runtime.watched import Board

OnProgress = Callable[[Metrics], None]


def check_sinks(jobs: Iterable[Job], *, final: bool = False) -> None:
    """Before the first of them runs: what is wrong with the sink of a later one is no surprise then."""
    for job in jobs:
        if job.explaining is None:
            check_sink(job.name, job.sink, job.plan.schema if final else job.plan.output_schema)


class Delivery:
    """The answers of a query on their way into its sink. What was written until a stop is kept; of one that fails the
    sink shows nothing."""

    def __init__(
        self,
        job: Job,
        run: PulledExecution,
        on_progress: OnProgress | None = None,
        *,
        final: bool = False,
        board: Board | None = None,
        screen: Screen | None = None,
        instead: Kept | None = None,
    ) -> None:
        """final: the answer at the last event is written instead of its changes. board: for whoever looks at it.
        screen: where rows are printed beside those of other queries. instead: takes the rows in place of the sink."""
        self.job, self.run = job, run
        self._final, self._board, self._screen, self._instead = final, board, screen, instead
        self.failure: Exception | None = None  # why it was given up
        run.writes_beside = True
        told = on_progress if board is None else telling(run, board, on_progress)
        run.on_progress = _both(run.on_progress, told)
        self._schema = job.plan.schema if final else job.plan.output_schema
        self._sink: Sink | None = None
        self._archive = ExitStack()
        # Where the whole answer is given, its rows wait for the last.
        self._held: list[pa.RecordBatch] | None = [] if self._waits_for_the_end else None

    def open(self) -> None:
        if self._final:
            check_final(self.job.plan)
        self._sink = self._opened()
        self._archive.enter_context(archiving(self.run))
        if self._board is not None:
            self._board.begin()

    def take(self, batch: pa.RecordBatch) -> None:
        if self._board is not None:
            self._board.answers(self.run.steps + 1, [batch])
        if self._held is not None:
            self._held.append(batch)
        else:
            self._write(batch)

    def close(self) -> None:
        """All was given."""
        if self._board is not None:
            self._board.batch(self.run.steps, self.run.busy_s, self.run.metrics, is_last=True)
        for batch in self._whole():
            self._write(batch)
        if self._sink is not None:
            self._sink.close()
        self._archive.close()  # which counts only beside an answer that was kept
        self._sink = None
        if self._board is not None:
            self._board.end()

    def fail(self, error: Exception) -> None:
        """Give up what was written."""
        if self.failure is None:
            self.failure = error
            self.abort(error)

    def abort(self, error: BaseException) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.abort()
        self._archive.__exit__(type(error), error, error.__traceback__)
        if self._board is not None:
            self._board.end(error)

    @property
    def is_open(self) -> bool:
        return self._sink is not None

    def _opened(self) -> Sink:
        job, plan = self.job, self.job.plan
        if self._instead is not None:
            return self._instead
        changes = None if self._final else change_column(plan)
        threads = plan.options.threads
        sink = sink_from_options(
            job.name, job.sink, self._schema, keys=answer_keys(plan), changes=changes, threads=threads
        )
        if self._screen is not None and isinstance(sink, ConsoleSink):
            return self._screen.sink(job.name, sink, self._schema)
        return sink

    def _write(self, batch: pa.RecordBatch) -> None:
        assert self._sink is not None
        self._sink.write(batch)

    @property
    def _waits_for_the_end(self) -> bool:
        plan = self.job.plan
        if self._final and plan.kind == "changes":
            return True
        return bool(plan.order) and (self._final or (self.job.is_printed and reads_to_the_end(self.job)))

    def _whole(self) -> Iterator[pa.RecordBatch]:
        """The answer, where its rows had to wait."""
        if self._held is None:
            return
        plan = self.job.plan
        if self._final and plan.kind == "changes":
            answer = self.run.final_answer(pa.Table.from_batches(self._held, schema=plan.output_schema))
            self.run.metrics.final_rows = answer.num_rows
        else:
            answer = given_whole(pa.Table.from_batches(self._held, schema=self._schema), plan)
        yield from answer.to_batches()


class Kept:
    """The rows of a query for whoever called, instead of a sink."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def close(self) -> None:
        """They are all there."""

    def abort(self) -> None:
        self._batches.clear()

    def table(self) -> pa.Table:
        plan = self._job.plan
        return given_whole(pa.Table.from_batches(self._batches, schema=plan.output_schema), plan)


def run_job(
    job: Job,
    run: PulledExecution,
    interrupts: Interrupts,
    on_progress: OnProgress | None = None,
    *,
    final: bool = False,
    board: Board | None = None,
) -> Metrics:
    """Run one query to the end, or to where a stop was asked for."""
    run_together([Delivery(job, run, on_progress, final=final, board=board)], interrupts)
    return run.metrics


def executions(group: Sequence[Job], batch_rows: int = BATCH_ROWS) -> dict[str, PulledExecution]:
    """What answers each query of a group that is fed together: one of them for all that ask the same."""
    found: dict[str, PulledExecution] = {}
    together = answered_together(group)
    # Those that run at another time have none of the memory meanwhile.
    plans = in_parts_of_all({ones[0].name: ones[0].plan for ones in together})
    firsts = {alike[0].name: plans[alike[0].name] for alike in together}
    built, _ = built_together(firsts, shares=all(map(may_share, group)))
    for alike in together:
        first = alike[0].name
        run = PulledExecution(plans[first], batch_rows=batch_rows, built=built[first])
        found.update((job.name, run) for job in alike)
    return found


def execution_of(plan: Plan, batch_rows: int = BATCH_ROWS) -> PulledExecution:
    """What answers a query by itself."""
    built, _ = built_together({"the query": plan}, shares=plan.options.share != "no")
    return PulledExecution(plan, batch_rows=batch_rows, built=built["the query"])


def run_together(
    deliveries: Sequence[Delivery],
    interrupts: Interrupts | None = None,
    ended: Callable[[Delivery], None] = lambda one: None,
) -> None:
    """Run queries that are fed together to their ends, or to where a stop was asked for. One that fails gives up what
    it wrote, and the others go on; the first failure is raised at the end. ended: hears of those that ended well."""
    into: dict[int, list[Delivery]] = {}
    for one in deliveries:
        into.setdefault(id(one.run), []).append(one)
    pull = Pull([ones[0].run for ones in into.values()])
    failed: list[Delivery] = []
    stopping: AbstractContextManager[None] = nullcontext()
    if interrupts is not None:
        stopping = interrupts.stopping(pull.request_stop)

    def deliver(one: Delivery, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:
            fail(one, error)

    def fail(one: Delivery, error: Exception) -> None:
        failed.append(one)
        one.fail(error)
        # With nowhere to give answers to, a query need not go on.
        if all(other.failure is not None for other in into[id(one.run)]):
            pull.fail(one.run, error)

    try:
        for one in deliveries:
            deliver(one, one.open)
        with stopping, closing(pull.answers()) as answers:
            for run, block in answers:
                for one in [other for other in into[id(run)] if other.failure is None]:
                    if run.failure is not None:
                        fail(one, run.failure)
                    elif block is not None:
                        deliver(one, partial(one.take, block))
                    else:
                        deliver(one, partial(_end, one, ended))
    except BaseException as error:
        for one in deliveries:
            if one.is_open:
                one.abort(error)
        raise
    if failed:
        raise _first_failure(failed, deliveries)


def _end(one: Delivery, ended: Callable[[Delivery], None]) -> None:
    one.close()
    ended(one)


def _both(one: OnProgress | None, other: OnProgress | None) -> OnProgress | None:
    """Several may be told how far a query is that is answered once for them."""
    if one is None or other is None:
        return one or other
    first, second = one, other

    def told(metrics: Metrics) -> None:
        first(metrics)
        second(metrics)

    return told


def _first_failure(failed: Sequence[Delivery], all_of_them: Sequence[Delivery]) -> Exception:
    failure = failed[0].failure
    assert failure is not None
    if len(all_of_them) > 1:
        well = [one.job.name for one in all_of_them if one not in failed]
        ended = f"; {listed(well)} ended well" if well else ""
        failure.add_note(f"{listed([one.job.name for one in failed])} failed{ended}")
        for one in failed[1:]:
            if one.failure is not failure:  # what is wrong with a stream is the same for all
                failure.add_note(f"{one.job.name}: {one.failure}")
    return failure


def screen_for(jobs: Sequence[Job]) -> Screen | None:
    """Where queries that are fed together print, if several do."""
    if sum(job.is_printed for job in jobs) < 2:
        return None
    return InTurn() if all(reads_to_the_end(job) for job in jobs) else ByName()


def reads_to_the_end(job: Job) -> bool:
    """Whether the input of a query ends by itself."""
    return all(getattr(one.source, "bounded", False) for one in streams_below(job.plan.root))


def telling(run: PulledExecution, board: Board, on_progress: OnProgress | None) -> OnProgress:
    """Called with the numbers of a run: tells the board, then whoever is told otherwise."""

    def on_metrics(metrics: Metrics) -> None:
        board.batch(run.steps, run.busy_s, metrics)
        if on_progress is not None:
            on_progress(metrics)

    return on_metrics
