"""What Spark tells about a running query, batch by batch, as our metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.hosts.spark.account import NOW
from watersmeet.hosts.spark.dataframe import FIRST, OBSERVED
from watersmeet.hosts.spark.lateness import Told, most_by_stream, rows_by_stream
from watersmeet.hosts.spark.output import TOLD
from watersmeet.runtime.metrics import BucketMetrics, Metrics, sum_by_name, sum_if_known
from watersmeet.runtime.progress import clock_time, losses, short

ANSWER = "watersmeet_answer"  # counts the rows of the answer, for queries without state as well
ADDED = (
    "rows_in", "late_rows", "stored_rows", "expired_rows", "shed_rows", "queue_shed_rows", "results",
    "cache_hits", "cache_misses", "plan_switches", "archived_rows", "archived_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """One micro-batch, in numbers; `metrics` holds what this batch did and how things stood after it."""

    number: int
    seconds: float
    metrics: Metrics
    waiting: Mapping[tuple[str, int], Told] = field(default_factory=dict)  # by stage and bucket

    def __str__(self) -> str:
        m = self.metrics
        cold = f", {m.cache_misses} cold" if m.cache_misses else ""
        cold += f", not kept warm: {m.cold_because}" if m.cold_because else ""
        cold += f", {m.plan_switches} new join orders" if m.plan_switches else ""
        odd = [f"{short(m.late_rows)} late"] if m.late_rows else []
        odd += [f"{short(sum(m.future_rows.values()))} ahead of the clock"] if m.future_rows else []
        late = f" ({', '.join(odd)})" if odd else ""
        kept = f"kept {short(m.window_rows)} ({m.state_bytes / 2**20:.0f} MB)"
        return (
            f"batch {self.number}: {short(m.rows_in)} in{late}, {short(m.results)} out, {self.seconds:.1f} s, "
            f"at {clock_time(m.watermark_us)}, {kept}{losses(m)}{cold}"
        )


@dataclass
class Tally:
    """The totals of a query, from the progress of its batches. Progress may be given twice."""

    total: Metrics = field(default_factory=Metrics)
    batches: int = 0
    seconds: float = 0.0
    peak_rows: int = 0
    peak_bytes: int = 0
    last: Batch | None = None
    observed: str = OBSERVED
    _waiting: dict[tuple[str, int], Told] = field(default_factory=dict)
    _seen: set[tuple[int, str]] = field(default_factory=set)

    def add(self, progress: Any) -> Batch | None:
        """Take in the progress of a batch; None if it was known already or no batch ran."""
        key = (int(progress.batchId), str(progress.timestamp))
        if key in self._seen:
            return None
        self._seen.add(key)
        if "addBatch" not in (progress.durationMs or {}):
            return None
        batch = batch_of(progress, self.total.watermark_us, self.observed)
        self._add(batch)
        self.last = batch
        return batch

    def _add(self, batch: Batch) -> None:
        now, total = batch.metrics, self.total
        for name in ADDED:
            setattr(total, name, getattr(total, name) + getattr(now, name))
        total.future_rows = sum_by_name(total.future_rows, now.future_rows)
        total.late_by_stream = sum_by_name(total.late_by_stream, now.late_by_stream)
        for stream, by_us in now.late_by_us.items():
            total.late_by_us[stream] = max(by_us, total.late_by_us.get(stream, 0))
        self._waiting |= batch.waiting
        total.waiting_by_stream = rows_by_stream(self._waiting.values())
        total.waiting_until_us = max(most_by_stream(self._waiting.values(), "until_us").values(), default=None)
        total.lost_results = sum_if_known(total.lost_results, now.lost_results)
        total.incomplete_rows = sum_if_known(total.incomplete_rows, now.incomplete_rows)
        total.recall_is_estimate = total.lost_results is not None and (
            total.recall_is_estimate or now.recall_is_estimate
        )
        total.kernel_seconds += now.kernel_seconds
        if now.cache_hits + now.cache_misses:  # a bucket that did not take part tells nothing
            total.window_rows, total.state_bytes = now.window_rows, now.state_bytes
        total.shed_by_stream = sum_by_name(total.shed_by_stream, now.shed_by_stream)
        held = {name: value for name, value in now.work.items() if name.endswith(NOW)}
        total.work = sum_by_name(total.work, now.work) | held
        for number, bucket in now.buckets.items():
            total.buckets.setdefault(number, BucketMetrics()).add(bucket)
        if now.buckets:
            total.window_rows = sum(bucket.window_rows for bucket in total.buckets.values())
        total.cold_because = now.cold_because or total.cold_because
        total.watermark_us = now.watermark_us
        total.held_back_by, total.still_for_s = now.held_back_by, now.still_for_s
        self.batches += 1
        self.seconds += batch.seconds
        self.peak_rows = max(self.peak_rows, now.window_rows)
        self.peak_bytes = max(self.peak_bytes, now.state_bytes)


def sharing_text(metrics: Metrics) -> str:
    """Which streams bounded memory took rows from, and how buckets shared it.

    >>> two = {0: BucketMetrics(memory_rows=90, results=3, lost_results=1), 2: BucketMetrics(memory_rows=10)}
    >>> sharing_text(Metrics(shed_by_stream={"a": 1200, "b": 7}, buckets=two))
    'shed: a 1,200, b 7; buckets: 2, with 10 to 90 rows of memory and a recall of 75.0% to 100.0%'
    """
    shed = ", ".join(f"{stream} {rows:,}" for stream, rows in sorted(metrics.shed_by_stream.items()))
    buckets = list(metrics.buckets.values())
    unit = "rows" if all(bucket.memory_bytes is None for bucket in buckets) else "bytes"
    sizes = [bucket.memory_bytes or bucket.memory_rows or 0 for bucket in buckets]
    recalls = [bucket.recall for bucket in buckets if bucket.recall is not None]
    text = f"shed: {shed or 'nothing'}; buckets: {len(buckets)}, with {min(sizes):,} to {max(sizes):,} {unit} of memory"
    return f"{text} and a recall of {min(recalls):.1%} to {max(recalls):.1%}" if recalls else text


def batch_of(progress: Any, watermark_us: int, observed: str = OBSERVED) -> Batch:
    rows = progress.observedMetrics or {}
    counts = _with_first_stages(rows, observed)
    answer = _counts(rows.get(ANSWER))
    told = _told(rows, observed)
    late = [one.pop("late", {}) for one in told]
    future = [one.pop("future", {}) for one in told]
    # The slowest; of stages that are equally far the first, which knows the streams by name.
    clocks = [(one.pop("clock"), one["stage"] == observed) for one in told if "clock" in one]
    clock: dict[str, Any] = min(clocks, key=lambda one: (one[0]["watermark_us"], one[1]), default=({}, True))[0]
    waiting = {(one["stage"], one["bucket"]): one.pop("waiting") for one in told if "waiting" in one}
    for one in told:
        one.pop("stage")
    work = sum_by_name(*(one.pop("work", {}) for one in told))
    reasons = dict.fromkeys(one.pop("cold_because") for one in told if "cold_because" in one)
    bounded = {one.pop("bucket"): BucketMetrics(**one) for one in told if "results" in one}
    metrics = Metrics(
        rows_in=counts.get("rows_in", 0) if counts else int(progress.numInputRows),
        results=answer.get("results", counts.get("results", 0)),
        shed_rows=counts.get("shed_rows", 0),
        shed_by_stream=sum_by_name(*(bucket.shed_by_stream for bucket in bounded.values())),
        incomplete_rows=sum_if_known(*(bucket.incomplete_rows for bucket in bounded.values())),
        buckets=bounded,
        work=work,
        archived_rows=counts.get("archived_rows", 0),
        archived_bytes=counts.get("archived_bytes", 0),
        queue_shed_rows=counts.get("queue_shed_rows", 0),
        recall_is_estimate=counts.get("estimated_losses", 0) > 0,
        lost_results=None if counts.get("unknown_losses", 0) else counts.get("lost_results", 0),
        kernel_seconds=counts.get("kernel_ns", 0) / 1e9,
        watermark_us=max(clock.get("watermark_us", watermark_us), watermark_us),
        held_back_by=clock.get("held_back_by"),
        still_for_s=clock.get("still_for_s", 0.0),
        late_rows=counts.get("late_rows", 0),
        future_rows=sum_by_name(*future),
        late_by_stream=rows_by_stream(late),
        late_by_us=most_by_stream(late, "by_us"),
        stored_rows=counts.get("stored_rows", 0),
        expired_rows=counts.get("expired_rows", 0),
        cache_hits=counts.get("cache_hits", 0),
        cache_misses=counts.get("cache_misses", 0),
        cold_because="; ".join(reasons),
        plan_switches=counts.get("plan_switches", 0),
        window_rows=counts.get("window_rows", 0),
        state_bytes=counts.get("state_bytes", 0),
    )
    seconds = (progress.durationMs or {}).get("triggerExecution", 0) / 1000
    return Batch(int(progress.batchId), seconds, metrics, waiting)


def _told(rows: Any, observed: str) -> list[dict[str, Any]]:
    """What buckets told, of all stages of a query."""
    stages = {name: row for name, row in rows.items() if name == observed or name.startswith(observed + FIRST)}
    return [
        {**json.loads(text), "stage": name} for name, row in stages.items() for text in _by_name(row).get(TOLD) or ()
    ]


def _with_first_stages(rows: Any, observed: str) -> dict[str, int]:
    """The numbers of a query. Where joins run in stages of their own, rows come in there."""
    counts = _counts(rows.get(observed))
    firsts = [_counts(row) for name, row in rows.items() if name.startswith(observed + FIRST)]
    if not firsts:
        return counts
    rows_in = sum(first.get("rows_in", 0) for first in firsts)
    added = {name: counts.get(name, 0) + sum(first.get(name, 0) for first in firsts) for name in firsts[0]}
    return {**added, "rows_in": rows_in, "results": counts.get("results", 0)}


def _counts(row: Any) -> dict[str, int]:
    """The values of an observed row; a batch without rows has no sums."""
    return {} if row is None else {name: int(value or 0) for name, value in _by_name(row).items() if name != TOLD}


def _by_name(row: Any) -> dict[str, Any]:
    """An observed row by the names of its columns. Over Spark Connect it has two: its values, and their schema."""
    named: dict[str, Any] = row.asDict()
    if set(named) != {"values", "schema"} or not isinstance(named["schema"], dict):
        return named
    names = [field["name"] for field in named["schema"]["fields"]]
    return dict(zip(names, named["values"], strict=True))
