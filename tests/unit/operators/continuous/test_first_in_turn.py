"""The first rows of windows whose rows leave in the order in which they came, beside rows that are sorted anew at every
instant; and how few of them are held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from tests.relays import Relay, handed_on
from tests.runners import Source, bound_plan
from watersmeet.operators.continuous import first_in_turn
from watersmeet.operators.continuous.first_in_turn import FirstInTurn
from watersmeet.operators.continuous.node import everything_below
from watersmeet.operators.continuous.over.changing import OverChanging
from watersmeet.operators.continuous.pipeline import Continuous
from watersmeet.operators.continuous.top_k import TopKOperator
from watersmeet.operators.contract import Operator

WINDOW_US = 300  # closed: a row is still there so long after it came
Row = tuple[Any, ...]


def stream(seed: int, *, kind: str = "random", count: int = 700) -> pa.Table:
    rng = np.random.default_rng(seed)
    gaps = rng.integers(0, 4, count)  # some share an instant
    values = {
        "random": rng.integers(0, 1000, count),
        "few": rng.integers(0, 3, count),  # many rows are equal
        "up": np.arange(count),
        "down": -np.arange(count),
    }[kind]
    words = [None if v % 11 == 0 else f"the same beginning {v % 7}" for v in values.tolist()]
    return pa.table({
        "k": rng.integers(0, 4, count),
        "v": pa.array(values, mask=rng.random(count) < 0.05),
        "s": words,
        "ts": pa.array(np.cumsum(gaps), pa.timestamp("us")),
    })  # fmt: skip


def relay_of(sql: str, table: pa.Table) -> Relay:
    sources = [Source("a", table)]
    return Relay(bound_plan(sql.format(w=f"[RANGE {WINDOW_US} MICROSECONDS]"), sources), sources)


def answers(changes: Iterator[tuple[int, str, Row]]) -> dict[int, Counter[Row]]:
    """What the answer is after every instant at which it changes."""
    now: Counter[Row] = Counter()
    found = {}
    for at, sign, row in changes:
        now[row] += 1 if sign == "+" else -1
        assert now[row] >= 0
        found[at] = +now
    return found


def told(relay: Relay, batches: int, *, saved: bool) -> Iterator[tuple[int, str, Row]]:
    operator = relay.fresh()
    for rows, marks in relay.batches(batches):
        for batch in operator.take(rows, marks):
            for sign, at, *values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield int(np.datetime64(at, "us").astype(np.int64)), sign, tuple(values)
        if saved:
            operator = handed_on(operator, relay.fresh())


def sorted_anew(table: pa.Table, columns: str, parted: str, by: Any, start: int, stop: int) -> dict[int, Counter[Row]]:
    """The same from the definition; `by` of a row is what it is sorted by, and n its place."""
    rows = table.to_pylist()
    times = [int(np.datetime64(row["ts"], "us").astype(np.int64)) for row in rows]
    found = {}
    for at in sorted({*times, *(time + WINDOW_US + 1 for time in times)}):
        groups: dict[Any, list[dict[str, Any]]] = {}
        for row, time in zip(rows, times, strict=True):
            if time <= at <= time + WINDOW_US:
                groups.setdefault(row.get(parted), []).append(row)
        now: Counter[Row] = Counter()
        for held in groups.values():
            for place, row in enumerate(sorted(held, key=by)[start:stop], start + 1):
                now[tuple({**row, "n": place}[name] for name in columns.split())] += 1
        found[at] = now
    return found


def same(changes: dict[int, Counter[Row]], expected: dict[int, Counter[Row]]) -> None:
    now: Counter[Row] = Counter()
    for at in sorted(expected):
        now = changes.get(at, now)
        assert now == expected[at], at
    assert changes.keys() <= expected.keys()


def nulls_last(value: Any, sign: int = 1) -> tuple[bool, Any]:
    return value is None, 0 if value is None else sign * value


def by_value(row: dict[str, Any]) -> Any:
    return *nulls_last(row["v"], -1), row["k"]


def by_word(row: dict[str, Any]) -> Any:
    return row["s"] is None, row["s"] or "", row["k"], nulls_last(row["v"])


QUERIES = {
    "all": ("SELECT k, v FROM a {w} ORDER BY v DESC NULLS LAST LIMIT 5", "k v", "", by_value, 0, 5),
    "behind an offset": (
        "SELECT k, v FROM a {w} ORDER BY v DESC NULLS LAST LIMIT 3 OFFSET 2", "k v", "", by_value, 2, 5,
    ),
    "one": ("SELECT k, v FROM a {w} ORDER BY v DESC NULLS LAST LIMIT 1", "k v", "", by_value, 0, 1),
    "by words": ("SELECT k, v, s FROM a {w} ORDER BY s LIMIT 4", "k v s", "", by_word, 0, 4),
    "of each": (
        "SELECT k, v FROM a {w} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST) <= 3",
        "k v", "k", by_value, 0, 3,
    ),
    "of each, with their places": (
        "SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST) AS n FROM a {w} QUALIFY n <= 2",
        "k v n", "k", by_value, 0, 2,
    ),
    "of each, by words": (
        "SELECT k, v, s FROM a {w} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY s) <= 2",
        "k v s", "k", by_word, 0, 2,
    ),
}  # fmt: skip


def first_of(operator: Operator) -> FirstInTurn:
    assert isinstance(operator, Continuous)
    for node in everything_below(operator.root):
        first = node._in_turn if isinstance(node, TopKOperator) else None
        first = node._first if isinstance(node, OverChanging) else first
        if isinstance(first, FirstInTurn):
            return first
    raise AssertionError("no rows are followed that leave in turn")


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("kind", ["random", "few", "up", "down"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_first_are_those_of_rows_that_are_sorted(
    name: str, kind: str, saved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_in_turn, "FIRST_ROOM", 16)
    sql, *asked = QUERIES[name]
    table = stream(len(name), kind=kind)
    relay = relay_of(sql, table)
    assert first_of(relay.fresh()).in_turn
    same(answers(told(relay, 40 if saved else 7, saved=saved)), sorted_anew(table, *asked))


@pytest.mark.parametrize("name", ["all", "of each", "of each, by words"])
def test_few_rows_of_a_window_are_held(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """About stop × ln(rows / stop) are not yet hidden by later ones, and at most four times as many are there."""
    monkeypatch.setattr(first_in_turn, "FIRST_ROOM", 16)
    table = stream(1, count=20_000)
    table = table.set_column(3, "ts", pa.array(np.arange(20_000) // 100, pa.timestamp("us")))
    relay = relay_of(QUERIES[name][0], table)
    operator = relay.fresh()
    most = 0
    for rows, marks in list(relay.batches(100))[:-1]:
        for _ in operator.take(rows, marks):
            pass
        most = max(most, first_of(operator)._there().size)
    assert 10 < most < 1_000


def test_an_equal_row_that_comes_changes_nothing() -> None:
    table = pa.table({"v": [1] * 50, "ts": pa.array(np.arange(50) * 20, pa.timestamp("us"))})
    relay = relay_of("SELECT v FROM a {w} ORDER BY v LIMIT 3", table)
    signs = [(at, sign) for at, sign, _ in told(relay, 10, saved=True)]
    last = 49 * 20 + WINDOW_US + 1
    assert signs == [(0, "+"), (20, "+"), (40, "+"), (last - 40, "-"), (last - 20, "-"), (last, "-")]


def test_more_rows_may_come_and_go_at_once_than_there_is_room_for_at_first():
    count = 3_000
    table = pa.table({"v": np.arange(count), "ts": pa.array(np.arange(count) * 1_000, pa.timestamp("us"))})
    session = wm.Session()
    session.stream("a", table, time="ts")
    for size in (1, 1_050):
        log = session.sql(f"SELECT v FROM a [RANGE {size} MILLISECOND] ORDER BY v LIMIT {size}").to_arrow()
        came, left = (log.filter(pc.equal(log["_op"], sign))["v"].to_pylist() for sign in "+-")
        assert came == left == list(range(count))
