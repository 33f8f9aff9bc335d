"""What a run has done so far, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from watersmeet.model.time import BEGINNING_US

_OPTIONAL = (
    "shed_by_stream", "queue_shed_rows", "archived_rows", "archived_bytes", "lost_between", "recall_is_estimate",
    "switches", "work", "delays", "buckets", "cold_because", "late_by_stream", "late_by_us", "future_rows",
    "waiting_by_stream", "waiting_until_us", "final_rows",
)  # fmt: skip


class Recall:
    """How much of the exact answer was given, where both are counted."""

    results: int
    lost_results: int | None

    @property
    def exact_results(self) -> int | None:
        return None if self.lost_results is None else self.results + self.lost_results

    @property
    def recall(self) -> float | None:
        exact = self.exact_results
        return None if exact is None else 1.0 if exact == 0 else self.results / exact


@dataclass
class BucketMetrics(Recall):
    """One of the buckets that share the memory of a query. What it may keep now is in rows or in bytes; the other
    numbers mean what they mean for the query."""

    memory_rows: int | None = None
    memory_bytes: int | None = None
    window_rows: int = 0
    results: int = 0
    lost_results: int | None = 0
    incomplete_rows: int | None = 0
    shed_by_stream: dict[str, int] = field(default_factory=dict)

    @property
    def shed_rows(self) -> int:
        return sum(self.shed_by_stream.values())

    def add(self, later: BucketMetrics) -> None:
        """Go on with what the bucket did next."""
        self.memory_rows, self.memory_bytes = later.memory_rows, later.memory_bytes
        self.window_rows = later.window_rows
        self.results += later.results
        self.lost_results = sum_if_known(self.lost_results, later.lost_results)
        self.incomplete_rows = sum_if_known(self.incomplete_rows, later.incomplete_rows)
        self.shed_by_stream = sum_by_name(self.shed_by_stream, later.shed_by_stream)

    def as_dict(self) -> dict[str, Any]:
        bound = "memory_rows" if self.memory_bytes is None else "memory_bytes"
        told = {name: value for name, value in asdict(self).items() if not name.startswith("memory_") or name == bound}
        return {**told, "shed_rows": self.shed_rows, "exact_results": self.exact_results, "recall": self.recall}


def sum_if_known(*numbers: int | None) -> int | None:
    """
    >>> sum_if_known(1, 2), sum_if_known(1, None), sum_if_known()
    (3, None, 0)
    """
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def sum_by_name(*amounts: Mapping[str, int]) -> dict[str, int]:
    """
    >>> sum_by_name({"a": 1, "b": 2}, {"b": 3})
    {'a': 1, 'b': 5}
    """
    names = dict.fromkeys(name for one in amounts for name in one)
    return {name: sum(one.get(name, 0) for one in amounts) for name in names}


@dataclass
class Metrics(Recall):
    """Totals of a run. `window_rows`, `state_bytes` and `watermark_us` are as of now; the rest add up.

    `late_rows` came too late and were left out, also by stream; `future_rows`, by stream, lie further ahead of the
    clock than `max_future`: they are in, but moved no watermark. `held_back_by` is the stream whose watermark is the
    smallest now, which is the query's; it has not moved for `still_for_s` seconds.
    `shed_rows` are rows that bounded memory let go of early, also by stream; `lost_results` is what was not found
    because of it. `exact_results` is what the answer would be without shedding, and `recall` the share of it that was
    given; all three are None if the losses are not known. `queue_shed_rows` are the rows among them that were shed
    before they were joined, as processing was too far behind; the losses are estimated then, as `recall_is_estimate`
    tells. `incomplete_rows` are rows that did not meet all their partners (DGR03's ArM): what completion would have to
    read again; `archived_rows` were written down for that.
    `work` is what one of the papers' join algorithms has counted, if one ran. `delays` says how late, in seconds of
    event time, the changes of an answer were noticed, if that could be late (pipeline = 'ita'). `plan_switches`
    counts changes of the join order, which `switches` tells of one by one where the query runs in-process. `buckets`
    are those that share a memory on Spark, by their number in the state. `cold_because` says why operators were not
    kept warm between batches, if something was wrong with the folder for that.
    `late_by_us` says on Spark how far each stream's latest row came behind the watermark. `waiting_by_stream` are rows
    that wait for the watermark to pass them, which it has once it is beyond `waiting_until_us`. `final_rows` are those
    of an answer at the end of the input, of which `results` are then the changes.
    """

    rows_in: int = 0
    late_rows: int = 0
    late_by_stream: dict[str, int] = field(default_factory=dict)
    future_rows: dict[str, int] = field(default_factory=dict)
    held_back_by: str | None = None
    still_for_s: float = 0.0
    late_by_us: dict[str, int] = field(default_factory=dict)
    waiting_by_stream: dict[str, int] = field(default_factory=dict)
    waiting_until_us: int | None = None
    stored_rows: int = 0
    expired_rows: int = 0
    shed_rows: int = 0
    shed_by_stream: dict[str, int] = field(default_factory=dict)
    queue_shed_rows: int = 0
    archived_rows: int = 0
    archived_bytes: int = 0
    results: int = 0
    final_rows: int | None = None
    lost_results: int | None = 0
    lost_between: tuple[int, int] | None = None
    recall_is_estimate: bool = False
    incomplete_rows: int | None = 0
    kernel_seconds: float = 0.0
    cache_hits: int = 0
    cache_misses: int = 0
    cold_because: str = ""
    state_bytes: int = 0
    window_rows: int = 0
    watermark_us: int = BEGINNING_US
    work: dict[str, int] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    plan_switches: int = 0
    switches: list[dict[str, Any]] = field(default_factory=list)
    buckets: dict[int, BucketMetrics] = field(default_factory=dict)

    @property
    def recall_between(self) -> tuple[float, float] | None:
        """The bounds of the recall, where it is estimated."""
        if self.lost_between is None:
            return None
        low, high = (self.results / (self.results + lost) if lost else 1.0 for lost in reversed(self.lost_between))
        return low, high

    def as_dict(self) -> dict[str, Any]:
        """All of it; what is not about every query only if there is any."""
        told = {name: value for name, value in asdict(self).items() if value or name not in _OPTIONAL}
        told |= {"exact_results": self.exact_results, "recall": self.recall}
        if self.buckets:
            told["buckets"] = {number: bucket.as_dict() for number, bucket in sorted(self.buckets.items())}
        return told if self.lost_between is None else {**told, "recall_between": self.recall_between}
