"""The clocks of a query as a savepoint has them, and back.

Processing time only ever is compared with itself, and every host counts it from another instant: a savepoint says how
long ago something was. While nobody runs, nobody is silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet.model.catalog import Stream
from watersmeet.operators.saving import Saved, load_state, state_of
from watersmeet.runtime.event_time import QueryTime, StreamTime
from watersmeet.runtime.savepoints.contents import Moment

_ACTIVE, _OF_PARTITIONS = "active_us", "partitions.active_us"


def moment_of(time: QueryTime[Any], now_us: int) -> Moment:
    """now_us: processing time, as these clocks count it."""
    silent = time._silent_since
    return Moment(
        time.watermark_us,
        now_us - time.moved_us,
        None if silent is None else (silent[0], now_us - silent[1]),
        {clock.stream.name: _said(clock, now_us) for clock in time.clocks.values()},
    )


def load_moment(time: QueryTime[Any], moment: Moment, now_us: int) -> None:
    """Bring fresh clocks to where others were. What those did not count stays as it is."""
    time.watermark_us, time.moved_us = moment.watermark_us, now_us - moment.moved_ago_us
    time._silent_since = None if moment.silent is None else (moment.silent[0], now_us - moment.silent[1])
    for clock in time.clocks.values():
        known = moment.streams[clock.stream.name]
        fresh = state_of(clock).values
        load_state(
            clock, Saved({**fresh, **{name: one for name, one in _moved(known, now_us).items() if _has(fresh, name)}})
        )


def _said(clock: StreamTime, now_us: int) -> dict[str, Any]:
    return _moved(state_of(clock).values, now_us)


def _has(fresh: Mapping[str, Any], name: str) -> bool:
    return name in fresh


def _moved(values: Mapping[str, Any], now_us: int) -> dict[str, Any]:
    """With instants of processing time as how long ago they are, or the other way round."""
    found = dict(values)
    found[_ACTIVE] = now_us - found[_ACTIVE]
    partitions: Any = found[_OF_PARTITIONS]
    found[_OF_PARTITIONS] = {"dict": {name: now_us - us for name, us in partitions["dict"].items()}}
    return found


def streams_of(moment: Moment, streams: Mapping[str, Stream]) -> set[str]:
    """The streams of a query that a savepoint does not know."""
    return set(streams) - set(moment.streams)
