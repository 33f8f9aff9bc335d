"""The numbers of a batch, from what Spark tells of it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")
from pyspark.sql import Row

from watersmeet.hosts.spark.bucket.output import FIRST, OBSERVED
from watersmeet.hosts.spark.progress.tally import ANSWER, Tally
from watersmeet.runtime.progress import held_back


def progress(**observed: Row) -> SimpleNamespace:
    return SimpleNamespace(
        batchId=3, timestamp="2026-01-01T00:00:00Z", sources=[], durationMs={"addBatch": 1, "triggerExecution": 1500},
        eventTime={}, numInputRows=1, observedMetrics=observed,
    )  # fmt: skip


def over_connect(**values: object) -> Row:
    """As Spark Connect sends an observed row: its values in one column, their schema in another."""
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in values]
    return Row(values=list(values.values()), schema={"type": "struct", "fields": fields})


@pytest.mark.parametrize("row", [Row, over_connect], ids=["classic", "connect"])
def test_observed_rows_are_read_however_they_come(row) -> None:
    told = ['{"bucket": 1, "results": 4}']
    observed = {"watersmeet": row(rows_in=20, late_rows=2, results=None, reports=told), ANSWER: row(results=7)}
    batch = Tally().add(progress(**observed))
    assert batch is not None
    assert (batch.number, batch.seconds) == (3, 1.5)
    assert (batch.metrics.rows_in, batch.metrics.late_rows, batch.metrics.results) == (20, 2, 7)
    assert batch.metrics.buckets[1].results == 4


def test_the_clock_that_a_bucket_tells_is_shown_with_the_stream_that_holds_it_back() -> None:
    """Of two stages the first knows the streams by name; a bounded bucket tells its memory beside the clock."""
    clock = '{"watermark_us": 7000000, "held_back_by": "%s", "still_for_s": 12.0, "waits_for_rows": %s, "idle": []}'
    second = Row(reports=['{"bucket": 0, "clock": %s}' % (clock % ("join_1", "false"))])
    first = Row(reports=['{"bucket": 0, "results": 1, "future": {"a": 2}, "clock": %s}' % (clock % ("b", "true"))])
    tally = Tally()
    tally.add(progress(watersmeet=second, watersmeet_first_join_1=first))
    total = tally.total
    assert (total.watermark_us, total.held_back_by, total.still_for_s) == (7_000_000, "b", 12.0)
    assert total.future_rows == {"a": 2}
    assert held_back(total) == " (for 12 s, waiting for b)"


def test_the_line_of_a_batch_has_its_own_rate() -> None:
    tally = Tally()
    first = tally.add(progress(watersmeet=Row(rows_in=30_000, results=7, reports=[])))
    assert first is not None
    assert first.line().startswith("batch 3: 30.0k in, 7 out, 1.5 s (20.0k/s), at ")
    last = progress(watersmeet=Row(rows_in=0, results=0, reports=[]))
    last.batchId = 4
    second = tally.add(last)
    assert second is not None
    assert second.line().startswith("batch 4: 0 in, 0 out, 1.5 s (0/s), at ")


def told(bucket: int, **values: object) -> str:
    return json.dumps({"bucket": bucket, **values})


def test_rows_come_in_at_the_first_stages_and_the_answer_out_of_the_last() -> None:
    first = Row(rows_in=20, results=9, stored_rows=20, kernel_ns=500_000_000, reports=[told(0, kept_rows=5)])
    other = Row(rows_in=7, results=2, stored_rows=7, kernel_ns=0, reports=[told(0, kept_rows=1)])
    last = Row(rows_in=11, results=4, stored_rows=11, kernel_ns=250_000_000, reports=[told(0, kept_rows=3)])
    observed = {f"{OBSERVED}{FIRST}_a": first, f"{OBSERVED}{FIRST}_b": other, OBSERVED: last}
    batch = Tally().add(progress(**observed))
    assert batch is not None
    now = batch.metrics
    assert (now.rows_in, now.results, now.stored_rows, now.kernel_seconds, now.kept_rows) == (27, 4, 38, 0.75, 9)


def test_a_query_without_state_counts_what_spark_read() -> None:
    batch = Tally().add(progress(**{ANSWER: Row(results=7)}))
    assert batch is not None
    assert (batch.metrics.rows_in, batch.metrics.results) == (1, 7)


def test_a_bucket_that_takes_no_part_keeps_what_it_keeps() -> None:
    """What stands is told by each bucket; what was done adds up."""
    tally = Tally()
    batches = [
        [told(0, kept_rows=5, state_bytes=50, future_rows={"a": 1}), told(1, kept_rows=7, state_bytes=70)],
        [told(1, kept_rows=4, state_bytes=40, future_rows={"a": 2, "b": 1})],
        [],
    ]
    stands = []
    for number, texts in enumerate(batches):
        one = progress(**{OBSERVED: Row(results=1 if texts else None, reports=texts)})
        one.batchId = number
        batch = tally.add(one)
        assert batch is not None
        stands.append((batch.metrics.kept_rows, batch.metrics.state_bytes))
    assert stands == [(12, 120), (9, 90), (9, 90)]
    assert (tally.total.kept_rows, tally.total.state_bytes, tally.peak_rows) == (9, 90, 12)
    assert tally.total.results == 2
    assert tally.total.future_rows == {"a": 3, "b": 1}


def test_what_waits_in_a_bucket_waits_until_it_tells_otherwise() -> None:
    tally = Tally()
    waits = {"x": {"stream": "a", "rows": 4, "until_us": 9, "copies": 2}}
    for number, texts in enumerate([[told(0, waiting=waits), told(1, waiting=waits)], [told(1, waiting={})], []]):
        one = progress(**{OBSERVED: Row(reports=texts)})
        one.batchId = number
        tally.add(one)
        assert tally.total.waiting_by_stream == {"a": 4 if number == 0 else 2}
        assert tally.total.waiting_until_us == 9
    last = progress(**{OBSERVED: Row(reports=[told(0, waiting={})])})
    last.batchId = 3
    tally.add(last)
    assert (tally.total.waiting_by_stream, tally.total.waiting_until_us) == ({}, None)
    assert "waiting_by_stream" not in tally.total.as_dict()


def test_a_batch_is_counted_once_however_often_it_is_told() -> None:
    tally = Tally()
    row = progress(**{OBSERVED: Row(rows_in=3, reports=[])})
    assert tally.add(row) is not None
    assert tally.add(row) is None
    assert (tally.total.rows_in, tally.batches) == (3, 1)


def test_rows_of_a_batch_that_is_left_out_are_counted_apart() -> None:
    tally = Tally(skipped=frozenset({3}))
    batch = tally.add(progress(watersmeet=Row(rows_in=20, reports=[])))
    assert batch is not None
    assert "(20 left out as asked for)" in batch.line()
    assert (tally.total.rows_in, tally.total.skipped_batch_rows) == (0, 20)


def test_files_that_have_changed_are_counted_with_the_batch_whose_offset_tells_so() -> None:
    changed = json.dumps({"files": "", "changed": {"stream": "a", "files": "2", "told": "one\ntwo"}})
    tally = Tally()
    for number, start in ((1, "{}"), (2, changed), (3, "{}")):
        told = progress(watersmeet=Row(rows_in=1, reports=[]))
        told.batchId, told.sources = number, [SimpleNamespace(startOffset=start, endOffset=changed)]
        batch = tally.add(told)
        assert batch is not None
        assert [one.sentences for one in batch.changed] == ([] if start == changed else [("one", "two")])
    assert tally.total.changed_files == {"a": 4}
