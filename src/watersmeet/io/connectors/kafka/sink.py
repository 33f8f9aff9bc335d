"""Answers as records of a topic: a batch is one transaction, which also says its number, so that none comes twice.

Whoever reads with isolation.level = read_committed sees each batch whole or not at all. The newest start of a run owns
the topic: it shuts out the one before, should that still live, as both have the same transactional.ids; and it says so
beside the number, for the other to tell by whom.

Two producers take turns. A transaction that is committed is not yet over for the brokers, which tell every partition
of it; whoever begins another meanwhile under the same id is told to wait, and the library does for 20 ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import monotonic

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from watersmeet.dataclass import dataclass
from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import Claim, Owner
from watersmeet.io.connectors.contract import NumberedSink, SinkOpening
from watersmeet.io.connectors.gone import GO_ON, gone
from watersmeet.io.connectors.kafka import markers
from watersmeet.io.connectors.kafka.client import Cluster, Heard, cluster_of, made, named_error
from watersmeet.io.connectors.kafka.markers import Marker
from watersmeet.io.connectors.kafka.topics import ensure_topic, is_missing
from watersmeet.io.connectors.kafka.writing import KeyAndValue, RecordMaker, record_maker, whole_number

_TRIES = 5
_PRODUCERS = 2
_COMMIT_S = 60.0  # how long a commit may take, a restart of the brokers within it
_LOOK_S = 3.0  # a commit that takes longer may be one into a topic that is there no more
_FULL_S = 0.05


@dataclass(frozen=True)
class Target:
    """Where records go, and under which name batches are known."""

    sink: str
    cluster: Cluster
    topic: str
    marker_topic: str
    run: str

    @property
    def what(self) -> str:
        return f"sink {self.sink!r} cannot write to topic {self.topic!r}"


class KafkaSink(NumberedSink):
    claim: Claim
    commits_soon = True  # a commit takes some milliseconds, and readers wait for it

    def __init__(self, target: Target, records: RecordMaker, claim: Claim, *, is_new: bool = False) -> None:
        """The topics are there. It first ends what a life before has left open, then learns what it has. is_new: the
        topic was made just now, so it has nothing, whatever the markers say."""
        self._target, self._records, self.claim = target, records, claim
        self._heard = Heard()
        self._key = markers.marker_key(target.run, target.sink)
        if claim.is_made:  # one that has nothing to do here shuts out nobody
            claim.taking_over(self._marker(waits=False).owner)
        # All are there before it is asked what was committed: until then another life can commit with any of them.
        self._producers = deque(self._connected(turn) for turn in range(_PRODUCERS))
        found = Marker() if is_new and not claim.is_made else self._marker()
        self._committed = -1 if is_new else found.number
        self._owner: Owner | None = None
        if claim.is_made:
            self._owner = claim.taking_over(found.owner)
            self._commit(Marker(self._committed, self._owner), [])

    def committed(self) -> int:
        return self._committed

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self._committed:
            return
        made_of = [self._records.records(batch) for batch in rows if batch.num_rows]
        if self._owner is not None:
            self._owner = self.claim.committed(self._owner) or self._owner
        self._commit(Marker(number, self._owner), made_of)
        self._committed = number

    def _commit(self, marker: Marker, made_of: Sequence[Sequence[KeyAndValue]]) -> None:
        for tries_left in reversed(range(_TRIES)):
            try:
                self._write(marker, made_of)
                break
            except KafkaException as error:
                self._after(error.args[0], tries_left)
        self._producers.rotate()

    def _marker(self, *, waits: bool = True) -> Marker:
        target = self._target
        return markers.last_marker(target.cluster, target.sink, target.marker_topic, self._key, waits=waits)

    def close(self) -> None:
        # Nothing is on its way: a commit waits for all of it.
        self._producers.clear()

    @property
    def _producer(self) -> Producer:
        """Whose turn it is."""
        return self._producers[0]

    def _connected(self, turn: int) -> Producer:
        target = self._target
        name = f"watersmeet-{target.run}-{target.sink}"
        config = target.cluster.config(
            self._heard,
            transactional_id=f"{name}-{turn}" if turn else name,
            transaction_timeout_ms=60_000,
            queue_buffering_max_messages=1_000_000,
            partitioner="murmur2_random",  # as Java's clients spread keys
            linger_ms=5,
        )
        config.setdefault("compression.type", "lz4")
        producer: Producer = made(SinkError, target.cluster, target.what, Producer, config)
        served = self._heard.serve
        self._heard.serve = lambda: (producer.poll(0), served and served())
        patience_s = max(target.cluster.timeout_s, 30.0)
        try:
            # The library asks for a coordinator once there is a connection, and if there is none just then, again after
            # half a second. The first answer may be of a connection that it gives up; the second is not.
            for _ in range(2):
                producer.list_topics(target.topic, timeout=patience_s)
            producer.init_transactions(patience_s)
        except KafkaException as error:
            raise named_error(SinkError, target.cluster, target.what, error.args[0], self._heard) from None
        return producer

    def _write(self, marker: Marker, made_of: Sequence[Sequence[KeyAndValue]]) -> None:
        self._producer.begin_transaction()
        for records in made_of:
            for key, value in records:
                self._put(self._target.topic, key, value)
        self._put(self._target.marker_topic, self._key, marker.value(), markers.PARTITION)
        self._commit_transaction()

    def _put(self, topic: str, key: bytes | None, value: bytes | None, partition: int = -1) -> None:
        """Into the queue of the library, when it has room."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition)
                return
            except BufferError:
                self._producer.poll(_FULL_S)

    def _commit_transaction(self) -> None:
        """A commit that is not answered in time may be asked for again: it is done once."""
        until_s = monotonic() + _COMMIT_S
        while True:
            try:
                self._producer.commit_transaction(_LOOK_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or monotonic() > until_s:
                    raise
            missing = self._missing()
            if missing is not None:
                raise self._missing_topic(missing)

    def _after(self, error: KafkaError, tries_left: int) -> None:
        """Undo what was begun, so that it can be tried again; raises if that makes no sense."""
        if not error.txn_requires_abort() or not tries_left:
            raise self._error(error)
        try:
            self._producer.abort_transaction(_COMMIT_S)
        except KafkaException as then:
            raise self._error(then.args[0]) from None

    def _error(self, error: KafkaError) -> SinkError:
        target = self._target
        if error.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            return self._refused()
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return SinkError(
                f"{target.what}: a row is larger than the topic takes ({error.str()})",
                hint="raise max.message.bytes of the topic and 'kafka.message.max.bytes' of the sink; " + GO_ON,
            )
        missing = self._missing()
        if missing is not None:
            return self._missing_topic(missing)
        return named_error(SinkError, target.cluster, target.what, error, self._heard, GO_ON)  # type: ignore[return-value]

    def _refused(self) -> SinkError:
        """The brokers know only that it is shut out; who has done that says so in the marker."""
        if self.claim.is_made:
            try:
                self.claim.check(self._marker(waits=False).owner)
            except SinkError as refusal:
                return refusal
        return SinkError(
            f"{self._target.what}: another process writes with the same checkpoint",
            hint="another copy of this checkpoint runs: let one of them run, and stop the other",
        )

    def _missing(self) -> str | None:
        """The topic that brokers which answer have not, if there is one."""
        target = self._target
        names = (target.topic, target.marker_topic)
        return next((one for one in names if is_missing(target.cluster, one, _LOOK_S)), None)

    def _missing_topic(self, topic: str) -> SinkError:
        return SinkError(
            f"{self._target.what}: topic {topic!r} is there no more",
            hint="start anew with a new checkpoint; or say if_gone = 'make' and start again with this one, which "
            "makes the topic anew and goes on, without what was in it",
        )


def open_sink(opening: SinkOpening) -> KafkaSink:
    options = opening.options
    topic = options.get("topic", "").strip()
    if not topic:
        raise SinkError(f"sink {opening.name!r} does not say its topic", hint="add topic = '…' to WITH (…)")
    records = record_maker(opening)
    cluster = cluster_of(opening.name, options)
    partitions, replication = (whole_number(opening, name) for name in ("partitions", "replication"))
    marker_topic = options.get("marker_topic", markers.DEFAULT_TOPIC)
    config = {"cleanup.policy": "compact"} if records.upserts else {}
    missing: list[str] = []

    def is_missing_now(name: str) -> None:
        if opening.must_be_there:
            raise gone(opening, f"there is no topic {name!r}")
        missing.append(name)

    there = ensure_topic(
        cluster,
        opening.name,
        topic,
        partitions=partitions,
        replication=replication,
        config=config,
        if_missing=is_missing_now,
    )
    if partitions is not None and partitions != there:
        raise SinkError(
            f"topic {topic!r} has {there} partitions, but sink {opening.name!r} says {partitions}",
            hint="leave partitions out: it is for a topic that is not there yet",
        )
    ensure_topic(
        cluster,
        opening.name,
        marker_topic,
        partitions=1,
        replication=replication,
        config={"cleanup.policy": "compact"},
        if_missing=is_missing_now,
    )
    target = Target(opening.name, cluster, topic, marker_topic, opening.run)
    # Of a topic that was made just now, whatever the markers say: what can be given again shall be.
    return KafkaSink(target, records, Claim.of(opening), is_new=topic in missing)
