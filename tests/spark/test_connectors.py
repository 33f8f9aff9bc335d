"""A connector that a user registers is driven on Spark as in-process: partitions, sinks, tables, in sentences."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tests.connectors.test_own_files import SCRIPT as LOGS
from tests.connectors.test_own_files import connector_of_contributing
from tests.lakes import opened
from tests.spark.toy import ROWS, TOY, ToySource, add, taken
from watersmeet.errors import DataError, OptionError, SetupError, SinkError, SourceError
from watersmeet.hosts.spark.checkpoints.checkpoint import Checkpoint
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.reading.changed_files import CHANGED
from watersmeet.hosts.spark.reading.connector_source import ConnectorReader
from watersmeet.hosts.spark.reading.connector_stream import ConnectorStream
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.hosts.spark.writing.sinks import side_options
from watersmeet.io.connectors.connected_source import ConnectedSource
from watersmeet.io.connectors.guarded import GuardedSource
from watersmeet.io.connectors.registry import forget, register
from watersmeet.io.own_files import load_connectors
from watersmeet.runtime.run_settings import RunSettings

SECOND = 1_000_000
ALL = ReadAllAvailable()


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    register(TOY)
    yield
    forget("toy")


# ---- offsets, without Spark -----------------------------------------------------------------------------------------


def reader(folder: Path, *, limit: int | None = None, start: str = "earliest", **options: str) -> ConnectorReader:
    source = ConnectedSource("a", GuardedSource("toy", ToySource(str(folder), ROWS, start)), ROWS)
    given = ConnectorStream(source, limit).encoded_options()
    return ConnectorReader({"source": "a", "jobs": "", **given, **options})


def reader_of_files(folder: Path) -> ConnectorReader:
    files = opened.source("files", ROWS, path=f"file://{folder}", format="csv")
    given = ConnectorStream(ConnectedSource("a", GuardedSource("files", files), ROWS), None).encoded_options()
    return ConnectorReader({"source": "a", "jobs": "", **given})


def test_an_object_that_is_written_anew_is_told_once_also_by_a_later_run(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.csv").write_text("k,v,ts\n")
        os.utime(folder / f"{number}.csv", (100 + number, 100 + number))
    read = reader_of_files(folder)
    first = read.latestOffset(read.initialOffset(), ALL)
    assert CHANGED not in first
    assert reader_of_files(folder).latestOffset(first, ALL) == first
    os.utime(folder / "0.csv", (200, 200))
    later = reader_of_files(folder)
    second = later.latestOffset(first, ALL)
    assert "0.csv, which stream 'a' has read, was written anew since, and is read again" in second[CHANGED]["told"]
    os.utime(folder / "1.csv", (50, 50))
    third = later.latestOffset(second, ALL)
    assert "1.csv, which stream 'a' has read, was written anew since, and is not" in third[CHANGED]["told"]
    assert parts(later, second, third) == []
    assert later.latestOffset(third, ALL) == third
    assert reader_of_files(folder).latestOffset(third, ALL) == third
    assert len(json.loads(second["files"])) == 3


def rows(first: int, count: int) -> list[tuple[int, int, int | None]]:
    return [(n % 3, n, SECOND * n) for n in range(first, first + count)]


def parts(read: ConnectorReader, start: dict[str, object], end: dict[str, object]) -> list[tuple[object, ...]]:
    found = read.partitions(start, end)
    return [(one.partition, one.after, one.upto) if hasattr(one, "partition") else ("end", one.run) for one in found]


def test_a_batch_reads_all_partitions_from_where_the_last_one_ended(tmp_path):
    add(tmp_path / "a", 0, rows(0, 5))
    add(tmp_path / "a", 1, rows(0, 3))
    read = reader(tmp_path / "a")
    begin = read.initialOffset()
    first = read.latestOffset(begin, ALL)
    assert parts(read, begin, first) == [("0", 0, 5), ("1", 0, 3)]
    assert read.latestOffset(first, ALL) == first
    add(tmp_path / "a", 1, rows(3, 2))
    add(tmp_path / "a", 2, rows(0, 1))
    second = read.latestOffset(first, ALL)
    assert parts(read, first, second) == [("1", 3, 5), ("2", 0, 1)]


def test_a_first_batch_is_repeated_from_where_it_began_though_latest_is_another_place_by_then(tmp_path):
    add(tmp_path / "a", 0, rows(0, 5))
    read = reader(tmp_path / "a", start="latest")
    begin = read.initialOffset()
    add(tmp_path / "a", 0, rows(5, 2))
    first = json.loads(json.dumps(read.latestOffset(begin, ALL)))
    add(tmp_path / "a", 0, rows(7, 2))
    later = reader(tmp_path / "a", start="latest")
    assert parts(later, later.initialOffset(), first) == parts(read, begin, first) == [("0", 5, 7)]


def test_a_limit_cuts_batches_and_a_run_that_ends_reads_what_was_there_when_it_began(tmp_path):
    add(tmp_path / "a", 0, rows(0, 5))
    add(tmp_path / "a", 1, rows(0, 4))
    read = reader(tmp_path / "a", limit=3, ending="3f")
    limit = read.getDefaultReadLimit()
    assert limit == ReadMaxRows(3)
    read.prepareForTriggerAvailableNow()
    offset, found = read.initialOffset(), []
    for batch in range(10):
        reached = read.latestOffset(offset, limit)
        if reached == offset:
            break
        add(tmp_path / "a", 0, rows(100 + 10 * batch, 10))
        add(tmp_path / "a", 7, rows(0, 1))
        found.append(parts(read, offset, reached))
        offset = reached
    # Rows and partitions that came meanwhile are for the next run, though the limit would let only them through.
    assert found == [[("0", 0, 3)], [("0", 3, 5)], [("1", 0, 4), ("end", "3f")]]


def test_an_end_is_told_once_also_where_nothing_came(tmp_path):
    (tmp_path / "a").mkdir()
    read = reader(tmp_path / "a", ending="3f")
    read.prepareForTriggerAvailableNow()
    begin = read.initialOffset()
    end = read.latestOffset(begin, ALL)
    assert parts(read, begin, end) == [("end", "3f")]
    assert read.latestOffset(end, ALL) == end
    again = reader(tmp_path / "a", ending="4a")
    again.prepareForTriggerAvailableNow()
    assert parts(again, end, again.latestOffset(end, ALL)) == [("end", "4a")]


def test_a_checkpoint_of_another_reader_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(SourceError, match="was written when something else read it"):
        reader(tmp_path / "a").latestOffset({"files": "", "read": ""}, ALL)


# ---- on Spark -------------------------------------------------------------------------------------------------------

STREAMS = """
CREATE STREAM a WITH (source='toy', folder='a', time='ts', lateness='1 minute', max_rows_per_batch='40');
CREATE STREAM b WITH (source='toy', folder='b', time='ts', lateness='1 minute');
"""
JOIN = "SELECT a.k, a.v AS av, b.v AS bv FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"
PAIRS = f"{STREAMS} CREATE SINK pairs WITH (sink='toy', file='out.db') AS {JOIN};"


def run(spark: SparkSession, script: str, checkpoint: str | None = "ck") -> list[RunningQuery]:
    return SparkRun(spark, script, RunSettings(available_now=True, buckets=2, checkpoint=checkpoint)).run()


def bag(found: list[dict[str, object]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in found)


def pairs(a: list[tuple[int, int, int | None]], b: list[tuple[int, int, int | None]]) -> Counter[str]:
    """By definition."""
    return bag(
        [
            {"k": k, "av": av, "bv": bv}
            for k, av, at in a
            for other, bv, bt in b
            if k == other and abs((at or 0) - (bt or 0)) <= 2 * SECOND
        ]
    )


def arrive(first: int, count: int) -> None:
    for name in ("a", "b"):
        some = rows(first, count)
        add(Path(name), 0, some[::2])
        add(Path(name), 1, some[1::2])


def test_partitions_of_two_streams_are_joined_into_a_sink_that_a_second_run_goes_on_with(spark, tmp_path):
    arrive(0, 60)
    (first,) = run(spark, PAIRS)
    assert first.metrics.rows_in == 120
    assert bag(taken(Path("out.db"))) == pairs(rows(0, 60), rows(0, 60))
    shutil.copytree("ck", "copy")
    (last,) = sorted(int(one.name) for one in Path("ck/commits").glob("[0-9]*"))[1:]  # 60 rows of `a` at 40 a batch
    for name in (str(last), f".{last}.crc"):  # as if it had been killed just before Spark took note
        (tmp_path / "ck" / "commits" / name).unlink()
    arrive(60, 30)
    run(spark, PAIRS)
    assert bag(taken(Path("out.db"))) == pairs(rows(0, 90), rows(0, 90))
    with sqlite3.connect("out.db") as database:
        runs = {run for (run,) in database.execute("SELECT run FROM opened")}
        (newest,) = database.execute("SELECT max(number) FROM answers").fetchone()
    assert runs == {Checkpoint(spark, str(tmp_path / "ck")).run_name()}
    assert newest == last + 1
    shutil.rmtree("ck")
    shutil.move("copy", "ck")
    with pytest.raises(SetupError, match=rf"is older than what was written with it: .* up to {newest}, but it ends"):
        run(spark, PAIRS)


def test_rows_without_state_are_enriched_from_a_table_of_a_connector(spark):
    add(Path("a"), 0, [*rows(0, 10), (1, 99, None)])
    Path("names.jsonl").write_text('{"k": 0, "name": "zero"}\n{"k": 1, "name": "one"}\n')
    script = """
        CREATE STREAM a WITH (source='toy', folder='a', time='ts', on_null='skip');
        CREATE TABLE names WITH (source='toy', file='names.jsonl');
        CREATE SINK named WITH (sink='toy', file='out.db') AS SELECT a.v, n.name FROM a, names n WHERE a.k = n.k;
    """
    (one,) = run(spark, script, checkpoint=None)
    expected = [{"v": v, "name": ("zero", "one")[k]} for k, v, _ in rows(0, 10) if k < 2]
    assert bag(taken(Path("out.db"))) == bag(expected)
    assert one.metrics.skipped_rows == 1


def test_a_changing_answer_says_its_keys_comes_in_order_and_skips_what_cannot_be_read(spark):
    arrive(0, 40)
    add(Path("a"), 0, ["what?", (1, 7, None)])
    script = """
        CREATE STREAM a WITH (source='toy', folder='a', time='ts', lateness='1 minute', on_bad='skip');
        CREATE SINK counts WITH (sink='toy', file='out.db') AS
            SELECT k, count(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k;
    """
    (one,) = run(spark, script, checkpoint=None)
    assert one.metrics.bad_by_reason == {"a: not JSON": 1, "a: null time": 1}
    with sqlite3.connect("out.db") as database:
        assert list(database.execute("SELECT keys, changes FROM opened")) == [("k", "_op")]
    held: dict[int, int] = {}
    for row in taken(Path("out.db")):  # every "-" finds its "+", in the order in which they came
        if row["_op"] == "+":
            assert row["k"] not in held
            held[row["k"]] = row["n"]
        else:
            assert held.pop(row["k"]) == row["n"]
    assert not held


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("newest says", "the other end is closed"),
        ("read breaks", r"connector 'toy' failed in read\(\): KeyError: 'nobody thought of this'"),
    ],
)
def test_what_a_source_says_is_told_in_its_own_sentence(spark, fault, told):
    arrive(0, 5)
    script = f"""
        CREATE STREAM a WITH (source='toy', folder='a', time='ts', fault='{fault}');
        CREATE SINK rows WITH (sink='toy', file='out.db') AS SELECT a.v FROM a;
    """
    with pytest.raises(SourceError, match=f"^{told}") as failed:
        run(spark, script, checkpoint=None)
    assert "Traceback" not in str(failed.value)
    assert failed.value.hint is not None


def test_a_record_that_cannot_be_read_ends_the_run_with_its_place(spark):
    add(Path("a"), 3, [*rows(0, 2), "what?"])
    script = f"{STREAMS} CREATE SINK rows WITH (sink='toy', file='out.db') AS SELECT a.v FROM a;"
    add(Path("b"), 0, rows(0, 1))
    told = r"stream 'a' has a record that cannot be read \(not JSON\): in .*3\.jsonl, partition 3, offset 2"
    with pytest.raises(DataError, match=told):
        run(spark, script, checkpoint=None)


BAD = "CREATE SINK bad WITH (sink='toy', file='bad.db');"


@pytest.mark.parametrize("select", [JOIN, "SELECT a.v FROM a"])
def test_records_that_cannot_be_read_go_to_a_sink_once_and_are_counted(spark, select):
    arrive(0, 10)
    for partition in (0, 1):
        add(Path("a"), partition, ["what?", *rows(10 + partition, 1)])
        add(Path("b"), partition, rows(10 + partition, 1))
    streams = STREAMS.replace("folder='a'", "folder='a', on_bad='sink bad'").replace("'40'", "'7'")
    script = f"{BAD} {streams} CREATE SINK answers WITH (sink='parquet', path='out') AS {select};"
    (first,) = run(spark, script)
    places = [("toy", 0, 5, "not JSON"), ("toy", 1, 5, "not JSON")]
    assert (first.metrics.bad_rows, first.metrics.bad_by_reason) == (2, {"a: not JSON": 2})
    if select != JOIN:
        add(Path("a"), 0, ["again"])
        (second,) = run(spark, script)
        places.append(("toy", 0, 7, "not JSON"))
        assert second.metrics.bad_rows == 1
    kept = [(row["stream"], row["partition"], row["offset"], row["reason"]) for row in taken(Path("bad.db"))]
    assert sorted(kept) == sorted(places)
    found = pq.read_table("out").to_pylist()
    assert bag(found) == (pairs(rows(0, 12), rows(0, 12)) if select == JOIN else bag([{"v": v} for v in range(12)]))
    assert first.metrics.results == len(found)


def test_what_goes_beside_answers_is_added_to_what_other_queries_sent_there():
    for kind in ("json", "files", "sqlite"):
        assert side_options({"sink": kind, "path": "bad"}, goes_on=False)["mode"] == "append"
    replacing = {"sink": "json", "path": "bad", "mode": "overwrite"}
    assert side_options(replacing, goes_on=False)["mode"] == "overwrite"
    assert side_options(replacing, goes_on=True)["mode"] == "append"  # it was replaced when the query began
    assert side_options({"Sink": "console"}, goes_on=True) == {"sink": "console"}


def test_a_sink_that_is_gone_ends_the_next_run_unless_it_may_be_made_anew(spark, tmp_path):
    script = f"{STREAMS} CREATE SINK rows WITH (sink='sqlite', path='{tmp_path}/out.db') AS SELECT a.v FROM a;"
    add(Path("a"), 0, rows(0, 5))
    add(Path("b"), 0, rows(0, 1))
    run(spark, script)
    run(spark, script)  # whose batches are empty, if there are any
    (tmp_path / "out.db").unlink()
    add(Path("a"), 0, rows(5, 5))
    for _ in range(2):
        with pytest.raises(
            SinkError, match="sink 'rows' was given the answers of this run up to batch 0, but there is"
        ):
            run(spark, script)
        assert not (tmp_path / "out.db").exists()
    run(spark, script.replace("out.db'", "out.db', if_gone='make'"))
    with sqlite3.connect("out.db") as database:
        assert sorted(row[0] for row in database.execute("SELECT v FROM rows")) == [5, 6, 7, 8, 9]


def test_what_cannot_be_kept_on_spark_is_refused_with_a_reason(spark):
    arrive(0, 2)
    kept = BAD + STREAMS.replace("folder='a'", "folder='a', on_bad='sink bad'")
    with pytest.raises(SinkError, match="which Spark writes by itself"):
        run(spark, f"{kept} CREATE SINK rows WITH (sink='orc', path='out') AS {JOIN};", checkpoint=None)


def test_what_a_sink_says_is_told_and_a_later_run_goes_on(spark):
    arrive(0, 20)
    script = f"{STREAMS} CREATE SINK rows WITH (sink='toy', file='out.db') AS SELECT a.v FROM a;"
    with pytest.raises(SinkError, match=r"^the other end is full") as failed:
        run(spark, script.replace("file='out.db'", "file='out.db', fault='full'"))
    assert failed.value.hint == "empty it; nothing is lost"
    run(spark, script)
    assert bag(taken(Path("out.db"))) == bag([{"v": v} for _, v, _ in rows(0, 20)])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "spark.kafka",
            "source = 'kafka' is ours and needs no jars; Spark 4.3 has it with spark-sql-kafka-0-10_2.13-4.2",
        ),
        ("spark.delta", "source = 'delta' is ours and needs no jars; no build of Delta loads on Spark 4.3"),
        ("pulsar", "it comes as a jar of its own"),
    ],
)
def test_a_format_that_spark_does_not_have_is_told_with_what_brings_it(spark, name, told):
    script = f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (source='{name}', time='ts'); SELECT k FROM a;"
    with pytest.raises(SourceError, match="the input of stream 'a' cannot be opened") as failed:
        SparkRun(spark, script)
    assert failed.value.hint is not None
    assert failed.value.hint.startswith(told)


def test_words_that_nothing_reads_are_refused_before_anything_runs(spark):
    arrive(0, 2)
    with pytest.raises(OptionError, match="'a' has max_rows_per_batch = 'many'"):
        SparkRun(spark, PAIRS.replace("'40'", "'many'"))
    with pytest.raises(OptionError, match="'a' has no option 'folders'"):
        SparkRun(spark, PAIRS.replace("folder='a'", "folders='a'"))
    with pytest.raises(OptionError, match="'pairs' has no option 'files'"):
        SparkRun(spark, PAIRS.replace("file='out.db'", "files='out.db'"))


def test_one_of_a_file_that_only_the_driver_has_is_read_by_tasks(spark, tmp_path):
    own = tmp_path / "elsewhere" / "logs_of_mine.py"
    own.parent.mkdir()
    own.write_text(connector_of_contributing())
    Path("logs").mkdir()
    Path("logs/a.log").write_text("2026-01-01T12:00:00 all well\n2026-01-01T12:00:02 an error of a\n")
    try:
        assert load_connectors(own) == ["logs"]
        own.unlink()
        run(spark, LOGS.replace("folder = 'logs'", f"folder = '{Path('logs').absolute()}'"))
    finally:
        forget("logs")
    written = [line for path in Path("found.json").glob("part-*") for line in path.open()]
    assert [json.loads(line) for line in written] == [{"line": "an error of a"}]
