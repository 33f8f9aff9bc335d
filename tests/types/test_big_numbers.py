"""Integers beyond 2^53 beside doubles, which cannot hold them all, and beyond 2^63."""

from __future__ import annotations

import operator

import pyarrow as pa
import pytest

import watersmeet as wm

INTEGERS = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 3, 2**63 - 1, -(2**63), None]
DOUBLES = [float(2**53), float(2**53 + 4), float(2**63), -float(2**63), 0.5, float("nan"), None]


def rows(values: list[object], kind: pa.DataType) -> pa.Table:
    count = len(values)
    return pa.table({"id": range(count), "ts": pa.array(range(count), pa.timestamp("us")), "v": pa.array(values, kind)})


def pairs(query: wm.Query) -> set[tuple[int, int]]:
    return {(row["a"], row["b"]) for row in query.to_arrow().to_pylist()}


@pytest.fixture(name="session")
def _session() -> wm.Session:
    session = wm.Session()
    session.stream("a", rows(list(INTEGERS), pa.int64()), time="ts")
    session.stream("b", rows(list(DOUBLES), pa.float64()), time="ts")
    unsigned = [2**64 - 1 if n == 2**63 - 1 else abs(n) if n else n for n in INTEGERS]
    session.stream("u", rows(unsigned, pa.uint64()), time="ts")
    return session


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("a.v = b.v", lambda x, y: x == y),
        ("a.v < b.v", lambda x, y: x < y or y != y),
        ("ABS(a.v - b.v) <= 2", lambda x, y: abs(x - y) <= 2),
        ("a.v BETWEEN b.v - 1 AND b.v + 1", lambda x, y: y - 1 <= x <= y + 1),
    ],
)
@pytest.mark.parametrize("stream", ["a", "u"])
def test_integers_are_compared_with_doubles_as_doubles(
    session: wm.Session, condition: str, holds: object, stream: str
) -> None:
    """As in DuckDB: 2^53 + 1 is the double 2^53."""
    integers = session.sql(f"SELECT id, v FROM {stream}").to_arrow().to_pylist()
    query = session.sql(
        f"SELECT {stream}.id AS a, b.id AS b FROM {stream}, b WHERE {condition.replace('a.v', stream + '.v')} "
        "WINDOW = 1 HOUR"
    )
    expected = {
        (one["id"], b)
        for one in integers
        for b, y in enumerate(DOUBLES)
        if one["v"] is not None and y is not None and holds(float(one["v"]), y)  # type: ignore[operator]
    }
    assert pairs(query) == expected
    assert wm.check(query).equal


def test_a_band_around_an_unsigned_integer_is_one_of_its_values() -> None:
    session = wm.Session()
    session.stream("a", rows([1, 5, 9], pa.int64()), time="ts")
    session.stream("u", rows([2, 9, 2**62], pa.uint64()), time="ts")
    query = "SELECT a.id AS a, u.id AS b FROM a, u WHERE a.v BETWEEN u.v - 1 AND u.v + 1 WINDOW = 1 HOUR"
    assert pairs(session.sql(query)) == {(0, 0), (2, 1)}


LIMITS = [2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 0]


@pytest.mark.parametrize("by", [-2, -1, 0, 1, 2, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("order", ["<", "<=", ">", ">="])
def test_a_difference_is_compared_as_whole_numbers_without_limits(order: str, by: int) -> None:
    holds = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[order]
    session = wm.Session()
    for name in ("a", "b"):
        session.stream(name, rows(list(LIMITS), pa.int64()), time="ts")
    # Where a condition is tested on whole combinations, their differences must fit.
    near = "" if abs(by) < 2**62 else " AND a.v >= 0 AND b.v >= 0" if by > 0 else " AND a.v < 0 AND b.v < 0"
    for condition, expected in (
        (f"a.v - b.v {order} {by}", lambda x, y: holds(x - y, by)),
        (f"{by} {order} a.v - b.v", lambda x, y: holds(by, x - y)),
    ):
        query = session.sql(f"SELECT a.id AS a, b.id AS b FROM a, b WHERE {condition}{near} WINDOW = 1 HOUR")
        assert pairs(query) == {
            (a, b)
            for a, x in enumerate(LIMITS)
            for b, y in enumerate(LIMITS)
            if expected(x, y) and (not near or (x >= 0) == (y >= 0) == (by > 0))
        }


@pytest.mark.parametrize("condition", ["a.v >= b.v + 1", "a.v = b.v + 1", "b.v + 1 > a.v", "a.v < b.v - -1"])
def test_a_sum_that_does_not_fit_is_told_in_a_condition_too(condition: str) -> None:
    session = wm.Session()
    for name in ("a", "b"):
        session.stream(name, rows([1, 2**63 - 1], pa.int64()), time="ts")
    query = session.sql(f"SELECT a.id AS a, b.id AS b FROM a, b WHERE {condition} WINDOW = 1 HOUR")
    with pytest.raises(wm.errors.DataError, match="does not fit in BIGINT"):
        query.to_arrow()


def test_unsigned_integers_are_pushed_from_python_too() -> None:
    session = wm.Session()
    session.stream("u", schema={"ts": "TIMESTAMP", "v": "UBIGINT"}, time="ts")
    with session.sql("SELECT v FROM u").start() as run:
        run.push("u", [{"ts": "2026-01-01 00:00:00", "v": 2**64 - 1}, {"ts": "2026-01-01 00:00:01", "v": None}])
        for wrong in (-1, 2**64, 1.5):
            with pytest.raises(wm.errors.WatersmeetError, match="UBIGINT"):
                run.push("u", [{"ts": "2026-01-01 00:00:02", "v": 2**63}, {"ts": "2026-01-01 00:00:02", "v": wrong}])
        run.finish()
        assert run.take()["v"].to_pylist() == [2**64 - 1, None]
