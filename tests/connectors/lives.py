"""Lives of a script that goes on, each in a process of its own that may be killed at a chosen moment.

For any connector: a point is 'module:Class.method before' or '… after', and the life ends there by SIGKILL.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.one_life import lived_through

_DURABLE = "watersmeet.hosts.local.durable"
# Between every two steps of a batch; a connector adds those of its own commit.
POINTS = (
    f"{_DURABLE}.journal:Journal.append before",
    f"{_DURABLE}.journal:Journal.append after",
    f"{_DURABLE}.answering:Answering.answer after",
    f"{_DURABLE}.snapshots:Snapshots.write before",
    f"{_DURABLE}.snapshots:Snapshots.write after",
    f"{_DURABLE}.snapshots:Snapshots.publish after",
    f"{_DURABLE}.journal:Journal.forget after",
)


@dataclass(frozen=True)
class Script:
    """prepare: a function 'module:name' that is called first in every life, such as one that registers a connector."""

    text: str
    checkpoint: Path
    prepare: str = ""
    batch_rows: int = 64
    snapshot_s: float = 0.02
    commit_s: float = 0.01


def live(script: Script, ends_at: str | None, after: int) -> None:
    """One life: over all that is there now, or until a point was passed so often."""
    from watersmeet.hosts.local.durable.jobs import DurableJobs
    from watersmeet.runtime.declaring import open_to_go_on
    from watersmeet.runtime.run_settings import RunSettings
    from watersmeet.runtime.script import read_script

    if script.prepare:
        module, _, name = script.prepare.partition(":")
        getattr(import_module(module), name)()
    if ends_at is not None:
        die_at(ends_at, after)
    settings = RunSettings(
        batch_rows=script.batch_rows,
        save_every_s=script.snapshot_s,
        commit_every_s=script.commit_s,
        available_now=True,
        sync=False,  # a process that dies loses nothing that the system has
    )
    jobs = DurableJobs(
        read_script(script.text, opener=open_to_go_on), script.checkpoint, settings, tell=lambda what: None
    )
    jobs.start()
    jobs.wait()


def die_at(point: str, after: int) -> None:
    where, when = point.split()
    module, _, name = where.partition(":")
    owner, _, called = name.partition(".")
    kind: Any = getattr(import_module(module), owner)
    method = getattr(kind, called)
    left = [after]

    def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0 or when == "after":
            given = method(self, *arguments, **named)
            if left[0] >= 0:
                return given
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, called, dying)


def lived(script: Script, ends_at: str | None = None, after: int = 0, timeout_s: float = 120) -> bool:
    """Whether a life in a process of its own came to its end; False if it was killed as asked."""
    return lived_through(live, script, ends_at, after, timeout_s=timeout_s)


def killed_again_and_again(script: Script, points: Sequence[str], seed: int, kills: int) -> int:
    """Lives that end at random points, then one to the end; how many were killed."""
    rng = random.Random(seed)
    # One that surely comes, before all rows are read, and then any.
    chosen = [(POINTS[1], 1), *((rng.choice(points), rng.randrange(3)) for _ in range(kills - 1))]
    died = sum(not lived(script, point, after) for point, after in chosen)
    assert lived(script)
    return died
