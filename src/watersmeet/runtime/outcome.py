"""What became of one query of a script that was run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass


@dataclass(frozen=True)
class Outcome:
    """A query of a script, by the name of its sink, or without one by its place, as 'query 2'.

    answer: the rows of a query without a sink; None for those that went into one.
    metrics: the numbers of its run.
    """

    name: str
    answer: pa.Table | None = field(default=None, repr=False)
    metrics: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        rows = self.metrics.get("results", 0) if self.answer is None else self.answer.num_rows
        return f"{self.name}: {rows:,} row{'' if rows == 1 else 's'}"
