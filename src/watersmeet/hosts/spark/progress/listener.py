"""The numbers of running queries, as Spark reports them batch by batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from watersmeet.hosts.spark.errors import ours_in
from watersmeet.hosts.spark.progress.messages import QueryWarnings, tell_both, warn_of_waiting
from watersmeet.hosts.spark.progress.tally import Tally
from watersmeet.model.catalog import Stream
from watersmeet.runtime.metrics import Metrics
from watersmeet.warning import ConnectorWarning, StateWarning, warn

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
        self.goes_on: set[str] = set()
        self.runs: dict[str, tuple[str, str]] = {}
        self.warnings: dict[str, QueryWarnings] = {}

    def follow(
        self,
        observed: str,
        metrics: Metrics,
        streams: Iterable[Stream],
        *,
        goes_on: bool = False,
        skipped: frozenset[int] = frozenset(),
    ) -> None:
        """Keep `metrics` up to date with the queries that observe under this name, and warn of what they leave out of
        these streams. With `goes_on` another run is to follow, so nothing is lost with what waits at the end of this
        one. `skipped`: batches that are left out."""
        self.tallies[observed] = Tally(total=metrics, observed=observed, skipped=skipped)
        self.warnings[observed] = QueryWarnings(streams)
        if goes_on:
            self.goes_on.add(observed)

    @property
    def _jlistener(self) -> Any:
        """What Java calls. Spark Connect does not ask for it."""
        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = SparkContext._jvm
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_ByText(self))
        return self._jlistenerobj

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        for name in progress.observedMetrics or {}:
            if name in self.tallies:
                self.runs[str(progress.runId)] = name, progress.name or f"query {str(progress.id)[:8]}"
                self._add(self.tallies[name], progress)
                self._warn(str(progress.runId))

    def _add(self, tally: Tally, progress: Any) -> None:
        known = tally.total.cold_because
        batch = tally.add(progress)
        for one in () if batch is None else batch.changed:
            for sentence in one.sentences:
                tell_both(ConnectorWarning("source_changed", sentence))
        if tally.total.cold_because != known:
            because = f"state is not kept warm between batches: {tally.total.cold_because}"
            warn(StateWarning("cold_state", because))

    def _warn(self, run: str, *, at_end: bool = False) -> None:
        observed, query = self.runs[run]
        self.warnings[observed].look(query, self.tallies[observed].total, at_end=at_end)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        """What ended a query, in our words if it was ours: whoever waits for it gets Spark's, with all its stacks."""
        found = ours_in(event.exception) if event.exception else None
        if found is not None:
            logger.error("query %s: %s", event.id, found)
        run = str(event.runId)
        if run not in self.runs:
            return
        observed, query = self.runs[run]
        self._warn(run, at_end=True)
        if event.exception is None and observed not in self.goes_on:
            warn_of_waiting(query, self.tallies[observed].total)
        del self.runs[run]


class _ByText(JStreamingQueryListener):
    """Fetches the progress of a batch from Java in one piece. Spark asks for its values one by one, and for each row of
    observed metrics Java looks for a class through all its jars: a fifth of the time of a small batch."""

    def onQueryProgress(self, jevent: Any) -> None:
        progress = StreamingQueryProgress.fromJson(json.loads(jevent.progress().json()))
        self.pylistener.onQueryProgress(QueryProgressEvent(progress))
