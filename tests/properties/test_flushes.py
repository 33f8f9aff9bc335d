"""All that waits is answered, then rows come after all: an operator made anew from its state before goes on as one that
is rebuilt from its rows."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.properties.continuous_strategies import Case, cases
from tests.properties.deduplicate_strategies import deduplicated_cases
from tests.properties.over_strategies import OverCase
from tests.relays import Relay, between, shown, whole
from tests.runners import bound_plan
from watersmeet.hosts.local.pushed_execution import answered_all
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.contract import End, Operator, Rows, Wrapper
from watersmeet.operators.deduplicate import Deduplicate

# Which holds what is inside, and does not divide.
OF_ITS_OWN_STATE = frozenset(
    {"STATE", "save", "load", "undivided", "keyed_state", "take_over", "key_columns", "divided", "take_rows_over"}
    | {"kept_of"}  # nobody may begin with rows of which duplicates were left out
)


@random_cases(40)
@given(cases(), st.floats(0, 1))
def test_what_comes_after_all_is_answered_as_from_the_rows(case: Case, share: float) -> None:
    goes_on_after_a_flush(Relay(bound_plan(case.sql(), case.sources), case.sources), share)


@random_cases(40)
@given(deduplicated_cases(), st.floats(0, 1))
def test_so_it_is_where_duplicates_are_left_out(case: OverCase, share: float) -> None:
    goes_on_after_a_flush(Relay(bound_plan(case.sql, case.sources), case.sources), share)


def test_what_leaves_duplicates_out_answers_all_else_by_what_it_stands_before() -> None:
    asked = {name for name in vars(Operator) if not name.startswith("_")}
    assert asked - OF_ITS_OWN_STATE <= {*vars(Deduplicate), *vars(Wrapper)}


def goes_on_after_a_flush(relay: Relay, share: float) -> None:
    operator = relay.fresh()
    rows = {alias: whole(relay.source(stream.name)) for alias, stream in relay.built().streams.items()}
    times = np.sort(np.concatenate([one.times for one in rows.values()]))
    if not times.size:
        return
    cut = int(times[int(share * (times.size - 1))]) + 1
    before = {alias: between(one, BEGINNING_US, cut) for alias, one in rows.items()}
    watermark = max(cut - 1_000_000, BEGINNING_US)
    for _ in operator.take(before, dict.fromkeys(rows, watermark)):
        pass
    newest_us = max(int(one.times.max()) for one in before.values() if len(one))
    end, again = _outcome(answered_all(operator, rows, newest_us, relay.fresh))
    rebuilt = relay.fresh()
    rebuilt.restore(_needed(operator, before, end.answered_us + 1), end.answered_us + 1, [end])
    after = {alias: between(one, max(cut, end.answered_us + 1), FOREVER_US) for alias, one in rows.items()}
    marks = dict.fromkeys(rows, FOREVER_US)
    assert sorted(shown(again.take(after, marks))) == sorted(shown(rebuilt.take(after, marks)))


def _outcome(answers: Generator[pa.RecordBatch, None, tuple[End, Operator]]) -> tuple[End, Operator]:
    while True:
        try:
            next(answers)
        except StopIteration as stop:
            return stop.value


def _needed(operator: Operator, rows: dict[str, Rows], until_us: int) -> dict[str, Rows]:
    return {alias: one.take(np.flatnonzero(operator.still_needed(alias, one, until_us))) for alias, one in rows.items()}
