"""Where windows are short and few rows match, a run over tables takes one thread although several were asked for: it
says so and why, and the answer is the same."""

from __future__ import annotations

import json
import logging
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.optimizer.choose_threads import LEAST_ROWS
from watersmeet.runtime.build import build

ROWS = 60_000
SHORT = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 5 MILLISECONDS"


def table(seed: int, keys: int, rows: int = ROWS) -> pa.Table:
    """A million rows a second."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, rows, rows))
    return pa.table(
        {"id": np.arange(rows), "k": rng.integers(0, keys, rows), "ts": pa.array(times, pa.timestamp("us"))}
    )


def query(sql: str = SHORT, threads: int = 2, keys: int = 50_000, rows: int = ROWS) -> wm.Query:
    session = wm.Session()
    for seed, name in enumerate("ab"):
        session.stream(name, table(seed, keys, rows), time="ts")
    return session.sql(f"{sql} OPTIONS (threads = {threads})")


def reason(asked: wm.Query) -> str | None:
    why: str | None = json.loads(asked.explain(format="json")).get("one_thread")
    return why


def test_explain_says_that_one_thread_is_faster_and_why() -> None:
    asked = query()
    why = reason(asked)
    assert why is not None
    assert "and in 2 threads, with its way to one of them, it would take" in why
    assert "\nin one thread: a row takes about" in str(asked.explain())
    assert not str(asked.explain()).startswith("in 2 threads")


@pytest.mark.parametrize(
    "asked",
    [
        query(threads=4),  # which share a row's way
        query(keys=20),  # every row has hundreds of partners
        query(rows=LEAST_ROWS // 2 - 1),
        query(SHORT.replace("5 MILLISECONDS", "50 MILLISECONDS")),
        query("SELECT a.id AS x, b.id AS y FROM a [PARTITION BY k ROWS 1], b [PARTITION BY k ROWS 1] WHERE a.k = b.k"),
    ],
    ids=["more threads", "many matches", "few rows", "long windows", "rows are counted"],
)
def test_otherwise_there_are_as_many_as_were_asked_for(asked: wm.Query) -> None:
    assert reason(asked) is None


def test_a_run_that_may_go_on_is_not_judged_by_the_rows_at_hand() -> None:
    assert build(query().plan).parts == 2


def test_the_run_goes_as_explain_says_and_says_so_once() -> None:
    said: list[str] = []
    execution = PulledExecution(query().plan)
    execution.notice = said.append
    assert execution.operator.parts == 1
    rows = sum(batch.num_rows for batch in execution.batches())
    assert rows == execution.metrics.results > 0
    assert said == [f"threads = 2, but the query runs in one thread: {reason(query())}"]


def test_pushes_say_it_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    session = wm.Session()
    for name in "ab":
        session.stream(name, schema={"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    with caplog.at_level(logging.INFO, "watersmeet"):
        session.sql("SELECT a.id FROM a WHERE a.k > 3 OPTIONS (threads = 2)").start().stop()
    told = "threads = 2, but the query runs in one thread: rows that are only selected stay in their order"
    assert [one.message for one in caplog.records].count(told) == 1


def test_the_answer_is_that_of_several() -> None:
    alone, four, one = (query(threads=threads).to_arrow() for threads in (2, 4, 1))
    assert alone.num_rows
    assert alone == one
    assert Counter(map(repr, alone.to_pylist())) == Counter(map(repr, four.to_pylist()))
