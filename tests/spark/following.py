"""A simulated query's numbers as Spark tells them: added up over the frames of a batch, and batch after batch."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pandas as pd
from pyspark.sql import Row

from tests.spark.simulation import Pieces, Simulation, reports_in
from watersmeet.hosts.spark.bucket.output import OBSERVED, REPORTS
from watersmeet.hosts.spark.progress.tally import Tally


def followed(run: Simulation, pieces: Pieces, *, ends: bool = False) -> Tally:
    """Run it, one piece of every stream per batch and one batch more, and add up what its batches tell. With `ends` the
    streams tell in the last batch that they have ended."""
    tally = Tally()
    batches = max(map(len, pieces.values()))
    for number in range(batches + 1):
        arrived = {name: parts[number] for name, parts in pieces.items() if number < len(parts)}
        before = len(run.frames)
        run.batch(arrived, ended=list(pieces) if ends and number == batches else ())
        tally.add(progress(number, run.watermark_us // 1000, {OBSERVED: observed(run.frames[before:])}))
    return tally


def observed(frames: list[pd.DataFrame]) -> Row:
    """What Spark observes of the frames of a batch."""
    return Row(**{REPORTS: reports_in(frames)})


def progress(number: int, watermark_ms: int, rows: dict[str, Row]) -> Any:
    at = datetime.fromtimestamp(watermark_ms / 1000, UTC).isoformat()
    return SimpleNamespace(
        batchId=number, timestamp=str(number), sources=[], durationMs={"addBatch": 1, "triggerExecution": 1},
        eventTime={"watermark": at}, numInputRows=0, observedMetrics=rows,
    )  # fmt: skip
