"""What a bucket tells of rows that came too late and of rows that wait; and what all buckets told, by stream."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.model.catalog import Stream
from watersmeet.model.metric import most_by_name
from watersmeet.operators.contract import Operator
from watersmeet.plan.nodes import Input
from watersmeet.runtime.left_out import late_error

ByAlias = dict[str, dict[str, Any]]
LATENESS = ("late_behind_us", "late_newest_us", "late_after_silence_us")


@dataclass
class Late:
    """The late rows of one batch of a bucket."""

    rows: int = 0
    by_alias: ByAlias = field(default_factory=dict)

    def add(self, one: Input, rows: int, counted: int, lateness: Mapping[str, int]) -> None:
        """Rows of an input, of which so many are counted in this bucket, not in another that has them too. lateness:
        that of the oldest of them, by the names of the metrics."""
        stream = stream_of(one)
        if rows and stream.arrival.on_late == "error":
            raise late_error(stream, rows, lateness, time.time_ns() // 1_000)
        if counted:
            self.rows += counted
            before = self.by_alias.get(one.alias, {"rows": 0})
            counts = {"stream": stream.name, "rows": before["rows"] + counted}
            known = {name: before[name] for name in LATENESS if name in before}
            self.by_alias[one.alias] = counts | most_by_name(known, lateness)


def lateness(stream: Stream, oldest_us: int, newest_us: int, watermark_us: int) -> dict[str, int]:
    """How late the oldest of some rows was, by the names of the metrics: behind the newest row of its stream, or where
    that is within its lateness, behind the others, which had gone on without it."""
    if newest_us - oldest_us > stream.lateness_us:
        return {"late_behind_us": newest_us - oldest_us, "late_newest_us": newest_us}
    return {"late_after_silence_us": watermark_us - oldest_us}


def waiting_in(job: SparkJob, operator: Operator) -> ByAlias:
    """The rows of a bucket that wait for the watermark, and up to which time."""
    waiting = operator.waiting_rows()
    return {
        one.alias: {
            "stream": stream_of(one).name,
            "rows": waiting[one.alias].rows,
            "until_us": waiting[one.alias].newest_us,
            "copies": job.copies(one.alias),
        }
        for one in job.streams
        if one.alias in waiting
    }


def rows_by_stream(buckets: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, int]:
    """The rows that several buckets told of. A row that is there under two aliases is one."""
    by_alias: dict[tuple[str, str], float] = defaultdict(float)
    for one in buckets:
        for alias, rows in one.items():
            # Every copy of a row waits in some bucket and is told there; late rows are counted in one bucket already.
            by_alias[rows["stream"], alias] += rows["rows"] / rows.get("copies", 1)
    found: dict[str, int] = {}
    for (stream, _), count in by_alias.items():
        found[stream] = max(found.get(stream, 0), round(count))
    return found


def most_by_stream(buckets: Iterable[Mapping[str, Mapping[str, Any]]], what: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in buckets:
        for rows in one.values():
            found = most_by_name(found, {rows["stream"]: rows[what]} if what in rows else {})
    return found
