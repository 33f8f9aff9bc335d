"""On Spark: event times as numbers and as text give what timestamps give, from files and from DataFrames; rows without
one are skipped and counted."""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.runners import Source, bag_of
from tests.spark.following import followed
from tests.spark.harness import batch_frame, run_streaming, streaming_frame, write_arrivals
from tests.spark.simulation import Simulation
from watersmeet.errors import WatersmeetError
from watersmeet.hosts.spark.reading.file_stream import FileStream
from watersmeet.hosts.spark.reading.sources import OnSpark
from watersmeet.io.formats import Csv
from watersmeet.model.arrival import Arrival
from watersmeet.model.catalog import Stream
from watersmeet.model.time_reading import TimeReading, in_schema
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.script import read_script

SECONDS = [-3, 0, 1, 2, None, 1_712_345_678]
SQL = "SELECT a.k, a.ts, b.ts AS other FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"
NUMBERS = pa.table({"k": [1, 1, 2, 2, 3, 3], "ts": [None if at is None else at * 1_000 for at in SECONDS]})
TEXT = pa.table(
    {
        "k": [1, 1, 2, 2, 3],
        "ts": ["31.12.1969 18:59:57", "31.12.1969 19:00:00", "31.12.1969 19:00:01", "31.12.1969 19:00:02", None],
    }
)
OF_NUMBERS = {"time_unit": "ms", "on_null": "skip"}
OF_TEXT = {"time_format": "%d.%m.%Y %H:%M:%S", "time_zone": "America/New_York", "on_null": "skip"}


def expected() -> object:
    made = wm.Session()
    made.stream("a", NUMBERS, time="ts", **OF_NUMBERS)
    made.stream("b", TEXT, time="ts", **OF_TEXT)
    with pytest.warns(wm.DataWarning, match="skipped_rows"):
        answer = bag_of(made.sql(SQL).to_arrow())
    assert len(answer) == 8
    return answer


def test_batch_frames_and_files_give_the_answer_of_timestamps_and_tell_what_they_skip(spark, tmp_path):
    (tmp_path / "b.csv").write_text("k,ts\n" + "".join(f"{row['k']},{row['ts'] or ''}\n" for row in TEXT.to_pylist()))
    session = wm.Session(spark, buckets=1)
    session.stream("a", batch_frame(spark, NUMBERS), time="ts", **OF_NUMBERS)
    session.stream("b", str(tmp_path / "b.csv"), time="ts", **OF_TEXT)
    query = session.sql(SQL)
    with pytest.warns(wm.DataWarning, match="skipped_rows: .*1 row of stream 'a' has no event time and was left out"):
        assert bag_of(query.to_arrow()) == expected()
    assert query.metrics()["skipped_by_stream"] == {"a": 1, "b": 1}


@pytest.mark.filterwarnings("ignore:skipped_rows")
def test_a_stream_of_packed_files_beside_a_dataframe_of_the_users_own_does_the_same(spark, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "0.json").write_text("".join(json.dumps(row) + "\n" for row in TEXT.to_pylist()))
    write_arrivals(tmp_path / "a", [NUMBERS])
    session = wm.Session(spark, buckets=1)
    session.stream("a", streaming_frame(spark, tmp_path / "a", NUMBERS.schema), time="ts", **OF_NUMBERS)
    said = ", ".join(f"{name} = '{value}'" for name, value in OF_TEXT.items())
    script = f"CREATE STREAM b WITH (path = '{tmp_path}/b', time = 'ts', {said}); {SQL}"
    (job,) = read_script(script, session.catalog, opener=OnSpark(spark))
    metrics = Metrics()
    given = run_streaming(spark, session.host.dataframe(job.plan, metrics), tmp_path / "checkpoint", tmp_path / "out")
    patience = time.monotonic() + 30
    while not metrics.rows_in and time.monotonic() < patience:  # Spark tells it a little later
        time.sleep(0.05)
    assert bag_of(given) == expected()
    assert (metrics.rows_in, metrics.skipped_rows) == (11, 2)
    assert metrics.skipped_by_stream == {"a": 1, "b": 1}


def test_packed_files_are_read_with_what_the_stream_says(tmp_path):
    """Without Spark: what a task reads of a file."""
    (tmp_path / "a.csv").write_text("k,TS,x\n1,2024-07-01 12:00:00,?\n2,,?\n")
    files = FileStream(str(tmp_path), format=Csv())
    said = TimeReading("ts", zone="Europe/Paris")
    schema = files.columns("s", None, said)
    assert schema.field("TS").type == pa.timestamp("us")
    reading, shown = in_schema(said, "s", schema)
    read = files.read_as(Stream("s", shown, "TS", reading=reading)).narrowed(["k", "TS"])
    (batch,) = read.of_file(tmp_path / "a.csv", 10)
    assert [str(at) for at in batch.rows["TS"].to_pylist()] == ["2024-07-01 10:00:00", "None"]
    with pytest.raises(WatersmeetError, match=r"stream 's': .* in row 1 of .*a.csv, which is not written as '%Y-%j'"):
        files.columns("s", None, TimeReading("ts", format="%Y-%j"))


def test_rows_without_a_time_are_counted_by_one_bucket_for_all(tmp_path):
    """Simulated: batches of which some have nothing but such rows."""
    rows = pa.table({"k": [1, 2, 1], "ts": pa.array([None, 0, 1_000_000], pa.timestamp("us"))})
    sources = [Source(name, rows, arrival=Arrival(on_null="skip")) for name in "ab"]
    run = Simulation(SQL, sources, buckets=2)
    tally = followed(run, {name: [rows, rows.slice(0, 1)] for name in "ab"})
    assert tally.total.skipped_by_stream == {"a": 2, "b": 2}
    assert (tally.total.skipped_rows, tally.total.rows_in, tally.total.results) == (4, 8, 2)


def test_what_is_wrong_is_told_before_anything_runs(spark, tmp_path):
    write_arrivals(tmp_path / "a", [NUMBERS.slice(5)])
    session = wm.Session(spark, buckets=1)
    with pytest.raises(WatersmeetError, match=r"did you mean time_unit='ms'\?"):
        session.stream("a", wm.ParquetStream(str(tmp_path / "a")), time="ts", time_unit="s")
    for data in (wm.ParquetStream(str(tmp_path / "a")), batch_frame(spark, NUMBERS.slice(5))):
        with pytest.raises(WatersmeetError, match=r"say time_unit = 'ms': its first value, 1712345678000"):
            session.stream("a", data, time="ts")
