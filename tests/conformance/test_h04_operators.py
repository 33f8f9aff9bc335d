"""H04's operators as printed: the paper's worked examples, right answers on random streams, what each one outputs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import Source, bound_plan
from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.lab.papers.h04.examples import sums_told
from watersmeet.lab.papers.k05.invalidation import at_random
from watersmeet.lab.papers.running import session_of
from watersmeet.lab.slow_paths import told_on_slow_paths
from watersmeet.operators.continuous.node import everything_below
from watersmeet.operators.continuous.pipeline import Continuous
from watersmeet.operators.contract import Rows
from watersmeet.optimizer.cost.inputs import StreamRate
from watersmeet.papers.pipelines.cost import nta_expiry_cost, tpa_expiry_cost
from watersmeet.papers.pipelines.distinct import WDistinct
from watersmeet.papers.pipelines.expiry_cases import CASES, expiry_cases
from watersmeet.papers.pipelines.group_by import Contents, Increments
from watersmeet.papers.pipelines.set_operations import WMinus
from watersmeet.papers.pipelines.tuples import INVALID, NEGATIVE, POSITIVE, Tuples
from watersmeet.plan.published import PUBLISHED_PIPELINES
from watersmeet.reference.join import answer
from watersmeet.runtime.build import build
from watersmeet.session import Session

SECOND = 1_000_000
QUERIES = (
    "SELECT COUNT(*) AS n FROM a [RANGE 4 SECONDS] WHERE v > 0",
    "SELECT DISTINCT k FROM a [RANGE 4 SECONDS]",
    "SELECT k FROM a [RANGE 4 SECONDS] EXCEPT ALL SELECT k FROM b [RANGE 3 SECONDS]",
    "SELECT k FROM a [RANGE 4 SECONDS] EXCEPT SELECT k FROM b [RANGE 4 SECONDS]",
    "SELECT k FROM a [RANGE 4 SECONDS] INTERSECT ALL SELECT k FROM b [RANGE 3 SECONDS]",
    "SELECT k FROM a [RANGE 4 SECONDS] INTERSECT SELECT k FROM b [RANGE 4 SECONDS]",
    "SELECT k FROM a [RANGE 4 SECONDS] UNION ALL SELECT k FROM b [RANGE 3 SECONDS]",
    "SELECT k FROM a [RANGE 4 SECONDS] UNION SELECT k FROM b [RANGE 3 SECONDS]",
    "SELECT b.k FROM b [RANGE 1 SECONDS], a [RANGE 4 SECONDS] WHERE a.k = b.k "
    "UNION SELECT k FROM a [RANGE 2 SECONDS] AS c",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s, MEDIAN(v) AS m FROM a [RANGE 4 SECONDS] GROUP BY k HAVING COUNT(*) > 1",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS m FROM a [RANGE 4 SECONDS] GROUP BY k HAVING COUNT(*) > 1",
    "SELECT a.k, SUM(b.v) AS s, COUNT(*) AS n FROM a [RANGE 4 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k "
    "GROUP BY a.k",
    "SELECT MAX(a.v) AS m, COUNT(*) AS n FROM a [RANGE 4 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k",
    "SELECT DISTINCT a.v, b.v AS w FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k",
    "SELECT DISTINCT a.v, c.v AS w FROM a [RANGE 4 SECONDS], b [RANGE 2 SECONDS], b [RANGE 3 SECONDS] AS c "
    "WHERE a.k = b.k AND b.v = c.v",
    "(SELECT a.k FROM a [RANGE 4 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k EXCEPT ALL "
    "SELECT k FROM b [RANGE 3 SECONDS]) INTERSECT ALL SELECT k FROM a [RANGE 2 SECONDS]",
    "(SELECT k, COUNT(*) AS n FROM a [RANGE 4 SECONDS] GROUP BY k) EXCEPT ALL "
    "(SELECT k, COUNT(*) AS n FROM b [RANGE 4 SECONDS] GROUP BY k)",
)

JOINED = "SELECT a.k FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k"


def stream(seed: int, rows: int = 18, keys: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, rows, rows)) * SECOND
    return pa.table({"k": rng.integers(0, keys, rows), "v": rng.integers(0, 3, rows), "ts": at.astype("M8[us]")})


def shop(seed: int) -> Session:
    return session_of({"a": stream(seed), "b": stream(seed + 1000)})


def net(table: pa.Table) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row in table.to_pylist():
        sign = 1 if row.pop("_op") == "+" else -1
        found[tuple(row.values())] += sign
    return Counter({row: n for row, n in found.items() if n})


@pytest.mark.parametrize("pipeline", PUBLISHED_PIPELINES)
@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_the_references_at_every_instant(query: str, pipeline: str) -> None:
    for seed in range(3):
        for boundary in ("closed", "half_open"):
            session = shop(seed)
            asked = session.sql(f"{query} OPTIONS (pipeline = '{pipeline}', boundary = '{boundary}')")
            expected = answer(asked.plan, {name: stream(seed + 1000 * (name == "b")) for name in "ab"})
            ours = asked.to_arrow()
            log = list(zip(ours["_ts"].to_pylist(), ours["_op"].to_pylist(), strict=True))
            assert log == sorted(log, key=lambda one: (one[0], one[1] == "+")), "rows that leave come first"
            assert net(ours) == net(
                pa.Table.from_pylist(
                    [dict(zip(ours.column_names, row, strict=True)) for row in expected], schema=ours.schema
                )
            )


def replayed(
    sql: str, streams: dict[str, list[tuple[int, Any]]]
) -> tuple[list[tuple[int, dict[str, Any]]], Continuous]:
    """Rows pushed tick by tick: when each change was told, and the change."""
    session = session_of(
        {
            name: pa.table(
                {"v": [v for _, v in rows], "ts": pa.array([(t + 100) * SECOND for t, _ in rows], pa.timestamp("us"))}
            )
            for name, rows in streams.items()
        }
    )
    operator = build(session.sql(sql).plan)
    assert isinstance(operator, Continuous)
    told = []
    ticks = sorted({t for rows in streams.values() for t, _ in rows})
    for tick in ticks:
        now = (tick + 100) * SECOND
        for name, rows in streams.items():
            values = [v for t, v in rows if t == tick]
            if values:
                data = pa.record_batch({"v": values, "ts": pa.array([now] * len(values), pa.timestamp("us"))})
                list(operator.push(name, Rows(data, np.full(len(values), now))))
        for batch in operator.advance(dict.fromkeys(streams, now + 1)):
            told += [(tick, row) for row in batch.to_pylist()]
    return told, operator


FIGURE_1A = [(-4, 6), (-3, 9), (-2, 1), (-1, 3), (0, 5), (1, 8), (2, 2), (3, 3), (4, 1), (5, 7), (6, 2)]


def test_figure_1a_only_input_triggering_tells_sums_late() -> None:
    told = {}
    for pipeline in PUBLISHED_PIPELINES:
        sql = "SELECT SUM(v) AS total FROM s [RANGE 6 SECONDS] WHERE v > 4"
        sql = f"{sql} OPTIONS (boundary = 'half_open', pipeline = '{pipeline}')"
        log, _ = replayed(sql, {"s": FIGURE_1A})
        told[pipeline] = [(tick, row["total"]) for tick, row in log if row["_op"] == "+" and tick > 0]
    assert told["tpa_scan"] == told["nta_scan"] == [(1, 28), (2, 22), (3, 13), (5, 20), (6, 15)]
    assert told["ita_scan"] == [(1, 28), (5, 22), (5, 13), (5, 20)]


def outputs(operator: WDistinct | WMinus, until_s: int) -> list[tuple[str, str, int]]:
    """What an operator gives to the one above."""
    found: Tuples = operator.get_next((until_s + 100) * SECOND)
    kinds = {POSITIVE: "+", NEGATIVE: "-", INVALID: "invalid"}
    return [
        (kinds[int(kind)], row["v"], int(at) // SECOND - 100)
        for kind, row, at in zip(found.kinds, found.data.to_pylist(), found.instants, strict=True)
    ]


def below_the_answer(sql: str, streams: dict[str, list[tuple[int, str]]]) -> Any:
    session = session_of(
        {
            name: pa.table(
                {"v": [v for _, v in rows], "ts": pa.array([(t + 100) * SECOND for t, _ in rows], pa.timestamp("us"))}
            )
            for name, rows in streams.items()
        }
    )
    operator = build(session.sql(sql).plan)
    assert isinstance(operator, Continuous)
    for name, rows in streams.items():
        times = np.array([(t + 100) * SECOND for t, _ in rows])
        data = pa.record_batch({"v": [v for _, v in rows], "ts": pa.array(times, pa.timestamp("us"))})
        list(operator.push(name, Rows(data, times)))
    contents = operator.root.child.child  # type: ignore[attr-defined]
    assert isinstance(contents, Contents)
    return contents.child


def test_figure_6_an_expired_reported_tuple_is_replaced_by_its_newest_equal() -> None:
    sql = "SELECT DISTINCT v FROM s [RANGE 6 SECONDS] OPTIONS (boundary = 'half_open', pipeline = 'tpa_scan')"
    operator = below_the_answer(sql, {"s": [(-3, "a"), (-1, "d"), (0, "e"), (1, "a"), (2, "d")]})
    assert outputs(operator, 6) == [("+", "a", -3), ("+", "d", -1), ("+", "e", 0), ("+", "a", 3), ("+", "d", 5)]


def test_distinct_under_negative_tuples_withdraws_and_replaces() -> None:
    sql = "SELECT DISTINCT v FROM s [RANGE 5 SECONDS] OPTIONS (boundary = 'half_open', pipeline = 'nta_scan')"
    operator = below_the_answer(sql, {"s": [(1, "a"), (3, "a"), (9, "b")]})
    expected = [("+", "a", 1), ("-", "a", 6), ("+", "a", 6), ("-", "a", 8), ("+", "b", 9)]
    assert outputs(operator, 10) == expected


def test_figure_7_minus_withdraws_by_an_invalid_tuple_and_reports_what_the_right_side_lost() -> None:
    sql = (
        "SELECT v FROM s [RANGE 10 SECONDS] EXCEPT ALL SELECT v FROM r [RANGE 10 SECONDS] "
        "OPTIONS (boundary = 'half_open', pipeline = 'tpa_scan')"
    )
    operator = below_the_answer(sql, {"s": [(-1, "B"), (0, "A"), (1, "C"), (3, "E")], "r": [(-6, "E"), (2, "A")]})
    assert isinstance(operator, WMinus)
    assert outputs(operator, 14) == [
        ("+", "B", -1), ("+", "A", 0), ("+", "C", 1), ("invalid", "A", 2), ("+", "E", 4),
    ]  # fmt: skip


def test_minus_of_a_left_tuple_that_expires_uncounted_withdraws_another() -> None:
    """Line 5 as corrected (AMB-23): at 11 nothing may be left."""
    sql = (
        "SELECT v FROM s [RANGE 10 SECONDS] EXCEPT ALL SELECT v FROM r [RANGE 10 SECONDS] "
        "OPTIONS (boundary = 'half_open', pipeline = 'tpa_scan')"
    )
    operator = below_the_answer(sql, {"s": [(1, "a"), (3, "a")], "r": [(2, "a")]})
    assert outputs(operator, 12) == [("+", "a", 1), ("invalid", "a", 2), ("+", "a", 3), ("invalid", "a", 11)]


def test_figure_4_tuples_of_two_windows_expire_in_any_order_and_all_are_scanned() -> None:
    ticks = [(t, t) for t in range(1, 9)]
    sql = (
        "SELECT DSTREAM s1.v, s2.v AS w FROM s1 [RANGE 5 SECONDS], s2 [RANGE 4 SECONDS] "
        "OPTIONS (boundary = 'half_open', pipeline = 'tpa_scan')"
    )
    log, operator = replayed(sql, {"s1": ticks, "s2": ticks})
    gone = [(row["v"], row["w"]) for tick, row in log if tick == 8]
    assert sorted(gone) == sorted([(3, b) for b in (4, 5, 6, 7)] + [(a, 4) for a in (4, 5, 6, 7)])
    assert operator.kept_rows == 20 + 9  # and the windows of the join
    # 20 tuples with two timestamps each are looked at for every tuple that comes.
    assert operator.counters.work["expiry_comparisons"] > 20 * 2 * 2


def test_with_one_window_only_the_front_is_looked_at() -> None:
    rows = [(t, t % 7) for t in range(200)]
    work = {}
    for size in (50, 49.5):
        sql = (
            f"SELECT COUNT(*) AS total FROM s1 [RANGE 50 SECONDS], s2 [RANGE {size} SECONDS] "
            "WHERE s1.v = s2.v OPTIONS (boundary = 'half_open', pipeline = 'tpa_scan')"
        )
        _, operator = replayed(sql, {"s1": rows, "s2": rows})
        work[size] = operator.counters.work["expiry_comparisons"]
    assert work[50] * 20 < work[49.5]


def test_distinct_regulates_its_output_rate_as_equation_1_says() -> None:
    from watersmeet.optimizer.cost.inputs import StreamRate
    from watersmeet.papers.pipelines.cost import distinct_output_rate

    rng = np.random.default_rng(7)
    for rate, most in ((2.0, 1.3), (50.0, 1.3)):
        seconds = 400
        at = np.cumsum(rng.exponential(SECOND / rate, int(rate * seconds))).astype(np.int64)
        data = pa.table({"k": rng.integers(0, 26, at.size), "ts": at.astype("M8[us]")})
        query = session_of({"s": data}).sql(
            "SELECT DISTINCT k FROM s [RANGE 10 SECONDS] OPTIONS (boundary = 'half_open', pipeline = 'tpa_scan')"
        )
        query.to_arrow()
        measured = query.metrics()["work"]["distinct_outputs"] / seconds
        expected = distinct_output_rate(StreamRate("s", rate, 10, distinct=26))
        assert 0.95 * expected < measured < most * expected


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT k FROM a [RANGE 4 SECONDS]", ["Select"]),
        (f"{JOINED} UNION ALL SELECT k FROM b [RANGE 4 SECONDS]", ["W-Union", "W-Join", "Select"]),
        ("SELECT COUNT(*) AS n FROM a [RANGE 4 SECONDS]", ["W-Aggregate", "Select"]),
        (QUERIES[3], ["W-Distinct", "W-Minus", "Select", "Select"]),
    ],
)  # fmt: skip
def test_operators_have_the_cases_of_section_4_1(query: str, named: list[str]) -> None:
    found = expiry_cases(shop(1).sql(query).plan.root)
    assert [name for name, _ in found] == named
    assert all(cases == CASES[name] for name, cases in found)


def test_the_cases_are_what_the_operators_do() -> None:
    """By what each gives out, under negative tuples, at instants at which only positives or only negatives come."""
    observed = {}
    for name, sql in {
        "W-Distinct": QUERIES[1], "W-Minus": QUERIES[2], "W-Intersect": QUERIES[4], "W-Union": QUERIES[6],
    }.items():  # fmt: skip
        cases: set[int] = set()
        for seed in range(6):
            session = shop(seed)
            operator = build(session.sql(f"{sql} OPTIONS (pipeline = 'nta_scan', boundary = 'half_open')").plan)
            assert isinstance(operator, Continuous)
            published = operator.root.child.child.child  # type: ignore[attr-defined]
            came: dict[int, set[int]] = {}
            for input_ in (
                (published.child,) if isinstance(published, WDistinct) else (published.both.left, published.both.right)
            ):
                _watch(input_, came)
            for alias in operator.leaves:
                data = stream(seed + 1000 * (alias == "b")).combine_chunks().to_batches()[0]
                list(operator.push(alias, Rows(data, data.column("ts").cast(pa.int64()).to_numpy())))
            out = published.get_next(1 << 61)
            for at, kind in zip(out.instants.tolist(), out.kinds.tolist(), strict=True):
                if len(came[at]) == 1:
                    (sign,) = came[at]
                    cases.add({(1, True): 1, (1, False): 2, (-1, True): 3, (-1, False): 4}[sign, kind > 0])
        observed[name] = tuple(sorted(cases))
    assert observed == {name: CASES[name] for name in observed}


def _watch(operator: Any, came: dict[int, set[int]]) -> None:
    """Note the signs of what an operator gives, by instant."""
    get_next = operator.get_next

    def noted(until: int) -> Tuples:
        found: Tuples = get_next(until)
        for at, kind in zip(found.instants.tolist(), found.kinds.tolist(), strict=True):
            came.setdefault(at, set()).add(1 if kind > 0 else -1)
        return found

    operator.get_next = noted


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT DISTINCT k FROM a [ROWS 3]", "a without"),
        ("SELECT k FROM a [RANGE 4 SECONDS] ORDER BY k LIMIT 2", "ORDER BY"),
        ("SELECT FIRST(k) AS f FROM a [RANGE 4 SECONDS]", "order of rows"),
        ("SELECT RSTREAM k FROM a [RANGE 4 SECONDS] EVERY 1 SECOND", "RSTREAM"),
        ("SELECT k, COUNT(*) AS n FROM TUMBLE(a, 4 SECONDS) GROUP BY k, window_start, window_end", "complete"),
        (
            "SELECT a.k, b.v FROM a [RANGE 4 SECONDS] LEFT JOIN b [RANGE 4 SECONDS] ON a.k = b.k GROUP BY a.k, b.v",
            "outer",
        ),
        (
            "SELECT x.k FROM (SELECT k, COUNT(*) AS n FROM a [RANGE 4 SECONDS] GROUP BY k) AS x GROUP BY x.k",
            "subqueries",
        ),
    ],
)
def test_what_the_paper_does_not_have_is_refused(query: str, word: str) -> None:
    with pytest.raises(OptionError, match=word):
        build(shop(1).sql(f"{query} OPTIONS (pipeline = 'tpa_scan')").plan)


@pytest.mark.parametrize("schedule", ["round_robin", "memory"])
@pytest.mark.parametrize("pipeline", PUBLISHED_PIPELINES)
def test_a_network_of_queues_gives_the_same_answers(pipeline: str, schedule: str) -> None:
    for query in QUERIES[2::3]:
        asked = shop(5).sql(f"{query} OPTIONS (pipeline = '{pipeline}')").to_arrow()
        queued = shop(5).sql(f"{query} OPTIONS (pipeline = '{pipeline}', schedule = '{schedule}')").to_arrow()
        assert net(queued) == net(asked), query


def test_a_scheduler_that_frees_memory_lets_fewer_tuples_wait() -> None:
    rng = np.random.default_rng(3)
    at = np.sort(rng.integers(0, 60 * SECOND, 600))
    data = pa.table({"k": rng.integers(0, 4, 600), "v": rng.integers(0, 9, 600), "ts": at.astype("M8[us]")})
    waited = {}
    for schedule in ("round_robin", "memory"):
        query = session_of({"a": data, "b": data}).sql(
            "SELECT DISTINCT a.v FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k "
            f"OPTIONS (pipeline = 'tpa_scan', schedule = '{schedule}')"
        )
        query.to_arrow()
        waited[schedule] = query.metrics()["work"]["queued_most"]
    assert waited["memory"] * 2 < waited["round_robin"]


def test_turns_are_for_the_papers_operators() -> None:
    with pytest.raises(OptionError, match="schedule"):
        build(shop(1).sql("SELECT DISTINCT k FROM a [RANGE 4 SECONDS] OPTIONS (schedule = 'round_robin')").plan)


def _held_by_the_aggregate(aggregates: str, pipeline: str, seconds: int) -> int:
    """The most tuples that W-AGGREGATE itself held, whatever the operators below it did."""
    ticks = pa.array([tick * 1_000_000 for tick in range(200)], pa.timestamp("us"))
    table = pa.table({"v": pa.array(range(200), pa.int64()), "ts": ticks})
    session = session_of({"s": table})
    sql = f"SELECT {aggregates} FROM s [RANGE {seconds} SECONDS] OPTIONS (pipeline = '{pipeline}')"
    operator = build(session.sql(sql).plan)
    assert isinstance(operator, Continuous)
    (below,) = [node for node in everything_below(operator.root) if isinstance(node, Contents | Increments)][1:]
    most = 0
    for batch in table.to_batches(10):
        times = batch.column("ts").cast(pa.int64()).to_numpy()
        list(operator.push("s", Rows(batch, times)))
        list(operator.advance({"s": int(times[-1])}))
        most = max(most, below.held_rows_here)
    return most


def test_section_6_4_negative_tuples_leave_one_value_of_sums_counts_and_means() -> None:
    """Where tuples expire by time the aggregate holds those of the window; so it does for a maximum."""
    sums = "SUM(v) AS total, COUNT(*) AS n, AVG(v) AS mean"
    assert _held_by_the_aggregate(sums, "nta_scan", 100) == _held_by_the_aggregate(sums, "nta_scan", 10) == 0
    for aggregates, pipeline in ((sums, "tpa_scan"), (sums, "ita_scan"), ("MAX(v) AS most", "nta_scan")):
        assert _held_by_the_aggregate(aggregates, pipeline, 100) >= 90
        assert 5 <= _held_by_the_aggregate(aggregates, pipeline, 10) <= 30


@pytest.mark.parametrize(
    ("rates", "windows", "keys"),
    [((20, 20), (10, 5), 100), ((20, 40), (12, 4), 80), ((30, 30), (6, 6), 50), ((40,), (10,), 5)],
)
def test_what_it_costs_to_find_what_expired_is_what_the_formula_says(
    rates: tuple[int, ...], windows: tuple[int, ...], keys: int
) -> None:
    """Comparisons of W-AGGREGATE, counted once windows are full; those of the log of a maximum are few."""
    streams = [
        StreamRate(name, rate, window, distinct=keys) for name, rate, window in zip("ab", rates, windows, strict=False)
    ]
    end, full = 90, 2 * max(windows)
    tables = {one.name: at_random(one.rate, end, keys, seed) for seed, one in enumerate(streams)}
    sources = ", ".join(f"{one.name} [RANGE {one.window:.0f} SECONDS]" for one in streams)
    where = "WHERE a.k = b.k" if len(streams) == 2 else ""
    for pipeline, formula in (("tpa_scan", tpa_expiry_cost), ("nta_scan", nta_expiry_cost)):
        counts = []
        for until in (full, end):
            session = session_of(
                {
                    name: table.filter(pc.less(table["ts"].cast(pa.int64()), until * SECOND))
                    for name, table in tables.items()
                }
            )
            query = session.sql(
                f"SELECT MAX(a.x) AS m FROM {sources} {where} OPTIONS (pipeline = '{pipeline}', boundary = 'half_open')"
            )
            query.to_arrow()
            counts.append(query.metrics()["work"]["expiry_comparisons"])
        counted = (counts[1] - counts[0]) / (end - full)
        assert counted == pytest.approx(formula(streams), rel=0.2), pipeline


def test_figure_2_expiry_by_an_operators_own_clock_is_wrong() -> None:
    """The tuple of value 7 takes three ticks to the SUM."""
    probing, voluntary = (sums_told(by_own_clock=wrong) for wrong in (False, True))
    right = {6, 28, 22, 13, 20, 15, 7}
    assert probing[8][0] == 20
    assert set().union(*map(set, probing.values())) <= right
    assert voluntary[6] == [8]
    assert 8 not in right
    assert not any(20 in told for tick, told in voluntary.items() if tick > 1)


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_probing_finds_the_answer_on_slow_paths_and_an_own_clock_does_not(query: str) -> None:
    """Any query, over rows of one's own: a second row of each takes three seconds to the operators above the scans."""
    tables = {name: stream(seed, rows=40) for seed, name in enumerate("ab")}
    sql = f"{query} OPTIONS (pipeline = 'tpa_scan', boundary = 'half_open')"

    def delays(times: Any) -> Any:
        return np.where(times // SECOND % 2, 3 * SECOND, 0)

    right, slow, own = (
        _net(told_on_slow_paths(session_of(tables), sql, late, by_own_clock=wrong))
        for late, wrong in ((lambda times: 0 * times, False), (delays, False), (delays, True))
    )
    assert slow == right
    # Only UNION ALL holds nothing that it could let go too early.
    assert (own != right) == (" UNION ALL " not in query)


def _net(log: pa.Table) -> Counter[Any]:
    """Every change with its instant; what cancels out at one instant is gone."""
    counts: Counter[Any] = Counter()
    for row in log.drop_columns(["_told"]).to_pylist():
        counts[tuple(value for name, value in row.items() if name != "_op")] += 1 if row["_op"] == "+" else -1
    return Counter({change: count for change, count in counts.items() if count})


def test_only_operators_that_probe_have_slow_paths() -> None:
    session = session_of({"a": stream(1)})
    for options in ("", "OPTIONS (pipeline = 'nta_scan')", "OPTIONS (pipeline = 'tpa_scan', schedule = 'memory')"):
        with pytest.raises(WatersmeetError, match=r"slow paths|does not probe"):
            told_on_slow_paths(session, f"SELECT COUNT(*) AS n FROM a [RANGE 4 SECONDS] {options}", lambda times: times)


@pytest.mark.parametrize("pipeline", PUBLISHED_PIPELINES)
def test_a_state_that_is_handed_on_goes_on_to_the_same_answers(pipeline: str) -> None:
    sources = [Source("a", stream(3), "ts"), Source("b", stream(1003), "ts")]
    for query in QUERIES[1::4]:
        for schedule in ("pull", "memory"):
            sql = f"{query} OPTIONS (pipeline = '{pipeline}', schedule = '{schedule}')"
            goes_on_as_if_nothing_had_happened(Relay(bound_plan(sql, sources), sources), 4)
