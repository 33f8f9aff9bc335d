"""K05: what a windowed join of two streams costs, and how many stale rows its buffers gather.

A nested loop join (WNL) is a hash join (WHJ) of one bucket. The paper's Eq. 2 divides the scans of both sides by N_B;
here each side has its own number of buckets, and no more of them count than there are join values.
"""

from __future__ import annotations

from watersmeet.dataclass import dataclass
from watersmeet.errors import WatersmeetError
from watersmeet.optimizer.cost.inputs import StreamRate
from watersmeet.plan.options import INVALIDATIONS


@dataclass(frozen=True)
class UnitCosts:
    """C_inv, C_ins, C_scan: to remove a row, to insert one, to compare with one."""

    invalidate: float = 1.0
    insert: float = 1.0
    scan: float = 1.0


UNIT = UnitCosts()


def wnl_cost(a: StreamRate, b: StreamRate, unit: UnitCosts = UNIT) -> float:
    """Eq. 1: (λ_A + λ_B)(C_inv + C_ins) + λ_A λ_B (T_A + T_B) C_scan.

    >>> wnl_cost(StreamRate("a", 10, 30), StreamRate("b", 10, 30))
    6040.0
    """
    return _upkeep(a, b, unit) + a.rate * b.rate * (a.window + b.window) * unit.scan


def whj_cost(a: StreamRate, b: StreamRate, unit: UnitCosts = UNIT) -> float:
    """Eq. 2, the sum of both halves: … + λ_A λ_B (T_A/N_A + T_B/N_B) C_scan.

    >>> whj_cost(StreamRate("a", 10, 30, buckets=10), StreamRate("b", 10, 30, buckets=100), UnitCosts(0, 0, 1))
    330.0
    """
    per_pair = a.window / useful_buckets(a, b) + b.window / useful_buckets(b, a)
    return _upkeep(a, b, unit) + a.rate * b.rate * per_pair * unit.scan


def whj_half_cost(arriving: StreamRate, stored: StreamRate, unit: UnitCosts = UNIT) -> float:
    """Rows of one stream: λ_A ((λ_B/λ_A) C_inv + (T_B λ_B / N_B) C_scan + C_ins).

    The printed total is twice this, which holds if both streams are alike; the mirrored half makes it right.
    """
    scanned = stored.rows / useful_buckets(stored, arriving)
    # Every stored row is removed once, so removals come at the rate of the stored stream.
    return stored.rate * unit.invalidate + arriving.rate * (scanned * unit.scan + unit.insert)


def whj_cost_as_printed(a: StreamRate, b: StreamRate, unit: UnitCosts = UNIT) -> float:
    """Eq. 2 as printed: … + (λ_A λ_B / N_B)(T_A + T_B) C_scan. Right only if N_A = N_B; kept for comparison.

    >>> a, b = StreamRate("a", 10, 30, buckets=10), StreamRate("b", 10, 30, buckets=100)
    >>> whj_cost_as_printed(a, b, UnitCosts(0, 0, 1))
    60.0
    """
    return _upkeep(a, b, unit) + a.rate * b.rate / b.buckets * (a.window + b.window) * unit.scan


def useful_buckets(stored: StreamRate, arriving: StreamRate) -> float:
    """min(N, D): a bucket is never shorter than what matches, so beyond D join values more buckets gain nothing.

    D is the larger of both counts, since a probe for a value that is not stored finds an empty bucket.
    """
    return min(stored.buckets, max(stored.distinct, arriving.distinct))


def stale_per_bucket(strategy: str, arriving: StreamRate, stored: StreamRate) -> float:
    """Stale rows that gather in a bucket of `stored` between two looks at it: its inflow times the time between.

    >>> stale_per_bucket("probe", StreamRate("a", 10, 30), StreamRate("b", 1000, 30, buckets=100))
    100.0
    """
    inflow = stored.rate / stored.buckets
    return inflow / _looks_per_bucket(strategy, arriving, stored)


def stale_in_table(strategy: str, arriving: StreamRate, stored: StreamRate) -> float:
    """The same for all buckets of `stored`; the paper's "in buffer B" is one bucket.

    >>> fast, slow = StreamRate("b", 1000, 30, buckets=100), StreamRate("a", 10, 30, buckets=100)
    >>> [round(stale_in_table(strategy, slow, fast)) for strategy in INVALIDATIONS]
    [10000, 99, 100, 1]
    """
    return stored.buckets * stale_per_bucket(strategy, arriving, stored)


def rows_stored(strategy: str, arriving: StreamRate, stored: StreamRate) -> float:
    """The most rows that `stored` holds: the live ones and the stale."""
    return stored.rows + stale_in_table(strategy, arriving, stored)


def buckets_looked_at(strategy: str, arriving: StreamRate, stored: StreamRate) -> float:
    """Buckets that one new row has searched for stale rows.

    >>> a, b = StreamRate("a", 10, 30, buckets=10), StreamRate("b", 10, 30, buckets=100)
    >>> [buckets_looked_at(strategy, a, b) for strategy in INVALIDATIONS]
    [1, 2, 100, 110]
    """
    match _known(strategy):
        case "probe":
            return 1
        case "probe_insert":
            return 2
        case "probe_all":
            return stored.buckets
        case _:
            return arriving.buckets + stored.buckets


def invalidation_comparisons(strategy: str, a: StreamRate, b: StreamRate) -> float:
    """Comparisons to find stale rows, a unit of time: one for each row, when it goes, and one for the first live row
    of each bucket looked at (an empty bucket saves it, which is not counted here).

    >>> a, b = StreamRate("a", 10, 30, buckets=100), StreamRate("b", 1000, 30, buckets=100)
    >>> [invalidation_comparisons(strategy, a, b) for strategy in INVALIDATIONS]
    [2020, 3030, 102010, 203010]
    """
    looks = a.rate * buckets_looked_at(strategy, a, b) + b.rate * buckets_looked_at(strategy, b, a)
    return a.rate + b.rate + looks


def _looks_per_bucket(strategy: str, arriving: StreamRate, stored: StreamRate) -> float:
    """How often a bucket of `stored` is searched for stale rows, a unit of time."""
    match _known(strategy):
        case "probe":
            return arriving.rate / stored.buckets
        case "probe_insert":
            return (arriving.rate + stored.rate) / stored.buckets
        case "probe_all":
            return arriving.rate
        case _:
            return arriving.rate + stored.rate


def _upkeep(a: StreamRate, b: StreamRate, unit: UnitCosts) -> float:
    return (a.rate + b.rate) * (unit.invalidate + unit.insert)


def _known(strategy: str) -> str:
    if strategy not in INVALIDATIONS:
        raise WatersmeetError(f"invalidation {strategy!r} is unknown; it may be {', '.join(INVALIDATIONS)}")
    return strategy
