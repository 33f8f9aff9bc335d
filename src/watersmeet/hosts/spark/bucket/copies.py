"""The rows that a bucket has beside another in which they are counted, so that users see each row once."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Operator
from watersmeet.operators.spread_rows import are_copies, is_copied
from watersmeet.physical.partitioning import Dimension


def coordinates_of(job: SparkJob, place: int) -> list[tuple[Dimension, int]]:
    """Of a bucket in the grid: the digits of its place, the first dimension the lowest."""
    dimensions = job.partitioning.dimensions
    sizes = [dimension.size for dimension in dimensions]
    return [(one, place // prod(sizes[:i]) % one.size) for i, one in enumerate(dimensions)]


def all_are_copies(job: SparkJob, place: int, alias: str) -> bool:
    """Whether a bucket is another than the first of those to which all rows of a stream are copied."""
    return any(at > 0 and not dimension.places(alias) for dimension, at in coordinates_of(job, place))


def some_are_copies(job: SparkJob, alias: str) -> Dimension | None:
    """The dimension along which rows of a stream with some keys are copied."""
    spread = (one for one in job.partitioning.dimensions if alias in one.keys and is_copied(one.spread, alias))
    return next(spread, None)


def are_copies_in(job: SparkJob, place: int, alias: str, dimension: Dimension, keys: Codes) -> Mask:
    """Which rows are, by the keys that place them along this dimension."""
    at = next(at for one, at in coordinates_of(job, place) if one is dimension)
    return are_copies(dimension.spread, alias, keys, dimension.size, at)


@dataclass(frozen=True)
class Copies:
    """How many rows of each stream a bucket holds as copies, of those in windows that have rows as they came."""

    held: Mapping[str, int]

    @staticmethod
    def held_in(job: SparkJob, place: int, operator: Operator) -> Copies | None:
        """None where nobody is to leave them out: in bounded memory a copy takes what a row does, and of rows that are
        announced every bucket counts its own."""
        if operator.bounded is not None or job.partitioning.announced:
            return None
        found: dict[str, int] = {}
        for name, (rows, _) in operator.held_by_input.items():
            dimension = some_are_copies(job, name)
            if all_are_copies(job, place, name):
                found[name] = rows
            elif dimension is None:
                found[name] = 0
            elif (keys := operator.held_keys(name, dimension.keys[name])) is not None:
                found[name] = int(np.count_nonzero(are_copies_in(job, place, name, dimension, keys)))
        return Copies(found)

    def kept_without(self, held: Mapping[str, Any]) -> dict[str, Any]:
        """What an operator holds, by the names of the metrics; the bytes that copies take are held."""
        copies, by_input = sum(self.held.values()), held["window_rows_by_input"]
        return {
            **held,
            "kept_rows": held["kept_rows"] - copies,
            "window_rows": held["window_rows"] - copies,
            "window_rows_by_input": {name: rows - self.held.get(name, 0) for name, rows in by_input.items()},
        }

    def done_without(self, done: Mapping[str, int], before: Copies, came: Mapping[str, int]) -> dict[str, int]:
        """What it did since, in the same way. came: how many copies of each stream."""
        entered = sum(rows for name, rows in came.items() if name in self.held)
        left = sum(before.held.values()) + entered - sum(self.held.values())
        return {
            **done,
            "stored_rows": done["stored_rows"] - entered,
            "expired_rows": done["expired_rows"] - left,
        }
