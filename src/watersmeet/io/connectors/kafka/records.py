"""Records of one partition as they lay there, and what is known of them beside their value, as columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from watersmeet.errors import OptionError
from watersmeet.model.types import is_bytes, is_text, sql_type

# Columns that a stream may declare to have what Kafka knows of a record.
METADATA = ("_key", "_headers", "_topic", "_partition", "_offset", "_timestamp")
RECORD_TIME = "kafka"  # time = 'kafka': the event time is that of the record
_MS = pa.timestamp("ms")


class Records:
    """Some records of one partition, in their order."""

    def __init__(self, topic: str, partition: int, messages: Sequence[Message]) -> None:
        self.topic, self.partition = topic, partition
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @cached_property
    def values(self) -> list[bytes | None]:
        return [one.value() for one in self._messages]

    @cached_property
    def keys(self) -> list[bytes | None]:
        return [one.key() for one in self._messages]

    @cached_property
    def offsets(self) -> pa.Array:
        return pa.array([one.offset() for one in self._messages], pa.int64())

    @cached_property
    def times(self) -> pa.Array:
        """When each was made, or taken by the broker, as the topic is set; NULL if it says neither."""
        return pa.array([one.timestamp()[1] for one in self._messages], pa.int64())

    def column(self, field: pa.Field) -> pa.Array:
        """What a column of METADATA, or the event time, holds for every record."""
        match field.name:
            case "_key":
                return _as_kind(pa.array(self.keys, pa.binary()), field.type)
            case "_headers":
                return pa.array([_headers(one) for one in self._messages], pa.string())
            case "_topic":
                return pa.repeat(pa.scalar(self.topic), len(self))
            case "_partition":
                return pa.repeat(pa.scalar(self.partition, field.type), len(self))
            case "_offset":
                return self.offsets.cast(field.type)
        return self.moments(field.type)

    @property
    def known_times(self) -> pa.Array:
        """Milliseconds since 1970; NULL of a record that has no time."""
        return pc.if_else(pc.greater_equal(self.times, 0), self.times, pa.scalar(None, pa.int64()))

    def moments(self, kind: pa.DataType) -> pa.Array:
        """The times of the records as a type of timestamps."""
        known = self.known_times
        return known.cast(_MS).cast(kind) if kind.tz is None else known.cast(pa.timestamp("ms", kind.tz)).cast(kind)


def check_metadata(owner: str, field: pa.Field) -> None:
    """Refuse a column of METADATA of a type that it has not."""
    kind = field.type
    fits = {
        "_key": is_text(kind) or is_bytes(kind),
        "_headers": is_text(kind),
        "_topic": is_text(kind),
        "_partition": kind in (pa.int32(), pa.int64()),
        "_offset": kind == pa.int64(),
        "_timestamp": pa.types.is_timestamp(kind),
    }
    if not fits.get(field.name, True):
        wanted = {
            "_key": "STRING or BINARY", "_headers": "STRING", "_topic": "STRING", "_partition": "INT",
            "_offset": "BIGINT", "_timestamp": "TIMESTAMP",
        }[field.name]  # fmt: skip
        raise OptionError(
            f"column {field.name} of {owner!r} is declared {sql_type(kind)}, but what Kafka has there is {wanted}",
            hint=f"declare it {wanted}",
        )


def _as_kind(keys: pa.Array, kind: pa.DataType) -> pa.Array:
    if not is_text(kind):
        return keys.cast(kind)
    try:
        return keys.cast(kind)
    except pa.ArrowInvalid:  # some are no UTF-8, and a key is not what a row fails for
        return pa.array([None if one is None else one.decode("utf-8", "replace") for one in keys.to_pylist()], kind)


def _headers(message: Message) -> str | None:
    """The headers as a JSON object; of several with one name the last counts, as in Kafka's own clients."""
    headers = message.headers()
    if not headers:
        return None
    return json.dumps(
        {name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value for name, value in headers},
        ensure_ascii=False,
    )
