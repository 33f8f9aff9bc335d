"""What kills have left in a checkpoint on Spark. Old batches and states Spark removes by itself while a query runs:
there is no lock by which another process could tell that none does, so only what is old goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from watersmeet.hosts.spark.checkpoints.occupancy import folders_of
from watersmeet.leftovers import Left, older


def is_checkpoint(folder: Path) -> bool:
    return bool(folders_of(folder))


def leftovers(folder: Path, older_than_s: float) -> Iterator[Left]:
    for one in folders_of(folder):
        drafts = [path for path in one.rglob(".*.tmp*") if path.name.endswith((".tmp", ".tmp.crc")) and path.is_file()]
        for path in sorted(older(drafts, older_than_s)):
            yield Left(path, "a file that was not written to its end")
