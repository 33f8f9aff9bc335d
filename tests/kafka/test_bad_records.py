"""Records of a topic that cannot be read go where the stream says, once, and slow partitions make no row late."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

import watersmeet as wm
from tests.beside.test_exactly_once import life
from tests.kafka.mock_cluster import MockCluster


def event(number: int, second: int) -> bytes:
    at = f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}"
    return json.dumps({"id": number, "ts": at}).encode()


def test_bad_records_of_a_topic_go_to_another_and_partitions_have_their_own_time(
    mock: MockCluster, tmp_path: Path
) -> None:
    topic, bad = mock.topic(), mock.topic()
    mock.topic("watersmeet.batches")  # which this cluster makes for nobody else
    # One partition is half an hour ahead of another.
    mock.put(topic, [event(n, 1800 + n) for n in range(40)], partition=0)
    mock.put(topic, [event(100 + n, n) for n in range(40)], partition=1)
    mock.put(topic, [b"no json", event(200, 900), b'{"id": "x"}', b'{"id": 201}'], partition=2)
    text = f"""
        CREATE SINK bad WITH (sink = 'kafka', brokers = '{mock.brokers}', topic = '{bad}', format = 'json');
        CREATE STREAM a (id BIGINT, ts TIMESTAMP)
        WITH (source = 'kafka', brokers = '{mock.brokers}', topic = '{topic}', format = 'json', time = 'ts',
              on_bad = 'sink bad', on_late = 'error');
        CREATE SINK out WITH (sink = 'parquet', path = '{tmp_path}/out') AS
        SELECT window_start, COUNT(*) AS n FROM TUMBLE(a, 1 MINUTE) GROUP BY window_start, window_end;
    """
    runs = life(text, tmp_path, flush=True)
    assert sum(pq.read_table(tmp_path / "out").column("n").to_pylist()) == 81
    told = runs.runs["out"].latest()
    assert told.late_rows == 0
    assert told.bad_rows == 3
    kept = [json.loads(value or b"") for _, value in mock.records(bad)]
    assert sorted((one["partition"], one["offset"]) for one in kept) == [(2, 0), (2, 2), (2, 3)]
    assert {one["place"] for one in kept} == {topic}
    life(text, tmp_path, flush=True)  # nothing is new
    assert len(mock.records(bad)) == 3


def test_rows_are_checked_and_looked_at_without_the_records_that_are_left_out(mock: MockCluster) -> None:
    topic = mock.topic()
    mock.put(topic, [b'{"id": 1, "ts": "2026-01-01T00:00:00"}', b"x", b'{"id": 2, "ts": "2026-01-01T00:00:01"}'])
    session = wm.Session()
    session.sql(
        f"CREATE STREAM s (id BIGINT, ts TIMESTAMP) WITH (source = 'kafka', brokers = '{mock.brokers}', "
        f"topic = '{topic}', format = 'json', time = 'ts', on_bad = 'skip')"
    )
    query = session.sql("SELECT id FROM s")
    assert wm.check(query).equal
    assert "2026-01-01 00:00:01" in str(query.timeline())
