"""The stateful stage without Spark: right for any micro-batches, and exactly once when it crashes at any call."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tests.effort import EFFORT, random_cases, thinned
from tests.properties.strategies import Case, cases
from tests.properties.test_joins import refuse_contradictions
from tests.runners import Bag, Source, bound_plan
from tests.spark.harness import cut, expected_of, pieces_in_time, with_sentinels
from tests.spark.pieces import splits
from tests.spark.simulation import LOSSES, Pieces, Simulation, another_node
from watersmeet.errors import DataError
from watersmeet.hosts.spark import memory_folder
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.output import PackedOutput
from watersmeet.hosts.spark.bucket.stage import BucketStage
from watersmeet.hosts.spark.exchange.messages import NOW
from watersmeet.hosts.spark.jobs.ids import GUARD
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.model.arrival import Arrival

few = random_cases(24)

QUERIES = {
    "a common key": """SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c
                       WHERE a.x = b.x AND b.x = c.x WINDOW = 4 SECONDS""",
    "a key per pair": """SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c
                         WHERE a.x = b.x AND b.y = c.y WINDOW = 4 SECONDS""",
    "no equality": "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x < b.x WINDOW = 2 SECONDS",
    "rows": "SELECT a.id AS a, b.id AS b FROM a [ROWS 5], b [NOW] WHERE a.x = b.x",
    "rows per key": "SELECT a.id AS a, b.id AS b FROM a [PARTITION BY x ROWS 2], b [RANGE 3 SECONDS] WHERE a.x = b.x",
    "rows of one stream": "SELECT a.id AS a, a.x AS x FROM a [ROWS 1]",
    "a self-join": "SELECT p.id AS p, q.id AS q FROM a AS p, a AS q WHERE p.x = q.x DWINDOW (p, q) = 3 SECONDS",
}
COUNTING = {"rows", "rows per key", "rows of one stream"}


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def disordered(seed: int, rows: int = 24, step_us: int = 1) -> list[Source]:
    random = np.random.default_rng(seed)

    def table() -> pa.Table:
        times = np.sort(random.integers(1_000, 16_000, rows)) * 1000 // step_us * step_us
        order = np.argsort(times + random.integers(0, 2_000_000, rows), kind="stable")
        columns = {name: random.integers(0, 3, rows) for name in "xy"}
        return pa.table({"id": np.arange(rows), "ts": pa.array(times[order], pa.timestamp("us")), **columns})

    return [Source(name, table(), "ts", "1 second") for name in "abc"]


def six_batches(name: str, seed: int = 0, step_us: int = 1) -> tuple[list[Source], Pieces]:
    sources = [
        s
        for s in disordered(seed, step_us=step_us)
        if f" {s.name}." in QUERIES[name] or f" {s.name} AS" in QUERIES[name]
    ]
    pieces: Pieces = {source.name: cut(source.table, [3, 6, 2, 5]) for source in sources}
    return sources, with_sentinels(sources, pieces) if name in COUNTING else pieces


def expected(name: str, sources: list[Source], pieces: Pieces) -> Bag:
    """What the reference says; where sentinels end the streams their own combinations are still to come."""
    wanted = {s: parts[:-1] for s, parts in pieces.items()} if name in COUNTING else pieces
    return expected_of(QUERIES[name], sources, wanted)


@pytest.mark.parametrize(("name", "buckets"), thinned(QUERIES, [1, 4]))
def test_micro_batches_add_up_to_the_answer(name, buckets):
    sources, pieces = six_batches(name)
    answer = Simulation(QUERIES[name], sources, buckets).run(pieces)
    assert answer
    assert answer == expected(name, sources, pieces)


class InAnyOrder(Simulation):
    """Packets come to their buckets as a shuffle may bring them."""

    def _packed(self, *given: Any) -> pd.DataFrame | None:
        packets = super()._packed(*given)
        return None if packets is None else packets.sample(frac=1, random_state=self.calls)


@pytest.mark.parametrize("name", QUERIES)
def test_rows_may_come_in_many_small_packets_in_any_order(name, monkeypatch):
    monkeypatch.setattr("watersmeet.hosts.spark.packets.PACKET_BYTES", 64)
    # Rows of one time count in the order in which they were read.
    sources, pieces = six_batches(name, step_us=2_000_000)
    assert InAnyOrder(QUERIES[name], sources, 2).run(pieces) == expected(name, sources, pieces)


@pytest.mark.parametrize("name", QUERIES)
def test_the_state_alone_is_enough_to_go_on(name):
    """Every batch on a new node: the operator is rebuilt from the log each time."""
    sources, pieces = six_batches(name)
    run = Simulation(QUERIES[name], sources, 2, between_batches=another_node)
    assert run.run(pieces) == expected(name, sources, pieces)
    assert run.counted("cache_hits") == 0


@pytest.mark.parametrize("name", QUERIES)
def test_warm_copies_are_used_when_nothing_goes_wrong(name):
    sources, pieces = six_batches(name)
    run = Simulation(QUERIES[name], sources, 2)
    run.run(pieces)
    assert run.counted("cache_misses") == 0
    assert run.counted("cache_hits") > 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lost"), thinned(QUERIES, LOSSES))
def test_every_batch_crashing_at_each_of_its_state_calls_changes_nothing(name, lost):
    sources, pieces = six_batches(name)
    run = Simulation(QUERIES[name], sources, 2, crash_everywhere=True, after_crash=LOSSES[lost])
    assert run.run(pieces) == expected(name, sources, pieces)
    assert run.crashes >= 50


@pytest.mark.parametrize(("name", "lost"), thinned(["a key per pair", "rows"], LOSSES))
def test_a_single_crash_anywhere_changes_nothing(name, lost):
    sources, pieces = six_batches(name)
    calm = Simulation(QUERIES[name], sources, 2)
    wanted = calm.run(pieces)
    for call in range(1, calm.calls + 1, 1 if EFFORT > 1 else 19):
        another_node()
        run = Simulation(QUERIES[name], sources, 2, [call], after_crash=LOSSES[lost])
        assert run.run(pieces) == wanted, f"crash at state call {call}"
        assert run.crashes == 1


@pytest.mark.parametrize("name", ["a common key", "rows"])
def test_crashes_at_every_other_call_change_nothing(name):
    sources, pieces = six_batches(name, seed=1)
    random = np.random.default_rng(7)
    losses = list(LOSSES.values())
    run = Simulation(
        QUERIES[name],
        sources,
        2,
        crash_at=sorted(random.choice(2000, 150, replace=False).tolist()),
        after_crash=lambda: losses[random.integers(len(losses))](),
    )
    assert run.run(pieces) == expected(name, sources, pieces)
    assert run.crashes > 5


def test_late_rows_are_dropped_and_counted_once_over_all_copies():
    sources, pieces = six_batches("a key per pair")
    late = {s.name: s.table.slice(0, 0) for s in sources}
    old = sources[0].table.slice(0, 2)
    more = {name: [*parts, late[name]] for name, parts in pieces.items()}
    more["a"] = [*pieces["a"], old]
    run = Simulation(QUERIES["a key per pair"], sources, 4)
    assert run.run(more) == expected("a key per pair", sources, more)
    kept = pieces_in_time(sources, more)
    arrived = sum(len(part) for parts in more.values() for part in parts)
    assert run.counted("late_rows") == arrived - sum(map(len, kept.values())) >= 2
    assert run.counted("rows_in") == arrived


def test_state_is_bounded_by_the_window_and_empty_after_it():
    """Once time has gone on far beyond all rows, every bucket is empty, without any input of its own."""
    sources, pieces = six_batches("a common key")
    silent = [replace(source, arrival=Arrival(idle_us=1_000_000)) for source in sources]
    run = Simulation(QUERIES["a common key"], silent, 4)
    run.run(pieces)
    assert any(held for held in run.state.variables["segments"].values())
    run.pulse(60)
    assert all(not held for held in run.state.variables["segments"].values())


def test_waiting_rows_come_out_when_their_bucket_gets_no_more_input():
    """Every bucket is told how far the streams have come, also one that gets none of the rows."""
    sources, pieces = six_batches("rows per key")
    run = Simulation(QUERIES["rows per key"], sources, 4)
    run.run({name: parts[:-1] for name, parts in pieces.items()})
    assert run.answer() != expected("rows per key", sources, pieces)
    run.batch({name: parts[-1] for name, parts in pieces.items()})
    assert run.answer() == expected("rows per key", sources, pieces)


def test_another_query_is_refused_on_the_state_of_this_one():
    sources, pieces = six_batches("a common key")
    run = Simulation(QUERIES["a common key"], sources, 2)
    run.batch({name: parts[0] for name, parts in pieces.items()})
    changed = Simulation(QUERIES["a common key"].replace("4 SECONDS", "5 SECONDS"), sources, 2)
    changed.state = run.state
    with pytest.raises(DataError, match="this checkpoint belongs to another query"):
        changed.batch({name: parts[1] for name, parts in pieces.items()})
    for i in range(1, 9):
        run.batch({name: parts[i] for name, parts in pieces.items() if i < len(parts)})
    assert run.answer() == expected("a common key", sources, pieces)


def test_state_of_an_older_format_is_refused_with_its_number():
    sources, pieces = six_batches("a common key")
    run = Simulation(QUERIES["a common key"], sources, 2)
    run.batch({name: parts[0] for name, parts in pieces.items()})
    guards = run.state.variables["meta"]
    guards[next(key for key in guards if key[0] == GUARD)] = (1, 0, b"cd0384fadb90e95871fab7f770c58b13")
    with pytest.raises(DataError, match="holds state of format 3 or before, and this version of watersmeet reads"):
        run.batch({name: parts[1] for name, parts in pieces.items()})


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda sql: sql, True),
        (lambda sql: sql.replace("4 SECONDS", "4000 MILLISECONDS"), True),
        (lambda sql: " ".join(sql.split()), True),
        (lambda sql: sql.replace("4 SECONDS", "5 SECONDS"), False),
        (lambda sql: sql.replace("a.x = b.x", "a.y = b.y"), False),
        (lambda sql: sql.replace("a.id AS a", "a.x AS a"), False),
        (lambda sql: sql + " OPTIONS (boundary = 'half_open')", False),
    ],
)
def test_the_fingerprint_follows_the_meaning_of_a_query(change, same):
    sources = disordered(0)
    sql = QUERIES["a common key"]
    one, other = (job_of(bound_plan(text, sources), {}, 2).fingerprint for text in (sql, change(sql)))
    assert (one == other) is same


# ---- random queries -------------------------------------------------------------------------------------------------


def counts_rows(case: Case) -> bool:
    return "ROWS" in case.sources_sql


@few
@given(cases(), st.data())
def test_random_queries_in_random_micro_batches_with_random_crashes_give_the_reference_answer(case, data):
    refuse_contradictions(case)
    pieces = data.draw(splits(case))
    crash_at = data.draw(st.lists(st.integers(1, 120), max_size=4))
    lost = data.draw(st.sampled_from(list(LOSSES.values())))
    buckets = data.draw(st.sampled_from([1, 2, 4]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(memory_folder.WARM_DIR, folder)
        warm_state._at_hand.clear()
        run = Simulation(case.sql, case.sources, buckets, crash_at, after_crash=lost)
        answer = run.run(with_sentinels(case.sources, pieces) if counts_rows(case) else pieces)
    assert answer == expected_of(case.sql, case.sources, pieces)


# ---- Spark's own tester ---------------------------------------------------------------------------------------------


def test_the_processor_runs_in_sparks_own_tester():
    tester_module = pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="Spark has it from 4.2 on")
    sources, pieces = six_batches("a common key")
    run = Simulation(QUERIES["a common key"], sources, 2)
    processor: StatefulProcessor = BucketStage([(run.job, PackedOutput(run.job.plan.schema))])
    tester = tester_module.TwsTester(processor, timeMode="None")
    for i in range(len(pieces["a"])):
        arrived = {name: parts[i] for name, parts in pieces.items() if i < len(parts)}
        processor.init(tester.handle)  # a new task per batch
        for key, group in run._packed(arrived).assign(**{NOW: 0}).groupby("bucket"):
            run.frames.append(tester.testInPandas(key, group))
    assert run.answer() == expected("a common key", sources, pieces)
    assert tester.peekValueState("meta", GUARD)[2] == run.job.fingerprint.encode()
