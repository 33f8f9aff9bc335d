"""What a checkpoint knows to be in the sinks of its run: a snapshot counts only when they have all up to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from watersmeet.hosts.local.durable.snapshots import manifests


@dataclass(frozen=True)
class Taken:
    """The last number with rows: of the answers, and of each sink beside them. -1 where all is given again."""

    answers: int = -1
    sides: Mapping[str, int] = field(default_factory=dict)


def taken_by(folder: Path) -> Taken:
    for path in manifests(folder):
        # One that is damaged is told of by those who need all of it.
        with suppress(OSError, ValueError, KeyError, TypeError):
            notes = json.loads(path.read_text(encoding="utf-8"))["notes"]
            return Taken(int(notes["answered"]), dict(notes.get("sides", {})))
    return Taken()
