"""Streams large enough that stores and buckets grow, move and shrink: every algorithm against the engine's own join."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet
from tests.properties.at_scale import Shape, make

SHAPES = {
    "a": Shape(rows=30_000, span_s=600, keys=400, hot=0.01, bursts=7, disorder_us=2_000_000, nulls=0.01),
    "b": Shape(rows=12_000, span_s=600, keys=500, grain_us=1000, disorder_us=500_000),
    "c": Shape(rows=3_000, span_s=600, keys=300, hot=0.02),
}
QUERIES = {
    "ranges": "FROM a [RANGE 20 SECONDS], b [RANGE 40 SECONDS], c [RANGE 60 SECONDS]",
    "rows": "FROM a [ROWS 3000], b [PARTITION BY k ROWS 3], c [RANGE 90 SECONDS]",
}
ALGORITHMS = [
    "join = 'nested_loop'",
    "join = 'hash', buckets = 2000",
    "join = 'hash', buckets = 50, invalidate = 'a:probe, b:probe_all, c:all'",
    "join = 'hash', buckets = 64, expire = '90 seconds'",
    "join = 'hash', refresh = '15 seconds', order = 'a: b,a,c; b: c,b,a; c: c,a,b'",
]


def answer(query: str, options: str) -> pa.Table:
    session = watersmeet.Session()
    for seed, (name, shape) in enumerate(SHAPES.items()):
        session.stream(name, make(shape, seed), time="ts", lateness=shape.lateness, read="arrival")
    sql = f"SELECT a.n AS a, b.n AS b, c.n AS c, b.ts AS at {QUERIES[query]} WHERE a.k = b.k AND b.k = c.k {options}"
    found = session.sql(sql).to_arrow(batch_rows=5000)
    return found.sort_by([(name, "ascending") for name in "abc"])


@pytest.mark.parametrize("query", QUERIES)
def test_every_algorithm_agrees_with_the_engines_own_join(query: str) -> None:
    expected = answer(query, "")
    assert expected.num_rows > 1000
    for options in ALGORITHMS:
        assert answer(query, f"OPTIONS ({options})").equals(expected), options
