"""A checked query: how it will run, its runs, and its answer in the forms that people use."""

from __future__ import annotations

import datetime as dt
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from watersmeet.errors import OptionError, UnsupportedError, WatersmeetError
from watersmeet.model.catalog import NamedQuery, Relation, kind_of
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import relations_below
from watersmeet.runtime.result import KnownRows, Result, check_batch_rows
from watersmeet.runtime.run_settings import (
    Answers,
    Interval,
    OnAnswer,
    OnLate,
    RunSettings,
    Sink,
    batch_numbers,
    checkpoint_place,
)

if TYPE_CHECKING:
    from watersmeet.advise import Advice
    from watersmeet.explain.explaining import ShownPlan
    from watersmeet.hosts.local.async_run import AsyncRun
    from watersmeet.hosts.local.run import Run
    from watersmeet.runtime.clock import OnLateRows
    from watersmeet.runtime.host import Host
    from watersmeet.timeline import Timeline
    from watersmeet.why import Why

SAMPLE_OF_TIMELINE = 10_000  # rows of each input on Spark


class Query(Result):
    """A checked query. Each run reads its inputs anew, so inputs that flow once can be run once.

    Iterating over it runs it and gives its rows as dicts.
    """

    def __init__(self, plan: Plan | None, host: Host | None = None, *, has_values: bool = False) -> None:
        """plan: None where a text only declares. has_values: whether it has values where its text has only places."""
        super().__init__(host or host_for(None, None))
        self._plan, self._has_values = plan, has_values
        self._live: weakref.ref[Run] | None = None

    @property
    def plan(self) -> Plan:
        """What it means."""
        if self._plan is None:
            raise UnsupportedError(
                "CREATE only declares, and runs nothing",
                hint="give a SELECT to session.sql(), after it or in another call",
            )
        return self._plan

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return self.plan.output_schema

    @property
    def in_arrival_order(self) -> bool:
        """Whether its inputs may be read in their order of arrival, in which some rows may come too late."""
        return self.host.in_arrival_order

    def explain(self, *, format: str = "text", analyze: bool = False, sample: int = 100_000) -> ShownPlan:
        """How the query will run: windows, what is kept, join orders and indexes, what that should cost and what else
        was considered.

        format: 'text', 'json' for programs, 'svg' for a picture, or 'html' for a page with both. In a notebook the plan
        is shown as its picture in any case.
        analyze: run the query in this process until it has read about `sample` rows, and put what was measured beside
        what was expected.
        """
        from watersmeet.explain.explaining import explained
        from watersmeet.plan.explaining import Explaining

        return explained(self.plan, Explaining(format, analyze, sample), self.host)

    def advise(
        self,
        *,
        sample: int = 50_000,
        policies: Sequence[str] | None = None,
        seconds: float = 20.0,
        buckets: int | None = None,
    ) -> Advice:
        """How much memory this join needs for how much of its answer, and which keys to spread over its `buckets` or
        threads (by default those it asks for, or one for each core): a value that prints as tables.

        The query runs in this process over about `sample` rows, in several sizes of memory, by each of the `policies`
        (by default all but `arm`), and takes about `seconds`.
        """
        from watersmeet.advise import advise

        return advise(self.host.sampled(self.plan, sample), sample, policies, seconds=seconds, places=buckets)

    def why(self, rows: Mapping[str, int | Mapping[str, Any]]) -> Why:
        """Why rows did not meet, in words: which condition fails with which values, which window and by how much, that
        one came too late, or that bounded memory let go of it; or that they met, and when.

        rows: for every input of a join one row, by its number, counted from 1, or by columns and their values; of more
        than two inputs two are enough. The inputs are read to their end.

        >>> import datetime as dt
        >>> import pyarrow as pa
        >>> import watersmeet as wm
        >>> noon = dt.datetime(2026, 1, 1, 12)
        >>> session = wm.Session()
        >>> session.stream("a", pa.table({"id": [1], "k": [7], "ts": [noon]}), time="ts")
        >>> session.stream("b", pa.table({"id": [1], "k": [8], "ts": [noon + dt.timedelta(seconds=12)]}), time="ts")
        >>> query = session.sql("SELECT a.id FROM a, b WHERE a.k = b.k WINDOW = 10 SECONDS")
        >>> print(query.why({"a": 1, "b": {"id": 1}}))
        a, row 1: id 1, k 7, ts 2026-01-01 12:00:00
        b, row 1: id 1, k 8, ts 2026-01-01 12:00:12
        they do not meet:
          a.k = b.k does not hold: 7 on the left, 8 on the right
          WINDOW = 10 s: b is 12 s later than a, 2 s too much
        """
        from watersmeet.why import why

        return why(self.plan, rows)

    def timeline(
        self, *, rows: int = 40, since: dt.datetime | str | None = None, until: dt.datetime | str | None = None
    ) -> Timeline:
        """A run as a picture: rows as points in event time, how long their windows hold them, and which of them met
        when. In a notebook it is shown; `save("run.svg")` writes it, and printed it says the same in words.

        The query runs in this process over its inputs to their end; on Spark over a sample of them. Drawn are so many
        `rows`, the first `since` a time, or up to `until` another, and if none of these met another those of the first
        matches; what is left out is said below the picture.

        >>> import datetime as dt
        >>> import pyarrow as pa
        >>> import watersmeet as wm
        >>> noon, second = dt.datetime(2026, 1, 1, 12), dt.timedelta(seconds=1)
        >>> session = wm.Session()
        >>> session.stream("a", pa.table({"k": [7], "ts": [noon]}), time="ts")
        >>> session.stream("b", pa.table({"k": [7, 7], "ts": [noon + 4 * second, noon + 12 * second]}), time="ts")
        >>> session.sql("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 10 SECONDS").timeline()
        a can be met for 10 s
          row 1 at 2026-01-01 12:00:00: k 7, ts 2026-01-01 12:00:00
        b can be met for 10 s
          row 1 at 2026-01-01 12:00:04: k 7, ts 2026-01-01 12:00:04
          row 2 at 2026-01-01 12:00:12: k 7, ts 2026-01-01 12:00:12
        at 2026-01-01 12:00:04 a 1, b 1 met
        """
        from watersmeet.timeline import Part, timeline

        plan = self.host.sampled(self.plan, SAMPLE_OF_TIMELINE)
        return timeline(plan, Part.of(rows, since, until), None if plan is self.plan else SAMPLE_OF_TIMELINE)

    def batches(self, *, batch_rows: int = 1 << 16, on_late_rows: OnLateRows | None = None) -> Iterator[pa.RecordBatch]:
        """Run the query and give results as they become certain; in-process this works on endless inputs too.

        on_late_rows: in-process, called with the name of a stream and the numbers of rows that came too late, counted
        in the order they came, from 0.
        """
        from watersmeet.runtime.metrics import Metrics

        check_batch_rows(batch_rows)
        self._metrics = Metrics()
        return self.host.batches(self.plan, batch_rows, self._metrics, on_late_rows)

    def to_arrow(self, *, batch_rows: int = 1 << 16) -> pa.Table:
        """Run the query to the end of its inputs and give the whole answer, in the order of its ORDER BY; where it
        changes, its changes in the order of their instants."""
        from watersmeet.runtime.final import given_whole

        answer = super().to_arrow(batch_rows=batch_rows)
        return answer if self._plan is None else given_whole(answer, self._plan)

    def _first(self, rows: int) -> pa.Table:
        # Which rows are the first of an order is known at the end.
        is_sorted = self._plan is not None and self._plan.order and self._plan.kind == "rows"
        return self.to_arrow().slice(0, rows) if is_sorted else super()._first(rows)

    def __repr__(self) -> str:
        from watersmeet.io.showing import columns_text

        return f"<Query: {columns_text(self.schema)}; from {', '.join(self._reads())}; show() runs it>"

    def _repr_html_(self) -> str:
        """For notebooks: what it gives and reads, and how it would run. It is not run by being looked at."""
        from html import escape

        from watersmeet.io.showing import html_table
        from watersmeet.model.types import sql_type

        columns = html_table(["column", "type"], [[field.name, sql_type(field.type)] for field in self.schema])
        return (
            f"<p><b>Query</b> over {escape(', '.join(self._reads()))}; "
            "<code>show()</code>, <code>to_pandas()</code> or <code>to_arrow()</code> run it</p>"
            f"<pre>{escape(self.plan.sql.strip())}</pre>{columns}{self._drawn()}"
        )

    def _drawn(self) -> str:
        """The plan as a picture inside a page, or why there is none."""
        from html import escape

        from watersmeet.pictures.page import scrolled

        try:
            return scrolled(self.explain(format="svg"))
        except WatersmeetError as error:
            return f"<p>{escape(str(error))}</p>"

    def _reads(self) -> list[str]:
        return list(dict.fromkeys(one.name for one in relations_below(self.plan.root)))

    def start(
        self,
        *,
        on_answer: OnAnswer | None = None,
        on_late: OnLate | None = None,
        max_waiting: int = 1_000_000,
        timeout: float | None = 60.0,
        checkpoint: str | PathLike[str] | None = None,
        sink: Sink | None = None,
        save_every: Interval | None = None,
        commit_every: Interval | None = None,
        gather: Interval | None = None,
        batch_rows: int | None = None,
        available_now: bool = False,
        flush: bool = False,
        skip_batches: Collection[int] | None = None,
        savepoint: str | PathLike[str] | None = None,
        afresh: bool = False,
    ) -> Run:
        """Run the query, in this process, over rows that are pushed: `with query.start() as run: run.push("b", rows)`.

        Its streams are declared without data: `session.stream("b", schema=…, time="ts")`.
        on_answer: is called with every batch of the answer, in the thread whose push made it certain; without it
        answers wait until they are taken from the run.
        on_late: is called with the name of a stream and a batch of its rows that came too late.
        max_waiting: so many rows of the answer may wait to be taken; then a push waits until some are.
        timeout: for how many seconds, at most, before it is an error; None to wait as long as it takes.

        checkpoint: a folder. The run keeps its progress there, and the same `start` goes on where it was, exactly, also
        after `kill -9`. It answers in a thread of its own; streams with files are read as they come, others pushed.
        The rest is for such runs.
        sink: where answers go, each once: a path such as 'out.parquet', which is a folder of files; the words of CREATE
        SINK … WITH (…) as a dict; or a function that is given the name of the run and makes a sink of your own.
        save_every, commit_every: how often the state is saved ('10 seconds') and answers go into the sink ('1 second',
        into a topic of Kafka as soon as those before are there).
        gather, batch_rows: how long a batch waits for more rows (not at all), and how many it may have (65,536).
        available_now, flush: end when all that is there was read; and answer then what waits for time to go on.
        skip_batches: the numbers of batches that are not repeated, as the query fails with their rows or their answers
        do not end.
        savepoint: what `run.savepoint()` or `watersmeet savepoint` wrote: a new run, with a checkpoint of its own, goes
        on from there. A sink that is ahead of it is refused, unless `afresh`: then it begins as that of any new run.
        """
        answers = Answers.read(sink, on_answer, on_late, max_waiting, timeout)
        durable: dict[str, Any] = {
            "sink": sink, "save_every": save_every, "commit_every": commit_every, "gather": gather,
            "batch_rows": batch_rows, "available_now": available_now, "flush": flush, "skip_batches": skip_batches,
            "savepoint": None if savepoint is None else checkpoint_place(savepoint, "savepoint"), "afresh": afresh,
        }  # fmt: skip
        said = {name: given for name, given in durable.items() if given is not None and given is not False}
        if checkpoint is None:
            check_kept(said)
        said.pop("sink", None)
        place = None if checkpoint is None else checkpoint_place(checkpoint)
        run: Run = self.host.start(self.plan, RunSettings.read(checkpoint=place, **said), answers)
        self._metrics, self._live = run.driver.execution.metrics, weakref.ref(run)
        return run

    def start_async(
        self,
        *,
        on_answer: OnAnswer | None = None,
        on_late: OnLate | None = None,
        max_waiting: int = 1_000_000,
        timeout: float | None = 60.0,
    ) -> AsyncRun:
        """The same for coroutines: `async with query.start_async() as run: await run.push("b", rows)`.

        on_answer: a function or a coroutine function; it is called on the event loop, one batch after another.
        """
        from watersmeet.hosts.local.async_run import AsyncRun

        Answers.read(None, None, on_late, max_waiting, timeout)  # what is wrong with them is said here
        return AsyncRun(lambda: self.start(on_late=on_late, max_waiting=max_waiting, timeout=timeout), on_answer)

    def dataframe(self, *, skip_batches: Collection[int] = ()) -> Any:
        """The answer as a Spark DataFrame: streaming if the inputs are, with the columns of the SELECT.

        skip_batches: Spark's numbers of batches that are left out with all their rows, as the query fails with them or
        their answers do not end. Say the same again until a later batch has ended.
        """
        from watersmeet.runtime.metrics import Metrics

        self._metrics = Metrics()
        return self.host.dataframe(self.plan, self._metrics, batch_numbers("skip_batches", skip_batches))

    def finish(self, write: Callable[[Any], Any], *, checkpoint: str) -> None:
        """On Spark: answer what a query that has stopped left waiting for the watermark.

        A streaming query never learns which of its batches is the last, so the newest rows of `ROWS` windows and of
        answers that change wait for later ones. This starts the query on its checkpoint once more, takes in what is
        there, answers everything that waits, and returns when that is written. Rows that come afterwards and are not
        newer than what was answered are late.

        write: makes of the answer's DataFrame the writer that the query was started with, such as
        `lambda answer: answer.writeStream.format("parquet").option("path", "out")`.
        checkpoint: its checkpointLocation.
        """
        from watersmeet.runtime.metrics import Metrics

        self._metrics = Metrics()
        self.host.finish(self.plan, self._metrics, write, checkpoint)

    def final(self) -> pa.Table:
        """The answer at the end of bounded input: of a query whose answer changes, what it is at the last event.

        >>> import datetime as dt
        >>> from watersmeet import Session
        >>> at = [dt.datetime(2026, 1, 1, 12, 0, second) for second in (0, 4, 5)]
        >>> session = Session()
        >>> session.stream("sales", pa.table({"shop": ["a", "b", "b"], "ts": at}), time="ts")
        >>> session.sql("SELECT shop, COUNT(*) AS n FROM sales [RANGE 3 SECONDS] GROUP BY shop").final().to_pylist()
        [{'shop': 'b', 'n': 2}]
        """
        from watersmeet.runtime.metrics import Metrics

        self._metrics = Metrics()
        return self.host.final(self.plan, self._metrics)

    def over(self, tables: Mapping[str, pa.Table]) -> Query:
        """The same query over other rows: a table for each of its streams and static tables, by name. It archives
        nothing, as those rows are not the query's own."""
        from watersmeet.runtime.over import plan_over

        plan = plan_over(self.plan, tables, self.host, has_values=self._has_values)
        return Query(plan, self.host, has_values=self._has_values)

    def metrics(self) -> dict[str, Any]:
        run = self._live() if self._live is not None else None
        if run is not None and run.driver.execution.metrics is self._metrics:
            return run.metrics()  # brought up to date
        return super().metrics()


class Explanation(KnownRows, Query):
    """`EXPLAIN … SELECT …`: a query whose answer is how that SELECT runs, line by line in the column `plan`.

    >>> from watersmeet import Session
    >>> session = Session()
    >>> session.stream("s", pa.table({"k": [1], "ts": pa.array([0], pa.timestamp("us"))}), time="ts")
    >>> print(session.sql("EXPLAIN SELECT k FROM s WHERE k > 0"))
    select: s.k
      read stream s
        where: s.k > 0
    """

    def __init__(self, plan: Plan, host: Host, format: str = "text", analyze: bool = False) -> None:
        super().__init__(plan, host)
        self._format = format
        self._analyze = analyze

    def __str__(self) -> str:
        return self.explain(format=self._format, analyze=self._analyze).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>{'' if self._format == 'json' else self._drawn()}"

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("plan", pa.string())])

    def _rows(self) -> pa.Table:
        return pa.table([pa.array(str(self).splitlines(), pa.string())], schema=self.schema)


class Declared(KnownRows, Query):
    """`CREATE STREAM …; CREATE VIEW …`: what was declared, a row for each, as its answer."""

    _SCHEMA = pa.schema([("name", pa.string()), ("kind", pa.string()), ("columns", pa.string())])

    def __init__(self, relations: Sequence[Relation | NamedQuery], host: Host) -> None:
        from watersmeet.io.showing import columns_text

        super().__init__(None, host)
        self._declared = pa.Table.from_pylist(
            [{"name": one.name, "kind": kind_of(one), "columns": columns_text(one.schema)} for one in relations],
            self._SCHEMA,
        )

    @property
    def schema(self) -> pa.Schema:
        return self._SCHEMA

    def _rows(self) -> pa.Table:
        return self._declared

    def __repr__(self) -> str:
        return "\n".join(f"{row['kind']} {row['name']} ({row['columns']})" for row in self._declared.to_pylist())

    def _repr_html_(self) -> str:
        from watersmeet.io.showing import cells_of, html_table

        return html_table(self._SCHEMA.names, cells_of(self._declared, self._declared.num_rows))


def check_kept(said: Mapping[str, Any]) -> None:
    """Refuse what only runs with a checkpoint have a use for, where there is none."""
    for name, given in said.items():
        raise OptionError(
            f"{name} is for runs that keep their progress, and no checkpoint is said",
            hint=f"write start(checkpoint='state', {name}={given!r})",
            option=name,
        )


def host_for(spark: Any, buckets: int | None) -> Host:
    if spark is None:
        from watersmeet.hosts.local.host import LocalHost

        return LocalHost()
    from watersmeet.hosts.spark.host import SparkHost

    return SparkHost(spark, buckets)
