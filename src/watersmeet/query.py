"""A checked query: how it will run, its runs, and its answer in the forms that people use."""

from __future__ import annotations

import datetime as dt
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import iscoroutinefunction
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from watersmeet.errors import OptionError, UnsupportedError, WatersmeetError
from watersmeet.model.arriving import Arrivals, with_moments
from watersmeet.model.catalog import Catalog, NamedQuery, Relation, Statistics, Stream, Table, kind_of
from watersmeet.model.time_reading import TimeReading
from watersmeet.plan.nodes import Plan, relations_below
from watersmeet.plan.rewrite import with_relations
from watersmeet.plan.user_functions import brought_in
from watersmeet.runtime.run_settings import (
    Answers,
    Interval,
    OnAnswer,
    OnLate,
    RunSettings,
    Sink,
    batch_numbers,
    checkpoint_place,
    sink_said,
)

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

    from watersmeet.advise import Advice
    from watersmeet.explain.explaining import ToldPlan
    from watersmeet.hosts.local.async_run import AsyncRun
    from watersmeet.hosts.local.run import Run
    from watersmeet.runtime.clock import OnLateRows
    from watersmeet.runtime.host import Host
    from watersmeet.runtime.metrics import Metrics
    from watersmeet.timeline import Timeline
    from watersmeet.why import Why

SAMPLE_OF_TIMELINE = 10_000  # rows of each input on Spark


class Query:
    """A checked query. Each run reads its inputs anew, so inputs that flow once can be run once.

    Iterating over it runs it and gives its rows as dicts.
    """

    def __init__(self, plan: Plan, host: Host | None = None, *, has_values: bool = False) -> None:
        """has_values: whether the plan holds values that its text has only places for."""
        self.plan = plan
        self._has_values = has_values
        self._live: weakref.ref[Run] | None = None
        self.host = host or host_for(None, None)
        self._metrics: Metrics | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return self.plan.output_schema

    @property
    def in_arrival_order(self) -> bool:
        """Whether its inputs may be read in their order of arrival, in which some rows may come too late."""
        return self.host.in_arrival_order

    def explain(self, *, format: str = "text", analyze: bool = False, sample: int = 100_000) -> ToldPlan:
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

    def advise(self, *, sample: int = 50_000, policies: Sequence[str] | None = None, seconds: float = 20.0) -> Advice:
        """How much memory this join needs for how much of its answer: a value that prints as tables.

        The query runs in this process over about `sample` rows, in several sizes of memory, by each of the `policies`
        (by default all but `arm`), and takes about `seconds`.
        """
        from watersmeet.advise import advise

        return advise(self.host.sampled(self.plan, sample), sample, policies, seconds=seconds)

    def why(self, rows: Mapping[str, int | Mapping[str, Any]]) -> Why:
        """Why rows did not meet, in words: which condition fails with which values, which window and by how much, that
        one came too late, or that bounded memory let go of it; or that they met, and when.

        rows: for every input of a join one row, by its number, counted from 1, or by columns and their values. The
        inputs are read to their end.

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
        `rows`, the first `since` a time, or up to `until` another; what is left out is said below the picture.

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
        from watersmeet.hosts.local.host import LocalHost
        from watersmeet.timeline import Part, timeline

        sample = None if isinstance(self.host, LocalHost) else SAMPLE_OF_TIMELINE
        plan = self.plan if sample is None else self.host.sampled(self.plan, sample)
        return timeline(plan, Part.of(rows, since, until), sample)

    def batches(self, *, batch_rows: int = 1 << 16, on_late_rows: OnLateRows | None = None) -> Iterator[pa.RecordBatch]:
        """Run the query and give results as they become certain; in-process this works on endless inputs too.

        on_late_rows: in-process, called with the name of a stream and the numbers of rows that came too late, counted
        in the order they came, from 0.
        """
        from watersmeet.hosts.local.host import LocalHost
        from watersmeet.runtime.metrics import Metrics

        _check_batch_rows(batch_rows)
        self._metrics = Metrics()
        if on_late_rows is None:
            return self.host.batches(self.plan, batch_rows, self._metrics)
        if not isinstance(self.host, LocalHost):
            raise UnsupportedError("on_late_rows is told in-process only", hint="on Spark, late rows are counted")
        return self.host.batches(self.plan, batch_rows, self._metrics, on_late_rows)

    def to_arrow(self, *, batch_rows: int = 1 << 16) -> pa.Table:
        """Run the query to the end of its inputs and give the whole answer."""
        return pa.Table.from_batches(self.batches(batch_rows=batch_rows), schema=self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        """Run the query to the end of its inputs; the answer as a pandas frame."""
        from watersmeet.io.conversions import as_pandas

        return as_pandas(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        """Run the query to the end of its inputs; the answer as a polars frame."""
        from watersmeet.io.conversions import as_polars

        return as_polars(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Run the query to the end of its inputs; the answer as a relation of DuckDB, to be queried on.

        connection: where the relation lives; DuckDB's default one if it is left out.
        """
        from watersmeet.io.conversions import as_duckdb

        found: duckdb.DuckDBPyRelation = as_duckdb(self.to_arrow(), connection)
        return found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Run the query; its rows as dicts, as they become certain."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def show(self, rows: int = 20, *, final: bool = False, width: int | None = None) -> None:
        """Run the query and print the first rows of its answer; in-process no more is read than these take.

        final: of an answer that changes, what it is at the last event, instead of its changes.
        width: how many columns of text fit; those of the terminal if it is left out.

        >>> from watersmeet import Session
        >>> session = Session()
        >>> session.stream("s", pa.table({"k": [1, 20, 3], "ts": pa.array([0, 1, 2], pa.timestamp("s"))}), time="ts")
        >>> session.sql("SELECT k, ts FROM s").show(2)
         k  ts
        --  -------------------
         1  1970-01-01 00:00:00
        20  1970-01-01 00:00:01
        (more rows follow)
        """
        from watersmeet.io.showing import text_table

        if not isinstance(rows, int) or rows < 1:
            raise OptionError(f"show() prints a whole number of rows, 1 or more, not {rows!r}")
        found = self.final() if final else self._first(rows + 1)
        more = "more rows follow" if found.num_rows > rows else "no rows" if not found.num_rows else ""
        print(text_table(found.slice(0, rows), more=more, width=width))

    def _first(self, rows: int) -> pa.Table:
        found: list[pa.RecordBatch] = []
        batches = self.batches()
        while sum(batch.num_rows for batch in found) < rows:
            batch = next(batches, None)
            if batch is None:
                break
            found.append(batch)
        close = getattr(batches, "close", None)
        if close is not None:
            close()
        return pa.Table.from_batches(found, schema=self.schema).slice(0, rows)

    def __repr__(self) -> str:
        from watersmeet.io.showing import columns_told

        return f"<Query: {columns_told(self.schema)}; from {', '.join(self._reads())}; show() runs it>"

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
        """
        _check_waiting(max_waiting, timeout)
        _check_called("on_answer", on_answer)
        _check_called("on_late", on_late)
        of_lasting: dict[str, Any] = {
            "sink": sink, "save_every": save_every, "commit_every": commit_every, "gather": gather,
            "batch_rows": batch_rows, "available_now": available_now, "flush": flush, "skip_batches": skip_batches,
        }  # fmt: skip
        said = {name: given for name, given in of_lasting.items() if given is not None and given is not False}
        if checkpoint is None:
            for name, given in said.items():
                raise OptionError(
                    f"{name} is for runs that keep their progress, and no checkpoint is said",
                    hint=f"write start(checkpoint='state', {name}={given!r})",
                    option=name,
                )
        answers = Answers(sink_said(said.pop("sink", None)), on_answer, on_late, max_waiting, timeout)
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

        _check_waiting(max_waiting, timeout)
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
        plan = self._with_values_over(tables) if self._has_values else self._bound_over(tables)
        return Query(replace(plan, options=plan.options.but(archive=None)), self.host, has_values=self._has_values)

    def _bound_over(self, tables: Mapping[str, pa.Table]) -> Plan:
        """The text read once more: the rows may have columns of other types."""
        from watersmeet.sql import bind

        catalog = Catalog()
        catalog.functions.update(brought_in(self.plan.root))
        for relation in {one.name: one for one in relations_below(self.plan.root)}.values():
            given = tables[relation.name]
            reading = _reading_of_rows(relation, given)
            schema, source, rows = self.host.opened(given, relation.name, relation.rounding, None, reading)
            # What was declared or measured was of the query's own rows; of these only the number is known.
            change = _timed_as_given(relation, schema, reading)
            catalog.add(replace(relation, source=source, statistics=Statistics(rows=rows), **change))
        return bind(self.plan.sql, catalog, self.plan.options.timezone)

    def _with_values_over(self, tables: Mapping[str, pa.Table]) -> Plan:
        """The plan with its values in it, which the text has not; the rows must fit its columns."""
        from watersmeet.io.conform import check_columns

        def change(relation: Relation) -> Relation:
            given = tables[relation.name]
            reading = _reading_of_rows(relation, given)
            schema, source, rows = self.host.opened(given, relation.name, relation.rounding, None, reading)
            timed = _timed_as_given(relation, schema, reading)
            check_columns(timed["schema"], relation.schema, relation.name, "the table given for it")
            timed["schema"] = relation.schema
            return replace(relation, source=source, statistics=Statistics(rows=rows), **timed)

        return replace(self.plan, root=with_relations(self.plan.root, change))

    def metrics(self) -> dict[str, Any]:
        """The numbers of the latest run, all zero before the first; under `work` what a join algorithm counted."""
        from watersmeet.runtime.metrics import Metrics

        run = self._live() if self._live is not None else None
        if run is not None and run.driver.execution.metrics is self._metrics:
            return run.metrics()  # brought up to date
        return (self._metrics or Metrics()).as_dict()


class Explanation(Query):
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

    def batches(self, *, batch_rows: int = 1 << 16, on_late_rows: OnLateRows | None = None) -> Iterator[pa.RecordBatch]:
        _check_batch_rows(batch_rows)
        return iter(self._lines().to_batches(max_chunksize=batch_rows))

    def final(self) -> pa.Table:
        return self._lines()

    def dataframe(self, *, skip_batches: Collection[int] = ()) -> Any:
        _check_no_batches(skip_batches)
        return self.host.framed(self._lines())

    def _lines(self) -> pa.Table:
        return pa.table([pa.array(str(self).splitlines(), pa.string())], schema=self.schema)


class Declared(Query):
    """`CREATE STREAM …; CREATE VIEW …`: what was declared, a row for each, as its answer."""

    _SCHEMA = pa.schema([("name", pa.string()), ("kind", pa.string()), ("columns", pa.string())])

    def __init__(self, relations: Sequence[Relation | NamedQuery], host: Host) -> None:
        from watersmeet.io.showing import columns_told

        self.host = host
        self._rows = pa.Table.from_pylist(
            [{"name": one.name, "kind": kind_of(one), "columns": columns_told(one.schema)} for one in relations],
            self._SCHEMA,
        )
        self._metrics, self._live = None, None

    @property
    def schema(self) -> pa.Schema:
        return self._SCHEMA

    @property
    def plan(self) -> Plan:  # type: ignore[override]
        raise UnsupportedError(
            "CREATE only declares, and runs nothing", hint="give a SELECT to session.sql(), after it or in another call"
        )

    def batches(self, *, batch_rows: int = 1 << 16, on_late_rows: OnLateRows | None = None) -> Iterator[pa.RecordBatch]:
        _check_batch_rows(batch_rows)
        return iter(self._rows.to_batches(max_chunksize=batch_rows))

    def final(self) -> pa.Table:
        return self._rows

    def dataframe(self, *, skip_batches: Collection[int] = ()) -> Any:
        _check_no_batches(skip_batches)
        return self.host.framed(self._rows)

    def __repr__(self) -> str:
        return "\n".join(f"{row['kind']} {row['name']} ({row['columns']})" for row in self._rows.to_pylist())

    def _repr_html_(self) -> str:
        from watersmeet.io.showing import cells_of, html_table

        return html_table(self._SCHEMA.names, cells_of(self._rows, self._rows.num_rows))


def host_for(spark: Any, buckets: int | None) -> Host:
    if spark is None:
        from watersmeet.hosts.local.host import LocalHost

        return LocalHost()
    from watersmeet.hosts.spark.host import SparkHost

    return SparkHost(spark, buckets)


def _check_no_batches(skip_batches: Collection[int]) -> None:
    if skip_batches:
        raise OptionError("skip_batches is for queries that run, in batches", option="skip_batches")


def _check_batch_rows(batch_rows: object) -> None:
    if not isinstance(batch_rows, int) or batch_rows < 1:
        raise OptionError(
            f"batch_rows must be a whole number of rows, 1 or more, not {batch_rows!r}", option="batch_rows"
        )


def _check_waiting(max_waiting: object, timeout: object) -> None:
    if not isinstance(max_waiting, int) or max_waiting < 1:
        raise OptionError(f"max_waiting must be a whole number of rows, 1 or more, not {max_waiting!r}")
    if timeout is not None and (not isinstance(timeout, int | float) or timeout < 0):
        raise OptionError(f"timeout must be a number of seconds, or None to wait for ever, not {timeout!r}")


def _check_called(name: str, function: object) -> None:
    """Nobody would await what a coroutine function gives, and its rows would be lost."""
    if function is not None and not callable(function):
        raise OptionError(f"{name} must be a function, not {function!r}", option=name)
    if iscoroutinefunction(function):
        raise OptionError(
            f"{name} is a coroutine function, which nobody would await",
            hint="start_async() awaits its on_answer; or give a plain function",
            option=name,
        )


def _timed_as_given(relation: Stream | Table, schema: pa.Schema, reading: TimeReading | None) -> dict[str, Any]:
    """What changes in a relation with the columns of other rows: those that have arrived bring their moments along."""
    if not isinstance(relation, Stream):
        return {"schema": schema}
    if not relation.by_arrival or relation.time in schema.names:
        return {"schema": schema, "reading": reading, "arrivals": None}
    return {"schema": with_moments(relation.name, schema, relation.time), "reading": None, "arrivals": Arrivals()}


def _reading_of_rows(relation: Stream | Table, rows: pa.Table) -> TimeReading | None:
    """How event times of other rows of a stream are written: as a query sees them, or as the stream's own are."""
    if not isinstance(relation, Stream) or relation.time not in rows.column_names:
        return None
    return None if pa.types.is_timestamp(rows.schema.field(relation.time).type) else relation.reading
