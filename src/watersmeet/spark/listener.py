"""The numbers of running queries, as Spark reports them batch by batch."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from watersmeet.engine.metrics import Metrics
from watersmeet.spark.progress import Tally


class MetricsListener(StreamingQueryListener):
    """Adds up, for every DataFrame that was made, what the queries started from it have done.

    DataFrames are told apart by the name under which their numbers are observed.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.tallies: dict[str, Tally] = {}
        spark.streams.addListener(self)

    def follow(self, observed: str, metrics: Metrics) -> None:
        """Keep `metrics` up to date with the queries that observe under this name."""
        self.tallies[observed] = Tally(total=metrics, observed=observed)

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        for name in event.progress.observedMetrics or {}:
            if name in self.tallies:
                self.tallies[name].add(event.progress)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass
