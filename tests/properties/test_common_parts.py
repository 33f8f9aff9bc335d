"""Equal parts of answers are computed once, and each answer is what it would be if they were not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from tests.properties.test_fed_together import ROWS, Streams, _table, session_of, without
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.run_job import executions
from watersmeet.runtime.script import CONSOLE, Job
from watersmeet.runtime.sharing import fed_together

pytestmark = pytest.mark.filterwarnings("ignore:late_rows", "ignore:cross_join", "ignore:many_answers")

VIEWS = (
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE {w} SECONDS] GROUP BY k",
    "SELECT k, MAX(v) AS n, MIN(v) AS s FROM b [RANGE {w} SECONDS] WHERE word = 'u' GROUP BY k",
    "SELECT DISTINCT k, v AS n, v + 1 AS s FROM a [RANGE {w} SECONDS]",
    "SELECT x.k, COUNT(*) AS n, SUM(y.v) AS s FROM a x [RANGE {w} SECONDS], b y [RANGE 2 SECONDS] "
    "WHERE x.k = y.k GROUP BY x.k",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM DEDUPLICATE(b, 2 SECONDS PARTITION BY k, v) [RANGE {w} SECONDS] "
    "GROUP BY k",
    "SELECT DISTINCT x.k, x.v AS n, y.v AS s FROM a x [RANGE {w} SECONDS], b y [RANGE 2 SECONDS] WHERE x.k = y.k",
    "SELECT x.k, x.v AS n, x.v AS s FROM a x [RANGE {w} SECONDS] WHERE EXISTS "
    "(SELECT 1 FROM b y [RANGE 2 SECONDS] WHERE x.k = y.k AND y.v > 0)",
    "SELECT k, v AS n, v AS s FROM a [RANGE {w} SECONDS] UNION SELECT k, v AS n, v AS s FROM b [RANGE {w} SECONDS]",
    "SELECT k, v AS n, v AS s FROM a [RANGE {w} SECONDS] EXCEPT ALL "
    "SELECT k, v AS n, v AS s FROM b [RANGE {w} SECONDS]",
    "SELECT k, n, n + 1 AS s FROM (SELECT k, COUNT(*) AS n FROM a [ROWS {r}] GROUP BY k)",
    "SELECT k, v AS n, v AS s FROM a [RANGE {w} SECONDS] ORDER BY v DESC, k LIMIT {r}",
)
# Views whose rows are a stream, with a window where they are used.
STREAMS = (
    "SELECT x.k, x.v AS n, y.v AS s, x.ts FROM a x, b y WHERE x.k = y.k WINDOW = {w} SECONDS",
    "SELECT k, v + 1 AS n, v AS s, ts FROM a WHERE v > -2",
    "SELECT x.k, x.v AS n, y.v AS s FROM a x [ROWS 2], b y [RANGE {w} SECONDS] WHERE x.k = y.k",
    "SELECT x.k, x.v AS n, y.v AS s FROM a x LEFT JOIN b y ON x.k = y.k AND y.ts BETWEEN x.ts AND x.ts + "
    "INTERVAL {w} SECONDS",
)
READERS_OF_STREAMS = (
    "SELECT k, n FROM {v} WHERE n > 1",
    "SELECT k, COUNT(*) AS c, SUM(s) AS t FROM {v} [RANGE {u} SECONDS] GROUP BY k",
    "SELECT DISTINCT n FROM {v} [RANGE {u} SECONDS]",
    "SELECT one.k, two.k AS other FROM {v} [RANGE {u} SECONDS] one, {v} [RANGE 2 SECONDS] two WHERE one.n = two.n",
    "SELECT k, n FROM {v} [ROWS {r}] UNION ALL SELECT k, s FROM {v} [RANGE {u} SECONDS]",
    "SELECT z.v, p.n FROM c [RANGE 3 SECONDS] z, {v} [RANGE {u} SECONDS] p WHERE z.k = p.k",
    "SELECT MAX(n) AS most FROM {v} [RANGE {u} SECONDS]",
)
# The same in queries that call things by other names, or nearly the same.
INLINE = (
    "(SELECT {x}.k, COUNT(*) AS n, MAX({y}.v) AS s FROM a {x} [RANGE {w} SECONDS], b {y} [RANGE 2 SECONDS] "
    "WHERE {x}.k = {y}.k AND {x}.v <= {y}.v GROUP BY {x}.k)",
    "(SELECT {x}.k, {x}.v AS n, {y}.v AS s, {x}.ts FROM a {x}, a {y} WHERE {x}.k = {y}.v WINDOW = {w} SECONDS) "
    "[RANGE 3 SECONDS]",
    "(SELECT {x}.k, {x}.v AS n, {y}.v AS s FROM (SELECT DISTINCT k, v FROM a [RANGE {w} SECONDS]) {x}, "
    "(SELECT DISTINCT k, v FROM b [RANGE {w} SECONDS]) {y} WHERE {x}.k = {y}.k)",
)
JOINED = "FROM a {x} [RANGE {w} SECONDS], b {y} [RANGE 2 SECONDS] WHERE {x}.k = {y}.k"
OVER_JOINED = (
    "SELECT {x}.k, COUNT(*) AS n {joined} GROUP BY {x}.k",
    "SELECT {y}.v, SUM({x}.v) AS n, MIN({x}.word) AS t {joined} GROUP BY {y}.v HAVING COUNT(*) > 1",
    "SELECT DISTINCT {y}.word, {x}.v + {y}.v AS s {joined}",
    "SELECT COUNT(*) AS n, MAX({x}.v - {y}.v) AS most {joined}",
    "SELECT {x}.k, FIRST({y}.v) AS first {joined} GROUP BY {x}.k",
    "SELECT {x}.k, {y}.v {joined} ORDER BY v DESC, k LIMIT 2",
    "SELECT {x}.k {joined} UNION SELECT v AS k FROM c [RANGE 2 SECONDS]",
)
READERS_OF_INLINE = (
    "SELECT n, COUNT(*) AS c FROM {v} GROUP BY n",
    "SELECT DISTINCT k, s FROM {v}",
    "SELECT MAX(n) AS most FROM {v}",
)
READERS = (
    "SELECT k, n FROM {v} WHERE n > 1",
    "SELECT ISTREAM k, s FROM {v}",
    "SELECT DSTREAM k, s FROM {v}",
    "SELECT n, COUNT(*) AS groups FROM {v} GROUP BY n",
    "SELECT one.k, two.k AS other FROM {v} one, {v} two WHERE one.n = two.n",
    "SELECT k, n FROM {v} UNION ALL SELECT k, s FROM {v}",
    "SELECT z.v, {v}.n FROM c z [RANGE 3 SECONDS], {v} WHERE z.k = {v}.k",
    "SELECT x.v, {v}.n FROM b x [RANGE 3 SECONDS], {v} WHERE x.k = {v}.k",
    "SELECT v FROM a [RANGE 4 SECONDS] WHERE k IN (SELECT k FROM {v} WHERE n > 1)",
    "SELECT MAX(n) AS most FROM {v}",
    "SELECT k, n FROM {v} ORDER BY n DESC, k LIMIT 2",
    "SELECT p, COUNT(*) AS c FROM (SELECT ISTREAM k AS p FROM {v}) [RANGE 5 SECONDS] GROUP BY p",
)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Views, and queries over them."""
    kinds = draw(st.lists(st.sampled_from(VIEWS), min_size=1, max_size=2, unique=True))
    views = [one.format(w=draw(st.integers(0, 5)), r=draw(st.integers(1, 4))) for one in kinds]
    if draw(st.booleans()):
        view = draw(st.sampled_from(STREAMS)).format(w=draw(st.integers(0, 5)))
        numbers = {"u": st.integers(0, 5), "r": st.integers(1, 4)}
        readers = [draw(st.sampled_from(READERS_OF_STREAMS)) for _ in range(draw(st.integers(1, 4)))]
        return [f"CREATE VIEW v AS {view}"], [
            one.format(v="v", **{name: draw(number) for name, number in numbers.items()}) for one in readers
        ]
    if draw(st.booleans()):
        w, queries = draw(st.integers(0, 3)), []
        for _ in range(draw(st.integers(2, 4))):
            names = dict(zip("xy", draw(st.permutations("pq")), strict=True))
            joined = JOINED.format(**names, w=w + draw(st.sampled_from([0, 0, 0, 1])))
            queries.append(draw(st.sampled_from(OVER_JOINED)).format(joined=joined, **names))
        return [], queries
    if draw(st.booleans()):
        view, w = draw(st.sampled_from(INLINE)), draw(st.integers(0, 3))
        return [], [
            draw(st.sampled_from(READERS_OF_INLINE)).format(
                v=view.format(
                    **dict(zip("xy", draw(st.permutations("ab")), strict=True)), w=w + draw(st.sampled_from([0, 0, 1]))
                )
            )
            for _ in range(draw(st.integers(2, 4)))
        ]
    declared = [f"CREATE VIEW v{number} AS {view}" for number, view in enumerate(views)]
    names = [f"v{number}" for number in range(len(views))]
    if draw(st.booleans()):
        declared.append("CREATE VIEW over AS SELECT k, COUNT(*) AS n, SUM(n) AS s FROM v0 GROUP BY k")
        names.append("over")
    queries = [
        draw(st.sampled_from(READERS)).format(v=draw(st.sampled_from(names))) for _ in range(draw(st.integers(1, 4)))
    ]
    return declared, queries


@st.composite
def streams(draw: st.DrawFn) -> Streams:
    return {name: _table(draw(st.lists(ROWS, max_size=14))) for name in "abc"}


Late = dict[str, list[npt.NDArray[np.int64]]]


def answers_of(session: wm.Session, queries: Sequence[str], batch_rows: int) -> list[tuple[pa.Table, Late]]:
    """What queries of a script give, and which rows were late for each."""
    jobs = [Job(f"query {number}", session.sql(text).plan, CONSOLE) for number, text in enumerate(queries)]
    found: dict[str, tuple[pa.Table, Late]] = {}
    for group in fed_together(jobs):
        runs = executions(group, batch_rows)
        given: dict[int, list[pa.RecordBatch]] = {id(run): [] for run in runs.values()}
        late: dict[int, Late] = {id(run): {} for run in runs.values()}
        for run in runs.values():
            run.on_late_rows = partial(_note, late[id(run)])
        for one, block in Pull(list({id(run): run for run in runs.values()}.values())).answers():
            if block is not None:
                given[id(one)].append(block)
        for name, run in runs.items():
            assert run.failure is None
            answer = pa.Table.from_batches(given[id(run)], schema=run.plan.output_schema)
            found[name] = (answer, late[id(run)])
    return [found[job.name] for job in jobs]


def _note(late: Late, name: str, numbers: npt.NDArray[np.int64]) -> None:
    late.setdefault(name, []).append(numbers)


def told(log: pa.Table) -> list[str]:
    """A log in its order; rows of one instant and sign are in any."""
    rows = log.to_pylist()
    return (
        sorted(map(repr, rows))
        if "_ts" not in log.schema.names
        else [repr(row) for row in sorted(rows, key=lambda row: (row["_ts"], row.get("_op") == "+", repr(row)))]
    )


@random_cases(120)
@given(script=scripts(), tables=streams(), batch_rows=st.sampled_from([1, 2, 5, 300]))
def test_answers_are_those_of_each_query_alone(
    script: tuple[list[str], list[str]], tables: Streams, batch_rows: int
) -> None:
    views, queries = script
    session, apart = (session_of(tables) for _ in range(2))
    for one in (session, apart):
        one.run(";".join([*views, "SELECT k FROM a"]))
    for (answer, late), text in zip(answers_of(session, queries, batch_rows), queries, strict=True):
        assert not late
        own = apart.sql(f"{text} OPTIONS (share = 'no')").to_arrow()
        instants = [row["_ts"] for row in answer.to_pylist()] if "_ts" in answer.schema.names else []
        assert instants == sorted(instants)
        assert told(answer) == told(own), text


@random_cases(60)
@given(script=scripts(), tables=streams(), lateness=st.integers(0, 6), batch_rows=st.integers(1, 4))
def test_so_they_are_where_rows_come_out_of_order(
    script: tuple[list[str], list[str]], tables: Streams, lateness: int, batch_rows: int
) -> None:
    views, queries = script
    session = session_of(tables, read="arrival", lateness=f"{lateness} seconds")
    session.run(";".join([*views, "SELECT k FROM a"]))
    for (answer, late), text in zip(answers_of(session, queries, batch_rows), queries, strict=True):
        apart = session_of({name: without(table, late.get(name, [])) for name, table in tables.items()})
        apart.run(";".join([*views, "SELECT k FROM a"]))
        assert told(answer) == told(apart.sql(f"{text} OPTIONS (share = 'no')").to_arrow()), text


def test_a_part_inside_of_another_has_all_columns_that_its_readers_show() -> None:
    """Whoever brings the rows: what looks at fewer columns comes first here."""
    joined = "FROM a x [RANGE 9 SECONDS], b y [RANGE 4 SECONDS] WHERE x.k = y.k"
    counts = f"SELECT x.v, COUNT(*) AS n {joined} GROUP BY x.v"
    script = [counts, f"SELECT DISTINCT y.word {joined}", f"SELECT MAX(n) AS most FROM ({counts}) g"]
    rows = [(at, at % 3, at % 5, "uv"[at % 2]) for at in range(30)]
    session = session_of({name: _table(rows) for name in "abc"})
    together = answers_of(session, script, 7)
    for text, (log, _) in zip(script, together, strict=True):
        ((alone, _),) = answers_of(session, [text], 7)
        assert told(log) == told(alone), text
