"""A batch is answered while the disk takes it, and nobody sees that before it has."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable import journal

NOON = dt.datetime(2026, 1, 1, 12)
COLUMNS = {"id": "BIGINT", "ts": "TIMESTAMP"}


class Disk:
    """Takes what it is given when it is told to."""

    def __init__(self) -> None:
        self.begun, self.goes_on = threading.Semaphore(0), threading.Semaphore(0)
        self.is_broken = False

    def begin(self, file: int) -> None:
        self.begun.release()

    def end(self) -> None:
        assert self.goes_on.acquire(timeout=30)
        if self.is_broken:
            raise OSError(5, "Input/output error")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(journal, "begun_sync", lambda: made)
    return made


def started(folder: Path, seen: list[Any], sql: str = "SELECT id FROM a") -> Any:
    session = wm.Session()
    session.stream("a", schema=COLUMNS, time="ts")
    return session.sql(sql).start(checkpoint=folder, on_answer=seen.append)


def row(number: int) -> dict[str, Any]:
    return {"id": number, "ts": NOON + dt.timedelta(seconds=number)}


def answered(run: Any, number: int) -> bool:
    """Whether the operator has taken a batch, which can be seen from inside alone."""
    return bool(run.driver.run.execution.clock.clocks["a"].rows_in > number)


def test_nothing_is_seen_or_told_before_the_disk_has_it(tmp_path: Path, disk: Disk) -> None:
    seen: list[Any] = []
    run = started(tmp_path, seen)
    (written,) = run.push_soon("a", row(0))
    assert disk.begun.acquire(timeout=30)
    while not answered(run, 0):  # it is answered meanwhile
        threading.Event().wait(0.001)
    metrics = threading.Thread(target=run.metrics)
    metrics.start()
    metrics.join(0.1)
    assert metrics.is_alive()
    assert not seen
    assert not written.done()
    disk.goes_on.release()
    assert written.result(30) == 0
    run.stop()
    assert [one.to_pylist() for one in seen] == [[{"id": 0}]]


def test_what_may_take_long_waits_for_the_disk(tmp_path: Path, disk: Disk) -> None:
    run = started(tmp_path, [], "SELECT UPPER(CAST(id AS STRING)) AS id FROM a")  # not by kernels alone
    (written,) = run.push_soon("a", row(0))
    assert disk.begun.acquire(timeout=30)
    threading.Event().wait(0.1)
    assert run.driver.run.execution.operator.counters.results == 0
    disk.goes_on.release()
    assert written.result(30) == 0
    run.stop()


def test_a_disk_that_does_not_take_it_ends_the_run(tmp_path: Path, disk: Disk) -> None:
    seen: list[Any] = []
    run = started(tmp_path, seen)
    disk.is_broken = True
    (written,) = run.push_soon("a", row(0))
    disk.goes_on.release()
    with pytest.raises(RunError, match="checkpoint cannot be written"):
        written.result(30)
    with pytest.raises(RunError, match="checkpoint cannot be written"):
        run.wait(30)
    assert not seen
