"""Joins over the same streams by the same keys walk together, and each finds what it would alone."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.test_fed_together import Streams, _table, alone, answers_of, bag, session_of, without
from watersmeet.operators.join import shared_walk, window_join
from watersmeet.operators.join.shared_walk import SharedWalk, WalkSeen
from watersmeet.optimizer.share_walks import ByCost

ROWS = st.tuples(
    st.integers(0, 12), st.none() | st.integers(0, 2), st.integers(-3, 3), st.none() | st.sampled_from("uv")
)
# Joins of these differ in their windows, in who is let in and in what they show, and in nothing else.
JOINS = (
    "SELECT {shown} FROM a {x}, b {y} WHERE {x}.k = {y}.k AND {filtered} WINDOW = {width} SECONDS",
    "SELECT {shown} FROM a {x}, b {y} WHERE {x}.k = {y}.k AND {x}.word = {y}.word AND {filtered} "
    "DWINDOW ({x}, {y}) = {width} SECONDS",
    "SELECT {shown} FROM a {x}, b {y} WHERE {x}.word = {y}.word AND {filtered} WINDOW = {width} SECONDS",
    "SELECT {shown} FROM a {x} [RANGE {width} SECONDS], b {y} [RANGE {other} SECONDS] "
    "WHERE {x}.k = {y}.k AND {x}.v <= {y}.v AND {filtered}",
    "SELECT {shown}, z.v AS u FROM a {x}, b {y}, c z WHERE {x}.k = {y}.k AND {y}.k = z.k AND {filtered} "
    "DWINDOW ({x}, {y}) = {width} SECONDS AND WINDOW ({y}, z) = {other} SECONDS",
    "SELECT {shown}, z.v AS u FROM a {x}, b {y}, c z WHERE {x}.k = {y}.k AND {y}.v = z.v AND {filtered} "
    "WINDOW = {width} SECONDS",
)


@st.composite
def scripts(draw: st.DrawFn) -> list[str]:
    kinds = draw(st.lists(st.sampled_from(JOINS), min_size=1, max_size=2, unique=True))
    return [draw(join(draw(st.sampled_from(kinds)))) for _ in range(draw(st.integers(2, 6)))]


@st.composite
def join(draw: st.DrawFn, kind: str) -> str:
    x, y = draw(st.sampled_from([("x", "y"), ("a", "b"), ("b", "a")]))
    shown = draw(
        st.sampled_from(["{x}.v, {y}.v AS w", "{y}.word", "{x}.k, {y}.ts", "event_time() AS at, {x}.v + {y}.v AS s"])
    )
    filtered = draw(st.sampled_from(["TRUE", "TRUE", "{x}.v > 0", "{y}.word = 'u'", "{x}.v <> {y}.v"]))
    widths = {"width": draw(st.integers(0, 9)), "other": draw(st.integers(0, 9))}
    names = {"x": x, "y": y}
    return kind.format(shown=shown.format(**names), filtered=filtered.format(**names), **names, **widths)


@st.composite
def streams(draw: st.DrawFn) -> Streams:
    times = draw(st.sampled_from([1, 1, 5]))
    return {name: _table(draw(st.lists(ROWS, max_size=14)) * times) for name in "abc"}


class Together(ByCost):
    """However much it costs."""

    def together(self, walks: Sequence[WalkSeen]) -> list[list[int]]:
        return [list(range(len(walks)))]


@random_cases(80)
@given(
    script=scripts(),
    tables=streams(),
    batch_rows=st.sampled_from([1, 3, 300]),
    most=st.sampled_from([0, 20, 1 << 20]),
    decider=st.sampled_from([ByCost, Together]),
    reconsidered=st.sampled_from([1, 4096]),
)
def test_each_finds_what_it_would_alone_in_the_same_order(
    script: list[str], tables: Streams, batch_rows: int, most: int, decider: type[ByCost], reconsidered: int
) -> None:
    """most: of how many combinations a walk is shared. reconsidered: after how many rows routes may change, which
    changes the order."""
    session = session_of(tables)
    with (
        patch("watersmeet.runtime.shared_windows.ByCost", decider),
        patch.object(shared_walk, "MOST_FOUND", most),
        patch.object(window_join, "RECONSIDER_AFTER_ROWS", reconsidered),
    ):
        together = answers_of(session, script, batch_rows)
    for (answer, late), text in zip(together, script, strict=True):
        ((own, _),) = answers_of(session_of(tables), [text], batch_rows)
        assert not late
        assert bag(answer) == bag(own), text
        if reconsidered > 1:
            assert answer.to_pylist() == own.to_pylist(), text


@random_cases(40)
@given(script=scripts(), tables=streams(), lateness=st.integers(0, 6), batch_rows=st.integers(1, 4))
def test_so_it_is_where_rows_come_out_of_order(
    script: list[str], tables: Streams, lateness: int, batch_rows: int
) -> None:
    session = session_of(tables, read="arrival", lateness=f"{lateness} seconds")
    with patch("watersmeet.runtime.shared_windows.ByCost", Together):
        found = answers_of(session, script, batch_rows)
    for (answer, late), text in zip(found, script, strict=True):
        in_time = {name: without(table, late.get(name, [])) for name, table in tables.items()}
        assert bag(answer) == bag(session_of(in_time).sql(text).to_arrow()), text


def test_a_walk_is_done_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[int] = []
    walked = SharedWalk._walked
    monkeypatch.setattr(SharedWalk, "_walked", lambda self: walks.append(self._walkers) or walked(self))
    tables = {name: _table([(second, second % 3, 1, "u") for second in range(12)]) for name in "abc"}
    kinds = [JOINS[0].format(shown="x.v", x="x", y="y", filtered="TRUE", width=width) for width in range(1, 6)]
    together = session_of(tables).run(";".join(kinds))
    assert set(walks) == {5}
    apart = session_of(tables).run(alone(kinds))
    assert [bag(one.answer) for one in together] == [bag(one.answer) for one in apart]
    assert [one.metrics["results"] for one in together] == [one.metrics["results"] for one in apart]
