"""H04: distinct rows in a window, the space of W-MINUS, and what it costs to notice expiry."""

from __future__ import annotations

from collections.abc import Sequence

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


def tpa_expiry_cost(streams: Sequence[StreamRate], stored: float) -> float:
    """Comparisons a unit of time to find what expired among `stored` rows, under time probing.

    With one window, rows lie in the order of their deaths: one look for each that goes. With several there is no such
    order, so each row that leaves a window has all stored rows searched.

    >>> tpa_expiry_cost([StreamRate("s", 20, 60)], stored=1200)
    20.0
    >>> tpa_expiry_cost([StreamRate("s", 20, 60), StreamRate("r", 5, 60)], stored=1200)
    30000.0
    """
    leaving = float(sum(one.rate for one in streams))
    return leaving if len(streams) == 1 else leaving * stored


def nta_expiry_cost(streams: Sequence[StreamRate], stored: float, buckets: int, operators: int = 1) -> float:
    """The same under negative tuples: each one finds its rows by value, in one bucket of `stored`, and passes through
    all operators of the pipe a second time.

    >>> nta_expiry_cost([StreamRate("s", 20, 60), StreamRate("r", 5, 60)], stored=1200, buckets=100)
    325.0
    """
    leaving = float(sum(one.rate for one in streams))
    return leaving * (stored / buckets + operators)
