"""H04's three strategies: the same answers, noticed at different times; and what each has to hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.operators.continuous.node import everything_below
from watersmeet.operators.continuous.pipeline import Continuous
from watersmeet.runtime.build import build_query
from watersmeet.session import Query, Session

SECOND = 1_000_000
# H04's queries as catalogued: a selection and an aggregate; joins with tables and between streams; groups; two windows.
QUERIES = {
    "Q1": "SELECT SUM(price) AS total FROM sales [RANGE 10 SECONDS] WHERE price > 75",
    "Q2": "SELECT SUM(s.price) AS total FROM sales [RANGE 10 SECONDS] AS s, favourites AS f WHERE s.item = f.item",
    "Q3": (
        "SELECT s.store, COUNT(*) AS n FROM sales [RANGE 10 SECONDS] AS s, favourites AS f WHERE s.item = f.item "
        "GROUP BY s.store"
    ),
    "Q4": (
        "SELECT COUNT(*) AS n FROM sales [RANGE 10 SECONDS] AS s, returns [RANGE 10 SECONDS] AS r "
        "WHERE s.item = r.item AND s.price > 75 AND r.price > 75"
    ),
    "Q5": (
        "SELECT MAX(s.price) AS highest FROM sales [RANGE 10 SECONDS] AS s, returns [RANGE 4 SECONDS] AS r "
        "WHERE s.item = r.item"
    ),
}


def shop(rate: float, seconds: int = 60) -> Session:
    """Sales and returns with exponential gaps, and a table of every tenth item."""
    rng = np.random.default_rng(4)
    session = Session()
    for name in ("sales", "returns"):
        rows = int(rate * seconds)
        at = np.cumsum(rng.exponential(SECOND / rate, rows)).astype(np.int64)
        columns = {
            "item": rng.integers(0, 100, rows),
            "store": rng.integers(0, 5, rows),
            "price": rng.integers(0, 100, rows),
            "ts": at.astype("M8[us]"),
        }
        session.stream(name, pa.table(columns), time="ts")
    session.table("favourites", pa.table({"item": np.arange(0, 100, 10)}))
    return session


def asked(session: Session, name: str, pipeline: str) -> Query:
    return session.sql(f"{QUERIES[name]} OPTIONS (pipeline = '{pipeline}')")


@pytest.mark.parametrize("name", QUERIES)
def test_only_input_triggered_answers_are_late_and_all_are_the_same(name: str) -> None:
    session = shop(20)
    logs = {}
    for pipeline in ("ita", "tpa", "nta"):
        query = asked(session, name, pipeline)
        logs[pipeline] = query.to_arrow(batch_rows=64)
        delays = query.metrics().get("delays")
        if pipeline == "ita":
            assert 0 < delays["mean"] < delays["longest"]
        else:
            assert delays is None
    assert logs["ita"].num_rows > 40
    assert logs["ita"].equals(logs["tpa"])
    assert logs["nta"].equals(logs["tpa"])


def test_input_triggered_answers_are_later_the_rarer_the_input() -> None:
    """As H04's figures 11 and 12 have it: fewer rows that get through, longer waits."""
    means = []
    for rate in (40, 10, 2):
        query = asked(shop(rate), "Q1", "ita")
        query.to_arrow()
        means.append(query.metrics()["delays"]["mean"])
    assert means[0] < means[1] < means[2]


def test_the_cut_into_batches_does_not_change_when_changes_are_noticed() -> None:
    found = set()
    for batch_rows in (1, 7, 10_000):
        query = asked(shop(5), "Q3", "ita")
        query.to_arrow(batch_rows=batch_rows)
        found.add(tuple(query.metrics()["delays"].values()))
    assert len(found) == 1


def test_h04_figure_1a_the_delays_of_input_triggered_sums() -> None:
    values = {-4: 6, -3: 9, -2: 1, -1: 3, 0: 5, 1: 8, 2: 2, 3: 3, 4: 1, 5: 7, 6: 2}
    at = [(second + 100) * SECOND for second in values]
    table = pa.table({"v": list(values.values()), "ts": pa.array(at, pa.timestamp("us"))})
    session = Session()
    session.stream("s", table, time="ts")
    sql = (
        "SELECT SUM(v) AS total FROM s [RANGE 6 SECONDS] WHERE v > 4 OPTIONS (boundary = 'half_open', pipeline = 'ita')"
    )
    query = session.sql(sql)
    log = query.to_arrow(batch_rows=1)
    entered = [(row["_ts"].timestamp() - 100, row["total"]) for row in log.to_pylist() if row["_op"] == "+"]
    assert [each for each in entered if 2 <= each[0] <= 5] == [(2, 22), (3, 13), (5, 20)]
    # What left at 2 and at 3 is noticed when 7 comes through at 5.
    assert query.metrics()["delays"]["longest"] == 3.0


def test_sums_hold_a_number_per_group_however_long_the_window() -> None:
    sizes = []
    for seconds in (1, 50):
        plan = (
            shop(200)
            .sql(
                f"SELECT store, COUNT(*) AS n, SUM(price) AS s, AVG(price) AS m FROM sales [RANGE {seconds} SECONDS] "
                "GROUP BY store OPTIONS (pipeline = 'nta')"
            )
            .plan
        )
        operator = build_query(plan).operator
        assert isinstance(operator, Continuous)
        run(plan, operator)
        (grouped,) = (node for node in everything_below(operator.root) if isinstance(node, GroupByOperator))
        sizes.append(grouped.nbytes)
    assert sizes[0] == sizes[1]


def run(plan, operator) -> None:  # type: ignore[no-untyped-def]
    """Push everything, and stop before the windows run empty."""
    from watersmeet.runtime.clock import StreamClock

    (stream,) = build_query(plan).streams.values()
    clock = StreamClock(stream)
    for batch in stream.source.batches(1_000):
        list(operator.push("sales", clock.admit(batch)))
        list(operator.advance({"sales": clock.watermark_us}))
