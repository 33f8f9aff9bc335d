"""The starts that a checkpoint knows: by them it tells what it wrote into a sink from what another copy of it did."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from watersmeet.hosts.local.durable.noted import note, noted
from watersmeet.io.connectors.claims import known_after, new_start
from watersmeet.io.connectors.contract import NumberedSink, Start


def begun(folder: Path) -> Start:
    """One more start. It is noted before it claims a sink, so that whatever it writes there is known later."""
    start = new_start(noted(folder).get("starts", []))
    note(folder, starts=sorted([*start.known, start.token]))
    return start


def opened(folder: Path, start: Start, sinks: Iterable[NumberedSink]) -> None:
    """All sinks are this start's: what others of the run have not written is not asked for any more."""
    note(folder, starts=known_after(start, sinks))
