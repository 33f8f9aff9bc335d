"""time = 'arrival': the event time is the moment at which rows arrive, by the clock on the wall, and it is recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.unit.hand_clock import HandClock
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.model.arriving import Arrivals
from watersmeet.testing import Trial, queries_of

NINE = "2026-01-01 09:00:00"
COLUMNS = {"bidder": "BIGINT", "price": "BIGINT"}
COUNT = """SELECT bidder, COUNT(*) AS n, window_start, window_end FROM TUMBLE(bid, 10 SECONDS)
           GROUP BY bidder, window_start, window_end"""


def pushed(sql: str, **how: Any) -> wm.Query:
    session = wm.Session()
    session.stream("bid", schema=COLUMNS, time="arrival", **how)
    return session.sql(sql)


def bids(*bidders: int) -> list[dict[str, int]]:
    return [{"bidder": bidder, "price": 100} for bidder in bidders]


# ---- pushed rows ----------------------------------------------------------------------------------------------------


def test_windows_of_processing_time_go_by_the_clock_on_the_wall() -> None:
    with Trial(pushed(COUNT), today=NINE) as trial:
        trial.push("bid", bids(1, 1, 2))
        trial.wait("4 seconds")
        trial.push("bid", bids(1))
        trial.expect_nothing()
        trial.wait("6 seconds")  # nothing comes, and the window is over all the same
        trial.expect([
            {"bidder": 1, "n": 3, "window_start": "9:00:00", "window_end": "9:00:10"},
            {"bidder": 2, "n": 1, "window_start": "9:00:00", "window_end": "9:00:10"},
        ])  # fmt: skip
        trial.push("bid", bids(1))
        trial.wait("1 minute")
        trial.expect([{"bidder": 1, "n": 1, "window_start": "9:00:10"}])


def test_the_moment_is_a_column_of_the_stream() -> None:
    with Trial(pushed("SELECT bidder, arrival, event_time() AS at FROM bid"), today=NINE) as trial:
        trial.push("bid", bids(7))
        trial.wait("1.5 seconds")
        trial.push("bid", bids(8))
        trial.expect([
            {"bidder": 7, "arrival": "9:00:00", "at": "9:00:00"},
            {"bidder": 8, "arrival": "9:00:01.5", "at": "9:00:01.5"},
        ])  # fmt: skip
    with Trial(pushed("SELECT * FROM bid", arrival_column="came"), today=NINE) as trial:
        trial.push("bid", bids(7))
        trial.expect([{"bidder": 7, "price": 100, "came": "9:00:00"}])


def test_rows_leave_a_window_while_nothing_comes() -> None:
    with Trial(pushed("SELECT COUNT(*) AS n FROM bid [RANGE 5 SECONDS]"), today=NINE) as trial:
        trial.push("bid", bids(1, 2))
        trial.wait("2 seconds")
        trial.expect_answer([{"n": 2}])
        trial.push("bid", bids(3))
        trial.wait("4 seconds")
        trial.expect_answer([{"n": 1}])
        trial.wait("2 seconds")
        trial.expect_answer([{"n": 0}])
        trial.answers()


def test_a_stream_by_arrival_is_not_waited_for_by_others() -> None:
    session = wm.Session()
    session.stream("bid", schema=COLUMNS, time="arrival")
    session.stream("click", schema={"bidder": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    query = session.sql("SELECT bidder, COUNT(*) AS n FROM click [RANGE 5 SECONDS] GROUP BY bidder "
                        "UNION ALL SELECT bidder, 0 AS n FROM bid [RANGE 5 SECONDS]")  # fmt: skip
    with Trial(query, today=NINE) as trial:
        trial.push("click", {"bidder": [1, 2], "ts": ["8:00:00", "8:00:10"]})
        trial.wait("1 second")
        trial.expect_answer([])  # no bid ever came, and yet the click of 8:00:00 has come and gone
        assert [row["_op"] for row in trial.answers()] == ["+", "-"]


def test_the_clock_may_be_set_back_and_no_row_is_late() -> None:
    with Trial(pushed("SELECT bidder, arrival FROM bid"), today=NINE) as trial:
        trial.push("bid", bids(1))
        trial._clock.move(-60_000_000)
        trial.push("bid", bids(2))
        trial.expect([{"bidder": 1, "arrival": "9:00:00"}, {"bidder": 2, "arrival": "9:00:00"}])


def test_rows_that_wait_for_room_arrive_when_they_are_let_in() -> None:
    """Meanwhile the run looks at the clock, and no row may lie before what it has said of time."""
    query = pushed("SELECT bidder, arrival FROM bid WHERE bidder >= 0")
    with query.start(max_waiting=1, timeout=60) as run:
        run._execution.operator.__class__.piece_rows = property(lambda self: 1)  # type: ignore[method-assign]
        try:
            thread = threading.Thread(target=run.push, args=("bid", bids(*range(5))))
            thread.start()
            taken: list[dict[str, Any]] = []
            until = time.monotonic() + 60
            while len(taken) < 5 and time.monotonic() < until:
                time.sleep(0.01)
                run.driver.tick()  # type: ignore[attr-defined]
                taken += run.take().to_pylist()
            thread.join()
        finally:
            del run._execution.operator.__class__.piece_rows
        assert [row["bidder"] for row in taken] == [0, 1, 2, 3, 4]
        moments = [row["arrival"] for row in taken]
        assert moments == sorted(moments)
        assert run.metrics()["late_rows"] == 0


def test_a_run_gives_windows_by_itself_when_they_are_over() -> None:
    query = pushed(
        "SELECT COUNT(*) AS n FROM TUMBLE(bid, 200 MILLISECONDS) GROUP BY window_start, window_end",
    )
    with query.start() as run:
        run.push("bid", bids(1, 2, 3))
        assert sum(row["n"] for row in run.take(timeout=30).to_pylist()) == 3


def test_nobody_says_how_far_the_clock_on_the_wall_is() -> None:
    with Trial(pushed(COUNT), today=NINE) as trial:
        with pytest.raises(wm.WatersmeetError, match=r"goes by the clock on the wall .*\n.*trial\.wait"):
            trial.advance("bid", "9:01")
        trial.push("bid", bids(1))  # the run goes on
        trial.wait("10 seconds")
        trial.expect([{"bidder": 1, "n": 1}])


@pytest.mark.parametrize(
    "rows",
    [
        {"bidder": 1, "price": 2, "arrival": "2026-01-01"},
        [{"bidder": 1, "price": 2, "arrival": "2026-01-01"}],
        pa.table({"bidder": [1], "price": [2], "arrival": [datetime(2026, 1, 1)]}),
    ],
    ids=["dict", "list", "table"],
)
def test_moments_are_not_pushed(rows: Any) -> None:
    with Trial(pushed(COUNT)) as trial, pytest.raises(wm.WatersmeetError, match="'arrival' of stream 'bid' is the mom"):
        trial.push("bid", rows)


# ---- rows at hand ---------------------------------------------------------------------------------------------------


def a_table(rows: int) -> pa.Table:
    return pa.table({"bidder": [i % 3 for i in range(rows)], "price": list(range(rows))})


def moments_of(run: PulledExecution) -> list[datetime]:
    return pa.Table.from_batches(run.batches(), schema=run.plan.output_schema)["arrival"].to_pylist()


def test_rows_that_are_read_again_have_the_moments_they_had() -> None:
    session = wm.Session()
    session.stream("bid", a_table(1000), time="arrival")
    query = session.sql("SELECT arrival, bidder FROM bid")
    wall = HandClock(datetime(2026, 1, 1, 9))
    run = PulledExecution(query.plan, batch_rows=100)
    run.wall = wall
    run.on_step = lambda: wall.move(1)
    first = moments_of(run)
    assert first == [datetime(2026, 1, 1, 9) + timedelta(seconds=i // 100) for i in range(1000)]
    for batch_rows in (7, 100, 1 << 16):
        again = PulledExecution(query.plan, batch_rows=batch_rows)
        assert moments_of(again) == first
    # Another query over the stream has the same moments, so two queries of a script agree.
    counted = session.sql(COUNT).to_arrow()
    assert sum(counted["n"].to_pylist()) == 1000
    assert set(counted["window_start"].to_pylist()) == {datetime(2026, 1, 1, 9)}


def test_files_are_read_as_they_stand_and_the_answer_can_be_checked(tmp_path: Path) -> None:
    pa_parquet.write_table(a_table(5000), tmp_path / "bid.parquet", row_group_size=1000)
    script = f"CREATE STREAM bid WITH (path='{tmp_path}/bid.parquet', time='arrival');"
    session = wm.Session()
    query = session.sql(
        f"{script} SELECT bidder, COUNT(*) AS n, MAX(arrival) AS last FROM bid [RANGE 1 HOUR] GROUP BY bidder"
    )
    assert wm.check(query).equal
    assert query.final().sort_by("bidder")["n"].to_pylist() == [1667, 1667, 1666]
    plain = session.sql("SELECT price FROM bid")
    assert plain.to_arrow()["price"].to_pylist() == list(range(5000))
    assert "arrival is the moment at which rows arrive" in query.explain()


def test_inputs_that_flow_have_the_moments_at_which_they_are_taken() -> None:
    wall = HandClock(datetime(2026, 1, 1, 9))

    def flowing() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield from a_table(2).to_batches()
            wall.move(4)

    session = wm.Session()
    session.stream("bid", pa.RecordBatchReader.from_batches(a_table(1).schema, flowing()), time="arrival")
    run = PulledExecution(session.sql("SELECT arrival FROM bid").plan)
    run.wall = wall
    found = moments_of(run)
    assert found == sorted(found)
    assert len(found) == 6


def test_moments_are_kept_by_their_rows() -> None:
    arrivals = Arrivals()
    assert arrivals.of(0, 3, 10).tolist() == [10, 10, 10]
    assert arrivals.of(3, 2, 5).tolist() == [10, 10]  # the clock was set back
    assert arrivals.of(4, 3, 30).tolist() == [10, 30, 30]
    assert arrivals.of(0, 7, 99).tolist() == [10] * 5 + [30] * 2
    assert arrivals.of(2, 1, 99).tolist() == [10]


def test_two_runs_at_once_over_the_same_rows_have_the_same_moments() -> None:
    arrivals = Arrivals()
    found: list[list[int]] = []

    def read(size: int) -> None:
        found.append([us for at in range(0, 6000, size) for us in arrivals.of(at, size, time.time_ns()).tolist()])

    threads = [threading.Thread(target=read, args=[size]) for size in (1, 2, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(moments) for moments in found}) == 1
    assert found[0] == sorted(found[0])


# ---- what does not go together --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("lateness", "1 second"), ("on_late", "error"), ("idle", "1 second"), ("max_future", "1 hour"),
        ("on_null", "skip"), ("time_unit", "ms"), ("time_format", "iso"), ("time_zone", "UTC"), ("read", "time"),
    ],
)  # fmt: skip
def test_options_of_times_that_rows_bring_along_are_refused(option: str, value: str) -> None:
    with pytest.raises(wm.WatersmeetError) as caught:
        pushed(COUNT, **{option: value})
    assert "time = 'arrival' is the moment at which rows come, so" in str(caught.value)
    assert f"hint: leave {option} out" in str(caught.value)
    script = f"CREATE STREAM b (k BIGINT) WITH (path='b.parquet', time='arrival', {option}='{value}'); SELECT k FROM b"
    with pytest.raises(wm.WatersmeetError) as caught:
        queries_of(script)
    told, pointed = str(caught.value).splitlines()[1:3]
    assert told[pointed.index("^") :].startswith(option)
    assert f"hint: leave {option} out" in str(caught.value)


def test_a_column_called_arrival_is_taken_if_it_is_quoted() -> None:
    table = pa.table({"k": [1], "arrival": pa.array([0], pa.timestamp("us"))})
    session = wm.Session()
    with pytest.raises(
        wm.WatersmeetError, match="has a column 'arrival', so the moment of arrival cannot be called"
    ) as e:
        session.stream("s", table, time="arrival")
    assert "arrival_column = 'arrived'" in str(e.value)
    session.stream("s", table, time='"arrival"')
    assert session.sql("SELECT event_time() AS at FROM s").to_arrow()["at"].to_pylist() == [datetime(1970, 1, 1)]
    session.stream("t", table, time="arrival", arrival_column="came")
    assert session.sql("SELECT * FROM t").schema.names == ["k", "arrival", "came"]
    with pytest.raises(wm.WatersmeetError, match="arrival_column names the moment of arrival"):
        session.stream("u", table, time='"arrival"', arrival_column="came")
    (query,) = queries_of(
        "CREATE STREAM s (k BIGINT, arrival TIMESTAMP) WITH (path='s.parquet', time='\"arrival\"'); SELECT * FROM s"
    ).values()
    assert query.schema.names == ["k", "arrival"]
