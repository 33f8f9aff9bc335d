"""The TPC-H queries on Spark: the same answers as DuckDB's. `make test-tpch` runs all of them, `make test` one."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.tpch.running import QUERIES, answer_by_duckdb, listed, script_of, streams, tables, undeclared
from watersmeet import Session

FEW = ("q20",)


@pytest.mark.parametrize("query", [pytest.param(one, marks=() if one in FEW else pytest.mark.soak) for one in QUERIES])
def test_the_answer_on_spark_is_that_of_duckdb(query: str, spark: SparkSession) -> None:
    session = Session(spark, buckets=2)
    for name, table in tables().items():
        if name in streams(tables()):
            session.stream(name, table, time="ts")
        else:
            session.table(name, table)
    assert listed(session.sql(undeclared(script_of(query))).final()) == answer_by_duckdb(query, tables())
