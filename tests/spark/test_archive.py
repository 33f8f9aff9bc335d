"""Joins in bounded memory on Spark are completed later: each missing row once, whatever crashed in between."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.effort import thinned
from tests.runners import Bag, Source, bag_of, by_reference
from tests.spark.harness import cut, write_arrivals
from tests.spark.simulation import LOSSES, Simulation, another_node
from tests.spark.test_shedding import QUERIES, bounded, pieces_of, sources_of
from watersmeet.archive.complete import Completing
from watersmeet.archive.completion import Completion
from watersmeet.archive.folder import Archive, follow_checkpoint
from watersmeet.archive.targets import FolderTarget
from watersmeet.errors import SourceError, UnsupportedError
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.archive import CompleteOnSpark, follow, with_archive
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.hosts.spark.task import BATCH_RUN
from watersmeet.runtime.run_settings import RunSettings


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def archiving(name: str, archive: Path, recall: str = "exact") -> str:
    return bounded(name, recall).replace("OPTIONS (", f"OPTIONS (archive = '{archive}', ")


def rows_in(folder: Path) -> Bag:
    return sum((bag_of(pa_parquet.read_table(one, partitioning=None)) for one in folder.rglob("*.parquet")), Bag())


# ---- without Spark, so that crashes can be put anywhere -------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recall"), thinned(QUERIES, ["exact", "none"]))
def test_every_bucket_archives_what_it_loses(name, recall, tmp_path):
    sources = sources_of(name)
    run = Simulation(archiving(name, tmp_path / "archive", recall), sources, 4)
    with_archive(run.job.plan)
    found, exact = run.run(pieces_of(sources)), Simulation(QUERIES[name], sources, 4).run(pieces_of(sources))
    Archive.open(tmp_path / "archive").run_named(BATCH_RUN).follow(until=1000)
    completed = bag_of(wm.complete(tmp_path / "archive", chunk_rows=30))
    assert completed
    assert found + completed == exact
    assert run.counted("archived_rows") > 0
    assert run.counted("archived_bytes") == sum(p.stat().st_size for p in tmp_path.rglob("*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lost"), [("a common key", "another node"), ("rows", "another worker")])
def test_batches_that_crash_and_run_again_overwrite_their_own_files(name, lost, tmp_path):
    sources = sources_of(name)
    exact = Simulation(QUERIES[name], sources, 2).run(pieces_of(sources))
    another_node()
    sql = archiving(name, tmp_path / "archive")
    run = Simulation(sql, sources, 2, crash_everywhere=True, after_crash=LOSSES[lost])
    with_archive(run.job.plan)
    found = run.run(pieces_of(sources))
    assert run.crashes >= 50
    Archive.open(tmp_path / "archive").run_named(BATCH_RUN).follow(until=1000)
    assert found + bag_of(wm.complete(tmp_path / "archive")) == exact


# ---- on Spark -------------------------------------------------------------------------------------------------------


def test_a_streaming_query_is_completed_as_a_batch_job(spark, tmp_path):
    """Stopped and started again, completed before and after; a batch that was not committed does not count."""
    name = "a common key"
    sources = sources_of(name)
    script = _script(name, sources, tmp_path)
    for number in range(2):
        for source in sources:
            write_arrivals(tmp_path / source.name, cut(source.table, [20, 40])[: number + 1])
        choices = RunSettings(available_now=True, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
        (ended,) = SparkRun(spark, script, choices).run()
        assert ended.metrics.archived_rows > 0
        given = bag_of(pa_parquet.read_table(tmp_path / "out").cast(ended.job.plan.output_schema))
        uncommitted = _batch_that_crashed(tmp_path)
        completion = Completion(Archive.open(tmp_path / "archive"), ended.job.plan)
        target = FolderTarget(tmp_path / "completed", "parquet", completion.schema, {})
        report = Completing(completion, target, CompleteOnSpark(spark)).run()
        assert report.total == given.total() + (report.lost or 0)
        uncommitted.unlink()
    assert report.completed
    assert report.completed_before
    assert given + rows_in(tmp_path / "completed") == by_reference(QUERIES[name], sources)
    assert "the exact answer" in report.describe()
    # Once a query has ended its checkpoint is not needed; and one that was started by hand is told of it.
    follow_checkpoint(tmp_path / "archive", str(tmp_path / "checkpoint"))
    assert bag_of(wm.complete(tmp_path / "archive")) == rows_in(tmp_path / "completed")
    follow(ended.job.plan, str(ended.query.id), str(tmp_path / "checkpoint"), ended=True)
    shutil.rmtree(tmp_path / "checkpoint")
    assert bag_of(wm.complete(tmp_path / "archive")) == rows_in(tmp_path / "completed")


def _script(name: str, sources: list[Source], folder: Path) -> str:
    streams = [
        f"CREATE STREAM {source.name} (id BIGINT, ts TIMESTAMP, x BIGINT, y BIGINT) "
        f"WITH (source = 'parquet', path = '{folder / source.name}', time = 'ts');"
        for source in sources
    ]
    sink = f"CREATE SINK out WITH (sink = 'parquet', path = '{folder / 'out'}') AS "
    return "\n".join([*streams, sink + archiving(name, folder / "archive")])


def _batch_that_crashed(folder: Path) -> Path:
    """What a batch leaves that wrote to the archive and was not committed."""
    (run,) = Archive.open(folder / "archive").runs()
    committed = max(int(one.name) for one in (folder / "checkpoint" / "commits").iterdir() if one.name.isdigit())
    part = run.parts()[-1]
    left = run.path / f"{part.bucket:05d}-{committed + 1:09d}.parquet"
    shutil.copy(part.path, left)
    return left


def test_bounded_dataframes_are_archived_when_read_to_the_end(spark, tmp_path):
    name = "a common key"
    sources = sources_of(name)
    session = wm.Session(spark, buckets=2)
    for source in sources:
        session.stream(source.name, source.table, time="ts")
    query = session.sql(archiving(name, tmp_path / "archive"))
    given = bag_of(query.to_arrow())
    assert given + bag_of(wm.complete(query)) == by_reference(QUERIES[name], sources)
    with pytest.raises(UnsupportedError, match="cannot be archived"):
        query.dataframe()


def test_what_is_no_checkpoint_is_told(tmp_path):
    pa_parquet.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match="not the checkpoint of a query"):
        follow_checkpoint(tmp_path, str(tmp_path))
