"""The pictures of the documentation, each made by the query that the text beside it shows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import watersmeet as wm
from watersmeet.runtime.script import read_script
from watersmeet.session import Query

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
NOON = dt.datetime(2026, 1, 1, 12)


def _table(*rows: tuple[int, int]) -> pa.Table:
    times = [NOON + dt.timedelta(seconds=second) for _, second in rows]
    return pa.table({"k": [key for key, _ in rows], "ts": times})


def _session() -> wm.Session:
    made = wm.Session()
    made.stream("a", _table((1, 0), (2, 3), (1, 9), (3, 14), (2, 21)), time="ts")
    made.stream("b", _table((1, 4), (2, 8), (1, 13), (3, 15), (9, 17), (2, 27)), time="ts")
    return made


def _timeline(sql: str) -> Callable[[], str]:
    return lambda: _session().sql(sql).timeline().svg


def _checkout() -> Query:
    # The paths in it start at the folder of the project, where the tests run.
    (job,) = read_script((ROOT / "examples" / "checkout.sql").read_text())
    return Query(job.plan)


PICTURES: dict[str, Callable[[], str]] = {
    "checkout_timeline": lambda: _checkout().timeline().svg,
    "checkout_plan": lambda: _checkout().explain(format="svg"),
    "window_range": _timeline("SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"),
    "window_rows": _timeline("SELECT a.k FROM a [ROWS 2], b [ROWS 1] WHERE a.k = b.k"),
    "window_slide": _timeline("SELECT k, COUNT(*) AS n FROM b [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"),
    "window_tumble": _timeline(
        "SELECT k, COUNT(*) AS n FROM TUMBLE(b, 10 SECONDS) GROUP BY window_start, window_end, k"
    ),
    "changing_answer": _timeline("SELECT k, COUNT(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY k"),
}
