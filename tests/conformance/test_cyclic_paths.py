"""A path that comes back to a stream (H02's ABCBCD) is an ordinary one over as many aliases as it has visits."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest

from tests.runners import Source, by_local_engine, by_reference

SQL = """SELECT a.id, b.id, c.id, b2.id, c2.id, d.id FROM a, b, c, b AS b2, c AS c2, d
         WHERE a.k = b.k AND b.k = c.k AND c.k = b2.k AND b2.k = c2.k AND c2.k = d.k{}
         WINDOW PATH (a, b, c, b2, c2, d) = (4 SECONDS, 3 SECONDS, 3 SECONDS, 3 SECONDS, 4 SECONDS)"""
SIZES = (4, 3, 3, 3, 4)


def sources(seed: int) -> list[Source]:
    rng = np.random.default_rng(seed)
    found = []
    for name in "abcd":
        rows = 4 if name in "ad" else 6
        times = np.sort(rng.integers(0, 9, rows)) * 1_000_000
        columns = {"id": np.arange(rows), "k": rng.integers(0, 4, rows) // 3, "ts": pa.array(times, pa.timestamp("us"))}
        found.append(Source(name, pa.table(columns), "ts"))
    return found


def walked(streams: list[Source], other_rows: bool) -> int:
    """How many walks a, b, c, b, c, d there are in either direction, tried one by one."""
    rows = {one.name: [(r["id"], r["k"], r["ts"].timestamp()) for r in one.table.to_pylist()] for one in streams}
    found = 0
    for walk in product(*(rows[name] for name in "abcbcd")):
        steps = [later[2] - earlier[2] for earlier, later in pairwise(walk)]
        there = all(0 <= step <= size for step, size in zip(steps, SIZES, strict=True))
        back = all(0 <= -step <= size for step, size in zip(steps, SIZES, strict=True))
        same = walk[1][0] == walk[3][0] or walk[2][0] == walk[4][0]
        found += len({one[1] for one in walk}) == 1 and (there or back) and not (other_rows and same)
    return found


@pytest.mark.parametrize("options", ["", "join = 'w_join'", "join = 'nlw'", "join = 'hw'", "join = 'merge'"])
def test_a_path_that_returns_finds_every_walk_once(options: str) -> None:
    for seed in range(3):
        streams = sources(seed)
        asked = SQL.format("") + (f" OPTIONS ({options})" if options else "")
        given = by_local_engine(asked, streams)
        assert given.total() == walked(streams, other_rows=False) > 0
        assert max(given.values()) == 1


def test_returning_by_other_rows_is_said_by_a_condition() -> None:
    streams = sources(1)
    sql = SQL.format(" AND b.id <> b2.id AND c.id <> c2.id")
    assert by_local_engine(sql, streams) == by_reference(sql, streams)
    assert by_local_engine(sql, streams).total() == walked(streams, other_rows=True) > 0
