"""What the offsets and partitions of our own sources hold: where each part of a batch lies.

Spark starts Python processes for every such source, so the module imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from pyspark.sql.datasource import InputPartition

from watersmeet.dataclass import dataclass

NEWEST = "newest"
PACKED = "bucket int, input int, part long, primary boolean, payload binary"
DATED = f"{PACKED}, {NEWEST} timestamp"
# What Spark gives as an offset: numbers, texts and nested dicts, but no lists.
Offset = dict[str, Any]
FEW_ROWS = 1 << 12  # are read sooner than a task begins


@dataclass
class Moments:
    """What the clock said when a batch was planned: rows beyond `limit_us` move no watermark, and `arrival_us` is the
    moment at which rows arrived, where that is their event time."""

    limit_us: int | None = None
    arrival_us: int | None = None

    @classmethod
    def of(cls, end: Offset) -> Moments:
        def noted(name: str) -> int | None:
            return int(end[name]) if name in end else None

        return cls(noted("limit_us"), noted("arrival_us"))


@dataclass
class EndSplit(InputPartition):
    """Tells the buckets that the stream has ended in a run."""

    run: str


@dataclass
class SourceSplit(InputPartition):
    """What lies in one partition between two offsets, and its place among the splits of the batch. `is_alone`: there is
    no other partition. `waiting`: those with rows that the batch leaves for later, which one split says for all."""

    partition: str
    after: Any
    upto: Any
    number: int
    moments: Moments = field(default_factory=Moments)
    is_alone: bool = True
    waiting: tuple[str, ...] | None = None


Part = SourceSplit | EndSplit


@dataclass
class Together(InputPartition):
    """Parts with few rows, which one task reads one after the other."""

    parts: list[Part]


def in_tasks(parts: Iterable[tuple[Part, int | None]]) -> list[InputPartition]:
    """What each task reads. Beside every part: how many rows it has, where that is known."""
    tasks: list[list[Part]] = []
    held: int | None = None  # by the last task
    for part, rows in parts:
        if tasks and rows is not None and held is not None and held + rows <= FEW_ROWS:
            tasks[-1].append(part)
            held += rows
        else:
            tasks.append([part])
            held = rows
    return [task[0] if len(task) == 1 else Together(task) for task in tasks]
