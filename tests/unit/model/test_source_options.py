"""Options of streams and tables that nothing reads are refused, with the nearest known name and the place."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from tests.unit.declared import AsSpark
from watersmeet import Session
from watersmeet.errors import CatalogError, OptionError
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.model.declaration import Declaration
from watersmeet.model.time import parse_interval
from watersmeet.runtime.declaring import declare, open_in_process
from watersmeet.runtime.script import read_script


def declared(options: str, *, on_spark: bool = False, kind: str = "STREAM") -> Stream:
    catalog = Catalog()
    text = f"CREATE {kind} a (k BIGINT, ts TIMESTAMP) WITH ({options});\nSELECT k FROM a"
    read_script(text, catalog, open_sources=False, opener=AsSpark() if on_spark else open_in_process)
    found = catalog.find("a")
    assert isinstance(found, Stream)
    return found


@pytest.mark.parametrize("on_spark", [False, True])
@pytest.mark.parametrize(
    ("options", "wrong", "meant"),
    [
        ("source='parquet', path='x', time='ts', latenes='2 seconds'", "latenes", "lateness"),
        ("source='csv', path='x', time='ts', delimeter=';'", "delimeter", "delimiter"),
        ("path='x.csv', time='ts', Heder='true'", "Heder", "header"),
        ("source='json', path='x', tiem='ts'", "tiem", "time"),
    ],
)
def test_a_misspelt_option_is_refused_with_the_nearest_name(
    options: str, wrong: str, meant: str, on_spark: bool
) -> None:
    with pytest.raises(OptionError, match=f"no option '{wrong}'") as refused:
        declared(options, on_spark=on_spark)
    assert f"did you mean {meant}?" in str(refused.value)
    assert "^^^" in str(refused.value)


def test_an_option_of_another_format_is_refused() -> None:
    with pytest.raises(OptionError, match="no option 'delimiter'"):
        declared("source='parquet', path='x', time='ts', delimiter=';'")


def test_options_of_sparks_reader_are_for_spark() -> None:
    declared("source='csv', path='x', time='ts', nullValue='NA'", on_spark=True)
    with pytest.raises(OptionError, match="in-process nothing reads it"):
        declared("source='csv', path='x', time='ts', nullValue='NA'")


def test_what_only_sets_the_pace_is_passed_over_in_process() -> None:
    declared("source='parquet', path='x', time='ts', maxFilesPerTrigger='1'")


def test_any_other_name_goes_to_spark_if_it_says_so() -> None:
    declared("source='csv', path='x', time='ts', 'spark.brandNew'='1'", on_spark=True)
    with pytest.raises(OptionError, match=r"write 'spark\.brandNew'"):
        declared("source='csv', path='x', time='ts', brandNew='1'", on_spark=True)


def test_a_format_that_others_brought_knows_its_own_options() -> None:
    declared("source='hudi', path='x', time='ts', startingVersion='3'", on_spark=True)
    with pytest.raises(OptionError, match="did you mean lateness"):
        declared("source='delta', path='x', time='ts', latenes='3 s'", on_spark=True)


def test_how_rows_arrive_is_read_once() -> None:
    options = "lateness='2 seconds', read='arrival', on_late='error', idle='30 seconds', max_future='1 hour'"
    stream = declared(f"source='parquet', path='x', time='ts', rounding='down', {options}")
    arrival = stream.arrival
    assert (stream.lateness_us, arrival.read, arrival.on_late) == (2_000_000, "arrival", "error")
    assert (arrival.idle_us, arrival.max_future_us, stream.rounding) == (30_000_000, 3_600_000_000, "down")
    assert arrival.says_lateness
    assert not declared("source='parquet', path='x', time='ts'").arrival.says_lateness


@pytest.mark.parametrize(
    ("option", "value"),
    [("lateness", "-1 s"), ("read", "random"), ("on_late", "drop"), ("idle", "0 s"), ("max_future", "soon")],
)
def test_a_value_that_makes_no_sense_is_refused_by_both_ways_to_declare(option: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"{option}: "):
        declared(f"source='parquet', path='x', time='ts', {option}='{value}'")
    with pytest.raises(CatalogError, match=f"the {option} of 'a': "):
        Session().stream("a", one_row(), time="ts", **{option: value})


def test_intervals_may_be_timedeltas() -> None:
    session = Session()
    session.stream("a", one_row(), time="ts", lateness=timedelta(seconds=2), idle=timedelta(minutes=1))
    stream = session.catalog.find("a")
    assert isinstance(stream, Stream)
    assert (stream.lateness_us, stream.arrival.idle_us) == (2_000_000, 60_000_000)
    with pytest.raises(CatalogError, match="5 is not an interval"):
        session.stream("b", one_row(), time="ts", lateness=5)  # type: ignore[arg-type]


def one_row() -> pa.Table:
    return pa.table({"k": [1], "ts": pa.array([0], pa.timestamp("us"))})


@pytest.mark.parametrize("text", ["30 seconds and", "30 seconds,", "1 hourss", "and 30 seconds"])
def test_an_interval_has_nothing_left_over(text: str) -> None:
    with pytest.raises(ValueError, match="is not an interval"):
        parse_interval(text)


def test_an_interval_may_be_written_as_people_do() -> None:
    assert parse_interval("1 hour, 2 mins and 3 secs") == 3_723_000_000


def test_a_table_of_files_is_not_loaded_again_on_spark() -> None:
    table = "path='x.csv', reload='5 minutes'"
    with pytest.raises(OptionError, match="'a' says reload, but on Spark a table is loaded once") as refused:
        declared(table, on_spark=True, kind="TABLE")
    assert "^^^" in str(refused.value)


def test_what_a_host_cannot_do_is_refused_of_rows_that_are_given_too() -> None:
    given = Declaration.in_python("stream", "a", {"time": "ts", "max_drift": timedelta(minutes=1)}, data=one_row())
    with pytest.raises(CatalogError, match="'a' says max_drift, which is for streams that are read in-process"):
        declare(given, Catalog(), opener=AsSpark())
    declare(given, Catalog())


def test_a_rate_is_of_streams() -> None:
    with pytest.raises(OptionError, match="'a' has no option 'rate'"):
        declared("path='x.csv', rate='5/s'", kind="TABLE")


@pytest.mark.parametrize(("value", "said"), [(0.5, 0.5), ("30 per minute", 0.5)])
def test_what_python_gives_is_read_as_it_is(value: object, said: float) -> None:
    session = Session()
    session.stream("a", one_row(), time="ts", rate=value, distinct={"k": 2.5}, unique=["k"], key=("k",))  # type: ignore[arg-type]
    stream = session.catalog.find("a")
    assert isinstance(stream, Stream)
    assert stream.statistics.rows_per_second == said
    assert (stream.statistics.distinct, stream.statistics.unique) == ({"k": 2.5}, ("k",))


def test_a_sink_beside_answers_is_checked_in_a_session_too() -> None:
    with pytest.raises(OptionError, match="'late' has no option 'delimeter'"):
        Session().sql("CREATE SINK late WITH (path='late.csv', delimeter=';')")
