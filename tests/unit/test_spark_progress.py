"""The numbers of a batch, from what Spark tells of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")
from pyspark.sql import Row

from watersmeet.hosts.spark.progress import ANSWER, Tally


def progress(**observed: Row) -> SimpleNamespace:
    return SimpleNamespace(
        batchId=3, timestamp="2026-01-01T00:00:00Z", durationMs={"addBatch": 1, "triggerExecution": 1500},
        eventTime={}, numInputRows=1, observedMetrics=observed,
    )  # fmt: skip


def over_connect(**values: object) -> Row:
    """As Spark Connect sends an observed row: its values in one column, their schema in another."""
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in values]
    return Row(values=list(values.values()), schema={"type": "struct", "fields": fields})


@pytest.mark.parametrize("row", [Row, over_connect], ids=["classic", "connect"])
def test_observed_rows_are_read_however_they_come(row) -> None:
    told = ['{"bucket": 1, "results": 4}']
    observed = {"watersmeet": row(rows_in=20, late_rows=2, results=None, told=told), ANSWER: row(results=7)}
    batch = Tally().add(progress(**observed))
    assert batch is not None
    assert (batch.number, batch.seconds) == (3, 1.5)
    assert (batch.metrics.rows_in, batch.metrics.late_rows, batch.metrics.results) == (20, 2, 7)
    assert batch.metrics.buckets[1].results == 4


def test_the_clock_that_a_bucket_tells_is_shown_with_the_stream_that_holds_it_back() -> None:
    """Of two stages the first knows the streams by name; a bounded bucket tells its memory beside the clock."""
    clock = '{"watermark_us": 7000000, "held_back_by": "%s", "still_for_s": 12.0, "idle": []}'
    second = Row(told=['{"bucket": 0, "clock": %s}' % (clock % "join_1")])
    first = Row(told=['{"bucket": 0, "results": 1, "future": {"a": 2}, "clock": %s}' % (clock % "b")])
    tally = Tally()
    tally.add(progress(watersmeet=second, watersmeet_first_join_1=first))
    total = tally.total
    assert (total.watermark_us, total.held_back_by, total.still_for_s) == (7_000_000, "b", 12.0)
    assert total.future_rows == {"a": 2}
