"""What the papers say their algorithms cost, written down as they do; the symbols are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """A stream of GO03: rate λ, window length T, distinct values v, buckets b."""

    rate: float
    length: float
    distinct: int
    buckets: int = 1

    @property
    def size(self) -> float:
        return self.rate * self.length


TABLE_5 = [Window(10, 100, 500), Window(1, 100, 50), Window(1, 200, 40), Window(3, 100, 5)]
TABLE_6 = [Window(100, 100, 200), Window(1, 100, 200), Window(1, 100, 20), Window(3, 100, 2)]
TABLE_7 = [Window(11, 100, 200), Window(10, 100, 100), Window(1, 100, 65), Window(1, 100, 20)]


def eager_cost(windows: Sequence[Window], order: Sequence[int]) -> float:
    """GO03: attribute comparisons per unit of time of the eager multi-way join."""
    return sum(k.rate * _loops(k, [windows[j] for j in order if j != i]) for i, k in enumerate(windows))


def _loops(k: Window, inner: Sequence[Window]) -> float:
    cost, carry, distinct = 0.0, 1.0, k.distinct
    for window in inner:
        cost += carry * window.size / window.buckets
        carry *= window.size / max(distinct, window.distinct)
        distinct = min(distinct, window.distinct)
    return cost


def naive_cost(windows: Sequence[Window], order: Sequence[int]) -> float:
    """GO03's naive eager join: the order stays, and the new row's window is that row alone."""
    cost = 0.0
    for i, origin in enumerate(windows):
        sizes = [1.0 if j == i else windows[j].size for j in order]
        cost += origin.rate * _in_order([windows[j] for j in order], sizes)
    return cost


def lazy_cost(windows: Sequence[Window], order: Sequence[int], tau: float) -> float:
    """Rows scanned per unit of time by the lazy join every τ, new rows outermost."""
    cost = 0.0
    for i, origin in enumerate(windows):
        others = [j for j in order if j != i]
        sizes = [origin.rate * tau, *(windows[j].rate * (windows[j].length + tau) for j in others)]
        cost += _in_order([origin, *(windows[j] for j in others)], sizes) / tau
    return cost


def _in_order(windows: Sequence[Window], sizes: Sequence[float]) -> float:
    cost, carry, distinct = 0.0, sizes[0], windows[0].distinct
    for window, size in zip(windows[1:], sizes[1:], strict=True):
        cost += carry * size
        carry *= size / max(distinct, window.distinct)
        distinct = min(distinct, window.distinct)
    return cost


def scans_per_second(rates: tuple[float, float], lengths: tuple[float, float], buckets: tuple[int, int]) -> float:
    """K05's Equation 2 with each side's own buckets (the paper divides both by those of B)."""
    (rate_a, rate_b), (length_a, length_b), (buckets_a, buckets_b) = rates, lengths, buckets
    return rate_a * rate_b * (length_b / buckets_b + length_a / buckets_a)
