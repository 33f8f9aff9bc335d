"""The archive of a join in bounded memory on Spark: what workers write, and how the driver says which of it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet.archive.folder import Archive, OpenRun, RunFolder
from watersmeet.archive.targets import ConsoleTarget, Target
from watersmeet.errors import UnsupportedError
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.hosts.spark.task import batch_number, query_id
from watersmeet.io.conform import conform
from watersmeet.model.catalog import Table
from watersmeet.operators.contract import Operator
from watersmeet.plan.query import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from watersmeet.archive.completion import Completion, Round
    from watersmeet.hosts.spark.jobs.job import SparkJob


# ---- workers --------------------------------------------------------------------------------------------------------


def write_page(job: SparkJob, operator: Operator, bucket: int, turn: int) -> dict[str, int]:
    """Write what a bucket recorded in this batch; what it counts. Outside Spark a turn is taken for a batch."""
    shedding = job.plan.shedding
    if shedding is None or shedding.archive is None or operator.bounded is None or operator.bounded.recorder is None:
        return {}
    run = RunFolder.of(Path(shedding.archive), query_id())
    # Whichever worker comes first makes the folder; the driver says later which batches in it were committed.
    run.follow()
    for name, packet in job.tables.items():
        if not run.has_table(name):
            run.write_table(name, pa.Table.from_batches(list(from_packet(packet)), job.table_schema(name)))
    number = batch_number()
    return write_page_into(run, operator, bucket, turn if number is None else number)


def write_page_into(run: RunFolder, operator: Operator, bucket: int, batch: int) -> dict[str, int]:
    assert operator.bounded is not None
    recorder, counters = operator.bounded.recorder, operator.counters
    assert recorder is not None
    rows = recorder.recorded_rows - recorder.taken_rows
    page = recorder.take(counters.results, counters.lost_results)
    if not (page.records.num_rows or page.results or page.lost):
        return {}
    return {"archived_rows": rows, "archived_bytes": run.write(page, bucket, batch)}


# ---- the driver -----------------------------------------------------------------------------------------------------


def with_archive(plan: Plan) -> Plan:
    """The plan with an archive that is there, under a name that does not depend on where a worker runs."""
    there = with_archive_path(plan)
    if there.shedding is not None and there.shedding.archive is not None:
        Archive.for_writing(Path(there.shedding.archive), plan)
    return there


def with_archive_path(plan: Plan) -> Plan:
    """The plan with its archive, if it has one, under that name; nothing is made yet."""
    shedding = plan.shedding
    if shedding is None or shedding.archive is None:
        return plan
    path = Path(shedding.archive).expanduser().absolute()
    return replace(plan, options=plan.options.but(archive=str(path)))


@contextmanager
def archived_answer(plan: Plan) -> Iterator[OpenRun | None]:
    """Over bounded input: a run whose records count if the block ends well."""
    shedding = plan.shedding
    if shedding is None or shedding.archive is None:
        yield None
        return
    run = Archive.for_writing(Path(shedding.archive).expanduser().absolute(), plan).begin()
    try:
        for table in plan.relations:
            if isinstance(table, Table):
                run.write_table(table.name, conformed(table.source.toArrow(), table.schema))
        yield run
    except BaseException:
        run.abort()
        raise
    run.commit()


def refuse_archive(plan: Plan) -> None:
    shedding = plan.shedding
    if shedding is not None and shedding.archive is not None:
        raise UnsupportedError(
            "a batch DataFrame may be read in part, or twice, so what is missing from it cannot be archived",
            hint="use to_arrow() or batches(), or streaming DataFrames; or leave archive out",
        )


def conformed(data: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([conform(batch, schema) for batch in data.to_batches()], schema)


def follow(plan: Plan, query: str, checkpoint: str, *, ended: bool) -> None:
    """Say which batches of a query count; once it has ended, for good, as its checkpoint may be gone later."""
    shedding = plan.shedding
    if shedding is None or shedding.archive is None or has_scheme(checkpoint):
        return
    commits = Path(checkpoint) / "commits"
    commits_known: dict[str, str | int] = {"commits": str(commits)}
    if ended and commits.is_dir():
        commits_known["until"] = max((int(one.name) for one in commits.iterdir() if one.name.isdigit()), default=-1)
    RunFolder.of(Path(shedding.archive), query).follow(**commits_known)


# ---- completing -----------------------------------------------------------------------------------------------------


class CompleteOnSpark:
    """Completes a chunk as a Spark job, a task for each bucket. Each writes a file of its own, whole or not at all."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def chunk(self, completion: Completion, of: Round, chunk: int, target: Target, name: str) -> int:
        from watersmeet.archive.complete import CompleteInProcess

        if isinstance(target, ConsoleTarget):
            return CompleteInProcess().chunk(completion, of, chunk, target, name)
        groups = len(completion.parts)
        tasks = self.spark.range(0, groups, 1, groups)
        done = tasks.mapInArrow(_completer(completion, of, chunk, target, name), "completed long")
        return sum(row["completed"] for row in done.collect())


def _completer(
    completion: Completion, of: Round, chunk: int, target: Target, name: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def complete(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from watersmeet.archive.complete import written

        groups = list(completion.parts)
        for batch in tasks:
            for number in batch.column(0).to_pylist():
                group = groups[number]
                rows = written(completion.missing(group, of, chunk), target.sink(f"{name}-{group.label}"))
                yield pa.RecordBatch.from_pydict({"completed": pa.array([rows], pa.int64())})

    return complete
