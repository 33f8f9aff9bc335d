"""Sessions whose changes come with the rows: at every instant those that the rows up to it make, written out here."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases

Reading = tuple[int, int | None, int]  # seconds, key, value
START = datetime(2026, 1, 1)
GAP = 3

readings = st.lists(
    st.tuples(st.integers(0, 25), st.one_of(st.none(), st.integers(0, 2)), st.integers(-5, 5)), max_size=20
)


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def sessions_of(rows: list[Reading], *, by_key: bool) -> Counter[tuple[Any, ...]]:
    """Key, start, end, number and sum of every session."""
    found: Counter[tuple[Any, ...]] = Counter()
    for key in {row[1] if by_key else None for row in rows}:
        session: list[Reading] = []
        for row in [*(row for row in rows if not by_key or row[1] == key), None]:
            if session and (row is None or row[0] >= session[-1][0] + GAP):
                total = sum(value for _, _, value in session)
                found[key, at(session[0][0]), at(session[-1][0] + GAP), len(session), total] += 1
                session = []
            if row is not None:
                session.append(row)
    return found


@random_cases(30)
@given(readings, st.booleans(), st.lists(st.integers(0, 20), max_size=3))
def test_at_every_instant_the_log_holds_the_sessions_of_the_rows_so_far(
    rows: list[Reading], by_key: bool, cuts: list[int]
) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    key, by = ("k", " PARTITION BY k") if by_key else ("NULL", "")
    session = wm.Session()
    kinds = {"ts": pa.timestamp("us"), "k": pa.int64(), "v": pa.int64()}
    columns = [[at(second) for second, _, _ in rows], [k for _, k, _ in rows], [v for _, _, v in rows]]
    table = pa.table({name: pa.array(values, kinds[name]) for name, values in zip(kinds, columns, strict=True)})
    session.stream("a", schema=table.schema, time="ts")
    query = session.sql(
        f"SELECT {key} AS k, window_start, window_end, COUNT(*) AS n, SUM(v) AS total "
        f"FROM SESSION(a, {GAP} SECONDS{by}) GROUP BY {'k, ' if by_key else ''}window_start, window_end "
        f"OPTIONS (emit = 'changes')"
    )
    with query.start() as run:
        ends = [*sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
        for start, stop in zip([0, *ends], ends, strict=False):
            run.push("a", table.slice(start, stop - start))
        run.finish()
        log = run.take().to_pylist()
    there: Counter[tuple[Any, ...]] = Counter()
    for second in sorted({row[0] for row in rows}):
        for change in log:
            if change["_ts"] == at(second):
                value = tuple(change[name] for name in ("k", "window_start", "window_end", "n", "total"))
                there[value] += 1 if change["_op"] == "+" else -1
        assert +there == there
        assert +there == sessions_of([row for row in rows if row[0] <= second], by_key=by_key)
    assert {change["_ts"] for change in log} <= {at(row[0]) for row in rows}, "sessions that are over stay"
