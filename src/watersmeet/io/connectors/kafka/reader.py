"""A topic where one process reads all of it: one consumer, which waits for records of any partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, pairwise
from time import monotonic
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from watersmeet.errors import SourceError
from watersmeet.io.connectors.contract import PartitionedSource, Position, Range, Reader, SourceBatch, Split
from watersmeet.io.connectors.identity import check_identity, made_anew
from watersmeet.io.connectors.kafka.client import named_error
from watersmeet.io.connectors.kafka.consumers import ReadingClient, gone, read_error
from watersmeet.io.connectors.kafka.offsets import Topic
from watersmeet.io.connectors.kafka.reading import Reading
from watersmeet.io.connectors.kafka.records import Records
from watersmeet.warning import ConnectorWarning

_WAIT_S = 0.05  # for the first record
_MORE_S = 0.001  # for more, as every few rows cost a batch; they wait that long, all of them
_GATHER_S = 0.1  # for more, where many lie there already
_GATHERED = 1 << 12  # so many lie there, and it is worth waiting for them
DISCOVER_S = 1.0  # how often to look for new partitions, whose rows wait so long
_LOOK_S = 1.0
_TOGETHER = 1 << 12  # so many records of all partitions are decoded at once
_MEASURE_S = 0.2  # how often to look how far partitions go
_MISSED = 3  # so many looks in succession must find no topic: brokers that start may not know it for a moment
_COMMIT_S = 1.0  # how often a consumer group is told how far rows were read
_SILENT_S = 10.0  # after so long without a broker somebody should know


class KafkaReader(Reader):
    """A range is [partition, first offset, offset behind the last, the next offset of every partition, how many rows
    and bad records]. A position is the last but one of these; the first one, which is noted for all lives, also says of
    which topic they are."""

    pause_s = 0.0  # whoever polls need not wait: this waits itself

    def __init__(self, source: PartitionedSource, reading: Reading, asked: Callable[[], Topic]) -> None:
        """asked: the topic as it is now."""
        self._source = source
        self._reading = reading
        self._asked = asked
        self._next: dict[int, int] | None = None  # the next offset of every partition
        self._topic_id: str | None = None  # of the topic that the run began with
        self._ends: dict[int, int] = {}  # what was there when this began to read
        self._reached: dict[int, int] = {}  # where a partition ended when it was read to its end
        self._client: ReadingClient | None = None
        self._waiting: deque[tuple[int, list[Message]]] = deque()
        self._given: dict[int, int] = {}
        self._highs: dict[int, int] = {}  # the end of every partition, as it was last heard of
        self._looked_s = self._committed_s = self._measured_s = 0.0
        self._silent_since_s: float | None = None
        self._missed = 0

    @property
    def is_behind(self) -> bool:
        """Whether there are records, known since this began to read, that have not come yet."""
        return (
            self._client is None or bool(self._waiting) or any(self._at(one) < end for one, end in self._ends.items())
        )

    def _at(self, partition: int) -> int:
        return max((self._next or {}).get(partition, 0), self._reached.get(partition, 0))

    def first_position(self) -> Position:
        self._find_beginning()
        return {"of": self._topic_id, "next": self._nexts()}

    def poll(self, most_rows: int) -> SourceBatch | None:
        self._fill(most_rows)
        return self._next_batch() if self._waiting else None

    def poll_together(self, most_rows: int) -> list[SourceBatch]:
        """The next batches, one of each partition, where they are so small that what each costs by itself counts: their
        rows are slices of one batch. Else one, or none."""
        self._fill(most_rows)
        batches = self._decoded_together() if len(self._waiting) > 1 else None
        if batches is None:
            return [self._next_batch()] if self._waiting else []
        return [self._next_batch(batch) for batch in batches]

    def _fill(self, most_rows: int) -> None:
        if not self._waiting:
            self._commit()
            self._look_around()
            self._fetch(most_rows)
            self._measure()

    def again(self, range: Range) -> SourceBatch:
        """With the records that could not be read."""
        partition, after, upto, nexts, count = range
        batches = list(self._source.read(Split(str(partition), after, upto)))
        if count != sum(map(_count, batches)):
            raise self._compacted(partition, after, upto)
        self._forget_ahead()
        self._next = dict(enumerate(nexts))
        nothing = SourceBatch(pa.RecordBatch.from_pylist([], schema=self._source.schema))
        return replace(SourceBatch.of_all(batches or [nothing]), range=range, partition=str(partition))

    def position_after(self, range: Range) -> Position:
        return range[3]

    may_be_shared = True

    def place_after(self, position: Position | None, ranges: Sequence[Range]) -> Position:
        return ranges[-1][3]

    def where(self, position: Position | None) -> Any:
        return position["next"] if isinstance(position, dict) else position

    def resume(self, position: Position) -> None:
        self._forget_ahead()
        if isinstance(position, dict):
            self._topic_id = position["of"]
            check_identity(self._source, self._topic_id)  # before records of another topic are read as if again
            position = position["next"]
        self._next = dict(enumerate(position))

    def lag(self) -> dict[str, int]:
        """How many records of each partition wait to be read, as far as is known without asking. For any thread."""
        if self._client is None:
            return {}
        return {str(one): max(high - self._at(one), 0) for one, high in self._highs.items()}

    def close(self) -> None:
        self._commit(now=True)
        self._forget_ahead()
        self._source.close()

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _forget_ahead(self) -> None:
        """What was read ahead comes again, from where it is told to go on."""
        self._waiting.clear()
        self._reached.clear()
        if self._client is not None:
            self._client.consumer.close()
            self._client = None

    def _look_around(self) -> None:
        """Begin, and from then on look now and then for partitions that are new."""
        if self._client is not None and monotonic() < self._looked_s + DISCOVER_S:
            return
        self._looked_s = monotonic()
        if self._client is None:
            self._begin()
            return
        found = self._asked().looked_at(_LOOK_S)
        if found is None:  # the brokers are away for a moment
            return
        topic_id, there = found
        self._missed = 0 if there else self._missed + 1
        if self._missed >= _MISSED:
            raise self._asked().no_topic()
        if None not in (topic_id, self._topic_id) and topic_id != self._topic_id:
            raise made_anew(self._source.description)
        self._take_new(sorted(set(there) - set(self._next or ())))

    def _take_new(self, partitions: list[int]) -> None:
        """Partitions that were added are read from their beginning; time waits for the first record of those that have
        one."""
        if not partitions:
            return
        assert self._next is not None
        assert self._client is not None
        self._ends.update(self._asked().ends(partitions))
        self._next.update(dict.fromkeys(partitions, 0))
        self._client.consumer.incremental_assign([TopicPartition(self._reading.topic, one, 0) for one in partitions])

    def _begin(self) -> None:
        self._ends = self._asked().ends()
        self._find_beginning()
        assert self._next is not None
        lost = [one for one in self._next if one not in self._ends]
        if lost:
            raise gone(self._reading.stream, f"partition {lost[0]} of topic {self._reading.topic!r}")
        self._next.update({one: 0 for one in self._ends if one not in self._next})
        client = ReadingClient(self._reading.stream, self._reading.cluster, self._reading.group)
        client.consumer.assign(
            [TopicPartition(self._reading.topic, one, offset) for one, offset in sorted(self._next.items())]
        )
        self._client = client

    def _find_beginning(self) -> None:
        if self._next is None:
            self._topic_id = self._source.identity()
            self._next = {int(one): offset for one, offset in self._source.begin().items()}

    def _nexts(self) -> list[int]:
        """The next offset of every partition, by its number."""
        assert self._next is not None
        return [self._next.get(one, 0) for one in range(max(self._next) + 1)]

    def _fetch(self, most_rows: int) -> None:
        assert self._client is not None
        consumer = self._client.consumer
        first = consumer.poll(_WAIT_S)
        if first is None:
            self._tell_of_silence()
            return
        lying = sum(max(end - self._at(one), 0) for one, end in self._ends.items())
        some = [first]
        if most_rows > 1:
            some += consumer.consume(most_rows - 1, _GATHER_S if lying > _GATHERED else _MORE_S)
        found: dict[int, list[Message]] = {}
        for one in some:
            if one.error() is None:
                found.setdefault(one.partition(), []).append(one)
            else:
                self._note(one)
        if found:
            self._silent_since_s = None
        self._waiting.extend(found.items())

    def _measure(self) -> None:
        """Note how far partitions go, for `lag`. Only whoever polls a consumer may ask it: the library lets one call in
        after the other, and another thread might wait for its turn for minutes."""
        if self._client is None or monotonic() < self._measured_s + _MEASURE_S:
            return
        self._measured_s = monotonic()
        highs = dict(self._highs)
        for one in list(self._next or {}):
            with suppress(KafkaException):
                place = TopicPartition(self._reading.topic, one)
                high = self._client.consumer.get_watermark_offsets(place, cached=True)[1]
                highs[one] = max(high, self._ends.get(one, 0))
        self._highs = highs  # at once, as other threads look at it

    def _note(self, message: Message) -> None:
        assert self._client is not None
        error, partition = message.error(), message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            # Behind the last record there may be the ends of transactions, which are no records.
            self._reached[partition] = message.offset()
            self._silent_since_s = None
            return
        place = f"partition {partition} of topic {self._reading.topic!r}"
        wrong = read_error(self._reading.stream, self._client, place, error)
        if wrong is not None:
            raise wrong

    def _decoded_together(self) -> list[SourceBatch] | None:
        """What waits of all partitions, decoded at once; None if it is much, or not every record is a row."""
        messages = [one for _, some in self._waiting for one in some]
        if len(messages) > _TOGETHER or "_partition" in self._source.schema.names:
            return None
        batch = self._reading.rows.batch(Records(self._reading.topic, -1, messages))
        if batch.bad is not None or batch.rows.num_rows != len(messages):
            return None
        ends = list(accumulate(len(some) for _, some in self._waiting))
        return [SourceBatch(batch.rows.slice(begin, end - begin)) for begin, end in pairwise([0, *ends])]

    def _next_batch(self, batch: SourceBatch | None = None) -> SourceBatch:
        assert self._next is not None
        partition, messages = self._waiting.popleft()
        after, upto = self._next[partition], messages[-1].offset() + 1
        if batch is None:
            batch = self._reading.rows.batch(Records(self._reading.topic, partition, messages))
        self._next[partition] = upto
        self._given[partition] = upto
        where = [partition, after, upto, self._nexts(), _count(batch)]
        return replace(batch, range=where, partition=str(partition), waiting=self._unread())

    def _compacted(self, partition: int, after: int, upto: int) -> SourceError:
        return SourceError(
            f"stream {self._reading.stream!r}: partition {partition} of topic {self._reading.topic!r} has other "
            f"records between offsets {after} and {upto} than were read there before",
            hint="a topic that is compacted loses records that others replace, and what was answered with them cannot "
            "be repeated; start anew with another checkpoint, and set min.compaction.lag.ms of the topic to longer "
            "than a run may stand still",
        )

    def _unread(self) -> tuple[str, ...]:
        """The partitions that have records which wait to be read, or that were read: time waits for each."""
        lying = {one for one, end in self._ends.items() if self._at(one) < end}
        waiting = {partition for partition, _ in self._waiting}
        return tuple(str(one) for one in sorted(lying | waiting))

    def _tell_of_silence(self) -> None:
        """The library connects again by itself; who waits should know for what."""
        assert self._client is not None
        heard = self._client.heard
        if heard.denied is not None:
            what = f"stream {self._reading.stream!r} cannot be read"
            raise named_error(SourceError, self._reading.cluster, what, heard.denied, heard)
        if heard.last is None:
            return
        if self._silent_since_s is None:
            self._silent_since_s = monotonic()
        elif 0 < self._silent_since_s < monotonic() - _SILENT_S:
            self._silent_since_s = -1.0  # once
            self.tell(
                ConnectorWarning(
                    "source_gone",
                    f"no broker answers at {self._reading.cluster.brokers}, from which stream "
                    f"{self._reading.stream!r} is read; the run waits for one",
                )
            )

    # ---- the group --------------------------------------------------------------------------------------------------

    def _commit(self, *, now: bool = False) -> None:
        """Tell the group how far rows were handed on. Nothing here depends on it: ordinary tools see the lag by it."""
        if self._reading.group is None or self._client is None or not self._given:
            return
        if now or monotonic() >= self._committed_s + _COMMIT_S:
            self._committed_s = monotonic()
            places = [TopicPartition(self._reading.topic, one, offset) for one, offset in self._given.items()]
            self._given = {}
            try:
                self._client.consumer.commit(offsets=places, asynchronous=not now)
            except KafkaException:
                self._given = {place.partition: place.offset for place in places}


def _count(batch: SourceBatch) -> int:
    return int(batch.rows.num_rows) + (0 if batch.bad is None else int(batch.bad.num_rows))
