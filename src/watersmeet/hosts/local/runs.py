"""Queries that run side by side over the same rows, and come and go meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa

from watersmeet.errors import CatalogError, OptionError, RunError
from watersmeet.hosts.local.instants import instant_us
from watersmeet.hosts.local.run import Run
from watersmeet.model.names import nearest
from watersmeet.model.wording import counted, listed
from watersmeet.runtime.run_settings import COMPARE_S, Interval, seconds_of
from watersmeet.runtime.script import CONSOLE, Job, check_path_of_its_own
from watersmeet.sql.parameters import Parameters

if TYPE_CHECKING:
    from watersmeet.hosts.local.pushed_together import PushedTogether

Reads = Callable[[str, Parameters | None], Sequence[Job]]
DoTogether = Callable[["PushedTogether", Sequence[Run]], object]


class Members(Protocol):
    """The queries that run, and how others begin beside them and leave."""

    runs: dict[str, Run]
    building: dict[str, Run]  # those that are to take the place of others: they are given what is pushed

    @property
    def together(self) -> PushedTogether | None:
        """Those that are given each piece of a stream in one turn."""

    def replace(
        self, job: Job, without_pushes: Callable[[], AbstractContextManager[Any]], compare_s: float, *, if_same: bool
    ) -> Run: ...

    def start(self, job: Job) -> Run: ...

    def drop(self, name: str) -> None: ...

    def ended(self) -> None:
        """All were ended, well or not."""


class Runs:
    """The queries of a script that rows are pushed into, by their names. `session.start()` makes them.

    A name is that of the sink that a query goes into; a SELECT alone is called by its place, as 'query 1', or as `add`
    is told. `runs[name]` is the `Run` of a query, by which its answers are taken; rows go in here, for all of them.
    """

    def __init__(self, members: Members, jobs: Sequence[Job], reads: Reads) -> None:
        """jobs: of the members. reads: makes jobs of a text, by what is declared."""
        self._members, self._reads = members, reads
        self._lock = RLock()
        self._runs = dict(members.runs)
        self._jobs = {job.name: job for job in jobs}
        self._failures_told: set[str] = set()

    # ---- queries come and go ----------------------------------------------------------------------------------------

    def add(
        self, query: str, parameters: Parameters | None = None, *, name: str | None = None, partial: bool = False
    ) -> Run:
        """Run one more query from now on: a SELECT, or CREATE SINK … AS SELECT ….

        It begins with the rows that the others have kept of its streams, and answers from the instant on at which no
        row is missing that its windows reach back to: `whole_from` of the run that is given.

        name: what a SELECT is called here. partial: answer from now on, over what there is, before the answer is whole;
        `OPTIONS (partial = 'yes')` says the same.
        """
        with self._lock:
            self._check_open()
            _check_name(name)
            jobs = self._reads(query, parameters)
            if len(jobs) != 1:
                raise RunError(
                    f"expected one query to add, found {len(jobs)}", hint="add them one by one, each with its own call"
                )
            job = jobs[0]
            taken = name if name is not None else self._free_name() if job.sink is CONSOLE else job.name
            options = replace(job.plan.options, partial="yes") if partial else job.plan.options
            return self._start(Job(taken, replace(job.plan, options=options), job.sink))

    def drop(self, name: str) -> Run:
        """Run a query no longer. What only it kept is let go of, its sink is closed with all that was answered, and its
        last answers can still be taken from the run that is given."""
        with self._lock:
            run = self[name]
            del self._runs[name], self._jobs[name]
            self._failures_told.discard(name)
            self._members.drop(name)
            return run

    def replace(
        self,
        name: str,
        query: str,
        parameters: Parameters | None = None,
        *,
        compare: Interval | None = None,
        if_same: bool = False,
    ) -> Run:
        """Have another query take the place of one, and its sink, at one instant; gives its run. Rows may be pushed
        meanwhile, from other threads.

        It is built beside the one that runs: with the rows that others keep, or by reading its streams from their
        beginning. When it is whole, what both give of the same rows is compared, and then it takes the place: each
        batch is answered by one of the two. The log (INFO) says after which, and how they compare.

        query: a SELECT, whose answers go where those of the one before went, or CREATE SINK with the name of that.
        compare: for how long answers are compared, by default 5 seconds; '0 seconds': they are not. if_same: if the two
        gave other answers, nothing changes, and that is an error.
        """
        compare_s = COMPARE_S if compare is None else seconds_of("compare", compare)
        with self._lock:
            self._check_open()
            self[name]
            jobs = self._reads(query, parameters)
            if len(jobs) != 1:
                raise RunError(f"expected one query, found {len(jobs)}", hint="replace them one by one")
            sink = self._jobs[name].sink if jobs[0].sink is CONSOLE else jobs[0].sink
            if jobs[0].sink is not CONSOLE and jobs[0].name != name:
                raise RunError(
                    f"{jobs[0].name!r} cannot take the place of {name!r}",
                    hint=f"call the sink {name}, or give the SELECT alone",
                )
            job = Job(name, jobs[0].plan, sink)
            check_path_of_its_own(job, [one for one in self._jobs.values() if one.name != name])
        try:
            run = self._members.replace(job, lambda: self._lock, compare_s, if_same=if_same)
        except BaseException:
            with self._lock:
                self._members.building.pop(name, None)
            raise
        with self._lock:
            self._members.building.pop(name, None)
            self._runs[name], self._jobs[name] = run, job
        return run

    def _free_name(self) -> str:
        number = len(self._runs) + 1
        while f"query {number}" in self._runs:
            number += 1
        return f"query {number}"

    def _start(self, job: Job) -> Run:
        if job.name in self._runs:
            raise RunError(f"a query {job.name!r} is running", hint=f"drop({job.name!r}), or give another name")
        check_path_of_its_own(job, list(self._jobs.values()))
        self._runs[job.name] = run = self._members.start(job)
        self._jobs[job.name] = job
        return run

    # ---- rows and time go in ----------------------------------------------------------------------------------------

    def push(self, stream: str, rows: Any, *, at: int | None = None, timeout: float | None = None) -> None:
        """Take new rows of a stream, for all queries that look at it; see `Run.push`. A query that fails stops alone,
        and the others have the rows all the same; then its failure is raised, once.

        at: the number of the first of these rows among all of their stream, counted from 0, for whoever pushes after a
        crash: a query is not given again what it has. `taken` tells how many all have.
        """
        with self._lock:
            readers = self._readers(stream)
            if at is not None:
                _check_place(stream, at, min(run.taken(stream) for run in readers))
            execution = readers[0].driver.execution
            given = execution.incoming[execution.named(stream)].batches(rows)
            table = pa.Table.from_batches(given) if given else None

            def new_for(run: Run) -> pa.Table:
                assert table is not None
                return table if at is None else table.slice(max(run.taken(stream) - at, 0))

            def push(run: Run) -> None:
                if (new := new_for(run)).num_rows:
                    run.push(stream, new, timeout=timeout)

            def push_to_all(together: PushedTogether, members: Sequence[Run]) -> None:
                if (new := new_for(members[0])).num_rows:
                    together.push(stream, new, timeout)

            if table is None:
                self._tell_failures()
            else:
                self._each(readers, push, push_to_all)

    def taken(self, stream: str) -> int:
        """How many rows of a stream all queries have that look at it, with a checkpoint in all lives."""
        with self._lock:
            return min(run.taken(stream) for run in self._readers(stream))

    def advance(self, stream: str, time: Any) -> None:
        """No row of this stream before this time will come any more."""
        until_us = instant_us(time)  # what is wrong with it is said before any query goes on
        with self._lock:
            self._each(
                self._readers(stream),
                lambda run: run.advance(stream, time),
                lambda together, _: together.advance(stream, until_us),
            )

    def end(self, stream: str) -> None:
        """No row of this stream will come any more at all."""
        with self._lock:
            self._each(self._readers(stream), lambda run: run.end(stream), lambda together, _: together.end(stream))

    def flush(self) -> None:
        """Answer all that waits for time to go on."""
        with self._lock:
            self._each(self._open(), lambda run: run.flush(), lambda together, _: together.flush())

    def _open(self) -> list[Run]:
        self._check_open()
        return [run for run in self._all() if run.is_open]

    def _readers(self, stream: str) -> list[Run]:
        readers = [run for run in self._open() if stream.lower() in map(str.lower, run.driver.execution.streams)]
        if not readers:
            self._tell_failures()
            known = sorted({name for run in self._open() for name in run.driver.execution.streams})
            near = nearest(stream, known)
            hint = f"did you mean {near!r}?" if near else f"they read {listed(known)}" if known else "add a query"
            raise CatalogError(f"none of the queries that run has a stream {stream!r}", hint=hint)
        return readers

    def _each(self, runs: Sequence[Run], do: Callable[[Run], object], do_together: DoTogether | None = None) -> None:
        """do_together: of those that are given it in one turn."""
        together = self._members.together if do_together is not None else None
        members = [] if together is None else [run for run in runs if run.driver in together]
        steps: list[tuple[Sequence[Run], Callable[[], object]]] = []
        if members and together is not None and do_together is not None:
            steps.append((members, functools.partial(do_together, together, members)))
        steps += [([run], functools.partial(do, run)) for run in runs if run not in members]
        failure: Exception | None = None
        for of, step in steps:
            try:
                step()
            except Exception as error:
                failure = failure or error
                self._failures_told |= {name for name, one in self._runs.items() if one in of and not one.is_open}
        if failure is not None:
            raise failure
        self._tell_failures()

    def _tell_failures(self) -> None:
        """Raise what ended a query since somebody was told: with a checkpoint rows are answered after a push."""
        for name, run in self._runs.items():
            failure = run.driver.failure
            if failure is not None and name not in self._failures_told:
                self._failures_told.add(name)
                raise failure

    # ---- life -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """No row will come any more: everything that waits is answered, and the sinks are closed."""
        self._end(lambda run: run.finish(), lambda together, _: together.finish())

    def stop(self) -> None:
        """End all where they are, without answering what waits for time to go on."""
        self._end(lambda run: run.stop())

    def _end(self, how: Callable[[Run], object], together: DoTogether | None = None) -> None:
        with self._lock:
            try:
                self._each(list(self._runs.values()), how, together)
            finally:
                self._members.ended()

    @property
    def is_open(self) -> bool:
        return any(run.is_open for run in self._all())

    def _all(self) -> list[Run]:
        """Also those that are to take the place of others."""
        return [*self._runs.values(), *self._members.building.values()]

    def _check_open(self) -> None:
        if self._runs and not self.is_open:
            raise RunError("the queries have ended", hint="session.start() begins others")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.finish()
        else:
            self.stop()

    # ---- by name ----------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Run:
        run = self._runs.get(name)
        if run is None:
            raise RunError(f"no query {name!r} is running", hint=f"there is {listed(list(self._runs)) or 'none'}")
        return run

    def __contains__(self, name: object) -> bool:
        return name in self._runs

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._runs))

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return "\n".join(["<Runs>", *(f"  {name}: {run!r}" for name, run in self._runs.items())])


def _check_name(name: object) -> None:
    if name is not None and (not isinstance(name, str) or not name.strip() or "\0" in name):
        raise OptionError(
            f"name must be a text, not {name!r}", hint="write name='soon', or leave it out", option="name"
        )


def _check_place(stream: str, at: object, taken: int) -> None:
    """taken: how many rows of the stream all queries have."""
    if not isinstance(at, int) or isinstance(at, bool) or at < 0:
        raise OptionError(f"at must be the number of a row, counted from 0, not {at!r}", option="at")
    if at > taken:
        missing = counted(at - taken, "row")
        raise RunError(
            f"row {at:,} of {stream!r} is pushed, and {taken:,} were before: {missing} would be missing",
            hint=f"push what comes behind runs.taken({stream!r}) rows; or leave at out",
        )
