"""The lanes of a stream on Spark, such as the partitions of a topic: each has a time of its own.

The rules are those of runtime.lanes.Lanes, batch by batch: the level of a stream is the time that every lane has
reached; one that has rows which are not read yet and has brought none holds the level where it is; one that has been
silent for as long as the stream says does not count. Values, as they are kept with the state and told to nobody else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from watersmeet.model.time import BEGINNING_US

MS_US = 1_000


@dataclass(frozen=True)
class PartitionClock:
    """The newest time of a lane that moves clocks, the time of the batch that last brought something of it, and whether
    it has been silent for so long since that it does not count."""

    name: str
    newest_us: int = BEGINNING_US
    active_ms: int = 0
    idle: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come of it yet."""
        return self.newest_us == BEGINNING_US


# In the order of their names.
PartitionClocks = tuple[PartitionClock, ...]


def knowing(lanes: PartitionClocks, waiting: Collection[str], now_ms: int) -> PartitionClocks:
    """With the lanes that wait to be read: while some do, nothing falls silent. One that nothing has come of, and that
    does not wait any more, had nothing: it is forgotten."""
    known = {one.name: one for one in lanes if not one.is_empty or one.name in waiting}
    known |= {name: PartitionClock(name) for name in waiting if name not in known}
    if waiting:
        known = {name: one if one.idle else replace(one, active_ms=now_ms) for name, one in known.items()}
    return _in_order(known)


def brought(lanes: PartitionClocks, newest_us: Mapping[str, int], now_ms: int) -> PartitionClocks:
    """After rows of some lanes, which end their silence, late ones too."""
    known = {one.name: one for one in lanes}
    for name, us in newest_us.items():
        before = known.get(name, PartitionClock(name))
        known[name] = PartitionClock(name, max(before.newest_us, us), now_ms)
    return _in_order(known)


def silent_at_us(lanes: PartitionClocks, idle_us: int) -> Iterable[int]:
    """When those that count will have been silent for so long that they do not."""
    return [one.active_ms * MS_US + idle_us for one in lanes if not one.idle]


def fallen_silent(lanes: PartitionClocks, at_us: int, idle_us: int) -> PartitionClocks:
    """Those that have been silent for so long by then do not count any more."""
    return tuple(replace(one, idle=one.idle or one.active_ms * MS_US + idle_us <= at_us) for one in lanes)


def level_us(lanes: PartitionClocks) -> int:
    """The time that all lanes have reached; the beginning if none counts."""
    return min((one.newest_us for one in lanes if not one.idle), default=BEGINNING_US)


def slowest(lanes: PartitionClocks) -> str | None:
    """The lane that the others wait for; None if there is but one, or none counts."""
    counting = [one for one in lanes if not one.idle]
    return min(counting, key=lambda one: one.newest_us).name if counting and len(lanes) > 1 else None


def _in_order(known: Mapping[str, PartitionClock]) -> PartitionClocks:
    return tuple(known[name] for name in sorted(known))
