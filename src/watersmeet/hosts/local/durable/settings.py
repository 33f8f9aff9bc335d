"""How a durable run goes."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.hosts.local.durable.sink_writer import Commits


@dataclass(frozen=True)
class Settings:
    """A batch closes at so many rows, or so long after its first row. `snapshot_s`: how often the state is saved.
    `sync`: a batch counts as written when it is on the disk; if not, a crash of the process is survived, one of the
    machine may lose the last moments. `writes_on`: when the query fails, what is pushed is still written down, for a
    later start that can go on; without it the run ends."""

    batch_rows: int = 1 << 16
    gather_s: float = 0.0
    snapshot_s: float = 10.0
    sync: bool = True
    commits: Commits = field(default_factory=Commits)
    available_now: bool = False
    flush: bool = False
    writes_on: bool = False
    skipped: frozenset[int] = frozenset()  # batches that are not repeated, as their rows make the query fail
