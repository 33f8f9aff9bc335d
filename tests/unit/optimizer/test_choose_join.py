"""`join = 'auto'`: one of the papers' joins where rows are all at hand and it is quicker, else the engine's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from watersmeet.optimizer import choose_join
from watersmeet.session import Session

ROWS = 30_000


def session(streams: int, keys: int, rows: int = ROWS, seed: int = 1, apart_us: int = 1) -> Session:
    rng, made = np.random.default_rng(seed), Session()
    for i in range(streams):
        times = np.arange(rows, dtype=np.int64) * apart_us + rng.integers(0, apart_us, rows)
        columns = {"k": rng.integers(0, keys, rows), "n": np.arange(rows), "ts": pa.array(times, pa.timestamp("us"))}
        made.stream(f"s{i}", pa.table(columns), time="ts")
    return made


def sql(streams: int, window_us: int, options: str = "") -> str:
    windows = ", ".join(f"s{i} [RANGE {window_us} US]" for i in range(streams))
    tests = " AND ".join(f"s0.k = s{i}.k" for i in range(1, streams))
    shown = ", ".join(f"s{i}.n AS n{i}" for i in range(streams))
    return f"SELECT {shown} FROM {windows} WHERE {tests} {options}"


def rows_of(query) -> list[tuple]:
    table = query.to_arrow()
    return sorted(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def chosen(query) -> bool:
    return "chosen: for rows that are all at hand" in query.explain()


@pytest.mark.parametrize(("streams", "window", "keys"), [(2, 5, 4), (3, 5, 10), (4, 2, 10)])
def test_a_handful_of_rows_in_a_window_takes_the_quicker_join_and_the_same_answer(streams, window, keys):
    made = session(streams, keys)
    auto, own = made.sql(sql(streams, window)), made.sql(sql(streams, window, "OPTIONS (join = 'own')"))
    assert chosen(auto)
    assert "algorithm: w_join" in auto.explain()
    assert not chosen(own)
    assert rows_of(auto) == rows_of(own)


@pytest.mark.parametrize(
    ("streams", "window", "keys", "options"),
    [
        (2, 5, 100_000, ""),  # keys hardly repeat
        (2, 1_000, 4, ""),  # many rows in a window
        (2, 5, 4, "OPTIONS (order = 's1, s0')"),
        (2, 5, 4, "OPTIONS (memory = '100 rows')"),
        (2, 5, 4, "OPTIONS (join = 'own')"),
    ],
)
def test_elsewhere_the_engines_own_join_stays(streams, window, keys, options):
    assert not chosen(session(streams, keys).sql(sql(streams, window, options)))


def test_a_short_run_is_over_before_it_matters():
    assert not chosen(session(2, 4, rows=1_000).sql(sql(2, 5)))


def test_rows_that_are_pushed_are_joined_by_the_engines_own():
    made = Session()
    for name in ("s0", "s1"):
        made.stream(
            name, schema=pa.schema([("k", pa.int64()), ("n", pa.int64()), ("ts", pa.timestamp("us"))]), time="ts"
        )
    assert not chosen(made.sql(sql(2, 5)))


def test_a_key_of_an_expression_is_not_guessed():
    made = session(2, 4)
    assert not chosen(made.sql("SELECT s0.n FROM s0 [RANGE 5 US], s1 [RANGE 5 US] WHERE s0.k % 3 = s1.k % 3"))


def test_what_the_own_join_refuses_is_refused_under_its_name_too():
    with pytest.raises(Exception, match="does not go with join = 'own'"):
        session(2, 4, rows=10).sql(sql(2, 5, "OPTIONS (join = 'own', refresh = '1 second')"))


@given(
    streams=st.integers(2, 4),
    window=st.integers(0, 40),
    keys=st.integers(1, 6),
    seed=st.integers(0, 10**6),
    apart=st.integers(1, 20),
    rows=st.integers(2, 120),
)
@random_cases(30)
def test_whatever_is_chosen_the_answer_is_the_same(streams, window, keys, seed, apart, rows):
    if rows * (window / apart / keys + 1) ** (streams - 1) > 20_000:
        rows = 20
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(choose_join, "LEAST_ROWS", 0)
        patched.setattr(choose_join, "SURE", 0.0)
        made = session(streams, keys, rows, seed, apart)
        auto = made.sql(sql(streams, window))
        assert chosen(auto)
        got = rows_of(auto)
    assert got == rows_of(made.sql(sql(streams, window)))
