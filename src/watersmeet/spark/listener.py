"""The numbers of running queries, as Spark reports them batch by batch."""

from __future__ import annotations

import logging
import warnings
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from watersmeet.engine.metrics import Metrics
from watersmeet.spark.errors import ours_in
from watersmeet.spark.progress import Tally

logger = logging.getLogger("watersmeet")
# One per Spark session: Spark calls every listener for every batch of every query, and each call costs.
_listeners: WeakKeyDictionary[SparkSession, MetricsListener] = WeakKeyDictionary()


def listener_of(spark: SparkSession) -> MetricsListener:
    """The listener of a Spark session, added when it is first asked for."""
    if spark not in _listeners:
        _listeners[spark] = MetricsListener()
        spark.streams.addListener(_listeners[spark])
    return _listeners[spark]


class MetricsListener(StreamingQueryListener):
    """Adds up, for every DataFrame that was made, what the queries started from it have done.

    DataFrames are told apart by the name under which their numbers are observed.
    """

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}

    def follow(self, observed: str, metrics: Metrics) -> None:
        """Keep `metrics` up to date with the queries that observe under this name."""
        self.tallies[observed] = Tally(total=metrics, observed=observed)

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        for name in event.progress.observedMetrics or {}:
            if name in self.tallies:
                self._add(self.tallies[name], event.progress)

    def _add(self, tally: Tally, progress: Any) -> None:
        known = tally.total.cold_because
        tally.add(progress)
        if tally.total.cold_because != known:
            warnings.warn(f"state is not kept warm between batches: {tally.total.cold_because}", stacklevel=1)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        """What ended a query, in our words if it was ours: whoever waits for it gets Spark's, with all its stacks."""
        found = ours_in(event.exception) if event.exception else None
        if found is not None:
            logger.error("query %s: %s", event.id, found)
