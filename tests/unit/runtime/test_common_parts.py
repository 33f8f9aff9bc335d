"""Which parts of answers are equal and computed once, and that they are."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.properties.test_common_parts import answers_of, told
from tests.properties.test_fed_together import Streams, _table, session_of
from watersmeet.errors import DataError
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.run_job import Delivery, executions, run_together
from watersmeet.operators.continuous.common import CommonPart
from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.runtime.script import CONSOLE, Job, read_script
from watersmeet.runtime.shared_parts import parts_in_common, planned
from watersmeet.runtime.sharing import fed_together

TABLES: Streams = {name: _table([(second, second % 3, second, "u") for second in range(12)]) for name in "ab"}
VIEW = "CREATE VIEW busy AS SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k;"
FIRST, SECOND = "SELECT k FROM busy WHERE n > 1", "SELECT MAX(n) AS most FROM busy"


def parts(*queries: str, view: str = VIEW, how: str = "") -> list[tuple[str, tuple[str, ...]]]:
    """What is computed once, and for whom, of queries that are fed together."""
    declared = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (source = 'parquet', path = '{name}.parquet', "
        f"time = 'ts'{how});"
        for name in "ab"
    )
    jobs = read_script(declared + view + ";".join(queries), open_sources=False)
    (group,) = fed_together(jobs)
    found = parts_in_common({job.name: planned(job.plan) for job in group}).parts
    return [(one.node.word, one.queries) for one in found]


def test_a_view_is_computed_once_for_all_queries() -> None:
    assert parts(FIRST, SECOND, "SELECT ISTREAM k, n FROM busy") == [("group_by", ("query 1", "query 2", "query 3"))]


def test_and_once_for_a_query_that_has_it_twice() -> None:
    assert parts("SELECT x.k FROM busy x, busy y WHERE x.n = y.n") == [("group_by", ("query 1", "query 1"))]


def test_of_a_view_over_a_view_the_whole_is_shared_and_the_inner_one_where_it_stands_alone() -> None:
    view = VIEW + "CREATE VIEW over AS SELECT n, COUNT(*) AS c FROM busy GROUP BY n;"
    over = "SELECT c FROM over WHERE n > 1"
    assert parts(over, "SELECT MAX(c) AS most FROM over", view=view) == [("group_by", ("query 1", "query 2"))]
    found = parts(over, "SELECT MAX(c) AS most FROM over", FIRST, view=view)
    assert found == [("group_by", ("query 1", "query 2")), ("group_by", ("query 1", "query 3"))]


def test_equal_subqueries_are_shared_without_being_views() -> None:
    counted = "(SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k)"
    assert parts(f"SELECT k FROM {counted} WHERE n > 1", f"SELECT MAX(n) AS most FROM {counted}", view="") == [
        ("group_by", ("query 1", "query 2"))
    ]


def test_what_things_are_called_makes_no_difference() -> None:
    met = (
        "(SELECT {0}.k, COUNT(*) AS n FROM {2} {0} [RANGE 2 SECONDS], {3} {1} [RANGE 2 SECONDS] "
        "WHERE {0}.k = {1}.v GROUP BY {0}.k)"
    )
    first = "SELECT MAX(n) AS most FROM " + met.format("x", "y", "a", "b")
    assert parts(first, "SELECT k FROM " + met.format("y", "x", "a", "b") + " WHERE n > 1", view="") == [
        ("group_by", ("query 1", "query 2"))
    ]
    assert parts(first, "SELECT k FROM " + met.format("a", "b", "b", "a") + " WHERE n > 1", view="") == []


def test_a_join_that_is_read_as_a_stream_is_shared_by_readers_with_windows_of_their_own() -> None:
    view = "CREATE VIEW pairs AS SELECT a.k, a.v, a.ts FROM a, b WHERE a.k = b.k WINDOW = 3 SECONDS;"
    one, other = (f"SELECT k, COUNT(*) AS n FROM pairs [RANGE {size} SECONDS] GROUP BY k" for size in (5, 9))
    assert parts(one, other, view=view) == [("rows_as_stream", ("query 1", "query 2"))]


JOINED = "FROM {0} {2} [RANGE 5 SECONDS], {1} {3} [RANGE 3 SECONDS] WHERE {2}.k = {3}.k"


def test_groups_of_other_kinds_over_the_same_join_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [
        f"SELECT x.k, COUNT(*) AS n, SUM(y.v) AS s {JOINED.format('a', 'b', 'x', 'y')} GROUP BY x.k",
        f"SELECT q.v, MAX(p.v) AS most {JOINED.format('a', 'b', 'p', 'q')} GROUP BY q.v HAVING MAX(p.v) > 2",
        f"SELECT DISTINCT x.word {JOINED.format('a', 'b', 'x', 'y')}",
    ]
    assert parts(*queries[:2], view="") == [("join_holding_results", ("query 1", "query 2"))]
    session = session_of(TABLES)
    apart = [session.sql(f"{one} OPTIONS (share = 'no')").to_arrow() for one in queries]
    made = counted(monkeypatch)
    together = [answer for answer, _ in answers_of(session, queries, 3)]
    assert len(made) == 1
    assert [told(one) for one in together] == [told(one) for one in apart]


def test_what_differs_is_not() -> None:
    other = "SELECT MAX(n) AS m FROM (SELECT k, COUNT(*) AS n FROM a [RANGE 6 SECONDS] GROUP BY k)"
    assert parts(FIRST, other) == []
    assert (
        parts(
            FIRST,
            other.replace("6", "5").replace("FROM a", "FROM b"),
            "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND",
        )
        == []
    )


def test_rows_without_their_duplicates_are_others() -> None:
    counted = "SELECT k, COUNT(*) AS n FROM {} [RANGE 5 SECONDS] GROUP BY k"
    whole, once = (counted.format(one) for one in ("a", "DEDUPLICATE(a, 2 SECONDS PARTITION BY k)"))
    assert parts(f"SELECT x.n FROM ({whole}) x, ({once}) y WHERE x.k = y.k", view="") == []
    assert parts(f"SELECT x.n FROM ({once}) x, ({once}) y WHERE x.k = y.k", view="") == [
        ("group_by", ("query 1", "query 1"))
    ]


def test_where_rows_may_be_late_queries_share_with_those_that_look_at_the_same_streams() -> None:
    joined = "SELECT b.v, busy.n FROM b [RANGE 1 SECOND], busy WHERE b.k = busy.k"
    how = ", read = 'arrival', lateness = '1 second'"
    assert parts(FIRST, joined, SECOND) == [("group_by", ("query 1", "query 2", "query 3"))]
    assert parts(FIRST, joined, SECOND, how=how) == [("group_by", ("query 1", "query 3"))]
    assert parts(FIRST, SECOND, how=", idle = '1 minute', read = 'arrival'") == []


def counted(monkeypatch: pytest.MonkeyPatch) -> list[CommonPart]:
    made: list[CommonPart] = []
    init = CommonPart.__init__

    def noted(self: CommonPart, node: object) -> None:
        init(self, node)  # type: ignore[arg-type]
        made.append(self)

    monkeypatch.setattr(CommonPart, "__init__", noted)
    return made


def test_it_is_made_once_and_not_with_share_no(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    session = session_of(TABLES)
    session.run(VIEW + "SELECT k FROM a")
    together = [answer for answer, _ in answers_of(session, [FIRST, SECOND], 3)]
    assert [len(part.readers) for part in made] == [0]  # all have left
    assert isinstance(made[0].node, GroupByOperator)
    apart = [f"{one} OPTIONS (share = 'no')" for one in (FIRST, SECOND)]
    assert [answer for answer, _ in answers_of(session, apart, 3)] == together
    assert len(made) == 1


def test_a_query_by_itself_computes_once_what_it_has_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    session = session_of(TABLES)
    session.run(VIEW + "SELECT k FROM a")
    twice = "SELECT x.k FROM busy x, busy y WHERE x.n = y.n"
    apart = session.sql(f"{twice} OPTIONS (share = 'no')").to_arrow()
    assert made == []
    assert session.sql(twice).to_arrow() == apart
    assert session.sql(twice).final().to_pylist() == session.sql(f"{twice} OPTIONS (share = 'no')").final().to_pylist()
    assert len(made) == 2


def jobs_of(session: wm.Session, queries: Sequence[str]) -> list[Job]:
    return [Job(f"query {number}", session.sql(text).plan, CONSOLE) for number, text in enumerate(queries, 1)]


@pytest.mark.parametrize("fails", [0, 1])
def test_one_that_fails_leaves_the_part_to_the_others(fails: int) -> None:
    session = session_of(TABLES)
    session.run(VIEW + "SELECT k FROM a")
    queries = [FIRST, SECOND, "SELECT n FROM busy"]
    wanted = [session.sql(text).to_arrow() for text in queries]
    runs = list(executions(jobs_of(session, queries), 2).values())
    found: list[list[pa.RecordBatch]] = [[], [], []]
    pull = Pull(runs)
    for run, block in pull.answers():
        if block is not None:
            found[runs.index(run)].append(block)  # type: ignore[arg-type]
            pull.fail(runs[fails], RuntimeError("no room"))
    for place, run in enumerate(runs):
        if place != fails:
            assert run.failure is None
            assert pa.Table.from_batches(found[place]).to_pylist() == wanted[place].to_pylist()


def test_what_goes_wrong_in_it_does_so_for_all_that_have_it() -> None:
    session = session_of({"a": _table([(1, 1, 1, "7"), (2, 1, 1, "x"), (3, 1, 1, "8")])})
    session.run(
        "CREATE VIEW v AS SELECT k, SUM(CAST(word AS BIGINT)) AS n FROM a [RANGE 5 SECONDS] GROUP BY k; SELECT k FROM a"
    )
    group = jobs_of(session, ["SELECT n FROM v WHERE n > 1", "SELECT MAX(n) AS m FROM v", "SELECT k FROM a"])
    runs = executions(group)
    with pytest.raises(DataError) as caught:
        run_together([Delivery(job, runs[job.name], instead=_Nowhere()) for job in group])  # type: ignore[arg-type]
    assert "query 1 and query 2 failed; query 3 ended well" in "".join(caught.value.__notes__)


class _Nowhere:
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


def test_it_is_said_at_the_start() -> None:
    session = session_of(TABLES)
    session.run(VIEW + "SELECT k FROM a")
    runs = executions(jobs_of(session, [FIRST, SECOND, "SELECT k FROM b"]))
    said = [run.built.notices(run.plan) for run in runs.values()]
    assert said == [["GROUP BY over a is computed once for query 1 and query 2"], [], []]


def test_each_tells_its_share_of_what_is_held() -> None:
    session = session_of(TABLES)
    session.run(VIEW + "SELECT k FROM a")
    queries = [FIRST, SECOND]
    alone = session.run(";".join(f"{one} OPTIONS (share = 'no')" for one in queries))
    together = session.run(";".join(queries))
    for one, other in zip(together, alone, strict=True):
        for name in ("rows_in", "stored_rows", "expired_rows", "results"):
            assert one.metrics[name] == other.metrics[name]
