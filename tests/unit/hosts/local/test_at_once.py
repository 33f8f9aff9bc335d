"""A few rows are answered when their push returns, without a generator that somebody would have to go through."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import watersmeet as wm

NOON = dt.datetime(2026, 1, 1, 12)
COLUMNS = {"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}
QUERIES = {
    "filter": "SELECT id FROM a WHERE k > 0",
    "join": "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 1 HOUR",
    "join of three": "SELECT a.id AS x FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 1 HOUR",
    "groups": "SELECT k, COUNT(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY k",
    "self join": "SELECT x.id AS x, y.id AS y FROM a x, a y WHERE x.k = y.k WINDOW = 1 HOUR",
}


def query(sql: str) -> wm.Query:
    session = wm.Session()
    for name in "abc":
        session.stream(name, schema=COLUMNS, time="ts")
    return session.sql(sql)


def rows(*keys: int, at: int = 0) -> list[dict[str, Any]]:
    return [{"id": at + i, "k": key, "ts": NOON + dt.timedelta(seconds=at)} for i, key in enumerate(keys)]


@pytest.mark.parametrize("name", QUERIES)
def test_a_few_rows_are_answered_at_once(name: str) -> None:
    with query(QUERIES[name]).start() as run:
        execution = run.driver.execution
        for turn in range(3):
            for stream in execution.streams:
                for piece in execution.rows_of(stream, rows(1, 2, at=turn)):
                    assert type(execution.push(stream, piece)) is list


def test_a_step_that_fails_at_once_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = query(QUERIES["join"]).start()
    monkeypatch.setattr(run.driver.execution.operator, "answers_until", _failing)
    run.push("a", rows(1, at=1))  # which moves no watermark
    with pytest.raises(ArithmeticError):
        run.push("b", rows(1, at=1))
    assert not run.is_open
    with pytest.raises(ArithmeticError):
        run.push("a", rows(1, at=2))


def _failing(watermarks: Any) -> list[Any]:
    raise ArithmeticError


def test_a_join_finds_few_again_where_its_lists_have_grown() -> None:
    with query(QUERIES["join of three"]).start() as run:
        run.push("c", rows(1, 2))
        run.push("b", rows(2, 2, 2, at=1))
        run.push("a", rows(2, at=2))
        assert run.take().num_rows == 3
        run.push("b", rows(*[1] * 5000, at=3))  # more than a list has room for
        run.push("a", rows(1, at=4))
        assert run.take().num_rows == 5000
        run.push("a", rows(2, 2, at=5))
        assert run.take().num_rows == 6
