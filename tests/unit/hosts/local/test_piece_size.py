"""How far streams get ahead of each other when they are read in turns: less where windows and keys are few."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.operators.join.piece_size import AT_FIRST, ROWS_FOR_ONE_KEY


def session_of(keys: int, rows: int = 40_000, streams: int = 2) -> wm.Session:
    rng, session = np.random.default_rng(1), wm.Session()
    at = pa.array(np.arange(rows, dtype=np.int64), pa.timestamp("us"))
    for i in range(streams):
        session.stream(f"s{i}", pa.table({"k": rng.integers(0, keys, rows), "ts": at}), time="ts")
    return session


def pieces(keys: int, window: int, where: str = "s0.k = s1.k") -> list[int | None]:
    """How many rows are read at a time, from the second piece on."""
    sql = f"SELECT s0.k FROM s0 [RANGE {window} US], s1 [RANGE {window} US] WHERE {where} OPTIONS (join = 'own')"
    run = PulledExecution(session_of(keys).sql(sql).plan)
    seen: list[int | None] = []
    run.on_step = lambda: seen.append(run.operator.read_rows)
    assert run.operator.read_rows in (AT_FIRST, None)
    for _ in run.batches():
        pass
    return seen


@pytest.mark.parametrize("keys", [1, 10, 100])
def test_the_fewer_the_keys_the_shorter_the_pieces(keys: int) -> None:
    # Twice over: what lies ahead is sampled at times, and the sample is small.
    assert all(size and 0.5 < size / (ROWS_FOR_ONE_KEY * keys**0.5) < 2 for size in pieces(keys, 10)[:-3])


def test_pieces_are_not_shorter_than_windows_and_unique_keys_come_whole() -> None:
    assert min(size or 1 << 16 for size in pieces(10, 5000)) >= 5000
    assert pieces(10**9, 10)[1:] == [None] * len(pieces(10**9, 10)[1:])
    assert set(pieces(10, 10, "s0.k < s1.k")) == {None}  # there is no chain to walk


@pytest.mark.parametrize("streams", [2, 3])
def test_the_answer_is_that_of_rows_in_time_order(streams: int) -> None:
    session = session_of(5, 3000, streams)
    names = [f"s{i}" for i in range(streams)]
    windows = ", ".join(f"{name} [RANGE 4 US]" for name in names)
    sql = f"SELECT * FROM {windows} WHERE " + " AND ".join(f"s0.k = {name}.k" for name in names[1:])
    found = [session.sql(sql + options).to_arrow() for options in ("", " OPTIONS (join = 'nested_loop')")]
    ours, theirs = ([tuple(row.values()) for row in table.to_pylist()] for table in found)
    assert sorted(ours) == sorted(theirs)
    assert len(ours) > 3000
