"""The public face: a Session holds streams and tables, a Query is a checked plan that can be run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, SupportsFloat

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import CatalogError, OptionError, UnsupportedError
from watersmeet.importing import undisturbed
from watersmeet.model.arrival import PARSERS, arrival_of
from watersmeet.model.catalog import Catalog, Statistics, Stream, Table
from watersmeet.model.hints import parse_rate
from watersmeet.model.zones import check_zone
from watersmeet.plan.nodes import Plan, relations_below

if TYPE_CHECKING:
    from watersmeet.advise import Advice
    from watersmeet.runtime.clock import OnLateRows
    from watersmeet.runtime.host import Host
    from watersmeet.runtime.metrics import Metrics


class Session:
    """Streams and tables by name, and the queries over them.

    >>> import datetime as dt
    >>> import pyarrow as pa
    >>> at = [dt.datetime(2026, 1, 1, 12, 0, second) for second in (0, 1, 9)]
    >>> session = Session()
    >>> session.stream("left_gate", pa.table({"car": [1, 2, 3], "ts": at}), time="ts")
    >>> session.stream("right_gate", pa.table({"car": [2, 1, 1], "ts": at}), time="ts")
    >>> query = session.sql('''
    ...     SELECT l.car FROM left_gate l, right_gate r WHERE l.car = r.car WINDOW = 5 SECONDS
    ... ''')
    >>> sorted(query.to_arrow()["car"].to_pylist())
    [1, 2]
    """

    def __init__(self, spark: Any = None, *, buckets: int | None = None, timezone: str = "UTC") -> None:
        """In-process without arguments. With a SparkSession, the same calls run on Spark.

        buckets: on Spark, into how many parts the state is cut; by default one per core. A checkpoint keeps the
        number it was made with.
        timezone: the zone in which queries read instants (TIMESTAMP WITH TIME ZONE), unless they say another:
        OPTIONS (timezone = '…').
        """
        self.timezone = check_zone(str(timezone))
        self.catalog = Catalog()
        self.host = _host(spark, buckets)

    def stream(
        self,
        name: str,
        data: Any,
        *,
        time: str,
        lateness: str | timedelta | None = None,
        read: str | None = None,
        on_late: str | None = None,
        idle: str | timedelta | None = None,
        max_future: str | timedelta | None = None,
        rounding: str | None = None,
        rate: float | str | None = None,
        distinct: Mapping[str, float] | None = None,
    ) -> None:
        """Declare a stream.

        data: a pyarrow Table, RecordBatch or RecordBatchReader, an iterable of RecordBatches, a pandas or polars
        frame, or the path of a Parquet, CSV or JSON file (or folder).
        time: the column that holds the event time, a timestamp.
        lateness: how far out of order rows may arrive, as '2 seconds' or a timedelta; 0 if nothing is said. Rows later
        than that are dropped and counted, and a warning tells.
        read: tables, frames and files are read in the order of their event times, so that none is late;
        read='arrival' keeps the order they have.
        on_late: 'count', or 'error' to end the run at the first late row.
        idle: after so much silence this stream no longer holds the others back.
        max_future: a row further ahead of the wall clock than this is kept, but does not move the watermark.
        rounding: 'down' cuts times finer than a microsecond; without it they are an error.
        rate: rows per second or '100/s', if known; otherwise measured where that is cheap. It guides the join order
        until rows have been seen.
        distinct: the number of values of some columns, by name, if known; it guides the join order too.
        """
        from watersmeet.io.time_column import check_time_column

        said = _parsed(
            name, lateness=lateness, read=read, on_late=on_late, idle=idle, max_future=max_future, rounding=rounding
        )
        time = _column_named(name, time)
        schema, source, rows = self.host.opened(data, name, said.get("rounding", "error"))
        check_time_column(name, time, schema, source, data)
        stream = Stream(
            name,
            schema,
            time,
            said.get("lateness", 0),
            source,
            arrival=arrival_of(said),
            rounding=said.get("rounding", "error"),
        )
        known = _measured(data, stream.time, rows) if rate is None else Statistics(_rate(name, rate), rows)
        self.catalog.add(replace(stream, statistics=replace(known, distinct=_distinct(name, distinct or {}))))

    def table(self, name: str, data: Any, *, rounding: str | None = None) -> None:
        """Declare a static table, read once when a query starts. `data` and `rounding` are as for `stream`."""
        said = _parsed(name, rounding=rounding)
        schema, source, rows = self.host.opened(data, name, said.get("rounding", "error"))
        statistics = Statistics(rows=rows)
        self.catalog.add(Table(name, schema, source, statistics=statistics, rounding=said.get("rounding", "error")))

    def sql(self, text: str) -> Query:
        """Check a query against the declared streams and tables. Nothing runs yet.

        `EXPLAIN [ANALYZE] SELECT …` gives an Explanation: it prints as the plan, and its answer is the plan's lines.
        """
        # sqlglot is loaded here, not with the session.
        with undisturbed():
            from watersmeet.sql import bind_query, parse_question
            from watersmeet.sql.syntax import Explain

        asked = parse_question(text)
        if isinstance(asked, Explain):
            return Explanation(
                bind_query(asked.query, self.catalog, text, self.timezone), self.host, asked.format, asked.analyze
            )
        return Query(bind_query(asked, self.catalog, text, self.timezone), self.host)

    def explain(self, text: str) -> str:
        """The plan of a query as text."""
        return self.sql(text).explain()


class Query:
    """A checked query. Each run reads its inputs anew, so inputs that flow once can be run once."""

    def __init__(self, plan: Plan, host: Host | None = None) -> None:
        self.plan = plan
        self.host = host or _host(None, None)
        self._metrics: Metrics | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return self.plan.output_schema

    @property
    def in_arrival_order(self) -> bool:
        """Whether its inputs may be read in their order of arrival, in which some rows may come too late."""
        return self.host.in_arrival_order

    def explain(self, *, format: str = "text", analyze: bool = False, sample: int = 100_000) -> str:
        """How the query will run: windows, what is kept, join orders and indexes, what that should cost and what else
        was considered.

        format: 'text', or 'json' for programs.
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

    def dataframe(self) -> Any:
        """The answer as a Spark DataFrame: streaming if the inputs are, with the columns of the SELECT."""
        from watersmeet.runtime.metrics import Metrics

        self._metrics = Metrics()
        return self.host.dataframe(self.plan, self._metrics)

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
        session = Session(timezone=self.plan.options.timezone)
        # Taken over, not made: it may hold a SparkSession.
        session.host = self.host
        for relation in {one.name: one for one in relations_below(self.plan.root)}.values():
            schema, source, rows = self.host.opened(tables[relation.name], relation.name)
            # What was declared or measured was of the query's own rows; of these only the number is known.
            session.catalog.add(replace(relation, schema=schema, source=source, statistics=Statistics(rows=rows)))
        # Bound again from its text, as the columns of the other rows may have other types.
        plan = session.sql(self.plan.sql).plan
        return Query(replace(plan, options=plan.options.but(archive=None)), self.host)

    def metrics(self) -> dict[str, Any]:
        """The numbers of the latest run, all zero before the first; under `work` what a join algorithm counted."""
        from watersmeet.runtime.metrics import Metrics

        return (self._metrics or Metrics()).as_dict()


class Explanation(Query):
    """`EXPLAIN … SELECT …`: a query whose answer is how that SELECT runs, line by line in the column `plan`.

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

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("plan", pa.string())])

    def batches(self, *, batch_rows: int = 1 << 16, on_late_rows: OnLateRows | None = None) -> Iterator[pa.RecordBatch]:
        _check_batch_rows(batch_rows)
        return iter(self._lines().to_batches(max_chunksize=batch_rows))

    def final(self) -> pa.Table:
        return self._lines()

    def dataframe(self) -> Any:
        return self.host.framed(self._lines())

    def _lines(self) -> pa.Table:
        return pa.table([pa.array(str(self).splitlines(), pa.string())], schema=self.schema)


def _host(spark: Any, buckets: int | None) -> Host:
    if spark is None:
        from watersmeet.hosts.local.host import LocalHost

        return LocalHost()
    from watersmeet.hosts.spark.host import SparkHost

    return SparkHost(spark, buckets)


def _check_batch_rows(batch_rows: object) -> None:
    if not isinstance(batch_rows, int) or batch_rows < 1:
        raise OptionError(
            f"batch_rows must be a whole number of rows, 1 or more, not {batch_rows!r}", option="batch_rows"
        )


def _column_named(name: str, time: object) -> str:
    if not isinstance(time, str) or not time:
        raise CatalogError(
            f"stream {name!r} needs the name of its event-time column, but time is {time!r}",
            hint=f"write session.stream({name!r}, data, time='ts')",
        )
    return time


def _parsed(name: str, **given: Any) -> dict[str, Any]:
    """Options as values; those that were not given are left out."""
    said = {option: value for option, value in given.items() if value is not None}
    return {option: _read(name, option, PARSERS[option], value) for option, value in said.items()}


def _read(name: str, option: str, parse: Callable[[Any], Any], value: object) -> Any:
    try:
        return parse(value)
    except ValueError as error:
        raise CatalogError(f"the {option} of {name!r}: {error}") from None


def _rate(name: str, rate: float | str) -> float:
    try:
        return parse_rate(str(rate))
    except ValueError as error:
        raise CatalogError(f"the rate of stream {name!r}: {error}") from None


def _distinct(name: str, distinct: Mapping[str, Any]) -> dict[str, float]:
    for column, count in distinct.items():
        if not isinstance(count, SupportsFloat) or not 1 <= float(count) < math.inf:
            raise CatalogError(
                f"the distinct of stream {name!r}: {count!r} is no number of values of {column}",
                hint="write distinct={'k': 5000}",
            )
    return {column: float(count) for column, count in distinct.items()}


def _measured(data: object, time: str, rows: int | None) -> Statistics:
    """The rate of data that is already in memory; None for what would have to be read first."""
    if not isinstance(data, pa.Table) or not rows or time not in data.column_names:
        return Statistics(rows=rows)
    column = data[time]
    if not pa.types.is_timestamp(column.type):
        return Statistics(rows=rows)
    # What a rate is taken from need not be exact: finer digits are cut off.
    ends = pc.min_max(pc.cast(column, pa.timestamp("us"), safe=False))
    first, last = ends["min"].value, ends["max"].value
    if first is None or last == first:
        return Statistics(rows=rows)
    return Statistics(rows * 1e6 / (last - first), rows)
