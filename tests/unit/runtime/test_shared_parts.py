"""What EXPLAIN of a script tells of each query: what is done once for it and for others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import call
from watersmeet.runtime.script import read_script
from watersmeet.runtime.shared_parts import Shared, shared_parts
from watersmeet.runtime.sharing import fed_together

DECLARED = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, word TEXT) WITH (source = 'parquet', path = '{name}.parquet', "
    "time = 'ts'{how});"
    for name in "abc"
)
JOIN = "SELECT {0}.k FROM {0}, {1} WHERE {0}.k = {1}.k{2} WINDOW = {3} SECONDS;"


def parts(queries: str, how: str = "") -> dict[str, Shared]:
    jobs = read_script(DECLARED.replace("{how}", how) + queries, open_sources=False, explain=True)
    return {name: one for group in fed_together(jobs) for name, one in shared_parts(group).items()}


def test_joins_keep_rows_once() -> None:
    found = parts(JOIN.format("a", "b", "", 5) + JOIN.format("a", "c", " AND a.k > 3", 9) + "SELECT k FROM a;")
    assert found["query 1"].kept_once_for == {"a": ("query 1", "query 2")}
    assert found["query 2"].kept_once_for == {"a": ("query 1", "query 2")}
    assert found["query 3"].kept_once_for == {}
    assert found["query 3"].read_once_for == {"a": ("query 1", "query 2", "query 3")}


def test_where_rows_may_be_late_only_joins_of_the_same_streams_do() -> None:
    queries = JOIN.format("a", "b", "", 5) + JOIN.format("a", "c", "", 9) + JOIN.format("b", "a", "", 7)
    found = parts(queries, ", read = 'arrival', lateness = '1 second'")
    assert found["query 1"].kept_once_for == {"a": ("query 1", "query 3"), "b": ("query 1", "query 3")}
    assert found["query 2"].kept_once_for == {}


@pytest.mark.parametrize("how", [", idle = '1 minute', read = 'arrival'", ", max_future = '1 minute'"])
def test_streams_that_go_by_the_clock_on_the_wall_are_kept_by_each(how: str) -> None:
    found = parts(JOIN.format("a", "b", "", 5) + JOIN.format("a", "b", "", 9), how)
    assert [one.kept_once_for for one in found.values()] == [{}, {}]


def test_so_are_those_beside_such_a_stream() -> None:
    declared = DECLARED.replace("{how}", ", read = 'arrival', lateness = '1 second'").replace(
        "path = 'b.parquet', time = 'ts'", "path = 'b.parquet', time = 'ts', idle = '1 second'"
    )
    assert "idle" in declared
    queries = JOIN.format("a", "b", "", 5) + JOIN.format("a", "b", "", 9)
    jobs = read_script(declared + queries, open_sources=False)
    assert [one.kept_once_for for one in shared_parts(fed_together(jobs)[0]).values()] == [{}, {}]


def test_a_column_is_named_by_which_rows_are_given_out() -> None:
    queries = "".join(f"SELECT ts FROM a WHERE k = {key};" for key in range(8)) + "SELECT ts FROM a;"
    found = parts(queries)
    assert [one.given_by for one in found.values()] == [*[{"a": "k"}] * 8, {}]
    assert parts(queries.replace("k = 7", "k = 6"))["query 1"].given_by == {}


def test_equal_queries_are_told_of_each_other() -> None:
    found = parts(JOIN.format("a", "b", "", 5) * 2 + JOIN.format("a", "b", "", 6))
    assert found["query 2"].answered_once_for == ("query 1", "query 2")
    assert found["query 3"].answered_once_for == ()
    # The query that answers stands for both.
    assert found["query 3"].kept_once_for["a"] == ("query 1", "query 3")


def test_a_query_that_is_apart_shares_nothing() -> None:
    text = JOIN.format("a", "b", "", 5)
    found = parts(text + text.replace(";", " OPTIONS (share = 'no');") + text)
    assert found["query 2"] == Shared()
    assert found["query 3"].answered_once_for == ("query 1", "query 3")


def test_the_command_line_tells_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = DECLARED.replace("{how}", "") + JOIN.format("a", "b", "", 5) + JOIN.format("a", "b", "", 9) * 2
    (tmp_path / "script.sql").write_text(script)
    assert call("explain", str(tmp_path / "script.sql")) == 0
    told = capsys.readouterr().out
    assert "in one process a is read once for: query 1, query 2, query 3" in told
    assert "rows of b are kept once for: query 1, query 2" in told
    assert "answered once for: query 2, query 3" in told
    assert call("explain", "--format", "json", str(tmp_path / "script.sql")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["query 3"]["answered_once_for"] == ["query 2", "query 3"]
    assert found["query 3"]["streams"]["a"]["kept_once_for"] == ["query 1", "query 2"]


def test_rows_that_are_pushed_come_in_any_order() -> None:
    declared = "".join(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) WITH (time = 'ts');" for name in "abc")
    queries = JOIN.format("a", "b", "", 5) + JOIN.format("a", "c", "", 9) + JOIN.format("b", "a", "", 7) * 2
    jobs = read_script(declared + queries, open_sources=False, explain=True)
    found = {name: one for group in fed_together(jobs) for name, one in shared_parts(group).items()}
    of_both = ("query 1", "query 3", "query 4")
    assert found["query 1"].kept_once_for == {"a": of_both, "b": of_both}
    assert found["query 2"].kept_once_for == {}
    assert found["query 4"].answered_once_for == ()
