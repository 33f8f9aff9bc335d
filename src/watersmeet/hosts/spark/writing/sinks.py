"""The outputs of a script on Spark: WITH (sink = …, path = …, mode = …, …) as a streaming query that is started."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import LocalFileSystem
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.errors import SinkError, WatersmeetError
from watersmeet.hosts.spark.checkpoints.beginning import Beginning
from watersmeet.hosts.spark.checkpoints.checkpoint import Checkpoint
from watersmeet.hosts.spark.checkpoints.place import is_here
from watersmeet.hosts.spark.errors import first_useful_line
from watersmeet.hosts.spark.exchange.bad_records import has_side_outputs
from watersmeet.hosts.spark.formats import way_out
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.writing.file_claim import FileClaim
from watersmeet.hosts.spark.writing.group_writer import FORMATS, SparkFiles, Take
from watersmeet.hosts.spark.writing.sink_run import SinkRun
from watersmeet.hosts.spark.writing.sink_writer import SideSinks, SinkWriter, unpacked
from watersmeet.io.conform import conform
from watersmeet.io.connectors.files.local_folder import PREFIX
from watersmeet.io.connectors.numbered_sinks import adding, numbered_sink
from watersmeet.io.connectors.registry import OURS as OUR_CONNECTORS
from watersmeet.io.connectors.registry import connector_named
from watersmeet.io.console import ConsoleSink
from watersmeet.io.modes import SPARK_LOG, appending, check_replaceable, in_the_way, mode_of, visible_files
from watersmeet.io.partitioned import partition_columns
from watersmeet.io.path_formats import SPELLINGS, written_kind
from watersmeet.io.sink_options import OURS as OUR_OPTIONS
from watersmeet.io.sink_options import TEXTS
from watersmeet.io.sinks import limit_of
from watersmeet.io.source_options import TO_SPARK, name_for_spark
from watersmeet.io.writers import WRITERS
from watersmeet.plan.answer_keys import answer_keys, change_column
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.script import Job
from watersmeet.runtime.side_output import SideOutput, side_run
from watersmeet.runtime.watched import OnAnswers

log = logging.getLogger("watersmeet")
OURS = frozenset({"sink", "path", "mode", "limit", "partition_by"})
FILES = frozenset({"parquet", "csv", "tsv", "json", "orc", "text"})


class SparkSink:
    """Where the results of one job go. Making it checks what can be checked before anything runs."""

    def __init__(
        self,
        job: Job,
        checkpoint: str,
        *,
        over_connect: bool = False,
        durable: bool = False,
        begun: Beginning | None = None,
    ) -> None:
        """durable: a later run may go on with the checkpoint, or with a copy of it. begun: with what the run began, if
        with a savepoint: then it adds to what another has written, which Spark's own writer of files cannot."""
        adds = begun is not None and not begun.afresh
        job = replace(job, sink=adding(job.sink)) if adds else job
        given = {key.lower(): value for key, value in job.sink.items()}
        self.job = job
        self.on_rows: OnAnswers | None = None  # is called with rows that are printed
        self.checkpoint = checkpoint
        self.path = given.get("path")
        said = given.get("sink", "").lower()
        self.kind = _kind(job.name, said, self.path)
        self.connector = connector_named(given.get("sink"))
        self.has_sides = has_side_outputs(job.plan)
        # Spark has other texts than we, and of its intervals in Parquet nobody else knows what they are.
        in_its_way = self.kind in TEXTS or (self.kind == "parquet" and _has_intervals(job.plan.output_schema))
        self.is_numbered = (
            self.connector is not None
            or self.has_sides
            or (in_its_way and not said.startswith(TO_SPARK))
            or (adds and self.kind in WRITERS)
        )
        self._durable = durable
        self._run: SinkRun | None = None
        self._numbered: SinkWriter | None = None
        self.claimed: FileClaim | None = None  # what Spark writes there by itself
        self.mode = given.get("mode", "error").lower()
        self.limit = limit_of(job.name, given)
        self.partition_by = partition_columns(job.name, given.get("partition_by"), job.plan.output_schema)
        self.options = {name_for_spark(key): value for key, value in job.sink.items() if key.lower() not in OURS}
        if self.connector is not None:
            self._check_connected(over_connect)
            return
        if self.has_sides:
            self._check_beside(over_connect)
            return
        mode_of(job.name, given)
        if self.is_numbered:
            self._check_written_here(over_connect)
            return
        if self.kind in FILES:
            self._check_files()
        if self.kind == "console" and over_connect:
            raise SinkError(
                f"{job.name} would print on the console of the Spark Connect server, not here",
                hint="write to files with CREATE SINK, or use --master instead of --remote",
            )

    def open(self, spark: SparkSession, run: SinkRun | None = None) -> None:
        """Open what is written to, before any query of the script starts: several may send to one sink beside their
        answers, and what one has sent there is not for another to refuse or to clear away. run: that of the queries
        that share a checkpoint."""
        if self._run is not None:  # a query may start again, to end
            return
        self._run = run or SinkRun(Checkpoint(spark, self.checkpoint), durable=self._durable)
        self._clear_old()
        with self._starting():
            if self.is_numbered:
                self._numbered = self._numbering(self._run)
            else:
                self._claim_files(spark, self._run)
        if run is None:
            self._run.opened()

    def start(self, df: DataFrame, trigger: Mapping[str, Any]) -> StreamingQuery:
        """Start writing a streaming DataFrame."""
        self.open(df.sparkSession)
        writer = df.writeStream.queryName(self.job.name).outputMode("append")
        writer = writer.option("checkpointLocation", self.checkpoint).trigger(**trigger)
        with self._starting():
            return self._to(writer).start()

    @contextmanager
    def _starting(self) -> Iterator[None]:
        try:
            yield
        except WatersmeetError:
            raise
        except Exception as error:
            hint = way_out(str(error), "sink")
            raise SinkError(f"{self.job.name} cannot start: {first_useful_line(error)}", hint=hint) from None

    def _clear_old(self) -> None:
        # Going on from a checkpoint, Spark adds to what the same query wrote; clearing it would lose what was answered.
        if self.kind in FILES and self.mode == "overwrite" and not self._resumes():
            _clear(Path(self.path or ""), self.partition_by)

    def _claim_files(self, spark: SparkSession, run: SinkRun) -> None:
        """Where we can see them."""
        if self._durable and self.kind in FILES and self.path and is_here(spark, self.path):
            self.claimed = FileClaim(self.job.name, Path(self.path), run)

    @property
    def by_driver(self) -> bool:
        """Whether all answers of a batch come to the driver, which writes them."""
        return self.is_numbered or self.kind == "console"

    def close(self) -> None:
        """Let go of what was opened."""
        if self._numbered is not None:
            self._numbered.close()

    def _check_connected(self, over_connect: bool) -> None:
        assert self.connector is not None
        if self.connector.sink is None:
            raise SinkError(f"{self.connector.name!r} cannot be written to", hint="it is for CREATE STREAM or TABLE")
        if over_connect:
            raise SinkError(
                f"{self.job.name} would be written to {self.connector.name!r} by the Spark Connect server, not here",
                hint="use --master instead of --remote, or write with a format that Spark has itself",
            )

    def _check_beside(self, over_connect: bool) -> None:
        """Answers and what goes beside them are committed together, under one number: by us, not by a writer of
        Spark's."""
        if self.kind not in (*WRITERS, "console") or over_connect:
            raise SinkError(
                f"{self.job.name} reads a stream whose bad records or late rows go to a sink, but its answers go to "
                f"{self.kind!r}, which Spark writes by itself",
                hint="write them to parquet, csv or json files or to a connector, or say on_bad = 'skip' and "
                "on_late = 'count'",
            )

    def _check_written_here(self, over_connect: bool) -> None:
        """Text, and Parquet with intervals: by us, from the driver, so that a row is the same bytes on both hosts."""
        others = [name for name in self.options if name.lower() not in OUR_OPTIONS[self.kind]]
        elsewhere = self.path is not None and has_scheme(self.path)
        if not (over_connect or elsewhere or others):
            return
        why = "by the Spark Connect server" if over_connect else f"to {self.path}" if elsewhere else f"with {others[0]}"
        ours = "" if over_connect or others else f"sink = 'files', format = '{self.kind}', which is ours, or "
        raise SinkError(
            f"{self.job.name} would be written as {self.kind} {why}, as only Spark's own writer does",
            hint=f"say {ours}sink = '{TO_SPARK}{'csv' if self.kind == 'tsv' else self.kind}', which is Spark's and "
            "writes texts and intervals in its own way",
        )

    def _numbering(self, run: SinkRun) -> SinkWriter:
        """What takes the batches of this run."""
        plan, name = self.job.plan, self.job.name
        sink = numbered_sink(
            name,
            appending(self.job.sink, {self.path}) if run.goes_on and self.path else self.job.sink,
            plan.output_schema,
            run.name_for(name),
            keys=answer_keys(plan),
            changes=change_column(plan),
            committed=run.taken.get(name, -1),
            tell=_tell,
            start=run.start,
        )
        if any(option.lower() == "commit_every" for option in self.job.sink):
            log.warning("%s: on Spark every batch is a commit, whatever commit_every says; see --trigger", name)
        run.claims(sink)
        sides = open_sides([plan], run) if self.has_sides and not run.is_shared else None
        made = SinkWriter(name, plan, sink, run.noted, self.on_rows, sides)
        run.check(made.committed())
        return made

    @property
    def take(self) -> Take | None:
        """What takes the rows of a batch here; None where Spark writes them to files."""
        if self._numbered is not None:
            return self._numbered.take
        if self.kind == "console":
            show, schema = self._printer(), self.job.plan.output_schema
            return lambda number, packets: show(unpacked(packets, schema), number)
        return None

    @property
    def files(self) -> SparkFiles:
        schema = self.job.plan.output_schema
        return SparkFiles(str(self.path), self.kind, self.options, tuple(self.partition_by or ()), schema)

    def _to(self, writer: DataStreamWriter) -> DataStreamWriter:
        if self._numbered is not None:
            return writer.foreachBatch(self._numbered)
        if self.kind == "console":
            show = self._printer()
            return writer.foreachBatch(lambda batch, number: show(batch.toArrow(), number))
        writer = writer.format(self.kind).options(**self.options)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        return writer.option("path", str(self.path)) if self.path else writer

    def _printer(self) -> Callable[[pa.Table, int], None]:
        """What prints the rows of every batch here."""
        schema = self.job.plan.output_schema
        console = ConsoleSink(schema, sys.stdout, self.limit)

        def show(answers: pa.Table, number: int) -> None:
            rows = [conform(one, schema) for one in answers.to_batches()]
            for one in rows:
                console.write(one)
            console.flush()
            if self.on_rows is not None:
                self.on_rows(number, rows)

        return show

    def _resumes(self) -> bool:
        return is_checkpoint(self.checkpoint)

    def _check_files(self) -> None:
        if not self.path:
            raise SinkError(f"sink {self.job.name!r} has no path to write to", hint="add path = '…' to its WITH (…)")
        elsewhere = next((one for one in (self.path, self.checkpoint) if has_scheme(one)), None)
        if elsewhere is not None and self.mode == "overwrite":
            raise SinkError(
                f"sink {self.job.name!r} has mode = 'overwrite', but what is at {elsewhere} cannot be seen from here",
                hint="clear the old output yourself and leave mode out; a run that goes on never needs it",
            )
        target = Path(self.path).expanduser()
        if has_scheme(self.path):
            return
        self.path = str(target.absolute())
        # Nobody here can say whether a checkpoint elsewhere resumes; Spark itself keeps the outputs of two runs apart.
        if has_scheme(self.checkpoint) or self._resumes() or not _holds_something(target):
            return
        if self.mode == "overwrite":
            _check_may_clear(target, self.partition_by)
            return
        holds = "holds the output of another run, to which a new one cannot append"
        raise in_the_way(f"{target} {holds if self.mode == 'append' else 'already exists'}", can_append=False)


def takes_batches(job: Job) -> bool:
    """Whether the sink of a query can be given the rows of a batch, as where several queries run as one."""
    given = {key.lower(): value for key, value in job.sink.items()}
    said = given.get("sink", "").lower()
    kind = _kind(job.name, said, given.get("path"))
    ours = () if said.startswith(TO_SPARK) else (*WRITERS, "console")
    return kind in (*ours, *FORMATS) or connector_named(given.get("sink")) is not None


def _tell(what: Warning) -> None:
    log.warning("%s", what)


def open_sides(plans: Sequence[Plan], run: SinkRun) -> SideSinks:
    """The sinks beside the answers of queries; another query of the script may write to them too."""
    streams = {one.name: one for plan in plans for one in streams_below(plan.root)}
    output = SideOutput(streams.values())
    sinks = {
        name: numbered_sink(
            name,
            side_options(one.options, goes_on=run.goes_on),
            output.schemas[name],
            side_run(run.name, name),
            committed=run.taken.get(name, -1),
            tell=_tell,
            start=run.start,
        )
        for name, one in output.sinks.items()
    }
    run.claims(*sinks.values())
    return SideSinks(output, sinks, streams)


def side_options(options: Mapping[str, str], *, goes_on: bool) -> dict[str, str]:
    """What goes to a sink beside answers is added to what other queries and earlier runs sent there; what is to be
    replaced there is when a query is new."""
    given = {name.lower(): value for name, value in options.items()}
    kind = given.get("sink", "").lower()
    if kind == "console" or (kind not in OUR_CONNECTORS and connector_named(kind) is not None):
        return given
    said = {"mode": "append", **given}
    return appending(said, {said.get("path", "")}) if goes_on else said


def _has_intervals(schema: pa.Schema) -> bool:
    return any(pa.types.is_duration(kind) for kind in schema.types)


def is_checkpoint(folder: str) -> bool:
    """Whether a folder of this machine is the checkpoint of a query that has started once."""
    return (Path(folder) / "metadata").is_file()


def _kind(name: str, written: str, path: str | None) -> str:
    written = written.removeprefix(TO_SPARK) or written_kind(path or "") or ""
    kind = SPELLINGS.get(written, written)
    if not kind:
        raise SinkError(
            f"sink {name!r} does not say its kind",
            hint="add sink = 'parquet', 'csv', 'tsv', 'json', 'console' or any format of Spark",
        )
    return kind


def _holds_something(target: Path) -> bool:
    # A start that failed may have claimed it, and written nothing.
    return target.is_file() or (target.is_dir() and any(not one.name.startswith(PREFIX) for one in target.iterdir()))


def _check_may_clear(target: Path, columns: Sequence[str]) -> None:
    """Overwriting removes a file, or a folder that a query wrote: Spark's has its log in it."""
    if target.is_dir() and not (target / SPARK_LOG).is_dir():
        check_replaceable(target, visible_files(LocalFileSystem(), str(target)), columns)


def _clear(target: Path, columns: Sequence[str]) -> None:
    _check_may_clear(target, columns)
    if target.is_file():
        target.unlink()
    elif target.is_dir():
        shutil.rmtree(target)
