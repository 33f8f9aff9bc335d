"""Rows that are pushed: the answer is that of the rows in time, however they are cut, whichever thread pushes them."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties import continuous_strategies, strategies
from tests.properties.interleaving import Arrivals, arrivals
from tests.properties.test_continuous import assert_same, few, sent
from tests.properties.test_joins import refuse_contradictions, sorted_by_time
from tests.runners import Numbers, Source, bag_of, bound_plan, by_local_engine, by_reference, tables_of, without
from watersmeet import Query, Session
from watersmeet.checking.compare import differences
from watersmeet.checking.recompute import Reference, rows_of
from watersmeet.plan.query import Plan
from watersmeet.reference.join import answer

less = settings(few, max_examples=max(1, few.max_examples // 2))


def pushable(sql: str, sources: Sequence[Source]) -> Query:
    session = Session()
    for source in sources:
        if source.time is None:
            session.table(source.name, source.table)
        else:
            session.stream(source.name, schema=source.table.schema, time=source.time, lateness=source.lateness)
    return session.sql(sql)


def pushed(query: Query, sources: Sequence[Source], pieces: Arrivals) -> tuple[pa.Table, list[Source]]:
    """What a run gives, and the sources without the rows that came too late."""
    late: dict[str, list[Numbers]] = {source.name: [np.empty(0, np.int64)] for source in sources}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "late_rows")
        with query.start() as run:
            for name, clock in run._execution.clock.clocks.items():
                clock.on_late_rows = lambda _, numbers, name=name: late[name].append(numbers)
            for name, batch in pieces:
                run.push(name, batch)
        found = run.take()
    kept = [replace(one, table=without(one.table, np.concatenate(late[one.name]))) for one in sources]
    return found, kept


def by_threads(query: Query, sources: Sequence[Source], size: int) -> pa.Table:
    """A thread for every stream, and one that takes the answers meanwhile."""
    streams = [source for source in sources if source.time is not None]
    gate = threading.Barrier(len(streams) + 1)
    taken: list[pa.RecordBatch] = []
    failed: list[BaseException] = []

    def pushing(source: Source) -> None:
        try:
            gate.wait()
            for batch in source.table.to_batches(size):
                run.push(source.name, batch)
        except BaseException as error:
            failed.append(error)

    with query.start(max_waiting=5) as run:
        threads = [threading.Thread(target=pushing, args=[source]) for source in streams]
        taking = threading.Thread(target=lambda: taken.extend(run))
        for thread in (*threads, taking):
            thread.start()
        gate.wait()
        for thread in threads:
            thread.join()
        run.finish()
        taking.join()
    assert failed == []
    return pa.Table.from_batches(taken, query.schema)


@few
@given(strategies.cases(), st.data())
def test_a_join_that_is_pushed_gives_the_answer_of_the_rows_in_time(case, data):
    refuse_contradictions(case)
    query = pushable(case.sql, case.sources)
    found, kept = pushed(query, case.sources, data.draw(arrivals(case.sources)))
    assert bag_of(found) == by_reference(case.sql, kept)


@few
@given(continuous_strategies.cases(), st.data())
def test_an_answer_that_changes_is_pushed_to_what_the_rows_in_time_say(case, data):
    query = pushable(case.sql(), case.sources)
    found, kept = pushed(query, case.sources, data.draw(arrivals(case.sources)))
    plan = bound_plan(case.sql(), kept)
    assert_same(sent(plan, rows_of(found)), sent(plan, answer(plan, tables_of(kept))))


@less
@given(strategies.cases(least_streams=2), st.integers(1, 3))
def test_threads_that_push_a_stream_each_give_the_answer_over_tables(case, size):
    refuse_contradictions(case)
    ordered = [sorted_by_time(source) for source in case.sources]
    found = by_threads(pushable(case.sql, ordered), ordered, size)
    assert bag_of(found) == by_local_engine(case.sql, ordered)


@few
@given(continuous_strategies.cases(words=False), st.data())
def test_the_present_answer_is_that_at_the_watermark_whenever_one_looks(case, data):
    case = continuous_strategies.in_order(case)
    query = pushable(case.sql(), case.sources)
    if query.plan.kind != "changes":
        return
    seen: dict[str, list[pa.RecordBatch]] = {one.name: [] for one in case.sources}
    with query.start() as run:
        for name, batch in data.draw(arrivals(case.sources)):
            run.push(name, batch)
            seen[name].append(batch)
            if data.draw(st.booleans()):
                assert_is_answer(query.plan, case.sources, seen, run.answer(), run.metrics()["watermark_us"])


def assert_is_answer(
    plan: Plan, sources: Sequence[Source], seen: dict[str, list[pa.RecordBatch]], present: pa.Table, watermark_us: int
) -> None:
    """All changes before the watermark are in, those at it or after it are not."""
    if watermark_us < 0:
        assert present.num_rows == 0
        return
    tables = {
        one.name: one.table if one.time is None else pa.Table.from_batches(seen[one.name], one.table.schema)
        for one in sources
    }
    expected = Reference(plan, tables).answer_at(watermark_us - 1)
    assert differences(rows_of(present), expected) == ([], [])
