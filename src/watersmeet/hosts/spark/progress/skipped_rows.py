"""Rows without an event time that a stream skips, where no bucket counts them."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet.hosts.spark.bucket.output import REPORTS
from watersmeet.hosts.spark.progress.messages import QueryWarnings
from watersmeet.model.catalog import Stream
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.metrics import Metrics


def tell_of_skipped(plan: Plan, metrics: Metrics) -> None:
    """Count the rows of batch inputs that will be skipped, and say so: of these nobody hears when they are read. Only
    the event times are read for that, and only of streams that say on_null = 'skip'."""
    found = {}
    for one in streams_below(plan.root):
        if one.arrival.skips_nulls:
            found[one.name] = int(one.source.where(F.col(f"`{one.time}`").isNull()).count())
    metrics.skipped_by_stream = {name: rows for name, rows in found.items() if rows}
    metrics.skipped_rows = sum(found.values())
    QueryWarnings(streams_below(plan.root)).look("the query", metrics, at_end=True)


def counting_skipped(df: DataFrame, stream: Stream, observed: str) -> DataFrame:
    """The rows of a streaming query without state, of which Spark tells how many came and how many will be skipped."""
    skipped = F.count_if(F.col(f"`{stream.time}`").isNull())
    name = json.dumps(stream.name)
    report = F.concat(F.lit(f'{{"bucket": 0, "skipped_by_stream": {{{name}: '), skipped.cast("string"), F.lit("}}"))
    return df.observe(
        observed, F.count(F.lit(1)).alias("rows_in"), skipped.alias("skipped_rows"), F.array(report).alias(REPORTS)
    )
