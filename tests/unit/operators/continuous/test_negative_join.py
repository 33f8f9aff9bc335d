"""W-JOIN under negative tuples: windows hold their rows in the join alone, and send again only what ends something."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.lab.papers.running import negatives_sent
from watersmeet.operators.continuous.instants import MAX_RUNS, Instants
from watersmeet.operators.continuous.negative_join import NegativeJoin
from watersmeet.operators.continuous.node import everything_below
from watersmeet.operators.continuous.pipeline import Continuous

SECOND = 1_000_000
ROWS, FIRST, SECOND_WINDOW = 300, 20, 11


def rows_of(keys: np.ndarray) -> pa.Table:
    return pa.table(
        {
            "k": keys,
            "name": pa.array([f"key {key}" for key in keys]),
            "v": np.arange(keys.size) % 7,
            "ts": pa.array(SECOND * np.arange(keys.size), pa.timestamp("us")),
        }
    )


def shop(keys: int) -> tuple[wm.Session, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(keys)
    a, b = rng.integers(0, keys, ROWS), rng.integers(0, keys, ROWS)
    session = wm.Session()
    session.stream("a", rows_of(a), time="ts")
    session.stream("b", rows_of(b), time="ts")
    session.table("t", pa.table({"k": np.arange(0, keys, 5)}))
    return session, a, b


def asked(pipeline: str, on: str = "a.k = b.k", windows: tuple[int, int] = (FIRST, SECOND_WINDOW)) -> str:
    inputs = f"a [RANGE {windows[0]} SECONDS], b [RANGE {windows[1]} SECONDS]"
    return (
        f"SELECT a.k, COUNT(*) AS n, SUM(b.v) AS total FROM {inputs} WHERE {on} GROUP BY a.k "
        f"OPTIONS (pipeline = '{pipeline}')"
    )


def ending(a: np.ndarray, b: np.ndarray) -> int:
    """How many rows are the first to leave of a combination, the earlier in FROM where both leave at once."""
    found = set()
    for i, x in enumerate(a):
        for j in range(max(0, i - SECOND_WINDOW), min(ROWS, i + FIRST + 1)):
            if x == b[j]:
                found.add(("a", i) if i + FIRST <= j + SECOND_WINDOW else ("b", j))
    return len(found)


@pytest.mark.parametrize("keys", [3, 200])
def test_only_rows_that_end_a_combination_are_sent_again(keys):
    session, a, b = shop(keys)
    sent = negatives_sent(session, asked("nta"))
    assert sent == ending(a, b)
    assert negatives_sent(session, asked("nta_scan")) == 2 * ROWS
    if keys > 100:
        assert sent < 2 * ROWS / 5


@pytest.mark.parametrize("on", ["a.k = b.k", "a.name = b.name", "a.name = b.name AND a.v < b.v + 3", "a.k + 1 = b.k"])
@pytest.mark.parametrize("windows", [(20, 11), (9, 9)])
def test_what_is_sent_again_withdraws_what_time_would(on, windows):
    session, _, _ = shop(12)
    changes = [
        [str(row) for row in session.sql(asked(pipeline, on, windows)).to_arrow().to_pylist()]
        for pipeline in ("nta", "tpa", "nta_scan")
    ]
    assert changes[0] == changes[1]
    assert sorted(changes[2]) == sorted(changes[1])


def test_rows_of_a_stream_that_meets_a_table_are_sent_again_if_it_has_their_key():
    session, a, _ = shop(20)
    query = "SELECT a.k, SUM(a.v) AS total FROM a [RANGE 9 SECONDS], t WHERE a.k = t.k GROUP BY a.k"
    sent = negatives_sent(session, f"{query} OPTIONS (pipeline = 'nta')")
    assert sent == np.count_nonzero(a % 5 == 0)


def test_windows_are_held_once_in_the_buffers_of_the_join():
    session, _, _ = shop(12)
    run = PulledExecution(session.sql(asked("nta", "a.name = b.name")).plan, batch_rows=10)
    held = []
    for _ in run.batches():
        operator = run.built.operator
        assert isinstance(operator, Continuous)
        (join,) = (node for node in everything_below(operator.root) if isinstance(node, NegativeJoin))
        assert join.held_rows == join.join.kept_rows
        held.append(join.held_rows)
    # A row a second of each stream, while its window holds it, and those of the batch that is read.
    assert 20 < max(held) <= FIRST + SECOND_WINDOW + 2 + 2 * 10


def test_instants_come_out_once_and_in_time():
    rng = np.random.default_rng(1)
    instants, expected, until = Instants(), set[int](), 0
    for _ in range(200):
        some = until + rng.integers(0, 50, rng.integers(0, 6))
        instants.add(some)
        expected |= set(some.tolist())
        until += int(rng.integers(0, 5))
        taken = instants.take(until)
        assert set(taken.tolist()) == {one for one in expected if one < until}
        expected = {one for one in expected if one >= until}
        assert len(instants._runs) <= MAX_RUNS
