"""What both hosts say of rows that are left out, from the table of metrics alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.unit.hand_clock import HandClock
from watersmeet.model.arrival import Arrival
from watersmeet.model.catalog import Stream
from watersmeet.model.side_sink import SideSink
from watersmeet.runtime.left_out import LeftOutWarnings, late_error
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.script import Job
from watersmeet.warning import WatersmeetWarning

NOON = datetime(2026, 1, 1, 12)
NOON_US = int((NOON - datetime(1970, 1, 1)) / timedelta(microseconds=1))
ARRIVAL = Arrival(idle_us=30_000_000, max_future_us=3_600_000_000)
A = Stream("a", pa.schema([("ts", pa.timestamp("us"))]), "ts", arrival=ARRIVAL)


def told(metrics: Metrics, stream: Stream = A, query: str = "") -> list[str]:
    found: list[Warning] = []
    LeftOutWarnings([stream], found.append, HandClock(today=NOON)).look(metrics, at_end=True, query=query)
    return [str(one) for one in found]


LATE = "came too late and are left out of the answer"


@pytest.mark.parametrize(
    ("metrics", "sentence"),
    [
        (
            {"late_by_stream": {"a": 2}, "late_behind_us": {"a": 60_000_000}, "late_newest_us": {"a": NOON_US}},
            f"late_rows: 2 rows of stream 'a' {LATE}: up to 1 min behind its newest row, of 2026-01-01 12:00:00.000000"
            "; set lateness='1 min' or more",
        ),
        (
            {"late_by_stream": {"a": 2}, "late_behind_us": {"a": 1}, "late_newest_us": {"a": NOON_US * 2}},
            f"late_rows: 2 rows of stream 'a' {LATE}: up to 1 µs behind its newest row, of 2082-01-02 00:00:00.000000; "
            "the row of 2082-01-02 00:00:00.000000 lies in the future: max_future='1 hour' keeps such rows from moving "
            "time",
        ),
        (
            {"late_by_stream": {"a": 2}, "late_after_silence_us": {"a": 2_000_000}},
            f"late_rows: 2 rows of stream 'a' {LATE}: after a silence, up to 2 s behind the other streams; set a "
            "longer idle, or none, to wait for a stream that is silent",
        ),
        (
            {"late_by_stream": {"a": 2}, "late_promised_us": {"a": NOON_US}},
            f"late_rows: 2 rows of stream 'a' {LATE}: although it was said that none comes before "
            "2026-01-01 12:00:00.000000 any more; call advance() with a time that all later rows keep to",
        ),
        (
            {"skipped_by_stream": {"a": 1}},
            "skipped_rows: 1 row of stream 'a' has no event time and was left out of the answer: ts is NULL there, and "
            "on_null = 'skip' was said",
        ),
        (
            {"future_rows": {"a": 3}},
            "future_rows: 3 rows of stream 'a' lie further ahead of the clock than max_future = '1 h': they are in the "
            "answer, but moved no watermark",
        ),
        (
            {"bad_by_stream": {"a": 3}, "bad_by_reason": {"a: not json": 2, "a: null time": 1, "ab: not json": 7}},
            "bad_rows: 3 records of stream 'a' cannot be read and are left out of the answer: 2 not json, 1 null time",
        ),
        (
            {"left_out_by_stream": {"a": 1_200}},
            "handed_over_rows: 1,200 rows of stream 'a' lie on the other side of its handover and are left out: there "
            "they come once",
        ),
    ],
)
def test_every_reason_has_its_sentence(metrics: dict[str, object], sentence: str) -> None:
    made = Metrics()
    made.set(metrics)
    assert told(made) == [sentence]


def test_bad_records_that_are_kept_say_where_and_the_first_is_shown() -> None:
    metrics = Metrics(bad_by_stream={"a": 1}, bad_by_reason={"a: not json": 1}, first_bad={"a": "in x.json, row 3"})
    kept = replace(A, bad_to=SideSink("bad", {}))
    assert told(metrics, kept, "q") == [
        "bad_rows: q: 1 record of stream 'a' cannot be read and is left out of the answer, and goes to sink 'bad': "
        "1 not json; the first is in x.json, row 3"
    ]


def test_a_script_on_spark_tells_of_them_when_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from watersmeet.hosts.spark import host

    session = wm.Session()
    session.stream("a", schema={"ts": "TIMESTAMP"}, time="ts")
    job = Job("query 1", session.sql("SELECT ts FROM a").plan, {})
    metrics = Metrics(late_by_stream={"a": 2}, late_after_silence_us={"a": 2_000_000})
    ended = SimpleNamespace(jobs=[job], run=lambda: [SimpleNamespace(job=job, metrics=metrics)])
    monkeypatch.setattr(host, "SparkRun", lambda spark, jobs, settings: ended)
    on_spark = cast(host.SparkHost, SimpleNamespace(spark=None, buckets=1))
    with pytest.warns(wm.DataWarning, match=r"^late_rows: query 1: 2 rows of stream 'a' came too late"):
        (outcome,) = host.SparkHost.run_jobs(on_spark, [job])
    assert outcome.metrics["late_by_stream"] == {"a": 2}


def test_while_a_run_goes_on_it_is_told_whenever_there_are_twice_as_many() -> None:
    found: list[Warning] = []
    warnings = LeftOutWarnings([A], found.append)
    for rows in range(9):
        warnings.look(Metrics(skipped_by_stream={"a": rows}), at_end=False)
    warnings.look(Metrics(skipped_by_stream={"a": 9}), at_end=True)
    warnings.look(Metrics(skipped_by_stream={"a": 9}), at_end=True)
    messages = [one.message for one in found if isinstance(one, WatersmeetWarning)]
    assert [int(one.split()[0]) for one in messages] == [1, 2, 4, 8, 9]


def test_an_error_over_late_rows_says_the_same() -> None:
    error = late_error(A, 1, {"late_behind_us": 2_000_000, "late_newest_us": NOON_US}, NOON_US)
    assert error.message.startswith("1 row of stream 'a' came too late and is left out of the answer: up to 2 s behind")
    assert error.hint == "set lateness='2 s' or more"
