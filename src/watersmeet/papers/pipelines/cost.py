"""H04: distinct rows in a window, the space of W-MINUS, and what it costs to notice expiry."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from watersmeet.optimizer.cost.inputs import StreamRate


def is_new_probability(keys: float, rows: float) -> float:
    """(1 - 1/n_key)^(λ|w|): that a row has a value which none of the window's rows has."""
    return float((1 - 1 / keys) ** rows)


def distinct_in_window(keys: float, rows: float) -> float:
    """Eq. 1, N_d = n_key (1 - (1 - 1/n_key)^(λ|w|)): how many of `keys` uniform values a window holds.

    >>> round(distinct_in_window(keys=26, rows=26), 2)
    16.62
    """
    return keys * (1 - is_new_probability(keys, rows))


def distinct_output_rate(stream: StreamRate) -> float:
    """N_d / |w|: rows a unit of time out of W-DISTINCT; n_key / |w| at most, however fast the input.

    An approximation: counts of W-DISTINCT that replaces an expired row by its newest equal lie up to a quarter above.

    >>> round(distinct_output_rate(StreamRate("s", rate=2, window=10, distinct=26)), 3)
    1.413
    """
    return distinct_in_window(stream.distinct, stream.rows) / stream.window


def minus_space(stream: StreamRate) -> float:
    """S = 2 (λw + N_d) + λw: rows and counts of both inputs of W-MINUS, alike, and its live output.

    >>> round(minus_space(StreamRate("s", rate=2.6, window=10, distinct=26)), 2)
    111.24
    """
    return 2 * (stream.rows + distinct_in_window(stream.distinct, stream.rows)) + stream.rows


def counts_per_bucket(stream: StreamRate) -> float:
    """N_d / H_b: counts that a search in the frequency table of W-MINUS passes."""
    return distinct_in_window(stream.distinct, stream.rows) / stream.buckets


def held_results(streams: Sequence[StreamRate]) -> float:
    """Rows of one window, or results of several that are equal on a key, that an operator above holds at any time.

    >>> held_results([StreamRate("s", 20, 10, distinct=100), StreamRate("r", 20, 5, distinct=100)])
    200.0
    """
    return prod(one.rows for one in streams) / max(one.distinct for one in streams) ** (len(streams) - 1)


def arriving_results(streams: Sequence[StreamRate]) -> float:
    """How many of these come in a unit of time, and leave again: each arrival meets the windows of the others.

    >>> round(arriving_results([StreamRate("s", 20, 10, distinct=100), StreamRate("r", 20, 5, distinct=100)]), 6)
    60.0
    """
    return held_results(streams) * sum(1 / one.window for one in streams)


def tpa_expiry_cost(streams: Sequence[StreamRate]) -> float:
    """Comparisons a unit of time to find what expired, under time probing, by an operator above these streams.

    With one window, or windows alike, what is held lies in the order in which it ends: a look for each that goes, and
    one at what stays, which ends the search at each arrival. With several there is no such order: at each arrival all
    that is held is scanned, every timestamp of it.

    >>> tpa_expiry_cost([StreamRate("s", 20, 60)])
    40.0
    >>> round(tpa_expiry_cost([StreamRate("s", 20, 10, distinct=100), StreamRate("r", 20, 5, distinct=100)]), 6)
    24000.0
    """
    coming = arriving_results(streams)
    if len({one.window for one in streams}) == 1:
        return 2 * coming
    return coming * held_results(streams) * len(streams)


def nta_expiry_cost(streams: Sequence[StreamRate]) -> float:
    """The same under negative tuples: each is found by its value, the oldest of its equals first. What is dearer is
    that it passes through all operators of the pipe a second time.

    >>> round(nta_expiry_cost([StreamRate("s", 20, 10, distinct=100), StreamRate("r", 20, 5, distinct=100)]), 6)
    60.0
    """
    return arriving_results(streams)
