"""Runs on Spark that end: whole without a checkpoint, told and finished with one; late rows told where people look."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.runners import Source, by_reference
from tests.spark.harness import streaming_frame
from tests.spark.test_run import STREAMS, add, bag, rows_of
from tests.warned import code_of
from watersmeet import Session
from watersmeet.errors import OptionError, SetupError
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.hosts.spark.progress.listener import listener_of
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import COMMAND_LINE, RunSettings
from watersmeet.runtime.script import read_script

SECOND = 1_000_000
PARITY = """SELECT a.k + b.k AS s, COUNT(*) AS n FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS]
            WHERE a.k = b.k GROUP BY a.k + b.k"""
GROUPS = "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(query: str, streams: str = STREAMS) -> str:
    return f"{streams} CREATE SINK s WITH (sink='parquet', path='out') AS {query};"


def run(spark: SparkSession, text: str, checkpoint: str | None = None, *, flush: bool = False) -> RunningQuery:
    (ended,) = SparkRun(spark, text, RunSettings(checkpoint, available_now=True, buckets=2, flush=flush)).run()
    return ended


def written() -> Counter[tuple[object, ...]]:
    return bag(pa_parquet.read_table("out"))


def in_process(text: str) -> Counter[tuple[object, ...]]:
    (job,) = read_script(text)
    return bag(pa.Table.from_batches(PulledExecution(job.plan).batches(), schema=job.plan.output_schema))


def test_a_run_without_a_checkpoint_gives_the_whole_answer_also_through_two_stages_and_from_text(
    spark: SparkSession, here: Path
) -> None:
    """The first stage is a join, of Parquet and CSV; its end must reach the second, which groups by another key."""
    add(here / "a", 0, rows_of(0, 20))
    add(here / "a", 1, rows_of(20, 20))
    (here / "b").mkdir()
    pa_csv.write_csv(rows_of(0, 40).select(["ts", "k"]), "b/rows.csv")
    text = script(PARITY, STREAMS.replace("source='parquet', path='b'", "source='csv', path='b'"))
    ended = run(spark, text)
    assert written() == in_process(text)
    assert ended.metrics.waiting_by_stream == {}


def test_with_a_checkpoint_the_tail_waits_is_told_and_flushed_and_the_query_goes_on(
    spark: SparkSession, here: Path
) -> None:
    text = script(GROUPS, STREAMS.splitlines()[1])
    for number in range(2):
        add(here / "a", number, rows_of(20 * number, 20))
    ended = run(spark, text, "ck")
    assert (ended.metrics.waiting_by_stream, ended.metrics.waiting_until_us) == ({"a": 1}, 1039 * SECOND)
    assert written() != in_process(text)
    ended = run(spark, text, "ck", flush=True)
    assert (ended.metrics.rows_in, ended.metrics.waiting_by_stream) == (0, {})
    assert written() == in_process(text)
    # The last group left its window at 1044 s and 1 microsecond: up to there everything is answered.
    add(here / "a", 2, rows_of(42, 20))
    ended = run(spark, text, "ck", flush=True)
    assert (ended.metrics.rows_in, ended.metrics.late_rows, ended.metrics.late_by_stream) == (20, 3, {"a": 3})
    add(here / "a", 2, rows_of(45, 17))
    assert written() == in_process(text)


def test_a_stream_that_sparks_own_reader_reads_is_answered_whole_as_well(
    spark: SparkSession, here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It cannot tell its end, so the query is started once more to tell it."""
    for number in range(2):
        add(here / "a", number, rows_of(20 * number, 20))
    text = script(GROUPS, STREAMS.splitlines()[1].replace("time=", "packed='false', time="))
    ended = run(spark, text)
    assert written() == in_process(text)
    assert (ended.metrics.rows_in, ended.metrics.waiting_by_stream) == (40, {})
    assert "stream 'a' is read by Spark's own reader: files of the same millisecond come in any order" in caplog.text


def test_twelve_files_of_one_moment_are_read_by_name_and_lose_no_row(spark: SparkSession, here: Path) -> None:
    """Written in another order than that of their names, which is that of their times."""
    for name in "abc":
        for number in (7, 2, 11, 0, 5, 9, 1, 10, 3, 8, 6, 4):
            add(here / name, number, rows_of(5 * number, 5))
            (here / name / f"part-{number}.parquet").rename(here / name / f"part-{number:02}.parquet")
            os.utime(here / name / f"part-{number:02}.parquet", ns=(10**18, 10**18 + 1))
    streams = STREAMS + STREAMS.splitlines()[1].replace("STREAM a", "STREAM c").replace("'a'", "'c'")
    text = script("SELECT a.k, a.ts AS at, b.ts AS bt, c.ts AS ct FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
                  "WINDOW = 1 SECOND", streams)  # fmt: skip
    ended = run(spark, text.replace("maxFilesPerTrigger='1'", "maxFilesPerTrigger='4'"))
    sources = [Source(name, rows_of(0, 60), "ts") for name in "abc"]
    assert ended.metrics.late_rows == 0
    assert written().total() == by_reference("SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 1 SECOND",
                                             sources).total()  # fmt: skip


# ---- DataFrames of the user's own -----------------------------------------------------------------------------------


@contextmanager
def warned(spark: SparkSession) -> Iterator[list[warnings.WarningMessage]]:
    """What was warned of until all queries have ended and Spark has told so, which it does from another thread."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
        listener_of(spark)
        spark._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]


def own_frames(spark: SparkSession, folder: Path, **options: str) -> Session:
    session = Session(spark, buckets=2)
    for name in "ab":
        frame = streaming_frame(spark, folder / name, rows_of(0, 1).schema)
        session.stream(name, frame, time="ts", **options)
    return session


def test_a_query_over_own_frames_warns_of_rows_that_wait_and_finish_answers_them(
    spark: SparkSession, here: Path
) -> None:
    for name in "ab":
        add(here / name, 0, rows_of(0, 20))
    sql = "SELECT a.k, b.ts FROM a [ROWS 2], b [RANGE 2 SECONDS] WHERE a.k = b.k"
    query = own_frames(spark, here).sql(sql)
    checkpoint = str(here / "ck")

    def write(answer: DataFrame):  # type: ignore[no-untyped-def]
        return answer.writeStream.format("parquet").option("path", str(here / "out"))

    with warned(spark) as caught:
        writer = write(query.dataframe()).option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()
    (told,) = [str(one.message) for one in caught if code_of(one) == "waiting_rows"]
    assert "1 row of a and 1 row of b wait until 1970-01-01 00:16:59; later rows" in told
    whole = by_reference(sql, [Source(name, rows_of(0, 20), "ts") for name in "ab"])
    assert spark.read.parquet(str(here / "out")).count() < whole.total()
    with warned(spark) as caught:
        query.finish(write, checkpoint=checkpoint)
    assert not caught
    assert spark.read.parquet(str(here / "out")).count() == whole.total()
    with pytest.raises(SetupError, match="is not the checkpoint of a query that has started"):
        query.finish(write, checkpoint=str(here / "another"))


def test_late_rows_are_warned_of_or_end_the_query_and_rows_of_the_far_future_make_none_late(
    spark: SparkSession, here: Path
) -> None:
    far = pa.table({"k": pa.array([1], pa.int64()), "ts": pa.array([2**52], pa.timestamp("us"))})
    for name in "ab":
        add(here / name, 0, pa.concat_tables([rows_of(10, 10), far]))
        add(here / name, 1, rows_of(5, 15))
    sql = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"
    query = own_frames(spark, here, max_future="1 hour").sql(sql)
    with warned(spark) as caught:
        query.dataframe().writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
    told = sorted(str(one.message).partition(": ")[2] for one in caught if code_of(one) == "late_rows")
    how = "up to 14 s behind its newest row, of 1970-01-01 00:16:59.000000; set lateness='14 s' or more"
    for name, one in zip("ab", told, strict=True):
        assert one.endswith(f": 14 rows of stream {name!r} came too late and are left out of the answer: {how}")
    assert query.metrics()["future_rows"] == {"a": 1, "b": 1}
    strict = own_frames(spark, here, max_future="1 hour", on_late="error").sql(sql)
    started = strict.dataframe().writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(
        Exception, match=r"(?s)rows? of stream '[ab]' came too late .*hint: set lateness='1[34] s' or more"
    ):
        started.awaitTermination()


# ---- without a query ------------------------------------------------------------------------------------------------


def test_what_cannot_be_flushed_is_refused() -> None:
    with pytest.raises(OptionError, match="it needs --checkpoint DIR"):
        RunSettings.read(COMMAND_LINE, available_now=True, flush=True)
    with pytest.raises(OptionError, match="it needs --available-now and --checkpoint DIR"):
        RunSettings.read(COMMAND_LINE, flush=True)
