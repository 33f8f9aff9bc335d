"""What a person is told of a query that Spark runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from watersmeet.model.catalog import Stream
from watersmeet.model.wording import counted
from watersmeet.runtime.left_out import LeftOutWarnings, Tell
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.progress import waiting
from watersmeet.warning import DataWarning, WatersmeetWarning, warn

log = logging.getLogger("watersmeet")


def tell_both(what: Warning) -> None:
    """A warning reaches a notebook or a test, the log a service."""
    log.warning("%s", what.message if isinstance(what, WatersmeetWarning) else what)
    warn(what)


class QueryWarnings:
    """Warns of what a query leaves out, with its name: several may run side by side."""

    def __init__(self, streams: Iterable[Stream], tell: Tell = tell_both) -> None:
        self._tell = tell
        self._left_out = LeftOutWarnings(streams, tell)
        self._skipped_batch_rows = 0

    def look(self, query: str, metrics: Metrics, *, at_end: bool = False) -> None:
        self._left_out.look(metrics, at_end=at_end, query=query)
        if metrics.skipped_batch_rows > self._skipped_batch_rows:
            self._skipped_batch_rows = metrics.skipped_batch_rows
            rows = counted(metrics.skipped_batch_rows, "row")
            self._tell(
                DataWarning(
                    "skipped_batch", f"{query}: {rows} came in batches that were left out, as skip_batches says"
                )
            )


def warn_of_waiting(name: str, metrics: Metrics) -> None:
    """Say what a query leaves behind that has ended, if it does."""
    rows = waiting(metrics)
    if rows:
        text = f"{name} has ended, but {rows}; later rows bring their answers, or query.finish() does now"
        tell_both(DataWarning("waiting_rows", text))
