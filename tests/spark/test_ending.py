"""Runs that end: what waits is answered once, whatever crashes, and a run that goes on after that is right as well."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases, thinned
from tests.properties import continuous_strategies, strategies
from tests.properties.test_continuous import assert_same, sent
from tests.properties.test_joins import refuse_contradictions
from tests.runners import Bag, Source, bound_plan, by_reference, tables_of
from tests.spark.harness import cut, event_times, expected_of, never_late
from tests.spark.pieces import splits
from tests.spark.simulation import LOSSES, Pieces, Simulation, another_node
from tests.spark.test_continuous import UNSHRUNK
from tests.spark.test_processor import QUERIES, disordered
from watersmeet.checking.recompute import rows_of
from watersmeet.hosts.spark import memory_folder
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.log import Manifest
from watersmeet.model.time import BEGINNING_US
from watersmeet.reference.continuous import End
from watersmeet.reference.join import answer

# Each example is several runs on one state.
few = random_cases(12, phases=UNSHRUNK)

CHANGING = {
    "groups": "SELECT x, COUNT(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY x",
    "a difference": "SELECT x FROM a [RANGE 2 SECONDS] EXCEPT ALL SELECT x FROM b [RANGE 3 SECONDS]",
    "the whole, again and again": "SELECT RSTREAM x, COUNT(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY x EVERY 1 SECOND",
}
WAITING = (
    {name: QUERIES[name] for name in ("rows", "rows per key", "rows of one stream")}
    | CHANGING
    | {
        "an algorithm of the papers": QUERIES["a key per pair"] + " OPTIONS (join = 'nested_loop')",
    }
)


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def inputs(sql: str) -> tuple[list[Source], Pieces]:
    sources = [s for s in disordered(0) if f" {s.name} " in sql or f" {s.name}." in sql or f" {s.name}," in sql]
    return sources, {source.name: cut(source.table, [3, 6, 2, 5]) for source in sources}


def run_to_its_end(run: Simulation, pieces: Pieces, name: str = "a run") -> None:
    """One piece of each stream per batch; every stream tells of its end with its last piece."""
    for i in range(max(len(parts) for parts in pieces.values())):
        arrived = {stream: parts[i] for stream, parts in pieces.items() if i < len(parts)}
        run.batch(arrived, [stream for stream, parts in pieces.items() if i == max(len(parts) - 1, 0)], name)


def whole(sql: str, sources: Sequence[Source], pieces: Pieces) -> Bag:
    return expected_of(sql, sources, pieces)


@pytest.mark.parametrize(("name", "buckets"), thinned(WAITING, [1, 4]))
def test_the_end_of_all_streams_brings_the_whole_answer(name, buckets):
    sources, pieces = inputs(WAITING[name])
    without = Simulation(WAITING[name], sources, buckets)
    without.run(pieces)
    run = Simulation(WAITING[name], sources, buckets)
    run_to_its_end(run, pieces)
    assert run.answer() == whole(WAITING[name], sources, pieces) != without.answer()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lost"), thinned(["rows", "groups"], LOSSES))
def test_a_crash_at_any_state_call_of_the_end_changes_nothing(name, lost):
    sources, pieces = inputs(WAITING[name])
    run = Simulation(WAITING[name], sources, 2, crash_everywhere=True, after_crash=LOSSES[lost])
    run_to_its_end(run, pieces)
    assert run.answer() == whole(WAITING[name], sources, pieces)


def test_the_end_of_one_stream_is_remembered_until_the_others_have_ended_in_the_same_run():
    sources, pieces = inputs(WAITING["rows"])
    run = Simulation(WAITING["rows"], sources, 2, between_batches=another_node)
    for i in range(len(pieces["a"])):
        run.batch({name: pieces[name][i] for name in "ab"})
    before = run.answer()
    run.batch({}, ["a"], "first")
    run.batch({}, ["b"], "second")
    assert run.answer() == before
    run.batch({}, ["a"], "second")
    assert run.answer() == whole(WAITING["rows"], sources, pieces) != before


def test_a_join_that_waits_for_nothing_keeps_its_windows():
    sql = QUERIES["a common key"]
    sources, pieces = inputs(sql)
    run = Simulation(sql, sources, 2)
    for i in range(len(pieces["a"])):
        run.batch({name: parts[i] for name, parts in pieces.items()}, list(pieces), f"run {i}")
    assert run.answer() == whole(sql, sources, pieces)


def test_partners_from_a_time_on_are_found_behind_an_end() -> None:
    """Rows of one side that are ahead of the other stay, and so do rows whose partner has not come."""

    def at(seconds: list[int]) -> pa.Table:
        return pa.table(
            {"n": pa.array(seconds, pa.int64()), "ts": pa.array([1_000_000 * n for n in seconds], pa.timestamp("us"))}
        )

    run = Simulation(
        "SELECT a.n, b.n AS m FROM a ASOF JOIN b ON b.ts >= a.ts", [Source("a", at([])), Source("b", at([]))], 2
    )
    run_to_its_end(run, {"a": [at([1])], "b": [at([2, 15])]}, "first")
    run_to_its_end(run, {"a": [at([5, 20])], "b": [at([])]}, "second")
    run_to_its_end(run, {"a": [at([])], "b": [at([30])]}, "third")
    assert run.answer() == {(1, 2): 1, (5, 15): 1, (20, 30): 1}


# ---- random queries, ended and gone on with at random points --------------------------------------------------------


def ended_at_random(run: Simulation, pieces: Pieces, data: st.DataObject) -> None:
    """Several runs on one state: each takes some pieces of each stream, then ends."""
    left = {name: list(parts) for name, parts in pieces.items()}
    number = 0
    while number == 0 or any(left.values()):
        taken = {name: parts[: data.draw(st.integers(1, 4))] for name, parts in left.items()}
        left = {name: parts[len(taken[name]) :] for name, parts in left.items()}
        run_to_its_end(run, {name: parts or [empty(run, name)] for name, parts in taken.items()}, f"run {number}")
        number += 1


def empty(run: Simulation, name: str) -> pa.Table:
    return run.streams[name].table.slice(0, 0)


def let_in(run: Simulation, sources: Sequence[Source]) -> list[Source]:
    """The sources with the rows that were in time, which may lack columns that the query does not read."""
    found = []
    for source in sources:
        if source.time is None:
            found.append(source)
            continue
        (alias,) = [one.alias for one in run.job.streams if one.relation.name == source.name]
        rows = run.admitted.get(alias, [])
        table = pa.Table.from_batches(rows) if rows else source.table.slice(0, 0)
        found.append(replace(source, table=table, lateness="100000 days"))
    return found


def simulated(
    sql: str, sources: Sequence[Source], pieces: Pieces, data: st.DataObject, kind: type[Simulation] = Simulation
) -> Simulation:
    crash_at = data.draw(st.lists(st.integers(1, 120), max_size=4))
    lost = data.draw(st.sampled_from(list(LOSSES.values())))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(memory_folder.WARM_DIR, folder)
        warm_state._at_hand.clear()
        run = kind(sql, sources, data.draw(st.sampled_from([1, 2, 4])), crash_at, after_crash=lost)
        ended_at_random(run, pieces, data)
    return run


@few
@given(continuous_strategies.cases(), st.data())
def test_changing_answers_ended_at_random_points_give_the_reference_log_of_the_rows_let_in(case, data):
    plan = bound_plan(case.sql(), case.sources)
    assume(plan.plain_join is None)
    run = simulated(case.sql(), case.sources, data.draw(splits(case)), data)
    assume(len({one.relation.name for one in run.job.streams}) == len(run.job.streams))
    read = {one.relation.name for one in run.job.streams}
    kept = let_in(run, [source for source in case.sources if source.time is None or source.name in read])
    plan = bound_plan(case.sql(), kept)
    assert_same(sent(plan, rows_of(run.table())), sent(plan, answer(plan, tables_of(kept), ends_of(run))))


def ends_of(run: Simulation) -> list[End]:
    """Where a run ended and another went on, as its buckets remember it; only some queries run in several."""
    states = run.state.variables["meta"]
    held = [Manifest.from_bytes(states[(bucket,)][2]).ends for bucket in run.job.bucket_ids if (bucket,) in states]
    assume(all(ends == held[0] for ends in held))
    names = {one.alias: one.relation.name for one in run.job.streams}
    return [
        ({names[alias]: us for alias, us in end.newest_us.items() if us > BEGINNING_US}, end.answered_us)
        for end in held[0]
    ]


def seconds(*times: float) -> pa.Table:
    start = datetime(2024, 1, 1)
    return pa.table(
        {
            "s": pa.array(["a"] * len(times), pa.string()),
            "k": pa.array([1] * len(times), pa.int64()),
            "ts": pa.array([start + timedelta(seconds=at) for at in times], pa.timestamp("us")),
        }
    )


@pytest.mark.parametrize("later", [(), (9.0,)], ids=["nothing more", "more"])
def test_answers_not_given_after_an_end_are_not_taken_back_by_the_next_run(later):
    """All of s2 was answered at 3 s, and no more: it had ended at 4.5 s. The next run must not think otherwise."""
    sql = (
        "SELECT DISTINCT EPOCH_US(event_time()) % 5000000 AS at FROM"
        " (SELECT RSTREAM MAX(a.k) AS k FROM s2 [RANGE 2 SECONDS] AS a EVERY 3 SECONDS) [RANGE 1 SECONDS] AS a,"
        " (SELECT a.k FROM s1 [PARTITION BY s ROWS 2] AS a) AS b WHERE a.k > 0"
    )
    run = Simulation(sql, [Source(name, seconds(), "ts", "0 seconds") for name in ("s1", "s2")], 1)
    run.batch({"s1": seconds(0.5, 1), "s2": seconds(1, 4.5)})
    run.batch({"s1": seconds(2)}, ["s2"], "run 0")
    run.batch({"s1": seconds(6.5, 7)}, ["s1"], "run 0")
    run.batch({"s2": seconds(*later)}, ["s1", "s2"], "run 1")
    told = [(row["_op"], row["at"]) for row in run.table().to_pylist()]
    assert told == [("+", 3_000_000), ("-", 3_000_000), *((("+", 4_000_000), ("-", 4_000_000)) if later else ())]


class Judged(Simulation):
    """Judges by itself which rows are late: those before the watermark, or not after what an end has answered."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.in_time = {name: [source.table.slice(0, 0)] for name, source in self.streams.items()}
        self.newest_us = self.answered_us = -(2**62)
        self.ended: set[str] = set()

    def batch(self, arrived: Mapping[str, pa.Table], ended: Sequence[str] = (), run: str = "a run") -> None:
        for name, table in arrived.items():
            times = event_times(table, self.streams[name])
            self.in_time[name].append(table.filter(pa.array(times >= max(self.watermark_us, self.answered_us + 1))))
            self.newest_us = max([self.newest_us, *times.tolist()])
        super().batch(arrived, ended, run)
        self.ended |= set(ended)
        if len(self.ended) == len(self.streams):
            self.ended, self.answered_us = set(), self.newest_us


@few
@given(strategies.cases(counted=True), st.data())
def test_joins_that_count_rows_ended_at_random_points_give_the_reference_answer_of_the_rows_in_time(case, data):
    refuse_contradictions(case)
    run = simulated(case.sql, case.sources, data.draw(splits(case)), data, Judged)
    assert isinstance(run, Judged)
    kept = [replace(s, table=pa.concat_tables(run.in_time[s.name])) if s.time else s for s in case.sources]
    assert run.answer() == by_reference(case.sql, never_late(kept))
