"""The packets that one bucket gets in one batch, by what they hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd


class Packet(NamedTuple):
    part: int
    payload: bytes
    primary: bool


class Inbox:
    """Looked through once: asking pandas for each kind of packet takes longer than most small batches."""

    def __init__(self, frames: Iterable[pd.DataFrame]) -> None:
        self.rows_in = 0
        self._packets: dict[int, list[Packet]] = {}
        for frame in frames:
            self.rows_in += int(frame["rows_in"].sum())
            columns = (frame[name].tolist() for name in ("input", "part", "payload", "primary"))
            for kind, part, payload, primary in zip(*columns, strict=True):
                self._packets.setdefault(kind, []).append(Packet(part, payload, primary))

    def told(self, kind: int) -> list[bytes]:
        """What the packets tell that hold no rows."""
        return [bytes(packet.payload) for packet in self._packets.get(kind, ())]

    def of_stream(self, stream: int) -> list[Packet]:
        """Those with rows. Spark delivers packets in any order, and buckets that count rows must all see the same."""
        return sorted(self._packets.get(stream, ()), key=lambda packet: packet.part)
