"""A checkpoint in a store is held by one start on Spark, too, and a later start goes on as the checkpoint was made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lakes.store import Store, server
from watersmeet.errors import RunError, SetupError
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.io.holding import Holding
from watersmeet.runtime.run_settings import RunSettings

SCRIPT = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = 'csv', path = '{folder}/in', time = 'ts');
CREATE SINK out WITH (sink = 'parquet', path = '{folder}/out') AS
SELECT a.k FROM s a, s b WHERE a.k = b.k WINDOW = 1 SECOND;
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("k,ts\n1,2026-01-01 00:00:00\n")
    return SCRIPT.format(folder=tmp_path)


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with server() as endpoint:
        ways = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": endpoint}
        for name, value in {**ways, "AWS_REGION": "us-east-1"}.items():
            monkeypatch.setenv(name, value)
        yield f"s3a://{Store(endpoint).bucket}/checkpoint"


@pytest.mark.lakes
def test_a_start_is_refused_while_another_holds_the_checkpoint(spark: SparkSession, script: str, address: str) -> None:
    """This Spark has no jars for S3, which is only found out by who holds the checkpoint."""
    run = SparkRun(spark, script, RunSettings(available_now=True, buckets=2, checkpoint=address))
    other = Holding(address)
    with pytest.raises(RunError, match=r"another run is using the checkpoint s3a://.*: process "):
        run.run()
    other.release()
    with pytest.raises(SetupError, match=r"the checkpoint s3a://.* cannot be read"):
        run.run()
    Holding(address).release()  # nobody holds it any more


def test_a_later_start_goes_on_in_as_many_buckets_as_the_first(
    spark: SparkSession, script: str, tmp_path: Path
) -> None:
    """However many cores there are by then."""
    checkpoint = str(tmp_path / "checkpoint")
    SparkRun(spark, script, RunSettings(available_now=True, buckets=3, checkpoint=checkpoint)).run()
    later = SparkRun(spark, script, RunSettings(available_now=True, checkpoint=checkpoint))
    assert later.buckets == 3
    later.run()
    with pytest.raises(SetupError, match="was made with 3 buckets, and this run has 2"):
        SparkRun(spark, script, RunSettings(available_now=True, buckets=2, checkpoint=checkpoint)).run()
