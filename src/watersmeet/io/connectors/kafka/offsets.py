"""What a topic holds: its partitions, and from where to where each can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError, SourceError
from watersmeet.io.connectors.kafka.client import Cluster, Heard, made, named_error, naming_errors
from watersmeet.model.names import nearest

# A partition that was added a moment ago, or whose leader is another since.
ON_ITS_WAY = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE,
                        KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH,
                        KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE})  # fmt: skip
_AGAIN_S = 0.02
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # zeros
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


def listed_offsets(
    admin: AdminClient,
    cluster: Cluster,
    asked: Mapping[TopicPartition, OffsetSpec],
    level: IsolationLevel,
    is_coming: Callable[[int], bool],
) -> dict[int, int]:
    """Offsets by partition. is_coming: is given what is wrong, and says whether it passes by itself, as while a broker
    starts; that is waited for as long as for a broker."""
    until_s = monotonic() + cluster.timeout_s
    while True:
        futures: Mapping[TopicPartition, Any] = admin.list_offsets(
            asked, isolation_level=level, request_timeout=cluster.timeout_s
        )
        try:
            return {place.partition: int(future.result().offset) for place, future in futures.items()}
        except KafkaException as error:
            if not is_coming(error.args[0].code()) or monotonic() > until_s:
                raise
        sleep(_AGAIN_S)


@dataclass(frozen=True)
class Start:
    """Where a new run begins: 'earliest', 'latest', at a time in milliseconds since 1970, or at offsets."""

    word: str | None = "earliest"
    at_ms: int | None = None
    offsets: tuple[tuple[int, int], ...] = ()


def start_of(owner: str, written: str | None) -> Start:
    text = (written or "earliest").strip()
    if text.lower() in ("earliest", "latest"):
        return Start(text.lower())
    if text.startswith("{"):
        return Start(None, offsets=_offsets_in(owner, text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"start of {owner!r} is {text!r}, which is no time and no place",
            hint="write 'earliest', 'latest', a time such as '2026-01-31 12:00:00', which is UTC unless it says a "
            'zone, or the first offset of each partition, \'{"0": 120, "1": 80}\'',
            option="start",
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Start(None, at_ms=round(moment.timestamp() * 1000))


def _offsets_in(owner: str, text: str) -> tuple[tuple[int, int], ...]:
    try:
        found = {int(partition): offset for partition, offset in json.loads(text).items()}
        if not all(isinstance(offset, int) and offset >= 0 and partition >= 0 for partition, offset in found.items()):
            raise ValueError
    except (ValueError, AttributeError):
        raise OptionError(
            f"start of {owner!r} is {text!r}, which are no offsets",
            hint='write the first offset of each partition: \'{"0": 120, "1": 80}\'',
            option="start",
        ) from None
    return tuple(sorted(found.items()))


class Topic:
    """A topic as it is now, asked through clients that live as long as this does. Several threads may ask."""

    def __init__(self, stream: str, cluster: Cluster, name: str) -> None:
        self._stream, self._cluster, self.name = stream, cluster, name
        self._heard = Heard()
        self._what = f"stream {stream!r} cannot be read from topic {name!r}"
        config = cluster.config(self._heard, group_id="watersmeet", enable_auto_commit=False)
        self._asker: Consumer = made(SourceError, cluster, self._what, Consumer, config)
        self._admin: AdminClient = made(SourceError, cluster, self._what, AdminClient, cluster.config(self._heard))
        self._heard.serve = self._listen
        levels = dict(cluster.settings)
        committed = levels.get("isolation.level", "read_committed") == "read_committed"
        self._level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    def partitions(self) -> list[int]:
        with naming_errors(SourceError, self._cluster, self._what, self._heard):
            found = self._asker.list_topics(self.name, timeout=self._cluster.timeout_s).topics[self.name]
        if found.error is not None and found.error.code() in _MISSING:
            raise self.no_topic()
        if found.error is not None:
            raise named_error(SourceError, self._cluster, self._what, found.error, self._heard)
        return sorted(found.partitions)

    def identity(self) -> str | None:
        """The id of the topic, which one that is made anew has not; None if the brokers are too old to have any."""
        with naming_errors(SourceError, self._cluster, self._what, self._heard):
            try:
                return self._described(self._cluster.timeout_s)[0]
            except KafkaException as error:
                if error.args[0].code() in _MISSING:
                    raise self.no_topic() from None
                raise

    def looked_at(self, timeout_s: float) -> tuple[str | None, list[int]] | None:
        """Its id and its partitions, which are none if it is not there; None if no broker answers."""
        try:
            return self._described(timeout_s)
        except KafkaException as error:
            return (None, []) if error.args[0].code() in _MISSING else None

    def _described(self, timeout_s: float) -> tuple[str | None, list[int]]:
        cluster = self._asker.list_topics(self.name, timeout=timeout_s)
        if cluster.controller_id not in cluster.brokers:  # a cluster that is played has nobody to ask
            return None, sorted(cluster.topics[self.name].partitions)
        asked = self._admin.describe_topics(TopicCollection([self.name]), request_timeout=timeout_s)
        topic = asked[self.name].result()
        known = str(topic.topic_id)
        return None if known == _NO_ID else known, sorted(one.id for one in topic.partitions)

    def first(self, partitions: list[int] | None = None) -> dict[int, int]:
        """The first offset of each partition that is still there."""
        return self._listed(partitions, OffsetSpec.earliest)

    def ends(self, partitions: list[int] | None = None) -> dict[int, int]:
        """Behind the last record of each partition that may be read now: what is in open transactions may not."""
        return self._listed(partitions, OffsetSpec.latest)

    def at(self, moment_ms: int) -> dict[int, int]:
        """The first offset of each partition whose record is of that moment or later; its end if there is none."""
        ends = self.ends()
        asked = [TopicPartition(self.name, one, moment_ms) for one in ends]
        with naming_errors(SourceError, self._cluster, self._what, self._heard):
            found = self._asker.offsets_for_times(asked, timeout=self._cluster.timeout_s)
        return {one.partition: ends[one.partition] if one.offset < 0 else one.offset for one in found}

    def begin(self, start: Start) -> dict[int, int]:
        if start.at_ms is not None:
            return self.at(start.at_ms)
        if start.word is not None:
            return self.first() if start.word == "earliest" else self.ends()
        there = self.partitions()
        unknown = [one for one, _ in start.offsets if one not in there]
        if unknown:
            raise SourceError(
                f"start of stream {self._stream!r} speaks of partition {unknown[0]} of topic {self.name!r}, which has "
                f"{len(there)} partitions",
                hint="they are counted from 0",
            )
        return dict.fromkeys(there, 0) | dict(start.offsets)

    def _listen(self) -> None:
        self._asker.poll(0)
        self._admin.poll(0)

    def _listed(self, partitions: list[int] | None, spec: Callable[[], Any]) -> dict[int, int]:
        asked = {
            TopicPartition(self.name, one): spec() for one in (self.partitions() if partitions is None else partitions)
        }
        if not asked:
            return {}
        with naming_errors(SourceError, self._cluster, self._what, self._heard):
            return listed_offsets(self._admin, self._cluster, asked, self._level, self._is_coming)

    def _is_coming(self, code: int) -> bool:
        if code in _MISSING:
            self.partitions()  # which tells if the topic is gone; else it has a partition that is new,
            self._admin.list_topics(self.name, timeout=self._cluster.timeout_s)  # of which it now hears
            return True
        return code in ON_ITS_WAY

    def no_topic(self) -> SourceError:
        with naming_errors(SourceError, self._cluster, self._what, self._heard):
            there = [one for one in self._asker.list_topics(timeout=self._cluster.timeout_s).topics if one[0] != "_"]
        near = nearest(self.name, there)
        if near is not None:
            way = f"did you mean {near!r}?"
        else:
            way = "make it first" + (f"; there are {', '.join(sorted(there)[:10])}" if there else "; there are none")
        return SourceError(
            f"{self._what}: the brokers at {self._cluster.brokers} have no such topic",
            hint=f"{way}; if it was deleted, what was read of it stays answered, and a new one needs a new checkpoint",
        )
