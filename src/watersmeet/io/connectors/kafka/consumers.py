"""Consumers, and what it means if they give an error in place of a record. Those that have read a part are kept for the
next: to make one takes longer than to read a few rows. They are not kept for long: each holds connections, and tries on
and on to reach brokers that are there no more."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock, Timer
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from watersmeet.errors import SourceError, WatersmeetError
from watersmeet.io.connectors.kafka.client import Cluster, Heard, made, named_error

_KEPT = 8
_WAIT_MS = 10
_LOOKS_AROUND_S = 1.0
_KEPT_SECONDS = 15.0
_GONE = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET})
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,
                      KafkaError.UNKNOWN_TOPIC_ID})  # fmt: skip
# The library tries on by itself; a broker that restarts comes back.
_WAITED_FOR = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT,
                         KafkaError._RESOLVE, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION,
                         KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE})  # fmt: skip
_idle: dict[Cluster, list[ReadingClient]] = {}
_lock = Lock()
_sweeps: list[Timer] = []  # the one that waits


class ReadingClient:
    """One consumer and what it was told of its connections."""

    def __init__(self, stream: str, cluster: Cluster, group: str | None = None, *, wait_ms: int = 100) -> None:
        """wait_ms: how long brokers hold back an answer where they have no records yet."""
        self.cluster, self.heard = cluster, Heard()
        self.topics: set[str] = set()
        self.given_back = monotonic()
        config: dict[str, Any] = cluster.config(
            self.heard,
            group_id=group or "watersmeet",
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="error",
            enable_partition_eof=True,
            isolation_level="read_committed",
            # A queue that is full is looked at again soon: the default of a second would be a pause.
            fetch_queue_backoff_ms=20,
            fetch_wait_max_ms=wait_ms,
        )
        self.consumer: Consumer = made(SourceError, cluster, f"stream {stream!r} cannot be read", Consumer, config)


def lend(stream: str, cluster: Cluster, topic: str) -> ReadingClient:
    """A consumer for records that are there. What it asked of brokers last is still on its way when it is told to read
    elsewhere, so they may not hold it back for long."""
    with _lock:
        kept = _idle.get(cluster)
        client = kept.pop() if kept else None
    if client is None:
        client = ReadingClient(stream, cluster, wait_ms=_WAIT_MS)
    elif topic not in client.topics:
        # Of a topic that it has not read before it would hear at its next look around, up to a second later: so there
        # is no use in asking for longer.
        with suppress(KafkaException):
            client.consumer.list_topics(topic, timeout=_LOOKS_AROUND_S)
    client.topics.add(topic)
    return client


def give_back(one: ReadingClient) -> None:
    one.consumer.unassign()
    one.given_back = monotonic()
    with _lock:
        kept = _idle.setdefault(one.cluster, [])
        if len(kept) < _KEPT:
            kept.append(one)
            _sweep_later()
            return
    one.consumer.close()


def _sweep_later() -> None:
    if not _sweeps:
        _sweeps.append(Timer(_KEPT_SECONDS, _sweep))
        _sweeps[0].daemon = True
        _sweeps[0].start()


def _sweep() -> None:
    """Close those that nobody has asked for since the last look; look again while there are others."""
    with _lock:
        _sweeps.clear()
        since = monotonic() - _KEPT_SECONDS
        old = [one for kept in _idle.values() for one in kept if one.given_back <= since]
        young = {cluster: [one for one in kept if one.given_back > since] for cluster, kept in _idle.items()}
        _idle.clear()
        _idle.update({cluster: kept for cluster, kept in young.items() if kept})
        if _idle:
            _sweep_later()
    for one in old:
        one.consumer.close()


def read_error(stream: str, client: ReadingClient, place: str, error: KafkaError) -> WatersmeetError | None:
    """What an error that came in place of a record means; None if the library goes on by itself."""
    if error.code() in _GONE:
        return gone(stream, place)
    what = f"stream {stream!r} cannot be read from {place}"
    if error.code() in _MISSING:
        return SourceError(
            f"{what}: the topic is there no more",
            hint="if it was deleted, what was read of it stays answered, and a new one needs a new checkpoint",
        )
    if client.heard.denied is None and (error.retriable() or error.code() in _WAITED_FOR):
        return None
    return named_error(SourceError, client.cluster, what, error, client.heard)


def gone(stream: str, place: str) -> SourceError:
    return SourceError(
        f"stream {stream!r}: the records of {place} that come next are gone from the topic",
        hint="the topic was cut short or made anew, or the run stood still for longer than the topic keeps records; "
        "start anew with another checkpoint, from start = 'earliest' or at a time",
    )
