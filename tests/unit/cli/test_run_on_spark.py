"""What `watersmeet run` on Spark tells of rows that are left out; Spark itself is played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from watersmeet.cli.run_on_spark import _run
from watersmeet.cli.voice import speak
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.progress.tally import Batch
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.runtime.interrupt import Interrupts
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import Job
from watersmeet.sql.bind import bind

LATE = (1, 2, 5, 9)  # rows of each stream so far, batch by batch


def job() -> Job:
    catalog = Catalog()
    for name in "ab":
        catalog.add(Stream(name, pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))]), "ts"))
    plan = bind("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND", catalog)
    return Job("q", plan, {"sink": "parquet", "path": "out"})


class Played:
    """A run of one query, whose batches have late rows of both streams."""

    def __init__(self, fails: bool = False) -> None:
        self.jobs, self.fails = [job()], fails

    def request_stop(self) -> None: ...

    def run(self, show: Callable[[RunningQuery, Batch], None], boards: Any) -> list[RunningQuery]:
        running: Any = RunningQuery(self.jobs[0], None, "checkpoint")  # type: ignore[arg-type]
        for number, rows in enumerate(LATE):
            by_stream = dict.fromkeys("ab", rows)
            running.metrics.set({"late_by_stream": by_stream, "late_behind_us": by_stream, "late_newest_us": by_stream})
            show(running, Batch(number, 1.0, {"rows_in": 10}))
        if self.fails:
            raise RuntimeError("the disk is full")
        return [running]


def told(capsys: pytest.CaptureFixture[str], settings: RunSettings, *, fails: bool = False) -> list[str]:
    speak()
    try:
        _run(Played(fails), settings, Interrupts(print), {})  # type: ignore[arg-type]
    except RuntimeError:
        assert fails
    text = " ".join(capsys.readouterr().err.split())
    return [one.partition(" came")[0] for one in text.split("warning: ")[1:]]


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_ends_by_itself_warns_once_of_each_stream(capsys: pytest.CaptureFixture[str], fails: bool) -> None:
    settings = RunSettings(available_now=True)
    assert told(capsys, settings, fails=fails) == ["q: 9 rows of stream 'a'", "q: 9 rows of stream 'b'"]


def test_a_run_that_goes_on_warns_at_once_and_whenever_there_are_twice_as_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = [f"q: {rows} row{'s' if rows > 1 else ''} of stream {name!r}" for rows in LATE for name in "ab"]
    assert told(capsys, RunSettings()) == said
