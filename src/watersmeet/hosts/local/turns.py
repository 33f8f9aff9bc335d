"""Streams side by side: each is read a little ahead in a thread of its own, and the one whose event time is furthest
behind comes next, so that they stay together while they catch up."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import takewhile
from threading import Thread
from typing import Protocol, TypeVar

from watersmeet.runtime.clock import StreamClock

# A stream that has had nothing for so long is silent, and others that are ahead of it are read meanwhile. Those that
# are read as fast as they can are mostly ready sooner, and stay side by side.
PATIENCE_S = 0.05


class Line(Protocol):
    """One stream being read. `empty_since_s` is when it last had nothing to give, by the system's clock."""

    clock: StreamClock

    @property
    def empty_since_s(self) -> float: ...

    @property
    def is_ready(self) -> bool: ...

    @property
    def has_more(self) -> bool:
        """Whether something may come that it does not have yet."""
        ...


OfLine = TypeVar("OfLine", bound=Line)


def in_turn(lines: Collection[OfLine]) -> list[OfLine]:
    """Those that have something and may give it, the one furthest behind first."""
    found = [one for one in lines if one.is_ready and not _is_too_far(one, lines)]
    return sorted(found, key=lambda one: one.clock.newest_us)


def _is_too_far(line: Line, lines: Collection[Line]) -> bool:
    """Whether a stream is further ahead than it says it may be: of the one that is furthest behind. Nobody waits for
    one that has nothing more, or has been silent for long."""
    drift_us = line.clock.stream.arrival.max_drift_us
    if drift_us is None:
        return False
    slowest = (one.clock.newest_us for one in lines if one.is_ready or (one.has_more and not one.clock.idle))
    return any(line.clock.newest_us > other_us + drift_us for other_us in slowest)


def worth_waiting_until_s(lines: Collection[Line]) -> float:
    """Until when to wait, while there are others, for a stream that is behind all that have something. Of those that
    are equally far the first is, so that it does not depend on threads whose rows come next."""
    if not any(one.is_ready for one in lines):
        return 0.0
    in_order = sorted((one for one in lines if one.is_ready or one.has_more), key=lambda one: one.clock.newest_us)
    behind = takewhile(lambda one: not one.is_ready, in_order)
    return max((one.empty_since_s + PATIENCE_S for one in behind), default=0.0)


def read_ahead(
    name: str, read: Callable[[], bool], failed: Callable[[BaseException], None], close: Callable[[], None]
) -> Thread:
    """Read in a thread of its own until `read` says that nothing more is wanted. What goes wrong is for whoever takes
    what was read."""

    def run() -> None:
        try:
            while read():
                pass
        except BaseException as error:
            failed(error)
        finally:
            close()

    # A thread that waits for an input that never says anything must not keep the process alive.
    thread = Thread(target=run, name=f"watersmeet reads {name}", daemon=True)
    thread.start()
    return thread
