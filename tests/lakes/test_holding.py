"""Who holds a checkpoint in a store: of starts at one moment exactly one, and the others are told in a sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pytest

from tests.lakes.store import Store
from watersmeet.errors import RunError
from watersmeet.io import holding
from watersmeet.io.holding import HOLDER, ConditionalObject, FileUnderLock, Holding, PlainObject
from watersmeet.warning import StateWarning

STARTS = 4


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.lakes)])
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return f"file://{tmp_path}/checkpoint"
    store: Store = request.getfixturevalue("store")
    return in_s3(store, monkeypatch)


def in_s3(store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in ways(store).items():
        monkeypatch.setenv(name, value)
    return store.address("checkpoint")


def ways(store: Store) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": "us-east-1",
    }  # fmt: skip


@pytest.fixture
def all_look_before_any_puts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst moment: each start has seen that nobody holds the checkpoint."""
    everybody = threading.Barrier(STARTS)

    def waiting(read: Callable[[Holding], object]) -> Callable[[Holding], object]:
        def wrapped(self: Holding) -> object:
            found = read(self)
            if not getattr(self, "_has_looked", False):
                self._has_looked = True  # type: ignore[attr-defined]
                everybody.wait(30)
            return found

        return wrapped

    monkeypatch.setattr(Holding, "_read", waiting(Holding._read))


def at_one_moment(address: str) -> tuple[list[Holding], list[str]]:
    def start(_: int) -> Holding | str:
        try:
            return Holding(address)
        except RunError as error:
            return error.message

    with ThreadPoolExecutor(STARTS) as threads:
        found = list(threads.map(start, range(STARTS)))
    return [one for one in found if isinstance(one, Holding)], [one for one in found if isinstance(one, str)]


@pytest.mark.usefixtures("all_look_before_any_puts")
@pytest.mark.parametrize("before", ["nobody", "one that let go", "one that died"])
def test_of_starts_at_one_moment_exactly_one_holds_a_checkpoint(
    address: str, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before != "nobody":
        put_before(address, 0.0 if before == "one that let go" else 1.0)
    hold, told = at_one_moment(address)
    assert len(hold) == 1
    assert told == [f"another run is using the checkpoint {address}: process {os.getpid()} on {host()}"] * (STARTS - 1)
    hold[0].check()
    hold[0].release()


def put_before(address: str, at: float) -> None:
    found, why_not = holding._object(address)
    assert why_not == ""
    found.put(json.dumps({"who": "x", "host": "elsewhere", "pid": 7, "at": at}).encode(), None)


def host() -> str:
    import socket

    return socket.gethostname()


def test_who_lets_go_is_followed_by_another(address: str) -> None:
    for _ in range(3):
        Holding(address).release()
    one = Holding(address)
    with pytest.raises(RunError, match="another run is using the checkpoint"):
        Holding(address)
    one.release()


def test_who_was_taken_over_is_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "RENEW_S", 0.05)
    one = Holding(address)
    try:
        for _ in range(100):  # between its reading and its putting the tag may change
            found = one._object.read()
            assert found is not None
            try:
                one._object.put(b'{"who": "x", "host": "elsewhere", "pid": 7, "at": 9e9}', found[1])
                break
            except holding.TakenError:
                continue
        one._thread.join(30)
        with pytest.raises(RunError, match="another run has taken over the checkpoint"):
            one.check()
    finally:
        one.release()
    last = one._object.read()
    assert last is not None
    assert json.loads(last[0])["who"] == "x"


def test_an_answer_of_the_store_that_was_lost_is_no_other_run(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "RENEW_S", 0.05)
    one = Holding(address)
    one._tag = "of before"
    for _ in range(100):
        sleep(0.05)
        if one._tag != "of before":
            break
    assert one._tag != "of before"
    one.check()
    one.release()
    Holding(address).release()


SCRIPT = """
import sys
import watersmeet as wm

session = wm.Session()
session.sql("CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = 'csv', path = '{folder}/in', time = 'ts')")
query = session.sql("SELECT k FROM s")
sys.stdout.write("ready")
sys.stdout.flush()
sys.stdin.read(1)
try:
    run = query.start(checkpoint="{address}", sink={{"sink": "csv", "path": "{folder}/out"}})
except wm.WatersmeetError as error:
    print(error.message)
else:
    print("holds it", flush=True)
    sys.stdin.read()
    run.stop()
"""


@pytest.fixture
def starts(tmp_path: Path, store: Store) -> Iterator[list[subprocess.Popen[str]]]:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("k,ts\n1,2026-01-01 00:00:00\n")
    text = SCRIPT.format(folder=tmp_path, address=store.address("checkpoint"))
    made = [
        subprocess.Popen(
            [sys.executable, "-c", text], env=os.environ | ways(store), text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    yield made
    for one in made:
        one.kill()
        one.wait()


@pytest.mark.lakes
def test_of_two_processes_one_runs_and_the_other_is_told(starts: list[subprocess.Popen[str]]) -> None:
    for one in starts:
        assert one.stdout is not None
        assert one.stdout.read(5) == "ready"
    for one in starts:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    said = sorted(str(one.stdout.readline()).strip() for one in starts if one.stdout is not None)
    assert said[1] == "holds it"
    assert said[0].startswith("another run is using the checkpoint s3://")


# ---- where the store does not help ----------------------------------------------------------------------------------


@pytest.mark.lakes
def test_a_store_that_does_not_look_at_conditions_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put = ConditionalObject.put

    def whatever(self: ConditionalObject, data: bytes, instead_of: str | None) -> str | None:
        found = self.read()
        return put(self, data, None if found is None else found[1])

    monkeypatch.setattr(ConditionalObject, "put", whatever)
    with pytest.warns(
        StateWarning, match="unguarded_checkpoint: two starts of s3://.* may both go on: this store takes"
    ):
        Holding(in_s3(store, monkeypatch)).release()


@pytest.mark.lakes
def test_without_obstore_it_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "find_spec", lambda name: None)
    address = in_s3(store, monkeypatch)
    with pytest.warns(
        StateWarning, match=r"may both go on: obstore is not installed: pip install 'watersmeet\[stores\]'"
    ):
        one = Holding(address)
    assert isinstance(one._object, PlainObject)
    with pytest.raises(RunError, match="another run is using the checkpoint"):
        Holding(address)
    one.release()


def test_a_folder_needs_nothing_and_tells_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = Holding(f"file://{tmp_path}/checkpoint")
    assert isinstance(one._object, FileUnderLock)
    one.release()
    assert json.loads((tmp_path / "checkpoint" / HOLDER).read_text())["at"] == 0
