"""What goes wrong at the other end is one sentence; nothing is lost, nothing comes twice, no password is shown."""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.databases.places import Place, batch, file_place, ran
from tests.databases.server import PASSWORD, Server
from watersmeet.errors import SetupError, SinkError, SourceError, WatersmeetError
from watersmeet.io.connectors.databases import table_sink
from watersmeet.io.connectors.databases.duckdb_files import DuckdbFile
from watersmeet.io.connectors.guarded import called
from watersmeet.runtime.script import read_script

PLAIN = pa.schema([("k", pa.int64()), ("w", pa.string())])
FILES = pytest.mark.parametrize("kind", ["sqlite", "duckdb"])


def refused(call: Any, kind: type[WatersmeetError], *words: str) -> str:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert PASSWORD not in text
    assert "Traceback" not in text
    for word in words:
        assert word in text, text
    return text


@FILES
def test_a_file_that_is_no_database_is_left_alone(kind: str, tmp_path: Path) -> None:
    place = file_place(kind, tmp_path)
    Path(place.options["path"]).write_text("these are my notes, and no database\n" * 100)
    refused(lambda: place.sink(PLAIN), SinkError, "cannot be written", place.options["path"])
    refused(lambda: place.load(table="t"), SourceError, "cannot be loaded")
    assert Path(place.options["path"]).read_text().startswith("these are my notes")


def test_ctrl_c_while_duckdb_writes_is_no_failure_and_leaves_nothing(tmp_path: Path) -> None:
    file = DuckdbFile(tmp_path / "o.duckdb")

    def interrupted() -> None:
        with called("duckdb", "commit()"), file.begin() as work:
            work.run("CREATE TABLE t (k BIGINT)")
            raise RuntimeError("Query interrupted")  # which is what DuckDB makes of a KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with file.begin() as work:
        assert work.columns_of("t") is None


@FILES
def test_what_is_not_there_is_named(kind: str, tmp_path: Path) -> None:
    place = file_place(kind, tmp_path)
    refused(lambda: place.load(table="t"), SourceError, "there is no file")
    assert not Path(place.options["path"]).exists()
    place.run("CREATE TABLE t (k BIGINT)")
    refused(lambda: place.load(table="u"), SourceError, "u")
    refused(lambda: place.load(query="SELECT nothing FROM t"), SourceError, "nothing")
    refused(lambda: place.load(query="DELETE FROM t"), SourceError)
    refused(lambda: place.load(), SourceError, "neither table nor query")
    refused(lambda: place.load(table="t", query="SELECT 1"), SourceError, "both table and query")
    refused(lambda: Place(kind, {}).sink(PLAIN), SinkError, "add path")
    refused(lambda: place.sink(PLAIN, table='""'), SinkError, "names no table")
    refused(lambda: Place(kind, {"path": str(tmp_path)}).sink(PLAIN), SinkError, "cannot be written")


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    place = file_place("sqlite", tmp_path)
    sink: Any = place.sink(PLAIN)
    sink.commit(0, [batch(PLAIN, [(0, "a")])])
    pages = sink._database._connection.execute("PRAGMA page_count").fetchone()[0]
    sink._database._connection.execute(f"PRAGMA max_page_count = {pages}")
    many = [(k, "x" * 100) for k in range(1000)]
    refused(lambda: sink.commit(1, [batch(PLAIN, many)]), SinkError, "full", "nothing is lost")
    assert place.rows() == Counter([(0, "a")])
    again = place.sink(PLAIN)
    assert again.committed() == 0
    again.commit(1, [batch(PLAIN, many)])
    assert place.rows() == Counter([(0, "a"), *many])


def test_a_file_that_others_hold_is_waited_for_and_then_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.io.connectors.databases.sqlite.PATIENCE_S", 0.1)
    place = file_place("sqlite", tmp_path)
    sink = place.sink(PLAIN)
    other = sqlite3.connect(place.options["path"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused(lambda: sink.commit(0, [batch(PLAIN, [(0, "a")])]), SinkError, "locked")
    other.execute("ROLLBACK")
    sink.commit(0, [batch(PLAIN, [(0, "a")])])
    assert place.rows() == Counter([(0, "a")])


def test_a_value_that_is_of_another_type_than_its_column_is_named(tmp_path: Path) -> None:
    place = file_place("sqlite", tmp_path)
    place.run("CREATE TABLE t (k BIGINT, at TIMESTAMP, price DECIMAL(10, 2))")
    place.run("INSERT INTO t VALUES ('many', '2026-01-01 12:00:00', '1.50')")
    refused(lambda: place.load(table="t"), SourceError, "column 'k' of table 't'", "int64")
    place.run("UPDATE t SET k = 1, at = 17")
    refused(lambda: place.load(table="t"), SourceError, "column 'at'")
    place.run("UPDATE t SET at = '2026-01-01 12:00:00', price = 'cheap'")
    refused(lambda: place.load(table="t"), SourceError, "column 'price'")


def test_a_query_types_what_it_can(place: Place) -> None:
    place.run("CREATE TABLE t (k BIGINT, w TEXT)")
    place.run("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    found = place.load(query="SELECT k, k + 1 AS more, upper(w) AS w FROM t ORDER BY k;")
    assert found.to_pydict() == {"k": [1, 2], "more": [2, 3], "w": ["A", None]}
    empty = place.load(query="SELECT k, w FROM t WHERE k > 5")
    assert empty.num_rows == 0
    assert empty.schema.field("k").type == pa.int64()


def test_a_database_is_no_stream() -> None:
    script = "CREATE STREAM x WITH (source = 'sqlite', path = 'x.db', table = 't', time = 'ts'); SELECT * FROM x"
    refused(lambda: read_script(script), SourceError, "cannot be read as a stream", "CREATE TABLE", "CREATE SINK")


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("watersmeet.io.connectors.databases.postgres")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    place = Place("postgres", {"dsn": "host=nowhere"})
    refused(lambda: place.sink(PLAIN), SetupError, "psycopg", "pip install 'watersmeet[postgres]'")


def test_duckdb_says_what_its_file_lacks(tmp_path: Path) -> None:
    place = file_place("duckdb", tmp_path)
    sink = place.sink(PLAIN)
    with duckdb.connect(place.options["path"]) as connection:
        connection.execute("ALTER TABLE answer ALTER k SET NOT NULL")
    refused(lambda: sink.commit(0, [batch(PLAIN, [(None, "a")])]), SinkError, "NOT NULL")
    sink.commit(0, [batch(PLAIN, [(1, "a")])])
    assert place.rows() == Counter([(1, "a")])


@pytest.mark.postgres
class TestServer:
    def test_who_is_not_let_in_is_told_without_the_password(self, server: Server) -> None:
        wrong = Place("postgres", {"dsn": server.dsn(password="not this " + PASSWORD)})
        refused(lambda: wrong.sink(PLAIN), SinkError, "password authentication failed", f"127.0.0.1:{server.port}")
        refused(lambda: wrong.load(table="t"), SourceError, "password authentication failed")
        nowhere = Place("postgres", {"url": "postgresql://me:" + "hidden@127.0.0.1:1/d"})
        assert "hidden" not in refused(lambda: nowhere.sink(PLAIN), SinkError, "127.0.0.1:1/d")
        broken = Place("postgres", {"dsn": "password hidden"})
        assert "hidden" not in refused(lambda: broken.sink(PLAIN), SinkError, "an address that PostgreSQL cannot read")
        refused(lambda: Place("postgres", {}).sink(PLAIN), SinkError, "neither dsn nor url")
        refused(lambda: Place("postgres", {"dsn": server.dsn("nope")}).sink(PLAIN), SinkError, "nope")

    def test_what_is_not_there_is_named(self, on_server: Place) -> None:
        refused(lambda: on_server.load(table="t"), SourceError, '"t" does not exist')
        refused(lambda: on_server.load(query="SELEC 1"), SourceError, "syntax error")
        refused(lambda: on_server.load(query="SELECT 1.5 AS x"), SourceError, "numeric without a number of digits")
        refused(lambda: on_server.load(query="SELECT 1 AS x, 2 AS x"), SourceError, "two columns 'x'")
        refused(lambda: on_server.sink(PLAIN, table="nowhere.t"), SinkError, "nowhere")
        declared = pa.schema([("x", pa.float64())])
        assert on_server.load(declared, query="SELECT 1.5 AS x")["x"].to_pylist() == [1.5]

    def test_a_query_cannot_change_anything(self, on_server: Place) -> None:
        on_server.run("CREATE TABLE t (k bigint)")
        refused(lambda: on_server.load(query="INSERT INTO t VALUES (1) RETURNING k"), SourceError)
        on_server.run("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (1) RETURNING 1'")
        refused(lambda: on_server.load(query="SELECT f()"), SourceError, "read-only")
        assert on_server.rows("t") == Counter()

    def test_a_value_that_the_table_refuses_ends_in_a_sentence(self, on_server: Place) -> None:
        on_server.run("CREATE TABLE answer (k integer CHECK (k < 10), w text)")
        sink = on_server.sink(PLAIN)
        refused(lambda: sink.commit(0, [batch(PLAIN, [(11, "a")])]), SinkError, "violates check constraint")
        refused(lambda: sink.commit(0, [batch(PLAIN, [(2**40, "a")])]), SinkError, "out of range")
        refused(lambda: sink.commit(0, [batch(PLAIN, [(1, "a\0b")])]), SinkError, "0x00")
        sink.commit(0, [batch(PLAIN, [(1, "a")])])
        assert on_server.rows() == Counter([(1, "a")])

    def test_a_server_that_is_started_again_is_written_to(self, server: Server, on_server: Place) -> None:
        sink = on_server.sink(PLAIN)
        sink.commit(0, [batch(PLAIN, [(0, "a")])])
        server.stop()
        server.start()
        sink.commit(1, [batch(PLAIN, [(1, "b")])])
        assert on_server.rows() == Counter([(0, "a"), (1, "b")])

    def test_a_server_that_stays_away_is_named_and_the_next_start_goes_on(
        self, server: Server, on_server: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(table_sink, "PATIENCE_S", 0.2)
        sink = on_server.sink(PLAIN)
        sink.commit(0, [batch(PLAIN, [(0, "a")])])
        server.stop()
        refused(lambda: sink.commit(1, [batch(PLAIN, [(1, "b")])]), SinkError, "cannot be written", "nothing is lost")
        server.start()
        again = on_server.sink(PLAIN)
        assert again.committed() == 0
        again.commit(1, [batch(PLAIN, [(1, "b")])])
        assert on_server.rows() == Counter([(0, "a"), (1, "b")])

    def test_a_commit_of_which_no_word_came_back_is_taken_once(self, server: Server, on_server: Place) -> None:
        sink: Any = on_server.sink(PLAIN)
        sink.commit(0, [batch(PLAIN, [(0, "a")])])
        take = sink._take

        def cut_off(number: int, log: pa.Table | None) -> None:
            take(number, log)
            sink._take = take
            # The server has it, and the connection breaks before it can say so.
            ran(server.dsn(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            sink._database._connection.execute("SELECT 1")

        sink._take = lambda number, log: _as_lost(cut_off, number, log)
        sink.commit(1, [batch(PLAIN, [(1, "b")])])
        assert on_server.rows() == Counter([(0, "a"), (1, "b")])


def _as_lost(call: Any, *arguments: Any) -> None:
    import psycopg

    from watersmeet.io.connectors.databases.database import LostError

    try:
        call(*arguments)
    except psycopg.OperationalError as error:
        raise LostError(str(error)) from None
