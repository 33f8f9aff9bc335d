"""The same stream with its event times as timestamps, as numbers of every unit and as text gives the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from tests.runners import bag, bag_of
from watersmeet.errors import DataError
from watersmeet.model.time_reading import TIMESTAMP, TimeReading, time_reading
from watersmeet.reference.join import answer
from watersmeet.reference.written_times import written_times

some = random_cases(30)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
JOIN = "SELECT a.k, a.ts, b.ts AS other FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"
COUNTS = "SELECT a.k, COUNT(*) AS n, MAX(a.ts) AS last FROM a [RANGE 3 SECONDS] GROUP BY a.k"
# From 1901 to 2199, in quarters of a second, which every way to write them can say.
INSTANTS = st.integers(-8_000_000_000, 29_000_000_000).map(lambda quarter: quarter * 250_000)
NEAR = st.lists(st.integers(-12, 12), min_size=1, max_size=8)


def at(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def text(form: str, zone_us: int = 0) -> Any:
    return lambda us: at(us + zone_us).strftime(form)


# How a number of microseconds is written, in which type, and what is said of that.
WAYS: dict[str, tuple[Any, pa.DataType, dict[str, str]]] = {
    "ms": (lambda us: us // 1_000, pa.int64(), {"time_unit": "ms"}),
    "us": (lambda us: us, pa.int64(), {"time_unit": "us"}),
    "ns": (lambda us: us * 1_000, pa.int64(), {"time_unit": "ns"}),
    "seconds as doubles": (lambda us: us / 1_000_000, pa.float64(), {"time_unit": "s"}),
    "milliseconds as doubles": (lambda us: us / 1_000, pa.float64(), {"time_unit": "ms"}),
    "numbers as text": (lambda us: f"{us // 1000}.{us % 1000:03}", pa.string(), {"time_unit": "ms"}),
    "iso": (lambda us: at(us).isoformat(), pa.string(), {"time_format": "iso"}),
    "iso without T and zone": (text("%Y-%m-%d %H:%M:%S.%f"), pa.string(), {"time_format": "%Y-%m-%d %H:%M:%S.%f"}),
    "days first": (text("%d.%m.%Y %H:%M:%S,%f"), pa.string(), {"time_format": "%d.%m.%Y %H:%M:%S,%f"}),
    "names": (text("%A, %d %B %Y %I:%M:%S.%f %p"), pa.large_string(), {"time_format": "%A, %d %B %Y %I:%M:%S.%f %p"}),
    "day of year": (text("%Y/%j %H%M%S%f"), pa.string(), {"time_format": "%Y/%j %H%M%S%f"}),
    "offsets": (text("%Y%m%dT%H%M%S.%f-0130", -5_400_000_000), pa.string(), {"time_format": "%Y%m%dT%H%M%S.%f%z"}),
    "a zone": (text("%Y-%m-%dT%H:%M:%S.%f", -18_000_000_000), pa.string(),
               {"time_format": "iso", "time_zone": "Etc/GMT+5"}),
}  # fmt: skip


def streams(first: int, quarters: Sequence[int]) -> dict[str, list[int | None]]:
    """Two streams whose rows lie near each other, out of order; one of them has a row without a time."""
    times: list[int | None] = [first + quarter * 250_000 for quarter in quarters]
    return {"a": times, "b": [*times[::-1], None]}


def table(times: Sequence[int | None], way: str | None) -> pa.Table:
    write, kind = (int, pa.int64()) if way is None else WAYS[way][:2]
    column = pa.array([None if us is None else write(us) for us in times], kind)
    return pa.table({"k": [i % 2 for i in range(len(times))], "ts": column.cast(TIMESTAMP) if way is None else column})


def session(times: dict[str, list[int | None]], way: str | None) -> wm.Session:
    made = wm.Session()
    for name, of_stream in times.items():
        said = {} if way is None else WAYS[way][2]
        made.stream(name, table(of_stream, way), time="ts", on_null="skip", **said)  # type: ignore[arg-type]
    return made


@pytest.mark.filterwarnings("ignore:skipped_rows", "ignore:time_unit")
@pytest.mark.parametrize("sql", [JOIN, COUNTS], ids=["join", "counts"])
@some
@given(INSTANTS, NEAR, st.sampled_from(sorted(WAYS)))
def test_however_times_are_written_answers_are_those_of_timestamps(
    sql: str, first: int, quarters: list[int], way: str
) -> None:
    times = streams(first, quarters)
    expected = bag_of(session(times, None).sql(sql).to_arrow())
    query = session(times, way).sql(sql)
    assert bag_of(query.to_arrow()) == expected
    assert query.metrics()["skipped_rows"] == (1 if "b" in sql.split("FROM")[1] else 0)
    assert bag(answer(query.plan, {name: table(of_stream, way) for name, of_stream in times.items()})) == expected


ODD = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(-1e12, 1e12), st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-10**12, 10**12, places=7).map('{:f}'.format), st.integers(-10**20, 10**20).map(str),
    st.decimals(-10**18, 10**18, places=9).map(lambda x: Decimal(f'{x:f}')),
)  # fmt: skip


@some
@example(-(2**63), "ns", "down")
@example(str(-(2**63)), "ns", "down")
@example(float(-(2**63)), "ns", "down")
@given(ODD, st.sampled_from(["s", "ms", "us", "ns"]), st.sampled_from(["error", "down"]))
def test_any_number_is_read_or_refused_as_by_exact_arithmetic(value: Any, unit: str, rounding: str) -> None:
    from watersmeet.io.read_times import LATEST_US, Place, read_times

    reading = TimeReading("ts", unit=unit, rounding=rounding)
    column = pa.array([value])
    try:
        expected = written_times(pa.chunked_array([column]), reading)[0]
    except (DataError, pa.ArrowInvalid, OverflowError):
        expected = None
    if expected is not None and (abs(expected.value) > LATEST_US or (unit == "ns" and abs(Decimal(value)) >= 2**63)):
        expected = None
    if expected is None:
        with pytest.raises(DataError, match=r"the event time 'ts' is .* in row 1, which "):
            read_times(column, reading, Place())
    else:
        assert read_times(column, reading, Place())[0].value == expected.value


@some
@given(
    st.datetimes(datetime(1902, 1, 1), datetime(2037, 12, 31)), st.sampled_from(["Europe/Paris", "America/New_York"])
)
def test_text_of_a_zone_is_the_first_instant_that_clocks_show_so_and_none_that_they_skip(
    reading: datetime, zone: str
) -> None:
    from watersmeet.io.read_times import Place, read_times

    said = time_reading("ts", {"time_format": "iso", "time_zone": zone})
    assert said is not None
    column = pa.array([reading.isoformat(" ")])
    try:
        expected = written_times(pa.chunked_array([column]), said)[0]
    except DataError:
        with pytest.raises(DataError, match="clocks skip it there"):
            read_times(column, said, Place())
    else:
        assert read_times(column, said, Place())[0].value == expected.value
