"""The input as topics, for engines that read no files, of a broker that is there while one is asked one query."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.rivals.jvm import MissingError
from benchmarks.rivals.peers.protocol import LAST_ID, LAST_MS, Asked
from benchmarks.topics.cluster import QUIET, a_broker, new_topic, put
from watersmeet.errors import SetupError

DAY_S = 86_400  # brokers drop what is a week old


@contextmanager
def as_topics(asked: Asked) -> Iterator[Asked]:
    """A topic of one partition for each stream, with keys as windows and joins go by; the input begins yesterday."""
    begin_s = int(time.time()) - DAY_S
    with tempfile.TemporaryDirectory(prefix="peers-broker-") as folder:
        try:
            with a_broker(None, Path(folder)) as brokers:
                topics = {name: _filled(asked, name, brokers, begin_s * 1_000) for name in asked.streams}
                yield replace(asked, more={**topics, "brokers": brokers, "begin_s": str(begin_s)})
        except SetupError as error:
            raise MissingError(str(error)) from None


def _filled(asked: Asked, stream: str, brokers: str, begin_ms: int) -> str:
    topic = new_topic(brokers, f"peers-{stream}", 1)
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 50, **QUIET})
    rows = asked.rows(stream)
    last = (LAST_ID, LAST_ID - ord(stream), LAST_ID, rows[-1][3] + LAST_MS)
    for number, k, v, ms in [*rows, last]:
        value = json.dumps({"id": number, "k": k, "v": v, "t": ms}).encode()
        key = "all" if asked.query == "top 10" else str(k)
        put(producer, topic, value, 0, key=key, timestamp=begin_ms + ms)
    producer.flush()
    return topic
