"""State that is split by key, goes on in parts and is merged again answers as if nothing had happened, whatever the
kind of operator; where it does not divide, one part holds it, and a sentence says why."""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from inspect import isabstract
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import random_cases, thinned
from tests.partitions import (
    Answers,
    Partitioned,
    answered_at_once,
    answered_in_parts,
    answered_in_threads,
    pushed_in_threads,
)
from tests.properties import continuous_strategies, strategies
from tests.properties.outer_strategies import OuterCase, outer_cases
from tests.properties.test_joins import refuse_contradictions
from tests.properties.test_outer_joins import planned
from tests.properties.version_strategies import version_cases
from tests.relays import Batch, Relay, counts, goes_on_as_if_nothing_had_happened, shown
from tests.runners import Source, bound_plan
from tests.states import BATCHES, KINDS, SAVED_AFTER, relay_for, relay_of, stream_of
from watersmeet.errors import DataError, UnsupportedError
from watersmeet.model.versions import Versions
from watersmeet.operators import continuous, partitioned
from watersmeet.operators.continuous.node import Divides, Node
from watersmeet.operators.contract import Operator
from watersmeet.operators.join.team import Team
from watersmeet.operators.late_start import LateStart
from watersmeet.operators.repartition import merge

few = random_cases(12)


@pytest.fixture(autouse=True)
def _every_row_is_worth_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "WORTH_A_THREAD", 1)


# Beside the kinds of operators, queries by one key that make them hold something else.
PAIR = "SELECT a.id, b.id AS other, a.s, b.w"
NEAR = "ABS(b.ts - a.ts) <= 5 SECONDS"
CHANGED = "(SELECT ISTREAM k, COUNT(*) AS c FROM a [RANGE 5 SECONDS] GROUP BY k) j"
BY_KEY = {
    "rows counted by key": f"{PAIR} FROM a [PARTITION BY k ROWS 3], b [PARTITION BY s, k ROWS 2] WHERE a.k = b.k",
    "join by text": f"{PAIR} FROM a, b WHERE a.s = b.s WINDOW = 9 SECONDS",
    "join by an expression": f"{PAIR} FROM a, b WHERE a.k + 1 = b.k WINDOW = 9 SECONDS",
    "join of three by key": f"{PAIR} FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND a.x < c.x WINDOW = 4 SECONDS",
    "counted by floats": "SELECT a.id FROM a [PARTITION BY x ROWS 1]",
    "changes of a join": "SELECT a.id, b.id AS o FROM a [RANGE 9 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k",
    "groups of a join by key": "SELECT a.k, MIN(b.s) AS l, LAST(b.x) AS z, FIRST(a.id) AS f FROM a [RANGE 9 SECONDS], "
    "b [PARTITION BY k ROWS 2] WHERE a.k = b.k GROUP BY a.k HAVING COUNT(*) > 1",
    "steps by key": "SELECT a.k, COUNT(*) AS n FROM a [RANGE 9 SECONDS SLIDE 2 SECONDS], "
    "b [PARTITION BY k ROWS 6 SLIDE 3] WHERE a.k = b.k GROUP BY a.k",
    "chosen rows": "SELECT id, s FROM a [RANGE 9 SECONDS] WHERE x > 0 OPTIONS (pipeline = 'nta')",
    "sets by key": "SELECT k, s FROM a [RANGE 9 SECONDS] EXCEPT ALL SELECT k, s FROM b [PARTITION BY k ROWS 2]",
    "values by key": "SELECT a.id, a.k FROM a [RANGE 9 SECONDS] WHERE a.x > (SELECT AVG(b.x) FROM b [RANGE 9 SECONDS] "
    "WHERE b.k = a.k)",
    "left joins by one key": f"{PAIR}, c.id AS third FROM a LEFT JOIN b ON a.k = b.k AND {NEAR} "
    "LEFT JOIN c ON a.k = c.k AND ABS(c.ts - a.ts) <= 3 SECONDS",
    "full join": f"SELECT a.id, b.id AS o FROM a FULL JOIN b ON a.s = b.s AND a.k = b.k AND {NEAR}",
    "as of a left join": f"SELECT a.id, b.id AS o, c.id AS p FROM a LEFT JOIN b ON a.k = b.k AND {NEAR} "
    "ASOF LEFT JOIN c ON a.k = c.k AND c.ts <= a.ts",
    "first from a time on": "SELECT a.id, b.id AS o FROM a ASOF JOIN b ON a.k = b.k AND b.ts > a.ts",
    "nearest in time": "SELECT a.id, b.id AS o FROM a ASOF LEFT JOIN b ON a.k = b.k AND NEAREST(b.ts, a.ts) AND "
    "ABS(b.ts - a.ts) <= 3 SECONDS",
    "left join of windows": "SELECT a.k, COUNT(*) AS n, COUNT(b.k) AS m, MAX(b.s) AS l FROM a [RANGE 9 SECONDS] "
    "LEFT JOIN b [PARTITION BY k ROWS 2] ON a.k = b.k GROUP BY a.k",
    "semi join of windows": "SELECT a.k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] SEMI JOIN b [RANGE 1 SECONDS] "
    "ON a.k = b.k GROUP BY a.k",
    "groups of all time": "SELECT s, COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS t, AVG(id) AS m, STDDEV(x) AS d, "
    "SUM(m) AS q, SUM(id) AS i FROM a [UNBOUNDED] GROUP BY s HAVING COUNT(*) > 3",
    "least of all time": "SELECT s, MIN(x) AS t FROM a [UNBOUNDED] GROUP BY s",
    "distinct of all time": "SELECT DISTINCT k, w FROM a [UNBOUNDED] WHERE id % 3 = 0",
    "what left": "SELECT j.k, COUNT(*) AS n FROM (SELECT DSTREAM k, s FROM a [RANGE 5 SECONDS]) j [RANGE 9 SECONDS] "
    "GROUP BY j.k",
    "a view and changes": "SELECT v.k, v.n, j.c FROM (SELECT k, COUNT(*) AS n FROM b [RANGE 9 SECONDS] GROUP BY k) v, "
    "(SELECT ISTREAM k, COUNT(*) AS c FROM a [RANGE 5 SECONDS] GROUP BY k) j [RANGE 3 SECONDS] WHERE v.k = j.k",
    "the log of an answer": "SELECT c._op AS op, c.k, COUNT(*) AS n FROM CHANGES((SELECT k, COUNT(*) AS n FROM "
    "a [RANGE 5 SECONDS] GROUP BY k)) [RANGE 3 SECONDS] c GROUP BY c._op, c.k",
    "streams together": "SELECT k, id FROM a UNION ALL SELECT k, id FROM b WHERE x > 0",
    "groups of streams together": "SELECT u.k, COUNT(*) AS n, LAST(u.s) AS l FROM (SELECT k, s, ts FROM a UNION ALL "
    "SELECT k, s, ts FROM b) [RANGE 9 SECONDS] u GROUP BY u.k",
    "left join of what changed": f"SELECT j.k, j.c, b.id AS o FROM {CHANGED} LEFT JOIN b ON j.k = b.k AND ABS(b.ts - "
    "j._ts) <= 2 SECONDS",
    "as of what changed": f"SELECT j.k, j.c, b.id AS o FROM {CHANGED} ASOF LEFT JOIN b ON j.k = b.k AND b.ts <= j._ts",
    "versions that tell the key": "SELECT a.id, b.k, b.w FROM a LEFT JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.k",
    "over time by key": "SELECT id, SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS 3 PRECEDING) AS v FROM a",
}
# Rows of these that had died and were not yet cleared away are left behind.
CLEARED = ("a view", "anti join of a view", "left join of windows", "a view and changes")
# Rows of these that are gone are cleared away with what lies behind them, which may be of another key.
BY_PANES = ("by panes",)
LAZY = (
    *CLEARED, "rows counted by key", "groups of a join by key", "steps by key", "left joins by one key",
    "nearest in time", "semi join of windows",
)  # fmt: skip
SELECTED = ("select", "chosen rows")  # in their order
ALL = {**KINDS, **BY_KEY}
# By how many parts each batch is taken.
WAYS = [(1, 1, 2, 3, 7, 1), (3, 1, 1, 7, 2, 2)]
# The kinds whose state does not divide, and why. Any other does.
NO_KEY = "no key keeps together what belongs together"
DEFAULT = "the state of {} does not divide by key"
MEMORY = "rows of all keys share the memory that is bounded"
UNDIVIDED = {
    "join of counted rows": NO_KEY,
    "nested loops": DEFAULT.format("ClassicJoin"),
    "pipeline": DEFAULT.format("ClassicJoin"),
    "merge": DEFAULT.format("ClassicJoin"),
    "bounded": MEMORY,
    "bounded, panes": MEMORY,
    "bounded, counted": NO_KEY,
    "left join of a left join": NO_KEY,
    "full join of windows": NO_KEY,
    "versions by another column": NO_KEY,
    "versions of a table": "the rows of b that are looked up do not tell the key",
    "groups of a join": NO_KEY,
    "groups in steps": NO_KEY,
    "sets": NO_KEY,
    "first rows": NO_KEY,
    "snapshots": NO_KEY,
    "input trigger": "expired rows are noticed when the next row comes, whatever its key",
    "over rows of a stream": NO_KEY,
    "over rows of a while": NO_KEY,
    "over rows around a row": DEFAULT.format("OverStream"),
    "over rows ahead": DEFAULT.format("OverStream"),
    "over time by key": DEFAULT.format("OverStream"),
    "least of all time": "GroupByOperator holds what came of rows that never leave",
    "first to arrive": DEFAULT.format("Deduplicate"),
    "rows against a value": NO_KEY,
    "rows not in a view": NO_KEY,
}
IN_THREADS = [kind for kind in ALL if kind not in (*UNDIVIDED, *SELECTED)]


class Told(NamedTuple):
    """What an operator gives for a batch, and what it holds and has counted then."""

    answers: Answers
    counts: dict[str, Any]
    kept_rows: int
    waiting_rows: Any
    wake_us: int | None


# Every test below asks for all kinds again: each is planned, cut into batches and answered by one operator once.


@cache
def kind_named(kind: str) -> Partitioned:
    return Partitioned(relay_of(kind) if kind in KINDS else relay_for(BY_KEY[kind]))


def relay_named(kind: str) -> Relay:
    return kind_named(kind).relay


@cache
def batches_of(kind: str) -> list[Batch]:
    return list(relay_named(kind).batches(BATCHES))


@cache
def told_by_one(kind: str) -> list[Told]:
    operator = relay_named(kind).fresh()
    return [told(operator, batch) for batch in batches_of(kind)]


def told(operator: Operator, batch: Batch) -> Told:
    answers = Counter(shown(operator.take(*batch)))
    return Told(answers, counts(operator), operator.kept_rows, operator.waiting_rows(), operator.wake_us)


def answers_of_one(kind: str) -> list[Answers]:
    return [one.answers for one in told_by_one(kind)]


@pytest.mark.parametrize("kind", ALL)
def test_what_does_not_divide_says_why(kind: str) -> None:
    assert kind_named(kind).undivided == UNDIVIDED.get(kind)


@pytest.mark.parametrize(("kind", "ways"), thinned([kind for kind in ALL if kind not in UNDIVIDED], WAYS))
def test_parts_of_a_state_answer_what_it_would(kind: str, ways: tuple[int, ...]) -> None:
    """Each batch is taken by so many parts, which between them hold what those before held: one is split, several that
    ran apart are merged, and split anew."""
    assert answered_in_parts(kind_named(kind), batches_of(kind), ways) == answers_of_one(kind)
    assert any(answers_of_one(kind)[SAVED_AFTER:])


@pytest.mark.parametrize("kind", UNDIVIDED)
def test_of_what_does_not_divide_one_part_holds_all(kind: str) -> None:
    assert answered_in_parts(kind_named(kind), batches_of(kind), WAYS[-1]) == answers_of_one(kind)


@pytest.mark.parametrize("kind", ALL)
def test_what_is_split_and_merged_at_once_holds_and_counts_the_same(kind: str) -> None:
    partitioned, operator = kind_named(kind), relay_named(kind).fresh()
    for rows, marks in batches_of(kind)[:SAVED_AFTER]:
        list(operator.take(rows, marks))
    (again,) = partitioned.in_parts(partitioned.in_parts([operator], 3), 1)
    assert again.kept_rows == operator.kept_rows or (kind in CLEARED and again.kept_rows < operator.kept_rows)
    assert counts(again) == counts(operator)
    assert again.waiting_rows() == operator.waiting_rows()
    assert again.wake_us == operator.wake_us


def test_two_parts_that_both_hold_what_does_not_divide_are_not_merged() -> None:
    partitioned, operators = kind_named("first rows"), [relay_named("first rows").fresh() for _ in range(2)]
    for operator in operators:
        list(operator.take(*batches_of("first rows")[0]))
    with pytest.raises(DataError, match="parts 0 and 1 of a state cannot be merged"):
        merge(partitioned.states(operators))


def test_versions_must_tell_all_columns_of_their_key() -> None:
    """What is not read of them is not held either."""
    sources = [Source("a", stream_of(0)), Source("b", stream_of(1), versions=Versions(("k", "s")))]
    joined = "FROM a LEFT JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.k AND a.s = b.s"
    told = Relay(bound_plan(f"SELECT a.id, b.k, b.s, b.w {joined}", sources), sources)
    assert Partitioned(told).undivided is None
    goes_on_in_parts(told, [1, 2, 3, 1])
    untold = Relay(bound_plan(f"SELECT a.id, b.k, b.w {joined}", sources), sources)
    assert Partitioned(untold).undivided == UNDIVIDED["versions of a table"]


# ---- in threads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*UNDIVIDED, *SELECTED])
def test_what_does_not_divide_runs_in_one_thread(kind: str) -> None:
    """By the same plan."""
    several = relay_named(kind).in_threads(3).physical
    assert several.one_thread is not None
    assert replace(several, one_thread=None) == relay_named(kind).physical


@pytest.mark.parametrize(("kind", "threads"), thinned(IN_THREADS, [2, 3, 7]))
def test_threads_answer_hold_and_count_what_one_does(kind: str, threads: int) -> None:
    several = relay_named(kind).in_threads(threads)
    operator = several.fresh()
    assert operator.parts == threads
    # Each thread looks for what has left by itself, and counts that.
    whatever = {"expired_rows": 0} if kind in LAZY else {"work": {}} if kind in BY_PANES else {}
    for batch, one in zip(batches_of(kind), told_by_one(kind), strict=True):
        found = told(operator, batch)
        assert found.answers == one.answers
        assert found.counts | whatever == one.counts | whatever
        assert found.kept_rows == one.kept_rows or kind in LAZY
        assert (found.waiting_rows, found.wake_us) == (one.waiting_rows, one.wake_us)
    assert sum(pushed_in_threads(several, batches_of(kind)), Counter()) == sum(answers_of_one(kind), Counter())


@pytest.mark.parametrize("kind", IN_THREADS)
def test_threads_are_saved_and_loaded(kind: str) -> None:
    goes_on_as_if_nothing_had_happened(relay_named(kind).in_threads(2))


@pytest.mark.parametrize(("kind", "ways"), thinned([kind for kind in ALL if kind not in UNDIVIDED], WAYS))
def test_as_many_threads_as_one_likes_take_over_from_others(kind: str, ways: tuple[int, ...]) -> None:
    relay, key = relay_named(kind), kind_named(kind).key
    assert key is not None
    operator, found = relay.fresh(), []
    for batch, threads in zip(batches_of(kind), ways, strict=True):
        before, operator = operator, relay.in_threads(threads).fresh()
        operator.take_over(before.keyed_state(key))
        found.append(Counter(shown(operator.take(*batch))))
    assert found == answers_of_one(kind)


# ---- no operator is forgotten ---------------------------------------------------------------------------------------


def test_every_operator_is_among_the_kinds() -> None:
    relays = [*(relay_named(kind) for kind in KINDS), relay_named("join").in_threads(2)]
    met = {type(one) for relay in relays for one in _inside(relay.fresh())}
    # What stands for an operator that begins late has none of its kinds: runs that begin so are killed and go on. Of
    # joins that keep rows once on Spark the log is tested (tests/spark/test_teams.py).
    assert {one for one in _operators(Operator) if one not in met} == {LateStart, Team}


# Operators below a changing answer whose state does not divide: those that compare all rows with each other, OVER by
# event time, which holds what came of rows that are gone, and what reads a part that several have in common, which is
# so in one thread only.
TOGETHER = {"TopKOperator", "Snapshots", "OverStream", "CommonReader", "GrowingRows"}


def test_every_operator_below_a_changing_answer_divides_or_is_known_not_to() -> None:
    found = {one for module in _modules() for one in vars(module).values() if _is_node(one)}
    assert {one.__name__ for one in found if not issubclass(one, Divides)} == TOGETHER
    held = [_inside(relay_named(kind).fresh()) for kind in ALL if kind not in UNDIVIDED]
    assert {one for one in found if issubclass(one, Divides)} <= {type(one) for inside in held for one in inside}


def _modules() -> Iterator[ModuleType]:
    for one in pkgutil.walk_packages(continuous.__path__, f"{continuous.__name__}."):
        yield import_module(one.name)


def _is_node(one: object) -> bool:
    """Whether it is a class of operators, and not what they have in common."""
    asked = ("take", "inputs", "next_event", "held_rows")
    return isinstance(one, type) and one is not Node and all(hasattr(one, name) for name in asked)


def _operators(base: type[Any]) -> Iterator[type[Any]]:
    for one in base.__subclasses__():
        if one.__module__.startswith("watersmeet.operators") and not isabstract(one):
            yield one
        yield from _operators(one)


def _inside(thing: Any) -> Iterator[Any]:
    """An object with state, and all that it holds."""
    if hasattr(thing, "STATE"):
        yield thing
        for name in thing.STATE:
            yield from _inside(getattr(thing, name, None))
    elif isinstance(thing, dict | list | tuple):
        for one in thing.values() if isinstance(thing, dict) else thing:
            yield from _inside(one)


# ---- random queries -------------------------------------------------------------------------------------------------

ANY_WAY = st.lists(st.sampled_from([1, 2, 3, 7]), min_size=5, max_size=5)


def goes_on_in_parts(relay: Relay, ways: list[int]) -> None:
    batches = list(relay.batches(len(ways)))
    expected = answered_at_once(relay, batches)
    assert answered_in_parts(Partitioned(relay), batches, ways[: len(batches)]) == expected
    assert answered_in_threads(relay, batches, max(ways)) == expected


@few
@given(strategies.cases(), ANY_WAY)
def test_random_joins(case: strategies.Case, ways: list[int]) -> None:
    refuse_contradictions(case)
    assume(any(len(source.table) for source in case.sources if source.time is not None))
    goes_on_in_parts(Relay(bound_plan(case.sql, case.sources), case.sources), ways)


@random_cases(20)
@given(continuous_strategies.cases(), ANY_WAY, st.sampled_from(("auto", "ita", "tpa", "nta")))
def test_random_continuous_queries(case: continuous_strategies.Case, ways: list[int], pipeline: str) -> None:
    assume(any(len(source.table) for source in case.sources if source.name in case.query))
    try:
        relay = Relay(bound_plan(case.sql(pipeline=pipeline), case.sources), case.sources)
        relay.fresh()
    except UnsupportedError:
        assume(False)
    goes_on_in_parts(relay, ways)


@few
@given(outer_cases(), ANY_WAY)
def test_random_trees_of_joins_with_rows_left_over(case: OuterCase, ways: list[int]) -> None:
    plan = planned(case)
    assume(any(len(source.table) for source in case.sources))
    goes_on_in_parts(Relay(plan, case.sources), ways)


@few
@given(version_cases(), ANY_WAY)
def test_random_joins_with_versions_of_tables(case: OuterCase, ways: list[int]) -> None:
    plan = planned(case)
    assume(any(len(source.table) for source in case.sources))
    goes_on_in_parts(Relay(plan, case.sources), ways)
