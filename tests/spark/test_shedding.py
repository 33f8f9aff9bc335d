"""Joins in bounded memory on Spark: a part of the answer, losses counted over all buckets, crashes change nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.runners import Source, bag_of
from tests.spark.harness import cut, run_streaming, streaming_session, write_arrivals
from tests.spark.simulation import LOSSES, Pieces, Simulation, another_node
from watersmeet.spark import hot

QUERIES = {
    "a common key": "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x WINDOW = 20 SECONDS",
    "a key per pair": """SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c
                         WHERE a.x = b.x AND b.y = c.y WINDOW = 6 SECONDS""",
    "rows": "SELECT a.id AS a, b.id AS b FROM a [ROWS 20], b [RANGE 9 SECONDS] WHERE a.x = b.x",
}
POLICIES = {"a common key": "prob", "a key per pair": "drift", "rows": "rand"}


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    hot._at_hand.clear()
    yield
    hot._at_hand.clear()


def sources_of(name: str, rows: int = 60) -> list[Source]:
    random = np.random.default_rng(4)
    made = []
    for stream in "abc":
        times = np.sort(random.integers(1_000, 40_000, rows)) * 1000
        columns = {column: random.integers(0, 4, rows) for column in "xy"}
        table = pa.table({"id": np.arange(rows), "ts": pa.array(times, pa.timestamp("us")), **columns})
        made.append(Source(stream, table, "ts", "0 seconds"))
    return [source for source in made if f" {source.name}." in QUERIES[name]]


def pieces_of(sources: list[Source]) -> Pieces:
    return {source.name: cut(source.table, [13, 20, 5]) for source in sources}


def bounded(name: str, recall: str = "exact", rows: int = 24) -> str:
    return f"{QUERIES[name]} OPTIONS (memory = '{rows} rows', shed = '{POLICIES[name]}', recall = '{recall}')"


@pytest.mark.parametrize("recall", ["exact", "none"])
@pytest.mark.parametrize("buckets", [1, 4])
@pytest.mark.parametrize("name", QUERIES)
def test_a_part_of_the_answer_is_given_and_the_rest_is_counted(name, buckets, recall):
    sources = sources_of(name)
    run = Simulation(bounded(name, recall), sources, buckets)
    found, exact = run.run(pieces_of(sources)), Simulation(QUERIES[name], sources, buckets).run(pieces_of(sources))
    assert found < exact
    assert found
    assert run.counted("shed_rows")
    assert run.counted("results") == found.total()
    if recall == "exact":
        assert run.counted("results") + run.counted("lost_results") == exact.total()
        assert run.counted("unknown_losses") == 0
    else:
        assert run.counted("unknown_losses")


@pytest.mark.parametrize("recall", ["exact", "none"])
@pytest.mark.parametrize("name", QUERIES)
def test_shed_rows_stay_gone_when_every_batch_runs_on_a_new_node(name, recall):
    sources = sources_of(name)
    calm = Simulation(bounded(name, recall), sources, 2)
    wanted = calm.run(pieces_of(sources))
    another_node()
    run = Simulation(bounded(name, recall), sources, 2, between_batches=another_node)
    assert run.run(pieces_of(sources)) == wanted
    assert run.counted("cache_hits") == 0
    for number in ("results", "lost_results", "shed_rows"):
        assert run.counted(number) == calm.counted(number)


@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("name", ["a common key", "rows"])
def test_every_batch_crashing_at_each_of_its_state_calls_changes_nothing(name, lost):
    sources = sources_of(name)
    wanted = Simulation(bounded(name), sources, 2).run(pieces_of(sources))
    another_node()
    run = Simulation(bounded(name), sources, 2, crash_everywhere=True, after_crash=LOSSES[lost])
    assert run.run(pieces_of(sources)) == wanted
    assert run.crashes >= 50


def test_the_memory_of_a_query_is_shared_by_its_buckets():
    sources = sources_of("a common key")
    run = Simulation(bounded("a common key", rows=64), sources, 4)
    run.run(pieces_of(sources))
    assert run.job.bucket_plan.options.memory == "16 rows"


def test_a_streaming_query_tells_its_recall(spark, tmp_path):
    sources = sources_of("a common key")
    pieces = {source.name: cut(source.table, [25, 35]) for source in sources}
    exact = Simulation(QUERIES["a common key"], sources, 2).run(pieces)
    wanted = Simulation(bounded("a common key"), sources, 2).run(pieces)
    for name, parts in pieces.items():
        write_arrivals(tmp_path / name, parts)
    query = streaming_session(spark, sources, tmp_path, 2).sql(bounded("a common key"))
    answer = run_streaming(spark, query.dataframe(), tmp_path / "checkpoint", tmp_path / "sink")
    assert bag_of(answer.cast(query.schema)) == wanted
    told = eventually(lambda: query.metrics() if query.metrics()["exact_results"] == exact.total() else None)
    assert told["results"] == wanted.total()
    assert told["recall"] == wanted.total() / exact.total()
    assert told["shed_rows"] > 0


def eventually(look: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Spark tells of its batches a little later."""
    end = time.monotonic() + seconds
    while (seen := look()) is None and time.monotonic() < end:
        time.sleep(0.05)
    assert seen is not None
    return seen


# ---- and in bounded time --------------------------------------------------------------------------------------------

_wall = {"now": 0.0}


def wall() -> float:
    """A clock that warm copies can be saved with; the test lets it go on."""
    return _wall["now"]


@pytest.mark.parametrize("queue", ["integrated", "modular"])
def test_buckets_that_are_behind_turn_rows_away_and_go_on_where_they_were(queue, monkeypatch):
    """Batches of ten seconds of events, and thirty more on the clock after each."""
    monkeypatch.setattr("watersmeet.shedding.join.wall_time", wall)
    sources = sources_of("a common key", 200)
    pieces = {source.name: cut(source.table, [50, 50, 50, 50]) for source in sources}
    sql = bounded("a common key", rows=4000).replace("memory", f"max_lag = '30 seconds', queue = '{queue}', memory")
    exact = Simulation(QUERIES["a common key"], sources, 2).run(pieces)

    def run(between: Callable[[], None]) -> tuple[Any, Simulation]:
        another_node()
        _wall["now"] = 1000.0
        simulation = Simulation(sql, sources, 2, between_batches=between)
        return simulation.run(pieces), simulation

    def slow() -> None:
        _wall["now"] += 30.0

    def slow_and_moved() -> None:
        slow()
        another_node()

    timely, calm = run(lambda: None)
    assert timely == exact
    assert calm.counted("queue_shed_rows") == calm.counted("estimated_losses") == 0
    found, late = run(slow)
    assert found < exact
    assert 100 <= late.counted("queue_shed_rows") <= late.counted("shed_rows")
    assert late.counted("estimated_losses")
    assert late.counted("unknown_losses") == 0
    again, moved = run(slow_and_moved)
    assert again == found
    assert moved.counted("cache_hits") == 0
    assert moved.counted("queue_shed_rows") == late.counted("queue_shed_rows")


def test_a_streaming_query_that_is_too_slow_tells_so(spark, tmp_path):
    """All events lie within a second, and the second batch comes later than that."""
    crowded = []
    for source in sources_of("a common key"):
        times = source.table["ts"].cast(pa.int64()).to_numpy() // 100
        table = source.table.set_column(1, "ts", pa.array(times, pa.timestamp("us")))
        crowded.append(Source(source.name, table, "ts", "0 seconds"))
    pieces = {source.name: cut(source.table, [25, 35]) for source in crowded}
    sql = bounded("a common key", rows=4000).replace("memory", "max_lag = '1 millisecond', memory")
    exact = Simulation(QUERIES["a common key"], crowded, 2).run(pieces)
    for name, parts in pieces.items():
        write_arrivals(tmp_path / name, parts)
    query = streaming_session(spark, crowded, tmp_path, 2).sql(sql)
    found = bag_of(run_streaming(spark, query.dataframe(), tmp_path / "checkpoint", tmp_path / "sink"))
    assert found < exact
    told = eventually(lambda: query.metrics() if query.metrics().get("queue_shed_rows", 0) >= 70 else None)
    assert told["queue_shed_rows"] <= told["shed_rows"]
    assert told["recall_is_estimate"]
    assert 0 <= told["recall"] < 1
