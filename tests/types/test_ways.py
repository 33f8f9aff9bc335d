"""Every type comes in and goes out: from tables and files, by pushes, through a checkpoint, into sinks and frames."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.types.kinds import KINDS, OF_A, Kind, stream

NESTED = [name for name, kind in KINDS.items() if kind.is_nested]
# Parquet has no such types.
NOT_IN_PARQUET = [name for name in KINDS if name.startswith("run-end")] + ["interval", "list_view", "large_list_view"]


def ranks(kind: Kind, found: pa.Table) -> list[int | None]:
    return [None if value is None else kind.rank(value) for value in found["v"].to_pylist()]


def pushed(kind: Kind, query: str, **durable: Any) -> wm.Query:
    session = wm.Session()
    for name in "ab":
        session.stream(name, schema=stream(kind, OF_A).schema, time="ts")
    return session.sql(query)


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_pushed_as_they_were_declared(name: str) -> None:
    kind, rows = KINDS[name], stream(KINDS[name], OF_A)
    for given in (rows, rows.to_batches()[0], {column: rows[column] for column in rows.column_names}):
        with pushed(kind, "SELECT id, v FROM a").start() as run:
            run.push("a", given)
            run.finish()
            found = run.take()
        assert ranks(kind, found) == rows["r"].to_pylist()


@pytest.mark.parametrize("name", KINDS)
def test_values_are_kept_in_a_checkpoint(name: str, tmp_path: Path) -> None:
    kind, rows = KINDS[name], stream(KINDS[name], OF_A)
    query = pushed(kind, "SELECT a.id, b.v AS v FROM a, b WHERE a.id = b.id WINDOW = 1 HOUR")
    with query.start(checkpoint=tmp_path, save_every="1 millisecond") as run:
        run.push("b", rows)
    with query.start(checkpoint=tmp_path) as run:
        run.push("a", rows)
        run.finish()
        found = run.take(timeout=5)
    assert ranks(kind, found.sort_by("id")) == rows["r"].to_pylist()


@pytest.mark.parametrize("name", KINDS)
def test_what_a_sink_has_written_is_what_was_selected(name: str, tmp_path: Path) -> None:
    kind, session = KINDS[name], wm.Session()
    session.stream("a", stream(kind, OF_A), time="ts")
    for format_ in ("parquet", "json", *(["csv"] if name not in NESTED else [])):
        where = f"sink = '{format_}', path = '{tmp_path}/out.{format_}'"
        session.run(f"CREATE SINK {format_} WITH ({where}) AS SELECT id, v FROM a")
    assert ranks(kind, pa_parquet.read_table(tmp_path / "out.parquet")) == stream(kind, OF_A)["r"].to_pylist()
    assert duckdb.read_json(str(tmp_path / "out.json")).shape == (len(OF_A), 2)
    if name not in NESTED:
        assert len((tmp_path / "out.csv").read_text().splitlines()) == len(OF_A) + 1


@pytest.mark.parametrize("name", [name for name in KINDS if name not in NOT_IN_PARQUET])
def test_columns_of_parquet_files_have_the_same_types(name: str, tmp_path: Path) -> None:
    kind, rows = KINDS[name], stream(KINDS[name], OF_A)
    pa_parquet.write_table(rows, tmp_path / "a.parquet")
    session = wm.Session()
    session.stream("a", str(tmp_path / "a.parquet"), time="ts")
    assert ranks(kind, session.sql("SELECT v FROM a").to_arrow()) == rows["r"].to_pylist()


# ---- intervals ------------------------------------------------------------------------------------------------------


def spans(*written: str) -> pa.Table:
    """Intervals as DuckDB gives them."""
    listed = ", ".join(f"({second}, INTERVAL '{span}')" for second, span in enumerate(written))
    return duckdb.sql(
        f"SELECT make_timestamp(s * 1000000) AS ts, i FROM (VALUES {listed}) AS t (s, i)"
    ).to_arrow_table()


def test_intervals_of_duckdb_are_intervals() -> None:
    table = spans("1 day", "24 hours", "90 minutes")
    assert table.schema.field("i").type == pa.month_day_nano_interval()
    session = wm.Session()
    session.stream("a", table, time="ts")
    groups = session.sql("SELECT i, COUNT(*) AS n, MAX(ts + i) AS last FROM a [RANGE 1 HOUR] GROUP BY i").final()
    found = {row["i"]: (row["n"], row["last"].hour) for row in groups.to_pylist()}
    assert found == {timedelta(days=1): (2, 0), timedelta(minutes=90): (1, 1)}
    assert session.sql("SELECT i FROM a WHERE i > INTERVAL 2 HOURS").to_arrow().num_rows == 2


def test_an_interval_of_months_is_refused_by_its_column_and_value() -> None:
    session = wm.Session()
    session.stream("a", spans("1 day", "1 month 2 days"), time="ts")
    with pytest.raises(wm.errors.DataError) as told:
        session.sql("SELECT i FROM a").to_arrow()
    assert told.value.message == (
        "stream 'a': column 'i': an interval of months has no fixed length: 1 months, 2 days, 0 ns"
    )


@pytest.mark.parametrize(("rounding", "found"), [("error", None), ("down", [timedelta(microseconds=-1)])])
def test_digits_below_a_microsecond_are_treated_as_those_of_times(rounding: str, found: object) -> None:
    fine = pa.array([(0, 0, -1)], pa.month_day_nano_interval())
    session = wm.Session()
    table = pa.table({"ts": pa.array([0], pa.timestamp("us")), "i": fine, "t": pa.array([1], pa.time64("ns"))})
    session.stream("a", table, time="ts", rounding=rounding)
    if found is None:
        for column in "it":
            with pytest.raises(wm.errors.DataError, match="finer than a microsecond"):
                session.sql(f"SELECT {column} FROM a").to_arrow()
    else:
        assert session.sql("SELECT i FROM a").to_arrow()["i"].to_pylist() == found


# ---- functions of one's own -----------------------------------------------------------------------------------------


def made(kind: pa.DataType, value: object) -> wm.Session:
    session = wm.Session()
    ts = pa.array(range(3), pa.timestamp("s"))
    session.stream("a", pa.table({"ts": ts, "k": pa.array([1, 2, 1], pa.int64())}), time="ts")
    session.aggregate("mine", lambda k: pa.scalar(value, kind), ["BIGINT"], kind)
    session.function("each", lambda k: pa.array([value] * len(k), kind), ["BIGINT"], kind)
    return session


@pytest.mark.parametrize(
    ("kind", "value", "inside"),
    [
        (pa.month_day_nano_interval(), (0, 1, 0), timedelta(days=1)),
        (pa.decimal32(5, 2), Decimal("1.50"), Decimal("1.50")),
        (pa.float16(), 1.5, 1.5),
        (pa.large_string(), "x", "x"),
    ],
    ids=str,
)
def test_what_a_function_returns_is_grouped_and_counted(kind: pa.DataType, value: object, inside: object) -> None:
    session = made(kind, value)
    window = "a [RANGE 1 HOUR]"
    grouped = session.sql(f"SELECT each(k) AS v, COUNT(*) AS n FROM {window} GROUP BY each(k)").final()
    assert grouped.to_pylist() == [{"v": inside, "n": 3}]
    assert session.sql(f"SELECT mine(k) AS v FROM {window}").final().to_pylist() == [{"v": inside}]


def test_what_no_query_reads_cannot_be_returned() -> None:
    with pytest.raises(wm.errors.CatalogError, match=r"the result of aggregate mine has the Arrow type decimal256"):
        made(pa.decimal256(60, 2), Decimal(1))


def test_lists_of_aggregates_are_taken_apart_and_counted() -> None:
    session = made(pa.list_(pa.int64()), [1, 2])
    window = "a [RANGE 1 HOUR]"
    ranked = f"SELECT mine(k)[1] AS v, RANK() OVER (ORDER BY mine(k)[2]) AS r FROM {window} GROUP BY k"
    assert session.sql(ranked).final().to_pylist() == [{"v": 1, "r": 1}, {"v": 1, "r": 1}]
    assert session.sql(f"SELECT mine(k) AS v FROM {window}").final().to_pylist() == [{"v": [1, 2]}]
    for sql, answer in (
        (f"SELECT k, LAG(mine(k)) OVER (ORDER BY k)[1] AS v FROM {window} GROUP BY k", [(1, None), (2, 1)]),
        (f"SELECT FIRST(each(k))[1] AS v FROM {window}", [(1,)]),
        (f"SELECT COUNT(DISTINCT each(k)) AS v FROM {window}", [(1,)]),
        (f"SELECT ARG_MAX(each(k), k)[1] AS v FROM {window}", [(1,)]),
    ):
        assert [tuple(row.values()) for row in session.sql(sql).final().to_pylist()] == answer
