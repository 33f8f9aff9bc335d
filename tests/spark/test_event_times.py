"""Event times that cannot be are judged on Spark as in-process, by the same code and in the same words."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.spark.simulation import Simulation, Source
from watersmeet.errors import DataError

SQL = "SELECT COUNT(*) AS n FROM a [RANGE 2 SECONDS]"


def table(*times_us: int | None) -> pa.Table:
    return pa.table({"k": pa.array([0] * len(times_us), pa.int64()), "ts": pa.array(times_us, pa.timestamp("us"))})


def in_process(rows: pa.Table) -> DataError:
    session = wm.Session()
    session.stream("a", rows, time="ts", read="arrival")
    with pytest.raises(DataError) as told:
        session.sql(SQL).to_arrow()
    return told.value


def on_spark(rows: pa.Table) -> DataError:
    with pytest.raises(DataError) as told:
        Simulation(SQL, [Source("a", rows.slice(0, 0), "ts")], 2).batch({"a": rows})
    return told.value


def test_a_time_beyond_the_years_that_can_be_counted_is_refused() -> None:
    rows = table(1, 1 << 62)
    assert on_spark(rows).message == in_process(rows).message
    assert "beyond the years" in on_spark(rows).message


def test_a_row_without_a_time_is_refused_but_nobody_knows_which_it_is() -> None:
    rows = table(1, None, 2)
    here, there = in_process(rows), on_spark(rows)
    assert here.message == "stream 'a': the event time 'ts' is NULL in 1 of 3 rows (among rows 1 to 3)"
    assert (there.message, there.hint) == (here.message.partition(" (")[0], here.hint)
