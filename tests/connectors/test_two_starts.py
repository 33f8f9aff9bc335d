"""The newest start of a run owns its sink: an older one is refused by name, and what it would have replaced stays."""

from __future__ import annotations

import datetime as dt
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.databases.places import Place
from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import Claim, known_after, new_start, owner_in
from watersmeet.io.connectors.contract import Connector, NumberedSink, SinkOpening, Start
from watersmeet.io.connectors.files import local_folder
from watersmeet.io.connectors.files.local_folder import FolderClaim
from watersmeet.io.connectors.numbered_sinks import numbered_sink
from watersmeet.io.connectors.registry import forget

ROWS = pa.schema([("id", pa.int64()), ("day", pa.string())])
RUN = "0123456789ab"
OWNED = rf"sink 'out' is owned by a newer start \(run {RUN}, start 2, since 20.* UTC, process \d+ on "
Open = Callable[[Start], NumberedSink]


def batch(*ids: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"d{one % 2}" for one in ids])], schema=ROWS)


def place(kind: str, folder: Path) -> dict[str, str]:
    """The options of a sink of each kind that needs no server."""
    path = str(folder / "out")
    match kind:
        case "files in folders":
            return {"sink": "parquet", "path": path, "partition_by": "day"}
        case "a store":
            return {"sink": "parquet", "path": f"file://{path}"}
        case "a store in folders":
            return {"sink": "parquet", "path": f"file://{path}", "partition_by": "day"}
        case "iceberg":
            warehouse = folder / "warehouse"
            warehouse.mkdir(exist_ok=True)
            uri = f"sqlite:///{folder}/catalog.db"
            return {
                "sink": "iceberg",
                "table": "db.out",
                "catalog.uri": uri,
                "catalog.warehouse": f"file://{warehouse}",
            }
        case "sqlite" | "duckdb":
            return {"sink": kind, "path": f"{path}.{kind}"}
    return {"sink": kind, "path": path}


def ids_at(kind: str, folder: Path) -> list[int]:
    match kind:
        case "sqlite":
            import sqlite3

            with sqlite3.connect(folder / "out.sqlite") as connection:
                return sorted(one for (one,) in connection.execute("SELECT id FROM out"))
        case "duckdb":  # in our way, as a run opens and closes the file meanwhile
            return sorted(Place("duckdb", {"path": str(folder / "out.duckdb")}).load(table="out")["id"].to_pylist())
        case "delta":
            from deltalake import DeltaTable

            return sorted(DeltaTable(str(folder / "out")).to_pyarrow_table()["id"].to_pylist())
        case "iceberg":
            from watersmeet.io.connectors.iceberg import opening

            return sorted(
                opening.Place("out", place(kind, folder), SinkError).opened().scan().to_arrow()["id"].to_pylist()
            )
    return sorted(pq.read_table(folder / "out", columns=["id"])["id"].to_pylist())


KINDS = ["parquet", "files in folders", "a store", "a store in folders", "sqlite", "duckdb", "delta", "iceberg"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opener(kind: str, folder: Path) -> Open:
    return lambda start: numbered_sink("out", place(kind, folder), ROWS, RUN, start=start)


def test_an_older_start_is_refused_by_name_and_writes_nothing(kind: str, tmp_path: Path) -> None:
    opened = opener(kind, tmp_path)
    first = new_start([])
    old = opened(first)
    old.commit(0, [batch(1, 2)])
    new = opened(new_start([first.token]))  # of a copy of the same checkpoint
    assert new.committed() == 0
    with pytest.raises(SinkError, match=OWNED):
        old.commit(1, [batch(3)])
    new.commit(1, [batch(4)])
    with pytest.raises(SinkError, match=OWNED):
        old.commit(1, [batch(3)])
    with pytest.raises(SinkError, match=OWNED):
        old.commit(2, [batch(3)])
    new.commit(2, [batch(5)])
    assert ids_at(kind, tmp_path) == [1, 2, 4, 5]


def test_a_start_that_wrote_nothing_yet_is_refused_too(kind: str, tmp_path: Path) -> None:
    opened = opener(kind, tmp_path)
    old, new = opened(new_start([])), opened(new_start([]))
    with pytest.raises(SinkError, match=OWNED):
        old.commit(0, [batch(1)])
    new.commit(0, [batch(2)])
    assert ids_at(kind, tmp_path) == [2]


def test_the_next_start_of_the_same_checkpoint_goes_on(kind: str, tmp_path: Path) -> None:
    opened, known = opener(kind, tmp_path), list[str]()
    for number in range(4):
        start = new_start(known)
        sink = opened(start)
        assert sink.committed() == (-1 if number == 0 else number - 1 - (number == 3))
        known = known_after(start, [sink])
        assert len(known) <= 2
        if number != 2:  # a life that writes nothing
            sink.commit(number, [batch(number)])
            sink.commit(number, [batch(number)])
        sink.close()
    assert ids_at(kind, tmp_path) == [0, 1, 3]


def test_what_another_copy_has_written_is_not_taken_for_ones_own(kind: str, tmp_path: Path) -> None:
    opened = opener(kind, tmp_path)
    first = new_start([])
    opened(first).commit(0, [batch(1)])
    other = opened(new_start([first.token]))
    other.commit(1, [batch(2)])
    with pytest.raises(
        SinkError, match=r"has batches of run .* that this checkpoint does not know .* another copy of it"
    ):
        opened(new_start([first.token]))  # the checkpoint of `first` again, with a batch 1 of its own
    other.commit(2, [batch(3)])  # which the attempt has not disturbed
    assert ids_at(kind, tmp_path) == [1, 2, 3]


def test_a_copy_that_has_written_nothing_is_in_nobodys_way(kind: str, tmp_path: Path) -> None:
    opened = opener(kind, tmp_path)
    first = new_start([])
    opened(first).commit(0, [batch(1)])
    other = opened(new_start([first.token]))
    again = opened(new_start([first.token]))
    again.commit(1, [batch(2)])
    with pytest.raises(SinkError, match=r"owned by a newer start .*, start 3, since"):
        other.commit(1, [batch(9)])
    assert ids_at(kind, tmp_path) == [1, 2]


# Where a batch is on its way to the sink, after the first look at who owns it.
AMID = {
    "parquet": "watersmeet.io.connectors.files.sink.Drafts",
    "files in folders": "watersmeet.io.connectors.files.sink.Drafts",
    "a store": "watersmeet.io.connectors.files.store_folder.put",
    "a store in folders": "watersmeet.io.connectors.files.store_folder.put",
    "delta": "watersmeet.io.connectors.delta.sink.write_deltalake",
    "iceberg": "pyiceberg.table.Transaction.append",
}


@pytest.mark.parametrize("kind", AMID, indirect=True)
def test_a_claim_amid_a_commit_holds(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = opener(kind, tmp_path)
    first = new_start([])
    old = opened(first)
    old.commit(0, [batch(1)])
    *module, name = AMID[kind].split(".")
    place, news = resolve_name(".".join(module)), list[NumberedSink]()
    real = getattr(place, name)

    def claim_first(*given: Any, **named: Any) -> Any:
        monkeypatch.undo()
        news.append(opened(new_start([first.token])))
        return real(*given, **named)

    monkeypatch.setattr(place, name, claim_first)
    with pytest.raises(SinkError, match=OWNED):
        old.commit(1, [batch(2)])
    (new,) = news
    assert new.committed() == 0
    if kind == "a store":  # which cannot hold back what is under way: it is replaced
        assert ids_at(kind, tmp_path) == [1, 2]
    elif kind != "a store in folders":  # where it lies without the mark that would make it count
        assert ids_at(kind, tmp_path) == [1]
    new.commit(1, [batch(4)])
    assert ids_at(kind, tmp_path) == [1, 4]


# ---- two live copies of one checkpoint ------------------------------------------------------------------------------


def pushed_query(late: str = "") -> wm.Query:
    session = wm.Session()
    beside = ", on_late = 'sink late'" if late else ""
    session.sql(f"{late} CREATE STREAM s (id BIGINT, day VARCHAR, ts TIMESTAMP) WITH (time = 'ts'{beside})")
    return session.sql("SELECT id, day FROM s")


def row(number: int, minute: int | None = None) -> list[dict[str, Any]]:
    at = dt.datetime(2026, 1, 1) + dt.timedelta(minutes=number if minute is None else minute)
    return [{"id": number, "day": f"d{number % 2}", "ts": at}]


def both_live(query: wm.Query, folder: Path, options: dict[str, str]) -> tuple[wm.Run, wm.Run]:
    """A run that has written a row, and one of a copy of its checkpoint, with the same next number."""
    old = query.start(checkpoint=folder / "state", sink=options, commit_every="1 ms")
    old.push("s", row(0))
    old.stop()
    shutil.copytree(folder / "state", folder / "copy")
    old = query.start(checkpoint=folder / "state", sink=options, commit_every="1 ms")
    return old, query.start(checkpoint=folder / "copy", sink=options, commit_every="1 ms")


def ended(run: wm.Run) -> str:
    with pytest.raises(SinkError) as refused:
        run.wait(30)
    return refused.value.message


@pytest.mark.parametrize("first", ["old", "new"])
def test_of_two_live_copies_that_are_pushed_to_the_newer_writes(kind: str, first: str, tmp_path: Path) -> None:
    query = pushed_query()
    old, new = both_live(query, tmp_path, place(kind, tmp_path))
    for run in (old, new) if first == "old" else (new, old):
        run.push("s", row(1 if run is old else 2))  # which is written down in either, under the same number
        if run is old:
            assert "sink 'out' is owned by a newer start (run " in ended(old)
    new.push("s", row(4))
    new.stop()
    assert ids_at(kind, tmp_path) == [0, 2, 4]
    with pytest.raises(SinkError, match="that this checkpoint does not know"):
        query.start(checkpoint=tmp_path / "state", sink=place(kind, tmp_path))
    query.start(checkpoint=tmp_path / "copy", sink=place(kind, tmp_path)).stop()
    assert ids_at(kind, tmp_path) == [0, 2, 4]


def test_of_two_live_copies_that_read_the_newer_writes(kind: str, tmp_path: Path) -> None:
    def arrive(*numbers: int) -> None:
        draft = tmp_path / "draft.parquet"
        pq.write_table(pa.Table.from_pylist([one for number in numbers for one in row(number)]), draft)
        draft.rename(tmp_path / "in" / f"{numbers[0]}.parquet")

    (tmp_path / "in").mkdir()
    arrive(0)
    session = wm.Session()
    session.stream("s", str(tmp_path / "in"), time="ts", lateness="1 day")
    query, options = session.sql("SELECT id, day FROM s"), place(kind, tmp_path)
    query.start(checkpoint=tmp_path / "state", sink=options, available_now=True).wait(60)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    old = query.start(checkpoint=tmp_path / "state", sink=options, commit_every="1 ms")
    new = query.start(checkpoint=tmp_path / "copy", sink=options, commit_every="1 ms")
    arrive(1, 2)
    assert "is owned by a newer start" in ended(old)
    arrive(3)
    until = monotonic() + 30
    while ids_at(kind, tmp_path) != [0, 1, 2, 3] and monotonic() < until:
        sleep(0.02)
    new.stop()
    assert ids_at(kind, tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["parquet", "sqlite"], indirect=True)
def test_sinks_beside_the_answers_are_the_newest_starts_too(kind: str, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    said = ", ".join(f"{name} = '{value}'" for name, value in place(kind, beside).items())
    query = pushed_query(f"CREATE SINK late WITH ({said}, mode = 'append');".replace("/out", "/late"))
    old, new = both_live(query, tmp_path, {"sink": "console"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in (old, new):  # a screen takes what comes, but what is late goes to one sink
            run.push("s", row(9))
            run.push("s", row(3, minute=1))
        assert "sink 'late' is owned by a newer start (run " in ended(old)
        new.stop()


# ---- sinks of others ------------------------------------------------------------------------------------------------


class Ledger(NumberedSink):
    """Asks anew what it has, and keeps no start."""

    kept: dict[int, list[Any]] = {}  # noqa: RUF012

    def __init__(self, opening: SinkOpening) -> None:
        self.opening = opening

    def committed(self) -> int:
        return max(self.kept, default=-1)

    def commit(self, number: int, rows: Any) -> None:
        if number > self.committed():
            self.kept[number] = [one for some in rows for one in some.to_pylist()]


class OwnedLedger(Ledger):
    """Keeps the start, beside the number."""

    owner: list[str] = []  # noqa: RUF012
    claim: Claim

    def __init__(self, opening: SinkOpening) -> None:
        super().__init__(opening)
        self.claim = Claim.of(opening)
        self.owner[:] = [self.claim.taking_over(owner_in("".join(self.owner))).as_text()]

    def commit(self, number: int, rows: Any) -> None:
        owner = self.claim.committed(owner_in("".join(self.owner)))
        super().commit(number, rows)
        self.owner[:] = self.owner if owner is None else [owner.as_text()]


@pytest.mark.parametrize("made", [Ledger, OwnedLedger])
def test_a_connector_of_ones_own_keeps_starts_or_at_least_asks_anew_what_it_has(made: type, tmp_path: Path) -> None:
    made.kept.clear()
    wm.register_connector(Connector("ledger", sink=made))
    try:
        old, new = both_live(pushed_query(), tmp_path, {"sink": "ledger"})
        new.push("s", row(2))
        new.stop()
        old.push("s", row(1))
        said = ended(old)
    finally:
        forget("ledger")
    assert [one["id"] for rows in made.kept.values() for one in rows] == [0, 2]
    if made is OwnedLedger:
        assert "sink 'out' is owned by a newer start (run " in said
    else:
        assert said == "connector 'ledger' has batch 1 of this run, which another process has written"


def test_a_claim_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    opened = opener("parquet", tmp_path)
    sink = opened(new_start([]))
    (claimed,) = (tmp_path / "out").iterdir()
    claimed.write_bytes(b"\xff{nonsense")
    for attempt in (lambda: sink.commit(0, [batch(1)]), lambda: opened(new_start([]))):
        with pytest.raises(SinkError, match=r"which start owns it cannot be read in .*\.start-0123456789ab"):
            attempt()
    claimed.write_bytes(bytes(100))  # as a machine that crashed may leave it
    opened(new_start([])).commit(0, [batch(1)])
    assert ids_at("parquet", tmp_path) == [1]


def test_a_lock_that_somebody_holds_is_not_waited_for_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_folder, "PATIENCE_S", 0.05)
    opened = opener("parquet", tmp_path)
    start = new_start([])
    opened(start)
    held, told = (
        FolderClaim("out", tmp_path / "out", RUN, start),
        r"has held the lock of .*\.start-\w+ for 0\.05 seconds",
    )
    with held.taking_over(), pytest.raises(SinkError, match=told):
        opened(new_start([]))
