"""What the optimizer's models foresee, beside what the papers' joins count when they run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.conformance.drive import Drive, Numbers, rows_of
from watersmeet.optimizer.cost.inputs import JoinGraph, Key, StreamRate
from watersmeet.optimizer.join_order import best_local_orders
from watersmeet.papers.orders.cost_go03 import eager_cost, local_orders_cost

UNIT = 1000  # microseconds
VALUES = 60
STREAMS = (StreamRate("a", 5, 100, VALUES), StreamRate("b", 2, 60, VALUES), StreamRate("c", 1, 80, 30))
ON_ONE_KEY = "a.v = b.v AND b.v = c.v"


Shares = npt.NDArray[np.float64]


def zipf(exponent: float, values: int = VALUES) -> Shares:
    weights = np.arange(1.0, values + 1) ** -exponent
    return weights / weights.sum()


def rows(shares: dict[str, Shares], units: int) -> dict[str, tuple[Numbers, Numbers]]:
    """Arrivals at random, values by their shares; which number stands for the n-th value is random, too."""
    rng = np.random.default_rng(2005)
    number = rng.permutation(VALUES * 20)[:VALUES]
    made = {}
    for one in STREAMS:
        times = np.sort(rng.integers(0, units * UNIT, int(one.rate * units)))
        made[one.name] = times, number[rng.choice(len(shares[one.name]), len(times), p=shares[one.name])]
    return made


def counted(shares: dict[str, Shares], options: str, units: int = 1500) -> float:
    """Comparisons a unit of time, once all windows are full."""
    sources = ", ".join(f"{one.name} [RANGE {int(one.window * UNIT)} us]" for one in STREAMS)
    drive = Drive(f"SELECT a.v FROM {sources} WHERE {ON_ONE_KEY} OPTIONS ({options})", [one.name for one in STREAMS])
    made, edge = rows(shares, units + 100), 100 * UNIT
    drive.push({name: (times[times < edge], values[times < edge]) for name, (times, values) in made.items()})
    before = drive.work["attribute_comparisons"]
    later = {name: rows_of(times[times >= edge], values[times >= edge]) for name, (times, values) in made.items()}
    for _ in drive.join.push_together(later):
        pass
    return (drive.work["attribute_comparisons"] - before) / units


UNIFORM = {one.name: zipf(0, int(one.distinct)) for one in STREAMS}
SKEWED = {"a": zipf(1), "b": zipf(0.7), "c": zipf(1, 30)}


def graph(buckets: int, shares: dict[str, Shares] | None = None) -> JoinGraph:
    indexed = tuple(StreamRate(one.name, one.rate, one.window, one.distinct, buckets) for one in STREAMS)
    if shares is None:
        return JoinGraph.on_one_key(indexed)
    return JoinGraph(indexed, (Key(frequencies={name: tuple(given) for name, given in shares.items()}),))


@pytest.mark.parametrize("order", ["abc", "cba"])
def test_uniform_streams_are_foreseen_within_a_tenth(order: str) -> None:
    found = counted(UNIFORM, f"join = 'nested_loop', order = '{', '.join(order)}'")
    assert eager_cost(graph(1), order) == pytest.approx(found, rel=0.1)


@pytest.mark.parametrize("buckets", [1, 7, 200])
def test_skewed_streams_are_foreseen_within_a_fifth_from_their_frequencies(buckets: int) -> None:
    found = counted(SKEWED, f"join = 'hash', buckets = {buckets}, order = 'a, b, c'")
    assert eager_cost(graph(buckets, SKEWED), "abc") == pytest.approx(found, rel=0.2)


def test_distinct_counts_alone_miss_what_skew_does() -> None:
    found = counted(SKEWED, "join = 'hash', buckets = 200, order = 'a, b, c'")
    assert eager_cost(graph(200), "abc") < found / 2


def test_orders_by_origin_cost_what_is_foreseen_too() -> None:
    orders = best_local_orders(graph(1, SKEWED))
    written = "; ".join(f"{name}: {', '.join(order)}" for name, order in orders.items())
    found = counted(SKEWED, f"join = 'nested_loop', order = '{written}'")
    assert local_orders_cost(graph(1, SKEWED), orders) == pytest.approx(found, rel=0.2)
