"""Checkpoints in a store: a run goes on from there on another machine, and only one run at a time."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from time import sleep, time
from typing import Any

import pytest

import watersmeet as wm
from tests.lakes import opened
from tests.lakes.lives import Case, expected, killed_again_and_again
from tests.lakes.store import Store
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.checkpoint_in_store import CheckpointInStore, PlaceInStore
from watersmeet.hosts.local.durable.journal import Journal
from watersmeet.io import holding
from watersmeet.io.holding import HOLDER, HOLDING, LEASE_S


@pytest.fixture
def query(tmp_path: Path) -> Iterator[wm.Query]:
    (tmp_path / "in").mkdir()
    session = wm.Session()
    session.sql(
        f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) "
        f"WITH (source = 'csv', path = 'file://{tmp_path}/in', time = 'ts', lateness = '1 minute')"
    )
    yield session.sql("SELECT k, COUNT(*) AS n FROM s [UNBOUNDED] GROUP BY k")
    for thread in (one for one in threading.enumerate() if one.name == HOLDING):
        thread.join(5)
        assert not thread.is_alive()  # every run has let go of its checkpoint


def add(folder: Path, number: int) -> None:
    rows = "".join(f"{k},2026-01-01 00:0{number}:0{k}\n" for k in range(3))
    (folder / f"{number}.csv").write_text(f"k,ts\n{rows}")


def counts(path: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for file in sorted(path.glob("*.json")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if row["_op"] == "+":
                found[row["k"]] = row["n"]
    return found


def test_a_run_goes_on_from_a_checkpoint_in_a_store(query: wm.Query, tmp_path: Path) -> None:
    where = f"file://{tmp_path}/store/checkpoint"
    sink = {"sink": "json", "path": str(tmp_path / "out")}
    for number in range(3):
        add(tmp_path / "in", number)
        query.start(checkpoint=where, sink=sink, available_now=True, flush=number == 2).wait()
    assert counts(tmp_path / "out") == {0: 3, 1: 3, 2: 3}
    assert json.loads((tmp_path / "store" / "checkpoint" / HOLDER).read_text())["at"] == 0  # nobody holds it


def test_a_second_run_is_refused_while_the_first_lives(query: wm.Query, tmp_path: Path) -> None:
    add(tmp_path / "in", 0)
    where = f"file://{tmp_path}/store/checkpoint"
    run = query.start(checkpoint=where, sink=str(tmp_path / "out.json"))
    try:
        with pytest.raises(RunError, match="is using the checkpoint file://"):
            query.start(checkpoint=where, sink=str(tmp_path / "out.json"))
    finally:
        run.stop()


def test_a_holder_elsewhere_is_respected_until_its_time_is_over(query: wm.Query, tmp_path: Path) -> None:
    add(tmp_path / "in", 0)
    folder = tmp_path / "store" / "checkpoint"
    folder.mkdir(parents=True)
    sink = {"sink": "json", "path": str(tmp_path / "out")}
    holder = {"who": "x", "host": "elsewhere", "pid": 7, "at": time()}
    (folder / HOLDER).write_text(json.dumps(holder))
    with pytest.raises(RunError, match="process 7 on elsewhere"):
        query.start(checkpoint=f"file://{folder}", sink=sink, available_now=True)
    (folder / HOLDER).write_text(json.dumps(holder | {"at": time() - LEASE_S - 1}))
    query.start(checkpoint=f"file://{folder}", sink=sink, available_now=True, flush=True).wait()
    assert counts(tmp_path / "out") == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", "7", '{"who": "x"}', '{"who": "x", "host": "y", "pid": [], "at": 1}']
)
def test_a_holder_that_cannot_be_read_is_named(query: wm.Query, tmp_path: Path, text: str) -> None:
    folder = tmp_path / "store" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / HOLDER).write_text(text)
    with pytest.raises(RunError, match=r"holder\.json is damaged"):
        query.start(checkpoint=f"file://{folder}")


def test_who_was_taken_over_stops(query: wm.Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "RENEW_S", 0.05)
    add(tmp_path / "in", 0)
    folder = tmp_path / "store" / "checkpoint"
    run = query.start(checkpoint=f"file://{folder}", sink={"sink": "json", "path": str(tmp_path / "out")})
    holder = {"who": "x", "host": "elsewhere", "pid": 7, "at": time()}
    (folder / HOLDER).write_text(json.dumps(holder))
    inner: Any = run.driver.run  # type: ignore[attr-defined]
    for _ in range(200):  # it may have said that it holds it after that was read
        (folder / "other").write_text(json.dumps(holder))
        (folder / "other").replace(folder / HOLDER)
        if inner._parts.checkpoint.place._store._holding._lost is not None:
            break
        sleep(0.05)
    add(tmp_path / "in", 1)
    with pytest.raises(RunError, match="another run has taken over the checkpoint"):
        run.wait()
    assert json.loads((folder / HOLDER).read_text())["who"] == "x"


def test_a_store_that_is_not_there_is_told(query: wm.Query, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match=r"the checkpoint file:///proc/nowhere cannot be"):
        query.start(checkpoint="file:///proc/nowhere", sink="out.json")


@pytest.mark.lakes
def test_kills_with_the_checkpoint_in_s3(store: Store, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    environment = {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": "us-east-1",
    }  # fmt: skip

    def grow(name: str, step: int, rows: object) -> None:
        deltalake.write_deltalake(str(tmp_path / name), rows, mode="append")

    streams = "".join(
        f"CREATE STREAM {name} (id BIGINT, k BIGINT, v DOUBLE, s VARCHAR, ts TIMESTAMP) "
        f"WITH (source = 'delta', path = '{tmp_path / name}', start = '0', time = 'ts', lateness = '2 minutes');"
        for name in ("a", "b")
    )
    sink = {"sink": "delta", "path": str(tmp_path / "out")}
    where = store.address("checkpoint")
    case = Case(streams, sink, "watersmeet.io.connectors.delta.sink:DeltaSink", where, environment)
    died = killed_again_and_again(case, 4, 20, grow)
    assert died >= 10
    found = opened.table("delta", path=str(tmp_path / "out")).select(["x", "y", "s"])
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == expected(21) != []


def test_a_table_that_is_loaded_again_is_kept_in_the_store(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE names (k BIGINT, name TEXT)")
        shop.executemany("INSERT INTO names VALUES (?, ?)", [(k, f"old {k}") for k in range(3)])
    session = wm.Session()
    session.sql(
        f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) "
        f"WITH (source = 'csv', path = 'file://{tmp_path}/in', time = 'ts', lateness = '1 hour');"
        f"CREATE TABLE names WITH (source = 'sqlite', path = '{tmp_path}/shop.db', table = 'names', reload = '1 hour')"
    )
    query = session.sql("SELECT s.k, n.name FROM s, names n WHERE s.k = n.k")
    where, sink = f"file://{tmp_path}/store/checkpoint", {"sink": "json", "path": str(tmp_path / "out")}
    add(tmp_path / "in", 0)
    query.start(checkpoint=where, sink=sink, available_now=True).wait()
    assert list((tmp_path / "store" / "checkpoint" / "tables").glob("names-*.arrow"))
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("UPDATE names SET name = 'new ' || k")
    add(tmp_path / "in", 1)
    query.start(checkpoint=where, sink=sink, available_now=True).wait()
    lines = [json.loads(line) for one in (tmp_path / "out").glob("*.json") for line in one.read_text().splitlines()]
    told = sorted(row["name"] for row in lines)
    assert told == ["new 0", "new 1", "new 2", "old 0", "old 1", "old 2"]


def test_nothing_is_committed_by_who_has_lost_the_checkpoint(tmp_path: Path) -> None:
    store = CheckpointInStore(f"file://{tmp_path}/store/checkpoint")
    store.hold()
    journal = Journal(PlaceInStore(store))
    journal.append(0, [b"what came"], soon=True)
    journal.sync(0)
    store._holding._lost = RunError("another run has taken over the checkpoint")
    with pytest.raises(RunError, match="has taken over"):
        journal.sync(0)  # which comes before every commit of answers
    store.release()
