"""Joins that go on from a savepoint with other windows or other columns than the run before."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from watersmeet.errors import RunError

NOON = dt.datetime(2026, 1, 1, 12)
SECOND = dt.timedelta(seconds=1)
SHOWN = "a.n AS x, b.n AS y"
Row = dict[str, Any]


def _session() -> wm.Session:
    session = wm.Session()
    for name in "ab":
        session.stream(name, schema={"n": "BIGINT", "k": "BIGINT", "v": "TEXT", "ts": "TIMESTAMP"}, time="ts")
    return session


def _join(seconds: int, shown: str = SHOWN, test: str = "") -> str:
    return f"SELECT {shown} FROM a, b WHERE a.k = b.k{test} WINDOW = {seconds} SECONDS"


def _rows(seed: int, count: int = 400) -> list[tuple[str, Row]]:
    """Of both streams in time order, several to a second."""
    drawn, at, found = random.Random(seed), 0, []
    for n in range(count):
        at += drawn.choice([0, 0, 0, 1, 1, 2])
        row = {"n": n, "k": drawn.randrange(5), "v": drawn.choice("uv"), "ts": NOON + at * SECOND}
        found.append((drawn.choice("ab"), row))
    return found


def _pairs(rows: list[tuple[str, Row]], after: int, seconds: int) -> Counter[tuple[int, int]]:
    """What a join finds of which at least one row comes after the first so many."""
    found: Counter[tuple[int, int]] = Counter()
    for here, (name, one) in enumerate(rows):
        for other_name, other in rows[:here] if here >= after else []:
            if name != other_name and one["k"] == other["k"] and one["ts"] - other["ts"] <= seconds * SECOND:
                a, b = (one, other) if name == "a" else (other, one)
                found[a["n"], b["n"]] += 1
    return found


def _moved(folder: Path, rows: list[tuple[str, Row]], before: str, after: str) -> tuple[list[Row], wm.Run]:
    """What a query gives that goes on from a savepoint of another after half of the rows."""
    half = len(rows) // 2
    with _session().sql(before).start(checkpoint=folder / "here") as run:
        for name, row in rows[:half]:
            run.push(name, row)
        run.savepoint(folder / "moved")
    with _session().sql(after).start(checkpoint=folder / "there", savepoint=folder / "moved") as run:
        for name, row in rows[half:]:
            run.push(name, row)
        run.finish()
        return run.take(timeout=10).to_pylist(), run


def _bag(found: list[Row]) -> Counter[tuple[int, int]]:
    return Counter((row["x"], row["y"]) for row in found)


@pytest.mark.parametrize("seed", range(3))
def test_a_narrower_window_is_exact_at_once(tmp_path: Path, seed: int) -> None:
    rows = _rows(seed)
    found, run = _moved(tmp_path, rows, _join(20), _join(5))
    assert run.whole_from == dt.datetime.min
    assert _bag(found) == _pairs(rows, len(rows) // 2, 5)


@pytest.mark.parametrize("seed", range(3))
def test_a_wider_window_is_whole_once_time_has_gone_on_by_the_difference(tmp_path: Path, seed: int) -> None:
    rows, half = _rows(seed), 200
    found, run = _moved(tmp_path, rows, _join(5), _join(20))
    watermark = min(max(row["ts"] for name, row in rows[:half] if name == one) for one in "ab")
    assert run.whole_from == watermark + 15 * SECOND
    expected = _pairs(rows, half, 20)
    assert _bag(found) <= expected  # before, over what is kept
    times = {row["n"]: row["ts"] for _, row in rows}
    late = Counter({pair: n for pair, n in expected.items() if max(times[one] for one in pair) >= run.whole_from})
    assert late
    assert Counter({pair: n for pair, n in _bag(found).items() if pair in late}) == late
    assert _pairs(rows, half, 5) <= _bag(found)


def test_what_is_not_whole_yet_is_so_after_another_move(tmp_path: Path) -> None:
    rows = _rows(7)
    with _session().sql(_join(5)).start(checkpoint=tmp_path / "one") as run:
        for name, row in rows[:200]:
            run.push(name, row)
        run.savepoint(tmp_path / "first")
    start = {"checkpoint": tmp_path / "two", "savepoint": tmp_path / "first"}
    with _session().sql(_join(20)).start(**start) as run:
        whole = run.whole_from
        run.savepoint(tmp_path / "second")
    same = _session().sql(_join(20)).start(checkpoint=tmp_path / "three", savepoint=tmp_path / "second")
    wider = _session().sql(_join(30)).start(checkpoint=tmp_path / "four", savepoint=tmp_path / "second")
    assert (same.whole_from, wider.whole_from) == (whole, whole + 10 * SECOND)
    same.stop()
    wider.stop()


def test_columns_that_are_kept_may_be_shown_otherwise_and_others_are_not_made_up(tmp_path: Path) -> None:
    rows = _rows(3)
    before = _join(9, "a.n AS x, b.n AS y, a.v")
    found, _ = _moved(tmp_path, rows, before, _join(9, "b.n AS y, UPPER(a.v) AS upper, a.n AS x, a.n + b.n AS total"))
    assert _bag(found) == _pairs(rows, 200, 9)
    values = {row["n"]: row["v"] for _, row in rows}
    assert all((row["upper"], row["total"]) == (values[row["x"]].upper(), row["x"] + row["y"]) for row in found)
    with pytest.raises(RunError, match=r"column added: w = b\.v"):
        _session().sql(_join(9, f"{SHOWN}, a.v, b.v AS w")).start(
            checkpoint=tmp_path / "x", savepoint=tmp_path / "moved"
        )
    with pytest.raises(RunError, match=r"condition added"):
        _session().sql(_join(9, f"{SHOWN}, a.v", " AND a.n > 3")).start(
            checkpoint=tmp_path / "y", savepoint=tmp_path / "moved"
        )
    grouped = "SELECT a.k, COUNT(*) AS n FROM a [RANGE {} SECONDS] GROUP BY a.k"
    with _session().sql(grouped.format(9)).start(checkpoint=tmp_path / "g") as run:
        run.push(*rows[0]) if rows[0][0] == "a" else None
        run.savepoint(tmp_path / "of_groups")
    with pytest.raises(RunError, match=r"window narrower"):
        _session().sql(grouped.format(5)).start(checkpoint=tmp_path / "z", savepoint=tmp_path / "of_groups")


def test_of_a_stream_of_which_only_keys_are_kept_no_column_is_made_up(tmp_path: Path) -> None:
    rows = _rows(5)
    with _session().sql(_join(9, "b.n AS y")).start(checkpoint=tmp_path / "here") as run:
        for name, row in rows[:200]:
            run.push(name, row)
        run.savepoint(tmp_path / "moved")
    with pytest.raises(RunError, match=r"column added: x = a\.n"):
        _session().sql(_join(9, "b.n AS y, a.n AS x")).start(checkpoint=tmp_path / "x", savepoint=tmp_path / "moved")
