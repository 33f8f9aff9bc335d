"""Event times that are numbers or text: what may be said of them, from what they are read, and what is told if they are
none."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.runners import bag_of
from watersmeet.io.read_times import _from_digits
from watersmeet.io.time_ordered_files import _Reader
from watersmeet.model.catalog import Catalog
from watersmeet.model.time_format import time_format
from watersmeet.model.time_text import formats_of
from watersmeet.runtime.script import read_script

FIRST = dt.datetime(2024, 4, 5, 19, 34, 38)
MS = [1_712_345_678_000, 1_712_345_679_500, 1_712_345_681_000]
TABLE = pa.table({"k": [1, 2, 3], "ts": MS})
TEXT = pa.table({"k": [1, 2, 3], "ts": ["05.04.2024 19:34", None, "05.04.2024 19:35"]})
FORM = "%d.%m.%Y %H:%M"


def session(data: Any, **said: Any) -> wm.Session:
    made = wm.Session()
    made.stream("s", data, time=said.pop("time", "ts"), **said)
    return made


def rows(data: Any, **said: Any) -> list[dict[str, Any]]:
    return session(data, **said).sql("SELECT s.ts, s.k FROM s").to_arrow().to_pylist()


def times(data: Any, **said: Any) -> list[dt.datetime]:
    return [row["ts"] for row in rows(data, **said)]


def written(table: pa.Table, folder: Path, kind: str) -> str:
    path = folder / f"s.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=2)
    elif kind == "csv":
        table.to_pandas().to_csv(path, index=False)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return str(path)


@pytest.fixture(params=["parquet", "csv", "json"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[pa.Table], str]:
    return lambda table: written(table, tmp_path, request.param)


# ---- where they come from -------------------------------------------------------------------------------------------

EVERY_FORM: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "reader": lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(2)),
    "iterable": lambda table: iter(table.to_batches(2)),
    "list": lambda table: table.to_batches(2),
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
}


@pytest.mark.parametrize("form", EVERY_FORM)
def test_numbers_and_text_are_read_from_every_kind_of_data(form: str) -> None:
    numbers = times(EVERY_FORM[form](TABLE), time_unit="ms")
    assert numbers == [FIRST, FIRST + dt.timedelta(seconds=1.5), FIRST + dt.timedelta(seconds=3)]
    with pytest.warns(wm.DataWarning, match="skipped_rows: .*1 row of stream 's' has no event time"):
        text = times(EVERY_FORM[form](TEXT), time_format=FORM, on_null="skip")
    assert text == [dt.datetime(2024, 4, 5, 19, 34), dt.datetime(2024, 4, 5, 19, 35)]


@pytest.mark.parametrize("schema", [None, {"k": "BIGINT", "ts": "BIGINT"}, {"k": "INT", "ts": "TIMESTAMP"}])
@pytest.mark.parametrize("read", ["time", "arrival"])
def test_numbers_in_files_declared_or_not_are_timestamps(file, schema, read) -> None:  # type: ignore[no-untyped-def]
    if schema is not None and schema["k"] == "INT":
        schema = schema | {"k": "BIGINT"}
    backwards = TABLE.take([2, 0, 1])
    assert times(file(backwards), time_unit="ms", schema=schema, read=read, lateness="1 hour") == [
        FIRST + dt.timedelta(milliseconds=ms - MS[0]) for ms in (MS if read == "time" else backwards["ts"].to_pylist())
    ]


def test_text_in_files_has_a_format_and_a_zone(file: Callable[[pa.Table], str]) -> None:
    with pytest.warns(wm.DataWarning, match="skipped_rows"):
        found = times(file(TEXT), time_format=FORM, time_zone="Europe/Paris", on_null="skip")
    assert found == [dt.datetime(2024, 4, 5, 17, 34), dt.datetime(2024, 4, 5, 17, 35)]


def test_times_that_a_csv_file_holds_may_be_of_a_zone(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("k,ts\n1,2024-04-05 19:34:38\n2,2024-04-05 19:34:38.5Z\n")
    expected = [dt.datetime(2024, 4, 5, 17, 34, 38), dt.datetime(2024, 4, 5, 19, 34, 38, 500_000)]
    assert times(str(path), time_zone="Europe/Paris") == expected
    assert times(str(path), time_zone="Europe/Paris", schema={"k": "BIGINT", "ts": "TIMESTAMP"}) == expected


def test_numbers_with_a_fraction_are_exact_from_csv_and_the_nearest_microsecond_from_doubles(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("k,ts\n1,1712345678.123456\n2,1712345678.5\n3,1712345679\n")
    expected = [FIRST.replace(microsecond=us) for us in (123_456, 500_000)] + [FIRST + dt.timedelta(seconds=1)]
    assert times(str(path), time_unit="s") == expected
    doubles = pa.table({"k": [1, 2, 3], "ts": [1712345678.123456, 1712345678.5, 1712345679.0]})
    assert times(doubles, time_unit="s") == expected


def test_whole_numbers_may_be_followed_by_others_in_csv_and_where_that_is_declared_in_json(tmp_path: Path) -> None:
    many = [1_712_345_678] * 100_000 + [1_712_345_678.5]
    (tmp_path / "s.csv").write_text("ts,k\n" + "".join(f"{ts},1\n" for ts in many))
    (tmp_path / "s.json").write_text("".join(f'{{"ts": {ts}, "k": 1}}\n' for ts in many))
    for data, schema in (("s.csv", None), ("s.json", {"ts": "DOUBLE", "k": "INT"})):
        found = times(str(tmp_path / data), time_unit="s", schema=schema)
        assert (len(found), found[-1]) == (len(many), FIRST.replace(microsecond=500_000))


def test_words_that_stand_for_null_are_told_how_to_be_read_so(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("ts,k\n1712345678,1\nNA,2\n")
    with pytest.raises(wm.DataError, match=r"'NA' in row 2 of .*s.csv, which is not a number") as told:
        rows(str(tmp_path / "s.csv"), time_unit="s")
    assert "null_values = 'NA'" in str(told.value)


def test_years_and_days_written_as_one_number_have_a_format(file: Callable[[pa.Table], str]) -> None:
    days = pa.table({"k": [1], "ts": [20240405]})
    assert times(file(days), time_format="%Y%m%d") == [dt.datetime(2024, 4, 5)]
    assert times(days, time_format="%Y%m%d") == [dt.datetime(2024, 4, 5)]


def test_days_may_be_those_of_the_year() -> None:
    days = pa.table({"k": [1, 2], "ts": ["2024/060 12", "2023/060 12"]})
    assert times(days, time_format="%Y/%j %H") == [dt.datetime(2023, 3, 1, 12), dt.datetime(2024, 2, 29, 12)]
    with pytest.raises(wm.DataError, match="'2023/366'"):
        times(pa.table({"k": [1], "ts": ["2023/366"]}), time_format="%Y/%j")


def test_a_script_says_the_same_in_with(tmp_path: Path) -> None:
    catalog = Catalog()
    path = written(TEXT, tmp_path, "csv")
    told = f"time='TS', time_format='{FORM}', time_zone='Europe/Paris', on_null='skip'"
    read_script(f"CREATE STREAM s (k BIGINT, ts STRING) WITH (path='{path}', {told}); SELECT k FROM s", catalog)
    stream: Any = catalog.find("s")
    assert stream.schema.field("ts").type == pa.timestamp("us")
    assert str(stream.reading) == "text as %d.%m.%Y %H:%M, Europe/Paris"
    assert stream.arrival.skips_nulls


def test_a_declared_stream_is_explained_without_its_data() -> None:
    declared = "(k BIGINT, ts BIGINT) WITH (path='none.csv', time='ts', time_unit='ms')"
    (job,) = read_script(f"CREATE STREAM s {declared}; SELECT s.ts FROM s", open_sources=False)
    assert job.plan.schema.field("ts").type == pa.timestamp("us")


def test_a_schema_takes_some_columns_and_casts_them() -> None:
    given = pa.table({"x": ["?"], "k": pa.array([1], pa.int8()), "ts": pa.array([5], pa.timestamp("ns"))})
    made = wm.Session()
    made.stream("s", given, time="ts", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, rounding="down")
    made.table("t", given, schema=pa.schema({"k": pa.int32()}))
    answer = made.sql("SELECT * FROM s, t WHERE s.k = t.k").to_arrow()
    assert [str(kind) for kind in answer.schema.types] == ["int64", "timestamp[us]", "int32"]
    assert answer.num_rows == 1


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"k": "INTEGERS"}, "'INTEGERS' is not a type that column 'k' can have"),
        ({"z": "BIGINT"}, "declared with a column 'z'"),
        ({"k": "STRING"}, "declared STRING, but table of 3 rows has BIGINT"),
        ({}, "not columns with their types"),
        ([("k", "INT")], "not columns with their types"),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(schema: Any, told: str) -> None:
    with pytest.raises(wm.WatersmeetError, match=told):
        session(TABLE, time_unit="ms", schema=schema)


def test_row_groups_of_numbers_come_in_the_order_their_statistics_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    for number, start in enumerate((3000, -1000, 1000)):
        ts = pa.array([start + i for i in range(1000)], pa.int64())
        pq.write_table(pa.table({"k": ts, "ts": ts}), folder / f"{number}.parquet", row_group_size=300)
    looked: list[object] = []
    monkeypatch.setattr(_Reader, "look", lambda self, section: looked.append(section))
    found = [row["k"] for row in rows(str(folder), time_unit="s")]
    assert found == [*range(-1000, 0), *range(1000, 2000), *range(3000, 4000)]
    assert not looked


def test_a_query_runs_over_other_rows_that_are_written_alike_or_are_timestamps() -> None:
    query = session(TABLE, time_unit="ms").sql("SELECT s.ts FROM s")
    later = TABLE.set_column(1, "ts", pa.array([ms + 1000 for ms in MS]))
    timed = TABLE.set_column(1, "ts", pa.array(MS).cast(pa.timestamp("ms")))
    assert query.over({"s": later}).to_arrow()["ts"][0].as_py() == FIRST + dt.timedelta(seconds=1)
    assert query.over({"s": timed}).to_arrow()["ts"][0].as_py() == FIRST


def test_what_bounded_memory_lost_is_completed_with_the_same_times(tmp_path: Path) -> None:
    made = wm.Session()
    many = pa.table({"k": [i % 3 for i in range(200)], "ts": [1_712_345_678 + i for i in range(200)]})
    for name in ("a", "b"):
        made.stream(name, many, time="ts", time_unit="s")
    join = "SELECT a.ts, b.ts AS other FROM a, b WHERE a.k = b.k WINDOW = 30 SECONDS"
    exact = made.sql(join).to_arrow()
    query = made.sql(f"{join} OPTIONS (memory = '10 rows', shed = 'rand', archive = '{tmp_path}/archive')")
    given = query.to_arrow()
    assert given.num_rows < exact.num_rows
    whole = pa.concat_tables([given, wm.complete(tmp_path / "archive")])
    assert bag_of(whole) == bag_of(exact)


# ---- rows without a time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["time", "arrival"])
def test_rows_without_a_time_are_an_error_or_skipped_and_counted(file, read) -> None:  # type: ignore[no-untyped-def]
    path = file(pa.concat_tables([TEXT, TEXT.slice(1, 1), TEXT]))
    with pytest.raises(wm.DataError, match=r"the event time 'ts' is NULL in \d of \d rows \(in .*s\.") as told:
        rows(path, time_format=FORM, read="time")
    assert "on_null = 'skip'" in str(told.value)
    query = session(path, time_format=FORM, on_null="skip", read=read, lateness="1 hour").sql("SELECT k FROM s")
    with pytest.warns(
        wm.DataWarning, match="skipped_rows: .*3 rows of stream 's' have no event time and were left out"
    ):
        assert query.to_arrow().num_rows == 4
    metrics = query.metrics()
    assert (metrics["rows_in"], metrics["skipped_rows"], metrics["skipped_by_stream"]) == (7, 3, {"s": 3})


def test_files_and_row_groups_of_nothing_but_nulls_are_counted_once(tmp_path: Path) -> None:
    for number, column in enumerate(([None, None, 5, None], [None], [1, 2])):
        ts = pa.array(column, pa.timestamp("us"))
        pq.write_table(pa.table({"k": range(len(ts)), "ts": ts}), tmp_path / f"{number}.parquet", row_group_size=2)
    query = session(str(tmp_path), on_null="skip").sql("SELECT s.ts FROM s")
    with pytest.warns(wm.DataWarning, match="skipped_rows"):
        assert query.to_arrow()["ts"].cast(pa.int64()).to_pylist() == [1, 2, 5]
    assert query.metrics()["skipped_rows"] == 4


def test_a_check_and_advice_leave_out_rows_without_a_time() -> None:
    made = session(TEXT, time_format=FORM, on_null="skip")
    made.stream("t", TEXT, time="ts", time_format=FORM, on_null="skip")
    query = made.sql("SELECT s.k FROM s, t WHERE s.k = t.k WINDOW = 5 SECONDS")
    assert wm.check(query).equal
    with pytest.warns(wm.DataWarning, match="skipped_rows"):
        query.advise(sample=100, seconds=0.5)


# ---- what is refused ------------------------------------------------------------------------------------------------

NOTHING_SAID: list[tuple[Any, str, str]] = [
    (1_712_345_678, "BIGINT", "say time_unit = 's': its first value, 1712345678, is then 2024-04-05 19:34:38 (UTC)"),
    (1_712_345_678_123, "BIGINT", "say time_unit = 'ms'"),
    (1_712_345_678_123_456, "BIGINT", "say time_unit = 'us'"),
    (1_712_345_678_123_456_789, "BIGINT", "say time_unit = 'ns'"),
    (1_712_345_678.5, "DOUBLE", "say time_unit = 's'"),
    (17, "int64", "say what it counts since 1970: time_unit = 's', 'ms', 'us' or 'ns'"),
    ("1712345678123", "STRING", "say time_unit = 'ms'"),
    ("31.01.2024 12:00", "STRING", "say time_format = '%d.%m.%Y %H:%M'"),
    ("01/02/2024", "STRING", "say time_format = '%d/%m/%Y' or '%m/%d/%Y'"),
    ("2024-01-31T12:00:00.5Z", "STRING", "say time_format = 'iso': its first value is '2024-01-31T12:00:00.5Z'"),
    ("noon", "STRING", "say how it is written, time_format = '…' as in Python's strptime; its first value is 'noon'"),
    (True, "bool", "cast it to a timestamp"),
    (dt.date(2024, 1, 1), "date32", "declare it TIMESTAMP"),
]


@pytest.mark.parametrize(("value", "kind", "hint"), NOTHING_SAID, ids=str)
def test_a_column_of_which_nothing_is_said_is_refused_with_what_to_write(value: Any, kind: str, hint: str) -> None:
    with pytest.raises(wm.CatalogError, match=rf"'ts' of stream 's' is {kind}.*, not a timestamp") as told:
        session(pa.table({"k": [0, 1], "ts": [None, value]}))
    assert hint in str(told.value)


def test_the_same_is_said_of_files_at_the_place_in_the_script(file: Callable[[pa.Table], str]) -> None:
    script = f"CREATE STREAM s WITH (path='{file(TABLE)}', time='ts'); SELECT k FROM s"
    with pytest.raises(wm.BindError, match=r"say time_unit = 'ms'") as told:
        read_script(script)
    assert "line 1: CREATE STREAM s" in str(told.value)


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (1_712_345_678_123, "s", r"1712345678123 in row 2.* year 56232 in seconds[\s\S]*did you mean time_unit='ms'\?"),
        (1_712_345_678_123_456, "ms", r"did you mean time_unit='us'\?"),
        (1_712_345_678_123_456, "s", r"did you mean time_unit='us'\?"),
        (10**18, "s", r"in seconds.*did you mean time_unit='ns'\?"),
        (2**62, "s", r"in seconds is further off than this system can count"),
        (1_712_345_678_123_456_789, "ns", r"finer than a microsecond[\s\S]*rounding = 'down'"),
        (float("nan"), "s", r"nan in row 2, which is no time"),
        ("noon", "s", r"'noon' in row 2, which is not a number of seconds"),
    ],
)
def test_a_number_that_is_no_time_is_told_with_its_row(value: Any, unit: str, told: str) -> None:
    with pytest.raises(wm.DataError, match=r"(?s)stream 's': the event time 'ts' is .*" + told):
        session(pa.table({"k": [0, 1], "ts": [None, value]}), time_unit=unit)


def test_numbers_that_would_be_of_these_days_in_a_coarser_unit_are_doubted(file: Callable[[pa.Table], str]) -> None:
    seconds = pa.table({"k": [1], "ts": [1_712_345_678]})
    for data in (seconds, file(seconds)):
        with pytest.warns(
            wm.DataWarning, match=r"time_unit: .*1970-01-20 .* did you mean time_unit='s'\? That is 2024-04-05"
        ):
            session(data, time_unit="ms")


@pytest.mark.parametrize("value", ["2024-02-30", "2024-13-01", "24-01-01", "2024-01-01 ", "noon", "2024-01-01x"])
def test_text_that_is_not_written_as_said_is_told_with_its_row_and_file(
    file: Callable[[pa.Table], str], value: str
) -> None:
    some = pa.table({"k": [1, 2, 3], "ts": ["2024-01-01", "2024-01-02", value]})
    with pytest.raises(wm.DataError, match=r"in row 3 of .*s\.\w+, which is not written as '%Y-%m-%d'") as told:
        rows(file(some), time_format="%Y-%m-%d")
    assert repr(value) in str(told.value)


def test_a_format_that_would_do_is_named() -> None:
    with pytest.raises(wm.DataError, match=r"say time_format = '%d.%m.%Y %H:%M', which reads all of these rows"):
        rows(TEXT, time_format="iso")


WITH_AND_WITHOUT = ["2024-01-31 12:00:00.5", "2024-01-31 12:00:01", "2024-01-31T12:00:02.25"]


@pytest.mark.parametrize("first", range(len(WITH_AND_WITHOUT)))
def test_hints_lead_to_a_format_that_reads_all_rows(file: Callable[[pa.Table], str], first: int) -> None:
    """Whatever is said first, the next hint is the last."""
    texts = [*WITH_AND_WITHOUT[first:], *WITH_AND_WITHOUT[:first]]
    table = pa.table({"k": [0, 1, 2], "ts": texts})
    for data in (table, file(table)):
        if not str(data).endswith(".csv"):  # where Arrow takes such texts for times by itself
            with pytest.raises(wm.CatalogError, match=r"say time_format = 'iso'"):
                session(data)
        for said in ("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f"):
            with pytest.raises(wm.DataError, match=r"say time_format = 'iso', which reads all of these rows"):
                rows(data, time_format=said)
        assert len(rows(data, time_format="iso")) == 3


def test_no_format_is_named_that_fails_on_rows_that_were_seen() -> None:
    both = pa.table({"k": [0, 1], "ts": ["31.01.2024 12:00:00.5", "31.01.2024 12:00:01"]})
    with pytest.raises(wm.CatalogError) as told:
        session(both)
    assert "no one format reads both '31.01.2024 12:00:00.5' and '31.01.2024 12:00:01'" in str(told.value)
    for said in ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S.%f"):
        with pytest.raises(wm.DataError) as refused:
            rows(both, time_format=said)
        assert "say time_format" not in str(refused.value)
    # The days tell which of the two it is.
    with pytest.raises(wm.CatalogError, match=r"say time_format = '%m/%d/%Y': "):
        session(pa.table({"k": [0, 1], "ts": ["01/02/2024", "01/31/2024"]}))


def test_a_later_batch_leads_to_no_format_that_earlier_rows_lack() -> None:
    dotted = [pa.record_batch({"k": [1], "ts": [text]}) for text in ("31.01.2024 12:00:00.5", "31.01.2024 12:00:01")]
    with pytest.raises(wm.DataError) as told:
        rows(iter(dotted), time_format="%d.%m.%Y %H:%M:%S.%f")
    assert "say time_format" not in str(told.value)


def test_a_local_time_that_clocks_skip_is_an_error_and_one_they_show_twice_the_first() -> None:
    skipped = pa.table({"k": [1], "ts": ["2024-03-31 02:30"]})
    said = {"time_format": "%Y-%m-%d %H:%M", "time_zone": "Europe/Paris"}
    with pytest.raises(wm.DataError, match=r"does not exist in Europe/Paris: clocks skip it there"):
        rows(skipped, **said)
    twice = pa.table({"k": [1], "ts": ["2024-10-27 02:30"]})
    assert times(twice, **said) == [dt.datetime(2024, 10, 27, 0, 30)]


TIMED = pa.table({"k": [1], "ts": [FIRST]})


@pytest.mark.parametrize(
    ("data", "said", "told"),
    [
        (TABLE, {"time_unit": "fortnights"}, "'fortnights' is not one of 's', 'ms', 'us', 'ns'"),
        (TABLE, {"time_unit": "ms", "time_format": "iso"}, "say one of them"),
        (TABLE, {"time_unit": "ms", "time_zone": "UTC"}, "time_zone means nothing"),
        (TEXT, {"time_format": f"{FORM}%z", "time_zone": "UTC"}, "an offset of its own"),
        (TEXT, {"time_zone": "Europe/Paris"}, "time_zone alone does not say how it is written"),
        (TIMED, {"time_zone": "Europe/Paris"}, "time_zone = 'Europe/Paris' means nothing"),
        (TIMED, {"time_unit": "ms"}, r"is TIMESTAMP, for which time_unit = 'ms' means nothing\nhint: leave"),
        (TIMED, {"time_format": "iso"}, "time_format = 'iso' means nothing"),
        (TABLE, {"time_unit": "ms", "time": "no"}, "has no column 'no'"),
        (TABLE, {"time_format": "%s"}, "seconds since 1970 are said by time_unit = 's'"),
        (TABLE, {"on_null": "drop"}, "'drop' is not one of 'error', 'skip'"),
        (pa.table({"k": [1], "ts": [1.5]}), {"time_format": "iso"}, "is DOUBLE, which time_format = 'iso' cannot read"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(data: pa.Table, said: dict[str, str], told: str) -> None:
    with pytest.raises(wm.CatalogError, match=told):
        session(data, **said)


def test_a_script_points_at_what_is_wrong() -> None:
    script = "CREATE STREAM s (ts BIGINT) WITH (path='x.csv', time='ts', {}); SELECT ts FROM s"
    for said, told in (
        ("time_unit='eon'", "time_unit: 'eon' is not one of"),
        ("time_format='yyyy-MM-dd HH:mm:ss.SSS'", "this is a form of ISO 8601: 'iso' reads it, with a fraction"),
        ("time_zone='Mars'", "time_zone: 'Mars' is not the name of a time zone"),
        ("time_unit='s', time_format='iso'", "say one of them"),
        ("time_units='s'", "did you mean time_unit"),
    ):
        with pytest.raises(wm.OptionError, match=told) as error:
            read_script(script.format(said), open_sources=False)
        assert "^^^" in str(error.value)
    with pytest.raises(wm.OptionError, match="has no option 'time_unit'"):
        read_script("CREATE TABLE t (k INT) WITH (path='x.csv', time_unit='s'); SELECT k FROM t", open_sources=False)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("%H:%M", "does not say which day it is"),
        ("%Y-%m-%d %Q", "%Q, which is not known"),
        ("%Y-%m-%d %I", "hours of half a day need AM or PM"),
        ("%Y-%Y-%m-%d", "%Y twice"),
        ("%Y-%m-%d %S", "%S without %M"),
        ("%Y-%j-%d", "which say the same"),
        ("YYYY-MM-DD HH24:MI:SS", "this is a form of ISO 8601: 'iso' reads it"),
        ("dd.MM.yyyy", "here '%d.%m.%Y'"),
        ("whenever", "or 'iso' for any form of ISO 8601"),
    ],
)
def test_a_format_that_is_none_is_refused_with_one_that_would_do(form: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        time_format(form)


def test_a_hint_finds_the_format_of_a_text() -> None:
    assert list(formats_of(pa.array(["Fri, 05 Apr 2024 19:34:38 +0000"]))) == ["%a, %d %b %Y %H:%M:%S %z"]
    assert list(formats_of(pa.array(["05/Apr/2024:19:34:38 +0000"]))) == ["%d/%b/%Y:%H:%M:%S %z"]
    assert not list(formats_of(pa.array(["2024-02-30"])))


def test_a_frame_with_missing_numbers_has_doubles_which_are_read_as_well() -> None:
    frame = pd.DataFrame({"k": [1, 2], "ts": [MS[0], None]})
    with pytest.warns(wm.DataWarning, match="skipped_rows"):
        assert times(frame, time_unit="ms", on_null="skip") == [FIRST]


def test_seconds_with_digits_that_long_division_gets_wrong_are_read() -> None:
    # Arrow's own floor of 2**63 / 10**12 seconds, and of numbers like it, is off by some.
    digits = [((1 << bits) - less) * 10**zeros for bits in range(1, 60) for less in (0, 1, 2) for zeros in range(12)]
    given = [Decimal(one).scaleb(-12) for one in digits if one < 10**21]
    column = pa.array(given, pa.decimal128(30, 12))
    read = _from_digits(column, "s")
    assert not read.wrong.any()
    assert read.times.tolist() == [int(one * 1_000_000 // 1) for one in given]
