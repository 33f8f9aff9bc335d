"""That a stream has ended, as a source tells every bucket.

The stateful stage never learns which batch is the last one. A source does, and tells: its offsets, which Spark logs
before the batch runs, name the run that is to end, so a batch that is repeated ends the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

# Stands for the number of an input where a packet holds no rows, beside those of clock_messages.py and memory_needs.py.
ENDED = -2
# Columns of a first stage, in rows without results: the run in which a bucket has ended, and the time before which it
# will give nothing any more.
END, REACHED = "__end", "__reached"


@dataclass(frozen=True)
class Ending:
    """A run that ends. It has a name of its own: what an earlier run told of its end does not count in it.

    checkpoint: given once all streams that cannot tell their end have come to it, so that it is told for them.
    """

    checkpoint: str | None = None
    run: str = field(default_factory=lambda: uuid4().hex[:12])


def end_to_bytes(run: str, streams: Iterable[int]) -> bytes:
    return json.dumps({"run": run, "streams": list(streams)}).encode()


def end_from_bytes(told: bytes) -> tuple[str, list[int]]:
    """
    >>> end_from_bytes(end_to_bytes("3f", [0, 2]))
    ('3f', [0, 2])
    """
    read = json.loads(told)
    return read["run"], read["streams"]


def ends_told(told: Sequence[bytes]) -> dict[int, str]:
    """Which streams have ended, and in which run."""
    return {stream: run for run, streams in map(end_from_bytes, told) for stream in streams}
