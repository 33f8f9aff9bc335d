"""A topic as the rows of a stream: how far a partition was read is the offset of its next record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from watersmeet.errors import SourceError
from watersmeet.io.connectors.contract import Offsets, PartitionedSource, Reader, SourceBatch, SourceOpening, Split
from watersmeet.io.connectors.kafka.client import cluster_of, named_error
from watersmeet.io.connectors.kafka.consumers import ReadingClient, give_back, gone, lend, read_error
from watersmeet.io.connectors.kafka.offsets import Topic, start_of
from watersmeet.io.connectors.kafka.reading import Reading, row_maker
from watersmeet.io.connectors.kafka.records import Records

_MOST = 1 << 14  # records that are decoded together
_POLL_S = 0.2
_MORE_S = 0.05  # how long more records are waited for when the first is there


class KafkaSource(PartitionedSource):
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._topic: Topic | None = None
        self._noting: ReadingClient | None = None

    def __getstate__(self) -> Reading:
        return self.reading

    def __setstate__(self, reading: Reading) -> None:
        self.reading, self._topic, self._noting = reading, None, None

    @property
    def schema(self) -> pa.Schema:
        return self.reading.rows.schema

    @property
    def description(self) -> str:
        return f"topic {self.reading.topic} of Kafka at {self.reading.cluster.brokers}, {self.reading.label}"

    def begin(self) -> Offsets:
        return _offsets(self._asked.begin(self.reading.start))

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        first = {int(partition): int(offset) for partition, offset in after.items()}
        ends = self._asked.ends()
        lost = [one for one in first if one not in ends]
        if lost:
            raise gone(self.reading.stream, f"partition {lost[0]} of topic {self.reading.topic!r}")
        # One that is behind `after` is of a topic that was made anew: reading it tells so.
        waiting = {one: max(end - first.get(one, 0), 0) for one, end in ends.items()}
        shares = _shares(waiting, most_rows)
        return _offsets({one: first.get(one, 0) + shares[one] for one in ends})

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        places = [(partition, int(after.get(partition, 0)), int(end)) for partition, end in upto.items()]
        return [Split(*place, rows=place[2] - place[1]) for place in places if place[1] < place[2]]

    def read(self, split: Split) -> Iterator[SourceBatch]:
        client = lend(self.reading.stream, self.reading.cluster, self.reading.topic)
        try:
            for messages in self._messages(client, split):
                yield self.reading.rows.batch(Records(self.reading.topic, int(split.partition), messages))
        except Exception:
            client.consumer.close()  # what it has heard would be told of what is read next, too
            raise
        except BaseException:  # nobody wants the rest
            give_back(client)
            raise
        give_back(client)

    def reader(self) -> Reader:
        from watersmeet.io.connectors.kafka.reader import KafkaReader

        return KafkaReader(self, self.reading, lambda: self._asked)

    def note(self, offsets: Offsets) -> None:
        """Tell the group how far rows were read, where nobody keeps a reader: ordinary tools see the lag by it."""
        if self.reading.group is None or not offsets:
            return
        if self._noting is None:
            self._noting = ReadingClient(self.reading.stream, self.reading.cluster, self.reading.group)
        places = [TopicPartition(self.reading.topic, int(one), int(offset)) for one, offset in offsets.items()]
        with suppress(KafkaException):
            self._noting.consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        if self._noting is not None:
            self._noting.consumer.close()
            self._noting = None
        # Not closed: another query that reads the same stream may be asking through it. It ends with the last of them.
        self._topic = None

    @property
    def _asked(self) -> Topic:
        asked = self._topic
        if asked is None:
            asked = self._topic = Topic(self.reading.stream, self.reading.cluster, self.reading.topic)
        return asked

    def identity(self) -> str | None:
        return self._asked.identity()

    def _messages(self, client: ReadingClient, split: Split) -> Iterator[list[Message]]:
        """The records of a split, some at a time. Offsets may have gaps: of what was compacted, and of transactions."""
        place = f"partition {split.partition} of topic {self.reading.topic!r}"
        client.consumer.assign([TopicPartition(self.reading.topic, int(split.partition), split.after)])
        at, heard_s = split.after, monotonic()
        while at < split.upto:
            first = client.consumer.poll(_POLL_S)
            if first is None:
                self._check_patience(client, place, heard_s)
                continue
            heard_s = monotonic()
            some = [first, *client.consumer.consume(min(_MOST, max(split.upto - at - 1, 1)), _MORE_S)]
            found: list[Message] = []
            for one in some:
                error = one.error()
                if error is None:
                    at = one.offset() + 1
                    if at <= split.upto:
                        found.append(one)
                elif error.code() == KafkaError._PARTITION_EOF:
                    if one.offset() < split.upto:
                        raise gone(self.reading.stream, place)
                    at = max(at, one.offset())
                else:
                    wrong = read_error(self.reading.stream, client, place, error)
                    if wrong is not None:
                        raise wrong
            if found:
                yield found

    def _check_patience(self, client: ReadingClient, place: str, heard_s: float) -> None:
        denied = client.heard.denied
        if denied is not None or monotonic() > heard_s + max(self.reading.cluster.timeout_s, 30.0):
            error = denied or client.heard.last or KafkaError(KafkaError._TIMED_OUT)
            what = f"stream {self.reading.stream!r} cannot be read from {place}"
            raise named_error(SourceError, self.reading.cluster, what, error, client.heard)


def open_source(opening: SourceOpening) -> KafkaSource:
    options = opening.options
    rows, label = row_maker(opening)
    topic = options.get("topic", "").strip()
    if not topic:
        raise SourceError(f"stream {opening.name!r} does not say its topic", hint="add topic = '…' to WITH (…)")
    start = start_of(opening.name, options.get("start"))
    cluster = cluster_of(opening.name, options)
    return KafkaSource(Reading(opening.name, cluster, topic, start, rows, options.get("group"), label))


def _offsets(offsets: Mapping[int, int]) -> dict[str, Any]:
    return {str(one): offset for one, offset in sorted(offsets.items())}


def _shares(waiting: Mapping[int, int], most_rows: int | None) -> dict[int, int]:
    """How much of each partition is taken, if it may not be all: of all the same share, and of each a little."""
    total = sum(waiting.values())
    if most_rows is None or total <= most_rows:
        return dict(waiting)
    parts = np.array(list(waiting.values()), dtype=np.float64)
    taken = np.minimum(np.ceil(parts * (most_rows / total)), parts).astype(np.int64)
    return dict(zip(waiting, taken.tolist(), strict=True))
