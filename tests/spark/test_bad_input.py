"""What is wrong with an input is said in our words, naming the stream, as early as it can be known."""

from __future__ import annotations

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from tests.runners import Source
from tests.scenarios.timeline import timeline
from tests.spark.harness import batch_frame, batch_session, run_streaming, streaming_frame, write_arrivals
from watersmeet import Session
from watersmeet.errors import CatalogError, DataError, SourceError, UnsupportedError, WatersmeetError
from watersmeet.hosts.spark.errors import friendly
from watersmeet.hosts.spark.run import SparkRun

AB = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.v = b.v WINDOW = 5 SECONDS"
ROWS = timeline("a: 1@1 2@2")[0].table


def flowing(spark, folder, table=ROWS):
    write_arrivals(folder, [table])
    return streaming_frame(spark, folder, table.schema)


def test_a_missing_time_column_is_named_when_the_stream_is_declared(spark, tmp_path):
    session = Session(spark)
    with pytest.raises(WatersmeetError, match=r"(?s)'a'.*'when'"):
        session.stream("a", flowing(spark, tmp_path / "a"), time="when")


def test_a_time_column_must_be_a_timestamp(spark, tmp_path):
    session = Session(spark)
    with pytest.raises(WatersmeetError, match=r"'v' of stream 'a' is int64, not a timestamp"):
        session.stream("a", flowing(spark, tmp_path / "a"), time="v")


def test_two_streams_cannot_have_one_name(spark, tmp_path):
    session = Session(spark)
    frame = flowing(spark, tmp_path / "a")
    session.stream("a", frame, time="ts")
    with pytest.raises(CatalogError, match="'a'"):
        session.stream("a", frame, time="ts")


def test_a_type_that_cannot_be_carried_over_names_stream_and_column(spark):
    frame = spark.range(1).selectExpr("timestamp'2024-01-01' AS ts", "make_ym_interval(1, 2) AS span")
    with pytest.raises(CatalogError, match="stream 'a', column 'span'"):
        Session(spark).stream("a", frame, time="ts")


def test_a_line_of_a_path_that_does_not_parse_is_no_row_of_nulls(spark, tmp_path):
    (tmp_path / "a.csv").write_text("id,v,ts\n1,1,2026-01-01 12:00:00\n2\n")
    session = Session(spark)
    session.stream("a", str(tmp_path / "a.csv"), time="ts")
    with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)malformed"):
        session.sql("SELECT id FROM a WHERE v IS NULL").to_arrow()


def test_batch_and_streaming_frames_are_not_mixed(spark, tmp_path):
    session = Session(spark)
    session.stream("a", flowing(spark, tmp_path / "a"), time="ts")
    session.stream("b", batch_frame(spark, ROWS), time="ts")
    with pytest.raises(CatalogError, match=r"(?s)a streaming, b batch.*hint: declare the batch ones as static tables"):
        session.sql(AB).dataframe()


def test_a_streaming_query_has_no_table_of_its_answer(spark, tmp_path):
    session = Session(spark)
    for name in "ab":
        session.stream(name, flowing(spark, tmp_path / name), time="ts")
    with pytest.raises(UnsupportedError, match=r"never ends\n.*writeStream"):
        session.sql(AB).to_arrow()


def test_an_endless_iterator_is_for_the_in_process_engine(spark):
    with pytest.raises(SourceError, match=r"(?s)'a'.*Session\(\)"):
        Session(spark).stream("a", iter(ROWS.to_batches()), time="ts")


@pytest.mark.parametrize("mode", ["complete", "update"])
def test_other_output_modes_are_refused_or_mean_the_same(spark, tmp_path, mode):
    """Results are never corrected: update is append; complete would need the whole answer and Spark says so."""
    session = Session(spark, buckets=1)
    for name in "ab":
        session.stream(name, flowing(spark, tmp_path / name), time="ts")
    writer = session.sql(AB).dataframe().writeStream.outputMode(mode).format("memory").queryName(f"as_{mode}")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    if mode == "complete":
        with pytest.raises(AnalysisException, match=r"(?i)complete"):
            writer.start()
        return
    writer.start().awaitTermination()
    assert sorted(tuple(row) for row in spark.table("as_update").collect()) == [("a1", "a1"), ("a2", "a2")]


def test_null_event_times_are_counted_and_the_stream_is_named_in_batch(spark):
    sources = timeline("a: 1@1 1@- 1@-\nb: 1@1")
    with pytest.raises(DataError, match=r"stream 'a'.*'ts' is NULL in 2 of 3 rows"):
        batch_session(spark, sources, 1).sql(AB).to_arrow()


def test_null_event_times_are_counted_and_the_stream_is_named_in_streams(spark, tmp_path):
    session = Session(spark, buckets=1)
    session.stream("a", flowing(spark, tmp_path / "a"), time="ts")
    session.stream("b", flowing(spark, tmp_path / "b", timeline("b: 1@1 1@-")[0].table), time="ts")
    frame = session.sql(AB).dataframe()
    with pytest.raises(DataError, match=r"stream 'b'.*'ts' is NULL in 1 of 2 rows"), friendly():
        run_streaming(spark, frame, tmp_path / "checkpoint", tmp_path / "sink")


def test_files_that_do_not_have_the_declared_columns_fail_instead_of_joining_wrongly(spark, tmp_path):
    wrong = pa.table({"v": ["one", "two"], "ts": ROWS["ts"], "id": ROWS["id"], "t": ROWS["t"]})
    session = Session(spark, buckets=1)
    session.stream("a", flowing(spark, tmp_path / "a"), time="ts")
    write_arrivals(tmp_path / "b", [wrong])
    session.stream("b", streaming_frame(spark, tmp_path / "b", ROWS.schema), time="ts")
    with pytest.raises((PySparkException, WatersmeetError)):
        run_streaming(spark, session.sql(AB).dataframe(), tmp_path / "checkpoint", tmp_path / "sink")


def test_an_unreadable_path_names_the_stream(spark, tmp_path):
    with pytest.raises(WatersmeetError, match="'a'"):
        Session(spark).stream("a", str(tmp_path / "nothing.parquet"), time="ts")


def test_empty_inputs_give_an_empty_answer(spark):
    sources = [Source("a", ROWS), Source("b", ROWS.slice(0, 0))]
    query = batch_session(spark, sources, 2).sql(AB)
    answer = query.to_arrow()
    assert (answer.num_rows, answer.schema) == (0, query.schema)


def test_a_file_with_only_a_header_tells_no_types(spark, tmp_path):
    file = tmp_path / "bare.csv"
    file.write_text("k,ts\n")
    with pytest.raises(SourceError, match=r"has a header \(k, ts\) but no rows"):
        Session(spark).stream("a", str(file), time="ts")
    with pytest.raises(SourceError, match=r"has a header \(k, ts\) but no rows"):
        SparkRun(spark, f"CREATE STREAM a WITH (path = '{file}', time = 'ts'); SELECT k FROM a")
    SparkRun(spark, f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (path = '{file}', time = 'ts'); SELECT k FROM a")


def test_a_path_is_read_by_what_its_files_are_named_after(spark, tmp_path):
    folder, tabbed = tmp_path / "days", tmp_path / "one.tsv"
    folder.mkdir()
    for day in (1, 2):
        (folder / f"{day}.csv").write_text(f"k,ts\n{day},2026-01-0{day} 00:00:00\n")
    tabbed.write_text("k\tts\n3\t2026-01-03 00:00:00\n")
    for path, keys in ((folder, [1, 2]), (tabbed, [3])):
        session = Session(spark, buckets=1)
        session.stream("a", str(path), time="ts")
        assert sorted(session.sql("SELECT k FROM a").to_arrow()["k"].to_pylist()) == keys
    (folder / "3.json").write_text('{"k": 3}\n')
    with pytest.raises(SourceError, match="holds files of several formats: csv, json"):
        Session(spark).stream("a", str(folder), time="ts")
