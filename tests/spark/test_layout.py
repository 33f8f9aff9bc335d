"""Rows are filtered and encoded once, where they are packed; buckets take the codes that come with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.runners import Bag, Source, bound_plan
from tests.spark.harness import cut, expected_of, with_sentinels
from tests.spark.simulation import Pieces, Simulation, another_node
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.operators.join import admission

QUERIES = {
    "whole numbers": "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x AND a.y < 2 WINDOW = 4 SECONDS",
    "small numbers": "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.small = b.small WINDOW = 4 SECONDS",
    "text": "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.name = b.name AND b.y <> 1 WINDOW = 4 SECONDS",
    "an expression": "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x + a.y = b.x WINDOW = 4 SECONDS",
    "a band": "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.f BETWEEN b.f - 0.5 AND b.f + 0.5 WINDOW = 2 SECONDS",
    "three streams, whose routes may change": """SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c
        WHERE a.name = b.name AND b.y = c.y AND a.f < c.f WINDOW = 4 SECONDS""",
    "a classic join": """SELECT a.id AS a, b.id AS b FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS]
        WHERE a.name = b.name AND a.y < 2 OPTIONS (join = 'hash')""",
    "bounded memory that is enough": """SELECT a.id AS a, b.id AS b FROM a, b WHERE a.name = b.name AND a.y < 2
        WINDOW = 4 SECONDS OPTIONS (memory = '1000 rows')""",
}


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def streams(query: str, seed: int = 0, rows: int = 24) -> list[Source]:
    random = np.random.default_rng(seed)

    def table() -> pa.Table:
        columns = {
            "id": pa.array(np.arange(rows)),
            "ts": pa.array(np.sort(random.integers(1_000, 16_000, rows)) * 1000, pa.timestamp("us")),
            **{name: pa.array(random.integers(0, 3, rows)) for name in "xy"},
            "small": pa.array(random.integers(0, 3, rows), pa.int16()),
            "name": pa.array([None if n == 3 else f"n{n}" for n in random.integers(0, 4, rows)]),
            "f": pa.array(random.random(rows)),
        }
        return pa.table(columns)

    return [Source(name, table(), "ts", "0 seconds") for name in "abc" if f" {name}." in query]


class OnceOnly(Simulation):
    """No bucket may filter or encode."""

    def _attempt(self, *given: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            for work in ("codes_of", "evaluate_predicate"):
                patch.setattr(admission, work, _refuse)
            return super()._attempt(*given)


def _refuse(*_: Any) -> None:
    raise AssertionError("rows are filtered and encoded where they are packed")


@pytest.mark.parametrize("after_batch", [lambda: None, another_node], ids=["warm", "from the log"])
@pytest.mark.parametrize("name", QUERIES)
def test_no_bucket_filters_or_encodes_again(name, after_batch):
    sources = streams(QUERIES[name])
    pieces: Pieces = {source.name: cut(source.table, [7, 3, 8]) for source in sources}
    ended = with_sentinels(sources, pieces) if name == "a classic join" else pieces
    answer: Bag = OnceOnly(QUERIES[name], sources, 3, between_batches=after_batch).run(ended)
    assert answer
    assert answer == expected_of(QUERIES[name].split("OPTIONS")[0], sources, pieces)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("whole numbers", ["id", "ts", "x"]),  # the key is its own code; y is only filtered by
        ("small numbers", ["id", "ts", "__code0"]),
        ("text", ["id", "ts", "name", "__code0"]),  # verified on the values behind the hashes
        ("an expression", ["id", "ts", "__code0"]),
    ],
)
def test_packets_hold_what_a_bucket_needs_and_each_key_once(name, columns):
    job = job_of(bound_plan(QUERIES[name], streams(QUERIES[name])), {}, 2)
    assert job.layout(job.streams[0]).schema.names == columns


def test_rows_that_all_count_are_let_in_by_the_buckets():
    sql = "SELECT a.id AS a, b.id AS b FROM a [ROWS 5], b [RANGE 3 SECONDS] WHERE a.name = b.name AND a.y < 2"
    job = job_of(bound_plan(sql, streams(sql)), {}, 2)
    assert [job.layout(one).coded is None for one in job.streams] == [True, False]
