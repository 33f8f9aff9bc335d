"""A connector that is known by name is a stream, a table and a sink of scripts, sessions and runs that go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.connectors.shelf import COLUMNS, SHELF, ShelfSource, put, written
from watersmeet.io.connectors import registry
from watersmeet.runtime.script import check_declared, read_script

JOIN = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"


@pytest.fixture(autouse=True)
def _shelf() -> Iterator[None]:
    registry.register(SHELF)
    yield
    registry.forget("shelf")


def rows_of(name: str, count: int = 200) -> pa.Table:
    rng = np.random.default_rng(list(name.encode()))
    times = np.sort(rng.integers(0, 60_000_000, count))
    return pa.table(
        {
            "id": np.arange(count),
            "k": rng.integers(0, 10, count),
            "v": np.round(rng.random(count), 3),
            "ts": pa.array(times, pa.timestamp("us")),
        }
    )


def shelved(folder: Path, name: str, files: int = 4, partitions: int = 2) -> pa.Table:
    """Rows of a stream on a shelf, dealt out to partitions."""
    rows = rows_of(name)
    for number in range(files):
        some = rows.slice(number * 50, 50)
        for partition in range(partitions):
            put(folder / name, f"partition{partition}", some.take(pa.array(np.arange(partition, 50, partitions))))
    return rows


def created(folder: Path, *names: str, more: str = "") -> str:
    return "".join(
        f"CREATE STREAM {name} (id BIGINT, k BIGINT, v DOUBLE, ts TIMESTAMP) "
        f"WITH (source = 'shelf', folder = '{folder / name}', time = 'ts'{more});\n"
        for name in names
    )


def expected(a: pa.Table, b: pa.Table, sql: str = JOIN) -> list[tuple[object, ...]]:
    session = wm.Session()
    session.stream("a", a, time="ts")
    session.stream("b", b, time="ts")
    return sorted(tuple(row.values()) for row in session.sql(sql).to_arrow().to_pylist())


def rows_in(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_query_reads_what_is_there_now(tmp_path: Path) -> None:
    a, b = shelved(tmp_path, "a"), shelved(tmp_path, "b")
    session = wm.Session()
    session.sql(created(tmp_path, "a", "b"))
    assert rows_in(session.sql(JOIN).to_arrow()) == expected(a, b) != []


def test_columns_that_are_not_declared_are_those_of_the_source(tmp_path: Path) -> None:
    shelved(tmp_path, "a")
    session = wm.Session()
    session.sql(f"CREATE STREAM a WITH (source = 'shelf', folder = '{tmp_path / 'a'}', time = 'ts')")
    assert session.sql("SELECT * FROM a").to_arrow().column_names == ["id", "k", "v", "ts"]


def test_an_event_time_that_is_not_declared_is_that_of_the_source_also_before_it_is_read(tmp_path: Path) -> None:
    registry.register(replace(SHELF, source=lambda opening: ShelfSource(opening.options["folder"], COLUMNS)))
    shelved(tmp_path, "a")
    script = (
        f"CREATE STREAM a (id BIGINT) WITH (source = 'shelf', folder = '{tmp_path / 'a'}', time = 'ts');"
        "SELECT id, ts FROM a"
    )
    assert read_script(script, open_sources=False)[0].plan.output_schema.names == ["id", "ts"]
    check_declared(script)


def test_event_times_are_read_as_they_are_written(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "ts": [1_700_000_000_000, 1_700_000_001_000]})
    put(tmp_path, "one", rows)
    session = wm.Session()
    session.sql(
        "CREATE STREAM s (id BIGINT, ts TIMESTAMP) "
        f"WITH (source = 'shelf', folder = '{tmp_path}', time = 'ts', time_unit = 'ms')"
    )
    told = session.sql("SELECT ts FROM s").to_arrow()["ts"].to_pylist()
    assert [str(one) for one in told] == ["2023-11-14 22:13:20", "2023-11-14 22:13:21"]


def test_a_script_writes_into_a_sink_of_a_connector(tmp_path: Path) -> None:
    a, b = shelved(tmp_path, "a"), shelved(tmp_path, "b")
    script = created(tmp_path, "a", "b")
    script += f"CREATE SINK out WITH (sink = 'shelf', folder = '{tmp_path / 'out'}') AS {JOIN};"
    wm.Session().run(script)
    assert rows_in(written(tmp_path / "out")) == expected(a, b)


def test_a_run_with_a_checkpoint_goes_on_with_what_comes(tmp_path: Path) -> None:
    a, b = shelved(tmp_path, "a"), shelved(tmp_path, "b")
    session = wm.Session()
    session.sql(created(tmp_path, "a", "b", more=", lateness = '1 minute'"))
    query = session.sql(JOIN)
    sink = {"sink": "shelf", "folder": str(tmp_path / "out")}
    for _ in range(2):
        run = query.start(checkpoint=tmp_path / "checkpoint", sink=sink, available_now=True, flush=False)
        run.wait()
        more = rows_of("c", 50)
        put(tmp_path / "a", "partition0", more)
        a = pa.concat_tables([a, more])
    run = query.start(checkpoint=tmp_path / "checkpoint", sink=sink, available_now=True, flush=True)
    run.wait()
    assert rows_in(written(tmp_path / "out")) == expected(a, b)


def test_a_stream_that_begins_at_the_latest_row_begins_there_after_a_restart_too(tmp_path: Path) -> None:
    shelved(tmp_path, "a")
    session = wm.Session()
    session.sql(created(tmp_path, "a", more=", start = 'latest', lateness = '1 minute'"))
    query, sink = session.sql("SELECT id FROM a"), {"sink": "shelf", "folder": str(tmp_path / "out")}
    query.start(checkpoint=tmp_path / "checkpoint", sink=sink, available_now=True).wait()
    put(tmp_path / "a", "partition1", rows_of("later", 7))  # while nobody reads
    query.start(checkpoint=tmp_path / "checkpoint", sink=sink, available_now=True, flush=True).wait()
    assert written(tmp_path / "out").num_rows == 7


def test_a_static_table_is_loaded_by_its_connector(tmp_path: Path) -> None:
    shelved(tmp_path, "a")
    put(tmp_path / "t", "one", rows_of("t", 3))
    session = wm.Session()
    session.sql(created(tmp_path, "a"))
    session.sql(f"CREATE TABLE t WITH (source = 'shelf', folder = '{tmp_path / 't'}')")
    found = session.sql("SELECT a.id FROM a, t WHERE a.id = t.id").to_arrow()
    assert sorted(found["id"].to_pylist()) == [0, 1, 2]


def test_an_empty_table_warns(tmp_path: Path) -> None:
    shelved(tmp_path, "a")
    (tmp_path / "t").mkdir()
    session = wm.Session()
    session.sql(created(tmp_path, "a"))
    with pytest.warns(wm.ConnectorWarning, match="empty_table: .*table 't' was loaded from shelf and has no rows"):
        session.sql(f"CREATE TABLE t WITH (source = 'shelf', folder = '{tmp_path / 't'}')")


def test_options_that_nobody_reads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(wm.OptionError, match="'a' has no option 'foldr'") as told:
        wm.Session().sql(f"CREATE STREAM a WITH (source = 'shelf', foldr = '{tmp_path}', time = 'ts')")
    assert "did you mean folder?" in str(told.value.hint)
    script = created(tmp_path, "a") + "CREATE SINK o WITH (sink = 'shelf', fold = 'x') AS SELECT id FROM a"
    (tmp_path / "a").mkdir()
    with pytest.raises(wm.OptionError, match="'o' has no option 'fold'"):
        wm.Session().run(script)


def test_an_option_that_a_connector_needs_is_asked_for() -> None:
    with pytest.raises(wm.SourceError, match="'a' has no option folder, which 'shelf' needs"):
        wm.Session().sql("CREATE STREAM a WITH (source = 'shelf', time = 'ts')")


def test_an_unknown_source_is_told_with_those_that_there_are() -> None:
    with pytest.raises(wm.SourceError, match="there is no source 'shelff'") as told:
        wm.Session().sql("CREATE STREAM a WITH (source = 'shelff', time = 'ts')")
    assert "'shelf'" in str(told.value.hint)


def test_a_variable_of_the_environment_is_put_in_place_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelved(tmp_path, "a")
    monkeypatch.setenv("WHERE_SHELVES_ARE", str(tmp_path))
    session = wm.Session()
    session.sql("CREATE STREAM a WITH (source = 'shelf', folder = '${WHERE_SHELVES_ARE}/a', time = 'ts')")
    assert session.sql("SELECT id FROM a").to_arrow().num_rows == 200


@pytest.mark.parametrize(
    "sql",
    [
        JOIN,
        "SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + 1 SECONDS",
        "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 5 SECONDS] GROUP BY k",
    ],
    ids=["join", "left", "groups"],
)
def test_answers_over_a_connector_are_those_of_duckdb(sql: str, tmp_path: Path) -> None:
    shelved(tmp_path, "a")
    shelved(tmp_path, "b")
    session = wm.Session()
    session.sql(created(tmp_path, "a", "b"))
    report = wm.check(session.sql(sql))
    assert report.equal, str(report)
