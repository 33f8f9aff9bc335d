"""Streams that are at hand, given together up to common instants, where an operator is faster so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watersmeet.hosts.local.execution import Blocks, Execution
from watersmeet.hosts.local.feeds import AtHand, Feed
from watersmeet.model.catalog import Stream
from watersmeet.operators.contract import Rows


def can_be_together(feeds: Sequence[Feed[Any]], execution: Execution) -> bool:
    """Whether an operator wants that, and every stream can be read as far as the others at once."""
    wanted = execution.operator.together_rows is not None and len(feeds) > 1
    at_hand = all(waits_for_nobody(feed.clock.stream) and isinstance(feed.inlet, AtHand) for feed in feeds)
    return wanted and execution.is_in_order and at_hand


def waits_for_nobody(stream: Stream) -> bool:
    """Whether a stream says nothing of how far it may be read ahead of others, or they without it."""
    return stream.arrival.max_drift_us is None and stream.arrival.idle_us is None and not stream.by_arrival


class Together:
    def __init__(self, feeds: Sequence[Feed[Any]], execution: Execution) -> None:
        self.feeds, self.execution = feeds, execution
        self._read: dict[str, Rows] = {}  # what is not given yet

    def step(self) -> Blocks:
        """Give what has come of all streams up to the instant that all have reached, or the end of those that ended."""
        ended = [feed.name for feed in self.feeds if not feed.clock.ended and not self._has_rows(feed)]
        if ended:
            return self.execution.end(ended)
        until_us = min(int(rows.times[-1]) for rows in self._read.values())
        return self.execution.push_together({name: rows for name, rows in self._taken(until_us).items() if len(rows)})

    def _has_rows(self, feed: Feed[Any]) -> bool:
        while feed.name not in self._read:
            batch = feed.take(self.execution.operator.together_rows)
            if batch is None:
                return False
            rows = feed.clock.timed(batch)
            if len(rows):
                self._read[feed.name] = rows
        return True

    def _taken(self, until_us: int) -> dict[str, Rows]:
        """The rows up to an instant, of all streams."""
        taken = {}
        for name, rows in list(self._read.items()):
            stop = int(rows.times.searchsorted(until_us, side="right"))
            taken[name] = rows.slice(0, stop)
            if stop == len(rows):
                del self._read[name]
            else:
                self._read[name] = rows.slice(stop, len(rows))
        return taken
