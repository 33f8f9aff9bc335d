"""The cost models give the papers' numbers, and say the same of joins that the papers do not treat."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from tests.conformance import costs
from tests.unit.paper_streams import FIGURE_3B, TABLE_5, TABLE_6, TABLE_7, alike, order, streams
from watersmeet.errors import WatersmeetError
from watersmeet.optimizer.cost.inputs import JoinGraph, Key, StreamRate, Theta
from watersmeet.optimizer.cost.loops import Loops, lazy_loops
from watersmeet.optimizer.join_order import moved_to_front
from watersmeet.papers.orders import cost_go03 as go03
from watersmeet.papers.orders import cost_k05 as k05
from watersmeet.papers.orders.best_orders import best_lazy_orders, best_naive_order
from watersmeet.papers.pipelines import cost as h04
from watersmeet.plan.options import INVALIDATIONS

# ---- GO03 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "digits", "cost"),
    [
        (TABLE_5, "1234", 16000),
        (TABLE_5, "2134", 19600),
        (TABLE_5, "4321", 86850),
        (TABLE_6, "2134", 80400),
        (TABLE_6, "2314", 123150),
        (TABLE_6, "2341", 248450),
        (TABLE_6, "1234", 120000),
        (TABLE_6, "4312", 646050),
        (TABLE_7, "3412", 49542.31),
        (TABLE_7, "3142", 47976.92),
        (TABLE_7, "4132", 47976.92),
        (TABLE_7, "3124", 51953.85),
        (TABLE_7, "1234", 68200),
        (TABLE_7, "2134", 79000),
    ],
)
def test_orders_cost_what_tables_5_6_and_7_of_go03_say(graph: JoinGraph, digits: str, cost: float) -> None:
    assert go03.eager_cost(graph, order(digits)) == pytest.approx(cost, abs=0.005)


@pytest.mark.parametrize(("graph", "mean"), [(TABLE_5, 45325), (TABLE_6, 279400), (TABLE_7, 63361.54)])
def test_the_mean_over_all_orders_is_that_of_go03(graph: JoinGraph, mean: float) -> None:
    costs = [go03.eager_cost(graph, every) for every in permutations(graph.names)]
    assert sum(costs) / 24 == pytest.approx(mean, abs=0.005)


@pytest.mark.parametrize(
    ("graph", "digits", "by_origin"),
    [
        (TABLE_5, "1234", (3800, 3800, 2400, 6000)),
        (TABLE_6, "2134", (22500, 22500, 12600, 22800)),
        (TABLE_7, "3142", (10111.54, 17500, 10111.54, 10253.85)),
    ],
)
def test_each_origin_has_its_share_of_the_cost(graph: JoinGraph, digits: str, by_origin: tuple[float, ...]) -> None:
    eager, chosen = go03.Eager(graph), order(digits)
    shares = [eager.of_origin(name, moved_to_front(chosen, name)) for name in graph.names]
    assert shares == pytest.approx(by_origin, abs=0.005)


@pytest.mark.parametrize(
    ("graph", "sizes"),
    [
        (TABLE_5, {"12": 200, "13": 400, "14": 600, "23": 400, "24": 600, "34": 1500}),
        (TABLE_6, {"12": 5000, "13": 5000, "14": 15000, "23": 50, "24": 150, "34": 1500}),
        (TABLE_7, {"34": 153.85, "13": 550, "14": 550, "23": 1000, "24": 1000, "12": 5500}),
    ],
)
def test_binary_joins_have_the_sizes_of_go03(graph: JoinGraph, sizes: dict[str, float]) -> None:
    windows = Loops(graph, None)
    for (m, n), size in sizes.items():
        one, other = graph.streams[int(m) - 1], graph.streams[int(n) - 1]
        assert go03.join_size(one, other) == pytest.approx(size, abs=0.005)
        assert windows.rows(1 << int(m) - 1 | 1 << int(n) - 1) == pytest.approx(size, abs=0.005)


@pytest.mark.parametrize(
    ("count", "eager", "naive"),
    [
        (2, 200, 200),
        (3, 900, 10800),
        (4, 2800, 42400),
        (5, 7500, 116400),
        (6, 18600, 276000),
        (7, 44100, 608400),
    ],
)
def test_eager_joins_of_more_and_more_windows_cost_what_figure_2_shows(count: int, eager: float, naive: float) -> None:
    graph = alike(count)
    assert go03.eager_cost(graph, graph.names) == pytest.approx(eager) == count * 100 * (2 ** (count - 1) - 1)
    assert go03.naive_eager_cost(graph, graph.names) == pytest.approx(naive)


@pytest.mark.parametrize(("interval", "lazy", "naive"), [(1, 2869, 43471), (10, 3538, 8158), (50, 7800, 9300)])
def test_lazy_joins_of_equal_streams_cost_what_figure_3a_shows(interval: float, lazy: float, naive: float) -> None:
    graph = alike(4)
    general = go03.general_lazy_cost(graph, best_lazy_orders(graph, interval), interval)
    assert round(go03.lazy_cost(graph, graph.names, interval)) == lazy
    assert round(go03.naive_lazy_cost(graph, graph.names, interval)) == naive
    assert general == pytest.approx(go03.lazy_cost(graph, graph.names, interval))


def lazy_costs(interval: float) -> tuple[float, float, float]:
    """The best of GENERAL, NAIVE and LAZY for Figure 3b."""
    general = go03.general_lazy_cost(FIGURE_3B, best_lazy_orders(FIGURE_3B, interval), interval)
    naive = go03.naive_lazy_cost(FIGURE_3B, best_naive_order(FIGURE_3B, interval), interval)
    lazy = min(go03.lazy_cost(FIGURE_3B, every, interval) for every in permutations(FIGURE_3B.names))
    return general, naive, lazy


def test_lazy_joins_with_a_fast_stream_cost_what_figure_3b_shows() -> None:
    assert lazy_costs(50) == pytest.approx((57600, 57900, 61800))


def test_new_rows_of_a_fast_stream_are_best_bound_last_once_they_are_many() -> None:
    """Figure 3b: from τ = 11.1 on, where λ_1 (T + τ) < λ_4 τ."""
    for interval, parted in ((1, False), (11, False), (11.2, True), (50, True)):
        general, _, lazy = lazy_costs(interval)
        assert (general < lazy * (1 - 1e-9)) is parted
        if parted:
            assert best_lazy_orders(FIGURE_3B, interval)["S4"][-1] == "S4"


def test_naive_beats_lazy_from_an_interval_of_15_on_in_figure_3b() -> None:
    def naive_wins(interval: float) -> bool:
        _, naive, lazy = lazy_costs(interval)
        return naive < lazy

    assert [naive_wins(interval) for interval in (5, 14, 16, 50)] == [False, False, True, True]


def test_expired_rows_that_the_new_row_drops_are_scanned_but_not_carried_on() -> None:
    """By hand, τ = 50, per batch of 500 rows of S4: 150 rows are looked at in each window, 100 of them are live."""
    loops = lazy_loops(FIGURE_3B, "S4", 50, drops_expired=True)
    costs = [loops.cost(order(one)) for one in ("4123", "1234")]
    assert costs[0] == pytest.approx(500 * 150 * (1 + 100 / 50 + (100 / 50) ** 2))
    # Bound last, it can drop nothing before: all that was held has been carried to it.
    assert costs[1] == pytest.approx(150 * 150 + 450 * 150 + 1350 * 500)


def test_the_first_two_loops_of_a_lazy_join_may_change_places() -> None:
    there, back = dict.fromkeys(TABLE_5.names, order("1234")), dict.fromkeys(TABLE_5.names, order("2134"))
    costs = [go03.general_lazy_cost(TABLE_5, orders, 7) for orders in (there, back)]
    assert costs[0] == pytest.approx(costs[1])


def test_buckets_shorten_scans_but_not_what_is_carried_on() -> None:
    def hashed(graph: JoinGraph, buckets: int) -> JoinGraph:
        return replace(graph, streams=tuple(replace(one, buckets=buckets) for one in graph.streams))

    assert go03.eager_cost(hashed(TABLE_5, 5), order("1234")) == pytest.approx(16000 / 5)
    assert go03.eager_cost(hashed(alike(4), 10), alike(4).names) == pytest.approx(280)


def test_one_index_makes_one_loop_shorter() -> None:
    """S1 of Table 5 with ten buckets: origins S2, S3 and S4 scan 100 of its rows instead of 1000."""
    s1, *others = TABLE_5.streams
    hybrid = JoinGraph((replace(s1, buckets=10), *others), TABLE_5.keys)
    assert go03.eager_cost(hybrid, order("1234")) == pytest.approx(16000 - 900 * (1 + 1 + 3))


def test_expiry_costs_its_rows_and_a_look_at_every_bucket_for_each_pass() -> None:
    rates = [StreamRate("a", 10, 100, buckets=4), StreamRate("b", 1, 100, buckets=6)]
    assert go03.expiration_cost(rates, interval=5) == 11 + 10 / 5
    assert go03.expiration_cost(rates) == 11 + 11 * 10
    assert go03.stale_rows(rates[0], 5) == 50


def test_the_model_over_sets_is_the_running_product_of_go03() -> None:
    """Against the formula as printed, on random streams with buckets."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        drawn = [(*rng.uniform(0.1, 50, 2), int(v)) for v in rng.integers(10, 300, rng.integers(2, 6))]
        graph = streams(*drawn)
        indexed = replace(graph, streams=tuple(replace(one, buckets=int(rng.integers(1, 10))) for one in graph.streams))
        windows = [costs.Window(one.rate, one.window, int(one.distinct), one.buckets) for one in indexed.streams]
        positions = [int(position) for position in rng.permutation(len(windows))]
        chosen = [graph.names[position] for position in positions]
        assert go03.eager_cost(indexed, chosen) == pytest.approx(costs.eager_cost(windows, positions))
        assert go03.naive_eager_cost(graph, chosen) == pytest.approx(costs.naive_cost(windows, positions))
        assert go03.lazy_cost(graph, chosen, 2.5) == pytest.approx(costs.lazy_cost(windows, positions, 2.5))


# ---- K05 ------------------------------------------------------------------------------------------------------------

SCANS = k05.UnitCosts(0, 0, 1)


def test_both_sides_of_a_hash_join_have_their_own_buckets() -> None:
    a, b = StreamRate("a", 10, 30, buckets=10), StreamRate("b", 10, 30, buckets=100)
    assert k05.whj_cost(a, b, SCANS) == pytest.approx(330)
    assert k05.whj_cost_as_printed(a, b, SCANS) == pytest.approx(60)
    assert k05.whj_cost(b, a, SCANS) == pytest.approx(330)


def test_a_hash_join_of_one_bucket_is_a_nested_loop_join() -> None:
    a, b, unit = StreamRate("a", 7, 20), StreamRate("b", 3, 50), k05.UnitCosts(0.5, 2, 3)
    assert k05.whj_cost(a, b, unit) == pytest.approx(k05.wnl_cost(a, b, unit)) == 10 * 2.5 + 21 * 70 * 3


def test_the_halves_add_up_to_the_whole() -> None:
    a, b = StreamRate("a", 7, 20, 40, buckets=9), StreamRate("b", 3, 50, 60, buckets=80)
    unit = k05.UnitCosts(0.5, 2, 3)
    assert k05.whj_half_cost(a, b, unit) + k05.whj_half_cost(b, a, unit) == pytest.approx(k05.whj_cost(a, b, unit))


def test_buckets_beyond_the_number_of_join_values_gain_nothing() -> None:
    def cost(buckets: int) -> float:
        one = StreamRate("a", 10, 30, distinct=100, buckets=buckets)
        return k05.whj_cost(one, replace(one, name="b"), SCANS)

    assert cost(50) == 2 * cost(100)
    assert cost(100) == cost(1000)


def test_k05_and_go03_agree_on_two_streams() -> None:
    a, b = StreamRate("a", 7, 20, 40, buckets=9), StreamRate("b", 3, 50, 60, buckets=80)
    assert go03.eager_cost(JoinGraph.on_one_key([a, b]), "ab") == pytest.approx(k05.whj_cost(a, b, SCANS))


def test_a_probe_scans_as_many_rows_as_share_its_bucket() -> None:
    """Counted on values 0 to v - 1, hashed by the remainder: each pair of rows in one bucket is one comparison."""
    for v, w, buckets in ((40, 60, 4), (10, 60, 20), (60, 10, 20), (12, 12, 50)):
        in_one_bucket = sum(a % buckets == b % buckets for a in range(v) for b in range(w))
        a, b = StreamRate("a", 1, 1, v), StreamRate("b", 1, 1, w, buckets)
        assert 1 / k05.useful_buckets(b, a) == pytest.approx(in_one_bucket / (v * w))
        assert Loops(JoinGraph.on_one_key([a, b]), "a").scanned(0b01, 1) == pytest.approx(in_one_bucket / (v * w))


def test_stale_rows_gather_as_k05_predicts() -> None:
    slow, fast = StreamRate("a", 10, 30, buckets=100), StreamRate("b", 1000, 30, buckets=100)
    in_table = {strategy: round(k05.stale_in_table(strategy, slow, fast)) for strategy in INVALIDATIONS}
    assert in_table == {"probe": 10_000, "probe_insert": 99, "probe_all": 100, "all": 1}
    assert k05.stale_per_bucket("probe", slow, fast) == pytest.approx(100)
    assert k05.rows_stored("probe", slow, fast) == pytest.approx(40_000)


def test_looking_into_every_bucket_costs_more_the_more_there_are() -> None:
    a, b = StreamRate("a", 10, 30, buckets=100), StreamRate("b", 1000, 30, buckets=100)
    costs = {strategy: k05.invalidation_comparisons(strategy, a, b) for strategy in INVALIDATIONS}
    assert costs["probe"] < costs["probe_insert"] < 2 * costs["probe"] < costs["probe_all"] < costs["all"]
    one_bucket = [replace(one, buckets=1) for one in (a, b)]
    assert len({k05.invalidation_comparisons(strategy, *one_bucket) for strategy in ("probe", "probe_all")}) == 1


def test_an_unknown_invalidation_is_refused_with_those_there_are() -> None:
    a = StreamRate("a", 1, 1)
    with pytest.raises(WatersmeetError, match="'sometimes' is unknown; it may be probe, probe_insert, probe_all, all"):
        k05.stale_in_table("sometimes", a, a)


# ---- H04 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "output"), [(0.5, 0.463), (2, 1.413), (10, 2.549), (50, 2.600)])
def test_distinct_gives_rows_at_the_rate_of_h04(rate: float, output: float) -> None:
    assert h04.distinct_output_rate(StreamRate("s", rate, 10, 26)) == pytest.approx(output, abs=0.0005)


def test_distinct_rows_of_a_window_follow_eq_1_of_h04() -> None:
    assert h04.distinct_in_window(26, 26) == pytest.approx(16.62, abs=0.005)
    assert h04.distinct_in_window(26, 0) == 0
    assert h04.distinct_in_window(26, 10_000) == pytest.approx(26)


def test_distinct_gives_fewer_rows_the_longer_the_window() -> None:
    rates = [h04.distinct_output_rate(StreamRate("s", 10, window, 26)) for window in (1, 5, 10, 100)]
    assert rates == sorted(rates, reverse=True)


def test_minus_keeps_rows_and_counts_of_both_sides_and_its_output() -> None:
    stream = StreamRate("s", 2.6, 10, 26, buckets=4)
    assert h04.minus_space(stream) == pytest.approx(2 * (26 + 16.62) + 26, abs=0.02)
    assert h04.counts_per_bucket(stream) == pytest.approx(16.62 / 4, abs=0.005)


def test_probing_looks_at_few_with_one_window_and_at_all_with_two() -> None:
    """H04, Figure 10: Q1 to Q4 have one window, Q5 has two."""
    sales, stores = (StreamRate(name, 20, window, distinct=100) for name, window in (("sales", 60), ("stores", 30)))
    alike = StreamRate("stores", 20, 60, distinct=100)
    assert h04.tpa_expiry_cost([sales]) == 2 * h04.nta_expiry_cost([sales])
    assert h04.tpa_expiry_cost([sales, alike]) == 2 * h04.nta_expiry_cost([sales, alike])
    assert h04.tpa_expiry_cost([sales, stores]) > 1000 * h04.nta_expiry_cost([sales, stores])


# ---- beyond the papers ----------------------------------------------------------------------------------------------


def test_skewed_keys_match_as_often_as_their_frequencies_say() -> None:
    weights = 1 / np.arange(1, 51)
    zipf = tuple(weights / weights.sum())
    skewed = Key({"c": 20}, {"a": zipf, "b": zipf})
    assert skewed.matching("ab") == pytest.approx(sum(p * p for p in zipf))
    assert skewed.matching("abc") == pytest.approx(sum(p * p / 20 for p in zipf[:20]))
    assert skewed.matching("ab") > 3 * Key({"a": 50, "b": 50}).matching("ab")


def test_equal_frequencies_are_what_distinct_counts_assume() -> None:
    counts = {one.name: one.distinct for one in TABLE_5.streams}
    measured = Key(frequencies={name: (1 / v,) * int(v) for name, v in counts.items()})
    for chosen in ("12", "34", "134", "1234"):
        assert measured.matching(order(chosen)) == pytest.approx(Key(counts).matching(order(chosen)))
    graph = JoinGraph(TABLE_5.streams, (measured,))
    assert go03.eager_cost(graph, order("1234")) == pytest.approx(16000)


def test_streams_equal_on_several_attributes_match_more_rarely() -> None:
    a, b = StreamRate("a", 1, 100), StreamRate("b", 1, 100)
    both = JoinGraph((a, b), (Key({"a": 10, "b": 10}), Key({"a": 4, "b": 5})))
    assert Loops(both, "a").rows(0b11) == pytest.approx(100 / 10 / 5)


def test_a_chain_of_keys_carries_the_rows_of_each_edge() -> None:
    """clicks - orders by visitor, orders - payments by order; a new payment meets one order, then its clicks."""
    graph = JoinGraph(
        (StreamRate("c", 100, 300), StreamRate("o", 10, 600), StreamRate("p", 9, 600)),
        (Key({"c": 1000, "o": 1000}), Key({"o": 6000, "p": 6000})),
    )
    loops = Loops(graph, "p")
    assert loops.rows(0b110) == pytest.approx(6000 / 6000)
    assert loops.cost("poc") == pytest.approx(6000 + 1 * 30000)
    assert loops.cost("pco") == pytest.approx(30000 + 30000 * 6000)


def test_a_theta_predicate_thins_what_is_carried_on() -> None:
    streams_ = (StreamRate("a", 1, 10), StreamRate("b", 1, 20), StreamRate("c", 1, 30))
    graph = JoinGraph(streams_, thetas=(Theta(frozenset("ab"), 0.25), Theta(frozenset("abc"), 0.1)))
    assert Loops(graph, "a").cost("abc") == 20 + 20 * 0.25 * 30
    assert Loops(graph, "a").rows(0b111) == pytest.approx(20 * 0.25 * 30 * 0.1)


def test_an_expensive_test_waits_for_the_cheap_one() -> None:
    streams_ = (StreamRate("a", 1, 10), StreamRate("b", 1, 20))
    graph = JoinGraph(streams_, (Key({"a": 5, "b": 5}),), (Theta(frozenset("ab"), 0.5, cost=100),))
    assert Loops(graph, "a").cost("ab") == pytest.approx(20 * 1 + 20 / 5 * 100)


def test_rows_found_by_a_bucket_all_reach_the_next_test() -> None:
    indexed = (StreamRate("a", 1, 10), StreamRate("b", 1, 20, buckets=100))
    graph = JoinGraph(indexed, (Key({"a": 5, "b": 5}),), (Theta(frozenset("ab"), 0.5, cost=100),))
    assert Loops(graph, "a").cost("ab") == pytest.approx(20 / 5 * (1 + 100))


def test_a_bound_on_time_narrows_what_is_scanned() -> None:
    """DWINDOW (c, o) = 5 and (o, p) = 10: a new p meets 10 units of o, each of which meets 5 of c, not 15."""
    bounds = {("c", "o"): 5, ("o", "c"): 0, ("o", "p"): 10, ("p", "o"): 0, ("c", "p"): 15, ("p", "c"): 0}
    graph = JoinGraph((StreamRate("c", 4, 15), StreamRate("o", 3, 10), StreamRate("p", 1, 0)), bounds=bounds)
    loops = Loops(graph, "p")
    assert loops.scanned(0b100, 0) == 4 * 15
    assert loops.scanned(0b110, 0) == 4 * 5
    assert loops.rows(0b111) == 3 * 10 * 4 * 5
    assert loops.cost("poc") == 30 + 30 * 20


def test_combinations_within_bounds_are_counted_right_for_chains_and_not_below_for_others() -> None:
    """Against times drawn at random: a new row at 0, the others before it."""
    draws = np.random.default_rng(7).uniform(-15, 0, size=(2, 200_000))
    c, o = draws
    chain = (o >= -10) & (o - c >= 0) & (o - c <= 5)
    either_side = (o >= -10) & (np.abs(o - c) <= 5)
    rates = (StreamRate("c", 1, 15), StreamRate("o", 1, 10), StreamRate("p", 1, 0))
    to_p = {("o", "p"): 10, ("c", "p"): 15}
    for fits, back, exact in ((chain, 0, True), (either_side, 5, False)):
        bounds = {("c", "o"): 5, ("o", "c"): back}
        drawn = fits.mean() * 15 * 15
        estimate = Loops(JoinGraph(rates, bounds={**bounds, **to_p}), "p").rows(0b111)
        assert drawn <= estimate * 1.02
        assert estimate <= drawn * (1.02 if exact else 1.5)


def test_a_wide_bound_changes_nothing() -> None:
    bounds = dict.fromkeys(permutations(TABLE_5.names, 2), 1000.0)
    assert go03.eager_cost(replace(TABLE_5, bounds=bounds), order("1234")) == pytest.approx(16000)


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StreamRate("s", -1, 10), "the rate of s is -1; it must be zero or more"),
        (lambda: StreamRate("s", 1, 10, distinct=0), "the distinct count of s is 0; it must be at least 1"),
        (lambda: StreamRate("s", 1, 10, buckets=0), "the number of buckets of s is 0"),
        (lambda: streams((1, 10, math.inf), (1, 10, 5)), "the distinct count of S1 is inf"),
        (lambda: Key(frequencies={"s": (0.5, 0.4)}), "the sum of frequencies of s is 0.9; it must be 1"),
        (lambda: Theta(frozenset("ab"), 1.5), "a selectivity is 1.5; it must be between 0 and 1"),
        (lambda: JoinGraph((StreamRate("a", 1, 1),) * 2), "stream a is given twice"),
        (lambda: JoinGraph((StreamRate("a", 1, 1),), (Key({"b": 3}),)), "names b, which is none of the streams a"),
        (lambda: go03.eager_cost(TABLE_5, order("123")), "does not name each of the streams S1, S2, S3, S4 once"),
        (lambda: go03.lazy_cost(TABLE_5, order("1234"), 0), "the interval of lazy evaluation is 0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(make, message: str) -> None:
    with pytest.raises(WatersmeetError, match=message):
        make()
