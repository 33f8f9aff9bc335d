"""When an answer looks for rows that have left their windows does not change what it tells, nor what it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conformance.test_restore import between, rows_of
from tests.effort import random_cases
from tests.properties.continuous_strategies import Case, cases
from tests.properties.test_continuous import assert_same, reference_sent, sent
from tests.relays import Relay, goes_on_as_if_nothing_had_happened
from tests.runners import answered, bound_plan, local_query
from watersmeet.checking import recompute
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.contract import Rows
from watersmeet.optimizer.cost.inputs import StreamRate
from watersmeet.papers.orders.cost_invalidation import looks
from watersmeet.runtime.build import build
from watersmeet.session import Session

WHEN = ("1 microsecond", "300 milliseconds", "2 seconds", "1 hour")  # the first is eager, and counted


@pytest.mark.parametrize("expire", WHEN)
@random_cases(20)
@given(case=cases(), rows_per_batch=st.sampled_from([1, 2, 3, None]))
def test_whenever_it_is_looked_the_same_is_told_of_every_instant(expire: str, case: Case, rows_per_batch: int | None):
    plan = bound_plan(case.sql(), case.sources)
    assume(plan.kind != "rows")  # no row leaves
    made = answered(local_query(case.sql(expire=expire), case.sources, rows_per_batch))
    assert_same(sent(plan, recompute.rows_of(made.table)), reference_sent(case, made))


@pytest.mark.parametrize("expire", WHEN)
@random_cases(15)
@given(case=cases(), batches=st.integers(1, 7))
def test_a_run_that_is_handed_on_between_two_looks_goes_on(expire: str, case: Case, batches: int) -> None:
    assume(any(len(source.table) for source in case.sources if source.name in case.query))
    try:
        assume(bound_plan(case.sql(), case.sources).kind != "rows")
        relay = Relay(bound_plan(case.sql(expire=expire), case.sources), case.sources)
        relay.fresh()
    except UnsupportedError:
        assume(False)
    goes_on_as_if_nothing_had_happened(relay, batches)


QUERIES = {
    "GROUP BY": "SELECT k, COUNT(*) AS n FROM a [RANGE 3 SECONDS] GROUP BY k",
    "DISTINCT": "SELECT DISTINCT k FROM a [RANGE 3 SECONDS]",
    "EXCEPT": "SELECT k FROM a [RANGE 3 SECONDS] EXCEPT SELECT k FROM b [RANGE 1 SECOND]",
    "INTERSECT ALL": "SELECT k FROM a [RANGE 3 SECONDS] INTERSECT ALL SELECT k FROM b [RANGE 1 SECOND]",
    "join": "SELECT a.k, COUNT(*) AS n FROM a [RANGE 2 SECONDS], b [ROWS 5] WHERE a.k = b.k GROUP BY a.k",
    "LIMIT": "SELECT k, x FROM a [RANGE 3 SECONDS] ORDER BY x LIMIT 3",
    "LATCH": "SELECT k, COUNT(*) AS n FROM a [LATCH 3 SECONDS] GROUP BY k",
}


LEFT_JOIN = "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WINDOW = 3 SECONDS"


def streams(rows: int = 300, seconds: int = 20) -> dict[str, pa.Table]:
    made = {}
    for seed, name in enumerate("ab"):
        chance = np.random.default_rng(seed)
        times = np.sort(chance.choice(seconds * 1_000_000, rows, replace=False))
        columns = {"k": chance.integers(0, 9, rows), "x": chance.random(rows)}
        made[name] = pa.table({**columns, "ts": pa.array(times, pa.timestamp("us"))})
    return made


def session_of(tables: dict[str, pa.Table]) -> Session:
    session = Session()
    for name, table in tables.items():
        session.stream(name, table, time="ts")
    return session


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("split_us", [3_700_000, 12_000_000])
def test_rows_taken_back_after_a_restart_say_what_was_not_told_yet(query: str, split_us: int) -> None:
    """Time had come to the split, the answer to the look before it."""
    tables = streams()
    plan = session_of(tables).sql(f"{query} OPTIONS (expire = '5 seconds')").plan
    whole = build(plan)
    batches = {name: table.combine_chunks().to_batches()[0] for name, table in tables.items()}
    rows = {
        name: Rows(batch, batch.column("ts").cast(pa.int64()).to_numpy())
        for name, batch in batches.items()
        if name in whole.leaves  # type: ignore[attr-defined]
    }

    def told(restarts: bool) -> Counter[Any]:
        operator, found, start = build(plan), Counter[Any](), BEGINNING_US
        for end in (split_us // 2, split_us, split_us + 900_000, FOREVER_US):
            for name, every in rows.items():
                found += rows_of(operator.push(name, between(every, start, end)))
            found += rows_of(operator.advance(dict.fromkeys(rows, end)))
            start = end
            if end == split_us and restarts:
                before = {name: between(every, BEGINNING_US, end) for name, every in rows.items()}
                needed = {name: operator.still_needed(name, every, end) for name, every in before.items()}
                log = {name: every.take(np.flatnonzero(needed[name])) for name, every in before.items()}
                operator = build(plan)
                operator.restore(log, end)
        return found

    assert told(restarts=True) == told(restarts=False) != Counter()


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_fewer_looks_find_more_rows_that_have_left(query: str) -> None:
    """K05: a look costs 1 + N_stale. Rows leave as often as they came, whenever it is looked; looks are saved."""
    tables = streams()
    told, work, left = {}, {}, {}
    for expire in ("1 microsecond", "5 seconds"):
        made = answered(session_of(tables).sql(f"{query} OPTIONS (expire = '{expire}')"), batch_rows=5)
        told[expire], work[expire] = made.bag, made.metrics["work"]
        left[expire] = made.metrics["expired_rows"]
        assert work[expire]["rows_looked_at"] == work[expire]["passes"] + left[expire]
    assert told["1 microsecond"] == told["5 seconds"] == answered(session_of(tables).sql(query)).bag
    assert len(set(left.values())) == 1
    # At 5, 10, 15 and 20 seconds, and at the end.
    assert work["5 seconds"]["passes"] in (4, 5)
    assert work["1 microsecond"]["passes"] > 10 * work["5 seconds"]["passes"]


def test_the_formula_counts_the_looks() -> None:
    """One look for each row that arrives, or for each pane."""
    tables = {"a": streams(2000, 100)["a"]}
    stream = StreamRate("a", 20, 3, 9)
    for expire, every_s in (("1 microsecond", None), ("2 seconds", 2.0)):
        query = session_of(tables).sql(f"{QUERIES['GROUP BY']} OPTIONS (expire = '{expire}')")
        work = answered(query, batch_rows=1).metrics["work"]
        expected = looks(every_s, stream)
        assert work["passes"] / 100 == pytest.approx(expected.passes, rel=0.05)
        assert work["rows_looked_at"] / 100 == pytest.approx(expected.rows_looked_at, rel=0.05)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 3 SECONDS OPTIONS (expire = 'lazy')", "an interval"),
        (
            "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WINDOW = 3 SECONDS OPTIONS (expire = '1 second')",
            "no row leaves",
        ),
        (f"{QUERIES['DISTINCT']} OPTIONS (expire = '1 second', pipeline = 'ita')", "so does pipeline = 'ita'"),
        (f"{QUERIES['DISTINCT']} OPTIONS (expire = 'auto')", "is for plain joins"),
    ],
)
def test_where_nothing_is_to_be_said_it_is_refused(query: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        session_of(streams()).sql(query).explain()


def test_explain_says_when() -> None:
    told = session_of(streams()).sql(f"{QUERIES['DISTINCT']} OPTIONS (expire = '5 seconds')").explain()
    assert "rows that have left are looked for: every 5 s of event time" in told
