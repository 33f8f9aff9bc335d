"""Zones and units: the engine, the reference and DuckDB read instants alike, around every kind of change of clocks.

Zones with half hours, changes of half an hour, midnights that are skipped or come twice, and a day that was skipped.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from watersmeet.checking.recompute import DuckDB, rows_of
from watersmeet.errors import BindError, DataError
from watersmeet.reference.join import answer

pytestmark = pytest.mark.filterwarnings("ignore:midnight")
some = random_cases(25)

ZONES = (
    "UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe",
    "America/St_Johns", "America/Sao_Paulo", "America/Havana", "Africa/Cairo", "Pacific/Apia", "Pacific/Chatham",
)  # fmt: skip
UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}  # microseconds to which values are whole
QUARTER_US = 15 * 60 * 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

PARTS = """
SELECT a.ts, YEAR(a.ts) AS y, MONTH(a.ts) AS m, DAY(a.ts) AS d, HOUR(a.ts) AS h, EXTRACT(MINUTE FROM a.ts) AS mi,
       SECOND(a.ts) AS s, DATE_TRUNC('minute', a.ts) AS t1, DATE_TRUNC('hour', a.ts) AS t2,
       DATE_TRUNC('day', a.ts) AS t3, DATE_TRUNC('week', a.ts) AS t4, DATE_TRUNC('month', a.ts) AS t5,
       CAST(a.ts AS DATE) AS c1, CAST(a.ts AS TIMESTAMP) AS c2, CAST(a.n AS TIMESTAMP WITH TIME ZONE) AS c3,
       HOUR(a.n) AS nh, DATE_TRUNC('day', a.n) AS nd, a.ts + INTERVAL 1 DAY AS p, a.ts - a.n AS gap, event_time() AS et,
       QUARTER(a.ts) AS q, DAYOFWEEK(a.ts) AS dow, WEEK(a.ts) AS w, DAYOFYEAR(a.ts) AS doy, MICROSECOND(a.ts) AS us,
       STRFTIME(a.ts, '%Y-%m-%d %H:%M:%S %a %j') AS txt, LAST_DAY(a.ts) AS ld, DATE_ADD(a.ts, 3) AS later,
       a.ts + INTERVAL 1 MONTH AS mo, a.n - DAY(a.n) * INTERVAL 1 QUARTER AS mn,
       DATE_DIFF('day', a.ts, a.n) AS dd, DATE_DIFF('hour', a.ts, a.n) AS dh, DATE_DIFF('month', a.n, a.ts) AS dm,
       EPOCH_US(a.ts) AS e, DAYNAME(a.ts) AS name
FROM a"""
TEXTS = """
SELECT CAST(a.ts AS VARCHAR) AS t, CAST(CAST(a.ts AS VARCHAR) AS TIMESTAMPTZ) AS back, CAST(a.n AS VARCHAR) AS n
FROM a"""
DATES = """
SELECT a.d, CAST(a.d AS TIMESTAMP WITH TIME ZONE) AS z, CAST(a.d AS TIMESTAMP) AS n, a.d <= a.ts AS lo, a.d < a.n AS ln,
       a.d IN (a.ts, a.n) AS within, COALESCE(a.d, a.ts) AS c, GREATEST(a.d, a.n) AS g, a.ts - a.d AS gap,
       NULLIF(a.d, a.ts) AS nu, CASE WHEN a.d = a.n THEN a.d ELSE a.ts END AS ca
FROM a"""


@dataclass(frozen=True)
class Case:
    zone: str
    table: pa.Table


@cache
def changes(zone: str) -> list[int]:
    """The instants from 1990 to 2020 at which clocks of a zone were changed, in microseconds."""
    info, found = ZoneInfo(zone), []
    at = datetime(1990, 1, 1, tzinfo=UTC)
    while at.year < 2020:
        after = at + timedelta(days=7)
        if at.astimezone(info).utcoffset() != after.astimezone(info).utcoffset():
            low, high = at, after
            while high - low > timedelta(seconds=1):
                middle = (low + (high - low) / 2).replace(microsecond=0)
                same = middle.astimezone(info).utcoffset() == low.astimezone(info).utcoffset()
                low, high = (middle, high) if same else (low, middle)
            found.append((high - EPOCH) // timedelta(microseconds=1))
        at = after
    return found or [(datetime(2004, 2, 28, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    zone = draw(st.sampled_from(ZONES))
    unit, other = draw(st.sampled_from(list(UNITS))), draw(st.sampled_from(list(UNITS)))
    around = draw(st.sampled_from(changes(zone)))
    near = st.integers(-110, 110).map(lambda n: around + n * QUARTER_US)
    exact = st.one_of(near, near.map(lambda us: us - 1), st.integers(0, 10**6).map(lambda n: around + n))
    size = draw(st.integers(1, 4))

    def times(kind: str) -> list[int]:
        step = UNITS[kind]
        values = draw(st.lists(exact, min_size=size, max_size=size))
        return sorted(value // step * step for value in values)

    days = draw(st.lists(st.integers(-2, 2), min_size=size, max_size=size))
    first = datetime.fromtimestamp(around // 10**6, ZoneInfo(zone)).date()
    kinds = {"ts": pa.timestamp(unit, tz=draw(st.sampled_from(ZONES))), "n": pa.timestamp(other)}
    columns: dict[str, Any] = {
        name: pa.array(times(kind.unit), pa.timestamp("us", tz=kind.tz)).cast(kind) for name, kind in kinds.items()
    }
    day_type = draw(st.sampled_from([pa.date32(), pa.date64()]))
    columns["d"] = pa.array([first + timedelta(days=n) for n in days], pa.date32()).cast(day_type)
    return Case(zone, pa.table(columns))


def opinions(sql: str, case: Case, *, duckdb: bool = True) -> list[Counter[tuple[str, ...]] | str]:
    """The answer by the engine, the reference and DuckDB, or that a time is skipped."""
    session = wm.Session(timezone=case.zone)
    session.stream("a", case.table, time="ts")
    session.stream("b", case.table, time="ts")
    query = session.sql(sql)
    tables = {"a": case.table, "b": case.table}
    ways = [lambda: rows_of(query.to_arrow()), lambda: answer(query.plan, tables)]
    found = [_told(way) for way in ways]
    if duckdb and found[0] != SKIPPED:
        found.append(_told(lambda: DuckDB(query.plan, tables).combinations()))
    return found


SKIPPED = "skipped"


def _told(way: Any) -> Counter[tuple[str, ...]] | str:
    try:
        return Counter(tuple(map(str, row)) for row in way())
    except DataError as error:
        if "clocks skip it" not in str(error):
            raise
        return SKIPPED


def agree(found: list[Any]) -> bool:
    return all(one == found[0] for one in found[1:])


@some
@given(cases())
@example(
    Case(
        "Australia/Lord_Howe",  # 15:00 UTC shows 01:30 again, half an hour after its hour began for the second time
        pa.table(
            {
                "ts": pa.array([datetime(1990, 3, 3, 15, tzinfo=UTC)], pa.timestamp("s", tz="UTC")),
                "n": pa.array([datetime(1990, 3, 3, 14, 45)], pa.timestamp("s")),
                "d": pa.array([date(1990, 3, 4)]),
            }
        ),
    )
)
def test_parts_and_casts_of_instants_are_read_in_the_zone_of_the_query(case: Case) -> None:
    found = opinions(PARTS, case)
    assert len(found) == 3
    assert agree(found)


@some
@given(cases())
def test_texts_of_instants_say_their_offset_and_are_read_back(case: Case) -> None:
    found = opinions(TEXTS, case, duckdb=False)
    assert agree(found)


@some
@given(cases())
def test_dates_among_times_are_midnights(case: Case) -> None:
    assert agree(opinions(DATES, case))


@some
@given(cases(), st.sampled_from(["a.d = b.ts", "a.d = b.n", "a.n = b.ts", "a.ts = b.ts", "a.d < b.ts", "a.n >= b.d"]))
def test_joins_between_dates_timestamps_and_instants(case: Case, condition: str) -> None:
    assert agree(opinions(f"SELECT a.ts, b.n FROM a, b WHERE {condition} WINDOW = 9 DAYS", case))


@some
@given(cases(), st.integers(-110, 110))
def test_text_without_a_zone_is_in_the_zone_beside_an_instant_and_as_written_beside_a_timestamp(
    case: Case, quarter: int
) -> None:
    day = case.table["d"][0].as_py()
    at = datetime(day.year, day.month, day.day) + timedelta(minutes=15 * quarter)
    there = at.replace(tzinfo=ZoneInfo(case.zone))
    sql = f"SELECT a.ts >= '{at}' AS z, a.n >= '{at}' AS n, a.d >= '{at}' AS d FROM a"
    if there.astimezone(UTC).astimezone(there.tzinfo).replace(tzinfo=None) != at:
        with pytest.raises(BindError, match="clocks skip it"):
            opinions(sql, case)
        return
    found = opinions(sql, case)
    assert agree(found)
    expected = [there <= ts for ts in case.table["ts"].to_pylist()]
    assert sum(n for (z, *_), n in found[0].items() if z == "True") == sum(expected)


@some
@given(cases(), st.lists(st.integers(-5_000, 5_000), min_size=1, max_size=5))
def test_finer_times_are_cut_down_where_the_stream_says_so_and_refused_elsewhere(case: Case, finer: list[int]) -> None:
    nanoseconds = pa.array(sorted(finer), pa.timestamp("ns", tz=case.zone))
    table = pa.table({"ts": nanoseconds, "n": nanoseconds.cast(pa.timestamp("ns"))})
    session = wm.Session(timezone=case.zone)
    session.stream("a", table, time="ts")
    session.stream("b", table, time="ts", rounding="down")
    if any(n % 1_000 for n in finer):
        with pytest.raises(DataError, match=r"stream 'a': column 'ts': .* finer than a microsecond"):
            session.sql("SELECT a.ts, a.n FROM a").to_arrow()
    cut = session.sql("SELECT b.ts, b.n FROM b").to_arrow()
    assert cut["n"].cast(pa.int64()).to_pylist() == [n // 1_000 for n in sorted(finer)]
    assert cut["ts"].cast(pa.int64()).to_pylist() == cut["n"].cast(pa.int64()).to_pylist()


def test_the_zones_have_the_changes_that_matter() -> None:
    """Midnights that come twice or not at all, half hours, a skipped day: else the tests above show little."""

    def offsets(zone: str) -> set[float]:
        info = ZoneInfo(zone)
        around = [datetime.fromtimestamp(us // 10**6 + s, info) for us in changes(zone) for s in (-1, 0)]
        steps = zip(around[::2], around[1::2], strict=True)
        return {(after.utcoffset() - before.utcoffset()).total_seconds() / 3600 for before, after in steps}

    assert offsets("Australia/Lord_Howe") == {0.5, -0.5}
    assert 24.0 in offsets("Pacific/Apia")
    assert -1.0 in offsets("America/Havana")  # from one o'clock in the night to midnight


def test_a_midnight_that_is_skipped_is_told() -> None:
    skipped = pa.table({"d": pa.array([date(2018, 11, 4)]), "ts": pa.array([0], pa.timestamp("us", "UTC"))})
    session = wm.Session(timezone="America/Sao_Paulo")
    session.stream("a", skipped, time="ts")
    query = session.sql("SELECT a.d = a.ts AS same FROM a")
    with pytest.raises(DataError, match="2018-11-04 00:00:00 does not exist in America/Sao_Paulo: clocks skip it"):
        query.to_arrow()
