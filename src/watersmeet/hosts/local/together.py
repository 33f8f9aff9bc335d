"""Streams that are at hand, read together up to common instants, where an operator is faster so or keeps less."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from watersmeet.hosts.local.execution import Execution
from watersmeet.hosts.local.feeds import AtHand, Feed
from watersmeet.model.catalog import Stream
from watersmeet.operators.contract import Rows

MOST_ROWS = 1 << 12  # of each stream, where an operator takes any number of them


def can_be_together(feeds: Sequence[Feed[Any]], executions: Sequence[Execution]) -> bool:
    """Whether every stream can be read as far as the others at once."""
    at_hand = all(waits_for_nobody(feed.clock.stream) and isinstance(feed.inlet, AtHand) for feed in feeds)
    return len(feeds) > 1 and at_hand and all(one.is_in_order for one in executions)


def waits_for_nobody(stream: Stream) -> bool:
    """Whether a stream says nothing of how far it may be read ahead of others, or they without it."""
    return stream.arrival.max_drift_us is None and stream.arrival.idle_us is None and not stream.by_arrival


class Together:
    def __init__(self, rows: int) -> None:
        """rows: how many of each stream are read at a time."""
        self.rows = self.most_rows = rows
        self._read: dict[Feed[Any], Rows] = {}  # what is not given yet

    def has_rows(self, feed: Feed[Any]) -> bool:
        """Whether there are more; reads them."""
        while feed not in self._read:
            batch = feed.take(self.rows)
            if batch is None:
                return False
            rows = feed.clock.timed(batch)
            if len(rows):
                self._read[feed] = rows
        return True

    def taken(self, feeds: Collection[Feed[Any]]) -> dict[Feed[Any], Rows]:
        """The rows up to the instant that all have reached, of those streams that somebody still looks at."""
        self._read = {feed: rows for feed, rows in self._read.items() if feed in feeds}
        until_us = min(int(rows.times[-1]) for rows in self._read.values())
        found = {}
        for feed, rows in list(self._read.items()):
            stop = int(rows.times.searchsorted(until_us, side="right"))
            if stop:
                found[feed] = rows.slice(0, stop)
            if stop == len(rows):
                del self._read[feed]
            else:
                self._read[feed] = rows.slice(stop, len(rows))
        return found
