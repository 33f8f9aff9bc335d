"""What goes wrong around a run that people started by a command: one sentence, an exit code, and a restart goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.durable.lives import rows_of
from tests.kafka.command import HOSTS, LOCAL, Command, told_once
from tests.kafka.mock_cluster import QUIET
from tests.kafka.topics import answers, make_topic, put_rows, sink, stream
from watersmeet.demo.broker import Broker, running_broker
from watersmeet.errors import SetupError

pytestmark = pytest.mark.kafka

COUNT = 200
QUERY = "SELECT a.id, a.k FROM a WHERE a.k >= 0"
SOON_S = 60.0  # within which a person should hear of it, on a machine that is busy
ends_on_both = pytest.mark.parametrize("host", HOSTS)


def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.brokers, **QUIET})


def delete(broker: Broker, topic: str) -> None:
    client = admin(broker)
    client.delete_topics([topic])[topic].result()


def fed(broker: Broker, topic: str, begin: int = 0, count: int = COUNT) -> None:
    put_rows(broker.brokers, topic, rows_of("a", 4 * COUNT).slice(begin, count), 1)


def script(brokers: str, topic: str, **options: str) -> str:
    return stream(brokers, "a", topic, lateness="1 second", **options) + sink(brokers, f"{topic}-out", QUERY, **options)


def there(broker: Broker, topic: str) -> int:
    return sum(answers(broker.brokers, f"{topic}-out", "id").values())


def has(broker: Broker, topic: str, count: int) -> bool:
    known = admin(broker).list_topics(timeout=10).topics
    return f"{topic}-out" in known and there(broker, topic) >= count


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    make_topic(broker.brokers, name, 1)
    fed(broker, name)
    return name


@ends_on_both
def test_a_broker_that_does_not_answer(host: str, tmp_path: Path) -> None:
    run = Command(tmp_path, script("127.0.0.1:9", "orders", timeout="2 seconds"), *HOSTS[host])
    assert run.ended() == 1
    told_once(run.said, "no broker answers at 127.0.0.1:9", "within 2 s")


@ends_on_both
def test_a_topic_that_is_not_there(host: str, broker: Broker, topic: str, tmp_path: Path) -> None:
    run = Command(tmp_path, script(broker.brokers, f"{topic}s"), *HOSTS[host])
    assert run.ended() == 1
    told_once(run.said, "no such topic", f"did you mean '{topic}'?")


@ends_on_both
def test_credentials_that_are_wrong(host: str, broker: Broker, topic: str, tmp_path: Path) -> None:
    safe = {
        "'kafka.security.protocol'": "SASL_PLAINTEXT",
        "'kafka.sasl.mechanism'": "PLAIN",
        "'kafka.sasl.username'": broker.user,
        "'kafka.sasl.password'": "${SECRET}",
        "timeout": "5 seconds",
    }
    said = {"SECRET": "hush-hush"}
    run = Command(tmp_path, script(broker.safe_brokers, topic, **safe), *HOSTS[host], environment=said)
    assert run.ended() == 1
    told_once(run.said, "refuse the credentials")
    assert "hush" not in run.said


@ends_on_both
def test_ctrl_c_and_a_restart(host: str, broker: Broker, topic: str, tmp_path: Path) -> None:
    text = script(broker.brokers, topic)
    run = Command(tmp_path, text, *HOSTS[host])
    run.until(lambda: has(broker, topic, COUNT))
    assert run.interrupt() == 130, run.said
    told_once(run.said, "goes on")
    fed(broker, topic, COUNT)
    run = Command(tmp_path, text, *HOSTS[host], "--available-now")
    assert run.ended() == 0, run.said
    assert answers(broker.brokers, f"{topic}-out", "id") == {(one,): 1 for one in range(2 * COUNT)}


@ends_on_both
def test_a_topic_that_is_deleted_while_it_is_read(host: str, broker: Broker, topic: str, tmp_path: Path) -> None:
    text = script(broker.brokers, topic)
    run = Command(tmp_path, text, *HOSTS[host])
    run.until(lambda: has(broker, topic, COUNT))
    delete(broker, topic)
    assert run.ended(SOON_S) == 1
    told_once(run.said, topic, "needs a new checkpoint")
    assert there(broker, topic) == COUNT


@ends_on_both
@pytest.mark.parametrize("how", ["cut short", "filled anew"])
def test_records_that_are_gone_when_a_run_goes_on(how: str, host: str, broker: Broker, tmp_path: Path) -> None:
    topic = f"gone-{how.replace(' ', '-')}-{host}"
    make_topic(broker.brokers, topic, 1)
    fed(broker, topic)
    text = script(broker.brokers, topic)
    run = Command(tmp_path, text, *HOSTS[host], "--available-now")
    assert run.ended() == 0, run.said
    if how == "cut short":
        fed(broker, topic, COUNT)
        place = TopicPartition(topic, 0, -1)
        client = admin(broker)
        client.delete_records([place])[place].result()
    else:
        delete(broker, topic)
        make_topic(broker.brokers, topic, 1)
        fed(broker, topic, 0, 2 * COUNT)
    run = Command(tmp_path, text, *HOSTS[host], "--available-now")
    assert run.ended() == 1, run.said
    told_once(run.said, "gone", "another checkpoint")
    assert there(broker, topic) == COUNT


@ends_on_both
def test_a_sink_topic_that_is_deleted_while_a_run_writes(host: str, broker: Broker, topic: str, tmp_path: Path) -> None:
    text = script(broker.brokers, topic)
    run = Command(tmp_path, text, *HOSTS[host])
    run.until(lambda: has(broker, topic, COUNT))
    delete(broker, f"{topic}-out")
    fed(broker, topic, COUNT)
    assert run.ended(SOON_S) == 1
    told_once(run.said, f"topic '{topic}-out' is there no more", "if_gone = 'make'")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "none", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("a small disk cannot be mounted here: that needs the rights of root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_disk_of_the_broker_that_is_full(small_disk: Path, tmp_path: Path) -> None:
    """The broker goes down with it; when there is room again and it is back, a restart has all, each once."""
    try:
        with running_broker(small_disk / "broker") as broker:
            make_topic(broker.brokers, "full", 1)
            fed(broker, "full")
            text = script(broker.brokers, "full")
            run = Command(tmp_path, text, *LOCAL)
            run.until(lambda: has(broker, "full", COUNT))
            hog = small_disk / "hog"
            _fill(hog)
            assert _cannot_be_fed(broker, "full")
            code = run.interrupt()
            assert code in (1, 130), run.said
            told_once(run.said)
            hog.unlink()
            broker.kill()
            broker.start()
            fed(broker, "full", COUNT)
            run = Command(tmp_path, text, *LOCAL, "--available-now")
            assert run.ended() == 0, run.said
            found = answers(broker.brokers, "full-out", "id")
            assert set(found.values()) == {1}
            assert len(found) == 2 * COUNT
    except SetupError as error:
        pytest.skip(error.message)


def _cannot_be_fed(broker: Broker, topic: str) -> bool:
    """Whether a record is not taken within seconds: the broker is gone, or refuses it."""
    producer = Producer({"bootstrap.servers": broker.brokers, "message.timeout.ms": 5000, **QUIET})
    told: list[object] = []
    producer.produce(topic, bytes(1 << 19), partition=0, on_delivery=lambda error, _: told.append(error))
    return producer.flush(10) > 0 or told[0] is not None


def _fill(hog: Path) -> None:
    with hog.open("wb") as file:
        try:
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        except OSError:
            pass


def test_a_process_that_is_killed_leaves_nothing_behind(broker: Broker, topic: str, tmp_path: Path) -> None:
    text = script(broker.brokers, topic)
    run = Command(tmp_path, text, *LOCAL)
    run.until(lambda: has(broker, topic, COUNT))
    os.kill(run.pid, signal.SIGKILL)
    run.ended()
    began_s = time.monotonic()
    fed(broker, topic, COUNT)
    run = Command(tmp_path, text, *LOCAL, "--available-now")
    assert run.ended() == 0, run.said
    assert time.monotonic() - began_s < SOON_S
    assert there(broker, topic) == 2 * COUNT
