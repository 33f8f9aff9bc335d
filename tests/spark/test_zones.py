"""Zones on Spark: the same answers as in-process, whatever the zone of Spark's session; and files with nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pytest
from pyspark.sql import SparkSession

from tests.runners import bag
from tests.spark.harness import run_streaming, streaming_frame, write_arrivals
from watersmeet import ParquetStream, Session
from watersmeet.errors import SourceError, WatersmeetError
from watersmeet.hosts.spark.reading.sources import OnSpark
from watersmeet.hosts.spark.writing.sinks import SparkSink
from watersmeet.runtime.script import read_script

ZONE = "America/New_York"
START = datetime(2024, 11, 3, 4, 30, tzinfo=UTC)  # clocks go back an hour and a half later
TIMES = [START + timedelta(minutes=30 * i, microseconds=i) for i in range(8)]
TABLE = pa.table(
    {
        "ts": pa.array(TIMES, pa.timestamp("us", tz="Asia/Tokyo")),
        "n": pa.array([t.replace(tzinfo=None) for t in TIMES], pa.timestamp("us")),
        "d": pa.array([date(2024, 11, 3)] * 8),
        "k": list(range(8)),
    }
)
NEEDS_STATE = """
SELECT a.ts, b.n, a.d, HOUR(a.ts) AS h, DATE_TRUNC('hour', a.ts) AS hour, DATE_TRUNC('day', b.ts) AS day,
       CAST(a.ts AS DATE) AS cd, CAST(a.ts AS TIMESTAMP) AS ct, CAST(a.ts AS VARCHAR) AS cv, a.d <= b.ts AS later,
       a.ts >= '2024-11-03 01:30:00' AS again
FROM a, b WHERE a.k = b.k AND a.n = b.ts WINDOW = 1 SECOND"""
EVENT_TIME = NEEDS_STATE.replace("SELECT a.ts,", "SELECT event_time() AS at, a.ts,")
NO_STATE = "SELECT ts, n, d, HOUR(ts) AS h, CAST(ts AS DATE) AS cd, CAST(ts AS VARCHAR) AS cv FROM a"
COUNTS = "SELECT DATE_TRUNC('hour', ts) AS hour, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY DATE_TRUNC('hour', ts)"
QUERIES = {"typed": EVENT_TIME, "packed": NEEDS_STATE, "stateless": NO_STATE, "counts": COUNTS}


@pytest.fixture
def kolkata(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def declared(session: Session, **data: object) -> Session:
    for name in ("a", "b"):
        session.stream(name, data.get(name, TABLE), time="ts", lateness="1 hour")
    return session


def rows(table: pa.Table) -> object:
    return bag([tuple(map(str, row.values())) for row in table.to_pylist()])


@pytest.mark.parametrize("name", list(QUERIES))
def test_both_hosts_are_equal_whatever_the_zone_of_the_session(kolkata, tmp_path, name):
    sql = QUERIES[name]
    expected = declared(Session(timezone=ZONE)).sql(sql).to_arrow()
    bounded = declared(Session(kolkata, buckets=1, timezone=ZONE)).sql(sql).to_arrow()
    assert bounded.schema == expected.schema
    assert rows(bounded) == rows(expected)
    if name == "counts":
        return  # a stream gives the changes of the last hour only when time goes on
    for source in ("a", "b"):
        write_arrivals(tmp_path / source, [TABLE])
    frames = {source: streaming_frame(kolkata, tmp_path / source, TABLE.schema) for source in ("a", "b")}
    query = declared(Session(kolkata, buckets=1, timezone=ZONE), **frames).sql(sql)
    streamed = run_streaming(kolkata, query.dataframe(), tmp_path / "checkpoint", tmp_path / "sink")
    assert rows(streamed.cast(query.schema)) == rows(expected)


def test_text_files_are_read_and_written_in_the_same_zones_on_both_hosts(kolkata, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("ts,n\n2024-11-03 05:30:00,2024-11-03T05:30:00.000001\n")
    made = f"(ts TIMESTAMP WITH TIME ZONE, n TIMESTAMP) WITH (path = '{tmp_path}/in', source = 'csv', time = 'ts')"
    for kind, read in (("csv", pa_csv.read_csv), ("json", pa_json.read_json)):
        select = f"SELECT ts, n, HOUR(ts) AS h FROM a OPTIONS (timezone = '{ZONE}')"
        sink = f"CREATE SINK o WITH (sink = '{kind}', path = '{tmp_path}/{kind}') AS {select}"
        (job,) = read_script(f"CREATE STREAM a {made}; {sink}", opener=OnSpark(kolkata))
        frame = Session(kolkata, buckets=1).host.dataframe(job.plan, None)
        SparkSink(job, str(tmp_path / f"checkpoint-{kind}")).start(frame, {"availableNow": True}).awaitTermination()
        (written,) = (tmp_path / kind).glob("part-*")
        text = written.read_text()
        assert "2024-11-03 01:30:00-04:00" in text or "2024-11-03T01:30:00-04:00" in text
        assert "05:30:00.000001" in text
        assert read(written).num_rows == 1


def test_times_found_in_csv_are_readings_unless_their_text_has_a_zone(kolkata, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("ts,z\n2024-11-03 05:30:00,2024-11-03T05:30:00+02:00\n")
    sql = f"SELECT ts, z, HOUR(ts) AS h, HOUR(z) AS hz FROM a OPTIONS (timezone = '{ZONE}')"
    answers = []
    for session in (Session(), Session(kolkata, buckets=1)):
        session.stream("a", str(file), time="ts")
        answers.append(session.sql(sql).to_arrow())
    assert answers[0].schema == answers[1].schema
    assert rows(answers[0]) == rows(answers[1])


NANOSECONDS = TABLE.set_column(0, "ts", TABLE["ts"].cast(pa.timestamp("ns", tz="UTC"))).set_column(
    1, "n", TABLE["n"].cast(pa.timestamp("ns"))
)


def test_parquet_files_with_nanoseconds_are_read(spark, tmp_path):
    expected = rows(declared(Session()).sql(NEEDS_STATE).to_arrow())
    for source in ("a", "b"):
        write_arrivals(tmp_path / source, [NANOSECONDS])
    folders = {source: str(tmp_path / source) for source in ("a", "b")}
    paths = declared(Session(spark, buckets=1), **folders)
    assert rows(paths.sql(NEEDS_STATE).to_arrow()) == expected
    packed = declared(Session(spark, buckets=1), **{name: ParquetStream(path) for name, path in folders.items()})
    for name, sql, whole in (("join", NEEDS_STATE, expected), ("rows", NO_STATE, None)):
        query = packed.sql(sql)
        given = run_streaming(spark, query.dataframe(), tmp_path / f"checkpoint-{name}", tmp_path / f"sink-{name}")
        assert rows(given.cast(query.schema)) == (whole or rows(declared(Session()).sql(sql).to_arrow()))


def test_nanoseconds_in_scripts_and_tables_are_read_cut_or_refused_with_a_way_out(spark, tmp_path):
    finer = pa.table({"ts": pa.array([1_001, 2_000], pa.timestamp("ns")), "k": [1, 2]})
    write_arrivals(tmp_path / "a", [finer])

    def answer(more: str) -> pa.Table:
        script = (
            f"CREATE STREAM s WITH (path = '{tmp_path}/a', time = 'ts'{more});"
            f"CREATE TABLE t WITH (path = '{tmp_path}/a'{more});"
            "SELECT s.ts, t.ts AS same FROM s, t WHERE s.k = t.k"
        )
        (job,) = read_script(script, opener=OnSpark(spark))
        frame = Session(spark, buckets=1).host.dataframe(job.plan, None)
        return run_streaming(spark, frame, tmp_path / "checkpoint", tmp_path / "sink")

    assert answer(", rounding = 'down'")["same"].cast(pa.int64()).to_pylist() == [1, 2]
    with pytest.raises(WatersmeetError, match="finer than a microsecond"):
        answer("")
    with pytest.raises(SourceError, match="Spark's own reader refuses") as told:
        answer(", packed = 'false'")
    assert "hint" in str(told.value)
