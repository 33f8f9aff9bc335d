"""A static table that several queries join is read once, and what goes wrong with it is no matter of the others."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.unit.cli.test_commands import call
from watersmeet.errors import DataError, SourceError
from watersmeet.hosts.local import static_tables
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.run_job import executions
from watersmeet.runtime.script import CONSOLE, Job

NOON = dt.datetime(2026, 1, 1, 12)
VIP = pa.table({"k": [1, 2, 2, 3], "word": ["1", "2", "x", "4"]})
ROWS = pa.table({"k": [1, 2, 3, 4], "ts": [NOON + dt.timedelta(seconds=at) for at in range(4)]})
QUERIES = (
    "SELECT a.k, t.word FROM a, vip t WHERE a.k = t.k",
    "SELECT a.ts, t.word FROM a, vip t WHERE a.k = t.k AND t.word <> '1'",
    "SELECT t.word, COUNT(*) AS n FROM a [RANGE 9 SECONDS], vip t, vip u WHERE a.k = t.k AND t.k = u.k GROUP BY t.word",
    "SELECT k FROM a",
)
FAILING = "SELECT a.k FROM a, vip t WHERE a.k = t.k AND CAST(t.word AS BIGINT) > 1"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that were read, as often as they were."""
    found: list[str] = []
    batches_of = static_tables.batches_of

    def counted(table: Any, rows: int) -> Iterator[pa.RecordBatch]:
        found.append(table.name)
        return batches_of(table, rows)

    monkeypatch.setattr(static_tables, "batches_of", counted)
    return found


def _session(*, pushed: bool = False, table: Any = VIP) -> wm.Session:
    session = wm.Session()
    session.table("vip", table)
    if pushed:
        session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    else:
        session.stream("a", ROWS, time="ts")
    return session


def _read(session: wm.Session, texts: tuple[str, ...]) -> tuple[dict[str, list[str]], dict[str, Exception | None]]:
    runs = executions([Job(text, session.sql(text).plan, CONSOLE) for text in texts])
    found: dict[str, list[str]] = {text: [] for text in texts}
    names = {id(run): text for text, run in runs.items()}
    for run, block in Pull(list(runs.values())).answers():
        found[names[id(run)]] += [] if block is None else map(str, block.to_pylist())
    return {text: sorted(rows) for text, rows in found.items()}, {text: run.failure for text, run in runs.items()}


def test_it_is_read_once_for_all(reads: list[str]) -> None:
    found, _ = _read(_session(), QUERIES)
    assert reads == ["vip"]
    for text in QUERIES:
        assert found[text] == sorted(map(str, _session().sql(text).to_arrow().to_pylist())), text


def test_so_it_is_where_rows_are_pushed(reads: list[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "watersmeet")
    with _session(pushed=True).start(";".join(QUERIES)) as runs:
        runs.push("a", ROWS)
    assert reads == ["vip"]
    told = "table vip is loaded once for query 1, query 2 and query 3"
    assert told in [one.getMessage() for one in caplog.records]
    for name, text in zip(runs, QUERIES, strict=True):
        expected = sorted(map(str, _session().sql(text).to_arrow().to_pylist()))
        assert sorted(map(str, runs[name].take().to_pylist())) == expected, text


def test_rows_that_one_query_cannot_take_are_its_own_matter() -> None:
    found, failures = _read(_session(), (QUERIES[0], FAILING, QUERIES[3]))
    assert [type(one) for one in failures.values()] == [type(None), DataError, type(None)]
    assert len(found[QUERIES[0]]) == len(VIP)


def test_what_cannot_be_read_ends_those_that_join_it(tmp_path: Path) -> None:
    path = tmp_path / "vip.csv"
    path.write_text("k,word\n1,a\n")
    session = _session(table=str(path))
    path.write_text("k,word\nno number,a\n")
    found, failures = _read(session, QUERIES)
    assert [failure is None for failure in failures.values()] == [False, False, False, True]
    assert len(found[QUERIES[3]]) == len(ROWS)
    with pytest.raises(SourceError):
        session.sql(QUERIES[0]).to_arrow()


def test_explain_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.sql").write_text(
        "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (source = 'parquet', path = 'a.parquet', time = 'ts');"
        "CREATE TABLE vip (k BIGINT, word TEXT) WITH (source = 'csv', path = 'vip.csv');" + ";".join(QUERIES)
    )
    assert call("explain", "q.sql") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "table vip is loaded once for query 1, query 2 and query 3" in said
    assert call("explain", "q.sql", "--format", "json") == 0
    assert '"loaded_once_for"' in capsys.readouterr().out
