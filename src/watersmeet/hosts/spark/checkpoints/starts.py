"""The starts that a checkpoint knows: by them it tells what it wrote into a sink from what another copy of it did."""

from __future__ import annotations

import json
from collections.abc import Iterable

from watersmeet.hosts.spark.checkpoints.checkpoint import Checkpoint
from watersmeet.hosts.spark.paths import STARTS_NOTE
from watersmeet.io.connectors.claims import known_after, new_start
from watersmeet.io.connectors.contract import Claimed, Start


def begun(checkpoint: Checkpoint) -> Start:
    """One more start. It is noted before it claims a sink, so that whatever it writes there is known later."""
    start = new_start(_noted(checkpoint))
    checkpoint.write(json.dumps(sorted([*start.known, start.token])), STARTS_NOTE)
    return start


def opened(checkpoint: Checkpoint, start: Start, sinks: Iterable[Claimed]) -> None:
    """All sinks are this start's: what others of the run have not written is not asked for any more."""
    known = known_after(start, sinks)
    if known != sorted([*start.known, start.token]):
        checkpoint.write(json.dumps(known), STARTS_NOTE)


def _noted(checkpoint: Checkpoint) -> list[str]:
    text = checkpoint.read_sealed(STARTS_NOTE)
    return [] if text is None else list(json.loads(text))
