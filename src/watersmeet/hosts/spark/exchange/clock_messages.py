"""What tasks that pack rows tell every bucket of the times they saw, which its clocks go by."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from watersmeet.model.time import BEGINNING_US, Times

# These stand for the number of an input where a packet holds no rows, as those of stream_end.py and memory_needs.py do.
SEEN = -3
PULSE = -4
WAITING = -6
_SEEN = struct.Struct("<iqqqqq")  # the fields of Seen in their order; behind them the name of the lane
_STREAM = struct.Struct("<i")


@dataclass(frozen=True)
class Seen:
    """What a task that packs rows saw of a stream: how many, how many of them too far ahead of the clock to move a
    watermark, the newest time that may move it, and the newest of all (BEGINNING_US: none); and how many more were
    skipped, as they have no event time. `lane`: that of the rows, if they have one."""

    stream: int
    rows: int
    ahead: int = 0
    newest_us: int = BEGINNING_US
    last_us: int = BEGINNING_US
    skipped: int = 0
    lane: str = ""

    @staticmethod
    def of(stream: int, times: Times, ahead: npt.NDArray[np.bool_] | None = None) -> Seen:
        """At least one row, of which some may lie too far ahead."""
        last_us = int(times.max())
        if ahead is None or not bool(ahead.any()):
            return Seen(stream, times.size, 0, last_us, last_us)
        return Seen(stream, times.size, int(ahead.sum()), int(times[~ahead].max(initial=BEGINNING_US)), last_us)

    def to_bytes(self) -> bytes:
        told = _SEEN.pack(self.stream, self.rows, self.ahead, self.newest_us, self.last_us, self.skipped)
        return told + self.lane.encode()

    @staticmethod
    def from_bytes(told: bytes) -> Seen:
        """
        >>> Seen.from_bytes(Seen(1, 20, 3, 5_000_000, 9_000_000, 2, "7").to_bytes())
        Seen(stream=1, rows=20, ahead=3, newest_us=5000000, last_us=9000000, skipped=2, lane='7')
        """
        return replace(Seen(*_SEEN.unpack_from(told)), lane=told[_SEEN.size :].decode())


@dataclass(frozen=True)
class Waiting:
    """The lanes of a stream that have rows which a batch does not read."""

    stream: int
    lanes: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return _STREAM.pack(self.stream) + json.dumps(self.lanes).encode()

    @staticmethod
    def from_bytes(told: bytes) -> Waiting:
        """
        >>> Waiting.from_bytes(Waiting(1, ("0", "7")).to_bytes())
        Waiting(stream=1, lanes=('0', '7'))
        """
        (stream,) = _STREAM.unpack_from(told)
        return Waiting(stream, tuple(json.loads(told[_STREAM.size :])))
