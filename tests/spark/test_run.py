"""A script on Spark gives the answer it gives in-process, goes on where it stopped, and fails in sentences."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.sql import SparkSession

from watersmeet.cli.run_on_spark import run_command
from watersmeet.cli.voice import speak
from watersmeet.errors import DataError, SetupError, SinkError, SourceError, WatersmeetError
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.run import QueryError, SparkRun
from watersmeet.runtime.checkpoints import query_folders
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script
from watersmeet.session import Session

SECOND = 1_000_000
NOW = RunSettings(available_now=True, buckets=2)


def rows_of(first: int, count: int) -> pa.Table:
    """One row a second, three rows to a key."""
    numbers = range(first, first + count)
    times = pa.array([SECOND * (1000 + k) for k in numbers], pa.timestamp("us"))
    return pa.table({"k": pa.array([k // 3 for k in numbers], pa.int64()), "ts": times})


def add(folder: Path, number: int, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"part-{number}.parquet"
    pa_parquet.write_table(table, path)
    os.utime(path, (1e9 + number, 1e9 + number))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two streams in folders of one file each, in the current folder."""
    monkeypatch.chdir(tmp_path)
    arrive(tmp_path, 0)
    return tmp_path


def arrive(folder: Path, number: int) -> None:
    """The next file of both streams."""
    for name in ("a", "b"):
        add(folder / name, number, rows_of(20 * number, 20))


STREAMS = """
CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (source='parquet', path='a', time='ts', maxFilesPerTrigger='1');
CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (source='parquet', path='b', time='ts', maxFilesPerTrigger='1');
"""
JOIN = "SELECT a.k, a.ts AS at, b.ts AS bt FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"
SCRIPT = f"{STREAMS} CREATE SINK pairs WITH (sink='parquet', path='out') AS {JOIN};"


def run(
    spark: SparkSession, script: str = SCRIPT, checkpoint: str | None = "ck", **choices: object
) -> list[RunningQuery]:
    return SparkRun(
        spark, script, RunSettings(checkpoint=checkpoint, **{"available_now": True, "buckets": 2, **choices})
    ).run()  # type: ignore[arg-type]


def written(folder: str = "out") -> Counter[tuple[object, ...]]:
    return bag(pa_parquet.read_table(folder))


def bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def in_process(script: str = SCRIPT) -> Counter[tuple[object, ...]]:
    (job,) = read_script(script)
    return bag(pa.Table.from_batches(PulledExecution(job.plan).batches(), schema=job.plan.schema))


@dataclass(frozen=True)
class Ran:
    """A script that has run to its end, in the current folder, over two files of each stream."""

    folder: Path
    ended: RunningQuery
    batches: list[int]
    answer: Counter[tuple[object, ...]]
    expected: Counter[tuple[object, ...]]


@pytest.fixture(scope="module")
def ran_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """For tests that leave it as it is, or go on with it."""
    folder = tmp_path_factory.mktemp("ran")
    for number in range(2):
        arrive(folder, number)
    batches: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        script = SparkRun(spark, SCRIPT, RunSettings(available_now=True, buckets=2, checkpoint="ck"))
        (ended,) = script.run(lambda running, batch: batches.append(batch.number))
        return Ran(folder, ended, batches, written(), in_process())


@pytest.fixture
def ran(ran_once: Ran, monkeypatch: pytest.MonkeyPatch) -> Ran:
    monkeypatch.chdir(ran_once.folder)
    return ran_once


def test_a_script_gives_what_it_gives_in_process(ran: Ran) -> None:
    assert ran.answer == ran.expected
    assert ran.batches == [0, 1]  # and none without rows
    metrics = ran.ended.metrics
    assert (metrics.rows_in, metrics.results) == (80, ran.answer.total())
    assert 1038 * SECOND < metrics.watermark_us <= 1039 * SECOND


def test_another_run_does_not_touch_what_is_there(spark: SparkSession, ran: Ran) -> None:
    before = written()
    with pytest.raises(SinkError, match="already exists"):
        run(spark, checkpoint="ck2")
    with pytest.raises(SinkError, match="cannot append"):
        run(spark, SCRIPT.replace("path='out'", "path='out', mode='append'"), checkpoint="ck2")
    with pytest.raises(SinkError, match="a folder that no query wrote"):
        run(spark, SCRIPT.replace("path='out'", "path='a', mode='overwrite'"), checkpoint="ck2")
    shutil.copytree("out", "copy")
    run(spark, SCRIPT.replace("path='out'", "path='copy', mode='overwrite'"), checkpoint="ck2")
    assert written("copy") == written() == before


def test_a_changed_query_is_refused_at_its_start_and_the_same_one_goes_on(spark: SparkSession, ran: Ran) -> None:
    """No rows have come since, so that nothing but the start can tell."""
    changed = SCRIPT.replace("1 SECOND", "2 SECONDS")
    with pytest.raises(SetupError) as refused:
        run(spark, changed)
    assert str(refused.value) == (
        f"{ran.folder}/ck belongs to another query:\n{JOIN}\n"
        "hint: the changed query goes on with what is kept by way of a savepoint: watersmeet savepoint CHECKPOINT OUT "
        "--script OLD.sql, then watersmeet run NEW.sql --engine spark --from OUT --checkpoint NEW; or watersmeet "
        "replace CHECKPOINT NEW.sql has the changed query take the place of this one; or start the changed query with "
        "a new checkpoint, or go back to the query that wrote this one"
    )
    with pytest.raises(SetupError, match=r"made with 2 buckets, and this run has 3\nhint: go on with --buckets 2"):
        run(spark, buckets=3)
    Path("ck/watersmeet.json").unlink()  # as of a checkpoint from before there was such a file
    with pytest.raises(SetupError, match="ck belongs to another query, or to the same one with other columns"):
        run(spark, changed)
    arrive(ran.folder, 2)
    (ended,) = run(spark, " ".join(SCRIPT.replace("1 SECOND", "1000 MILLISECONDS").split()))
    assert ended.metrics.rows_in == 40
    assert written() == in_process()
    assert Path("ck/watersmeet.json").exists()
    (ended,) = run(spark)
    assert ended.metrics.rows_in == 0


def test_a_bare_select_prints_its_rows_and_json_tells_of_every_batch(
    spark: SparkSession, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrive(data, 1)
    rows = in_process().total()
    add(data / "b", 2, rows_of(0, 1))  # far too late
    speak(as_json=True)
    try:
        assert not run_command(spark, STREAMS + JOIN, NOW)
    finally:
        speak()
    printed, told = capsys.readouterr()
    lines = printed.splitlines()
    assert lines[0] == "k\tat\tbt"
    assert len(lines) - 1 == rows
    events = [json.loads(line) for line in told.splitlines()]
    batches = [one["batch"] for one in events if one["event"] == "progress"]
    assert [one["number"] for one in batches[:3]] == [0, 1, 2]
    assert (sum(one["rows_in"] for one in batches), sum(one["results"] for one in batches)) == (81, rows)
    assert any("1 row of stream" in one["text"] for one in events if one["event"] == "warning")
    done = events[-1]
    assert (done["event"], done["query"]) == ("done", "query 1")
    metrics = done["metrics"]
    assert (metrics["rows_in"], metrics["results"], metrics["late_by_stream"]) == (81, rows, {"b": 1})


def test_text_files_are_read_by_the_names_of_their_columns_which_are_found(spark: SparkSession, data: Path) -> None:
    pa_csv.write_csv(rows_of(0, 40).select(["ts", "k"]), "a.csv")
    Path("b.json").write_text("".join(f'{{"ts": "{r["ts"]}", "k": {r["k"]}}}\n' for r in rows_of(0, 40).to_pylist()))
    undeclared = SCRIPT.replace("(k BIGINT, ts TIMESTAMP)", "")
    (job,) = SparkRun(spark, undeclared).jobs
    assert job.plan.output_schema == SparkRun(spark, SCRIPT).jobs[0].plan.output_schema
    script = SCRIPT.replace("a (k BIGINT, ts TIMESTAMP)", "a").replace("source='parquet', path='a'", "path='a.csv'")
    script = script.replace("source='parquet', path='b'", "source='json', path='b.json'")
    run(spark, script)
    assert written() == in_process(script)


def test_a_static_table_and_a_query_without_state(spark: SparkSession, data: Path) -> None:
    pa_csv.write_csv(pa.table({"k": [1, 2], "name": ["one", "two"]}), "names.csv")
    script = f"""{STREAMS} CREATE TABLE names (k BIGINT, name STRING) WITH (path='names.csv');
    CREATE SINK s WITH (sink='parquet', path='out') AS SELECT n.name, a.ts FROM a, names n WHERE a.k = n.k"""
    (ended,) = run(spark, script)
    assert written() == in_process(script)
    assert (ended.metrics.rows_in, ended.metrics.results) == (20, 6)


@pytest.mark.soak
def test_several_queries_run_side_by_side(spark: SparkSession, data: Path) -> None:
    script = SCRIPT + "CREATE SINK keys WITH (sink='json', path='keys') AS SELECT a.k FROM a OPTIONS (share = 'no');"
    assert [one.checkpoint.rsplit("/", 1)[1] for one in run(spark, script)] == ["pairs", "keys"]
    assert written() == in_process()
    assert sum(len(p.read_text().splitlines()) for p in Path("keys").glob("*.json")) == 20
    run(spark)
    assert (Path("ck/pairs").is_dir(), Path("ck/keys").exists()) == (True, False)
    assert written() == in_process()


def test_queries_that_would_share_a_checkpoint_are_refused_and_none_leaves_its_folder() -> None:
    assert query_folders(["query 1", "x/../y", "totals"]) == ["query_1", "x%2F..%2Fy", "totals"]
    with pytest.raises(WatersmeetError, match="'a b' and 'a_b' would share the folder a_b"):
        query_folders(["a b", "a_b"])


def test_an_endless_source_runs_until_it_is_stopped(spark: SparkSession, data: Path) -> None:
    script = """CREATE STREAM ticks WITH (source='rate', rowsPerSecond='50', time='timestamp');
    CREATE SINK s WITH (sink='noop') AS
    SELECT x.value FROM ticks x, ticks y WHERE x.value = y.value WINDOW = 1 SECOND"""
    endless = SparkRun(spark, script, RunSettings(buckets=2, checkpoint="ck"))
    seen = threading.Event()
    threading.Thread(target=lambda: (seen.wait(120), endless.request_stop())).start()  # type: ignore[func-returns-value]
    (ended,) = endless.run(lambda running, batch: seen.set() if batch.metrics.results else None)
    assert not ended.query.isActive
    assert ended.metrics.results > 0
    assert ended.tally.last is not None


@pytest.mark.parametrize(
    ("script", "kind", "told"),
    [
        (SCRIPT, SourceError, "column 'k' of 'a' is declared BIGINT"),
        pytest.param(
            SCRIPT.replace("time='ts'", "time='ts', packed='false'"),
            QueryError,
            "pairs failed: ",
            marks=pytest.mark.soak,
        ),
    ],
    ids=["packed", "as rows"],
)
def test_a_bad_file_fails_in_a_sentence_and_can_be_replaced(
    spark: SparkSession, data: Path, script: str, kind: type[WatersmeetError], told: str
) -> None:
    add(data / "a", 1, pa.table({"k": pa.array(["x"]), "ts": rows_of(20, 1)["ts"]}))
    add(data / "b", 1, rows_of(20, 20))
    with pytest.raises(kind) as failed:
        run(spark, script)
    assert told in str(failed.value)
    assert "part-1.parquet" in str(failed.value)
    assert len(str(failed.value).splitlines()) == 2
    assert written()  # of the first files
    add(data / "a", 1, rows_of(20, 20))
    run(spark, script)
    assert written() == in_process()


def test_a_missing_time_is_an_error_of_ours(spark: SparkSession, data: Path) -> None:
    add(data / "a", 1, pa.table({"k": pa.array([7], pa.int64()), "ts": pa.array([None], pa.timestamp("us"))}))
    with pytest.raises(DataError, match="NULL"):
        run(spark)


@pytest.mark.parametrize(
    ("wrong", "kind", "told"),
    [
        (("path='a'", "path='none'"), SourceError, "there is no file or folder none"),
        (("k BIGINT", "z BIGINT"), SourceError, "'z'"),
        (("source='parquet', path='a'", "source='smoke'"), SourceError, "smoke"),
        (("sink='parquet', path='out'", "sink='parquet'"), SinkError, "has no path to write to"),
        (("sink='parquet', path='out'", "sink='smoke'"), SinkError, "smoke"),
    ],
)
def test_what_cannot_start_is_told(
    spark: SparkSession, data: Path, wrong: tuple[str, str], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told) as failed:
        run(spark, SCRIPT.replace(*wrong))
    assert len(str(failed.value).splitlines()) <= 2


@pytest.mark.soak
def test_seven_queries_of_one_script_run_on_few_cores(spark: SparkSession, data: Path) -> None:
    windows = range(1, 8)
    sinks = [
        f"CREATE SINK pairs{n} WITH (sink='parquet', path='out{n}') AS {JOIN.replace('1 SECOND', f'{n} SECONDS')};"
        for n in windows
    ]
    ended = run(spark, STREAMS + "\n".join(sinks))
    assert [one.job.name for one in ended] == [f"pairs{n}" for n in windows]
    for n, sink in zip(windows, sinks, strict=True):
        assert written(f"out{n}") == in_process(STREAMS + sink)


def test_explain_in_a_script_is_told_and_not_run(
    spark: SparkSession, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not run_command(spark, f"{STREAMS} EXPLAIN {JOIN};", NOW)
    told = capsys.readouterr().out
    assert "a new row of" in told
    assert "on Spark: 2 buckets" in told
    session = Session(spark)
    session.stream("a", spark.read.parquet(str(data / "a")), time="ts")
    lines = [row.plan for row in session.sql("EXPLAIN SELECT k FROM a WHERE k > 1").dataframe().collect()]
    assert lines[:2] == ["select: a.k", "  read stream a"]
