"""The last batch that a sink has taken, and which start of the run owns it, in a topic of its own: one record for each
run and sink, in the transaction of the batch, or of the claim. Older ones are removed by the brokers, as the topic is
compacted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import monotonic

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from watersmeet.dataclass import dataclass
from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import Owner, owner_in
from watersmeet.io.connectors.kafka.client import Cluster, Heard, made, named_error, naming_errors
from watersmeet.io.connectors.kafka.offsets import ON_ITS_WAY, listed_offsets

DEFAULT_TOPIC = "watersmeet.batches"
PARTITION = 0
# An open transaction of somebody else holds up what comes behind it; the brokers end it after a minute. Such are those
# of other sinks of a script that was killed, which are opened one after the other.
_PATIENCE_S = 90.0


def marker_key(run: str, sink: str) -> bytes:
    return json.dumps([run, sink]).encode()


@dataclass(frozen=True)
class Marker:
    """The last number, or -1, and which start wrote it, where it has claimed the sink."""

    number: int = -1
    owner: Owner | None = None

    def value(self) -> bytes:
        return json.dumps(
            {"batch": self.number} | ({} if self.owner is None else {"owner": self.owner.as_text()})
        ).encode()


def last_marker(cluster: Cluster, sink: str, topic: str, key: bytes, *, waits: bool = True) -> Marker:
    """What was committed last under a key. waits: also until open transactions that may have more of it have ended."""
    asking = _Asking(cluster, sink, topic, key)
    admin = made(SinkError, cluster, asking.what, AdminClient, cluster.config(asking.heard))
    with naming_errors(SinkError, cluster, asking.what, asking.heard):
        end = _end(admin, cluster, topic)
        return asking.committed(end, waits=waits)


def _end(admin: AdminClient, cluster: Cluster, topic: str) -> int:
    """Behind all that is there, with what is in open transactions: ours have ended, but others may lie before them."""
    asked = {TopicPartition(topic, PARTITION): OffsetSpec.latest()}
    # A topic that was made just now has no leader for a moment, nor has one whose broker has just come back.
    there = listed_offsets(
        admin,
        cluster,
        asked,
        IsolationLevel.READ_UNCOMMITTED,
        lambda code: code in ON_ITS_WAY or code == KafkaError._NOENT,
    )
    return there[PARTITION]


class _Asking:
    """Looks for the last marker of a key."""

    def __init__(self, cluster: Cluster, sink: str, topic: str, key: bytes) -> None:
        self._cluster, self._topic, self._key = cluster, topic, key
        self.heard = Heard()
        self.what = f"sink {sink!r} cannot learn from topic {topic!r} which batches it has"

    def committed(self, end: int, *, waits: bool) -> Marker:
        """The last before an offset."""
        found, looked, until_s = Marker(), False, monotonic() + max(_PATIENCE_S, self._cluster.timeout_s)
        for at, marker in self._read(0, end, "read_committed"):
            found = found if marker is None else marker
            if at is not None and not waits:
                return found
            held_up = at is not None and at < end
            if held_up and not looked:
                looked = True
                if all(one is None for _, one in self._read(at or 0, end, "read_uncommitted")):
                    return found
            if monotonic() > until_s:
                raise SinkError(
                    f"{self.what}: a transaction of somebody else has been open there for {_PATIENCE_S:g} s",
                    hint="wait until the brokers have ended it, or give it a topic of its own: marker_topic = '…'",
                )
        return found

    def _read(self, at: int, end: int, level: str) -> Iterator[tuple[int | None, Marker | None]]:
        """Markers under the key, and where all that may be read ends, as they come; each beside None."""
        config = self._cluster.config(
            self.heard,
            group_id="watersmeet",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            enable_partition_eof=True,
            fetch_wait_max_ms=10,  # the end of a transaction is no record: that nothing follows is to be told at once
        )
        config["isolation.level"] = level  # whatever the user says of other topics
        consumer: Consumer = made(SinkError, self._cluster, self.what, Consumer, config)
        consumer.assign([TopicPartition(self._topic, PARTITION, at)])
        try:
            while at < end:
                first = consumer.poll(0.1)
                some = [] if first is None else [first, *consumer.consume(1 << 12, 0)]  # what is there: none is awaited
                for one in some:
                    error = one.error()
                    if error is None:
                        at = one.offset() + 1
                        if one.key() == self._key and one.value() is not None:
                            said = json.loads(one.value())
                            yield (
                                None,
                                Marker(int(said["batch"]), owner_in(said.get("owner"), f"topic {self._topic!r}")),
                            )
                    elif error.code() == KafkaError._PARTITION_EOF:
                        at = max(at, one.offset())
                        yield at, None
                    elif not error.retriable():
                        raise named_error(SinkError, self._cluster, self.what, error, self.heard)
                yield None, None
        finally:
            consumer.close()
