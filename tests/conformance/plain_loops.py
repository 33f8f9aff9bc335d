"""The eager joins of K05 and GO03 with lists and loops, counting as they go: what the kernels must equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Row = tuple[int, int]  # time and value


class PlainWindow:
    """One stream's buckets, each a list in the order of arrival."""

    def __init__(self, length: int, buckets: int, strategy: str) -> None:
        self.length = length
        self.strategy = strategy
        self.buckets: list[list[Row]] = [[] for _ in range(buckets)]

    def bucket(self, value: int) -> list[Row]:
        return self.buckets[value % len(self.buckets)]

    def clean(self, bucket: list[Row], now: int, counts: Counter[str]) -> None:
        while bucket:
            counts["invalidation_comparisons"] += 1
            if now - bucket[0][0] <= self.length:
                return
            bucket.pop(0)
            counts["invalidated"] += 1

    def clean_all(self, now: int, counts: Counter[str]) -> None:
        for bucket in self.buckets:
            self.clean(bucket, now, counts)


def plain_loops(
    batch: Mapping[str, Any],
    lengths: Sequence[int],
    buckets: Sequence[int],
    strategies: Sequence[str],
    order: Sequence[int] | None = None,
) -> dict[str, int]:
    """The counts of a join on equal values, new rows outermost, then the others in the order given."""
    windows = [PlainWindow(*each) for each in zip(lengths, buckets, strategies, strict=True)]
    order = range(len(windows)) if order is None else order
    arrivals = sorted(
        (int(t), i, n, int(v))
        for i, (times, values) in enumerate(batch.values())
        for n, (t, v) in enumerate(zip(times, values, strict=True))
    )
    counts: Counter[str] = Counter()
    now = 0
    for now, origin, _, value in arrivals:
        for j, window in enumerate(windows):
            if j != origin and window.strategy == "all":
                window.clean_all(now, counts)
        _descend([windows[j] for j in order if j != origin], now, value, counts, set())
        own = windows[origin]
        own.bucket(value).append((now, value))
        counts["inserted"] += 1
        if own.strategy == "probe_insert":
            own.clean(own.bucket(value), now, counts)
        elif own.strategy == "all":
            own.clean_all(now, counts)
    return _reported(windows, now, counts)


def _descend(
    loops: Sequence[PlainWindow], now: int, value: int, counts: Counter[str], cleaned: set[PlainWindow]
) -> None:
    if not loops:
        counts["results"] += 1
        return
    window, bucket = loops[0], loops[0].bucket(value)
    if window not in cleaned:  # on a common value every visit of an arrival is to the same bucket
        cleaned.add(window)
        if window.strategy in ("probe", "probe_insert"):
            window.clean(bucket, now, counts)
        elif window.strategy == "probe_all":
            window.clean_all(now, counts)
    for _, candidate in bucket:
        counts["scanned"] += 1
        counts["attribute_comparisons"] += 1
        if candidate == value:
            _descend(loops[1:], now, value, counts, cleaned)


def _reported(windows: Sequence[PlainWindow], now: int, counts: Counter[str]) -> dict[str, int]:
    ages = [(now - t, window.length) for window in windows for bucket in window.buckets for t, _ in bucket]
    live = sum(age <= length for age, length in ages)
    names = (
        "attribute_comparisons", "window_comparisons", "scanned", "inserted", "invalidated",
        "invalidation_comparisons", "results",
    )  # fmt: skip
    return {name: counts[name] for name in names} | {"live_held": live, "stale_held": len(ages) - live}
