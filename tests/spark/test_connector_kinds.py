"""Our own connectors on Spark: a topic and a Delta table are joined, into a topic and into a table of SQLite."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from watersmeet.hosts.spark.run import SparkRun
from watersmeet.runtime.run_settings import RunSettings

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka: pip install 'watersmeet[kafka]'")
deltalake = pytest.importorskip("deltalake", reason="needs deltalake: pip install 'watersmeet[delta]'")

from tests.kafka.mock_cluster import MockCluster  # noqa: E402 (it needs the library)

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


@pytest.mark.parametrize("kind", ["kafka", pytest.param("sqlite", marks=pytest.mark.soak)])
def test_a_topic_and_a_lake_meet_and_go_to_a_topic_or_a_database(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = MockCluster()
    orders, answers, _ = (cluster.topic(name) for name in ("orders", "answers", "watersmeet.batches"))
    numbers = list(range(60))
    for partition in range(4):
        mine = [{"id": n, "k": n % 5, "ts": START + n * SECOND} for n in numbers if n % 4 == partition]
        cluster.put(orders, [json.dumps(one).encode() for one in mine], partition=partition)
    times = pa.array([START + n * SECOND for n in numbers], pa.int64()).cast(pa.timestamp("us"))
    paid = pa.table({"id": numbers, "paid": [n * 10 for n in numbers], "ts": times})
    for begin in range(0, 60, 20):
        deltalake.write_deltalake("paid", paid.slice(begin, 20), mode="append")
    with sqlite3.connect("names.db") as database:
        database.execute("CREATE TABLE names (k INTEGER, name TEXT)")
        database.executemany("INSERT INTO names VALUES (?, ?)", [(k, f"shop {k}") for k in range(5)])
    sinks = {
        "kafka": f"sink='kafka', brokers='{cluster.brokers}', topic='{answers}', format='json'",
        "sqlite": f"sink='sqlite', path='{tmp_path}/out.db', table='told'",
    }
    script = f"""
        CREATE STREAM orders (id BIGINT, k BIGINT, ts BIGINT) WITH (source='kafka', brokers='{cluster.brokers}',
            topic='{orders}', format='json', time='ts', time_unit='us', lateness='1 hour', max_rows_per_batch='30');
        CREATE STREAM paid WITH (source='delta', path='{tmp_path}/paid', time='ts', lateness='1 hour');
        CREATE TABLE names WITH (source='sqlite', path='{tmp_path}/names.db', table='names');
        CREATE SINK told WITH ({sinks[kind]}) AS
            SELECT o.id, n.name, p.paid FROM orders o, paid p, names n
            WHERE o.id = p.id AND o.k = n.k WINDOW = 5 SECONDS;
    """
    SparkRun(spark, script, RunSettings(available_now=True, buckets=2)).run()
    if kind == "kafka":
        found = [json.loads(value or b"") for _, value in cluster.records(answers)]
    else:
        with sqlite3.connect("out.db") as database:
            rows = database.execute("SELECT id, name, paid FROM told").fetchall()
        found = [dict(zip(("id", "name", "paid"), row, strict=True)) for row in rows]
    expected = [{"id": n, "name": f"shop {n % 5}", "paid": n * 10} for n in numbers]
    assert sorted(found, key=lambda row: row["id"]) == expected
