"""Moments of arrival are event times like any others: the answer is that of the same rows with those times recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import continuous_strategies, strategies
from tests.properties.interleaving import Arrivals, arrivals
from tests.properties.test_continuous import assert_same, few, sent
from tests.properties.test_joins import refuse_contradictions
from tests.runners import Source, bag_of, bound_plan, by_reference, tables_of
from watersmeet import Query, Session
from watersmeet.checking.recompute import rows_of
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.operators.answers import as_batch
from watersmeet.reference.join import answer
from watersmeet.testing.trial import HandClock

START_US = 1_767_225_600_000_000
HALF_SECOND_US = 500_000
waits = st.sampled_from([0, 0, 1, 1, 2, 5, 20]).map(lambda halves: halves * HALF_SECOND_US)


def arriving(sql: str, sources: Sequence[Source]) -> Query:
    """The same query over streams whose event time is the moment of arrival, by the name it had."""
    session = Session()
    for source in sources:
        if source.time is None:
            session.table(source.name, source.table)
        else:
            brought = source.table.drop_columns([source.time]).schema
            session.stream(source.name, schema=brought, time="arrival", arrival_column=source.time)
    return session.sql(sql)


def pushed(
    query: Query, sources: Sequence[Source], pieces: Arrivals, data: st.DataObject
) -> tuple[pa.Table, list[Source]]:
    """What a run gives while the clock on the wall goes on, and the rows with the moments at which they came."""
    wall = HandClock(START_US)
    execution = PushedExecution(query.plan, wall=wall)
    found = []
    came: dict[str, list[pa.Table]] = {one.name: [] for one in sources}
    times = {one.name: one.time for one in sources}
    for name, batch in pieces:
        wall.move(data.draw(waits))
        if data.draw(st.booleans()):
            found += execution.tick()
        brought = batch.drop_columns([times[name]])
        for rows in execution.rows_of(name, brought):
            found += execution.push(name, rows)
        moments = pa.array([wall.today_us()] * batch.num_rows, pa.timestamp("us"))
        came[name].append(pa.Table.from_batches([brought]).append_column(times[name], moments))
    found += execution.finish()
    assert not execution.report().late_rows
    kept = [replace(one, table=_with_moments(one, came[one.name]), lateness="0 seconds") for one in sources]
    return pa.Table.from_batches(map(as_batch, found), query.schema), kept


def _with_moments(source: Source, came: Sequence[pa.Table]) -> pa.Table:
    if source.time is None:
        return source.table
    empty = source.table.drop_columns([source.time]).slice(0, 0)
    empty = empty.append_column(source.time, pa.array([], pa.timestamp("us")))
    return pa.concat_tables([empty, *(one.cast(empty.schema) for one in came)])


@few
@given(strategies.cases(), st.data())
def test_a_join_by_arrival_is_that_of_the_recorded_moments(case, data):
    refuse_contradictions(case)
    pieces = data.draw(arrivals(case.sources))
    found, kept = pushed(arriving(case.sql, case.sources), case.sources, pieces, data)
    assert bag_of(found) == by_reference(case.sql, kept)


@few
@given(continuous_strategies.cases(), st.data())
def test_an_answer_that_changes_by_arrival_is_that_of_the_recorded_moments(case, data):
    pieces = data.draw(arrivals(case.sources))
    found, kept = pushed(arriving(case.sql(), case.sources), case.sources, pieces, data)
    plan = bound_plan(case.sql(), kept)
    assert_same(sent(plan, rows_of(found)), sent(plan, answer(plan, tables_of(kept))))
