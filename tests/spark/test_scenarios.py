"""Every scenario also holds on Spark: as batch DataFrames, and a sample of them as streams of files."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from tests.runners import Bag, Runner, Source
from tests.scenarios import test_papers, test_streams, test_windows
from tests.spark.harness import by_spark_batch

for _module in (test_papers, test_streams, test_windows):
    for _name, _test in vars(_module).items():
        if _name.startswith("test_") and "run" in inspect.signature(_test).parameters:
            globals()[_name] = _test


@pytest.fixture
def run(spark: SparkSession) -> Runner:
    def on_spark(sql: str, sources: Sequence[Source]) -> Bag:
        return by_spark_batch(spark, sql, sources)

    return on_spark
