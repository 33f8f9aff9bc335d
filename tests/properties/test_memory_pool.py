"""Joins of a random script that share one memory: never more rows than it has, in all of them together; a part of each
answer, and exact counts of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.keeping.store import SheddingStore
from watersmeet.runtime.script import read_script

Row = tuple[int, int | None, int]
ROWS = st.tuples(st.integers(0, 60), st.one_of(st.none(), st.integers(0, 4)), st.integers(0, 9))


@st.composite
def joins(draw: st.DrawFn) -> tuple[str, str]:
    """A join, and what it says of memory."""
    names = draw(st.sampled_from(["ab", "ab", "bc", "abc"]))
    window = draw(st.sampled_from(["RANGE 3 SECONDS", "RANGE 20 SECONDS", "UNBOUNDED", "ROWS 5"]))
    conditions = [f"{one}.k = {other}.k" for one, other in pairwise(names)]
    if draw(st.booleans()):
        conditions.append(f"{names[0]}.v < {draw(st.integers(1, 9))}")
    said = [f"shed = '{draw(st.sampled_from(['rand', 'prob', 'life', 'age', 'drift', 'arm']))}'"]
    if draw(st.booleans()):
        said.append(f"priority = {draw(st.sampled_from([0.1, 2, 30]))}")
    if draw(st.booleans()):
        said.append("allocation = 'variable'")
    columns = ", ".join(f"{one}.v AS {one}" for one in names)
    inputs = ", ".join(f"{one} [{window}]" for one in names)
    return f"SELECT {columns} FROM {inputs} WHERE {' AND '.join(conditions)}", f"OPTIONS ({', '.join(said)})"


def _table(rows: list[Row]) -> pa.Table:
    times = [1_000_000 * ts for ts, _, _ in sorted(rows, key=lambda row: row[0])]
    return pa.table(
        {
            "k": pa.array([k for _, k, _ in rows], pa.int64()),
            "v": pa.array([v for _, _, v in rows], pa.int64()),
            "ts": pa.array(times, pa.timestamp("us")),
        }
    )


def _bag(blocks: list[pa.RecordBatch]) -> Counter[str]:
    return Counter(str(row) for block in blocks for row in block.to_pylist())


@contextmanager
def holding_together(most: int) -> Iterator[list[int]]:
    """At every instant at which a row is given memory, all joins have no more than the bound. Gives what they had."""
    made: list[BoundedMemory] = []
    seen: list[int] = []

    def taken(store: SheddingStore, free: int) -> None:
        store.__dict__["free_count"] = free
        if any(store in join.shed.values() for join in made):
            seen.append(sum(join.kept_rows for join in made))
            assert seen[-1] <= most

    def watched(join: BoundedMemory, *args: object, **more: object) -> None:
        make(join, *args, **more)
        made.append(join)

    make = BoundedMemory.__init__
    with pytest.MonkeyPatch.context() as patch:
        free_count = property(lambda store: store.__dict__["free_count"], taken)
        patch.setattr(SheddingStore, "free_count", free_count, raising=False)
        patch.setattr(BoundedMemory, "__init__", watched)
        yield seen


@random_cases(60)
@given(
    rows=st.tuples(*[st.lists(ROWS, max_size=60)] * 3),
    script=st.lists(joins(), min_size=2, max_size=5, unique_by=lambda one: one[0]),
    more=st.integers(0, 60),
    batch_rows=st.sampled_from([1, 3, 16, 200]),
    times=st.sampled_from([1, 1, 20]),
)
def test_together_they_keep_no_more_and_each_counts_what_it_lost(
    rows: tuple[list[Row], ...], script: list[tuple[str, str]], more: int, batch_rows: int, times: int
) -> None:
    """times: how often the rows come, so that parts move."""
    most = sum(len(sql.split(" FROM ")[1].split(" WHERE ")[0].split(", ")) for sql, _ in script) + more * times
    session = wm.Session()
    for name, one in zip("abc", rows, strict=True):
        session.stream(name, _table(sorted(one * times, key=lambda row: row[0])), time="ts")
    exact = [session.sql(sql).to_arrow() for sql, _ in script]
    text = f"SET memory = '{most} rows';\n" + ";\n".join(" ".join(one) for one in script)
    with holding_together(most):
        runs = [PulledExecution(job.plan, batch_rows=batch_rows) for job in read_script(text, session.catalog.copy())]
        found: dict[int, list[pa.RecordBatch]] = {id(run): [] for run in runs}
        for run, block in Pull(runs).answers():
            if block is not None:
                found[id(run)].append(block)
    for run, whole in zip(runs, exact, strict=True):
        assert run.failure is None
        mine, all_of_it = _bag(found[id(run)]), _bag(whole.to_batches())
        assert not mine - all_of_it
        assert run.metrics.exact_results == all_of_it.total()
        assert run.metrics.results == mine.total()
