"""How much one server takes on: all of it has a bound."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    body_bytes: int = 16 * MIB
    bodies: int = 8  # so many of the largest bodies may be in memory at a time
    subscribers: int = 1_000
    kept_rows: int = 100_000  # the latest rows of each query, for those who come back
    kept_bytes: int = 64 * MIB
    connections: int = 512  # beside subscribers
    head_s: float = 10.0  # who has not asked for anything within so long is let go
    body_pause_s: float = 30.0  # who sends nothing of a body for so long is let go
    send_pause_s: float = 10.0  # who reads nothing of an answer for so long is let go
    room_s: float = 10.0  # for so long rows wait for those before them
    heartbeat_s: float = 15.0
