"""A change log applied to a table keyed by the group, batch by batch."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.spark.harness import cut, streaming_session, with_sentinels, write_arrivals
from tests.spark.test_continuous import two_streams
from watersmeet.errors import OptionError
from watersmeet.hosts.spark.writing.tables import ParquetTable, latest
from watersmeet.session import Session


def at(second: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, 0, 0, second)


def changes(spark, *rows):
    columns = "_op string, _ts timestamp, region string, n long"
    return spark.createDataFrame([(op, at(second), region, n) for op, second, region, n in rows], columns)


def held(table, spark):
    return {row.region: row.n for row in table.read(spark).collect()}


def test_the_table_holds_the_last_row_of_every_key_and_a_repeated_batch_changes_nothing(spark, tmp_path):
    table = ParquetTable(str(tmp_path / "regions"), ["region"])
    with pytest.raises(OptionError, match="holds no table yet"):
        table.read(spark)
    first = changes(spark, ("+", 1, "north", 1), ("+", 1, None, 7), ("-", 2, "north", 1), ("+", 2, "north", 2))
    table.apply(first, 0)
    assert held(table, spark) == {"north": 2, None: 7}
    second = changes(spark, ("-", 3, "north", 2), ("+", 3, "south", 5), ("-", 4, None, 7), ("+", 4, None, 8))
    before = table.read(spark)  # not computed yet
    table.apply(second, 1)
    assert held(table, spark) == {"south": 5, None: 8}
    assert {row.region: row.n for row in before.collect()} == {"north": 2, None: 7}
    table.apply(first, 0)
    table.apply(second, 1)
    assert held(table, spark) == {"south": 5, None: 8}
    table.apply(changes(spark, ("+", 1, "gone", 0)).limit(0), 2)
    assert sorted(path.name for path in (tmp_path / "regions").glob("batch-*")) == ["batch-00000000", "batch-00000001"]
    table.apply(changes(spark, ("-", 5, "south", 5)), 3)
    assert held(table, spark) == {None: 8}
    assert sorted(path.name for path in (tmp_path / "regions").glob("batch-*")) == ["batch-00000001", "batch-00000003"]


def test_the_latest_state_of_a_key_is_its_last_entry_or_that_it_is_gone(spark):
    log = changes(spark, ("+", 1, "a", 1), ("-", 5, "a", 1), ("+", 5, "a", 2), ("+", 1, "b", 1), ("-", 9, "b", 1))
    found = {row.region: (row["_op"], row.n) for row in latest(log, ["region"]).collect()}
    assert found == {"a": ("+", 2), "b": ("-", 1)}


def test_a_streaming_query_keeps_a_table_batch_by_batch(spark, tmp_path):
    (source,) = (one for one in two_streams(60, 5) if one.name == "a")
    pieces = with_sentinels([source], {"a": cut(source.table, [25, 20, 15])})
    write_arrivals(tmp_path / "a", pieces["a"])
    query = streaming_session(spark, [source], tmp_path, 2).sql(
        "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [UNBOUNDED] GROUP BY k"
    )
    table = ParquetTable(str(tmp_path / "table"), ["k"])
    writer = query.dataframe().writeStream.foreachBatch(table.apply)
    writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start().awaitTermination()
    local = Session()
    local.stream("a", source.table, time="ts")
    expected = {row["k"]: (row["n"], row["total"]) for row in local.sql(query.plan.sql).final().to_pylist()}
    assert {row.k: (row.n, row.total) for row in table.read(spark).collect()} == expected
    assert query.metrics()["rows_in"] == 61


@pytest.mark.parametrize(
    ("columns", "key", "words"),
    [
        ("region string, n long", ["region"], "no change log"),
        ("_op string, _ts timestamp, region string", [], "needs a key"),
        ("_op string, _ts timestamp, region string", ["shop"], "'shop' is not among the columns"),
    ],
)
def test_a_table_says_what_it_misses(spark, columns, key, words):
    with pytest.raises(OptionError, match=words):
        latest(spark.createDataFrame([], columns), key)
