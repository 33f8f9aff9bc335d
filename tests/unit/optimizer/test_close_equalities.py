"""What follows from equalities: others, and tests on constants of rows that could meet nobody."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.plan.expressions import to_text
from watersmeet.sql import bind

SCHEMA = pa.schema(
    [("k", pa.int64()), ("n", pa.int32()), ("x", pa.float64()), ("word", pa.string()), ("ts", pa.timestamp("us"))]
)
JOINED = "SELECT a.k FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], c [RANGE 9 SECONDS] WHERE "


def filters(condition: str) -> dict[str, list[str]]:
    catalog = Catalog()
    for name in "abc":
        catalog.add(Stream(name, SCHEMA, "ts"))
    found = plan_query(bind(JOINED + condition, catalog)).strategy.filters
    return {alias: [to_text(one) for one in tests] for alias, tests in sorted(found.items()) if tests}


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (
            "a.k = b.k AND b.k = c.k AND b.k = 17",
            {"a": ["a.k = 17"], "b": ["b.k = 17"], "c": ["c.k = 17"]},
        ),
        ("a.k = b.k AND a.k = c.k AND a.k = 17 AND c.k = 17", dict.fromkeys("abc", 17)),
        (
            "a.word = b.word AND b.k = c.k AND a.word IN ('u', 'v')",
            {"a": ["a.word IN ('u', 'v')"], "b": ["b.word IN ('u', 'v')"]},
        ),
        # What only narrows, what compares other values, or in another type, says nothing of the others.
        ("a.k = b.k AND b.k = c.k AND a.k > 17", {"a": ["a.k > 17"]}),
        ("a.k = b.k AND b.k = c.k AND a.k + 1 = 17", {"a": ["(a.k + 1) = 17"]}),
        ("a.x = b.x AND b.k = c.k AND a.x = 0.0", {"a": ["a.x = 0.0"]}),
        ("a.k = b.k AND b.k = c.k AND a.k IN (17, NULL)", {"a": ["a.k IN (17, NULL)"]}),
    ],
)
def test_a_constant_is_that_of_all_that_are_equal(condition: str, found: dict[str, object]) -> None:
    told = filters(condition)
    assert told == {alias: [f"{alias}.k = 17"] if tests == 17 else tests for alias, tests in found.items()}


def test_rows_that_can_meet_nobody_are_not_stored() -> None:
    times = pa.array(range(0, 100_000_000, 1_000_000), pa.timestamp("us"))
    rows = pa.table({"k": pa.array([one % 10 for one in range(100)], pa.int64()), "ts": times})
    session = wm.Session()
    for name in "ab":
        session.stream(name, rows, time="ts")
    run = PulledExecution(session.sql("SELECT a.k FROM a, b WHERE a.k = b.k AND a.k = 3 WINDOW = 1 HOUR").plan)
    assert sum(batch.num_rows for batch in run.batches()) == 100
    assert run.operator.counters.stored_rows == 20
