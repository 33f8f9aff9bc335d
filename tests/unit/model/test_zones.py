"""Zones where people meet them: types, options, sinks, and data as pandas writes it."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from typer.testing import CliRunner

import watersmeet as wm
from watersmeet.advise.sample import take_sample
from watersmeet.archive.description import ArchiveDescription
from watersmeet.checking.checker import check
from watersmeet.cli.commands import app
from watersmeet.errors import BindError, DataError, OptionError
from watersmeet.model.types import arrow_type
from watersmeet.warning import PlanWarning

NEW_YORK = "America/New_York"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
INSTANT, READING = pa.timestamp("us", tz="UTC"), pa.timestamp("us")


def session(zone: str = "UTC", column_zone: str = NEW_YORK) -> wm.Session:
    made = wm.Session(timezone=zone)
    times = pa.array([NOON], pa.timestamp("us", tz=column_zone))
    made.stream("a", pa.table({"ts": times, "n": times.cast(READING), "d": [date(2026, 1, 1)]}), time="ts")
    return made


def answer(sql: str, **options: str) -> list[object]:
    return list(session(**options).sql(sql).to_arrow().to_pylist()[0].values())


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("TIMESTAMP", READING),
        ("timestamp without time zone", READING),
        ("TIMESTAMP WITH TIME ZONE", INSTANT),
        ("Timestamp  with\n local time zone", INSTANT),
        ("TIMESTAMP(6) WITH TIME ZONE", INSTANT),
        ("TIMESTAMPTZ", INSTANT),
        ("TIMESTAMP WITH ZONE", None),
    ],
)
def test_types_of_times_are_read_as_what_they_are(written: str, kind: pa.DataType | None) -> None:
    assert arrow_type(written) == kind


def test_the_type_of_a_column_or_a_cast_may_be_timestamp_with_time_zone(tmp_path: Path) -> None:
    script = tmp_path / "zones.sql"
    (tmp_path / "a.csv").write_text("ts,n\n2026-01-01T12:00:00Z,2026-01-01T12:00:00\n")
    script.write_text(
        f"CREATE STREAM a (ts TIMESTAMP WITH TIME ZONE NOT NULL, n TIMESTAMP WITHOUT TIME ZONE)"
        f" WITH (path = '{tmp_path}/a.csv', time = 'ts');"
        f"CREATE SINK o WITH (path = '{tmp_path}/o.parquet') AS SELECT a.ts, a.n,"
        f" CAST('2026-01-01 07:00:00' AS TIMESTAMP WITH TIME ZONE) = a.ts AS same,"
        f" CAST(a.ts AS TIMESTAMP WITHOUT TIME ZONE) AS shown FROM a OPTIONS (timezone = '{NEW_YORK}');"
    )
    assert CliRunner().invoke(app, ["run", str(script), "--engine", "local", "--quiet"]).exit_code == 0
    given = pa_parquet.read_table(tmp_path / "o.parquet")
    assert given.schema.types == [pa.timestamp("us", tz=NEW_YORK), READING, pa.bool_(), READING]
    shown = datetime(2026, 1, 1, 7)
    assert list(given.to_pylist()[0].values()) == [NOON, NOON.replace(tzinfo=None), True, shown]


@pytest.mark.parametrize("column_zone", ["UTC", NEW_YORK, "Asia/Tokyo"])
def test_the_zone_of_the_column_does_not_matter(column_zone: str) -> None:
    parts = "SELECT HOUR(ts) AS h, CAST(ts AS DATE) AS d, CAST(ts AS VARCHAR) AS t, ts FROM a"
    assert answer(parts, column_zone=column_zone) == [12, date(2026, 1, 1), "2026-01-01 12:00:00+00:00", NOON]
    tokyo = answer(parts, zone="Asia/Tokyo", column_zone=column_zone)
    assert tokyo == [21, date(2026, 1, 1), "2026-01-01 21:00:00+09:00", NOON]
    assert tokyo[-1].utcoffset().total_seconds() == 9 * 3600  # type: ignore[attr-defined]


def test_the_option_of_the_query_wins_and_explain_shows_it() -> None:
    hour = f"SELECT HOUR(ts) AS h FROM a OPTIONS (timezone = '{NEW_YORK}')"
    assert answer(hour, zone="Asia/Tokyo") == [7]
    assert f"timezone = {NEW_YORK}" in session().explain(hour)
    assert "timezone = Asia/Tokyo" in session("Asia/Tokyo").explain("SELECT ts FROM a")
    assert "timezone" not in session().explain("SELECT ts FROM a")


def test_an_archive_keeps_the_zone_that_the_session_said() -> None:
    query = "SELECT HOUR(a.ts) AS h FROM a"
    here, there = (ArchiveDescription.of(session(zone).sql(query).plan) for zone in ("UTC", NEW_YORK))
    assert there.plan().options.timezone == NEW_YORK
    assert here.plan().options.timezone == "UTC"
    assert there.fingerprint != here.fingerprint


def test_a_timestamp_is_taken_as_utc_whatever_the_zone() -> None:
    assert answer("SELECT HOUR(n) AS h, n = ts AS same, n - ts AS gap FROM a", zone=NEW_YORK)[:2] == [12, True]


def test_unknown_zones_are_refused_with_the_nearest_and_the_place() -> None:
    with pytest.raises(OptionError, match="'America/NewYork' is not the name of a time zone") as told:
        session().sql("SELECT ts FROM a OPTIONS (timezone = 'America/NewYork')")
    assert "did you mean 'America/New_York'?" in str(told.value)
    assert "^^^^^" in str(told.value)
    with pytest.raises(OptionError, match="did you mean 'Asia/Tokyo'"):
        wm.Session(timezone="tokyo")
    with pytest.raises(OptionError, match="not the name of a time zone"):
        wm.Session(timezone="localtime")


def test_a_constant_that_clocks_skip_is_refused_at_its_place() -> None:
    with pytest.raises(BindError, match=r"2026-03-08 02:30:00 does not exist in America/New_York") as told:
        session(NEW_YORK).sql("SELECT ts FROM a WHERE ts > '2026-03-08 02:30:00'")
    assert "^^^^^" in str(told.value)
    assert session(NEW_YORK).sql("SELECT ts FROM a WHERE n > '2026-03-08 02:30:00'") is not None


def test_a_date_that_equals_a_time_is_told_to_do_so_at_midnight_only() -> None:
    made = session()
    made.stream(
        "b", pa.table({"t": pa.array([datetime(2026, 1, 1), datetime(2026, 1, 1, 9)]), "ts": [NOON, NOON]}), time="ts"
    )
    with pytest.warns(PlanWarning, match=r"midnight: .*write CAST\(b.t AS DATE\) = a.d"):
        query = made.sql("SELECT b.t FROM a, b WHERE a.d = b.t WINDOW = 1 HOUR")
    assert query.to_arrow().to_pylist() == [{"t": datetime(2026, 1, 1)}]
    with warnings.catch_warnings(action="error"):
        of_the_day = made.sql("SELECT b.t FROM a, b WHERE CAST(b.t AS DATE) = a.d WINDOW = 1 HOUR")
        made.sql("SELECT a.d FROM a WHERE a.d = TIMESTAMP '2026-01-01 00:00:00'")
    assert of_the_day.to_arrow().num_rows == 2


def test_the_ends_of_the_calendar_are_told_where_a_zone_has_no_such_year() -> None:
    assert answer("SELECT ts < '9999-12-31 23:59:59' AS z FROM a", zone="Asia/Tokyo") == [True]
    with pytest.raises(BindError, match="not between the years 1 and 9999"):
        session(NEW_YORK).sql("SELECT ts FROM a WHERE ts < '9999-12-31 23:59:59'")


def test_streams_in_different_zones_unite() -> None:
    made = session("Asia/Tokyo")
    made.stream("b", pa.table({"ts": pa.array([NOON], pa.timestamp("ms", tz="Europe/Berlin"))}), time="ts")
    united = made.sql("SELECT ts FROM a [RANGE 1 DAY] UNION SELECT ts FROM b [RANGE 1 DAY]").final()
    assert united.to_pylist() == [{"ts": NOON}]
    assert united.schema.field("ts").type == pa.timestamp("us", tz="Asia/Tokyo")


def test_every_sink_writes_instants_in_the_zone_of_the_query(tmp_path: Path) -> None:
    pa_parquet.write_table(
        pa.table({"ts": pa.array([NOON], pa.timestamp("us", tz="Asia/Tokyo"))}), tmp_path / "a.parquet"
    )
    select = f"SELECT a.ts FROM a OPTIONS (timezone = '{NEW_YORK}');"
    sinks = [
        f"CREATE SINK {kind} WITH (path = '{tmp_path}/o.{kind}') AS {select}" for kind in ("csv", "json", "parquet")
    ]
    script = tmp_path / "zones.sql"
    script.write_text(f"CREATE STREAM a WITH (path = '{tmp_path}/a.parquet', time = 'ts');{''.join(sinks)}{select}")
    ran = CliRunner().invoke(app, ["run", str(script), "--engine", "local", "--quiet"])
    assert "2026-01-01 07:00:00-05:00" in ran.stdout
    assert (tmp_path / "o.csv").read_text().splitlines()[1] == "2026-01-01 07:00:00-05:00"
    assert (tmp_path / "o.json").read_text() == '{"ts": "2026-01-01T07:00:00-05:00"}\n'
    assert pa_parquet.read_table(tmp_path / "o.parquet").schema.field("ts").type == pa.timestamp("us", tz=NEW_YORK)


def pandas_frame() -> pd.DataFrame:
    """What pandas makes by default: nanoseconds."""
    times = pd.date_range("2026-01-01", periods=50, freq="s", tz=NEW_YORK).astype(f"datetime64[ns, {NEW_YORK}]")
    return pd.DataFrame({"ts": times, "seen": times.tz_localize(None), "k": range(50)})


JOIN = "SELECT a.k, a.seen, b.ts FROM a, b WHERE a.k = b.k AND a.seen = b.seen WINDOW = 5 SECONDS"


def test_nanoseconds_as_pandas_writes_them_are_checked_and_advised_on() -> None:
    made = wm.Session()
    for name in ("a", "b"):
        made.stream(name, pandas_frame(), time="ts")
    made.table("t", pandas_frame())
    query = made.sql(JOIN)
    assert query.to_arrow().schema.types == [pa.int64(), READING, INSTANT]
    assert check(query).equal
    assert check(made.sql("SELECT a.k, t.ts FROM a, t WHERE a.seen = t.seen")).equal
    sample = take_sample(query.plan, 40)  # where advise began, and ended
    assert {table.schema.field("ts").type for table in sample.tables.values()} == {INSTANT}


@pytest.mark.parametrize("column", ["ts", "seen"])
def test_finer_times_name_the_stream_the_column_and_the_way_out(column: str) -> None:
    frame = pandas_frame()
    frame[column] += pd.to_timedelta(1, "ns")
    made = wm.Session()
    made.stream("a", frame, time="ts")
    made.stream("b", frame, time="ts", rounding="down")
    made.table("t", frame)
    with pytest.raises(DataError, match=f"stream 'a': column '{column}': 50 rows have times finer") as told:
        made.sql("SELECT * FROM a").to_arrow()
    assert "rounding = 'down'" in str(told.value)
    with pytest.raises(DataError, match=f"table 't': column '{column}'"):
        made.sql("SELECT t.k FROM b, t WHERE b.k = t.k").to_arrow()
    assert made.sql("SELECT * FROM b").to_arrow()["seen"][0].as_py() == datetime(2026, 1, 1)
    assert check(made.sql("SELECT ts, seen FROM b")).equal
