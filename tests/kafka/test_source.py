"""Topics as sources, on a cluster that the client library plays."""

from __future__ import annotations

import pickle
from datetime import datetime
from time import monotonic, sleep

import pyarrow as pa
import pytest

from tests.kafka.mock_cluster import MockCluster
from tests.kafka.openings import EVENTS, all_bad, all_rows, source
from watersmeet.errors import BindError, OptionError, SourceError
from watersmeet.io.connectors.contract import Split
from watersmeet.io.connectors.kafka import consumers
from watersmeet.io.connectors.kafka.decoding.contract import UndecodableError
from watersmeet.io.connectors.kafka.decoding.json import parsed
from watersmeet.runtime.script import check_declared, read_script

JAN = datetime(2026, 1, 1)


def event(number: int) -> bytes:
    return b'{"id": %d, "ts": "2026-01-01T00:00:00Z"}' % number


def test_a_part_gives_the_same_rows_each_time_in_another_process_too(mock: MockCluster):
    topic = mock.topic()
    mock.put(topic, [event(number) for number in range(1000)])
    one = source(mock.brokers, topic)
    first = one.begin()
    half = one.newest(first, 500)
    assert sum(half.values()) == 500
    parts = one.splits(half, one.newest(half))
    other = pickle.loads(pickle.dumps(one))
    rows = [batch.rows.to_pylist() for part in parts for batch in one.read(part)]
    assert rows == [batch.rows.to_pylist() for part in parts for batch in other.read(part)]
    assert [row["id"] for some in rows for row in some] == list(range(500, 1000))


def test_what_kafka_knows_of_a_record_is_in_columns_that_ask_for_it(mock: MockCluster):
    topic = mock.topic()
    mock.put(topic, [event(1)], keys=[b"k"], partition=2, headers={"trace": b"7"})
    columns = pa.schema(
        [
            ("id", pa.int64()), ("ts", pa.timestamp("us")), ("_key", pa.string()), ("_headers", pa.string()),
            ("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()),
            ("_timestamp", pa.timestamp("us")),
        ]
    )  # fmt: skip
    assert all_rows(source(mock.brokers, topic, columns)) == [
        {
            "id": 1, "ts": JAN, "_key": "k", "_headers": '{"trace": "7"}', "_topic": topic, "_partition": 2,
            "_offset": 0, "_timestamp": JAN,
        }
    ]  # fmt: skip


def test_the_time_of_a_record_is_its_event_time_if_that_is_asked_for(mock: MockCluster):
    topic = mock.topic()
    mock.put(topic, [b'{"id": 1}'])
    one = source(mock.brokers, topic, pa.schema([("id", pa.int64())]), "kafka")
    assert all_rows(one) == [{"id": 1, "kafka": JAN}]


def topic_of_nobody(time: str, more: str = "") -> str:
    return f"WITH (source = 'kafka', brokers = '127.0.0.1:1', topic = 't', format = 'json', time = '{time}'{more})"


def test_the_time_of_a_record_is_known_before_anybody_is_asked():
    """EXPLAIN asks no broker, and a script for Spark is looked at before that is started."""
    script = f"CREATE STREAM e (id BIGINT) {topic_of_nobody('kafka')}; SELECT id, kafka FROM e"
    job = read_script(script, open_sources=False)[0]
    assert job.plan.output_schema == pa.schema([("id", pa.int64()), ("kafka", pa.timestamp("us"))])
    check_declared(script)
    versions = topic_of_nobody("kafka", ", key = 'id', op = 'op'").replace("json", "upsert")
    check_declared(
        f"CREATE TABLE v (id BIGINT, op STRING) {versions}; CREATE STREAM e (id BIGINT) {topic_of_nobody('kafka')};"
        "SELECT e.id FROM e JOIN v FOR SYSTEM_TIME AS OF e.kafka AS v ON e.id = v.id"
    )
    with pytest.raises(BindError, match="no column 'kafk' to take its event time from"):
        check_declared(f"CREATE STREAM e (id BIGINT) {topic_of_nobody('kafk')}; SELECT id FROM e")


def test_every_bad_record_is_told_with_its_bytes_and_the_good_ones_stay(mock: MockCluster):
    topic = mock.topic()
    bad = [b"nope", b'{"id": "one", "ts": null}', b'{"id": 2}', b"", b'{"id": 3', b'{"id": 4}{"id": 5}', b"\xff{}"]
    records = [event(0)]
    for number, one in enumerate(bad, 1):
        records += [one, event(number)]
    mock.put(topic, records)
    assert [row["id"] for row in all_rows(source(mock.brokers, topic))] == list(range(8))
    told = all_bad(source(mock.brokers, topic))
    assert [row["raw"] for row in told] == bad
    assert [row["offset"] for row in told] == [1, 3, 5, 7, 9, 11, 13]
    assert [row["reason"] for row in told] == [
        "not json",
        "wrong type",
        "null time",
        "not json",
        "not json",
        "not json",
        "not json",
    ]
    assert {(row["stream"], row["place"], row["partition"]) for row in told} == {("events", topic, 0)}


def test_records_that_a_topic_has_lost_since_they_were_read_are_told(mock: MockCluster):
    topic = mock.topic()
    mock.put(topic, [event(0), b"nope", event(2)])
    partition, after, upto, nexts, count = [0, 0, 3, [3, 0, 0, 0], 3]
    reader = source(mock.brokers, topic).reader()  # type: ignore[attr-defined]
    assert reader.again([partition, after, upto, nexts, count]).rows.num_rows == 2
    with pytest.raises(SourceError, match="has other records between offsets 0 and 3 than were read there before"):
        reader.again([partition, after, upto, nexts, count + 1])
    reader.close()


def test_settings_are_not_shown_with_what_is_read(mock: MockCluster):
    asked = source(mock.brokers, mock.topic(), **{"kafka.sasl.password": "very secret"})
    assert "very secret" not in repr(asked.reading)  # type: ignore[attr-defined]


def test_a_client_that_failed_reads_nothing_else(mock: MockCluster, monkeypatch: pytest.MonkeyPatch):
    kept: list[object] = []
    monkeypatch.setattr("watersmeet.io.connectors.kafka.source.give_back", kept.append)
    topic = mock.topic()
    mock.put(topic, [event(0)])
    asked = source(mock.brokers, topic)
    assert len(list(asked.read(Split("0", 0, 1)))) == len(kept) == 1
    next(asked.read(Split("0", 0, 1)))  # of which nobody wants the rest
    assert len(kept) == 2
    with pytest.raises(SourceError, match="gone from the topic"):
        list(asked.read(Split("0", 0, 5)))
    assert len(kept) == 2


def is_closed(client: consumers.ReadingClient) -> bool:
    try:
        client.consumer.poll(0)
    except RuntimeError:
        return True
    return False


def test_what_a_kept_client_reads_next_does_not_wait_for_what_it_asked_before(mock: MockCluster):
    """It waited a tenth of a second at least each time, which is asked of the quickest, as tests run beside others."""
    took = []
    for _ in range(6):
        topic = mock.topic()
        for partition in range(2):
            mock.put(topic, [b'{"id": 1, "ts": "2026-01-01T00:00:00"}'], partition=partition)
        begun = monotonic()
        assert len(all_rows(source(mock.brokers, topic))) == 2
        took.append(monotonic() - begun)
    assert min(took[1:]) < 0.12, took


def test_a_client_is_kept_for_the_next_and_closed_when_none_comes(mock: MockCluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumers, "_KEPT_SECONDS", 0.2)
    monkeypatch.setattr(consumers, "_idle", {})
    monkeypatch.setattr(consumers, "_sweeps", [])
    topic = mock.topic()
    cluster = source(mock.brokers, topic).reading.cluster  # type: ignore[attr-defined]
    one, other = consumers.lend("a", cluster, topic), consumers.lend("a", cluster, topic)
    consumers.give_back(one)
    assert consumers.lend("a", cluster, topic) is one
    consumers.give_back(other)
    deadline = monotonic() + 10
    while not is_closed(other) and monotonic() < deadline:
        sleep(0.05)
    assert is_closed(other)
    assert not consumers._idle
    one.consumer.poll(0)  # which was asked for again
    one.consumer.close()


def test_a_reader_brings_all_partitions_and_goes_on_where_it_was(mock: MockCluster):
    topic = mock.topic()
    for partition in range(4):
        mock.put(topic, [event(100 * partition + number) for number in range(50)], partition=partition)
    reader = source(mock.brokers, topic).reader()  # type: ignore[attr-defined]
    pieces = []
    while len(pieces) < 2 or reader.is_behind:
        piece = reader.poll(40)
        pieces += [piece] if piece is not None else []
    assert sorted(row["id"] for piece in pieces for row in piece.rows.to_pylist()) == sorted(
        100 * partition + number for partition in range(4) for number in range(50)
    )
    assert sum(reader.lag().values()) == 0
    reader.close()

    again = source(mock.brokers, topic).reader()  # type: ignore[attr-defined]
    again.resume(reader.position_after(pieces[1].range))
    assert again.again(pieces[2].range).rows.equals(pieces[2].rows)
    mock.put(topic, [event(999)], partition=3)
    rest = []
    while again.is_behind:
        piece = again.poll(1000)
        rest += piece.rows.to_pylist() if piece is not None else []
    assert sorted(row["id"] for row in rest) == sorted(
        [999, *(row["id"] for piece in pieces[3:] for row in piece.rows.to_pylist())]
    )
    again.close()


def test_a_start_is_the_end_a_time_or_offsets(mock: MockCluster):
    topic = mock.topic()
    mock.put(topic, [event(0), event(1)])
    assert source(mock.brokers, topic, start="latest").begin() == {"0": 2, "1": 0, "2": 0, "3": 0}
    assert source(mock.brokers, topic, start='{"0": 1}').begin() == {"0": 1, "1": 0, "2": 0, "3": 0}
    with pytest.raises(SourceError, match="partition 9"):
        source(mock.brokers, topic, start='{"9": 1}').begin()
    with pytest.raises(OptionError, match="no time and no place"):
        source(mock.brokers, topic, start="yesterday")


def test_a_group_is_told_how_far_rows_were_read(mock: MockCluster):
    from confluent_kafka import Consumer, TopicPartition

    topic = mock.topic()
    mock.put(topic, [event(number) for number in range(7)])
    reader = source(mock.brokers, topic, group="readers").reader()  # type: ignore[attr-defined]
    while reader.is_behind:
        reader.poll(100)
    reader.close()
    consumer = Consumer({"bootstrap.servers": mock.brokers, "group.id": "readers", "log_level": 2})
    assert consumer.committed([TopicPartition(topic, 0)], timeout=5)[0].offset == 7
    consumer.close()


def test_a_group_is_told_where_the_host_says_how_far_it_is(mock: MockCluster):
    from confluent_kafka import Consumer, TopicPartition

    topic = mock.topic()
    mock.put(topic, [event(number) for number in range(7)])
    one = source(mock.brokers, topic, group="hosted")
    one.note({"0": 5})
    one.close()
    consumer = Consumer({"bootstrap.servers": mock.brokers, "group.id": "hosted", "log_level": 2})
    assert consumer.committed([TopicPartition(topic, 0)], timeout=5)[0].offset == 5
    consumer.close()


def test_a_topic_that_is_not_there_is_told_with_one_that_is(mock: MockCluster):
    mock.topic("payments")
    with pytest.raises(SourceError, match="no such topic") as told:
        source(mock.brokers, "paymets").begin()
    assert "'payments'" in str(told.value)


def test_brokers_that_do_not_answer_are_told_in_a_sentence():
    with pytest.raises(SourceError, match=r"no broker answers at localhost:1 within 0\.5 s"):
        source("localhost:1", "events", timeout="500 ms").begin()


def test_a_setting_that_the_library_does_not_know_is_refused_without_telling_secrets(mock: MockCluster):
    with pytest.raises(OptionError, match="No such configuration property") as told:
        source(mock.brokers, "events", kafka__sasl__password="hush-hush", kafka__no__such="1").begin()
    assert "hush" not in str(told.value)
    with pytest.raises(OptionError, match="cannot be set"):
        source(mock.brokers, "events", kafka__group__id="mine")


@pytest.mark.parametrize(
    ("options", "words"),
    [({"format": "jsn"}, "did you mean 'json'"), ({"format": ""}, "does not say its format"), ({"topic": ""}, "topic")],
)
def test_what_is_missing_is_told(mock: MockCluster, options: dict[str, str], words: str):
    with pytest.raises((OptionError, SourceError)) as told:
        source(mock.brokers, **({"topic": "events"} | options))
    assert words in str(told.value)


def test_columns_must_be_declared_for_json(mock: MockCluster):
    with pytest.raises(SourceError, match="does not say its columns"):
        source(mock.brokers, "events", None)


def test_csv_and_raw_records(mock: MockCluster):
    topic = mock.topic()
    mock.put(topic, [b"1,2026-01-01 00:00:00", b'2,"2026-01-01', b"x,2026-01-01 00:00:00", b"3,4,5", b"6,2026-01-01"])
    assert [row["id"] for row in all_rows(source(mock.brokers, topic, format="csv"))] == [1, 6]
    told = [(row["offset"], row["reason"]) for row in all_bad(source(mock.brokers, topic, format="csv"))]
    assert told == [(1, "not csv"), (2, "wrong type"), (3, "not csv")]

    raw = mock.topic()
    mock.put(raw, [b"a", None, b"\xff"])
    bytes_ = source(mock.brokers, raw, None, None, format="raw")
    assert all_rows(bytes_) == [{"value": b"a"}, {"value": None}, {"value": b"\xff"}]
    text = pa.schema([("line", pa.string())])
    assert all_rows(source(mock.brokers, raw, text, None, format="raw")) == [{"line": "a"}, {"line": None}]
    assert [row["reason"] for row in all_bad(source(mock.brokers, raw, text, None, format="raw"))] == ["not utf-8"]


def test_event_times_of_numbers_and_texts_come_as_they_are_written(mock: MockCluster):
    topic = mock.topic()
    mock.put(topic, [b'{"id": 1, "ts": 1767225600000}'])
    assert all_rows(source(mock.brokers, topic, EVENTS, time_unit="ms")) == [{"id": 1, "ts": 1767225600000}]


def test_text_that_is_no_decimal_is_of_a_wrong_type_and_no_broken_json() -> None:
    columns = pa.schema([("amount", pa.decimal128(10, 2))])
    for value, reason in ((b'{"amount": "batches"}', "wrong type"), (b'{"amount": "1.0}', "not json")):
        with pytest.raises(UndecodableError) as told:
            parsed([value], columns)
        assert told.value.reason == reason


def test_how_many_records_wait_is_told_without_asking_the_consumer(mock: MockCluster):
    """It lets one call in after the other: whoever asks while another thread reads would wait, and the run with it."""
    topic = mock.topic()
    mock.put(topic, [event(number) for number in range(10)])
    reader = source(mock.brokers, topic).reader()  # type: ignore[attr-defined]
    while reader.poll(4) is None:
        pass
    consumer, reader._client.consumer = reader._client.consumer, None
    try:
        assert sum(reader.lag().values()) == 6
    finally:
        reader._client.consumer = consumer
        reader.close()


def test_small_pieces_of_several_partitions_are_made_together(mock: MockCluster):
    topic = mock.topic()
    for partition in range(3):
        mock.put(topic, [event(10 * partition + number) for number in range(partition + 1)], partition=partition)
    reader, found = source(mock.brokers, topic).reader(), []  # type: ignore[attr-defined]
    while sum(piece.rows.num_rows for piece in found) < 6:
        found += reader.poll_together(100)
    rows = {
        partition: [row["id"] for one in found if one.partition == partition for row in one.rows.to_pylist()]
        for partition in "012"
    }
    assert rows == {"0": [0], "1": [10, 11], "2": [20, 21, 22]}
    again = source(mock.brokers, topic).reader()  # type: ignore[attr-defined]
    for one in found:
        assert again.again(one.range).rows.equals(one.rows)
    reader.close()
    again.close()


@pytest.mark.parametrize("wrong", [b"no json", None])
def test_a_bad_record_among_small_pieces_is_its_own_partitions(mock: MockCluster, wrong: bytes | None):
    topic = mock.topic()
    mock.put(topic, [event(1), event(2)], partition=0)
    mock.put(topic, [event(3), wrong], partition=1)
    reader, found = source(mock.brokers, topic).reader(), []  # type: ignore[attr-defined]
    while sum(piece.rows.num_rows + (piece.bad.num_rows if piece.bad else 0) for piece in found) < 4:
        found += reader.poll_together(100)
    bad = [row for one in found if one.bad is not None for row in one.bad.to_pylist()]
    assert [(row["partition"], row["offset"], row["raw"]) for row in bad] == [(1, 1, wrong)]
    assert sorted(row["id"] for one in found for row in one.rows.to_pylist()) == [1, 2, 3]
    reader.close()
