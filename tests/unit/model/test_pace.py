"""Steps by the calendar, around every change of clocks: against a plain twin, and against what DuckDB says of days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.effort import thinned
from tests.plain_sql import said_by_duckdb
from tests.runners import Source, by_local_engine, by_reference
from watersmeet.model.pace import DAY_US, MONDAY_US, Pace
from watersmeet.model.time import Times

HOUR = 3_600_000_000
# By 23 and 25 hours; midnights that are skipped, or shown twice; by half an hour; a whole day that is left out.
ZONES = {
    "Europe/Berlin": (2024, 2024), "America/Sao_Paulo": (2017, 2018), "America/Havana": (2024, 2024),
    "Australia/Lord_Howe": (2024, 2024), "Pacific/Apia": (2011, 2011), "UTC": (2024, 2024),
}  # fmt: skip


def us(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(
        (datetime(year, month, day, hour, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)
    )


def starts(zone: str, pace: Pace, first: int, last: int) -> Times:
    """By looking at the clock every half an hour: when it has come to, or past, what begins a step."""
    at = np.arange(first - 70 * DAY_US, last, HOUR // 2)
    shown = [clock(zone, one) - timedelta(microseconds=pace.offset_us) for one in at.tolist()]
    months = [(one.year - 1970) * 12 + one.month - 1 for one in shown]
    numbers = [(one - datetime(1970, 1, 1)).days for one in shown] if pace.unit == "day" else months
    furthest = np.maximum.accumulate(np.array(numbers) // pace.every)
    return at[1:][np.diff(furthest) > 0]


@cache
def clock(zone: str, at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / 1e6, ZoneInfo(zone)).replace(tzinfo=None)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "pace",
    [Pace(1, "day"), Pace(7, "day", MONDAY_US), Pace(1, "day", 5 * HOUR // 2), Pace(1, "month"), Pace(3, "month")],
    ids=["day", "week", "day at half past two", "month", "quarter"],
)
def test_steps_begin_when_the_clock_comes_to_them(zone: str, pace: Pace) -> None:
    year, until = ZONES[zone]
    first, last = us(year, 1, 10), us(until + 1, 1, 10)
    pace = Pace(pace.every, pace.unit, pace.offset_us, None if zone == "UTC" else zone)
    times = np.arange(first, last, HOUR // 2)
    begun = starts(zone, pace, first, last)
    expected = begun[np.searchsorted(begun, times, side="right") - 1]
    np.testing.assert_array_equal(pace.at(pace.numbers(times)), expected)
    assert pace.between(first, last).tolist() == begun[(begun >= first)].tolist()
    assert bool((np.diff(begun) <= pace.longest_us).all())


FORMS = {
    "TUMBLE(a, 1 DAY)": ("day", 1), "TUMBLE(a, 1 WEEK)": ("week", 1), "TUMBLE(a, INTERVAL '1' MONTH)": ("month", 1),
    "TUMBLE(a, '1 quarter')": ("quarter", 1), "TUMBLE(a, 1 YEAR)": ("year", 1), "HOP(a, 1 DAY, 3 DAYS)": ("day", 3),
    "HOP(a, 1 MONTH, 1 QUARTER)": ("month", 3),
}  # fmt: skip


@pytest.mark.parametrize(("zone", "written"), thinned(["Europe/Berlin", "America/New_York", None], FORMS))
def test_windows_are_those_that_duckdb_makes_by_date_trunc(zone: str | None, written: str) -> None:
    unit, many = FORMS[written]
    around = [us(2024, 3, 9, 20), us(2024, 3, 30, 20), us(2024, 10, 26, 20), us(2024, 11, 2, 20), us(2024, 12, 31, 3)]
    times = pa.array([moment + n * 2 * HOUR for moment in around for n in range(16)])
    rows = pa.table({"ts": times.cast(pa.timestamp("us", None if zone is None else "UTC"))})
    session = wm.Session(timezone=zone or "UTC")
    session.stream("a", rows, time="ts")
    query = session.sql(f"SELECT window_start, COUNT(*) AS n FROM {written} GROUP BY window_start")
    given = {(row["window_start"].replace(tzinfo=None), row["n"]) for row in query.to_arrow().to_pylist()}
    shown = "ts" if zone is None else f"timezone('{zone}', ts)"
    starts = f"date_trunc('{unit}', {shown}) - to_{unit}s(n) AS s"
    said = said_by_duckdb(f"SELECT {starts}, count(*) AS n FROM a, range({many}) AS r (n) GROUP BY 1", {"a": rows})
    assert given == {(row["s"], row["n"]) for row in said.to_pylist()}
    for emit in ("complete", "changes"):
        options = f"OPTIONS (emit = '{emit}', timezone = '{zone or 'UTC'}')"
        text = f"SELECT window_end, COUNT(*) AS n FROM {written} GROUP BY window_end {options}"
        sources = [Source("a", rows, "ts")]
        assert by_local_engine(text, sources, 7) == by_reference(text, sources)
        assert wm.check(session.sql(text)).equal


@pytest.mark.parametrize("every", ["1 DAY", "1 WEEK", "1 MONTH", "INTERVAL '1' QUARTER"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", None])
def test_answers_come_at_midnights_of_the_zone(zone: str | None, every: str) -> None:
    times = pa.array([us(2024, month, day, 12) for month in (3, 4, 10, 11) for day in (3, 25, 30)])
    rows = pa.table({"ts": times.cast(pa.timestamp("us", None if zone is None else "UTC"))})
    session = wm.Session(timezone=zone or "UTC")
    session.stream("a", rows, time="ts")
    query = session.sql(f"SELECT RSTREAM COUNT(*) AS n FROM a [RANGE 20 DAYS] EVERY {every}")
    given = [row["_ts"] for row in query.to_arrow().to_pylist()]
    unit = every.split()[-1].lower()
    midnights = said_by_duckdb(
        f"SELECT unnest(generate_series(date_trunc('{unit}', TIMESTAMP '2024-03-03'), TIMESTAMP '2024-11-30 12:00:00', "
        f"to_{unit}s(1))) AS t", {}
    )["t"].to_pylist()  # fmt: skip
    instants = [one.replace(tzinfo=ZoneInfo(zone or "UTC")).astimezone(UTC) for one in midnights]
    first = datetime(2024, 3, 3, 12, tzinfo=UTC)
    assert [one if one.tzinfo else one.replace(tzinfo=UTC) for one in given] == [
        one for one in instants if one >= first
    ]
    assert wm.check(query).equal
    text = f"SELECT RSTREAM COUNT(*) AS n FROM a [RANGE 20 DAYS] EVERY {every} OPTIONS (timezone = '{zone or 'UTC'}')"
    sources = [Source("a", rows, "ts")]
    assert by_local_engine(text, sources, 5) == by_reference(text, sources)


MONTHS = (
    "ts + INTERVAL 1 MONTH", "ts - INTERVAL '3' MONTH", "ts + n * INTERVAL '1 month'", "INTERVAL 1 YEAR * n + ts",
    "DATE_ADD(ts, INTERVAL '2' MONTHS)", "CAST(ts AS DATE) + INTERVAL '1' QUARTER", "ts + TO_MONTHS(n)",
    "ts + (-(INTERVAL 1 MONTH))", "CAST(ts AS DATE) - n * INTERVAL '1' YEAR",
)  # fmt: skip


@pytest.mark.parametrize("kind", [None, "UTC"], ids=["as written", "instants"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_months_are_added_as_in_duckdb(zone: str, kind: str | None) -> None:
    """In March clocks skip what one of these would be."""
    times = pa.array(
        [us(2024, 1, 31, 1), us(2024, 2, 29, 12), us(2023, 12, 31, 23), us(1969, 3, 31, 5), us(2024, 8, 31)]
    )
    rows = pa.table({"n": [2, -1, 2, None, 13], "ts": times.cast(pa.timestamp("us", kind))})
    session = wm.Session(timezone=zone)
    session.stream("a", rows, time="ts")
    query = session.sql(f"SELECT {', '.join(f'{one} AS c{n}' for n, one in enumerate(MONTHS))} FROM a")
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        connection.register("a", rows)
        shown = [one.replace("DATE_ADD(ts, ", "(ts + ") for one in MONTHS]
        said = connection.sql(f"SELECT {', '.join(f'{one} AS c{n}' for n, one in enumerate(shown))} FROM a")
        expected = said.to_arrow_table().cast(query.to_arrow().schema).to_pylist()
    assert sorted(map(str, query.to_arrow().to_pylist())) == sorted(map(str, expected))
    assert wm.check(query).equal
