"""A memory that joins of a script share: who takes part, and where it goes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import BindError, OptionError, ParseError
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.runtime.script import Job, read_script
from watersmeet.runtime.sharing import fed_together, fixed_parts_words, shared_words
from watersmeet.warning import PlanWarning

ROWS = 12_000
NARROW = "SELECT a.k FROM a [RANGE 300 SECONDS], b [RANGE 300 SECONDS] WHERE a.k = b.k"
WIDE = "SELECT a.u FROM a [RANGE 2000 SECONDS], b [RANGE 2000 SECONDS] WHERE a.u = b.u"
GROUPS = "SELECT k, COUNT(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY k"


@pytest.fixture
def session() -> wm.Session:
    made = wm.Session()
    chances = 1 / np.arange(1, 201)
    for seed, name in enumerate("ab"):
        rng = np.random.default_rng(seed)
        rows = {
            "k": rng.choice(200, ROWS, p=chances / chances.sum()),
            "u": rng.integers(0, 400, ROWS),
            "word": [str(n) if n < 5_000 else "no number" for n in range(ROWS)],
            "ts": pa.array(1_000_000 * np.arange(ROWS), pa.timestamp("us")),
        }
        made.stream(name, pa.table(rows), time="ts")
    return made


def jobs_of(session: wm.Session, memory: str, *queries: str) -> list[Job]:
    return read_script(";\n".join((f"SET memory = '{memory}'", *queries)), session.catalog.copy())


def bounds(jobs: Sequence[Job]) -> list[int | None]:
    memories = [job.plan.options.memory for job in jobs]
    return [None if one is None else one.amount for one in memories]


def run(jobs: Sequence[Job]) -> list[PulledExecution]:
    runs = [PulledExecution(job.plan) for job in jobs]
    for _ in Pull(runs).answers():
        pass
    assert all(one.failure is None for one in runs)
    return runs


def test_joins_share_by_priority_to_begin_with(session: wm.Session) -> None:
    assert bounds(jobs_of(session, "1000 rows", NARROW, WIDE)) == [500, 500]
    assert bounds(jobs_of(session, "1000 rows", f"{NARROW} OPTIONS (priority = 4)", WIDE)) == [800, 200]
    assert bounds(jobs_of(session, "1 MB", NARROW, WIDE)) == [500_000, 500_000]


def test_who_says_memory_or_cannot_forget_has_its_own(session: wm.Session) -> None:
    own = f"{NARROW} OPTIONS (memory = '10 rows')"
    free = f"{NARROW} OPTIONS (memory = 'unlimited')"
    with pytest.warns(PlanWarning, match="beside_memory: .*query 1, query 2 and query 4 keep what they need"):
        jobs = jobs_of(session, "900 rows", own, free, WIDE, GROUPS)
    assert bounds(jobs) == [10, None, 900, None]


def test_they_are_fed_together_and_a_person_is_told(session: wm.Session) -> None:
    jobs = jobs_of(session, "2 MB", NARROW, WIDE)
    (group,) = fed_together(jobs)
    assert "query 1 and query 2 share a memory of 2 MB" in shared_words(group)


def test_where_parts_stay_they_are_told(session: wm.Session) -> None:
    jobs = jobs_of(session, "900 rows", f"{NARROW} OPTIONS (priority = 2)", WIDE)
    assert fixed_parts_words(jobs) == [
        "query 1 and query 2 share a memory of 900 rows, in parts that stay: 600 rows and 300 rows"
    ]
    assert fixed_parts_words(jobs[:1]) == []


def test_the_parts_go_where_more_is_found(session: wm.Session) -> None:
    """Nearly as much as with the best fixed parts of five, and more than with even ones."""
    found = sum(one.metrics.recall or 0.0 for one in run(jobs_of(session, "2000 rows", NARROW, WIDE)))
    fixed = [alone(session, NARROW, rows) + alone(session, WIDE, 2000 - rows) for rows in (300, 500, 660, 800, 1000)]
    assert found > fixed[-1] + 0.05
    assert found > max(fixed) - 0.03


def alone(session: wm.Session, sql: str, rows: int) -> float:
    (one,) = run(read_script(f"{sql} OPTIONS (memory = '{rows} rows')", session.catalog.copy()))
    return one.metrics.recall or 0.0


def test_a_join_of_higher_priority_has_more(session: wm.Session) -> None:
    _, even = run(jobs_of(session, "800 rows", NARROW, WIDE))
    _, first = run(jobs_of(session, "800 rows", NARROW, f"{WIDE} OPTIONS (priority = 20)"))
    assert (first.metrics.recall or 0) > 1.5 * (even.metrics.recall or 0)


def test_what_nobody_needs_is_not_shed(session: wm.Session) -> None:
    runs = run(jobs_of(session, "6000 rows", NARROW, WIDE))
    assert [one.metrics.recall for one in runs] == [1.0, 1.0]
    assert sum(one.metrics.memory_rows or 0 for one in runs) >= 6000


def test_beside_others_all_are_answered(session: wm.Session) -> None:
    """Groups, and joins that keep all, look at the same rows meanwhile."""
    whole = f"{WIDE} OPTIONS (memory = 'unlimited')"
    with pytest.warns(PlanWarning, match="beside_memory"):
        jobs = jobs_of(session, "2000 rows", NARROW, WIDE, GROUPS, whole)
    (group,) = fed_together(jobs)
    *bounded, groups, joined = run(group)
    assert groups.metrics.results == session.sql(GROUPS).to_arrow().num_rows
    assert joined.metrics.results == session.sql(WIDE).to_arrow().num_rows
    assert [one.metrics.exact_results for one in bounded] == [
        session.sql(one).to_arrow().num_rows for one in (NARROW, WIDE)
    ]


def test_one_that_fails_keeps_what_it_has(session: wm.Session) -> None:
    broken = WIDE.replace("a.u FROM", "CAST(a.word AS BIGINT) AS n FROM")
    runs = [PulledExecution(job.plan) for job in jobs_of(session, "1000 rows", NARROW, broken)]
    for _ in Pull(runs).answers():
        pass
    assert runs[0].failure is None
    assert "'no number'" in str(runs[1].failure)
    assert runs[1].operator.kept_rows + (runs[0].metrics.memory_rows or 0) <= 1000


def test_one_that_ends_leaves_its_part_to_the_others(session: wm.Session) -> None:
    """Also where its windows never end."""
    short = session.sql("SELECT k, u, word, ts FROM a").to_arrow().slice(0, 2000)
    for name in "cd":
        session.stream(name, short, time="ts")
    ending = (
        "SELECT c.k FROM c [UNBOUNDED], d [UNBOUNDED], a [RANGE 1 SECOND] WHERE c.u = d.u AND d.u = a.u AND a.u < 0"
    )
    with_others = "SELECT c.k FROM c [UNBOUNDED], d [UNBOUNDED] WHERE c.u = d.u"
    runs = [PulledExecution(job.plan) for job in jobs_of(session, "1000 rows", WIDE, with_others, ending)]
    most = 0
    for _ in Pull(runs).answers():
        most = max(most, sum(one.operator.kept_rows for one in runs))
    assert most <= 1000
    assert runs[1].operator.kept_rows == 0


def test_texts_leave_their_memory_too(session: wm.Session) -> None:
    for seed, name in enumerate("cd"):
        rng = np.random.default_rng(seed)
        words = ["w" * int(n) for n in rng.integers(100, 300, ROWS)]
        rows = {"k": rng.integers(0, 300, ROWS), "word": words}
        times = pa.array(1_000_000 * np.arange(ROWS), pa.timestamp("us"))
        session.stream(name, pa.table({**rows, "ts": times}), time="ts")
    queries = [
        f"SELECT c.word AS x, d.word AS y FROM c [RANGE {s} SECONDS], d [RANGE {s} SECONDS] WHERE c.k = d.k "
        "OPTIONS (recall = 'none')"
        for s in (300, 4000)
    ]
    runs = [PulledExecution(job.plan) for job in jobs_of(session, "1.5 MB", *queries)]
    most = 0
    for _ in Pull(runs).answers():
        most = max(most, sum(one.operator.state_bytes for one in runs))
    assert most < 1.25 * 1_500_000  # a bound is of what rows take on average, with room to spare


def test_a_stream_with_fewer_rows_needs_as_much_as_its_share(session: wm.Session) -> None:
    """Each stream of a join has an equal share, so one with many rows needs twice as many."""
    rare = session.sql("SELECT k, u, word, ts FROM b WHERE u < 4").to_arrow()
    session.stream("rare", rare, time="ts")
    uneven = "SELECT a.u FROM a [RANGE 1000 SECONDS], rare [RANGE 1000 SECONDS] WHERE a.u = rare.u"
    even = "SELECT a.k FROM a [RANGE 500 SECONDS], b [RANGE 500 SECONDS] WHERE a.u = b.u"
    runs = run(jobs_of(session, "3600 rows", uneven, even))
    assert [one.metrics.recall for one in runs] == [1.0, 1.0]


def test_one_query_by_itself_has_all_of_it(session: wm.Session) -> None:
    query = session.sql(f"SET memory = '70 rows'; {WIDE}")
    assert query.plan.options.memory is not None
    assert query.plan.options.memory.rows == 70
    with pytest.raises(BindError, match="SET memory is for joins"):
        session.sql(f"SET memory = '70 rows'; {GROUPS}")


def test_what_explain_measures_has_its_part_alone(session: wm.Session) -> None:
    outcomes = session.run(f"SET memory = '300 rows'; EXPLAIN ANALYZE {WIDE}; {NARROW}; {WIDE.replace('2000', '900')}")
    assert outcomes[0].answer is not None
    text = "\n".join(map(str, outcomes[0].answer.column(0).to_pylist()))
    assert "that is its part of the 300 rows" in text
    assert "measured" in text


def test_a_join_that_is_only_explained_is_for_whom_memory_is_set(session: wm.Session) -> None:
    text = f"SET memory = '300 rows'; EXPLAIN {WIDE}; {GROUPS}"
    with pytest.warns(PlanWarning, match="beside_memory"):
        assert bounds(read_script(text, session.catalog.copy())) == [None]
    with pytest.warns(PlanWarning, match="beside_memory"):
        assert bounds(read_script(text, session.catalog.copy(), explain=True)) == [300, None]


def test_a_memory_in_bytes_moves_too(session: wm.Session) -> None:
    narrow, wide = run(jobs_of(session, "150 kB", NARROW, WIDE))
    assert (wide.metrics.memory_bytes or 0) > 90_000
    assert (narrow.metrics.recall or 0) > 0.95


@pytest.mark.parametrize("recall", ["panes", "none"])
def test_where_losses_are_not_exact_parts_move_all_the_same(session: wm.Session, recall: str) -> None:
    _, wide = run(jobs_of(session, "2000 rows", *(f"{one} OPTIONS (recall = '{recall}')" for one in (NARROW, WIDE))))
    assert (wide.metrics.memory_rows or 0) > 1100


def test_mistakes_are_told_where_they_stand(session: wm.Session) -> None:
    with pytest.raises(ParseError, match="memory is set twice"):
        jobs_of(session, "10 rows", "SET memory = '9 rows'", NARROW)
    with pytest.raises(ParseError, match="'ten rows' is neither a number of rows nor of bytes"):
        jobs_of(session, "ten rows", NARROW)
    with pytest.raises(ParseError, match="SET has engine and memory alone, found 'speed'"):
        jobs_of(session, "10 rows", "SET speed = 'high'", NARROW)
    with pytest.raises(BindError, match="SET memory is for joins of two streams or more"):
        jobs_of(session, "10 rows", GROUPS)
    with pytest.raises(OptionError, match="less than a row of each stream of each of 2 joins, which are 4"):
        jobs_of(session, "3 rows", NARROW, WIDE)
    with pytest.raises(OptionError, match="1 row is less than a row of each stream of each of 2 joins, which are 4"):
        jobs_of(session, "1 row", NARROW, WIDE)
    with pytest.raises(OptionError, match=r"50 bytes, its part of '100 bytes', is too little: a row of each"):
        run(jobs_of(session, "100 bytes", NARROW, WIDE))
    with pytest.raises(OptionError, match="priority = '2' says how much of the memory of a script a query gets"):
        read_script(f"{NARROW} OPTIONS (priority = 2)", session.catalog.copy())
    with pytest.raises(OptionError, match="and this one has memory of its own"):
        jobs_of(session, "10 rows", f"{NARROW} OPTIONS (memory = '5 rows', priority = 2)", WIDE)
    with pytest.raises(OptionError, match="priority = 'much' is not a number"):
        jobs_of(session, "10 rows", f"{NARROW} OPTIONS (priority = 'much')", WIDE)
