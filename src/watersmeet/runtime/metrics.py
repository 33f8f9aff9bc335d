"""What a run has done so far, in numbers: with `operators/counters.py` the table that all metrics are declared in."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, field, fields
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.model.metric import (
    BY_NAME,
    BY_NAME_NOW,
    COUNT,
    FLAG,
    GAUGE,
    LARGEST_BY_NAME,
    LATEST,
    LIST,
    MOST_BY_NAME,
    TEXT,
    Kind,
    Where,
    metric,
    metrics_of,
)
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.counters import Counted, Counters


class Recall:
    """How much of the exact answer was given, where both are counted."""

    results: int
    lost_results: int | None

    @property
    def exact_results(self) -> int | None:
        """What the answer would be if no rows were shed; None if the losses are not known"""
        return None if self.lost_results is None else self.results + self.lost_results

    @property
    def recall(self) -> float | None:
        """The share of `exact_results` that was given; None if the losses are not known"""
        exact = self.exact_results
        return None if exact is None else 1.0 if exact == 0 else self.results / exact


def _each_goes_on(total: dict[int, BucketMetrics], now: Mapping[int, BucketMetrics]) -> dict[int, BucketMetrics]:
    for number, bucket in now.items():
        total.setdefault(number, BucketMetrics()).add(bucket)
    return total


BUCKETS = Kind("each adds up", dict, lambda one, other: one | other, _each_goes_on, lambda before, now: now)


@dataclass
class Metrics(Counted, Recall):
    """Totals of a run: what its operators counted, and what the host knows of its inputs, clocks and state."""

    rows_in: int = metric("rows that came in, late, skipped and bad ones among them", stage="first")
    rows_by_stream: dict[str, int] = metric("`rows_in` by stream", BY_NAME, if_any=True, stage="first")
    newest_by_stream: dict[str, int] = metric(
        "the newest event time of each stream that may move the watermark, in microseconds since 1970",
        MOST_BY_NAME,
        if_any=True,
        stage="first",
    )
    late_rows: int = metric("rows that came too late and were left out")
    late_by_stream: dict[str, int] = metric("`late_rows` by stream", BY_NAME, if_any=True)
    skipped_rows: int = metric("rows without an event time that were left out, as `on_null = 'skip'` says")
    skipped_by_stream: dict[str, int] = metric("`skipped_rows` by stream", BY_NAME, if_any=True)
    skipped_batch_rows: int = metric(
        "rows of batches that were left out, as `skip_batches` says; they are not among `rows_in`", if_any=True
    )
    bad_rows: int = metric("records that could not be read and were left out, as `on_bad` says", if_any=True)
    bad_by_stream: dict[str, int] = metric("`bad_rows` by stream", BY_NAME, if_any=True)
    bad_by_reason: dict[str, int] = metric(
        "`bad_rows` by stream and reason, as `orders: not json`", BY_NAME, if_any=True
    )
    left_out_by_stream: dict[str, int] = metric(
        "rows by stream that lie on the other side of the handover from its history to live, where they come once",
        BY_NAME,
        if_any=True,
    )
    lag_by_stream: dict[str, int] = metric(
        "rows by stream that wait at its source to be read, of sources that know, such as topics of Kafka",
        BY_NAME_NOW,
        if_any=True,
        where="in-process",
    )
    changed_files: dict[str, int] = metric(
        "files by stream that were read and have changed since, as was told",
        BY_NAME_NOW,
        if_any=True,
    )
    first_bad: dict[str, str] = metric(
        "where the first of them lay by stream, and what is wrong with it",
        LATEST,
        if_any=True,
        where="in-process",
        default={},
    )
    late_behind_us: dict[str, int] = metric(
        "how far late rows of each stream were behind its newest row: so much `lateness` would have let them in",
        MOST_BY_NAME,
        if_any=True,
    )
    late_newest_us: dict[str, int] = metric(
        "the event time of that newest row, in microseconds since 1970", MOST_BY_NAME, if_any=True
    )
    late_after_silence_us: dict[str, int] = metric(
        "how far rows of each stream were below the watermark that were late as others had gone on without it",
        MOST_BY_NAME,
        if_any=True,
    )
    late_promised_us: dict[str, int] = metric(
        "the time that `advance` was called with, if rows of each stream before it came all the same",
        MOST_BY_NAME,
        if_any=True,
        where="in-process",
    )
    future_rows: dict[str, int] = metric(
        "rows by stream that lie further ahead of the clock than `max_future`: they are in, but moved no watermark",
        BY_NAME,
        if_any=True,
    )
    held_back_by: str | None = metric(
        "the stream whose watermark is the smallest now, which is the query's; and its partition, if it has several",
        LATEST,
    )
    still_for_s: float = metric("seconds since that watermark moved", LATEST, default=0.0)
    waits_for_rows: bool = metric(
        "whether nothing of that stream is left to work on, so that its next rows are waited for", LATEST, default=False
    )
    waiting_by_stream: dict[str, int] = metric(
        "rows that wait for the watermark to pass them ([more](spark.md#runs-that-end))",
        BY_NAME_NOW,
        if_any=True,
        where="spark",
    )
    waiting_until_us: int | None = metric(
        "the time that the watermark must pass until none of them waits", LATEST, if_any=True, where="spark"
    )
    shed_rows: int = metric("rows that bounded memory let go of early")
    shed_by_stream: dict[str, int] = metric("`shed_rows` by stream", BY_NAME, if_any=True)
    archived_rows: int = metric(
        "rows that were written down to be completed later ([more](shedding.md#completing-later))", if_any=True
    )
    archived_bytes: int = metric("bytes of archive that they took", if_any=True)
    final_rows: int | None = metric(
        "rows of a final answer (`--final`, `final()`); `results` are then the changes before it",
        LATEST,
        if_any=True,
        where="in-process",
    )
    recall_is_estimate: bool = metric(
        "the losses, and so `recall`, are estimated", FLAG, if_any=True, columns=("estimated_losses",)
    )
    cache_hits: int = metric("turns of buckets that found their operator warm", where="spark")
    cache_misses: int = metric("turns of buckets that rebuilt their operator from durable state", where="spark")
    cold_because: str = metric(
        "why operators are not kept warm between batches, if something is wrong with the folder for that "
        "([more](spark.md#scratch-folders))",
        TEXT,
        if_any=True,
        where="spark",
    )
    state_bytes: int = metric(
        "bytes of state: in-process of all that operators keep, on Spark of what a restart would read", GAUGE
    )
    kept_rows: int = metric(
        "rows that operators keep: those in windows, those that wait for their time or for a partner, those that "
        "`DEDUPLICATE` remembers, and of an answer that changes its groups and all else it is made of",
        GAUGE,
    )
    window_rows: int = metric("rows in the windows of a join: a part of `kept_rows`", GAUGE, if_any=True)
    window_rows_by_input: dict[str, int] = metric(
        "rows in the window of each input of a join, where each has one of its own; they add up to `window_rows`",
        BY_NAME_NOW,
        if_any=True,
    )
    window_bytes_by_input: dict[str, int] = metric("bytes of memory that those windows take", BY_NAME_NOW, if_any=True)
    memory_rows: int | None = metric(
        "rows that bounded memory may keep now; on Spark each of the `buckets` tells its own",
        LATEST,
        if_any=True,
        where="in-process",
        default=None,
    )
    memory_bytes: int | None = metric(
        "bytes that they may take, if the bound is in bytes", LATEST, if_any=True, where="in-process", default=None
    )
    watermark_us: int = metric(
        "the time before which no row is expected any more, in microseconds since 1970", LATEST, default=BEGINNING_US
    )
    whole_from_us: int | None = metric(
        "the instant from which on the answer is whole, of a query that began with what others had kept",
        LATEST,
        if_any=True,
        where="in-process",
        default=None,
    )
    delays: dict[str, float] = metric(
        "seconds of event time by which changes of the answer were noticed late, mean and longest, if that could be "
        "late (pipeline = 'ita')",
        LATEST,
        if_any=True,
        where="in-process",
        default={},
    )
    plan_switches: int = metric("changes of the join order", COUNT)
    switches: list[dict[str, Any]] = metric("those changes one by one", LIST, if_any=True)
    work_by_bucket: dict[str, int] = metric(
        "rows that each bucket took in, copies among them, and results that it gave, by its number in the state; "
        "in-process of each [thread](language.md#threads), since the start",
        BY_NAME,
        if_any=True,
        stage="first",
    )
    rows_by_key: dict[str, int] = metric(
        "about how many rows came of keys that have many, as `orders: 17`: by a sample of what is packed together, of "
        "keys that had a 64th of it ([more](spark.md#skew))",
        LARGEST_BY_NAME,
        if_any=True,
        stage="first",
    )
    buckets: dict[int, BucketMetrics] = metric(
        "the buckets that share a memory, by their number in the state", BUCKETS, if_any=True, where="spark"
    )

    @property
    def recall_between(self) -> tuple[float, float] | None:
        """The bounds of `recall`, where `lost_between` are known"""
        if self.lost_between is None:
            return None
        # The more is lost, the lower is the recall: hence reversed.
        low, high = (self.results / (self.results + lost) if lost else 1.0 for lost in reversed(self.lost_between))
        return low, high

    def set(self, values: Mapping[str, Any]) -> None:
        """Take over values as they are now, by the names of their metrics."""
        for name, value in values.items():
            setattr(self, name, value)

    def add(self, values: Mapping[str, Any]) -> None:
        """Go on with what happened next, by the names of the metrics that it tells of."""
        for name, value in values.items():
            setattr(self, name, METRICS[name].kind.after(getattr(self, name), value))
        if self.lost_results is None:  # what is not known is not estimated either
            self.recall_is_estimate = False

    def as_dict(self) -> dict[str, Any]:
        """All of it; what is not about every query only if there is any."""
        values = {name: value for name, value in asdict(self).items() if value or not METRICS[name].if_any}
        values |= {"exact_results": self.exact_results, "recall": self.recall}
        # asdict has made dicts of them, which lack what is worked out.
        if self.buckets:
            values["buckets"] = {number: bucket.as_dict() for number, bucket in sorted(self.buckets.items())}
        return values if self.lost_between is None else {**values, "recall_between": self.recall_between}

    def as_json(self) -> dict[str, Any]:
        """The same for programs elsewhere: NULL for a watermark that is not a time.

        >>> Metrics(rows_in=3).as_json()["rows_in"], Metrics().as_json()["watermark_us"]
        (3, None)
        """
        known = BEGINNING_US < self.watermark_us < FOREVER_US
        return self.as_dict() | {"watermark_us": self.watermark_us if known else None}


METRICS = metrics_of(Metrics)
# Told beside them, and by which hosts; the words are those of the properties.
DERIVED: dict[str, Where] = {"exact_results": "both", "recall": "both", "recall_between": "in-process"}


@dataclass
class BucketMetrics(Recall):
    """One of the buckets that share the memory of a query. What of it is due to the bucket, in rows or in bytes, is its
    own; the other numbers mean and add up as they do for the query."""

    memory_rows: int | None = metric("rows of the memory that are due to the bucket", LATEST)
    memory_bytes: int | None = metric("bytes of the memory that are due to the bucket", LATEST)
    kept_rows: int = 0
    results: int = 0
    lost_results: int | None = 0
    incomplete_rows: int | None = 0
    shed_by_stream: dict[str, int] = field(default_factory=dict)

    @property
    def shed_rows(self) -> int:
        return sum(self.shed_by_stream.values())

    def add(self, later: BucketMetrics) -> None:
        """Go on with what the bucket did next."""
        for name, one in BUCKET_METRICS.items():
            setattr(self, name, one.kind.after(getattr(self, name), getattr(later, name)))

    def as_dict(self) -> dict[str, Any]:
        bound = "memory_rows" if self.memory_bytes is None else "memory_bytes"
        values = {
            name: value for name, value in asdict(self).items() if not name.startswith("memory_") or name == bound
        }
        return {**values, "shed_rows": self.shed_rows, "exact_results": self.exact_results, "recall": self.recall}


BUCKET_METRICS = {one.name: (METRICS | metrics_of(BucketMetrics))[one.name] for one in fields(BucketMetrics)}


_COUNTED = tuple(one.name for one in fields(Counted))


def counted(counters: Counters) -> dict[str, Any]:
    """What an operator has counted so far, by the names of the metrics; nothing of it changes when it counts on."""
    same = {name: copy(getattr(counters, name)) for name in _COUNTED}
    return same | {
        "shed_rows": sum(counters.shed_rows.values()),
        "shed_by_stream": dict(counters.shed_rows),
        "recall_is_estimate": counters.losses_are_estimated,
        "plan_switches": len(counters.switches),
        "switches": [switch.as_dict() for switch in counters.switches],
    }
