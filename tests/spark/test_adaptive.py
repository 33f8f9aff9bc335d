"""On Spark every bucket measures its rows and changes its join orders by itself; the answer stays."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from tests.properties.test_continuous import assert_same, sent
from tests.runners import Bag, Source, bag_of, bound_plan, local_query
from tests.spark.harness import run_streaming, streaming_session, with_sentinels, write_arrivals
from tests.spark.simulation import LOSSES, Simulation, another_node, another_worker, same_worker
from watersmeet import Session
from watersmeet.checking.recompute import rows_of

SQL = """
    SELECT a.id AS a, b.id AS b, c.id AS c FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND]
    WHERE a.k = b.k AND b.k = c.k AND a.x = b.x AND b.y = c.y
"""


def flipping(name: str, rates: list[int], seed: int) -> list[pa.Table]:
    """A file for each second of a stream."""
    random = np.random.default_rng(seed)
    pieces, first = [], 0
    for second, rate in enumerate(rates):
        times = np.sort(random.integers(0, 1_000_000, rate)) + (1_700_000_000 + second) * 1_000_000
        columns = {"k": random.integers(0, 4, rate), **{key: random.integers(0, 40, rate) for key in "xy"}}
        ids = np.arange(first, first + rate)
        pieces.append(pa.table({"id": ids, "ts": pa.array(times, pa.timestamp("us")), **columns}))
        first += rate
    return pieces


@cache
def rows_whose_rates_flip(most: int = 5000) -> dict[str, list[pa.Table]]:
    least = most // 100
    rates = {"a": [most] * 2 + [least] * 3, "b": [10 * least] * 5, "c": [least] * 2 + [most] * 3}
    return {name: flipping(name, each, seed) for seed, (name, each) in enumerate(rates.items())}


@cache
def answer_in_process() -> Bag:
    local = Session()
    for name, parts in rows_whose_rates_flip().items():
        local.stream(name, pa.concat_tables(parts), time="ts")
    expected = local.sql(SQL).to_arrow()
    assert expected.num_rows > 1000
    return bag_of(expected)


@pytest.mark.slow
@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_a_bucket_follows_the_rates_wherever_its_next_batch_runs(lost):
    pieces = rows_whose_rates_flip()
    sources = [Source(name, pa.concat_tables(parts)) for name, parts in pieces.items()]
    run = Simulation(SQL, sources, 2, between_batches=lost)
    assert run.run(pieces) == answer_in_process()
    assert run.counted("plan_switches") >= 2


GROUPED = """
    SELECT a.k, COUNT(*) AS n, MAX(c.id) AS newest
    FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 500 MILLISECONDS]
    WHERE a.k = b.k AND b.k = c.k AND a.x = b.x AND b.y = c.y GROUP BY a.k
"""


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "pipeline"), [("another worker", "nta"), ("another node", "tpa")])
def test_a_join_below_group_by_follows_the_rates_too(lost, pipeline):
    pieces = rows_whose_rates_flip(3000)
    sources = [Source(name, pa.concat_tables(parts), "ts") for name, parts in pieces.items()]
    sql = f"{GROUPED} OPTIONS (pipeline = '{pipeline}')"
    run = Simulation(sql, sources, 2, between_batches=LOSSES[lost])
    run.run(with_sentinels(sources, pieces))
    plan = bound_plan(sql, sources)
    expected = local_query(sql, sources).to_arrow()
    assert expected.num_rows > 1000
    assert_same(sent(plan, rows_of(run.table())), sent(plan, rows_of(expected)))
    assert run.counted("plan_switches") >= 1  # what changes while rows are taken back is not counted


@pytest.mark.slow
@pytest.mark.parametrize(
    "lost", [another_node, *(pytest.param(one, marks=pytest.mark.soak) for one in (same_worker, another_worker))]
)
def test_a_bucket_in_bounded_memory_follows_the_rates_too(lost):
    pieces = rows_whose_rates_flip()
    sources = [Source(name, pa.concat_tables(parts)) for name, parts in pieces.items()]
    exact = answer_in_process()
    run = Simulation(f"{SQL} OPTIONS (memory = '4000 rows')", sources, 2, between_batches=lost)
    given = run.run(pieces)
    assert given < exact
    assert given.total() + run.counted("lost_results") == exact.total()
    assert run.counted("plan_switches") >= 2


@pytest.mark.soak  # above without Spark
def test_a_bucket_follows_the_rates_and_the_answer_stays(spark, tmp_path):
    pieces = rows_whose_rates_flip()
    for name, parts in pieces.items():
        write_arrivals(tmp_path / name, parts)
    sources = [Source(name, pa.concat_tables(parts)) for name, parts in pieces.items()]
    query = streaming_session(spark, sources, tmp_path, 2).sql(SQL)
    answer = run_streaming(spark, query.dataframe(), tmp_path / "checkpoint", tmp_path / "sink")
    assert bag_of(answer) == answer_in_process()
    assert query.metrics()["plan_switches"] >= 2


def test_explain_analyze_takes_a_sample_of_batch_frames(spark):
    from tests.spark.harness import batch_session

    pieces = {name: flipping(name, [800] * 3, seed) for seed, name in enumerate("abc")}
    session = batch_session(spark, [Source(name, pa.concat_tables(parts)) for name, parts in pieces.items()], 2)
    query = session.sql(SQL)
    text = query.explain(analyze=True)
    assert "measured over 7,200 rows" in text
    assert "go on, expected" in text
    assert "on Spark: 2 buckets" in query.explain(format="svg")


def test_a_timeline_is_drawn_of_a_sample(spark, monkeypatch):
    from tests.spark.harness import batch_session

    monkeypatch.setattr("watersmeet.query.SAMPLE_OF_TIMELINE", 6)
    rows = {name: flipping(name, [10], seed) for seed, name in enumerate("abc")}
    session = batch_session(spark, [Source(name, pa.concat_tables(parts)) for name, parts in rows.items()], 2)
    timeline = session.sql(SQL).timeline(rows=12)
    assert timeline.story.notes[:2] == (
        "12 of 18 rows are drawn; rows, since and until choose others",
        "of a, b, c only the first 6 rows were read",
    )
