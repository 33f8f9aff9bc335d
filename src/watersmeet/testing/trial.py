"""A query on trial: a test pushes rows, moves time, and says what it expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from watersmeet.errors import CatalogError
from watersmeet.hosts.local.instants import instant_us
from watersmeet.hosts.local.push_driver import PushDriver
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.hosts.local.run import Run
from watersmeet.io.pushed_rows import PushedRows
from watersmeet.io.sources import TableSource
from watersmeet.model.catalog import Relation, Stream, Table
from watersmeet.model.time import BEGINNING_US, FOREVER_US, interval_us
from watersmeet.plan.query import Plan
from watersmeet.plan.rewrite import with_relations
from watersmeet.plan.walks import relations_below
from watersmeet.runtime.run_settings import Answers
from watersmeet.runtime.script import read_script
from watersmeet.session import Query
from watersmeet.testing.difference import difference, rows_text
from watersmeet.testing.rows import Row, dated, expected_rows, given_rows, on_day

SECOND_US = 1_000_000


class HandClock:
    """A clock on the wall that stands still until it is moved: what a run goes by to tell silence and the future."""

    def __init__(self, today_us: int) -> None:
        self._passed_us, self._began_us = 0, today_us

    def now_us(self) -> int:
        return self._passed_us

    def real_us(self) -> int:
        return self._passed_us

    def today_us(self) -> int:
        return self._began_us + self._passed_us

    def move(self, us: int) -> None:
        self._passed_us += us

    def wait(self, events: SimpleQueue[Any], seconds: float | None) -> None:
        raise AssertionError("nobody waits by a clock that is moved by hand")


class Trial:
    """Runs a query in this process over the rows that a test pushes, whatever its streams read otherwise.

    Nothing happens by itself: event time goes on with rows and `advance`, the clock on the wall with `wait`. Times may
    be written as text, and times of day are on the day of the clock. Rows that came too late and were not expected fail
    the test at the end of the block.

    >>> import watersmeet as wm
    >>> session = wm.Session()
    >>> session.stream("doors", schema={"room": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    >>> session.stream("badges", schema={"room": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    >>> query = session.sql("SELECT d.room FROM doors d, badges b WHERE d.room = b.room DWINDOW (b, d) = 5 SECONDS")
    >>> with Trial(query) as trial:
    ...     trial.push("badges", [{"room": 1, "ts": "9:00:00"}, {"room": 2, "ts": "9:00:01"}])
    ...     trial.push("doors", {"room": 1, "ts": "9:00:04"})
    ...     trial.expect([{"room": 1}])
    ...     trial.push("doors", {"room": 2, "ts": "9:00:09"})
    ...     trial.expect_nothing()
    """

    def __init__(
        self, query: Query, *, today: str | datetime = "2026-01-01 00:00:00", tables: Mapping[str, Any] | None = None
    ) -> None:
        """today: where the clock on the wall stands when the trial begins. tables: the rows of static tables by name,
        as for `push`; those that are not given are read as the query says."""
        self._clock = HandClock(instant_us(today))
        self.warnings: list[Warning] = []
        execution = PushedExecution(
            _to_be_pushed(query.plan, tables or {}), wall=self._clock, tell=self.warnings.append
        )
        self._late: dict[str, list[pa.RecordBatch]] = {name: [] for name in execution.streams}
        answers = Answers(on_late=lambda name, rows: self._late[name].append(rows))
        self._driver = PushDriver(execution, answers, watched=False)
        self._run, self._execution = Run(self._driver), execution

    # ---- what happens -----------------------------------------------------------------------------------------------

    def push(self, stream: str, rows: Any) -> None:
        """Rows of a stream come, in this order; see `Run.push` for the forms they may have."""
        name = self._execution.named(stream)
        schema = self._execution.clock.clocks[name].stream.schema
        times = {field.name for field in schema if pa.types.is_timestamp(field.type)}
        self._run.push(name, dated(rows, times, self._day))

    def advance(self, stream: str, time: Any) -> None:
        """No row of this stream before this time comes any more."""
        self._run.advance(stream, on_day(time, self._day))

    def end(self, stream: str) -> None:
        """No row of this stream comes any more at all."""
        self._run.end(stream)

    def wait(self, interval: str | timedelta) -> None:
        """The clock on the wall goes on by so much, and no row comes: streams with `idle` fall silent."""
        self._clock.move(interval_us(interval))
        self._driver.tick()

    def finish(self) -> None:
        """No row comes any more: everything that waits is answered."""
        self._run.finish()

    # ---- what is seen -----------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The clock on the wall, in UTC."""
        return _datetime(self._clock.today_us())

    @property
    def watermark(self) -> datetime | None:
        """The time before which no row is expected any more; None before all streams have had a row, and at the end."""
        until_us = self._execution.clock.watermark_us
        return _datetime(until_us) if BEGINNING_US < until_us < FOREVER_US else None

    def answers(self) -> list[Row]:
        """The answers since they were last looked at."""
        return list(self._run.take().to_pylist())

    def answer(self) -> list[Row]:
        """What an answer that changes is now."""
        return list(self._run.answer().to_pylist())

    def late(self, stream: str) -> list[Row]:
        """The rows of a stream that came too late since they were last looked at."""
        name = self._execution.named(stream)
        batches, self._late[name] = self._late[name], []
        return [row for batch in batches for row in batch.to_pylist()]

    def metrics(self) -> dict[str, Any]:
        """The numbers of the run so far."""
        return self._run.metrics()

    # ---- what is expected -------------------------------------------------------------------------------------------

    def expect(self, rows: Any, *, in_order: bool = False) -> None:
        """The answers since they were last looked at are these rows, as often as they stand here, and no others.

        rows: a list of dicts, or a Table; columns that they do not name are not compared.
        """
        self._compare("answers", rows, self._run.take(), in_order=in_order)

    def expect_nothing(self) -> None:
        """There are no answers since they were last looked at."""
        self.expect([])

    def expect_answer(self, rows: Any, *, in_order: bool = False) -> None:
        """An answer that changes is now these rows, and no others."""
        self._compare("the present answer", rows, self._run.answer(), in_order=in_order)

    def expect_late(self, stream: str, rows: Any) -> None:
        """The rows of a stream that came too late since they were last looked at are these; or there are so many."""
        name = self._execution.named(stream)
        batches, self._late[name] = self._late[name], []
        late = pa.Table.from_batches(batches, self._execution.clock.clocks[name].stream.schema)
        if isinstance(rows, int):
            if late.num_rows != rows:
                raise AssertionError(f"{rows_text(late.num_rows)} of {name!r} came too late, expected were {rows}")
            return
        self._compare(f"late rows of {name!r}", rows, late)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._run.stop()
        if error is not None:
            return
        for name in self._execution.streams:
            late = self.late(name)
            if late:
                raise AssertionError(
                    f"{rows_text(len(late))} of {name!r} came too late and nothing expected that; "
                    f"the first is {late[0]}\n"
                    f"hint: trial.expect_late({name!r}, …) before the end of the block, or a lateness of the stream"
                )

    @property
    def _day(self) -> date:
        return self.now.date()

    def _compare(self, what: str, rows: Any, found: pa.Table, *, in_order: bool = False) -> None:
        expected = expected_rows(rows, found.schema, self._day)
        given = given_rows(found, list(expected[0]) if expected else found.schema.names)
        differs = difference(what, expected, given, in_order=in_order)
        if differs is not None:
            raise AssertionError(differs)


def _to_be_pushed(plan: Plan, tables: Mapping[str, Any]) -> Plan:
    """The same plan over streams without data, and over static tables that are given or read as they say. It archives
    nothing, as these rows are not the query's own."""
    static = [one.name for one in relations_below(plan.root) if isinstance(one, Table)]
    unknown = [name for name in tables if name not in static]
    if unknown:
        raise CatalogError(
            f"the query reads no static table {unknown[0]!r}",
            hint=f"its tables are {', '.join(static)}" if static else "rows of streams are pushed",
        )

    def change(relation: Relation) -> Relation:
        if isinstance(relation, Stream):
            return replace(relation, source=None)
        if relation.name not in tables:
            return relation
        rows = pa.Table.from_batches(PushedRows(relation).batches(tables[relation.name]), relation.schema)
        return replace(relation, source=TableSource(rows, relation.schema))

    return replace(plan, root=with_relations(plan.root, change), options=plan.options.but(archive=None))


def _datetime(us: int) -> datetime:
    found: datetime = np.datetime64(us, "us").item()
    return found


def queries_of(script: str | Path) -> dict[str, Query]:
    """The queries of a SQL file by name: that of their sink, or without one their place, as 'query 2'.

    script: its path, or its text. Streams and tables that say their columns are not looked for.
    """
    is_path = isinstance(script, Path) or ("\n" not in script.strip() and script.strip().lower().endswith(".sql"))
    text = Path(script).read_text(encoding="utf-8") if is_path else str(script)
    return {job.name: Query(job.plan) for job in read_script(text, open_sources=False)}
