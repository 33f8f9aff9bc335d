"""From a query to numbers to routes: what is known of streams decides how they are joined, and when that changes."""

from __future__ import annotations

import itertools
import json
import logging
import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.plans import golden_catalog
from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.model.catalog import Catalog, Statistics, Stream
from watersmeet.model.hints import parse_distinct, parse_rate
from watersmeet.optimizer.cost.inputs import JoinGraph, StreamRate
from watersmeet.optimizer.cost.walk import PROBE_NS
from watersmeet.optimizer.describe import Description
from watersmeet.optimizer.estimate_join import COMPARED_ROW_NS, busy_ns, estimate_join
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.optimizer.replan import Replanner
from watersmeet.optimizer.stages import optimize
from watersmeet.papers.joins.settings import best_expiration, share_buckets
from watersmeet.physical.strategy import InputStatistics, JoinStrategy
from watersmeet.plan.nodes import Join, Project
from watersmeet.plan.query import Plan
from watersmeet.runtime.script import read_script
from watersmeet.session import Query
from watersmeet.sql import bind

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("ts", pa.timestamp("us"))])
TRIANGLE = """
    SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS]
    WHERE a.k = b.k AND b.x = c.x AND c.y = a.y
"""
CHAIN = "SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS] WHERE a.k = b.k AND b.x = c.x"


def catalog(**rates: float) -> Catalog:
    made = Catalog()
    for name, rate in rates.items():
        made.add(Stream(name, SCHEMA, "ts", statistics=Statistics(rate, distinct={"k": 1000, "x": 1000, "y": 1000})))
    return made


def strategy_of(plan: Plan) -> JoinStrategy:
    return plan_query(plan).strategy


def strategy(sql: str, **rates: float) -> JoinStrategy:
    return strategy_of(bind(sql, catalog(**rates)))


def measured(strategy: JoinStrategy, **rates: float) -> dict[str, InputStatistics]:
    return {
        alias: InputStatistics(rate, rate * 10, dict.fromkeys(strategy.stored_codes(alias), 1000.0))
        for alias, rate in rates.items()
    }


# ---- hints ----


@pytest.mark.parametrize("text", ["fast", "0/s", "-3", "10 per fortnight", "nan", "1e999"])
def test_a_rate_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"rate|unit|interval"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["k", "k: many", "k: 0", ": 5"])
def test_a_number_of_values_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="number of values"):
        parse_distinct(text)


def test_hints_of_create_stream_reach_the_plan(tmp_path):
    from watersmeet.runtime.script import read_script

    text = """
        CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = '120/min', distinct = 'K: 50');
        CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = '30');
        SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k;
    """
    (job,) = read_script(text, open_sources=False)
    told = json.loads(Query(job.plan).explain(format="json"))["estimate"]
    assert told["inputs"]["a"]["rate"] == 2.0
    assert told["inputs"]["b"]["rows"] == 300.0
    assert told["distinct"] == {"a.k": 50.0, "b.k": 50.0}
    assert {one["known"] for one in told["inputs"].values()} == {"declared"}


@pytest.mark.parametrize("hint", ["rate = 'fast'", "distinct = 'k'", "distinct = 'nothing: 5'"])
def test_a_wrong_hint_is_named_with_what_would_do(hint):
    from watersmeet.runtime.script import read_script

    with pytest.raises(WatersmeetError) as refused:
        read_script(f"CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', {hint});", open_sources=False)
    assert hint.split()[0] in str(refused.value)


def test_rows_kept_are_measured_or_declared_and_only_costs_assume_any():
    sql = "SELECT a.k FROM a [RANGE 10 SECONDS], b [ROWS 7], c [RANGE 10 SECONDS] WHERE a.k = b.k AND b.x = c.x"
    given = catalog(a=20, b=5)
    given.add(Stream("c", SCHEMA, "ts"))
    told = strategy_of(bind(sql, given))
    assert told.rows_kept == {"a": 200.0, "b": 7, "c": None}
    assert Description(told).rows == {"a": 200.0, "b": 7.0, "c": 125.0}  # as fast as the others in the mean
    seen = optimize(told.join, told.method, measured(told, a=3, c=4))
    assert seen.rows_kept == {"a": 30, "b": 7, "c": 40}


# ---- orders ----


def cost_of(strategy: JoinStrategy, orders: str) -> float:
    sql_orders = bind(TRIANGLE + f" OPTIONS (order = '{orders}')", catalog(a=1, b=1, c=1)).method
    fixed = optimize(strategy.join, sql_orders, strategy.measured)
    return busy_ns(fixed, Description(strategy))


@pytest.mark.parametrize("rates", list(itertools.permutations((10.0, 500.0, 20_000.0))))
def test_the_chosen_routes_are_the_cheapest_of_all(rates):
    chosen = strategy(TRIANGLE, **dict(zip("abc", rates, strict=True)))
    ways = itertools.product(*(itertools.permutations(o + "".join(set("abc") - {o}), 3) for o in "abc"))
    orders = [
        "; ".join(f"{way[0]}: {','.join(way)}" for way in one) for one in ways if [w[0] for w in one] == list("abc")
    ]
    best = min(cost_of(chosen, order) for order in orders)
    assert busy_ns(chosen, Description(chosen)) == pytest.approx(best)


def test_new_rows_go_to_the_sparse_stream_first():
    assert strategy(TRIANGLE, a=10_000, b=1_000, c=10).route("b").visits == ("b", "c", "a")
    assert strategy(TRIANGLE, a=10, b=1_000, c=10_000).route("b").visits == ("b", "a", "c")


def test_six_streams_are_planned_in_fifty_milliseconds():
    aliases = [f"s{i}" for i in range(6)]
    sources = ", ".join(f"{one} [RANGE 10 SECONDS]" for one in aliases)
    equal = " AND ".join(
        f"{a}.{'kx'[i % 2]} = {b}.{'kx'[i % 2]}" for i, (a, b) in enumerate(itertools.pairwise(aliases))
    )
    plan = bind(f"SELECT s0.k FROM {sources} WHERE {equal}", catalog(**{one: 10.0**i for i, one in enumerate(aliases)}))
    assert isinstance(plan.root, Project)
    assert isinstance(plan.root.child, Join)
    spent = []
    for _ in range(5):
        started = time.perf_counter()
        optimize(plan.root.child)
        spent.append(time.perf_counter() - started)
    assert min(spent) < 0.05


def test_estimates_name_the_orders_considered_and_none_is_cheaper():
    estimate = estimate_join(strategy(TRIANGLE, a=10_000, b=1_000, c=10))
    assert estimate is not None
    names = [one.name for one in estimate.alternatives]
    assert any(name.startswith("one order") for name in names)
    assert any(name.startswith("as written: a, b, c") for name in names)
    assert all(one.busy_ns >= estimate.busy_ns * 0.999 for one in estimate.alternatives)
    dearest = next(one for one in estimate.alternatives if one.name == "the dearest orders")
    assert dearest.busy_ns > estimate.busy_ns


# ---- settings of the papers' joins ----


def test_buckets_are_shared_out_so_that_no_move_of_one_helps():
    from watersmeet.optimizer.join_order import best_local_orders
    from watersmeet.papers.joins.settings import _cost

    graph = JoinGraph.on_one_key(StreamRate(n, r, 100, 50) for n, r in zip("abcd", (1, 1, 1, 50), strict=True))
    shares = share_buckets(graph, 33)
    assert sum(shares.values()) == 33
    orders = best_local_orders(graph)
    least = min(_cost(graph, orders, shares), _cost(graph, orders, dict.fromkeys("abcd", 8)))
    assert _cost(graph, orders, shares) == least
    assert shares["d"] == max(shares.values())


def test_more_buckets_make_longer_intervals_between_passes_best():
    intervals = [
        best_expiration(JoinGraph.on_one_key(StreamRate(n, 1, 100, 50, buckets=b) for n in "abcd"))
        for b in (1, 2, 10, 30)
    ]
    assert intervals == sorted(intervals)
    assert intervals[0] < intervals[-1]


def test_a_total_of_buckets_and_an_automatic_expiry_run_like_any_other():
    session = two_streams()
    sql = "SELECT a.k, b.x FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k"
    plain = session.sql(sql).to_arrow()
    chosen = session.sql(sql + " OPTIONS (join = 'hash', buckets = 'total 20', expire = 'auto')")
    assert sorted(map(str, chosen.to_arrow().to_pylist())) == sorted(map(str, plain.to_pylist()))
    buckets = json.loads(chosen.explain(format="json"))["join"]["inputs"]
    assert sum(one["buckets"] for one in buckets.values()) == 20


def two_streams(rows: int = 3000, values: int = 40) -> wm.Session:
    rng = np.random.default_rng(3)
    session = wm.Session()
    for name in "abc":
        columns = {column: rng.integers(0, values, rows) for column in "kxy"}
        times = np.sort(rng.integers(0, 20_000_000, rows))
        session.stream(name, pa.table({**columns, "ts": pa.array(times, pa.timestamp("us"))}), time="ts")
    return session


# ---- change ----


def test_a_plan_changes_when_rates_do_and_says_so(caplog):
    before = strategy(TRIANGLE, a=10_000, b=1_000, c=10)
    planner = Replanner(before)
    with caplog.at_level(logging.INFO, logger="watersmeet.optimizer"):
        better = planner.consider(measured(before, a=10, b=1_000, c=10_000), 5)
    assert better is not None
    after, switch = better
    assert after.route("b").visits == ("b", "a", "c")
    assert switch.before_ns > 1.2 * switch.after_ns
    assert "b, a, c (was b, c, a)" in caplog.text


def test_a_plan_does_not_change_for_a_small_gain():
    before = strategy(TRIANGLE, a=1_000, b=1_000, c=950)
    assert Replanner(before).consider(measured(before, a=950, b=1_000, c=1_000), 5) is None


def test_no_search_is_made_while_the_numbers_stay():
    before = strategy(TRIANGLE, a=10_000, b=1_000, c=10)
    planner = Replanner(before)
    numbers = measured(before, a=10_000, b=1_000, c=10)
    planner.consider(numbers, 1)
    looked = planner._looked_at
    planner.consider(measured(before, a=11_000, b=1_000, c=10), 2)
    assert planner._looked_at is looked


def test_numbers_that_wobble_around_a_good_plan_are_looked_at_more_rarely_until_it_changes():
    before = strategy(TRIANGLE, a=10_000, b=1_000, c=10)
    planner = Replanner(before)

    def looks(a: float, c: float) -> bool:
        before_us = planner._looked_at
        planner.consider(measured(before, a=a, b=1_000, c=c), 1)
        return planner._looked_at is not before_us

    looked_at = [looks(10_000 * (1.5 if turn % 2 else 1), 10) for turn in range(10)]
    assert looked_at == [True] + 9 * [False]
    assert looks(10, 10_000)
    assert planner.strategy is not before
    assert looks(10, 15_000)


def test_orders_that_were_asked_for_stay():
    asked = bind(TRIANGLE + " OPTIONS (order = 'a, b, c')", catalog(a=1.0, b=2.0, c=3.0))
    assert not strategy_of(asked).is_flexible


ORDERS_AND_ITEMS = """
CREATE STREAM orders (id BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = '10/s'{});
CREATE STREAM items (order_id BIGINT, sku BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = '100/s');
CREATE STREAM offers (sku BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = '20/s', distinct = 'sku: 100');
SELECT o.id FROM orders o [RANGE 10 SECONDS], items i [RANGE 10 SECONDS], offers f [RANGE 10 SECONDS]
WHERE o.id = i.order_id AND i.sku = f.sku;
"""


def orders_and_items(hint: str) -> Plan:
    (job,) = read_script(ORDERS_AND_ITEMS.format(hint), open_sources=False)
    return job.plan


def test_a_declared_key_tells_how_many_rows_refer_to_a_row():
    """An order finds its ten items, where nothing is known one."""

    def items_of_an_order(hint: str) -> float:
        estimate = estimate_join(strategy_of(orders_and_items(hint)))
        assert estimate is not None
        (route,) = [route for route in estimate.routes if route.origin == "o"]
        return route.steps[0].carried

    assert items_of_an_order(", unique = 'ID'") == pytest.approx(10)
    assert items_of_an_order("") == pytest.approx(1)


def test_explain_names_the_keys_that_are_declared_unique():
    told = "o.id is declared unique: a row finds at most one partner by it"
    assert told in Query(orders_and_items(", unique = 'id'")).explain()
    assert "unique" not in Query(orders_and_items("")).explain()


def test_a_key_that_is_not_unique_is_told_and_changes_no_answer():
    session, plain = two_streams(), two_streams()
    sql = "SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"
    session.stream("a", plain.catalog.find("a").source.table, time="ts", unique="k", replace=True)
    assert session.sql(sql).to_arrow().num_rows == plain.sql(sql).to_arrow().num_rows
    told = r"a\.k is declared unique, but has about 4\d[.\d]* values in 1,\d00 rows: it is not"
    assert re.search(told, session.sql(sql).explain(analyze=True))


def test_a_unique_column_that_is_none_is_refused():
    with pytest.raises(WatersmeetError, match="unique names column 'no', which 'orders' does not have"):
        orders_and_items(", unique = 'no'")


@pytest.mark.parametrize(
    ("rule", "of_b"),
    [("size", "bca"), ("selectivity", "bca"), ("augmented", "bca"), ("hybrid", "bca"), ("greedy", "bca")],
)
def test_a_rule_finds_the_order_and_finds_another_when_rates_change(rule: str, of_b: str) -> None:
    """GO03, 5.4: the rule is applied again when rates move beyond a threshold."""
    before = strategy(f"{TRIANGLE} OPTIONS (order = '{rule}')", a=10_000, b=1_000, c=10)
    assert before.route("b").visits == tuple(of_b)
    assert before.is_flexible
    better = Replanner(before).consider(measured(before, a=10, b=1_000, c=10_000), 5)
    assert better is not None
    assert better[0].route("b").visits == ("b", "a", "c")


def test_a_query_names_the_streams_that_fluctuate_and_explain_says_so() -> None:
    usual = strategy(f"{TRIANGLE} OPTIONS (order = 'selectivity')", a=10_000, b=1_000, c=10)
    made = strategy(f"{TRIANGLE} OPTIONS (order = 'volatile(a)')", a=10_000, b=1_000, c=10)
    assert usual.route("b").visits == ("b", "c", "a")
    assert made.route("b").visits == ("b", "a", "c")
    assert made.method.order_rule is not None
    assert made.method.order_rule.name == "volatile(a)"
    with pytest.raises(OptionError, match=r"order = 'volatile.x.' names x, which the query does not join"):
        strategy(f"{TRIANGLE} OPTIONS (order = 'volatile(x)')", a=10, b=10, c=10)


# ---- EXPLAIN ----


def test_analyzing_puts_measured_beside_expected_within_a_quarter():
    told = json.loads(two_streams(12_000, 2_000).sql(CHAIN).explain(analyze=True, format="json"))
    for route in told["estimate"]["routes"]:
        for step, seen in zip(route["steps"], told["measured"]["carried"][route["origin"]], strict=True):
            assert step["carried"] == pytest.approx(seen, rel=0.25)
    assert {one["known"] for one in told["estimate"]["inputs"].values()} == {"measured"}


def test_analyzing_a_loop_join_counts_its_comparisons():
    sql = (
        "SELECT a.k FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k OPTIONS (join = 'hash', buckets = 8)"
    )
    session = two_streams(8_000)
    told = json.loads(session.sql(sql).explain(analyze=True, format="json"))
    per_second = told["measured"]["scanned"] / told["measured"]["event_seconds"]
    assert told["estimate"]["comparisons_per_second"] == pytest.approx(per_second, rel=0.15)
    assert "comparisons" in session.sql(sql).explain(analyze=True)


def test_analyzing_any_query_gives_its_numbers():
    text = two_streams().sql("SELECT k, COUNT(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY k").explain(analyze=True)
    assert "measured over 3,000 rows" in text


def test_an_unknown_format_is_refused():
    with pytest.raises(WatersmeetError, match="format='json'"):
        Query(bind("SELECT k FROM a", golden_catalog())).explain(format="yaml")


def test_plain_joins_with_few_results_probe_and_others_send_negative_tuples():
    from watersmeet.optimizer.choose_pipeline import choose_pipeline

    grouped = "SELECT a.k, COUNT(*) AS n FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k GROUP BY a.k"
    many, few = catalog(a=1000, b=1000), catalog(a=0.5, b=0.5)
    assert choose_pipeline(bind(grouped, many)).pipeline == "nta"
    assert choose_pipeline(bind(grouped, few)).pipeline == "tpa"


def test_results_are_found_again_only_where_that_is_much_cheaper():
    """As measured (benchmarks/pipelines.py): large windows and several partners for each row."""
    from watersmeet.optimizer.choose_pipeline import choose_pipeline

    def chosen(window_s: int, keys: int, operator: str = "COUNT(*) AS n") -> str:
        session = wm.Session()
        for name in "ab":
            session.stream(
                name, schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", rate=1000.0, distinct={"k": keys}
            )
        sql = f"SELECT {operator} FROM a [RANGE {window_s} SECONDS], b [RANGE {window_s} SECONDS] WHERE a.k = b.k"
        return choose_pipeline(session.sql(sql).plan).pipeline

    assert chosen(window_s=100, keys=25_000) == "nta"
    assert chosen(window_s=100, keys=100_000) == "tpa"  # one partner each
    assert chosen(window_s=1, keys=250) == "tpa"  # a walk passes the rest of a batch
    assert chosen(window_s=100, keys=25_000, operator="DISTINCT a.k") == "nta"


def test_a_scan_is_priced_by_its_rows_and_what_goes_on_by_its_lookups():
    text = (Path(__file__).parents[3] / "examples" / "checkout.sql").read_text()
    (job,) = read_script(text, open_sources=False)
    estimate = estimate_join(strategy_of(job.plan), job.plan.root.columns)
    assert estimate is not None
    ways = {one.name: one for one in estimate.alternatives}
    written, loops = ways["as written: c, o, p"], ways["join = 'nested_loop'"]
    assert written.comparisons == pytest.approx(loops.comparisons, rel=0.01)
    assert written.lookups > 10_000 * loops.lookups  # every row looked at goes on, as nothing ties p to c
    assert written.busy_ns > PROBE_NS * written.lookups
    assert loops.busy_ns > COMPARED_ROW_NS * loops.comparisons


def test_rows_are_kept_as_long_as_late_rows_can_reach_them():
    text = (Path(__file__).parents[3] / "examples" / "checkout.sql").read_text()
    (job,) = read_script(text, open_sources=False)
    join = job.plan.root.child
    kept = {one.alias: join.kept_us(one.alias) / 60e6 for one in join.streams}
    assert kept == {"c": 15, "o": 10, "p": 0.5}  # clicks may be 30 s late
    told = Query(job.plan).explain()
    assert re.search(r"p \(payments\) +- +30 s", told)
