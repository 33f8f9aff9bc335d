"""State that is split by key, goes on in parts and is merged again answers as if nothing had happened, whatever the
kind of operator; where it does not divide, one part holds it, and a sentence says why."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isabstract
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.effort import EFFORT, PATIENT
from tests.partitions import Partitioned, answered_at_once, answered_in_parts
from tests.properties import continuous_strategies, strategies
from tests.properties.outer_strategies import OuterCase, outer_cases
from tests.properties.test_joins import refuse_contradictions
from tests.properties.test_outer_joins import planned
from tests.relays import Relay, counts
from tests.runners import bound_plan
from tests.states import BATCHES, KINDS, SAVED_AFTER, relay_of
from watersmeet.errors import DataError, UnsupportedError
from watersmeet.operators.contract import Operator
from watersmeet.operators.repartition import merge

few = settings(max_examples=12 * EFFORT, deadline=None, suppress_health_check=PATIENT)
# By how many parts each batch is taken.
WAYS = [(1, 1, 1, 2, 1, 1), (1, 1, 1, 3, 7, 2), (2, 3, 1, 7, 7, 1)]
# The kinds whose state does not divide, and why. Any other does.
NO_KEY = "no key keeps together what belongs together"
DEFAULT = "the state of {} does not divide by key"
MEMORY = "rows of all keys share the memory that is bounded"
UNDIVIDED = {
    "join by order": NO_KEY,
    "join of three": NO_KEY,
    "join of counted rows": NO_KEY,
    "nested loops": DEFAULT.format("ClassicJoin"),
    "pipeline": DEFAULT.format("ClassicJoin"),
    "merge": DEFAULT.format("ClassicJoin"),
    "bounded": MEMORY,
    "bounded, panes": MEMORY,
    "bounded, counted": NO_KEY,
    "left join of a left join": NO_KEY,
    "semi join in time": DEFAULT.format("OuterJoin"),
    "full join of windows": NO_KEY,
    "anti join of a view": DEFAULT.format("FromMatched"),
    "versions of a table": DEFAULT.format("AsofJoin"),
    "groups of the latest": DEFAULT.format("AsofJoin"),
    "groups of a join": NO_KEY,
    "groups in steps": NO_KEY,
    "as of": DEFAULT.format("AsofJoin"),
    "sets": NO_KEY,
    "first rows": NO_KEY,
    "snapshots": NO_KEY,
    "input trigger": "expired rows are noticed when the next row comes, whatever its key",
    "over rows of a stream": NO_KEY,
    "over rows of a while": NO_KEY,
    "first rows of each": "OverChanging holds what came of rows that never leave",
    "first to arrive": DEFAULT.format("Deduplicate"),
    "rows against a value": NO_KEY,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_divide_says_why(kind: str) -> None:
    assert Partitioned(relay_of(kind)).undivided == UNDIVIDED.get(kind)


@pytest.mark.parametrize(("kind", "ways"), [(kind, ways) for kind in KINDS for ways in WAYS if kind not in UNDIVIDED])
def test_parts_of_a_state_answer_what_it_would(kind: str, ways: tuple[int, ...]) -> None:
    """Each batch is taken by so many parts, which between them hold what those before held: one is split, several that
    ran apart are merged, and split anew."""
    relay = relay_of(kind)
    batches = list(relay.batches(BATCHES))
    expected = answered_at_once(relay, batches)
    assert answered_in_parts(relay, batches, ways) == expected
    assert any(expected[SAVED_AFTER:])


@pytest.mark.parametrize("kind", UNDIVIDED)
def test_of_what_does_not_divide_one_part_holds_all(kind: str) -> None:
    relay = relay_of(kind)
    batches = list(relay.batches(BATCHES))
    assert answered_in_parts(relay, batches, WAYS[-1]) == answered_at_once(relay, batches)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_split_and_merged_at_once_holds_and_counts_the_same(kind: str) -> None:
    relay = relay_of(kind)
    partitioned, operator = Partitioned(relay), relay.fresh()
    for rows, marks in list(relay.batches(BATCHES))[:SAVED_AFTER]:
        list(operator.take(rows, marks))
    (again,) = partitioned.in_parts(partitioned.in_parts([operator], 3), 1)
    # Rows that had died and were not yet cleared away are left behind.
    assert again.window_rows <= operator.window_rows
    assert again.window_rows == operator.window_rows or kind == "a view"
    assert counts(again) == counts(operator)
    assert again.waiting_rows() == operator.waiting_rows()
    assert again.wake_us == operator.wake_us


def test_two_parts_that_both_hold_what_does_not_divide_are_not_merged() -> None:
    relay = relay_of("first rows")
    partitioned, operators = Partitioned(relay), [relay_of("first rows").fresh() for _ in range(2)]
    for operator in operators:
        list(operator.take(*next(relay.batches(BATCHES))))
    with pytest.raises(DataError, match="parts 0 and 1 of a state cannot be merged"):
        merge(partitioned.states(operators))


# ---- no operator is forgotten ---------------------------------------------------------------------------------------


def test_every_operator_is_among_the_kinds() -> None:
    met = {type(one) for kind in KINDS for one in _inside(relay_of(kind).fresh())}
    assert {one for one in _operators(Operator) if one not in met} == set()


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
    assert answered_in_parts(relay, batches, ways[: len(batches)]) == answered_at_once(relay, batches)


@few
@given(strategies.cases(), ANY_WAY)
def test_random_joins(case: strategies.Case, ways: list[int]) -> None:
    refuse_contradictions(case)
    assume(any(len(source.table) for source in case.sources if source.time is not None))
    goes_on_in_parts(Relay(bound_plan(case.sql, case.sources), case.sources), ways)


@settings(few, max_examples=20 * EFFORT)
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
