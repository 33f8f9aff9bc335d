"""Queries of one script that look at the same streams are fed by one reading: each answer is what it would be alone."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution

NOON = dt.datetime(2026, 1, 1, 12)
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.int64()), ("word", pa.string())])
ROWS = st.tuples(
    st.integers(0, 12), st.none() | st.integers(0, 2), st.integers(-3, 3), st.none() | st.sampled_from("uv")
)
Streams = dict[str, pa.Table]
pytestmark = pytest.mark.filterwarnings("ignore:cross_join", "ignore:late_rows", "ignore:many_answers")


@st.composite
def streams(draw: st.DrawFn) -> Streams:
    """Rows in any order of their times."""
    names = draw(st.sampled_from(["a", "ab", "abc"]))
    return {name: _table(draw(st.lists(ROWS, max_size=14))) for name in names}


def _table(rows: Sequence[tuple[int, int | None, int, str | None]]) -> pa.Table:
    times = [NOON + dt.timedelta(seconds=row[0]) for row in rows]
    columns = [times, [row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows]]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


@st.composite
def queries(draw: st.DrawFn, names: Sequence[str]) -> list[str]:
    return [draw(query(names)) for _ in range(draw(st.integers(2, 6)))]


@st.composite
def query(draw: st.DrawFn, names: Sequence[str]) -> str:
    one, other, third = (draw(st.sampled_from(sorted(names))) for _ in range(3))
    width, rows = draw(st.integers(0, 5)), draw(st.integers(1, 4))
    filtered = draw(st.sampled_from(["TRUE", "x.v > 0", "x.word = 'u'", "x.k IS NOT NULL"]))
    return draw(
        st.sampled_from(
            [
                f"SELECT x.k, x.v, y.v AS w FROM {one} x, {other} y WHERE x.k = y.k AND {filtered} "
                f"WINDOW = {width} SECONDS",
                f"SELECT x.v, y.v AS w, z.v AS u FROM {one} x, {other} y, {third} z "
                f"WHERE x.k = y.k AND y.k = z.k AND {filtered} DWINDOW (x, y) = {width} SECONDS AND "
                f"WINDOW (y, z) = {rows} SECONDS",
                f"SELECT x.k, COUNT(*) AS n, SUM(x.v) AS s FROM {one} x [RANGE {width} SECONDS] WHERE {filtered} "
                "GROUP BY x.k",
                f"SELECT COUNT(*) AS n FROM {one} x [RANGE {width} SECONDS], {other} y [RANGE 2 SECONDS] "
                "WHERE x.k = y.k",
                f"SELECT DISTINCT x.word FROM {one} x [RANGE {width} SECONDS] WHERE {filtered}",
                f"SELECT x.k, x.v, y.v AS w FROM {one} x LEFT JOIN {other} y ON x.k = y.k AND {filtered} AND "
                f"y.ts BETWEEN x.ts - INTERVAL {width} SECONDS AND x.ts + INTERVAL {rows} SECONDS",
                f"SELECT x.v FROM {one} x ANTI JOIN {other} y ON x.k = y.k AND "
                f"y.ts BETWEEN x.ts AND x.ts + INTERVAL {width} SECONDS",
                f"SELECT x.v, y.v AS w FROM {one} x [ROWS {rows}], {other} y [RANGE {width} SECONDS] WHERE {filtered}",
                f"SELECT x.k, x.v FROM {one} x WHERE {filtered}",
            ]
        )
    )


def bag(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def session_of(tables: Streams, **how: str) -> wm.Session:
    made = wm.Session()
    for name, table in tables.items():
        made.stream(name, table, time="ts", **how)  # type: ignore[arg-type]
    return made


def alone(script: Sequence[str]) -> str:
    return ";\n".join(f"{one} OPTIONS (share = 'no')" for one in script)


@random_cases(60)
@given(
    data=st.data(),
    tables=streams(),
    batch_rows=st.sampled_from([1, 2, 3, 5, 300]),
    times=st.sampled_from([1, 1, 40]),
)
def test_answers_are_those_of_each_query_alone(
    data: st.DataObject, tables: Streams, batch_rows: int, times: int
) -> None:
    """times: how often the rows come, so that pieces are no small ones."""
    tables = {name: pa.concat_tables([table] * times) for name, table in tables.items()}
    script = data.draw(queries(list(tables)))
    shared = session_of(tables).run(";\n".join(script))
    apart = session_of(tables).run(alone(script))
    for one, other, text in zip(shared, apart, script, strict=True):
        assert one.answer is not None
        assert other.answer is not None
        assert bag(one.answer) == bag(other.answer), text
        assert one.metrics["rows_in"] == other.metrics["rows_in"]
        assert one.metrics["results"] == other.metrics["results"]
    found = answers_of(session_of(tables), script, batch_rows)
    for (answer, late), other, text in zip(found, apart, script, strict=True):
        assert not late
        assert other.answer is not None
        assert bag(answer) == bag(other.answer), text


@random_cases(60)
@given(data=st.data(), tables=streams(), lateness=st.integers(0, 6), batch_rows=st.integers(1, 4))
def test_where_data_flows_answers_are_those_over_the_rows_that_each_query_let_in(
    data: st.DataObject, tables: Streams, lateness: int, batch_rows: int
) -> None:
    script = data.draw(queries(list(tables)))
    session = session_of(tables, read="arrival", lateness=f"{lateness} seconds")
    for (answer, late), text in zip(answers_of(session, script, batch_rows), script, strict=True):
        in_time = {name: without(table, late.get(name, [])) for name, table in tables.items()}
        assert bag(answer) == bag(session_of(in_time).sql(text).to_arrow()), text


def answers_of(
    session: wm.Session, script: Sequence[str], batch_rows: int
) -> list[tuple[pa.Table, dict[str, list[npt.NDArray[np.int64]]]]]:
    """What queries that are fed together give, and which rows were late for each."""
    runs = [PulledExecution(session.sql(text).plan, batch_rows=batch_rows) for text in script]
    given: dict[int, list[pa.RecordBatch]] = {id(run): [] for run in runs}
    late: dict[int, dict[str, list[npt.NDArray[np.int64]]]] = {id(run): {} for run in runs}
    for run in runs:
        run.on_late_rows = lambda name, numbers, run=run: late[id(run)].setdefault(name, []).append(numbers)  # type: ignore[misc]
    ended = []
    for run, block in Pull(runs).answers():
        assert run not in ended
        if block is None:
            ended.append(run)
        else:
            given[id(run)].append(block)
    assert len(ended) == len(runs)
    assert [run.failure for run in runs] == [None] * len(runs)
    return [(pa.Table.from_batches(given[id(run)], schema=run.plan.output_schema), late[id(run)]) for run in runs]


def without(table: pa.Table, late: Sequence[npt.NDArray[np.int64]]) -> pa.Table:
    kept = np.ones(len(table), bool)
    for numbers in late:
        kept[numbers] = False
    return table.filter(pa.array(kept, pa.bool_()))


@random_cases(20)
@given(data=st.data(), tables=streams(), kind=st.sampled_from(["parquet", "json"]))
def test_files_are_read_once_for_all_columns_that_any_query_looks_at(
    data: st.DataObject, tables: Streams, kind: str
) -> None:
    script = data.draw(queries(list(tables)))
    with TemporaryDirectory() as folder:
        declared = []
        for name, table in tables.items():
            path = Path(folder, f"{name}.{kind}")
            if kind == "parquet":
                pa_parquet.write_table(table, path, row_group_size=4)
            else:
                path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in table.to_pylist()))
            declared.append(
                f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT, word TEXT) "
                f"WITH (source = '{kind}', path = '{path}', time = 'ts');\n"
            )
        shared = wm.Session().run("".join(declared) + ";\n".join(script))
        apart = wm.Session().run("".join(declared) + alone(script))
    for one, other, text in zip(shared, apart, script, strict=True):
        assert one.answer is not None
        assert other.answer is not None
        assert bag(one.answer) == bag(other.answer), text
