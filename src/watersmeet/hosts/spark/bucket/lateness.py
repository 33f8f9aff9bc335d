"""What a bucket tells of rows that came too late and of rows that wait; and what all buckets told, by stream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import DataError
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.model.time import format_interval
from watersmeet.operators.contract import Operator
from watersmeet.plan.nodes import Input

Told = dict[str, dict[str, Any]]  # by alias


@dataclass
class Late:
    """The late rows of one batch of a bucket."""

    rows: int = 0
    by_alias: Told = field(default_factory=dict)

    def add(self, one: Input, rows: int, counted: int, by_us: int) -> None:
        """Rows of an input, of which so many are counted in this bucket, not in another that has them too."""
        stream = stream_of(one)
        if rows and stream.arrival.on_late == "error":
            raise DataError(
                f"{rows:,} row{'s' if rows != 1 else ''} of stream {stream.name!r} came too late, by up to "
                f"{format_interval(by_us)}, and it says on_late = 'error'",
                hint=f"its lateness is {format_interval(stream.lateness_us)}: say a longer one, or on_late = 'count', "
                "which drops such rows and counts them",
            )
        if counted:
            self.rows += counted
            before = self.by_alias.get(one.alias, {"rows": 0, "by_us": 0})
            told = {"rows": before["rows"] + counted, "by_us": max(before["by_us"], by_us)}
            self.by_alias[one.alias] = {"stream": stream.name, **told}


def waiting_in(job: SparkJob, operator: Operator) -> Told:
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


def rows_by_stream(told: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, int]:
    """The rows that several buckets told of. A row that is there under two aliases is one."""
    by_alias: dict[tuple[str, str], float] = defaultdict(float)
    for one in told:
        for alias, rows in one.items():
            # Every copy of a row waits in some bucket and is told there; late rows are counted in one bucket already.
            by_alias[rows["stream"], alias] += rows["rows"] / rows.get("copies", 1)
    found: dict[str, int] = {}
    for (stream, _), count in by_alias.items():
        found[stream] = max(found.get(stream, 0), round(count))
    return found


def most_by_stream(told: Iterable[Mapping[str, Mapping[str, Any]]], what: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in told:
        for rows in one.values():
            found[rows["stream"]] = max(found.get(rows["stream"], rows[what]), rows[what])
    return found
