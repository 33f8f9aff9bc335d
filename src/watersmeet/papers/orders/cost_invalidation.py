"""What invalidation costs the operators that K05 leaves open: changes of their answers, a unit of time.

K05 counts how often a join looks for stale rows. The other operators keep their rows in the order of their deaths, so a
look costs 1 + N_stale comparisons there, too, and rows leave at the rate at which they came, Σλ, whatever the operator.
What differs is what a leaving row does to the answer: the rows that go out because of it, work for all that follows.

Values are uniform, rows come at random times: a window of T holds a Poisson number of each of D values, λT/D in the
mean. Each formula gives the changes that arrivals cause and those that expiry causes. A group that changes is two rows,
- and +.
"""

from __future__ import annotations

import math

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.optimizer.cost.inputs import StreamRate


@dataclass(frozen=True)
class AnswerChanges:
    """Rows of a change log, a unit of time."""

    by_arrival: float
    by_expiry: float

    @property
    def total(self) -> float:
        return self.by_arrival + self.by_expiry


def absent(stream: StreamRate) -> float:
    """e^(-λT/D): that a window holds no row of a given value.

    >>> round(absent(StreamRate("s", rate=20, window=30, distinct=600)), 3)
    0.368
    """
    return math.exp(-stream.rows / stream.distinct)


def union_all_changes(*streams: StreamRate) -> AnswerChanges:
    """Every row enters and leaves: Σλ each."""
    total = sum(one.rate for one in streams)
    return AnswerChanges(total, total)


def distinct_changes(*streams: StreamRate) -> AnswerChanges:
    """DISTINCT and UNION: only the first of its value enters, and only the last one leaves: Σλ e^(-ΣλT/D)."""
    total = sum(one.rate for one in streams) * math.prod(absent(one) for one in streams)
    return AnswerChanges(total, total)


def group_changes(stream: StreamRate) -> AnswerChanges:
    """GROUP BY: an arrival and an expiry change their group, two rows, or one if it appears or disappears:
    λ(2 - e^(-λT/D)) each."""
    each = stream.rate * (2 - absent(stream))
    return AnswerChanges(each, each)


def except_all_changes(left: StreamRate, right: StreamRate) -> AnswerChanges:
    """max(0, n - m) rows of a value: a row of the left counts if n ≥ m before it, one of the right if n > m."""
    behind, level = _behind_and_level(left, right)
    each = left.rate * (1 - behind) + right.rate * (1 - behind - level)
    return AnswerChanges(each, each)


def intersect_all_changes(left: StreamRate, right: StreamRate) -> AnswerChanges:
    """min(n, m) rows of a value: a row counts if its own side has fewer."""
    behind, level = _behind_and_level(left, right)
    each = left.rate * behind + right.rate * (1 - behind - level)
    return AnswerChanges(each, each)


def top_k_changes(stream: StreamRate, k: int) -> AnswerChanges:
    """ORDER BY … LIMIT k: a row is among the first k of a window with the chance k/λT, and pushes one out or lets one
    in: 2k/T each, however fast the stream is.

    >>> top_k_changes(StreamRate("s", rate=20, window=30), 10).by_expiry
    0.6666666666666666
    """
    each = stream.rate * 2 * min(1.0, k / stream.rows)
    return AnswerChanges(each, each)


def stepping_group_changes(stream: StreamRate, step: float) -> float:
    """GROUP BY over a window that moves in steps: a group changes at most once in a step, if not as many rows came as
    went. With step = T it is a tumbling window. All changes, a unit of time; arrivals cause none by themselves.

    2D/s (1 - q - e^(-λT/D)(1 - e^(-μ))), μ = λs/D rows of a group in a step, q that as many come as go.
    """
    in_step = stream.rate * step / stream.distinct
    unchanged = math.exp(-2 * in_step) * float(np.i0(2 * in_step))
    from_nothing = absent(stream) * (1 - math.exp(-in_step))
    return 2 * stream.distinct / step * (1 - unchanged - from_nothing)


def landmark_group_changes(stream: StreamRate, reset: float) -> AnswerChanges:
    """GROUP BY over all rows since a landmark, which moves once in `reset`: nothing expires in between, and then every
    group that is there goes, D(1 - e^(-λd/D)) of them at once."""
    groups = stream.distinct * (1 - math.exp(-stream.rate * reset / stream.distinct)) / reset
    return AnswerChanges(2 * stream.rate - groups, groups)


def _behind_and_level(left: StreamRate, right: StreamRate) -> tuple[float, float]:
    """That of a value the left window holds fewer rows than the right one, and as many."""
    means = left.rows / left.distinct, right.rows / right.distinct
    most = int(max(means) + 12 * math.sqrt(max(means)) + 12)
    n, m = (_poisson(mean, most) for mean in means)
    return float((n * (1 - np.cumsum(m))).sum()), float((n * m).sum())


def _poisson(mean: float, most: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    steps = np.concatenate([[math.exp(-mean)], np.full(most, mean) / np.arange(1, most + 1)])
    return np.cumprod(steps)


@dataclass(frozen=True)
class Looks:
    """A unit of time: how often it is looked for rows that have left, and how many are looked at; and how many that
    have left wait for the next look, in the mean."""

    passes: float
    rows_looked_at: float
    stale: float


def looks(every: float | None, *streams: StreamRate) -> Looks:
    """Eager operators look with every arrival, Σλ times; by panes of `every` units 1/every times. A look is at
    1 + N_stale rows, and all Σλ that leave are found by some look.

    >>> looks(None, StreamRate("s", rate=20, window=30)), looks(5, StreamRate("s", rate=20, window=30))
    (Looks(passes=20, rows_looked_at=40, stale=0.0), Looks(passes=0.2, rows_looked_at=20.2, stale=50.0))
    """
    rate = sum(one.rate for one in streams)
    passes = rate if every is None else 1 / every
    return Looks(passes, passes + rate, 0.0 if every is None else rate * every / 2)
