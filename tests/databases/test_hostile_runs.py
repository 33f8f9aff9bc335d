"""A PostgreSQL server that refuses, goes away or is changed, seen from the command line: one sentence each, and a
restart goes on with nothing lost and nothing twice."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest

from tests.connectors.commands import Ended, check_sentence, run
from tests.connectors.small_disk import SmallDisk, small_disk
from tests.databases.places import Place, ran
from tests.databases.server import PASSWORD, Server

pytestmark = pytest.mark.postgres


class Shop:
    """A script that keeps rows of files in a server, as somebody runs it again and again."""

    def __init__(self, folder: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._place, self._monkeypatch = folder, place, monkeypatch
        (folder / "in").mkdir()
        self._rows = 0
        self.add(2)
        (folder / "script.sql").write_text(
            f"CREATE STREAM s (k BIGINT, w VARCHAR, ts TIMESTAMP) WITH (source = 'csv', path = '{folder}/in', "
            "time = 'ts', lateness = '1 hour'); "
            "CREATE SINK answer WITH (sink = 'postgres', dsn = '${PLACE}') AS SELECT k, w FROM s;"
        )

    def add(self, count: int, word: str = "x") -> None:
        numbers = range(self._rows, self._rows + count)
        lines = (f"{k},{word},2026-01-01 00:{k // 60 % 60:02d}:{k % 60:02d}\n" for k in numbers)
        draft = self.folder / "in" / f".{self._rows}"
        draft.write_text("k,w,ts\n" + "".join(lines))
        draft.rename(self.folder / "in" / f"{self._rows:06d}.csv")
        self._rows += count

    def run(self, dsn: str | None = None) -> Ended:
        self._monkeypatch.setenv("PLACE", dsn or self._place.options["dsn"])
        return run(self.folder / "script.sql", self.folder / "state")

    def check(self) -> None:
        """It goes on, and has every row once."""
        ended = self.run()
        assert ended.code == 0, ended.said
        assert Counter(row[0] for row in self._place.run("SELECT k FROM answer")) == Counter(range(self._rows))


@pytest.fixture
def shop(tmp_path: Path, on_server: Place, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, on_server, monkeypatch)


def test_a_wrong_password(shop: Shop, server: Server) -> None:
    check_sentence(shop.run(server.dsn(password="hush-hush")), "password authentication failed", never=("hush",))
    shop.check()


def test_a_server_that_is_not_there(shop: Shop, server: Server) -> None:
    check_sentence(shop.run(server.dsn(port="1")), "127.0.0.1:1", "refused", never=(PASSWORD,))
    shop.check()


def test_a_table_that_was_dropped_between_two_lives(shop: Shop, on_server: Place) -> None:
    shop.check()
    on_server.run("DROP TABLE answer")
    shop.add(2)
    check_sentence(shop.run(), "up to batch", "has no table answer", "if_gone = 'make'", never=(PASSWORD,))


def test_a_column_that_was_changed_between_two_lives(shop: Shop, on_server: Place) -> None:
    shop.check()
    on_server.run("ALTER TABLE answer RENAME w TO word")
    shop.add(2)
    check_sentence(shop.run(), "has no column 'w'")
    on_server.run("ALTER TABLE answer RENAME word TO w")
    shop.check()
    on_server.run("ALTER TABLE answer ALTER w TYPE date USING NULL")
    shop.add(2)
    check_sentence(shop.run(), "column 'w'", "holds date")
    on_server.run("ALTER TABLE answer ALTER w TYPE text")
    shop.check()


def test_a_right_that_was_taken_away(shop: Shop, server: Server, on_server: Place) -> None:
    shop.check()
    name = on_server.run("SELECT current_database()")[0][0]
    on_server.run("CREATE ROLE guest LOGIN PASSWORD 'hush-hush'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest")
    shop.add(2)
    said = shop.run(server.dsn(name, user="guest", password="hush-hush"))
    on_server.run("DROP OWNED BY guest; DROP ROLE guest")
    check_sentence(said, "permission denied", never=("hush",))
    shop.check()


def test_a_server_that_goes_away_amid_a_run_and_comes_back(shop: Shop, server: Server, on_server: Place) -> None:
    import watersmeet as wm

    session = wm.Session()
    session.sql(
        f"CREATE STREAM s (k BIGINT, w VARCHAR, ts TIMESTAMP) "
        f"WITH (source = 'csv', path = '{shop.folder}/in', time = 'ts', lateness = '1 hour')"
    )
    sink = {"sink": "postgres", "table": "answer", **on_server.options}
    run = session.sql("SELECT k, w FROM s").start(
        checkpoint=shop.folder / "other", sink=sink, commit_every="50 ms", save_every="200 ms"
    )
    wait_for(on_server, 2)
    server.stop()
    shop.add(3)
    back = Thread(target=lambda: (sleep(2), server.start()))
    back.start()
    back.join()
    wait_for(on_server, 5)
    run.stop()


def wait_for(place: Place, rows: int) -> None:
    until_s = monotonic() + 60
    while monotonic() < until_s:
        there = place.run("SELECT to_regclass('answer') IS NOT NULL")[0][0]
        if there and place.run("SELECT count(*), count(DISTINCT k) FROM answer")[0] == (rows, rows):
            return
        sleep(0.1)
    raise AssertionError("the rows did not come")


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    """Where the server, who is somebody else, may write."""
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-disk-"))
    folder.chmod(0o755)
    try:
        with small_disk(folder / "disk") as made:
            shutil.chown(made.path, "postgres")
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_full_disk_under_the_server(shop: Shop, server: Server, on_server: Place, disk: SmallDisk) -> None:
    space = disk.path / "space"
    space.mkdir()
    shutil.chown(space, "postgres")
    ran(server.dsn(), f"CREATE TABLESPACE small LOCATION '{space}'")
    try:
        on_server.run("CREATE TABLE answer (k bigint, w text) TABLESPACE small")
        disk.fill(leave=100_000)
        shop.add(20_000, "a word that is written again and again")
        check_sentence(shop.run(), "No space left on device", "nothing is lost", never=(PASSWORD,))
        disk.make_room()
        shop.check()
    finally:
        on_server.run("DROP TABLE IF EXISTS answer")
        ran(server.dsn(), "DROP TABLESPACE small")
