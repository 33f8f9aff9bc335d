"""What Spark tells about a running query, batch by batch, as our metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, reduce
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.bucket.account import BY_COLUMN, BY_TEXT
from watersmeet.hosts.spark.bucket.lateness import LATENESS, most_by_stream, rows_by_stream
from watersmeet.hosts.spark.bucket.output import FIRST, OBSERVED, REPORTS
from watersmeet.hosts.spark.jobs.ids import in_its_slot, slot_of
from watersmeet.hosts.spark.reading.changed_files import ChangedFiles, changed_in
from watersmeet.model.metric import Metric, sum_by_name
from watersmeet.runtime.metrics import BUCKET_METRICS, METRICS, BucketMetrics, Metrics
from watersmeet.runtime.progress import clock_time, losses, short
from watersmeet.runtime.skew import fullest

Report = Mapping[str, Any]
ANSWER = "watersmeet_answer"  # counts the rows of the answer, for queries without state as well


@dataclass(frozen=True)
class Batch:
    """One micro-batch, in numbers; `values` holds what this batch did and how things stood after it, by
    metric; `reports` what its buckets told, by stage and bucket."""

    number: int
    seconds: float
    values: Mapping[str, Any]
    reports: Mapping[tuple[str, int], Report] = field(default_factory=dict)
    changed: Sequence[ChangedFiles] = ()  # files that were read before

    @cached_property
    def metrics(self) -> Metrics:
        return Metrics(**self.values)

    def __str__(self) -> str:
        return self.line()

    def line(self, clock: Callable[[int], str] = clock_time) -> str:
        """The batch in a line; `clock` writes event times."""
        m = self.metrics
        cold = f", {m.cache_misses} cold" if m.cache_misses else ""
        cold += f", not kept warm: {m.cold_because}" if m.cold_because else ""
        cold += f", {m.plan_switches} new join orders" if m.plan_switches else ""
        odd = [f"{short(m.late_rows)} late"] if m.late_rows else []
        odd += [f"{short(m.skipped_rows)} without a time"] if m.skipped_rows else []
        odd += [f"{short(m.bad_rows)} bad"] if m.bad_rows else []
        odd += [f"{short(m.skipped_batch_rows)} left out as asked for"] if m.skipped_batch_rows else []
        odd += [f"{short(sum(m.future_rows.values()))} ahead of the clock"] if m.future_rows else []
        uneven = fullest(m)
        cold += "" if uneven is None else f", fullest bucket {uneven:.1f} times the mean"
        late = f" ({', '.join(odd)})" if odd else ""
        kept = f"kept {short(m.kept_rows)} ({m.state_bytes / 2**20:.0f} MB)"
        rate = f" ({short(m.rows_in / self.seconds)}/s)" if self.seconds > 0 else ""
        return (
            f"batch {self.number}: {short(m.rows_in)} in{late}, {short(m.results)} out, {self.seconds:.1f} s{rate}, "
            f"at {clock(m.watermark_us)}, {kept}{losses(m)}{cold}"
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
    skipped: frozenset[int] = frozenset()  # batches that are left out
    slot: int = 0  # that of the query among those that Spark runs as one
    _latest: dict[tuple[str, int], Report] = field(default_factory=dict)  # of every bucket, also if it took no part
    _seen: set[tuple[int, str]] = field(default_factory=set)

    def add(self, progress: Any) -> Batch | None:
        """Take in the progress of a batch; None if it was known already or no batch ran."""
        key = (int(progress.batchId), str(progress.timestamp))
        if key in self._seen:
            return None
        self._seen.add(key)
        # Spark may also report a trigger that found nothing to do: no batch ran then.
        if "addBatch" not in (progress.durationMs or {}):
            return None
        batch = batch_of(progress, self.total.watermark_us, self.observed, self.slot)
        if batch.number in self.skipped:
            batch = replace(batch, values={**batch.values, "rows_in": 0, "skipped_batch_rows": batch.metrics.rows_in})
        if batch.changed:
            found = reduce(sum_by_name, ({one.stream: one.files} for one in batch.changed), self.total.changed_files)
            batch = replace(batch, values={**batch.values, "changed_files": found})
        self._latest |= batch.reports
        # A bucket without input tells nothing in a batch, yet what it holds still counts.
        batch = replace(batch, values={**batch.values, **_standing(list(self._latest.values()))})
        self._add(batch)
        self.last = batch
        return batch

    def _add(self, batch: Batch) -> None:
        self.total.add(batch.values)
        self.batches += 1
        self.seconds += batch.seconds
        self.peak_rows = max(self.peak_rows, batch.metrics.kept_rows)
        self.peak_bytes = max(self.peak_bytes, batch.metrics.state_bytes)


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


def batch_of(progress: Any, watermark_us: int, observed: str = OBSERVED, slot: int = 0) -> Batch:
    rows = progress.observedMetrics or {}
    named = {name: _by_name(row) for name, row in rows.items()}
    stages = {name: row for name, row in named.items() if name == observed or name.startswith(observed + FIRST)}
    by_stage = {name: _reports(name, row, slot) for name, row in stages.items()}
    reports = [one for stage in by_stage.values() for one in stage]
    values = _added_up({name: _counts(row, by_stage[name]) for name, row in stages.items()}, observed) | _done(reports)
    # A stage without input tells no clock; the last known one stands.
    values["watermark_us"] = max(values.get("watermark_us", watermark_us), watermark_us)
    # Queries without state observe nothing of ours.
    if not stages:
        values["rows_in"] = int(progress.numInputRows)
    if ANSWER in rows:
        values["results"] = _counts(named[ANSWER], [])["results"]
    seconds = (progress.durationMs or {}).get("triggerExecution", 0) / 1000
    by_bucket = {(one["stage"], one["bucket"]): one for one in reports}
    return Batch(int(progress.batchId), seconds, values, by_bucket, changed_in(progress.sources or ()))


def _added_up(stages: Mapping[str, Mapping[str, int]], observed: str) -> dict[str, Any]:
    """The metrics that add up over buckets, of the stages in which they count."""
    found = {}
    for one in BY_COLUMN:
        sums = [stages[name] for name in _counting(one, list(stages), observed)]
        values = [one.kind.from_columns(*(stage.get(column, 0) for column in one.columns)) for stage in sums]
        found[one.name] = reduce(one.kind.beside, values, one.kind.empty())
    return found


def _counting(one: Metric, stages: list[str], observed: str) -> list[str]:
    """The stages whose numbers count. Where joins run in stages of their own, rows come in there."""
    first = [name for name in stages if name != observed] or stages
    last = [name for name in stages if name == observed]
    return {"all": stages, "first": first, "last": last}[one.stage]


def _standing(reports: Sequence[Report]) -> dict[str, Any]:
    """How things stand in all buckets, from the latest that each of them told."""
    values = _beside(reports, standing=True)
    waiting = [report["waiting"] for report in reports if "waiting" in report]
    if waiting:
        values["waiting_by_stream"] = rows_by_stream(waiting)
        values["waiting_until_us"] = max(most_by_stream(waiting, "until_us").values(), default=None)
    return values


def _beside(reports: Sequence[Report], *, standing: bool) -> dict[str, Any]:
    """The metrics that buckets told under the names of the table."""
    values: dict[str, Any] = {}
    for one in BY_TEXT:
        counting = reports if one.stage == "all" else _first(reports)
        found = [report[one.name] for report in counting if one.name in report]
        if found and one.kind.standing == standing:
            values[one.name] = reduce(one.kind.beside, found)
    return values


def _first(reports: Sequence[Report]) -> Sequence[Report]:
    """Those of stages that know the streams by name: where joins run in stages of their own, these."""
    return [report for report in reports if FIRST in report["stage"]] or reports


def _done(reports: Sequence[Report]) -> dict[str, Any]:
    """What the buckets of a batch did in it, beside what Spark added up."""
    values = _beside(reports, standing=False)
    late = [report["late"] for report in reports if "late" in report]
    if late:
        values |= {"late_by_stream": rows_by_stream(late)} | {name: most_by_stream(late, name) for name in LATENESS}
    future = [report["future"] for report in reports if "future" in report]
    if future:
        values["future_rows"] = reduce(sum_by_name, future)
    clocks = [report for report in reports if "clock" in report]
    if clocks:  # the slowest; of stages that are equally far a first one, which knows the streams by name
        slowest = min(clocks, key=lambda report: (report["clock"]["watermark_us"], FIRST not in report["stage"]))
        values |= {name: value for name, value in slowest["clock"].items() if name in METRICS}
    values["buckets"] = {report["bucket"]: _bucket(report) for report in reports if "results" in report}
    return values


def _bucket(report: Report) -> BucketMetrics:
    return BucketMetrics(**{name: report[name] for name in BUCKET_METRICS if name in report})


def _reports(stage: str, row: Mapping[str, Any], slot: int) -> list[dict[str, Any]]:
    """What the buckets of a stage told, of the query with that slot."""
    told = [json.loads(text) for text in row.get(REPORTS) or ()]
    return [
        {**one, "bucket": in_its_slot(one["bucket"]), "stage": stage} for one in told if slot_of(one["bucket"]) == slot
    ]


def _counts(row: Mapping[str, Any], reports: Sequence[Report]) -> dict[str, int]:
    """The numbers of an observed row, and those that its buckets told, added up."""
    columns = {name: int(value or 0) for name, value in row.items() if name != REPORTS}
    return reduce(sum_by_name, (one.get("counts", {}) for one in reports), columns)


def _by_name(row: Any) -> dict[str, Any]:
    """An observed row by the names of its columns. Over Spark Connect it has two: its values, and their schema."""
    named: dict[str, Any] = row.asDict()
    if set(named) != {"values", "schema"} or not isinstance(named["schema"], dict):
        return named
    names = [field["name"] for field in named["schema"]["fields"]]
    return dict(zip(names, named["values"], strict=True))
