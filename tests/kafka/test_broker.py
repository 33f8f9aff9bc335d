"""A real broker: exactly once through kills of our process, restarts of the broker and new partitions."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.connectors.lives import POINTS, Script, lived
from tests.durable.lives import rows_of
from tests.kafka import openings
from tests.kafka.mock_cluster import QUIET
from tests.kafka.topics import answers, make_topic, put_rows, said_by_duckdb, sink, stream
from watersmeet.demo.broker import Broker
from watersmeet.errors import SinkError, SourceError
from watersmeet.io.connectors.claims import new_start

pytestmark = pytest.mark.kafka

COUNT = 600
ANY_ORDER = "1 day"  # partitions are read one ahead of the other
QUERIES = {
    "join": (
        "SELECT a.id AS x, b.id AS y, a.s FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS",
        "SELECT a.id, b.id, a.s FROM a, b WHERE a.k = b.k AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 2000000",
        ("x", "y", "s"),
    ),
    "three": (
        "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
        "DWINDOW (a, b) = 1 SECONDS AND DWINDOW (b, c) = 2 SECONDS",
        "SELECT a.id, b.id, c.id FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
        "AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 1 SECOND AND c.ts >= b.ts AND c.ts <= b.ts + INTERVAL 2 SECOND",
        ("x", "y", "z"),
    ),
}


def streams_in(query: str) -> tuple[str, ...]:
    return ("a", "b", "c") if query == "three" else ("a", "b")


def script(broker: Broker, name: str, query: str, folder: Path) -> Script:
    said = {"timeout": "2 minutes"}  # a broker may be on its way
    inputs = [stream(broker.brokers, one, f"{name}-{one}", lateness=ANY_ORDER, **said) for one in streams_in(query)]
    answered = sink(broker.brokers, f"{name}-out", QUERIES[query][0], **said)
    return Script("".join(inputs) + answered, folder / "checkpoint")


def fed(broker: Broker, name: str, query: str) -> None:
    for one in streams_in(query):
        make_topic(broker.brokers, f"{name}-{one}")
        put_rows(broker.brokers, f"{name}-{one}", rows_of(one, COUNT))


def check(broker: Broker, name: str, query: str) -> None:
    _, said, columns = QUERIES[query]
    assert answers(broker.brokers, f"{name}-out", *columns) == said_by_duckdb(said, COUNT, *streams_in(query))


@pytest.mark.parametrize("commits", [1, 2])  # whichever of its producers has its turn
def test_a_process_that_was_replaced_is_shut_out(commits: int, broker: Broker) -> None:
    rows, name = pa.record_batch({"id": [1, 2]}), f"fenced-{commits}"
    old = openings.sink(broker.brokers, name, rows.schema, run=name)
    for number in range(commits):
        old.commit(number, [rows])
    new = openings.sink(broker.brokers, name, rows.schema, run=name)
    assert new.committed() == commits - 1
    new.commit(commits, [rows])
    with pytest.raises(SinkError, match="another process writes with the same checkpoint"):
        old.commit(commits, [rows])
    assert sum(answers(broker.brokers, name, "id").values()) == 2 * commits + 2


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_the_newest_start_of_a_run_owns_the_topic(commits: int, broker: Broker) -> None:
    rows, name = pa.record_batch({"id": [1, 2]}), f"owned-{commits}"
    first = new_start([])
    old = openings.sink(broker.brokers, name, rows.schema, run=name, start=first)
    for number in range(commits):
        old.commit(number, [rows])
    new = openings.sink(broker.brokers, name, rows.schema, run=name, start=new_start([first.token]))
    assert new.committed() == commits - 1
    with pytest.raises(SinkError, match=rf"is owned by a newer start \(run {name}, start 2, since 20"):
        old.commit(commits, [rows])
    new.commit(commits, [rows])
    with pytest.raises(SinkError, match=r"does not know .* another copy of it has written them"):
        openings.sink(broker.brokers, name, rows.schema, run=name, start=new_start([first.token]))
    new.commit(commits + 1, [rows])  # which that has not disturbed
    assert sum(answers(broker.brokers, name, "id").values()) == 2 * commits + 4


def test_a_topic_is_made_as_it_is_asked_for(broker: Broker) -> None:
    rows = pa.record_batch({"id": [1, 2]})
    openings.sink(broker.brokers, "made", rows.schema, partitions="5", replication="1").close()
    found = AdminClient({"bootstrap.servers": broker.brokers, **QUIET}).list_topics("made", timeout=10)
    assert len(found.topics["made"].partitions) == 5
    with pytest.raises(SinkError, match="has 5 partitions"):
        openings.sink(broker.brokers, "made", rows.schema, partitions="4")


def test_partitions_that_are_added_later_are_read_from_their_beginning(broker: Broker, tmp_path: Path) -> None:
    name, query = "grows", "join"
    halves = {one: rows_of(one, COUNT) for one in ("a", "b")}
    for one, rows in halves.items():
        make_topic(broker.brokers, f"{name}-{one}", 2)
        put_rows(broker.brokers, f"{name}-{one}", rows.slice(0, COUNT // 2), 2)
    running = script(broker, name, query, tmp_path)
    assert lived(running)
    admin = AdminClient({"bootstrap.servers": broker.brokers, **QUIET})
    for one, rows in halves.items():
        admin.create_partitions([NewPartitions(f"{name}-{one}", 4)])[f"{name}-{one}"].result()
        put_rows(broker.brokers, f"{name}-{one}", rows.slice(COUNT // 2), 4)
    assert lived(running)
    check(broker, name, query)


@pytest.mark.parametrize("what", ["deleted", "cut short", "made anew", "refilled"])
def test_records_that_are_gone_are_told_and_never_passed_over(what: str, broker: Broker, tmp_path: Path) -> None:
    topic = f"gone-{what.replace(' ', '-')}"
    admin = AdminClient({"bootstrap.servers": broker.brokers, **QUIET})
    make_topic(broker.brokers, topic, 1)
    put_rows(broker.brokers, topic, rows_of("a", COUNT), 1)
    one = openings.source(broker.brokers, topic)
    begin = one.begin()
    half, topic_id = one.newest(begin, COUNT // 2), one.identity()  # type: ignore[attr-defined]
    if what == "cut short":
        from confluent_kafka import TopicPartition

        place = TopicPartition(topic, 0, half["0"] + 10)
        admin.delete_records([place])[place].result()
    else:
        admin.delete_topics([topic])[topic].result()
        if what in ("made anew", "refilled"):
            make_topic(broker.brokers, topic, 1)
        if what == "refilled":  # with records at the very offsets that come next
            put_rows(broker.brokers, topic, rows_of("b", COUNT), 1)
    reader = one.reader()  # type: ignore[attr-defined]

    def go_on() -> None:
        reader.resume({"of": topic_id, "next": [half["0"]]})
        for _ in range(200):
            reader.poll(1000)

    with pytest.raises(SourceError, match=r"gone|no such topic|no more|made anew"):
        go_on()
    reader.close()


def test_wrong_credentials_are_told_without_them(broker: Broker) -> None:
    make_topic(broker.brokers, "guarded", 1)
    put_rows(broker.brokers, "guarded", rows_of("a", 5), 1)
    safe = {
        "kafka__security__protocol": "SASL_PLAINTEXT",
        "kafka__sasl__mechanism": "PLAIN",
        "kafka__sasl__username": broker.user,
    }
    right = openings.source(broker.safe_brokers, "guarded", **safe, kafka__sasl__password=broker.password)
    assert len(openings.all_rows(right)) == 5
    with pytest.raises(SourceError, match="refuse the credentials") as told:
        openings.source(broker.safe_brokers, "guarded", **safe, kafka__sasl__password="hush-hush").begin()
    assert "hush" not in str(told.value)
    assert broker.password not in str(told.value)


def test_a_restart_of_the_broker_is_waited_for(own_broker: Broker, tmp_path: Path) -> None:
    from threading import Thread

    name, query = "restart", "join"
    fed(own_broker, name, query)
    running = script(own_broker, name, query, tmp_path)
    lived(running, POINTS[1], 2)
    own_broker.stop()
    again = Thread(target=own_broker.start)
    again.start()
    assert lived(running)
    again.join()
    check(own_broker, name, query)


def test_a_broker_that_dies_amid_a_run_is_waited_for(own_broker: Broker, tmp_path: Path) -> None:
    from threading import Timer

    name, query = "dies", "join"
    fed(own_broker, name, query)
    running = script(own_broker, name, query, tmp_path)

    def die_and_come_back() -> None:
        own_broker.kill()
        own_broker.start()

    timer = Timer(Random(1).uniform(1.5, 2.5), die_and_come_back)
    timer.start()
    assert lived(running)
    timer.join()
    check(own_broker, name, query)
