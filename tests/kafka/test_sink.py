"""Topics as sinks, on a cluster that the client library plays."""

from __future__ import annotations

import json
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.kafka.mock_cluster import MockCluster
from tests.kafka.openings import sink
from watersmeet.errors import OptionError, SinkError
from watersmeet.io.connectors.claims import known_after, new_start
from watersmeet.io.connectors.kafka.encoding import json_records
from watersmeet.io.connectors.kafka.markers import DEFAULT_TOPIC
from watersmeet.io.sinks import sink_from_options

ROWS = pa.record_batch({"id": [1, 2, 3], "page": ["/a", None, "/c"]})
COUNTS = pa.schema([("page", pa.string()), ("n", pa.int64()), ("_op", pa.string())])


@pytest.fixture
def topic(mock: MockCluster) -> str:
    mock.topic(DEFAULT_TOPIC)
    return mock.topic()


def values(mock: MockCluster, topic: str) -> list[object]:
    return sorted((json.loads(value or b"null") for _, value in mock.records(topic)), key=str)


def test_a_number_is_taken_once_in_all_lives(mock: MockCluster, topic: str):
    one = sink(mock.brokers, topic, ROWS.schema, run="once")
    assert one.committed() == -1
    one.commit(3, [ROWS.slice(0, 1)])
    one.commit(3, [ROWS.slice(0, 1)])
    one.close()
    other = sink(mock.brokers, topic, ROWS.schema, run="once")
    assert other.committed() == 3
    other.commit(2, [ROWS.slice(1, 1)])
    other.commit(5, [ROWS.slice(1)])
    other.close()
    assert values(mock, topic) == [{"id": 1, "page": "/a"}, {"id": 2, "page": None}, {"id": 3, "page": "/c"}]
    assert sink(mock.brokers, topic, ROWS.schema, run="another").committed() == -1


def test_a_topic_that_has_no_leader_yet_is_asked_again(mock: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch):
    """As one that was made just now, on brokers that have much to do."""
    told = [KafkaException(KafkaError(KafkaError._NOENT, "no leaders found"))] * 2
    list_offsets = AdminClient.list_offsets

    def told_first(admin: AdminClient, places: dict[Any, Any], **how: Any) -> dict[Any, Future[Any]]:
        if not told:
            return list_offsets(admin, places, **how)
        failed: Future[Any] = Future()
        failed.set_exception(told.pop())
        return dict.fromkeys(places, failed)

    sink(mock.brokers, topic, ROWS.schema, run="soon").commit(3, [ROWS])
    monkeypatch.setattr(AdminClient, "list_offsets", told_first)
    assert sink(mock.brokers, topic, ROWS.schema, run="soon").committed() == 3
    assert not told
    told += [KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))]
    with pytest.raises(SinkError, match="cannot learn from topic"):
        sink(mock.brokers, topic, ROWS.schema, run="soon")


def test_a_topic_that_is_gone_is_not_made_anew_for_a_run_that_has_written_to_it(
    mock: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
):
    made: list[str] = []
    monkeypatch.setattr(
        "watersmeet.io.connectors.kafka.topics._make", lambda cluster, sink, new: made.append(new.topic)
    )
    with pytest.raises(SinkError, match="up to batch 3, but there is no topic 'gone'"):
        sink(mock.brokers, "gone", ROWS.schema, run="on", committed=3)
    with pytest.raises(SinkError, match=r"up to batch 3, but there is no topic 'no\.markers'"):
        sink(mock.brokers, topic, ROWS.schema, run="on", committed=3, marker_topic="no.markers")
    assert made == []


def test_upserts_leave_what_every_key_is_now_and_tombstones(mock: MockCluster, topic: str):
    rows = pa.record_batch(
        {"page": ["/a", "/a", "/b", "/a", "/b", ""], "n": [1, 1, 1, 2, 1, 9], "_op": ["+", "-", "+", "+", "-", "+"]}
    )
    one = sink(mock.brokers, topic, COUNTS, run="upserts", keys=("page",), changes="_op", mode="upsert")
    one.commit(0, [rows])
    one.close()
    found = dict(mock.records(topic))
    assert found == {b"/a": b'{"page": "/a", "n": 2}', b"/b": None, b"": b'{"page": "", "n": 9}'}


def test_a_key_of_zero_goes_as_it_came_whatever_its_sign(mock: MockCluster, topic: str):
    schema = pa.schema([("f", pa.float64()), ("n", pa.int64()), ("_op", pa.string())])
    one = sink(mock.brokers, topic, schema, run="zeros", keys=("f",), changes="_op", mode="upsert")
    one.commit(0, [pa.record_batch({"f": [-0.0], "n": [1], "_op": ["+"]})])
    one.commit(1, [pa.record_batch({"f": [0.0], "n": [1], "_op": ["-"]})])
    one.close()
    assert [key for key, value in dict(mock.records(topic)).items() if value is not None] == []


def test_a_key_that_is_null_needs_json_as_a_compacted_topic_takes_no_record_without_a_key(
    mock: MockCluster, topic: str
):
    rows = pa.record_batch({"page": pa.array([None], pa.string()), "n": [9], "_op": ["+"]})
    said = {"keys": ("page",), "changes": "_op", "mode": "upsert"}
    with pytest.raises(SinkError, match="has NULL as its key 'page'"):
        sink(mock.brokers, topic, COUNTS, run="null", **said).commit(0, [rows])
    sink(mock.brokers, topic, COUNTS, run="json", key_format="json", **said).commit(0, [rows])
    assert mock.records(topic) == [(b'{"page": null}', b'{"page": null, "n": 9}')]


def test_changes_are_written_as_they_are(mock: MockCluster, topic: str):
    rows = pa.record_batch({"page": ["/a", "/a"], "n": [1, 1], "_op": ["+", "-"]})
    one = sink(mock.brokers, topic, COUNTS, run="changes", keys=("page",), changes="_op", key="page")
    one.commit(0, [rows])
    assert [key for key, _ in mock.records(topic)] == [b"/a", b"/a"]
    assert [json.loads(value or b"")["_op"] for _, value in mock.records(topic)] == ["+", "-"]


def test_a_key_of_several_columns_is_json(mock: MockCluster, topic: str):
    one = sink(mock.brokers, topic, ROWS.schema, run="keys", key="id, page", format="csv")
    one.commit(0, [ROWS.slice(0, 1)])
    assert mock.records(topic) == [(b'{"id": 1, "page": "/a"}', b'1,"/a"')]


def test_a_raw_value_is_the_column_beside_the_key(mock: MockCluster, topic: str):
    one = sink(mock.brokers, topic, ROWS.schema, run="raw", key="id", format="raw")
    one.commit(0, [ROWS.slice(0, 2)])
    assert sorted(mock.records(topic)) == [(b"1", b"/a"), (b"2", None)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "overwrite"}, "may be 'append' or 'upsert'"),
        ({"mode": "upsert"}, "no GROUP BY"),
        ({"key": "nope"}, "names column 'nope'"),
        ({"format": "xml"}, "no format 'xml'"),
        ({"format": "raw"}, "one raw value"),
        ({"partitions": "none"}, "not a number"),
        ({"key": "id", "key_format": "xml"}, "'text' or 'json'"),
    ],
)
def test_what_makes_no_sense_is_refused(mock: MockCluster, topic: str, options: dict[str, str], words: str):
    with pytest.raises((OptionError, SinkError)) as told:
        sink(mock.brokers, topic, ROWS.schema, **options)  # type: ignore[arg-type]
    assert words in str(told.value)


def test_json_is_that_of_our_files(tmp_path: Path):
    rows = pa.record_batch(
        {
            "i": pa.array([1, None, -(2**63)]),
            "f": pa.array([1.5, float("nan"), 1e300]),
            "s": pa.array(['a"b\\c', None, "é\n\t\x00"]),
            "plain": pa.array(['"', "\\", None]),
            "b": pa.array([True, None, False]),
            "t": pa.array([datetime(2026, 1, 1), datetime(1, 1, 1), None]),
            "u": pa.array(
                [datetime(2026, 1, 1), datetime(1960, 1, 1, 0, 0, 0, 5), datetime(2026, 1, 1, 1, 1, 1, 500_000)]
            ),
            "l": pa.array([[1], None, []]),
            'na"me': pa.array([1, 2, 3]),
        }
    )
    sink = sink_from_options("o", {"path": str(tmp_path / "o.json")}, rows.schema)
    sink.write(rows)
    sink.close()
    assert json_records(rows) == (tmp_path / "o.json").read_bytes().splitlines()
    assert all(isinstance(json.loads(one or b""), dict) for one in json_records(rows))


def test_a_start_that_the_brokers_shut_out_names_the_newer_one(
    mock: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
):
    """The played cluster shuts out nobody, so that is played, too; `test_broker.py` has brokers that do."""

    def fenced(*given: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED))

    first = new_start([])
    old = sink(mock.brokers, topic, ROWS.schema, run="two", start=first)
    old.commit(0, [ROWS.slice(0, 1)])
    new = sink(mock.brokers, topic, ROWS.schema, run="two", start=new_start([first.token]))
    assert new.committed() == 0
    monkeypatch.setattr(old, "_write", fenced)
    with pytest.raises(SinkError, match=r"'answers' is owned by a newer start \(run two, start 2, since 20.*, process"):
        old.commit(1, [ROWS.slice(1, 1)])
    new.commit(1, [ROWS.slice(2, 1)])
    assert [one["id"] for one in values(mock, topic)] == [1, 3]


def test_what_another_copy_has_written_to_a_topic_is_not_taken_for_ones_own(mock: MockCluster, topic: str):
    first = new_start([])
    sink(mock.brokers, topic, ROWS.schema, run="copies", start=first).commit(0, [ROWS])
    other = sink(mock.brokers, topic, ROWS.schema, run="copies", start=new_start([first.token]))
    other.commit(1, [ROWS])
    with pytest.raises(SinkError, match=r"does not know .* another copy of it has written them"):
        sink(mock.brokers, topic, ROWS.schema, run="copies", start=new_start([first.token]))


def test_the_next_start_of_a_run_goes_on_behind_lives_that_wrote_nothing(mock: MockCluster, topic: str):
    known: list[str] = []
    for number in range(4):
        start = new_start(known)
        one = sink(mock.brokers, topic, ROWS.schema, run="lives", start=start)
        assert one.committed() == (0 if number else -1)
        known = known_after(start, [one])
        if not number:
            one.commit(0, [ROWS])
        one.close()
    assert len(values(mock, topic)) == 3
