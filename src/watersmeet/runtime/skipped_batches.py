"""Batches that a start leaves out, with all their rows, as a query fails with them or their answers do not end."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import SetupError
from watersmeet.runtime.script import Job


def skipped_batches(written: Sequence[str], jobs: Sequence[Job]) -> dict[str, frozenset[int]]:
    """--skip-batch N, or NAME:N where there are several queries."""
    found: dict[str, frozenset[int]] = {}
    for one in written:
        name, colon, number = one.rpartition(":")
        job = next((job for job in jobs if job.name.lower() == name.strip().lower()), None)
        job = jobs[0] if not colon and len(jobs) == 1 else job
        if job is None or not number.strip().isdecimal():
            raise SetupError(
                f"--skip-batch {one} names no batch of a query",
                hint=f"write --skip-batch '{jobs[0].name}:17', for the batch that the error named",
            )
        found[job.name] = found.get(job.name, frozenset()) | {int(number)}
    return found


def way_past(number: int, call: str = "start") -> str:
    """How a batch is left out. `call`: the method of a query that is told so.

    >>> way_past(17)
    '--skip-batch 17 at a start, or start(skip_batches=[17]), leaves out batch 17'
    """
    return f"--skip-batch {number} at a start, or {call}(skip_batches=[{number}]), leaves out batch {number:,}"


def not_repeated(number: int) -> str:
    """Only what was begun and not finished can be left out: of anything else answers were given, or nobody knows what
    it will be."""
    return f"batch {number:,} is not one that this start repeats, so nothing of it was left out"
