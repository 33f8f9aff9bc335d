"""Rows shed before the join: the lag stays bounded, a part of the answer is given, and the best rows are let in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from tests.effort import thinned
from tests.runners import Bag
from tests.unit.operators.keeping.test_shedding_join import (
    FORMS,
    TICK_US,
    exactly,
    random_tables,
    selected,
    steps,
    table,
    two_way,
)
from tests.unit.shedding_strategies import zipf
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.contract import Operator
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.saving import Saved
from watersmeet.papers.shedding.arrivals import one_per_tick
from watersmeet.runtime.build import build
from watersmeet.sql import bind

POLICIES = ("rand", "prob", "life", "age", "drift")
MODELS = ("integrated", "modular")


@dataclass
class Machine:
    """A processor that needs so many seconds for each row that is joined, and its clock."""

    seconds_per_row: float
    join: BoundedMemory
    idle: float = 0.0

    def __call__(self) -> float:
        assert self.join.queue is not None
        return self.idle + self.seconds_per_row * self.join.queue.entered

    def wait_until(self, seconds: float) -> None:
        self.idle += max(0.0, seconds - self())


@dataclass
class Live:
    """What came of streams that arrive as their event times say, one piece after another."""

    operator: Operator
    machine: Machine
    found: Bag = field(default_factory=Counter)
    lags: list[float] = field(default_factory=list)
    longest_piece: float = 0.0
    newest: dict[str, int] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        return self.operator.counters.queue_shed_rows

    @property
    def recall(self) -> float:
        lost = self.operator.counters.lost_results
        assert lost is not None
        return self.found.total() / (self.found.total() + lost)

    def take(self, taken: Sequence[tuple[str, object]]) -> None:
        for name, rows in taken:
            first, last = rows.times[0] / TICK_US, rows.times[-1] / TICK_US
            self.machine.wait_until(last)
            self.newest[name] = int(rows.times[-1])
            for batches in (self.operator.push(name, rows), self.operator.advance(self.newest)):
                for batch in batches:
                    self.found.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            self.lags.append(self.machine() - last)
            self.longest_piece = max(self.longest_piece, last - first)


def operator_of(sql: str, streams: int) -> Operator:
    catalog = Catalog()
    for name in "abcd"[:streams]:
        catalog.add(Stream(name, random_tables(2)[0].schema, "ts"))
    return build(bind(sql, catalog))


def made(sql: str, streams: int, seconds_per_row: float) -> Live:
    operator = operator_of(sql, streams)
    join = operator.bounded
    assert join is not None
    machine = Machine(seconds_per_row, join)
    assert join.paced is not None
    join.paced.clock = machine
    return Live(operator, machine, newest=dict.fromkeys("abcd"[:streams], -(10**15)))


def live(tables: Sequence[pa.Table], sql: str, seconds_per_row: float, piece: int = 16) -> Live:
    run = made(sql, len(tables), seconds_per_row)
    run.take(steps(tables, piece))
    return run


# ---- the lag --------------------------------------------------------------------------------------------------------

MAX_LAG = 100.0


def options(policy: str = "prob", queue: str = "integrated", memory: int = 4000, recall: str = "exact") -> str:
    bounds = f"memory = '{memory} rows', max_lag = '{MAX_LAG:.0f} seconds'"
    return f"{bounds}, shed = '{policy}', queue = '{queue}', recall = '{recall}'"


def zipf_tables(seed: int, rows: int = 2000, keys: int = 50) -> list[pa.Table]:
    rng = np.random.default_rng(seed)
    return [table(zipf(rng, rows, keys)) for _ in range(2)]


@pytest.mark.parametrize(("queue", "times_too_slow", "piece"), thinned(MODELS, [2, 5], [4, 16, 64]))
def test_the_lag_is_bounded_however_slow_the_processor(queue, times_too_slow, piece):
    """Two rows come in a second. The first piece is let in whole, as nothing is known of its cost; and lag is counted
    from when its first row is seen, with the last."""
    cost = times_too_slow / 2
    run = live(zipf_tables(1, 1000), two_way(400, options(queue=queue)), cost, piece)
    assert max(run.lags) <= max(MAX_LAG + run.longest_piece, cost * piece) + cost
    assert max(run.lags) >= 0.7 * MAX_LAG
    # The time there is gets used: nothing stands idle while rows are turned away.
    capacity = (1000 + MAX_LAG + run.longest_piece) / cost
    assert 0.9 * capacity <= 2000 - run.dropped <= capacity


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("queue", MODELS)
def test_nothing_is_turned_away_while_the_processor_keeps_up(policy, queue):
    run = live(random_tables(2), two_way(50, options(policy, queue), "a.id, b.id"), 0.2)
    assert run.dropped == 0
    assert run.recall == 1.0
    assert not run.operator.counters.losses_are_estimated


def test_a_replay_faster_than_the_clock_turns_nothing_away():
    operator = operator_of(two_way(50, "memory = '4000 rows', max_lag = '1 microsecond'"), 2)
    for name, rows in steps(zipf_tables(2), 500):
        for _ in operator.push(name, rows):
            pass
    assert operator.counters.queue_shed_rows == 0


def test_a_burst_is_ridden_out_within_the_lag_allowed():
    """Three times too many rows for twenty seconds, and then time to catch up."""
    seconds = np.concatenate([np.arange(0, 200), np.linspace(200, 220, 100), np.arange(221, 600)])
    tables = [table(np.arange(seconds.size) % 7, (seconds * TICK_US).astype(np.int64)) for _ in range(2)]
    run = live(tables, two_way(50, options()), 0.3, 8)
    assert run.dropped == 0
    assert 35 < max(run.lags) < 50


def test_after_a_pause_of_the_processor_rows_are_turned_away_until_it_has_caught_up():
    run = made(two_way(50, options()), 2, 0.1)
    taken = steps(zipf_tables(3, 1500), 20)
    run.take(taken[:60])
    run.machine.idle += 300
    run.take(taken[60:])
    assert 300 <= run.dropped < 600  # of two rows a second, 200 to 300 seconds' worth
    assert max(run.lags[-10:]) < 5


# ---- what is given --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "policy"), thinned(FORMS, POLICIES))
def test_what_is_given_is_a_part_of_the_answer(form, policy):
    for queue, recall, memory in (("integrated", "exact", 24), ("modular", "none", 400)):
        bounds = options(policy, queue, memory, recall).replace("100 seconds", "5 seconds")
        run = live(random_tables(int(form[0])), f"{selected(form)} OPTIONS ({bounds})", 1.0, 16)
        counters = run.operator.counters
        assert run.found <= exactly(form)
        assert run.dropped
        assert sum(counters.shed_rows.values()) >= run.dropped
        assert counters.losses_are_estimated == (recall == "exact")
        assert (counters.lost_results is None) == (recall == "none")


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_rows_at_the_same_times_give_the_same(policy):
    first, second = (live(zipf_tables(4, 400), two_way(100, options(policy, memory=100)), 2.0) for _ in range(2))
    assert first.dropped
    assert first.found == second.found
    assert first.operator.counters.lost_results == second.operator.counters.lost_results


def test_panes_know_no_losses_once_rows_are_turned_away():
    run = live(zipf_tables(4), two_way(200, options(recall="panes")), 1.0)
    assert run.dropped
    assert run.operator.counters.lost_results is None
    assert run.operator.counters.lost_between is None


@pytest.mark.slow
@pytest.mark.parametrize("queue", MODELS)
def test_a_join_that_was_saved_goes_on_as_if_nothing_had_happened(queue):
    sql, taken = two_way(100, options("drift", queue, 200)), steps(zipf_tables(5, 600), 10)
    whole = made(sql, 2, 1.5)
    whole.take(taken)
    first, second = made(sql, 2, 1.5), made(sql, 2, 1.5)
    first.take(taken[:80])
    second.operator.load(Saved.from_bytes(first.operator.save(tables=False).to_bytes()))
    second.machine.idle, second.newest = first.machine.idle, first.newest
    second.take(taken[80:])
    assert first.found + second.found == whole.found
    assert second.operator.counters.lost_results == whole.operator.counters.lost_results
    assert second.dropped == whole.dropped > first.dropped > 0


# ---- and how much of it ---------------------------------------------------------------------------------------------


@cache
def share_given(policy: str, queue: str, times_too_slow: float, seed: int) -> tuple[float, float]:
    """The true recall, and the one that was told."""
    tables = zipf_tables(seed, 2000, 200)
    run = live(tables, two_way(400, options(policy, queue, 100_000)), times_too_slow / 2, 32)
    return run.found.total() / one_per_tick(*(t["k"].to_numpy() for t in tables), 401).exact_results, run.recall


def test_by_keys_far_more_is_found_than_by_chance():
    assert share_given("rand", "integrated", 2, 7)[0] == pytest.approx(1 / 4, rel=0.2)
    assert share_given("prob", "integrated", 2, 7)[0] > 2 * share_given("rand", "integrated", 2, 7)[0]
    assert share_given("prob", "modular", 5, 7)[0] > 4 * share_given("rand", "integrated", 5, 7)[0]


@pytest.mark.slow
def test_knowing_the_memory_finds_more_than_knowing_the_keys_alone():
    given = {q: [share_given("prob", q, slow, seed)[0] for slow in (2, 5) for seed in (7, 8)] for q in MODELS}
    assert np.mean(given["integrated"]) > np.mean(given["modular"])


@pytest.mark.parametrize("policy", ["rand", "prob", "drift"])
def test_the_recall_told_is_close_to_the_true_one(policy):
    for times_too_slow in (2, 5):
        true, told = share_given(policy, "integrated", times_too_slow, 7)
        assert told == pytest.approx(true, rel=0.25)


def test_losses_are_estimated_even_if_hardly_a_row_is_ever_let_in():
    tables = zipf_tables(10, 1000)
    run = made(two_way(200, options()), 2, 0.1)
    taken = steps(tables, 16)
    run.take(taken[:1])
    run.machine.idle += 10_000
    run.take(taken[1:])
    assert not run.found
    exact = one_per_tick(*(t["k"].to_numpy() for t in tables), 201).exact_results
    assert run.operator.counters.lost_results == pytest.approx(exact, rel=0.3)
    assert run.recall == 0.0
