"""The counts are exact, and they are what the papers' cost models predict."""

from __future__ import annotations

from itertools import pairwise, product
from math import exp

import numpy as np
import pytest

from tests.conformance.costs import (
    TABLE_5,
    TABLE_6,
    TABLE_7,
    Window,
    eager_cost,
    lazy_cost,
    naive_cost,
    scans_per_second,
)
from tests.conformance.drive import SECOND, Drive, Numbers, rows_of
from tests.conformance.methods import INVALIDATIONS
from tests.conformance.plain_loops import plain_loops
from watersmeet.optimizer.cost.inputs import JoinGraph, StreamRate
from watersmeet.papers.orders.cost_go03 import lazy_cost as go03_lazy_cost

TWO = "SELECT a.v FROM a [RANGE {}], b [RANGE {}] WHERE a.v = b.v OPTIONS (boundary = 'half_open', {})"


def random_rows(rng: np.random.Generator, count: int, span_us: int, values: int) -> tuple[Numbers, Numbers]:
    return np.sort(rng.integers(0, span_us, count)), rng.integers(0, values, count)


# -- exactness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", INVALIDATIONS)
@pytest.mark.parametrize("buckets", [(1, 1), (3, 5), (8, 2)])
@pytest.mark.parametrize("windows", [(40, 40), (5, 90)])
def test_every_count_of_a_two_way_hash_join_is_that_of_a_plain_one(
    strategy: str, buckets: tuple[int, int], windows: tuple[int, int]
) -> None:
    rng = np.random.default_rng(sum(buckets) + windows[0])
    batch = {"a": random_rows(rng, 80, 300, 6), "b": random_rows(rng, 200, 300, 9)}
    options = f"join = 'hash', buckets = 'a:{buckets[0]}, b:{buckets[1]}', invalidate = '{strategy}'"
    drive = Drive(TWO.format(f"{windows[0]} us", f"{windows[1]} us", options), "ab")
    found = drive.push(batch)
    expected = plain_loops(batch, [w - 1 for w in windows], buckets, [strategy] * 2)
    assert drive.work == expected
    assert len(found) == expected["results"]


@pytest.mark.parametrize("strategies", list(product(["probe", "probe_insert", "all"], repeat=3)))
def test_every_count_of_a_three_way_join_is_that_of_a_plain_one(strategies: tuple[str, str, str]) -> None:
    rng = np.random.default_rng(7)
    batch = {name: random_rows(rng, 60, 300, 5) for name in "abc"}
    said = ", ".join(f"{name}: {strategy}" for name, strategy in zip("abc", strategies, strict=True))
    windows = "a [RANGE 40 us], b [RANGE 70 us], c [RANGE 20 us]"
    for join, buckets in (("join = 'nested_loop'", (1, 1, 1)), ("join = 'hash', buckets = 'a:2,b:3,c:4'", (2, 3, 4))):
        drive = Drive(
            f"SELECT a.v FROM {windows} WHERE a.v = b.v AND b.v = c.v "
            f"OPTIONS ({join}, invalidate = '{said}', order = 'c, a, b')",
            "abc",
        )
        drive.push(batch)
        assert drive.work == plain_loops(batch, [40, 70, 20], buckets, strategies, order=(2, 0, 1))


@pytest.mark.parametrize("strategy", INVALIDATIONS)
def test_a_hash_join_with_one_bucket_counts_as_nested_loops_do(strategy: str) -> None:
    rng = np.random.default_rng(3)
    batch = {"a": random_rows(rng, 300, 3000, 10), "b": random_rows(rng, 900, 3000, 10)}
    counts = []
    for join in ("join = 'nested_loop'", "join = 'hash', buckets = 1"):
        drive = Drive(TWO.format("200 us", "100 us", f"{join}, invalidate = '{strategy}'"), "ab")
        results = drive.push(batch)
        counts.append((drive.work, sorted(results)))
    assert counts[0] == counts[1]


def test_one_bucket_costs_a_look_at_each_stale_row_and_at_the_first_live_one() -> None:
    drive = Drive(TWO.format("10 us", "10 us", "join = 'hash', buckets = 1, invalidate = 'probe'"), "ab")
    drive.push({"b": ([0, 1, 2, 50], [1, 1, 1, 1])})
    assert drive.work["invalidation_comparisons"] == 0  # a was empty whenever it was probed
    assert (drive.work["live_held"], drive.work["stale_held"]) == (1, 3)
    drive.push({"a": ([51], [1])})
    assert drive.work["invalidation_comparisons"] == 4
    assert drive.work["invalidated"] == 3
    drive.push({"a": ([52], [1])})
    assert drive.work["invalidation_comparisons"] == 5


def test_rows_that_enter_are_either_held_or_have_left() -> None:
    rng = np.random.default_rng(4)
    for options in ("join = 'hash', buckets = 7", "join = 'nested_loop', expire = '300 us'", "refresh = '100 us'"):
        drive = Drive(TWO.format("200 us", "100 us", options), "ab")
        drive.push({"a": random_rows(rng, 300, 3000, 10), "b": random_rows(rng, 900, 3000, 10)})
        work = drive.work
        assert work["inserted"] == 1200
        assert work["inserted"] - work["invalidated"] == work["live_held"] + work["stale_held"]


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("options", ["join = 'nested_loop'", "join = 'hash', buckets = 3"])
def test_a_count_based_window_holds_exactly_its_rows(rows: int, options: str) -> None:
    """The circular array of GO03: every insertion beyond the count takes the oldest out, and nothing is compared."""
    sql = f"SELECT a.v FROM a [ROWS {rows}], b [ROWS {rows}] WHERE a.v = b.v OPTIONS ({options})"
    rng = np.random.default_rng(rows)
    times = {"a": 2 * np.arange(100), "b": 4 * np.arange(50) + 1}
    drive = Drive(sql, "ab")
    drive.push({name: (t, rng.integers(0, 4, t.size)) for name, t in times.items()})
    work = drive.work
    assert (work["inserted"], work["live_held"], work["stale_held"]) == (150, 2 * rows, 0)
    assert (work["invalidation_comparisons"], work["window_comparisons"]) == (0, 0)
    if "nested" in options:
        met = [min(rows, int((times[other] < t).sum())) for one, other in ("ab", "ba") for t in times[one]]
        assert work["attribute_comparisons"] == work["scanned"] == sum(met)


@pytest.mark.parametrize("output_rows", [1, 3])
@pytest.mark.parametrize(
    "options", ["join = 'hash', buckets = 2048", "join = 'nested_loop'", "refresh = '50 us'", "join = 'naive'"]
)
def test_pieces_of_any_size_make_up_the_same_answer_and_counts(options: str, output_rows: int) -> None:
    rng = np.random.default_rng(8)
    batch = {name: random_rows(rng, 90, 500, 4) for name in "abc"}
    sql = f"SELECT a.v FROM a, b, c WHERE a.v = b.v AND b.v = c.v WINDOW = 40 us OPTIONS ({options})"
    pieces, whole = Drive(sql, "abc", output_rows=output_rows), Drive(sql, "abc")
    assert sorted(pieces.push(batch) + pieces.finish()) == sorted(whole.push(batch) + whole.finish())
    assert pieces.work == whole.work


# -- K05 ---------------------------------------------------------------------------------------------------------------

RATE_A, RATE_B, BUCKETS, LENGTH = 10, 1000, 100, 30


def experiment_8(strategy: str, until_s: int) -> Drive:
    """B a hundred times faster than A, 100 values and buckets, windows of 30 s."""
    options = f"join = 'hash', buckets = {BUCKETS}, invalidate = '{strategy}'"
    drive = Drive(TWO.format(f"{LENGTH} s", f"{LENGTH} s", options), "ab")
    rng = np.random.default_rng(2005)
    batch = {}
    for name, rate in (("a", RATE_A), ("b", RATE_B)):
        times = np.arange(until_s * rate) * (SECOND // rate)
        batch[name] = (times, rng.integers(0, 100, times.size))
    drive.push(batch)
    return drive


def test_stale_rows_build_up_as_k05_says() -> None:
    """The probed side after 58 s. A bucket is probed every 10 s on average, and nothing was stale before 30 s."""
    excess = {strategy: int(experiment_8(strategy, 58).occupancy()[1][1]) for strategy in INVALIDATIONS}
    interval = BUCKETS / RATE_A
    probe_only = RATE_B * interval * (1 - exp(-(58 - LENGTH) / interval))
    assert excess["probe"] == pytest.approx(probe_only, abs=3000)  # three standard deviations
    assert excess["probe_insert"] == pytest.approx(BUCKETS * RATE_B / (RATE_A + RATE_B), abs=45)
    assert excess["probe_all"] == pytest.approx(RATE_B / RATE_A, abs=60)
    assert excess["all"] <= 1


def test_the_strategies_compare_as_often_as_k05s_figure_7_suggests() -> None:
    work = {strategy: experiment_8(strategy, 60).work for strategy in INVALIDATIONS}
    compared = {strategy: one["invalidation_comparisons"] for strategy, one in work.items()}
    assert compared["probe"] == pytest.approx(71_000, rel=0.06)
    assert compared["probe_insert"] == pytest.approx(140_000, rel=0.03)
    assert compared["probe_all"] == pytest.approx(5.0e6, rel=0.06)
    assert compared["all"] == pytest.approx(11.1e6, rel=0.03)
    assert len({one["scanned"] for one in work.values()}) == 1
    assert work["probe"]["scanned"] == pytest.approx(271_000, rel=0.05)


@pytest.mark.parametrize(("join", "buckets"), [("nested_loop", (1, 1)), ("hash", (10, 100)), ("hash", (40, 20))])
def test_scans_follow_equation_2_with_each_sides_buckets(join: str, buckets: tuple[int, int]) -> None:
    rates, lengths, values = (40, 100), (10, 5), 200
    said = f", buckets = 'a:{buckets[0]}, b:{buckets[1]}'" if join == "hash" else ""
    drive = Drive(TWO.format("10 s", "5 s", f"join = '{join}'{said}"), "ab")
    rng = np.random.default_rng(1)
    rows = {}
    for name, rate in zip("ab", rates, strict=True):
        times = np.arange(110 * rate) * (SECOND // rate)
        rows[name] = (times, rng.integers(0, values, times.size))
    drive.push({name: (times[times < 10 * SECOND], v[times < 10 * SECOND]) for name, (times, v) in rows.items()})
    before = drive.work["scanned"]
    drive.push({name: (times[times >= 10 * SECOND], v[times >= 10 * SECOND]) for name, (times, v) in rows.items()})
    per_second = (drive.work["scanned"] - before) / 100
    assert per_second == pytest.approx(scans_per_second(rates, lengths, buckets), rel=0.03)


# -- GO03 --------------------------------------------------------------------------------------------------------------


def test_the_cost_function_gives_the_papers_own_figures() -> None:
    assert eager_cost(TABLE_5, [0, 1, 2, 3]) == 16_000
    assert eager_cost(TABLE_5, [1, 0, 2, 3]) == 19_600
    assert eager_cost(TABLE_6, [1, 0, 2, 3]) == 80_400
    assert eager_cost(TABLE_6, [0, 1, 2, 3]) == 120_000
    assert eager_cost(TABLE_7, [2, 0, 3, 1]) == pytest.approx(47_977, abs=1)
    assert eager_cost(TABLE_7, [2, 3, 0, 1]) == pytest.approx(49_542, abs=1)
    alike = [Window(1, 100, 50)] * 4
    assert eager_cost(alike, range(4)) == 2800
    assert naive_cost(alike, range(4)) == 42_400
    assert lazy_cost(alike, range(4), 1) == pytest.approx(2869, abs=1)


def generated(windows: list[Window], units: int, seed: int) -> dict[str, tuple[Numbers, Numbers]]:
    """GO03's generator: an iteration makes one row of a stream chosen by its rate; Σλ iterations are a unit."""
    rng = np.random.default_rng(seed)
    total = sum(w.rate for w in windows)
    chosen = rng.choice(len(windows), int(units * total), p=[w.rate / total for w in windows])
    times = np.arange(chosen.size)
    return {
        f"s{i + 1}": (times[chosen == i], rng.integers(1, w.distinct + 1, int((chosen == i).sum())))
        for i, w in enumerate(windows)
    }


def measured(windows: list[Window], options: str, units: int, count: str = "attribute_comparisons") -> float:
    """Per unit of time, once all windows are full."""
    total = int(sum(w.rate for w in windows))
    names = [f"s{i + 1}" for i in range(len(windows))]
    sources = ", ".join(f"{n} [RANGE {int(w.length) * total} us]" for n, w in zip(names, windows, strict=True))
    equal = " AND ".join(f"{u}.v = {v}.v" for u, v in pairwise(names))
    drive = Drive(f"SELECT s1.v FROM {sources} WHERE {equal} OPTIONS ({options})", names)
    full = int(max(w.length for w in windows))
    rows = generated(windows, full + units, seed=2003)
    edge = full * total
    drive.push({name: (times[times < edge], v[times < edge]) for name, (times, v) in rows.items()})
    before = drive.work[count]
    for results in drive.join.push_together(
        {name: rows_of(times[times >= edge], v[times >= edge]) for name, (times, v) in rows.items()}
    ):
        assert results.num_rows
    return (drive.work[count] - before) / units


def in_order(order: list[int]) -> str:
    return "order = '" + ", ".join(f"s{i + 1}" for i in order) + "'"


@pytest.mark.parametrize(
    ("windows", "order", "units"),
    [
        (TABLE_5, [0, 1, 2, 3], 3000),
        (TABLE_5, [1, 0, 2, 3], 3000),
        (TABLE_5, [3, 2, 1, 0], 24000),  # few values of many, so it takes long to average out
        (TABLE_6, [1, 0, 2, 3], 1000),
        (TABLE_6, [0, 1, 2, 3], 1000),
        (TABLE_7, [2, 0, 3, 1], 3000),
        (TABLE_7, [1, 0, 2, 3], 3000),
    ],
    ids=["5 best", "5 fifth", "5 worst", "6 best", "6 as given", "7 best", "7 second to first"],
)
def test_eager_loops_cost_what_go03s_formula_says(windows: list[Window], order: list[int], units: int) -> None:
    cost = measured(windows, f"join = 'nested_loop', {in_order(order)}", units)
    assert cost == pytest.approx(eager_cost(windows, order), rel=0.06)


def test_eager_hash_costs_what_go03s_formula_says() -> None:
    windows = [Window(w.rate, w.length, w.distinct, 5) for w in TABLE_5]
    cost = measured(windows, f"join = 'hash', buckets = 5, {in_order([0, 1, 2, 3])}", 3000)
    assert cost == pytest.approx(eager_cost(windows, [0, 1, 2, 3]), rel=0.06)


def test_naive_and_lazy_loops_cost_what_go03s_figures_2_and_3_say() -> None:
    alike = [Window(1, 100, 50)] * 4
    order = range(4)
    assert measured(alike, "join = 'naive'", 2000) == pytest.approx(naive_cost(alike, order), rel=0.08)
    lazy = measured(alike, f"join = 'nested_loop', refresh = '4 us', {in_order([0, 1, 2, 3])}", 4000, "scanned")
    assert lazy == pytest.approx(lazy_cost(alike, order, 1), rel=0.08)


def test_lazy_loops_carry_on_only_what_the_new_row_finds_alive() -> None:
    """Long intervals: 150 rows of each window are scanned, 100 of them carried on."""
    rates = [StreamRate(f"s{i}", 1, 100, 50) for i in range(4)]
    expected = go03_lazy_cost(JoinGraph.on_one_key(rates), [one.name for one in rates], 50, drops_expired=True)
    asked = f"join = 'nested_loop', refresh = '200 us', {in_order([0, 1, 2, 3])}"
    assert measured([Window(1, 100, 50)] * 4, asked, 4000, "scanned") == pytest.approx(expected, rel=0.08)


def test_periodic_expiration_leaves_what_came_since_the_last_pass() -> None:
    """GO03: a pass every τ finds about τλ rows stale, and scans meet them in between."""
    alike = [Window(1, 100, 50)] * 2
    eager = measured(alike, "join = 'nested_loop'", 4000, "scanned")
    passes = measured(alike, "join = 'nested_loop', expire = '80 us'", 4000, "scanned")  # 40 units
    compared = measured(alike, "join = 'nested_loop', expire = '80 us'", 4000)
    assert eager == pytest.approx(2 * 100, rel=0.05)
    assert passes == pytest.approx(2 * (100 + 20), rel=0.05)
    assert compared == eager


# -- the probe ---------------------------------------------------------------------------------------------------------


def test_the_probe_samples_what_is_held_every_so_many_arrivals() -> None:
    sql = TWO.format("30 us", "30 us", "join = 'hash', buckets = 4, invalidate = 'probe'")
    drive, plain = Drive(sql, "ab", probe_every=25), Drive(sql, "ab")
    rng = np.random.default_rng(6)
    for _ in range(3):
        start = drive.now_us + 1
        batch = {name: (start + times, v) for name in "ab" for times, v in [random_rows(rng, 60, 100, 5)]}
        assert sorted(drive.push(batch)) == sorted(plain.push(batch))
    assert drive.join.probe is not None
    samples = drive.join.probe.samples
    assert samples.arrivals.tolist() == list(range(25, 361, 25))
    assert (np.diff(samples.times_us) >= 0).all()
    assert samples.live.shape == samples.stale.shape == (14, 2)
    assert (samples.seconds > 0).all()
    assert samples.held.max() > 0
    assert drive.work == plain.work
