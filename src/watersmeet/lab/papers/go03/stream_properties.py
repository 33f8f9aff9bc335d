"""Section 7: what the paper would exploit of streams, near-sortedness and foreign keys, on the engine's own join."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import thread_time

import numpy as np
import pyarrow as pa

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Result
from watersmeet.lab.papers.go03.streams import PAPER, Settings
from watersmeet.lab.papers.measuring import SpreadLines, repeated
from watersmeet.lab.papers.shapes import near, value_at
from watersmeet.optimizer.estimate_join import estimate_join
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.session import Query, Session

SECOND_US = 1_000_000
# A row of b meets those of a of the second before; rows of a are kept for a minute longer, because of c.
SEARCHED = """
SELECT a.k FROM a, b, c WHERE a.k < b.k AND b.k = c.k
DWINDOW (a, b) = 1 SECOND AND DWINDOW (b, c) = 60 SECONDS
"""
KEPT_S = 60
DISORDERS = (0.0, 0.001, 0.01, 0.1, 1.0)  # of a minute
ITEMS = 10  # of an order
STREAM_PROPERTIES: Settings = {
    "small": {"rate": 400, "seconds": 90, "repeats": 3, "orders": 2000},
    "paper": {"rate": 1000, "seconds": 240, "repeats": 5, "orders": 20_000},
}
BY_DISORDER = "the engine's own join"


def stream_properties(trial: ExperimentTrial) -> Result:
    given = trial.settings
    speed = SpreadLines()
    given_rows: dict[float, int] = {}

    def once(disorder: float) -> float:
        query = out_of_order(disorder, given["rate"], given["seconds"], trial.seed)
        started = thread_time()
        given_rows[disorder] = sum(batch.num_rows for batch in query.batches(batch_rows=1 << 10))
        return float((thread_time() - started) * 1e6 / (3 * given["rate"] * given["seconds"]))

    took = repeated({disorder: partial(once, disorder) for disorder in DISORDERS}, given["repeats"])
    for disorder in DISORDERS:
        speed.add({BY_DISORDER: took[disorder]})
    expected = {unique: items_of_an_order(given["orders"], unique=unique) for unique in (False, True)}
    return Result(
        [
            speed.panel(
                "Rows that come out of order, by how far",
                "disorder (share of the time that rows are kept)",
                "µs per row of input",
                DISORDERS,
            )
        ],
        {
            "answers that differ": sum(rows != given_rows[0.0] for rows in given_rows.values()),
            "results": given_rows[0.0],
            "items of an order, counted": counted_items(given["orders"]),
            "items of an order, expected with unique = 'id'": expected[True],
            "items of an order, expected without": expected[False],
        },
    )


def out_of_order(disorder: float, rate: int, seconds: int, seed: int) -> Query:
    """The same rows each time, in the order in which they come if each is late by up to so much."""
    rng = np.random.default_rng(seed)
    session = Session()
    behind_us = round(disorder * KEPT_S * SECOND_US)
    for name in "abc":
        times = np.sort(rng.integers(0, seconds * SECOND_US, rate * seconds))
        keys = rng.integers(0, rate * KEPT_S, times.size)
        if name == "a":
            keys += round(0.98 * rate * KEPT_S)  # few are below a value of b: it is the search that takes the time
        # Lateness is drawn for all disorders alike, so that streams differ in it alone.
        arrival = np.argsort(times + rng.random(times.size) * behind_us, kind="stable")
        table = pa.table({"ts": pa.array(times[arrival], pa.timestamp("us")), "k": keys[arrival]})
        session.stream(name, table, time="ts", read="arrival", lateness=f"{behind_us} microseconds")
    return session.sql(SEARCHED)


ORDERED = "SELECT o.id FROM o [RANGE 60 SECONDS], i [RANGE 60 SECONDS], f [RANGE 60 SECONDS] {}"
CONDITION = "WHERE o.id = i.order_id AND i.sku = f.sku"


def shop(orders: int, *, unique: bool) -> Session:
    """Orders, the items of each, which come within seconds, and offers for what is in them."""
    rng = np.random.default_rng(7)
    at = np.arange(orders) * (SECOND_US // 10)
    ids = np.repeat(np.arange(orders), ITEMS)
    items_at = np.repeat(at, ITEMS) + rng.integers(0, 5 * SECOND_US, ids.size)
    session = Session()
    columns: Mapping[str, tuple[str, pa.Table]] = {
        "o": ("id", pa.table({"id": np.arange(orders), "ts": pa.array(at, pa.timestamp("us"))})),
        "i": (
            "",
            pa.table(
                {"order_id": ids, "sku": rng.integers(0, 500, ids.size), "ts": pa.array(items_at, pa.timestamp("us"))}
            ),
        ),
        "f": ("", pa.table({"sku": rng.integers(0, 500, orders), "ts": pa.array(at, pa.timestamp("us"))})),
    }
    for name, (key, table) in columns.items():
        session.stream(name, table, time="ts", unique=key if unique and key else None)
    return session


def items_of_an_order(orders: int, *, unique: bool) -> float:
    """How many a new order is expected to find before anything was measured of keys."""
    plan = shop(orders, unique=unique).sql(ORDERED.format(CONDITION)).plan
    estimate = estimate_join(plan_query(plan).strategy)
    assert estimate is not None
    (route,) = [one for one in estimate.routes if one.origin == "o"]
    (step,) = [one for one in route.steps[:1] if one.stream == "i"] or [route.steps[-1]]
    return step.carried


def counted_items(orders: int) -> float:
    pairs = "SELECT o.id FROM o [RANGE 60 SECONDS], i [RANGE 60 SECONDS] WHERE o.id = i.order_id"
    return float(shop(orders, unique=True).sql(pairs).to_arrow().num_rows / orders)


def _times_in_order(result: Result, disorder: float) -> float:
    return value_at(result, BY_DISORDER, disorder) / value_at(result, BY_DISORDER, 0.0)


O2 = Experiment(
    "GO03-O2",
    PAPER,
    "Section 7: near-sorted streams and foreign keys",
    "Improvements in efficiency include exploiting stream properties such as near-sortedness and foreign keys.",
    STREAM_PROPERTIES,
    stream_properties,
    [
        Check(
            "any disorder within the lateness gives the same answer, which is not empty",
            lambda result: result.numbers["answers that differ"] == 0 < result.numbers["results"],
        ),
        Check(
            "a stream that is nearly in order, by a thousandth of what is kept, takes at most 1.5 times as long",
            lambda result: _times_in_order(result, 0.001) <= 1.5,
            timed=True,
        ),
        Check(
            "one whose rows come in any order takes longer, at least twice: order is made use of",
            lambda result: _times_in_order(result, 1.0) >= 2,
            timed=True,
        ),
        Check(
            "with unique = 'id' an order is expected to have as many items as it has, within a tenth",
            lambda result: near(
                result.numbers["items of an order, expected with unique = 'id'"],
                result.numbers["items of an order, counted"],
                0.1,
            ),
        ),
        Check(
            "without it, it is not, by a factor of two or more",
            lambda result: (
                2 * result.numbers["items of an order, expected without"]
                <= result.numbers["items of an order, counted"]
            ),
        ),
    ],
    data="generated: uniform keys, rows late by a uniform part of the disorder; orders with ten items each",
    reconstructed={"all": "the paper only names these as future work; there is no figure"},
)
