"""How many rows each store will hold, for EXPLAIN; nothing is assumed here."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.optimizer.describe import Description
from watersmeet.physical.strategy import JoinStrategy


def estimate_rows(strategy: JoinStrategy) -> JoinStrategy:
    return replace(strategy, rows_kept=Description(strategy).known_rows)
