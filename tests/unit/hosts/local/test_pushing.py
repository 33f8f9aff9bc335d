"""Runs that an application feeds: what may be pushed, who waits, who is told, and how they end."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.model.time import BEGINNING_US

START = datetime(2026, 1, 1)
SCHEMA = {"k": "BIGINT", "ts": "TIMESTAMP"}
PATIENCE_S = 30.0
JOIN = "SELECT a.k, a.ts, b.ts AS other FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"
COUNT = "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k"


def session(**how: Any) -> wm.Session:
    made = wm.Session()
    for name in "ab":
        made.stream(name, schema=SCHEMA, time="ts", **how)
    return made


def row(key: int, second: float) -> dict[str, Any]:
    return {"k": key, "ts": START + timedelta(seconds=second)}


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


# ---- what may be pushed ---------------------------------------------------------------------------------------------

ROWS = [row(1, 0), row(2, 1), row(2, 1.5)]
COLUMNS = {"k": [1, 2, 2], "ts": [one["ts"] for one in ROWS]}
FORMS: dict[str, Any] = {
    "list of dicts": ROWS,
    "tuple of dicts": tuple(ROWS),
    "dict of columns": COLUMNS,
    "dict of arrays": {"k": np.array([1, 2, 2]), "ts": np.array(COLUMNS["ts"], "datetime64[ns]")},
    "dict of Arrow columns": {"k": pa.array([1, 2, 2], pa.int8()), "ts": pa.chunked_array([COLUMNS["ts"]])},
    "table": pa.table(COLUMNS),
    "table of other types": pa.table(
        {"ts": pa.array(COLUMNS["ts"], pa.timestamp("ns")), "k": pa.array([1, 2, 2], "i2")}
    ),
    "table with more columns": pa.table({**COLUMNS, "more": ["x", "y", "z"]}),
    "batch": pa.record_batch(COLUMNS),
    "batches": pa.table(COLUMNS).to_batches(max_chunksize=1),
    "pandas": pd.DataFrame(COLUMNS),
    "polars": pl.DataFrame(COLUMNS),
    "text times": [{"k": one["k"], "ts": one["ts"].isoformat()} for one in ROWS],
    "text times with a zone": [{"k": one["k"], "ts": one["ts"].isoformat() + "Z"} for one in ROWS],
    "times with a zone": [{"k": one["k"], "ts": one["ts"].replace(tzinfo=UTC)} for one in ROWS],
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_may_be_pushed_in_any_form(form: str) -> None:
    with session().sql("SELECT k, ts FROM a").start() as run:
        run.push("A", FORMS[form])
        assert run.take().to_pylist() == ROWS


def test_texts_of_times_may_differ_in_zone_and_reach_years_without_nanoseconds() -> None:
    texts = [
        "2026-01-01 12:00:00",
        "2026-01-01T12:00:00Z",
        "2026-01-01T14:00:00+02:00",
        None,
        "9999-12-31",
        "1500-01-01",
    ]
    made = wm.Session()
    made.stream("a", schema={"until": "TIMESTAMP", "ts": "TIMESTAMP"}, time="ts")
    with made.sql("SELECT until FROM a").start() as run:
        run.push("a", {"until": texts, "ts": [START] * len(texts)})
        noon = datetime(2026, 1, 1, 12)
        expected = [noon, noon, noon, None, datetime(9999, 12, 31), datetime(1500, 1, 1)]
        assert run.take()["until"].to_pylist() == expected


def test_a_dict_of_values_is_one_row_and_no_rows_are_no_push() -> None:
    with session().sql("SELECT k, ts FROM a").start() as run:
        run.push("a", row(7, 3))
        for nothing in ([], {"k": [], "ts": []}, pa.table(COLUMNS).slice(0, 0), pd.DataFrame(COLUMNS)[:0]):
            run.push("a", nothing)
        assert run.take().to_pylist() == [row(7, 3)]


def test_a_name_that_a_row_leaves_out_is_null() -> None:
    with session().sql("SELECT k FROM a WHERE k IS NULL").start() as run:
        run.push("a", [{"ts": START}, row(1, 1)])
        assert run.take().to_pylist() == [{"k": None}]


WRONG: dict[str, tuple[Any, str]] = {
    "a misspelt name": ([{"kk": 1, "ts": START}], "no column 'kk'.*\n.*did you mean 'k'"),
    "a missing column": ({"k": [1]}, "has a column 'ts', but what was pushed has none"),
    "a missing column of a table": (pa.table({"k": [1]}), "'ts', but what was pushed has none"),
    "another type": ([{"k": "one", "ts": START}], "'k' of 'a' is declared BIGINT, but what was pushed has STRING"),
    "a number with a fraction": ({"k": [1.5], "ts": [START]}, "'k'.*declared BIGINT"),
    "a number for a time": ([{"k": 1, "ts": 1_700_000_000}], "'ts' of 'a' is declared TIMESTAMP, .* has BIGINT"),
    "too large a number": (
        [{"k": 2**64, "ts": START}],
        "'k' of stream 'a' is declared BIGINT, and 18446744073709551616 is larger than it can be\nhint: "
        r"declare it DECIMAL\(38, 0\)",
    ),
    "too large a number behind others": (
        [row(1, 0), {"k": 2**63, "ts": START}],
        "9223372036854775808 in row 2 is larger",
    ),
    "a truth": ([{"k": True, "ts": START}], "'k' of 'a' is declared BIGINT, but what was pushed has BOOLEAN"),
    "no time": ([{"k": 1, "ts": None}], "'ts' is NULL in row 1 of the stream"),
    "no such time": ([{"k": 1, "ts": "noon"}], "'noon' is not written as '2026-01-31 12:00:00'"),
    "no such time behind others": (
        [row(1, 0) | {"ts": text} for text in (None, "2026-01-01", "2026-01-01T00:00Z", "noon", "eve")],
        "'noon' is not written as '2026-01-31 12:00:00'",
    ),
    "too fine a time": ({"k": [1], "ts": ["2026-01-01T00:00:00.0000001"]}, "finer than a microsecond"),
    "columns of several lengths": ({"k": [1, 2], "ts": [START]}, "differ in length: k 2, ts 1"),
    "a column and a value": ({"k": 1, "ts": [START]}, "'ts' is a column and 'k' a value"),
    "a number": (5, "cannot be pushed a int\nhint: give a pyarrow Table"),
    "a list of numbers": ([5], "cannot be pushed a list of int"),
}


@pytest.mark.parametrize("what", WRONG)
def test_rows_that_do_not_fit_are_refused_as_a_whole_and_the_run_goes_on(what: str) -> None:
    given, words = WRONG[what]
    with session().sql("SELECT k FROM a").start() as run:
        with pytest.raises(wm.WatersmeetError, match=words):
            run.push("a", given)
        run.push("a", row(1, 0))
        assert run.take().to_pylist() == [{"k": 1}]
        assert run.metrics()["rows_in"] == 1


PRICES = [Decimal("1.50"), "1.50", "1.5", 1.5, 3, "3.00", " 2 ", "1e2", 0.1, "-0.05", None]


def priced() -> wm.Session:
    made = wm.Session()
    made.stream("p", schema={"price": "DECIMAL(6, 2)", "ts": "TIMESTAMP"}, time="ts")
    return made


def test_decimals_come_back_as_they_go_out_and_as_numbers() -> None:
    expected = [None if one is None else Decimal(str(one).strip()).quantize(Decimal("0.01")) for one in PRICES]
    with priced().sql("SELECT price FROM p").start() as run:
        run.push("p", [{"price": one, "ts": START} for one in PRICES])
        assert run.take()["price"].to_pylist() == expected
        run.push("p", {"price": PRICES, "ts": [START] * len(PRICES)})
        assert run.take()["price"].to_pylist() == expected
        run.push("p", {"price": np.array([1.25, 2.5]), "ts": [START] * 2})
        assert run.take()["price"].to_pylist() == [Decimal("1.25"), Decimal("2.50")]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1.005", r"DECIMAL\(6, 2\), and '1.005' has 3 digits behind the point\nhint: round it to 2 digits"),
        (1.005, r"and 1.005 has 3 digits behind the point"),
        (10_000, r"and 10000 is larger than it can be\nhint: declare more digits, up to DECIMAL\(38, 2\)"),
        ("much", r"and 'much' is no number\nhint: give a number, 12.50, or its text, '12.50'"),
        (True, r"and True is no number"),
        (float("nan"), r"and nan is no number"),
    ],
)
def test_what_a_decimal_cannot_hold_is_told_with_its_row_and_a_way_out(value: Any, words: str) -> None:
    with priced().sql("SELECT price FROM p").start() as run:
        with pytest.raises(wm.DataError, match=r"column 'price' of stream 'p' is declared .*" + words):
            run.push("p", {"price": value, "ts": START})
        with pytest.raises(wm.DataError, match=r" in row 3 (has|is) "):
            run.push("p", [{"price": one, "ts": START} for one in (None, 1, value)])
        assert run.metrics()["rows_in"] == 0


async def unawaited(*_: Any) -> None: ...


def test_rows_that_are_refused_are_not_counted_as_skipped() -> None:
    far = pa.array([0, None, 9_100_000_000_000_000_000], pa.int64()).cast(pa.timestamp("us"))
    with session(on_null="skip").sql("SELECT k FROM a").start() as run:
        with pytest.raises(wm.DataError, match="beyond the years"):
            run.push("a", pa.table({"k": [1, 2, 3], "ts": far}))
        run.push("a", row(4, 0))
        assert (run.metrics()["rows_in"], run.metrics()["skipped_rows"]) == (1, 0)


@pytest.mark.parametrize("name", ["on_answer", "on_late"])
@pytest.mark.parametrize("checkpoint", [None, "state"])
def test_what_cannot_be_called_is_refused(name: str, checkpoint: str | None, tmp_path: Path) -> None:
    where: dict[str, Any] = {} if checkpoint is None else {"checkpoint": tmp_path / checkpoint}
    for wrong, words in ((5, f"{name} must be a function, not 5"), (unawaited, "which nobody would await")):
        with pytest.raises(wm.OptionError, match=words):
            session().sql("SELECT k FROM a").start(**where, **{name: wrong})


def test_a_stream_that_the_query_does_not_read_is_named() -> None:
    with session().sql("SELECT k FROM a").start() as run, pytest.raises(wm.CatalogError, match="it reads a"):
        run.push("zzz", row(1, 0))


def test_a_stream_with_data_cannot_be_pushed_and_one_without_cannot_be_read() -> None:
    made = wm.Session()
    made.stream("a", pa.table(COLUMNS), time="ts")
    with pytest.raises(wm.SourceError, match="'a' has data of its own"):
        made.sql("SELECT k FROM a").start()
    with pytest.raises(wm.SourceError, match="no data\nhint: push rows"):
        session().sql("SELECT k FROM a").to_arrow()


def test_a_declaration_that_says_too_little_or_too_much_is_refused() -> None:
    made = wm.Session()
    with pytest.raises(wm.CatalogError, match="neither data nor a schema"):
        made.stream("a", time="ts")
    with pytest.raises(wm.CatalogError, match="'BIGGISH' is not a type that column 'k' can have"):
        made.stream("a", schema={"k": "BIGGISH"}, time="ts")
    with pytest.raises(wm.CatalogError, match="the schema of 'a' is \\['k'\\], not columns"):
        made.stream("a", schema=["k"], time="ts")  # type: ignore[arg-type]


WIDE = {
    "i": "SMALLINT",
    "f": "FLOAT",
    "x": "DOUBLE",
    "d": "DECIMAL(10, 2)",
    "day": "DATE",
    "b": "BINARY",
    "ts": "TIMESTAMP",
}


def test_pythons_own_values_fit_columns_of_any_size_if_they_are_in_it() -> None:
    made = wm.Session()
    made.stream("w", schema=WIDE, time="ts")
    values = {"i": 5, "f": 0.5, "x": 3, "d": Decimal("1.5"), "day": "2026-01-02", "b": b"\x00", "ts": START}
    with made.sql("SELECT i, f, x, d, day, b FROM w").start() as run:
        run.push("w", [values, {"ts": START, "d": 7}])
        found = run.take().to_pylist()
        for name, wrong in {"i": 40_000, "d": Decimal("0.001"), "x": 2**53 + 1, "day": START, "b": 5}.items():
            with pytest.raises(wm.WatersmeetError, match=f"'{name}'"):
                run.push("w", [{**values, name: wrong}])
    assert found[0] == {"i": 5, "f": 0.5, "x": 3.0, "d": Decimal("1.50"), "day": date(2026, 1, 2), "b": b"\x00"}
    assert found[1] == {**dict.fromkeys(found[0]), "d": Decimal("7.00")}


# ---- time -----------------------------------------------------------------------------------------------------------


def test_an_answer_that_changes_waits_for_time_and_advance_is_time() -> None:
    with session().sql("SELECT k FROM a [NOW] UNION ALL SELECT k FROM b [NOW]").start() as run:
        run.push("a", row(1, 0))
        assert run.take().num_rows == 0  # b may still send something older
        run.advance("b", START + timedelta(seconds=2))
        assert run.take().num_rows == 0  # and a at this very instant
        run.advance("A", "2026-01-01 00:00:01")
        assert run.take()["_op"].to_pylist() == ["+", "-"]


def test_rows_before_a_promised_time_are_late_whatever_the_lateness_and_told() -> None:
    late: list[tuple[str, list[Any]]] = []
    query = session(lateness="1 hour").sql("SELECT k FROM a")
    with query.start(on_late=lambda name, rows: late.append((name, rows.to_pylist()))) as run:
        run.push("a", row(1, 0))
        run.advance("a", START + timedelta(seconds=10))
        with pytest.warns(wm.DataWarning, match="late_rows: .*it was said that none comes before 2026-01-01 00:00:10"):
            run.push("a", [row(2, 9), row(3, 10)])
        assert run.take()["k"].to_pylist() == [1, 3]
        assert run.metrics()["late_by_stream"] == {"a": 1}
    assert late == [("a", [row(2, 9)])]


@pytest.mark.parametrize("time", [5, "soon", None, timedelta(seconds=1)])
def test_only_a_time_can_be_advanced_to(time: Any) -> None:
    with session().sql("SELECT k FROM a").start() as run, pytest.raises(wm.DataError, match="no time to advance to"):
        run.advance("a", time)


def test_a_stream_that_ended_holds_nothing_back() -> None:
    with session().sql("SELECT k FROM a [NOW] UNION ALL SELECT k FROM b [NOW]").start() as run:
        run.end("b")
        run.push("a", [row(1, 0), row(2, 1)])
        assert run.take()["k"].to_pylist() == [1, 1]
        with pytest.raises(wm.RunError, match="'b' has ended"):
            run.push("b", row(1, 2))


def test_late_rows_end_a_run_whose_stream_says_so() -> None:
    run = session(on_late="error").sql("SELECT k FROM a").start()
    run.push("a", row(1, 10))
    with pytest.raises(wm.DataError, match="came too late"):
        run.push("a", row(1, 5))
    for later in (lambda: run.push("a", row(1, 20)), run.finish, run.answer):
        with pytest.raises(wm.DataError, match="came too late"):
            later()
    assert run.take().num_rows == 1  # what was certain before
    with pytest.raises(wm.DataError, match="came too late"):
        run.take()


def test_streams_fall_silent_by_the_clock_though_nobody_calls() -> None:
    query = session(idle="50 milliseconds").sql("SELECT COUNT(*) AS n FROM a [RANGE 100 MILLISECONDS]")
    with query.start() as run:
        run.push("a", row(1, 0))
        changes = run.take(timeout=PATIENCE_S)["_op"].to_pylist()
        while len(changes) < 3:
            changes += run.take(timeout=PATIENCE_S)["_op"].to_pylist()
    assert changes == ["+", "-", "+"]
    assert eventually(lambda: not [one for one in threading.enumerate() if "silence" in one.name])


def test_a_run_that_was_forgotten_leaves_nothing_behind() -> None:
    run = session(idle="1 minute").sql(COUNT).start()
    run.push("a", row(1, 0))
    gone = weakref.ref(run)
    del run
    assert eventually(lambda: gc.collect() is not None and gone() is None)
    assert eventually(lambda: not [one for one in threading.enumerate() if "silence" in one.name])


# ---- answers --------------------------------------------------------------------------------------------------------


def test_the_present_answer_begins_with_the_first_instant_as_the_log_does() -> None:
    """Whoever reads it and listens from then on has every row once."""
    with session().sql("SELECT COUNT(*) AS n FROM a [RANGE 5 SECONDS]").start() as run:
        assert run.answer().to_pylist() == []
        run.push("a", row(1, 0))
        assert run.answer().to_pylist() == [], "another row of that instant may come"
        run.push("a", row(1, 9))
        assert run.answer().to_pylist() == [{"n": 0}]
        assert run.take()["n"].to_pylist() == [1, 1, 0]


def test_the_present_answer_follows_the_watermark_and_ends_with_the_last_event() -> None:
    query = session().sql(COUNT)
    with query.start() as run:
        run.push("a", [row(1, 0), row(2, 4)])
        assert run.answer().to_pylist() == [{"k": 1, "n": 1}]
        run.advance("a", START + timedelta(seconds=5, microseconds=2))
        assert run.answer().to_pylist() == [{"k": 2, "n": 1}]
        run.push("a", [row(3, 8)])
    assert run.answer().to_pylist() == [{"k": 2, "n": 1}, {"k": 3, "n": 1}]


def test_the_present_answer_stays_small_and_right_over_many_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.runtime.present.FEWEST_ROWS", 10)
    with session().sql(COUNT).start() as run:
        for second in range(200):
            run.push("a", row(second % 7, second / 10))
            run.take()
            assert run._execution._present is not None
            assert run._execution._present._changed_rows <= 20
        assert sum(one["n"] for one in run.answer().to_pylist()) == 51 - 1  # the newest instant is not certain yet


def test_a_plain_join_has_no_present_answer() -> None:
    with session().sql(JOIN).start() as run, pytest.raises(wm.UnsupportedError, match="rows that stay"):
        run.answer()


def test_answers_go_to_a_function_in_order_and_it_may_push() -> None:
    seen: list[int] = []

    def count_down(batch: pa.RecordBatch) -> None:
        for k in batch.column("k").to_pylist():
            seen.append(k)
            if k > 0:
                run.push("a", row(k - 1, 10 - k))

    with session().sql("SELECT k FROM a").start(on_answer=count_down) as run:
        run.push("a", row(3, 0))
        with pytest.raises(wm.RunError, match="go to on_answer"):
            run.take()
    assert seen == [3, 2, 1, 0]


def test_what_a_function_raises_ends_the_run_where_somebody_pushes() -> None:
    def broken(_: pa.RecordBatch) -> None:
        raise ValueError("the screen is gone")

    run = session().sql("SELECT k FROM a").start(on_answer=broken)
    with pytest.raises(ValueError, match="the screen is gone"):
        run.push("a", row(1, 0))
    with pytest.raises(ValueError, match="the screen is gone"):
        run.push("a", row(1, 1))


def test_an_overflow_is_raised_where_somebody_waits() -> None:
    run = session().sql("SELECT k * 9223372036854775807 AS much FROM a").start()
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            list(run)
        except wm.DataError as error:
            waiting.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    with pytest.raises(wm.DataError, match="overflow"):
        run.push("a", row(4, 0))
    thread.join(PATIENCE_S)
    assert len(waiting) == 1
    assert not run.is_open


# ---- who waits ------------------------------------------------------------------------------------------------------


def test_a_push_waits_while_too_many_answers_wait_and_then_says_so() -> None:
    run = session().sql("SELECT k FROM a").start(max_waiting=3, timeout=0.05)
    run.push("a", ROWS)
    with pytest.raises(wm.RunError, match=r"3 rows of the answer wait .* 0.05 s; of the rows pushed to 'a' none"):
        run.push("a", row(4, 4))
    threading.Timer(0.1, run.take).start()
    run.push("a", row(4, 4), timeout=PATIENCE_S)
    assert run.take()["k"].to_pylist() == [4]
    run.stop()


def test_stopping_a_run_wakes_whoever_waits() -> None:
    run = session().sql("SELECT k FROM a").start(max_waiting=1, timeout=None)
    run.push("a", row(1, 0))
    threading.Timer(0.05, run.stop).start()
    with pytest.raises(wm.RunError, match="the run is stopped"):
        run.push("a", row(2, 1))
    assert [batch.num_rows for batch in run] == [1]


def test_a_flush_before_any_row_moves_no_watermark() -> None:
    with session().sql(COUNT).start() as run:
        run.flush()
        assert run.metrics()["watermark_us"] == BEGINNING_US


def test_a_run_is_flushed_and_goes_on_and_what_is_not_newer_is_late() -> None:
    with session().sql(COUNT).start() as run:
        run.push("a", row(1, 0))
        assert run.take().num_rows == 0, "another row of that instant may come"
        run.flush()
        assert run.take()["n"].to_pylist() == [1, 1]
        behind = "up to 5 s 1 ms behind what a flush has answered; flush only when no rows of before are to come"
        with pytest.warns(wm.DataWarning, match=f"late_rows: 1 row .*: {behind}"):
            run.push("a", [row(2, 0), row(3, 9)])
        assert run.taken("A") == 3
        assert run.metrics()["late_rows"] == 1
    assert run.take()["k"].to_pylist() == [3, 3]


def test_whoever_waits_for_the_end_of_a_run_hears_how_it_ended() -> None:
    run = session().sql("SELECT k FROM a").start()
    assert not run.wait(0.01)
    threading.Timer(0.05, run.stop).start()
    assert run.wait(PATIENCE_S)

    def fail(batch: pa.RecordBatch) -> None:
        with pytest.raises(wm.RunError, match="would wait for ever"):
            failed.wait()
        raise KeyError("told")

    failed = session().sql("SELECT k FROM a").start(on_answer=fail)
    with pytest.raises(KeyError):
        failed.push("a", row(1, 0))
    with pytest.raises(KeyError, match="told"):
        failed.wait()


def test_a_run_without_a_checkpoint_says_what_it_would_take() -> None:
    with session().sql("SELECT k FROM a").start() as run:
        for asked in (lambda: run.push_soon("a", row(1, 0)), lambda: run.checkpoint, lambda: run.batches):
            with pytest.raises(wm.RunError, match="this run keeps nothing") as caught:
                asked()
            assert "start(checkpoint='state')" in str(caught.value.hint)


def test_iteration_waits_for_answers_and_ends_with_the_run() -> None:
    run = session().sql("SELECT k FROM a").start()

    def push() -> None:
        with run:
            for second in range(5):
                run.push("a", row(second, second))
                time.sleep(0.01)

    thread = threading.Thread(target=push)
    thread.start()
    assert [k for batch in run for k in batch.column("k").to_pylist()] == [0, 1, 2, 3, 4]
    thread.join()


def test_a_block_that_ends_well_answers_what_waits_and_one_that_fails_does_not() -> None:
    query = session().sql(COUNT)
    with query.start() as run:
        run.push("a", row(1, 0))
    assert run.take().num_rows == 2
    assert query.metrics()["rows_in"] == 1
    with pytest.raises(KeyError), query.start() as run:  # noqa: PT012
        run.push("a", row(1, 0))
        raise KeyError
    assert run.take().num_rows == 0
    with pytest.raises(wm.RunError, match="the run is stopped"):
        run.push("a", row(1, 0))


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_ended_a_run_in_another_thread_is_raised_where_its_block_ends(is_kept: bool, tmp_path: Path) -> None:
    query = session(on_late="error").sql("SELECT k FROM a")

    def start() -> wm.Run:
        return query.start(checkpoint=tmp_path / "state") if is_kept else query.start()

    def push() -> None:
        with suppress(wm.DataError):
            run.push("a", [row(1, 9), row(2, 0)])

    def push_elsewhere() -> None:
        pushing = threading.Thread(target=push)
        pushing.start()
        pushing.join()

    with pytest.raises(wm.DataError, match="came too late"), start() as run:
        push_elsewhere()
    if not is_kept:
        with start() as run:  # who was told need not be told again
            push()


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_run_that_has_ended_may_be_finished_and_stopped_again(is_kept: bool, tmp_path: Path) -> None:
    query = session().sql(COUNT)
    run = query.start(checkpoint=tmp_path / "state") if is_kept else query.start()
    run.push("a", row(1, 0))
    run.finish()
    run.finish()
    run.stop()
    assert run.take()["_op"].to_pylist() == ["+", "-"]


def test_two_runs_of_a_query_know_nothing_of_each_other() -> None:
    query = session().sql(JOIN)
    with query.start() as one, query.start() as other:
        one.push("a", row(1, 0))
        other.push("b", row(1, 0))
        assert one.take().num_rows == other.take().num_rows == 0


@pytest.mark.parametrize(("option", "value"), [("max_waiting", 0), ("max_waiting", "1"), ("timeout", -1)])
def test_options_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    with pytest.raises(wm.OptionError, match=option):
        session().sql("SELECT k FROM a").start(**{option: value})


# ---- coroutines -----------------------------------------------------------------------------------------------------


def test_coroutines_push_and_take() -> None:
    async def main() -> list[Any]:
        async with session().sql(JOIN).start_async(max_waiting=1) as run:

            async def push(name: str) -> None:
                for second in range(10):
                    await run.push(name, row(second % 3, second))

            async def take() -> list[Any]:
                return [one async for batch in run for one in batch.to_pylist()]

            taking = asyncio.create_task(take())
            await asyncio.gather(push("a"), push("b"))
            await run.finish()
            return await taking

    made = wm.Session()
    for name in "ab":
        made.stream(name, pa.Table.from_pylist([row(second % 3, second) for second in range(10)]), time="ts")
    expected = made.sql(JOIN).to_arrow().to_pylist()
    assert sorted(map(str, asyncio.run(main()))) == sorted(map(str, expected))


def test_coroutines_flush_wait_and_ask_what_was_taken() -> None:
    async def main() -> None:
        async with session().sql(COUNT).start_async() as run:
            await run.push("a", row(1, 0))
            assert (await run.take(timeout=0.01)).num_rows == 0
            taking = asyncio.create_task(run.take(timeout=PATIENCE_S))
            await run.flush()
            assert (await taking)["n"].to_pylist() == [1, 1]
            assert await run.taken("a") == 1
            assert not await run.wait(0.01)
            waiting = asyncio.create_task(run.wait())
            await run.finish()
            assert await waiting

    asyncio.run(main())


def test_what_ends_a_run_by_the_clock_is_raised_where_its_async_block_ends() -> None:
    def fails() -> Iterator[pa.RecordBatch]:
        yield from ()
        raise ValueError("the clock is gone")

    async def main() -> None:
        query = session(idle="20 ms").sql("SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WINDOW (a, b) = 1 SECOND")
        async with query.start_async() as run:
            run._running.driver.execution.tick = fails  # type: ignore[method-assign]
            await run.push("a", row(1, 0))
            assert await asyncio.to_thread(eventually, lambda: not run.is_open)

    with pytest.raises(ValueError, match="the clock is gone"):
        asyncio.run(main())


def test_coroutines_are_handed_answers_and_their_errors_come_back() -> None:
    seen: list[int] = []

    async def note(batch: pa.RecordBatch) -> None:
        await asyncio.sleep(0)
        seen.extend(batch.column("k").to_pylist())

    async def main(on_answer: Callable[[pa.RecordBatch], Any]) -> dict[str, Any]:
        async with session().sql("SELECT k FROM a").start_async(on_answer=on_answer) as run:
            for second in range(3):
                await run.push("a", row(second, second))
        return run.metrics()

    assert asyncio.run(main(note))["rows_in"] == 3
    assert seen == [0, 1, 2]

    async def broken(_: pa.RecordBatch) -> None:
        raise ValueError("the socket is gone")

    with pytest.raises(ValueError, match="the socket is gone"):
        asyncio.run(main(broken))


def test_an_error_in_an_async_block_does_not_wait_for_a_push_that_waits() -> None:
    async def main() -> None:
        with pytest.raises(KeyError, match="enough"):  # noqa: PT012
            async with session().sql("SELECT k FROM a").start_async(max_waiting=1, timeout=None) as run:
                await run.push("a", row(1, 0))
                waiting = asyncio.create_task(run.push("a", row(2, 1)))
                await asyncio.sleep(0.05)
                assert not waiting.done()
                raise KeyError("enough")
        with pytest.raises(wm.RunError, match="the run is stopped"):
            await waiting

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


@pytest.mark.parametrize("rows", [
    {"k": [1, 2, 3], "ts": [1_767_268_800, 1_767_268_801, None]},
    [{"k": 1, "ts": 1_767_268_800}, {"k": 2, "ts": 1_767_268_801}, {"k": 3}],
    pa.table({"k": [1, 2, 3], "ts": pa.array([1_767_268_800, 1_767_268_801, None])}),
    pa.table({"k": [1, 2, 3], "ts": pa.array([1_767_268_800, 1_767_268_801, None], pa.timestamp("s"))}),
])  # fmt: skip
def test_event_times_are_pushed_as_the_stream_says_they_are_written(rows: Any) -> None:
    session = wm.Session()
    schema = {"k": "BIGINT", "ts": "BIGINT"}
    session.stream("s", schema=schema, time="ts", time_unit="s", on_null="skip")
    run = session.sql("SELECT k, ts FROM s").start()
    with pytest.warns(wm.DataWarning, match="skipped_rows"):
        run.push("s", rows)
    run.finish()
    assert run.metrics()["skipped_rows"] == 1
    assert run.take().to_pylist() == [{"k": n + 1, "ts": datetime(2026, 1, 1, 12, 0, n)} for n in range(2)]


# ---- values inside of values ----------------------------------------------------------------------------------------

NESTED = {
    "an empty list": ("BIGINT[]", [], []),
    "a list of nothing but NULLs": ("STRING[]", [None], [None]),
    "integers in fewer bits": ("INT[]", [1, None], [1, None]),
    "integers as doubles": ("DOUBLE[]", [1, 2], [1.0, 2.0]),
    "integers as decimals": ("DECIMAL(10, 2)[]", [1], [Decimal("1.00")]),
    "times as text": ("TIMESTAMP[]", ["2026-01-01T00:00:05"], [START + timedelta(seconds=5)]),
    "lists in lists": ("INT[][]", [[1], [], None], [[1], [], None]),
    "a field that is NULL": ("STRUCT(a INT, b STRING)", {"a": 1, "b": None}, {"a": 1, "b": None}),
    "a field that is left out": ("STRUCT(a INT, b STRING)", {"a": 1}, {"a": 1, "b": None}),
    "fields in another order": ("STRUCT(a INT, b STRING)", {"b": "x", "a": 1}, {"a": 1, "b": "x"}),
    "no struct": ("STRUCT(a INT)", None, None),
    "a list of structs": ("STRUCT(a INT)[]", [{"a": 1}, None], [{"a": 1}, None]),
    "a map as a dict": ("MAP(STRING, INT)", {"x": 1}, [("x", 1)]),
    "an empty map": ("MAP(STRING, INT)", {}, []),
}


@pytest.mark.parametrize(("kind", "value", "expected"), NESTED.values(), ids=NESTED)
def test_values_inside_of_values_are_fitted_as_others_are(kind: str, value: Any, expected: Any) -> None:
    session = wm.Session()
    session.stream("n", schema={"v": kind, "ts": "TIMESTAMP"}, time="ts")
    for form in ([{"v": value, "ts": START}], {"v": [value], "ts": [START]}):
        with session.sql("SELECT v FROM n").start() as run:
            run.push("n", form)
            run.finish()
            assert run.take()["v"].to_pylist() == [expected]


MISFITS = {
    "a fraction": ("BIGINT[]", [1.5], r"column 'v\[\]' of 'n' is declared BIGINT, but what was pushed has DOUBLE"),
    "a number that is too large": ("TINYINT[]", [1000], r"column 'v\[\]' of stream 'n' is declared TINYINT"),
    "a field of another name": ("STRUCT(abc INT)", {"abd": 1}, "has no field 'abd', which was pushed"),
    "text for a number, deeper": ("STRUCT(a INT[])", {"a": ["x"]}, r"column 'v.a\[\]' of 'n' is declared INT"),
    "no time": ("TIMESTAMP[]", ["noon"], "text such as 'noon' is not written as"),
    "a value for a list": ("BIGINT[]", 1, r"is declared BIGINT\[\], but what was pushed has BIGINT"),
}


@pytest.mark.parametrize(("kind", "value", "words"), MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit_inside_of_a_value_is_told_with_its_place(kind: str, value: Any, words: str) -> None:
    session = wm.Session()
    session.stream("n", schema={"v": kind, "ts": "TIMESTAMP"}, time="ts")
    with session.sql("SELECT v FROM n").start() as run:
        with pytest.raises((wm.DataError, wm.SourceError), match=words):
            run.push("n", [{"v": value, "ts": START}])
        run.push("n", [{"v": None, "ts": START}])


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (1_712_345_678, "say time_unit = 's': its first value, 1712345678, is then 2024-04-05 19:34:38 (UTC)"),
        (1_712_345_678_123, "say time_unit = 'ms': its first value, 1712345678123, is then 2024-04-05 19:34:38 (UTC)"),
        (17, "time_unit = 's', 'ms', 'us' or 'ns'"),
    ],
)
def test_numbers_pushed_as_event_times_are_told_to_need_a_unit(value: int, hint: str) -> None:
    session = wm.Session()
    session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    with session.sql("SELECT k FROM a").start() as run, pytest.raises(wm.SourceError) as refused:
        run.push("a", [{"k": 1, "ts": value}])
    assert hint in str(refused.value.hint)


@pytest.mark.parametrize(
    ("text", "hint"), [("01.03.2026 08:05", "say time_format = '%d.%m.%Y %H:%M'"), ("2026-02-31 08:05:00", None)]
)
def test_text_pushed_in_another_format_leads_to_it_and_a_wrong_time_to_nothing(text: str, hint: str | None) -> None:
    session = wm.Session()
    session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    with session.sql("SELECT k FROM a").start() as run, pytest.raises(wm.DataError) as refused:
        run.push("a", [{"k": 1, "ts": text}])
    assert refused.value.hint is None if hint is None else str(refused.value.hint).startswith(hint)


@pytest.mark.parametrize("as_table", [False, True])
def test_the_first_that_are_pushed_tell_whether_their_unit_can_be_right(as_table: bool) -> None:
    session = wm.Session()
    session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", time_unit="ms")
    rows = [{"k": 1, "ts": 1_712_345_678}]
    with session.sql("SELECT k, ts FROM a").start() as run:
        with pytest.warns(wm.DataWarning, match=r"time_unit: .* did you mean time_unit='s'\? That is 2024-04-05"):
            run.push("a", pa.Table.from_pylist(rows) if as_table else rows)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run.push("a", rows)


def test_with_that_unit_they_are_taken() -> None:
    session = wm.Session()
    session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts", time_unit="ms")
    with session.sql("SELECT k, ts FROM a").start() as run:
        run.push("a", [{"k": 1, "ts": 1_712_345_678_000}])
        assert run.take()["ts"].to_pylist() == [datetime(2024, 4, 5, 19, 34, 38)]
