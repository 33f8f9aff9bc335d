"""Quix Streams over topics of one partition, keyed as its documentation asks: joins of intervals, and windows that hop.

There is no end of a topic: a last record, much later, says that all has come, and the application stops. After all
runs the same topics are read and decoded alone, by the same application without an operator.
"""

from __future__ import annotations

import heapq
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from quixstreams import Application
from quixstreams.dataframe.windows import Aggregator, Count, Sum

from benchmarks.rivals.peers.protocol import LAST_ID, Asked, Tally, tell

Make = Callable[[list[Any]], Any]


class Greatest(Aggregator):
    """The first ten."""

    def initialize(self) -> list[list[int]]:
        return []

    def agg(self, old: list[list[int]], new: Any, timestamp: int) -> list[list[int]]:
        item = [new["v"], new["id"]]
        if len(old) < 10:
            heapq.heappush(old, item)
        else:
            heapq.heappushpop(old, item)
        return old

    def result(self, value: list[list[int]]) -> list[list[int]]:
        return value


class Run:
    """One application, from its start until the last record of every topic was there and it has stopped."""

    def __init__(self, asked: Asked, make: Make) -> None:
        self.left = len(asked.streams)
        with tempfile.TemporaryDirectory(dir=asked.folder) as state:
            self.app = Application(
                broker_address=asked.more["brokers"],
                consumer_group=str(uuid.uuid4()),
                auto_offset_reset="earliest",
                use_changelog_topics=False,
                state_dir=state,
                loglevel="ERROR",
            )
            make([self._stream(asked.more[name]) for name in asked.streams])
            self.app.run()

    def _stream(self, topic: str) -> Any:
        return self.app.dataframe(self.app.topic(topic)).update(self._note)

    def _note(self, row: dict[str, int]) -> None:
        if row["id"] == LAST_ID:
            self.left -= 1
            if not self.left:
                self.app.stop()


def alone(streams: list[Any]) -> None:
    """Nothing is done with rows."""


def joined(asked: Asked, tally: Tally, streams: list[Any]) -> None:
    """A chain; that the streams between are near each other, too, is a filter."""
    near = asked.window_ms
    first = streams[0].apply(lambda row: {"t": row["t"], "ids": [row["id"]]})

    def merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {
            "t": min(left["t"], right["t"]),
            "far": right["t"] - left["t"] > near,
            "ids": [*left["ids"], right["id"]],
        }

    def join(left: Any, right: Any) -> Any:
        met = left.join_interval(right, on_merge=merged, grace_ms=near, backward_ms=near, forward_ms=near)
        return met.filter(lambda row: not row["far"])

    met = reduce(join, streams[1:], first)
    met.update(lambda row: tally.row(*row["ids"]))


def windowed(asked: Asked, tally: Tally, streams: list[Any]) -> None:
    windows = streams[0].hopping_window(asked.window_ms, asked.slide_ms)
    if asked.query == "GROUP BY":
        found = windows.agg(n=Count(), total=Sum("v"))
    elif asked.query == "DISTINCT":
        found = windows.agg(n=Count())
    else:
        found = windows.agg(ten=Greatest())
    begin_s = int(asked.more["begin_s"])

    def note(row: dict[str, Any], key: str, timestamp: int, headers: Any) -> None:
        end = row["end"] // 1_000 - begin_s
        if asked.query == "top 10":
            for value, number in row["ten"]:
                tally.row(end, number, value)
        else:
            tally.row(end, int(key), *([row["n"], row["total"]] if asked.query == "GROUP BY" else []))

    found.final(closing_strategy="partition").update(note, metadata=True)


def main() -> None:
    asked = Asked(**json.loads(sys.argv[1]))
    work = joined if asked.joins else windowed
    for _ in range(asked.runs):
        tally = Tally(asked)
        started, worked = time.perf_counter(), time.process_time()
        Run(asked, partial(work, asked, tally))
        tell(tally.rows, tally.checksum, time.perf_counter() - started, time.process_time() - worked)
    started = time.perf_counter()
    Run(asked, alone)
    print(json.dumps({"topics_s": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    main()
