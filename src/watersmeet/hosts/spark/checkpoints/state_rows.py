"""What the stateful stage keeps, as its processor laid it down: a value for every bucket, and a map of packets.

Spark stores both as rows of its own layout: a byte for the version, a word of NULL bits, a word for every field; what
has a length lies behind them, and its word says where (the upper half) and how long (the lower).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watersmeet.hosts.spark.exchange.pack import GUARD

Packet = tuple[int, int, int]  # bucket, input, number of the segment
_HEAD = 9  # the version and the NULL bits


@dataclass(frozen=True)
class Kept:
    """A bucket: how often it was written, and its manifest; of the GUARD the fingerprint instead."""

    bucket: int
    version: int
    manifest: bytes


@dataclass(frozen=True)
class Stage:
    guard: str | None
    buckets: tuple[Kept, ...]
    packets: Mapping[Packet, bytes]


def stage_of(kept: Sequence[Kept], packets: Mapping[Packet, bytes]) -> Stage:
    guard = next((one.manifest.decode() for one in kept if one.bucket == GUARD), None)
    return Stage(guard, tuple(one for one in kept if one.bucket != GUARD), packets)


def unpacked_stage(variables: Mapping[str, Mapping[bytes, bytes]]) -> Stage:
    """From keys and values as bytes; see META, SEGMENT_KEY and SEGMENT of the processor."""
    kept = [
        Kept(_integer(key, 0), _long(value, 0), _binary(value, 2)) for key, value in variables.get("meta", {}).items()
    ]
    packets = {_packet(key): _binary(value, 0) for key, value in variables.get("segments", {}).items()}
    return stage_of(kept, packets)


def _packet(key: bytes) -> Packet:
    """The bucket, a row inside a row, with its length before it; then the key of the map, a row inside a row too."""
    (size,) = struct.unpack_from("<i", key)
    bucket, inside = _struct(key[4 : 4 + size], 0), _struct(key[4 + size :], 0)
    return _integer(bucket, 0), _integer(inside, 0), _long(inside, 1)


def _struct(row: bytes, field: int) -> bytes:
    """A row inside a row, which has no version of its own: with one, so that it reads as all others do."""
    return b"\0" + _binary(row, field)


def _integer(row: bytes, field: int) -> int:
    return int(struct.unpack_from("<i", row, _HEAD + 8 * field)[0])


def _long(row: bytes, field: int) -> int:
    return int(struct.unpack_from("<q", row, _HEAD + 8 * field)[0])


def _binary(row: bytes, field: int) -> bytes:
    size, start = struct.unpack_from("<ii", row, _HEAD + 8 * field)
    return row[1 + start : 1 + start + size]
