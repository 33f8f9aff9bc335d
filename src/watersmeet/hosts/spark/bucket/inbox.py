"""The packets that one bucket gets in one batch, by what they hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from watersmeet.hosts.spark.exchange.messages import BadRecords, M, RowsRead, decode


class RowPacket(NamedTuple):
    part: int
    payload: bytes
    primary: bool


class Inbox:
    """Looked through once: asking pandas for each kind of packet takes longer than most small batches."""

    def __init__(self, frames: Iterable[pd.DataFrame]) -> None:
        self._packets: dict[int, list[RowPacket]] = {}
        for frame in frames:
            columns = (frame[name].tolist() for name in ("input", "part", "payload", "primary"))
            for kind, part, payload, primary in zip(*columns, strict=True):
                self._packets.setdefault(kind, []).append(RowPacket(part, payload, primary))

    def messages(self, kind: type[M]) -> list[M]:
        return [decode(kind, packet.payload) for packet in self._packets.get(kind.kind, ())]

    def rows_of(self, stream: int) -> list[RowPacket]:
        """Spark delivers packets in any order, and buckets that count rows must all see the same."""
        return sorted(self._packets.get(stream, ()), key=lambda packet: packet.part)

    @property
    def rows_in(self) -> int:
        """What was read, as the GUARD is told."""
        read, bad = self.messages(RowsRead), self.messages(BadRecords)
        return sum(one.rows for one in read) + sum(one.rows for one in bad)
