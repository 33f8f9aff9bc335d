"""The public face: a Session holds streams and tables, a Query is a checked plan that can be run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from watersmeet.errors import CatalogError, SourceError, UnsupportedError
from watersmeet.importing import undisturbed
from watersmeet.model.catalog import Catalog, Stream, kind_of
from watersmeet.model.declaration import Declaration, declared_schema
from watersmeet.model.declaration import Kind as DeclaredKind
from watersmeet.model.stream_values import EventTime, Hints, RowPolicy, words_of
from watersmeet.model.zones import check_zone
from watersmeet.plan.user_functions import Kind, bring, user_function
from watersmeet.query import Declared, Explanation, Query, check_kept, host_for
from watersmeet.runtime.notices import notices_by_default

if TYPE_CHECKING:
    from watersmeet.hosts.local.runs import Runs
    from watersmeet.runtime.outcome import Outcome
    from watersmeet.runtime.run_settings import Interval, OnLate
    from watersmeet.runtime.script import Job
    from watersmeet.sql.parameters import Parameters
    from watersmeet.sql.syntax import CreateSink, CreateStream, CreateTable, CreateView

__all__ = ["Declared", "Explanation", "Query", "Session"]


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
        self.host = host_for(spark, buckets)
        self.catalog = Catalog(self._opened_rows)
        notices_by_default()

    def stream(
        self,
        name: str,
        data: Any = None,
        *,
        time: str | EventTime,
        schema: pa.Schema | Mapping[str, Any] | str | None = None,
        policy: RowPolicy | None = None,
        hints: Hints | None = None,
        key: str | Sequence[str] | None = None,
        op: str | None = None,
        source: str | None = None,
        replace: bool = False,
        **options: Any,
    ) -> None:
        """Declare a stream.

        data: a pyarrow Table, RecordBatch or RecordBatchReader, an iterable of RecordBatches, a pandas or polars
        frame, a list of dicts or a dict of columns, or the path of a Parquet, CSV or JSON file (or folder). Without it
        rows are pushed (`Query.start`).
        time: the column that holds the event time, or an `EventTime`, which also says how it is written and how far
        rows may be from it. In queries it is a TIMESTAMP. With 'arrival' it is the moment at which rows arrive, in a
        column `arrival` that is added (`arrival_column` names it otherwise).
        schema: the columns to take and their types, a pyarrow schema or a mapping such as {"k": "BIGINT"}; without it
        all columns as the data has them. Without data it is needed.
        policy: what becomes of rows without an event time, of late ones and of records that cannot be read.
        hints: how many rows come a second, how many values columns have and which of them come once, if that is known.
        key: the rows are changes of a table that has one row for each value of this column, or of these columns; then
        `JOIN … FOR SYSTEM_TIME AS OF` joins it as it was at a time.
        op: the column that tells which rows delete: 'insert', 'update', 'delete', and as others write that. Without it
        every row is a new version of its key.
        source: where rows come from instead of `data`, by the name of a connector ('kafka', or one that was registered
        with `watersmeet.register_connector`) or of a file format. A `schema` that is a text of JSON is the one of its
        Avro records then.
        replace: take the place of a stream or table of that name; queries made before keep what they have.
        options: those of CREATE STREAM … WITH (…), and the fields of `EventTime`, `RowPolicy` and `Hints` one by one:

        time_unit: the event time is a number since 1970, of 's', 'ms', 'us' or 'ns'; whole, with a fraction, or text.
        time_format: it is text: 'iso', any form of ISO 8601; or as in Python's strptime: '%d.%m.%Y %H:%M:%S.%f'.
        time_zone: the zone of such text without an offset of its own (%z), as 'Europe/Paris'; UTC if nothing is said.
        lateness: how far out of order rows may arrive, as '2 seconds' or a timedelta; 0 if nothing is said. Rows later
        than that are dropped and counted, and a warning tells.
        idle: after so much silence this stream no longer holds the others back.
        max_future: a row further ahead of the wall clock than this is kept, but does not move the watermark.
        max_drift: while streams catch up in a run that goes on, this one is not read further ahead of the one that is
        furthest behind, nor one of its partitions (such as those of a topic) of another.
        on_null: what becomes of rows without an event time: 'error', or 'skip' to leave them out and count them.
        on_late: 'count', or 'error' to end the run at the first late row, or 'sink NAME' to keep late rows beside the
        answer: `sql("CREATE SINK NAME WITH (…)")` declares it before.
        on_bad: what becomes of records that cannot be read: 'error', or 'skip' to leave them out and count them, or
        'sink NAME' to keep them beside the answer. Rows without an event time are among them.
        rate: rows per second or '100/s', if known; otherwise measured where that is cheap. It guides the join order
        until rows have been seen.
        distinct: the number of values of some columns, by name, if known; it guides the join order too.
        unique: a column, or several, of which each value comes once in a window, as ids do; so does this. It changes
        no answer, and EXPLAIN ANALYZE tells if it is not so.
        read: tables, frames and files are read in the order of their event times, so that none is late;
        read='arrival' keeps the order they have.
        rounding: 'down' cuts times finer than a microsecond; without it they are an error.

        >>> session = Session()
        >>> session.stream("s", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time=EventTime("ts", lateness="2 seconds"))
        >>> session.stream("t", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", lateness="2 seconds")
        """
        words = {"time": time, "policy": policy, "hints": hints, "key": key, "op": op, "source": source}
        self._declare("stream", name, data, schema, replace, options | words)

    def table(
        self,
        name: str,
        data: Any = None,
        *,
        schema: pa.Schema | Mapping[str, Any] | str | None = None,
        time: str | EventTime | None = None,
        hints: Hints | None = None,
        key: str | Sequence[str] | None = None,
        op: str | None = None,
        source: str | None = None,
        replace: bool = False,
        **options: Any,
    ) -> None:
        """Declare a static table, read once when a query starts. What is given is given as for `stream`.

        With `key` and `time` it is a table with versions: its rows are changes, and `JOIN … FOR SYSTEM_TIME AS OF`
        joins the version of a key that held at a time. Then `data` may be None, to push changes; and as a table may not
        change for long, `idle` says after which silence nobody waits for it any more.

        >>> def at(*seconds: int) -> pa.Array:
        ...     return pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us"))
        >>> session = Session()
        >>> session.stream("orders", pa.table({"money": ["EUR", "EUR"], "x": [10, 10], "ts": at(1, 3)}), time="ts")
        >>> changes = pa.table({"money": ["EUR", "EUR"], "rate": [2, 3], "ts": at(0, 2)})
        >>> session.table("rates", changes, time="ts", key="money")
        >>> session.sql('''
        ...     SELECT o.x * r.rate AS x FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.money = r.money
        ... ''').to_arrow()["x"].to_pylist()
        [20, 30]
        """
        words = {"time": time, "hints": hints, "key": key, "op": op, "source": source}
        self._declare("table", name, data, schema, replace, options | words)

    def _declare(
        self,
        kind: DeclaredKind,
        name: str,
        data: Any,
        schema: pa.Schema | Mapping[str, Any] | str | None,
        replace: bool,
        words: Mapping[str, Any],
    ) -> None:
        from watersmeet.runtime.declaring import declare

        if isinstance(schema, str) and schema.lstrip().startswith("{"):  # of records, as WITH (schema = '…') has it
            schema, words = None, {**words, "schema": schema}
        columns = None if schema is None else declared_schema(name, schema)
        declared = Declaration.in_python(kind, name, words_of(name, words), schema=columns, replace=replace, data=data)
        if data is not None and declared.has_source:
            raise CatalogError(f"{name!r} is given data and a source", hint="leave one of them out")
        declare(declared, self.catalog, opener=self.host.opener, pushed=True)

    def drop(self, name: str) -> None:
        """Forget a stream, a table or a function that was brought; queries made before keep it."""
        self.catalog.remove(name)

    def function(
        self,
        name: str,
        f: Callable[..., Any],
        arguments: Sequence[Any] | None = None,
        returns: Any = None,
        *,
        version: str = "",
        price: str | None = None,
        replace: bool = False,
    ) -> None:
        """Bring a function of your own to SQL: Python over whole columns, in-process and on Spark.

        f: called with an Arrow array for each argument, all of one length, and gives an array of that length (of
        pyarrow or NumPy), or a pyarrow scalar that holds for all rows. NULLs are in the arrays as they are. It must
        give the same for the same values, whatever else is in the arrays: rows are looked at in any number at a time,
        and some again when they leave their window.
        arguments, returns: their types, as SQL has them ('BIGINT'), as pyarrow has them, or int, float, str, bool,
        bytes, date and datetime; without them, what the annotations of f say.
        version: change it with what f does. A checkpoint knows its query also by it, and does not go on with another.
        price: what it takes for a row, as '50 microseconds'; where a join tests it goes by that.
        replace: take the place of a function of that name; queries made before keep theirs.

        >>> import pyarrow.compute as pc
        >>> session = Session()
        >>> session.stream("s", pa.table({"k": [1, 2], "ts": pa.array([0, 1], pa.timestamp("us"))}), time="ts")
        >>> session.function("twice", lambda x: pc.multiply(x, 2), ["BIGINT"], "BIGINT")
        >>> session.sql("SELECT twice(k) AS k FROM s WHERE twice(k) > 2").to_arrow()["k"].to_pylist()
        [4]
        """
        self._bring("function", name, f, arguments, returns, version, replace, price)

    def aggregate(
        self,
        name: str,
        f: Callable[..., Any],
        arguments: Sequence[Any] | None = None,
        returns: Any = None,
        *,
        version: str = "",
        replace: bool = False,
    ) -> None:
        """Bring an aggregate of your own to SQL: what a Python function makes of the values of a group.

        f: called with an Arrow array for each argument, which holds the values of the rows that are in the group at an
        instant, in the order of their event times, and gives one value. It is called again whenever rows of the group
        come or go. Rows whose only argument is NULL are left out; of several arguments any may be NULL. A group
        without rows is not asked for: it is NULL. The rest is as for `function`.

        f may also be a class with `add`, `remove` and `result`: every group has an instance, which is told by arrays
        what values came and went, and then gives its value. It must say the same if all values that are in are added
        at once, in any order.

        >>> session = Session()
        >>> table = pa.table({"x": [3.0, 1.0, 2.0], "ts": pa.array([0, 1, 2], pa.timestamp("us"))})
        >>> session.stream("s", table, time="ts")
        >>> session.aggregate("spread", lambda x: max(x.to_pylist()) - min(x.to_pylist()), ["DOUBLE"], "DOUBLE")
        >>> session.sql("SELECT spread(x) AS x FROM s [UNBOUNDED]").final()["x"].to_pylist()
        [2.0]
        >>> class Total:
        ...     def __init__(self) -> None:
        ...         self.total = 0.0
        ...
        ...     def add(self, x: float) -> None:
        ...         self.total += sum(x.to_pylist())
        ...
        ...     def remove(self, x: float) -> None:
        ...         self.total -= sum(x.to_pylist())
        ...
        ...     def result(self) -> float:
        ...         return self.total
        >>> session.aggregate("total", Total)
        >>> session.sql("SELECT total(x) AS x FROM s [ROWS 2]").final()["x"].to_pylist()
        [3.0]
        """
        self._bring("aggregate", name, f, arguments, returns, version, replace)

    def _bring(
        self,
        kind: Kind,
        name: str,
        f: object,
        arguments: object,
        returns: object,
        version: str,
        replace: bool,
        price: object = None,
    ) -> None:
        brought = user_function(kind, name, f, arguments, returns, version, price)
        bring(self.catalog.functions, brought, replace=replace)

    def sql(self, text: str, parameters: Parameters | None = None) -> Query:
        """Check a query against the declared streams and tables. Nothing runs yet.

        parameters: the values of `:name` or `$name` in the text, as a dict, or of `?`, as a list. They are constants of
        their own types, whatever stands in them.

        `EXPLAIN [ANALYZE] SELECT …` gives an Explanation: it prints as the plan, and its answer is the plan's lines.
        `CREATE STREAM | TABLE …` declares, before a query or without one; `CREATE OR REPLACE` takes the place of what
        has that name. A stream without a source is there to be pushed.

        >>> session = Session()
        >>> session.stream("s", pa.table({"k": [1, 2], "ts": pa.array([0, 1], pa.timestamp("us"))}), time="ts")
        >>> list(session.sql("SELECT k FROM s WHERE k > :least", {"least": 1}))
        [{'k': 2}]
        """
        # sqlglot is loaded here, not with the session.
        with undisturbed():
            from watersmeet.runtime.script import check_engine, one_with_shared_memory, set_memory_of, statements_of
            from watersmeet.sql import bind_query
            from watersmeet.sql.parse import single_question
            from watersmeet.sql.syntax import CreateSink, CreateStream, CreateTable, CreateView, Explain

        statements, text = statements_of(text, parameters)
        check_engine(statements, text, self.host.name)
        asked, said = single_question(statements, text), set_memory_of(statements)
        memory = None if said is None else said.memory
        creating = [one for one in statements if isinstance(one, CreateStream | CreateTable | CreateView | CreateSink)]
        catalog = self._with_declared(creating, text)
        if asked is None:
            relations = [catalog[one.name] for one in creating if not isinstance(one, CreateSink)]
            found: Query = Declared(relations, self.host)
        elif isinstance(asked, Explain):
            plan = bind_query(asked.query, catalog, text, self.timezone, memory)
            plan = plan if said is None else one_with_shared_memory(plan, said, text)
            found = Explanation(plan, self.host, asked.format, asked.analyze)
        else:
            plan = bind_query(asked, catalog, text, self.timezone, memory)
            plan = plan if said is None else one_with_shared_memory(plan, said, text)
            found = Query(plan, self.host, has_values=bool(parameters))
        self.catalog.become(catalog)
        return found

    def run(self, script: str, parameters: Parameters | None = None) -> list[Outcome]:
        """Run a script: declare what it creates, write what goes into sinks, and give the answers of its other queries.

        In-process queries that look at the same streams are fed together and the others run one after the other; on
        Spark all run side by side, over what is there now, and those without a sink print their rows. What it creates
        stays declared. `parameters` are as for `sql`.
        """
        from watersmeet.runtime.script import read_script

        catalog = self.catalog.copy()
        jobs = read_script(
            script,
            catalog,
            opener=self.host.opener,
            explain=True,
            parameters=parameters,
            timezone=self.timezone,
            pushed=self.host.takes_pushes,
            only_on=self.host.name,
        )
        self.catalog.become(catalog)
        ran = iter(self.host.run_jobs([job for job in jobs if job.explaining is None]))
        return [next(ran) if job.explaining is None else self._explained(job) for job in jobs]

    def start(
        self,
        script: str,
        parameters: Parameters | None = None,
        *,
        on_late: OnLate | None = None,
        max_waiting: int = 1_000_000,
        timeout: float | None = 60.0,
        checkpoint: str | PathLike[str] | None = None,
        save_every: Interval | None = None,
        commit_every: Interval | None = None,
        gather: Interval | None = None,
        batch_rows: int | None = None,
    ) -> Runs:
        """Run the queries of a script, in this process, over rows that are pushed, once for all of them; further ones
        may be added meanwhile, and any be dropped.

        Its streams are declared without data. What `CREATE SINK … AS` names goes into its sink when it ends; the
        answers of a bare SELECT wait to be taken. The rest is as for `Query.start`.

        checkpoint: a folder. The queries keep their progress there, and the next start goes on where they were, also
        with another script: it begins what is new with what the others keep, and lets go of what it has no more.
        Streams with files are read as they come, and answers go into sinks batch by batch.

        >>> import datetime as dt
        >>> session = Session()
        >>> noon, second = dt.datetime(2026, 1, 1, 12), dt.timedelta(seconds=1)
        >>> session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
        >>> session.stream("b", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
        >>> runs = session.start("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 10 SECONDS")
        >>> for at in range(60):
        ...     runs.push("a", {"k": at, "ts": noon + at * second})
        ...     runs.push("b", {"k": -1, "ts": noon + at * second})
        >>> near = runs.add("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS", name="near")
        >>> print(near.whole_from)
        2026-01-01 12:00:54
        >>> runs.push("b", {"k": 57, "ts": noon + 60 * second})
        >>> near.take().to_pylist()
        [{'k': 57}]
        >>> _ = runs.drop("query 1")
        >>> list(runs)
        ['near']
        """
        if not self.host.takes_pushes:
            raise UnsupportedError(
                "rows are pushed in-process only",
                hint="make the session without Spark; there every query is a DataFrame that is started by itself",
            )
        from watersmeet.hosts.local.host import LocalHost
        from watersmeet.runtime.run_settings import Answers, RunSettings, checkpoint_place

        assert isinstance(self.host, LocalHost)
        answers = Answers.read(None, None, on_late, max_waiting, timeout)
        durable: dict[str, Any] = {
            "save_every": save_every, "commit_every": commit_every, "gather": gather, "batch_rows": batch_rows
        }  # fmt: skip
        said = {name: given for name, given in durable.items() if given is not None}
        if checkpoint is None:
            check_kept(said)
        place = None if checkpoint is None else checkpoint_place(checkpoint)
        settings = RunSettings.read(checkpoint=place, **said)
        return self.host.start_all(self._jobs(script, parameters), self._jobs, settings, answers)

    def _jobs(self, script: str, parameters: Parameters | None) -> list[Job]:
        """The queries of a script; what it creates stays declared."""
        from watersmeet.runtime.script import read_script

        catalog = self.catalog.copy()
        jobs = read_script(
            script,
            catalog,
            opener=self.host.opener,
            parameters=parameters,
            timezone=self.timezone,
            pushed=self.host.takes_pushes,
            only_on=self.host.name,
        )
        self.catalog.become(catalog)
        return jobs

    def _explained(self, job: Job) -> Outcome:
        from watersmeet.runtime.outcome import Outcome

        assert job.explaining is not None
        return Outcome(
            job.name, Explanation(job.plan, self.host, job.explaining.format, job.explaining.analyze).to_arrow()
        )

    def run_file(self, path: str | Path, parameters: Parameters | None = None) -> list[Outcome]:
        """Run the script in a file, see `run`."""
        try:
            script = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"the script {str(path)!r} cannot be read: {error}") from None
        return self.run(script, parameters)

    def explain(self, text: str, parameters: Parameters | None = None) -> str:
        """The plan of a query as text."""
        return self.sql(text, parameters).explain()

    def _opened_rows(self, rows: Any) -> Stream:
        from watersmeet.runtime.declaring import rows_as_stream

        return rows_as_stream(rows, self.host.opener)

    def _with_declared(
        self, statements: Sequence[CreateStream | CreateTable | CreateView | CreateSink], text: str
    ) -> Catalog:
        """The catalog with what some statements create, apart from the session's own until all is well."""
        from watersmeet.runtime.declaring import declare, declare_sink
        from watersmeet.runtime.script import declare_view
        from watersmeet.sql.declarations import declaration_of
        from watersmeet.sql.syntax import CreateSink, CreateView

        catalog = self.catalog.copy()
        for one in statements:
            if isinstance(one, CreateView):
                declare_view(one, catalog, text, self.timezone)
            elif isinstance(one, CreateSink):
                declare_sink(declaration_of(one, text), catalog, self.host.name)
            else:
                pushed = self.host.takes_pushes
                declare(declaration_of(one, text), catalog, opener=self.host.opener, pushed=pushed)
        return catalog

    def __repr__(self) -> str:
        return "\n".join(["<Session>", *(f"  {' '.join(line)}".rstrip() for line in self._declared())])

    def _repr_html_(self) -> str:
        """For notebooks: what is declared."""
        from watersmeet.io.showing import html_table

        return f"<p><b>Session</b></p>{html_table(['', 'name', 'columns'], self._declared())}"

    def _declared(self) -> list[tuple[str, str, str]]:
        from watersmeet.io.showing import columns_text

        relations = [self.catalog[name] for name in self.catalog.names()]
        return [(kind_of(one), one.name, f"({columns_text(one.schema)})") for one in relations]
