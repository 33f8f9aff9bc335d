"""A stream that begins with files and hands over to a topic: every row comes once, in step if that is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.kafka.mock_cluster import MockCluster

SECOND = 1_000_000


def event(number: int) -> bytes:
    return json.dumps({"id": number, "ts": number * 1000}).encode()


def kept(folder: Path, first: int, end: int) -> None:
    """Rows of a second each, as files have them."""
    times = pa.array([number * SECOND for number in range(first, end)], pa.timestamp("us"))
    pq.write_table(pa.table({"id": range(first, end), "ts": times}), folder / "kept.parquet")


def session_of(folder: Path, mock: MockCluster, topic: str, **more: Any) -> wm.Session:
    session = wm.Session()
    session.stream(
        "a", source="kafka", brokers=mock.brokers, topic=topic, format="json", time="ts", time_unit="ms",
        schema={"id": "BIGINT", "ts": "TIMESTAMP"}, history="parquet", history_path=str(folder / "kept.parquet"),
        **more,
    )  # fmt: skip
    return session


def ran(session: wm.Session, folder: Path) -> list[int]:
    sink = {"sink": "parquet", "path": str(folder / "out")}
    run = session.sql("SELECT id FROM a").start(
        checkpoint=folder / "checkpoint", sink=sink, available_now=True, flush=True, batch_rows=50
    )
    run.wait()
    return sorted(pq.read_table(folder / "out")["id"].to_pylist())


@pytest.mark.filterwarnings("ignore:handover", "ignore:time_unit")
@pytest.mark.parametrize("max_drift", [None, "10 seconds"])
def test_files_then_a_topic_at_an_instant(max_drift: str | None, mock: MockCluster, tmp_path: Path) -> None:
    topic = mock.topic()
    kept(tmp_path, 0, 150)
    for partition in range(3):
        mock.put(topic, [event(number) for number in range(80 + partition, 300, 3)], partition=partition)
    more = {} if max_drift is None else {"max_drift": max_drift}
    session = session_of(tmp_path, mock, topic, handover="1970-01-01 00:02:00", **more)
    assert sorted(session.sql("SELECT id FROM a").to_arrow()["id"].to_pylist()) == list(range(300))
    assert ran(session, tmp_path) == list(range(300))
    mock.put(topic, [event(number) for number in range(300, 320)], partition=1)
    assert ran(session, tmp_path) == list(range(320))


@pytest.mark.filterwarnings("ignore:handover", "ignore:time_unit")
@pytest.mark.parametrize("handover", ['{"0": 40, "1": 40, "2": 40, "3": 0}', "start"])
def test_files_then_a_topic_at_offsets(handover: str, mock: MockCluster, tmp_path: Path) -> None:
    topic = mock.topic()
    kept(tmp_path, 0, 120)
    for partition in range(3):
        mock.put(topic, [event(number) for number in range(partition, 200, 3)], partition=partition)
    session = session_of(tmp_path, mock, topic, handover=handover, lateness="10 minutes")
    found = ran(session, tmp_path)
    assert found == (list(range(200)) if handover != "start" else sorted([*range(120), *range(200)]))
