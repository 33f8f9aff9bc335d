"""Joins in bounded memory on Spark: a part of the answer, losses counted over all buckets, crashes change nothing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row

import watersmeet as wm
from tests.effort import thinned
from tests.runners import Source, bag_of
from tests.spark.harness import batch_session, cut, run_streaming, streaming_session, write_arrivals
from tests.spark.simulation import LOSSES, Pieces, Simulation, another_node, reports_in
from watersmeet.errors import DataError, OptionError
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.output import OBSERVED, REPORTS
from watersmeet.hosts.spark.exchange.pack import packer
from watersmeet.hosts.spark.host import partitioning_text
from watersmeet.hosts.spark.jobs.fingerprint import STATE_FORMAT
from watersmeet.hosts.spark.jobs.ids import GUARD
from watersmeet.hosts.spark.jobs.kinds import JoinJob, job_of
from watersmeet.hosts.spark.progress.tally import Tally
from watersmeet.operators.kernels.spread import coordinates
from watersmeet.runtime.script import read_script

QUERIES = {
    "a common key": "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x WINDOW = 20 SECONDS",
    "a key per pair": """SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c
                         WHERE a.x = b.x AND b.y = c.y WINDOW = 6 SECONDS""",
    "rows": "SELECT a.id AS a, b.id AS b FROM a [ROWS 20], b [RANGE 9 SECONDS] WHERE a.x = b.x",
}
POLICIES = {"a common key": "prob", "a key per pair": "drift", "rows": "rand"}


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


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


@pytest.mark.parametrize(("name", "buckets", "recall"), thinned(QUERIES, [1, 4], ["exact", "none"]))
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


def test_a_state_from_before_named_arrays_is_refused_with_its_format():
    """Such states were pickles, and their checkpoints had no number before the fingerprint."""
    sources = sources_of("a common key")
    run = Simulation(bounded("a common key"), sources, 2)
    pieces = pieces_of(sources)
    run.batch({name: parts[0] for name, parts in pieces.items()})
    number, dash, fingerprint = run.job.fingerprint.partition("-")
    assert (number, dash) == (str(STATE_FORMAT), "-")
    run.state.variables["meta"][GUARD,] = (1, 0, fingerprint.encode())
    with pytest.raises(
        DataError, match="this checkpoint holds state of format 3 or before, and this version of watersmeet reads"
    ):
        run.batch({name: parts[1] for name, parts in pieces.items()})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recall"), thinned(QUERIES, ["exact", "none"]))
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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lost"), thinned(["a common key", "rows"], LOSSES))
def test_every_batch_crashing_at_each_of_its_state_calls_changes_nothing(name, lost):
    sources = sources_of(name)
    wanted = Simulation(bounded(name), sources, 2).run(pieces_of(sources))
    another_node()
    run = Simulation(bounded(name), sources, 2, crash_everywhere=True, after_crash=LOSSES[lost])
    assert run.run(pieces_of(sources)) == wanted
    assert run.crashes >= 50


# ---- the memory is shared by need -----------------------------------------------------------------------------------


def skewed(rows: int = 1500) -> list[Source]:
    """Two streams, a row of each a second; the keys by Zipf's law."""
    random = np.random.default_rng(9)
    chances = 1 / np.arange(1, 201)
    times = pa.array(np.arange(1, rows + 1) * 1_000_000, pa.timestamp("us"))
    return [
        Source(name, pa.table({"id": np.arange(rows), "ts": times, "x": keys}), "ts", "0 seconds")
        for name in "ab"
        for keys in [random.choice(200, rows, p=chances / chances.sum())]
    ]


def skewed_query(shed: str = "prob", rows: int = 150, more: str = "") -> str:
    asked = f"memory = '{rows} rows', shed = '{shed}'{more}"
    return f"SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x WINDOW = 300 SECONDS OPTIONS ({asked})"


def told_by_batch(run: Simulation, pieces: Pieces) -> list[dict[int, dict[str, Any]]]:
    """What every bucket told in each batch that adds up with nothing, but for the size of its state as it is written
    down."""
    told: list[dict[int, dict[str, Any]]] = []
    for i in range(max(map(len, pieces.values()))):
        before = len(run.frames)
        run.batch({name: parts[i] for name, parts in pieces.items()})
        reports = [one for one in map(json.loads, reports_in(run.frames[before:])) if one["bucket"] != GUARD]
        for one in reports:
            one.pop("state_bytes", None)
            one.pop("counts")
        told.append({one["bucket"]: one for one in reports})
    return told


def recall_of(run: Simulation) -> float:
    found = run.counted("results")
    return found / (found + run.counted("lost_results"))


@pytest.mark.slow
@pytest.mark.parametrize("allocation", ["fixed", "variable"])
def test_shares_by_need_find_more_than_equal_shares_within_the_same_bound(allocation, monkeypatch):
    sources = skewed(1050)
    pieces = {source.name: cut(source.table, [150]) for source in sources}
    sql = skewed_query(more=f", allocation = '{allocation}'")
    recalls = {}
    for name, cells in {"by worth": 2048, "by rows": 0, "equal": None}.items():
        another_node()
        with monkeypatch.context() as patch:
            if cells is None:
                patch.setattr(JoinJob, "sharing", None)
            else:
                patch.setattr(JoinJob, "_keys_tell_worth", cells > 0)
            run = Simulation(sql, sources, 8)
            for told in told_by_batch(run, pieces):
                assert len(told) == 8
                assert sum(one["memory_rows"] for one in told.values()) in ((150,) if cells is not None else (144,))
                assert sum(one["kept_rows"] for one in told.values()) <= 150
        recalls[name] = recall_of(run)
    whole = Simulation(sql, sources, 1)
    whole.run(pieces)
    assert recalls["by rows"] > 1.2 * recalls["equal"]
    assert recalls["by worth"] > 1.5 * recalls["by rows"]
    assert recalls["by worth"] > 0.85 * recall_of(whole)


def test_rand_keeps_as_large_a_part_of_every_bucket():
    sources = skewed()
    pieces = {source.name: cut(source.table, [150]) for source in sources}
    run = Simulation(skewed_query("rand"), sources, 4)
    last = list(told_by_batch(run, pieces)[-1].values())
    arrived = [0] * 4
    for source in sources:
        keys = source.table["x"].combine_chunks().slice(1200).to_numpy()
        for bucket in coordinates(keys, 4).tolist():
            arrived[bucket] += 1
    shares = {run.job.bucket_ids.index(one["bucket"]): one["memory_rows"] for one in last}
    for bucket, rows in enumerate(arrived):
        assert shares[bucket] == pytest.approx(150 * rows / 600, rel=0.15)
    assert max(arrived) > 1.5 * min(arrived)


def test_a_bucket_without_new_rows_gives_up_memory_that_others_need():
    """The keys of one bucket come first and never again."""
    sources = skewed(600)
    by_bucket = [int(bucket) for bucket in coordinates(np.arange(200), 2)]
    only = [[key for key in range(200) if by_bucket[key] == bucket][:10] for bucket in range(2)]
    random = np.random.default_rng(2)
    moved = []
    for source in sources:
        keys = np.concatenate([random.choice(only[0], 200), random.choice(only[1], 400)])
        moved.append(replace(source, table=source.table.set_column(2, "x", pa.array(keys))))
    run = Simulation(skewed_query(), moved, 2)
    told = told_by_batch(run, {source.name: cut(source.table, [100]) for source in moved})
    first, second = run.job.bucket_ids
    kept = [(batch[first]["kept_rows"], batch[second]["kept_rows"]) for batch in told]
    assert kept[1][0] > 140
    assert kept[1][1] == 0
    assert kept[4][1] > 100  # the first keys are still in their windows, but bring nothing
    assert all(sum(pair) <= 150 for pair in kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_shares_are_the_same_when_every_batch_runs_on_a_new_node(name):
    sources = sources_of(name)
    calm = told_by_batch(Simulation(bounded(name), sources, 4), pieces_of(sources))
    another_node()
    moved = Simulation(bounded(name), sources, 4, between_batches=another_node)
    assert told_by_batch(moved, pieces_of(sources)) == calm
    assert all(sum(one["memory_rows"] for one in batch.values()) == 24 for batch in calm)


def test_shares_do_not_depend_on_how_rows_are_cut_into_tasks(monkeypatch):
    sources = skewed(600)
    pieces = {source.name: cut(source.table, [150]) for source in sources}
    calm = told_by_batch(Simulation(skewed_query(), sources, 4), pieces)
    another_node()

    def many_tasks(group: Any, name: str) -> Any:
        def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for start in range(0, batch.num_rows, 40):
                    yield from packer(group, name)(iter([batch.slice(start, 40)]))

        return pack

    monkeypatch.setattr("tests.spark.simulation.packer", many_tasks)
    assert told_by_batch(Simulation(skewed_query(), sources, 4), pieces) == calm


@pytest.mark.parametrize(
    ("name", "more"),
    thinned(["a common key", "a key per pair"], ["", ", allocation = 'variable'", ", max_lag = '1 hour'"]),
)
def test_between_batches_no_bucket_keeps_more_than_its_share(name, more):
    sources = sources_of(name)
    run = Simulation(bounded(name).replace("24 rows'", f"24 rows'{more}"), sources, 4)
    told = [one for batch in told_by_batch(run, pieces_of(sources)) for one in batch.values()]
    assert all(one["kept_rows"] <= one["memory_rows"] for one in told)
    assert any(one["kept_rows"] == one["memory_rows"] for one in told)


def test_there_are_no_more_buckets_than_memory_has_rows_for():
    sources = sources_of("a common key")
    assert Simulation(bounded("a common key", rows=7), sources, 8).job.partitioning.buckets == 3
    assert Simulation(bounded("a common key", rows=64), sources, 8).job.partitioning.buckets == 8


def test_bytes_that_are_too_few_for_the_buckets_are_refused_before_anything_starts():
    sources = sources_of("a common key")

    def checked(memory: str, buckets: int) -> None:
        Simulation(bounded("a common key").replace("24 rows", memory), sources, buckets).job.check()

    checked("0.5 kB", 1)
    with pytest.raises(OptionError, match=r"memory = '0\.5 kB' is too little for 4 buckets: .* take \d+ bytes") as told:
        checked("0.5 kB", 4)
    enough = re.search(r"write memory = '(\d+) bytes' or more, or have no more than 1 of them", str(told.value))
    assert enough is not None
    checked(f"{enough[1]} bytes", 4)
    with pytest.raises(OptionError):
        checked(f"{int(enough[1]) - 1} bytes", 4)


def test_losses_that_cannot_be_counted_as_asked_are_refused_before_anything_starts():
    job = Simulation(bounded("rows", recall="panes"), sources_of("rows"), 4).job
    with pytest.raises(OptionError, match="recall = 'panes' counts losses by key and time"):
        job.check()


def test_the_plan_says_how_the_memory_is_shared():
    def told(name: str, buckets: int = 4) -> str:
        return partitioning_text(Simulation(bounded(name), sources_of(name), buckets).job)

    assert "the memory, 24 rows, is shared among the buckets by what their rows are worth" in told("a common key")
    assert "by how many rows they have" in told("a key per pair")
    assert "by how many rows they have" in told("rows")  # by chance
    assert "memory" not in told("a common key", 1)


@pytest.mark.slow
def test_a_batch_of_many_windows_loses_no_more_than_many_batches():
    """Rows leave their windows inside a batch, too."""
    sources = skewed()
    recalls = []
    for size in (75, 1500):
        another_node()
        run = Simulation(skewed_query(), sources, 1)
        run.run({source.name: cut(source.table, [size]) for source in sources})
        recalls.append(recall_of(run))
    assert recalls[1] > 0.95 * recalls[0]


@pytest.mark.parametrize(("name", "seed"), thinned(QUERIES, range(3)))
def test_with_memory_enough_for_all_the_answer_is_exact_for_rows_in_any_order(name, seed):
    random = np.random.default_rng(seed)
    late = []
    for source in sources_of(name):
        order = np.argsort(source.table["ts"].cast(pa.int64()).to_numpy() + random.integers(0, 3_000_000, 60))
        late.append(replace(source, table=source.table.take(order), lateness="3 seconds"))
    pieces = {source.name: cut(source.table, [7, 31, 9]) for source in late}
    found = Simulation(bounded(name, rows=4000), late, 2).run(pieces)
    another_node()
    assert found == Simulation(QUERIES[name], late, 2).run(pieces)


# ---- and what was lost is told --------------------------------------------------------------------------------------


def test_streams_and_buckets_tell_their_losses():
    sources = skewed(600)
    pieces = {source.name: cut(source.table, [150]) for source in sources}
    run = Simulation(skewed_query(), sources, 4)
    tally = Tally()
    for number, batch in enumerate(told_by_batch(run, pieces)):
        row = Row(**{REPORTS: [json.dumps(one) for one in batch.values()]}, cache_hits=4)
        tally.add(
            Row(
                batchId=number,
                timestamp="",
                sources=[],
                durationMs={"addBatch": 1},
                observedMetrics={OBSERVED: row},
                eventTime={},
            )
        )
    total = tally.total.as_dict()
    assert sum(total["shed_by_stream"].values()) == run.counted("shed_rows") > 0
    assert set(total["shed_by_stream"]) == {"a", "b"}
    buckets = list(total["buckets"].values())
    assert sorted(total["buckets"]) == sorted(run.job.bucket_ids)
    assert sum(one["results"] for one in buckets) == run.counted("results")
    assert sum(one["lost_results"] for one in buckets) == run.counted("lost_results")
    assert sum(one["kept_rows"] for one in buckets) == total["kept_rows"] <= 150
    assert sum(one["memory_rows"] for one in buckets) == 150
    assert all(one["recall"] == one["results"] / one["exact_results"] for one in buckets)
    assert 0 < total["incomplete_rows"] == sum(one["incomplete_rows"] for one in buckets) <= 1200


def test_bytes_of_memory_are_shared_too():
    sources = skewed(600)
    pieces = {source.name: cut(source.table, [150]) for source in sources}
    run = Simulation(skewed_query().replace("150 rows", "16 kB"), sources, 4)
    for told in told_by_batch(run, pieces):
        assert sum(one["memory_bytes"] for one in told.values()) == 16_000
    assert max(one["memory_bytes"] for one in told.values()) > 2 * min(one["memory_bytes"] for one in told.values())
    assert run.counted("lost_results")


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
    assert told["shed_rows"] == sum(told["shed_by_stream"].values()) > 0
    assert told["incomplete_rows"] > 0
    buckets = told["buckets"].values()
    assert sum(one["results"] for one in buckets) == wanted.total()
    assert sum(one["memory_rows"] for one in buckets) == 24


def test_of_bounded_input_no_recall_is_claimed(spark):
    sources = sources_of("a common key")
    query = batch_session(spark, sources, 2).sql(bounded("a common key"))
    found = query.to_arrow().num_rows
    assert 0 < found < Simulation(QUERIES["a common key"], sources, 2).run(pieces_of(sources)).total()
    told = query.metrics()
    assert told["results"] == found
    assert told["recall"] is told["exact_results"] is told["lost_results"] is told["incomplete_rows"] is None


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
    monkeypatch.setattr("watersmeet.operators.keeping.paced_door.wall_time", wall)
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
    """All events lie within ten milliseconds, and the second batch comes later than that."""
    crowded = []
    for source in sources_of("a common key"):
        times = source.table["ts"].cast(pa.int64()).to_numpy() // 10_000
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


def test_windows_that_would_lie_on_disk_are_for_one_process() -> None:
    sources = [Source(name, pa.table({"id": [1], "x": [1], "ts": pa.array([0], pa.timestamp("us"))})) for name in "ab"]
    sql = QUERIES["a common key"] + " OPTIONS (memory = '1 MB', when_full = 'spill')"
    run = Simulation(sql, sources, 2)
    with pytest.raises(OptionError, match="when_full = 'spill' is for queries in one process: Spark keeps windows"):
        run.job.check()


def test_joins_of_a_script_share_a_memory_by_priority():
    session = wm.Session()
    for source in sources_of("a common key"):
        session.stream(source.name, source.table, time="ts")
    query = QUERIES["a common key"]
    text = f"SET memory = '900 rows'; {query}; {query.replace('20', '10')} OPTIONS (priority = 2)"
    _, job = read_script(text, session.catalog.copy())
    spark = job_of(job.plan, {}, 4)
    spark.check()
    assert spark.make_operator().bounded.memory.rows == 150
