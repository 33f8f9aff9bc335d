"""How long experiments will take, told from earlier runs and from the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.lab.experiment import SCALES
from watersmeet.lab.jobs import Job
from watersmeet.lab.store import Record

LEAST_SECONDS = 0.1  # loading and storing
# The names of settings that say how many rows there are, or how often something is done.
AMOUNTS = {
    "rows", "rate", "rates", "fast", "per_hour", "seconds", "hours", "days", "units", "ticks", "times", "repeats",
    "runs", "draws", "seeds",
}  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """`guessed`: no run at this scale is known, so the seconds are those of another, times what the settings grew."""

    seconds: float | None
    guessed: bool = False


def estimate(job: Job, known: Sequence[Record]) -> Estimate:
    """From the last run at the same scale, of whatever code and seed; else from the nearest scale below or above."""
    settings = job.experiment.settings.get(job.scale)
    ours = [record for record in known if record.experiment == job.experiment.id]
    if settings is None or not ours:
        return Estimate(None)
    place = SCALES.index(job.scale)
    nearest = min(ours, key=lambda one: (abs(SCALES.index(one.scale) - place), one.seed != job.seed))
    seconds = max(LEAST_SECONDS, nearest.seconds * growth(nearest.settings, settings))
    return Estimate(seconds, guessed=nearest.scale != job.scale)


def growth(before: Mapping[str, Any], now: Mapping[str, Any]) -> float:
    """How much more work settings ask for: as many times as there are more rows, repetitions and points of a line.

    >>> growth({"rates": [10, 20], "skews": [0, 1], "keys": 9}, {"rates": [30, 60], "skews": [0, 1, 2, 3], "keys": 90})
    6.0
    """
    sizes = [(_size(name, before.get(name)), _size(name, value)) for name, value in now.items()]
    return prod(new / old for old, new in sizes if old and new)


def _size(name: str, value: Any) -> float:
    """Of amounts their sum; of other lists how long they are; 0 for what says nothing, as a number of keys does."""
    if isinstance(value, int | float):
        return float(value) if name in AMOUNTS else 0.0
    if isinstance(value, list | tuple):
        return sum(_size(name, one) for one in value) if name in AMOUNTS else len(value)
    return 0.0


def total(estimates: Sequence[Estimate]) -> str:
    """
    >>> total([Estimate(50), Estimate(100, guessed=True), Estimate(None)])
    'about 2 min 30 s, by earlier runs; 1 of them guessed from another scale, 1 never run before'
    """
    seconds = sum(one.seconds or 0.0 for one in estimates)
    unknown = sum(one.seconds is None for one in estimates)
    guessed = sum(one.guessed for one in estimates)
    if unknown == len(estimates):
        return "nobody knows how long: no earlier run tells"
    parts = [f"{guessed} of them guessed from another scale"] if guessed else []
    parts += [f"{unknown} never run before"] if unknown else []
    return f"about {long(seconds)}, by earlier runs" + ("; " + ", ".join(parts) if parts else "")


def long(seconds: float) -> str:
    """
    >>> long(3), long(90), long(7260)
    ('3 s', '1 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
