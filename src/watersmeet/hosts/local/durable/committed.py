"""What a checkpoint knows to be in the sinks of its run: a snapshot counts only when they have all up to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.noted import noted
from watersmeet.hosts.local.durable.snapshots import manifests, read_manifest


@dataclass(frozen=True)
class Committed:
    """The last number with rows: of the answers, and of each sink beside them. -1 where all is given again."""

    answers: int = -1
    sides: Mapping[str, int] = field(default_factory=dict)


def committed_by(folder: Path) -> Committed:
    run = noted(folder).get("run", "")
    for path in manifests(folder):
        with suppress(RunError):  # one that is damaged is told of by those who need all of it
            notes = read_manifest(path, run)["notes"]
            return Committed(int(notes["answered"]), dict(notes["sides"]))
    return Committed()
