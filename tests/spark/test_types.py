"""Every type that Spark and Arrow share passes through a join unchanged, as payload and, where it can be, as key."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types

from tests.runners import bag
from tests.spark.harness import batch_frame, run_streaming, streaming_frame, write_arrivals
from tests.spark.kinds import KEYS, KINDS, every_kind
from watersmeet import Session
from watersmeet.errors import CatalogError
from watersmeet.hosts.spark.types import arrow_schema, arrow_type, spark_layout, spark_schema, spark_type

PAYLOAD = ", ".join(f"a.{name} AS {name}" for name in KINDS)
ALL_COLUMNS = f"SELECT a.id AS a, b.id AS b, {PAYLOAD} FROM a, b WINDOW = 0 SECONDS"


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def expected_rows() -> list[tuple[object, ...]]:
    """Each of the three rows meets itself."""
    table = every_kind()
    columns = [table["id"], table["id"], *(table[name] for name in KINDS)]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True), key=repr)


def test_schemas_go_to_spark_and_back():
    schema = every_kind().schema
    assert arrow_schema(spark_schema(schema), "it") == schema


@pytest.mark.parametrize(
    ("kind", "widened"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.large_string(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", tz="Europe/Berlin"), pa.timestamp("us", tz="UTC")),
        (pa.date64(), pa.date32()),
        (pa.large_list(pa.int8()), pa.list_(pa.int8())),
        (pa.list_(pa.int8(), 2), pa.list_(pa.int8())),
        (pa.list_(pa.uint8()), pa.list_(pa.int16())),
    ],
    ids=str,
)
def test_types_spark_lacks_become_the_next_wider_one(kind, widened):
    assert spark_layout(pa.schema([("x", kind)])).field("x").type == widened


def test_a_type_without_a_counterpart_is_refused_by_name():
    with pytest.raises(CatalogError, match=r"time64.*\nhint: cast"):
        spark_type(pa.time64("us"))
    with pytest.raises(CatalogError, match="interval year to month, which cannot be carried over"):
        arrow_type(spark_types.YearMonthIntervalType(), "stream 'a', column 'x'")


def test_char_and_varchar_are_strings():
    assert {arrow_type(spark_types.VarcharType(3), ""), arrow_type(spark_types.CharType(3), "")} == {pa.string()}


def test_batch_frames_carry_every_type_as_payload(spark):
    session = Session(spark, buckets=2)
    for name in "ab":
        session.stream(name, batch_frame(spark, every_kind()), time="ts")
    query = session.sql(ALL_COLUMNS)
    assert query.to_arrow().schema == query.schema
    assert rows(query.to_arrow()) == expected_rows()


def test_streams_carry_every_type_as_payload_through_the_state(spark, tmp_path):
    """The rows of b come a batch after those of a, which have to be kept meanwhile."""
    table = every_kind()
    kinds = [f for f in table.schema if f.type != pa.duration("us")]  # Parquet of Arrow has no such intervals for Spark
    table = table.select([f.name for f in kinds])
    write_arrivals(tmp_path / "a", [table, table.slice(0, 0)])
    write_arrivals(tmp_path / "b", [table.slice(0, 0), table])
    session = Session(spark, buckets=2)
    for name in "ab":
        session.stream(name, streaming_frame(spark, tmp_path / name, table.schema), time="ts")
    frame = session.sql(ALL_COLUMNS.replace(", a.span AS span", "")).dataframe()
    answer = run_streaming(spark, frame, tmp_path / "checkpoint", tmp_path / "sink")
    at = 2 + list(KINDS).index("span")
    assert rows(answer) == sorted(((*row[:at], *row[at + 1 :]) for row in expected_rows()), key=repr)


def test_every_type_with_equality_can_be_a_key(spark):
    """One join per type, in one Spark job: values meet themselves and NULL meets nothing."""
    session = Session(spark, buckets=2)
    for name in "ab":
        session.stream(name, batch_frame(spark, every_kind()), time="ts")
    frames = [
        session.sql(
            f"SELECT a.id AS a, b.id AS b, '{key}' AS k FROM a, b WHERE a.{key} = b.{key} WINDOW = 5 SECONDS"
        ).dataframe()
        for key in KEYS
    ]
    united = frames[0]
    for frame in frames[1:]:
        united = united.union(frame)
    found = bag([tuple(row) for row in united.collect()])
    assert found == bag([(i, i, key) for key in KEYS for i in (0, 1)])


@pytest.mark.parametrize("zone", [pytest.param("UTC", marks=pytest.mark.soak), "America/New_York"])
def test_a_time_without_a_zone_is_utc_whatever_the_zone_of_the_session(spark, tmp_path, zone):
    """02:30 on that day does not exist in New York."""
    at = datetime(2024, 3, 10, 2, 30)
    naive = pa.table({"ts": pa.array([at], pa.timestamp("us")), "id": ["naive"]})
    aware = pa.table({"ts": pa.array([at], pa.timestamp("us", tz="UTC")), "id": ["aware"]})
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    sql = "SELECT a.id AS a, b.id AS b, a.ts AS a_ts, b.ts AS b_ts FROM a, b WINDOW = 0 SECONDS"
    try:
        session = Session(spark, buckets=1)
        session.stream("a", naive, time="ts")
        session.stream("b", aware, time="ts")
        in_memory = session.sql(sql).to_arrow()
        for name, table in (("a", naive), ("b", aware)):
            write_arrivals(tmp_path / name, [table])
        streams = Session(spark, buckets=1)
        for name, table in (("a", naive), ("b", aware)):
            streams.stream(name, streaming_frame(spark, tmp_path / name, table.schema), time="ts")
        answer = run_streaming(spark, streams.sql(sql).dataframe(), tmp_path / "checkpoint", tmp_path / "sink")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    expected = ("naive", "aware", pa.scalar(at, pa.timestamp("us")), pa.scalar(at, pa.timestamp("us", tz="UTC")))
    for table in (in_memory, answer):
        ((a, b, a_ts, b_ts),) = zip(*table.columns, strict=True)
        assert (a.as_py(), b.as_py(), a_ts.value, b_ts.value) == (*expected[:2], expected[2].value, expected[3].value)
