"""How the rows of a stream come: in which order they are read, how late they may be, and what is done about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.model.side_sink import parse_policy
from watersmeet.model.time import UNIT_ORDER, parse_interval
from watersmeet.model.time_format import time_format
from watersmeet.model.zones import check_zone

READ = ("time", "arrival")
ON_LATE = ("count", "error")
ON_BAD = ("error", "skip")
ON_NULL = ("error", "skip")
ROUNDING = ("error", "down")


@dataclass(frozen=True)
class Arrival:
    """What is declared of a stream beside its lateness.

    read: input that is at hand as a whole is read in the order of its event times, or as it arrives. on_late: whether
    rows that come too late are counted, end the run, or also go to a sink ('sink NAME'). on_null: whether rows without
    an event time end the run, or are skipped and counted. on_bad: the same for all records that cannot be read, which
    may also go to a sink; rows without an event time are among them unless `on_null` skips them. idle_us: after that
    much silence a stream no longer holds the watermark back. max_future_us: a row further ahead of the wall clock moves
    no watermark. max_drift_us: it is not read further ahead of the stream that is furthest behind, nor one of its lanes
    of another. says_lateness: whether the lateness was declared, be it 0.
    """

    read: str = "time"
    on_late: str = "count"
    on_null: str = "error"
    on_bad: str = "error"
    idle_us: int | None = None
    max_future_us: int | None = None
    max_drift_us: int | None = None
    says_lateness: bool = False

    @property
    def skips_nulls(self) -> bool:
        return self.on_null == "skip"

    @property
    def keeps_going(self) -> bool:
        """Whether a run goes on when a record cannot be read."""
        return self.on_bad != "error"

    @property
    def in_time_order(self) -> bool:
        return self.read == "time"


def interval_us(given: str | timedelta) -> int:
    """Microseconds of an interval as text or as Python has it. Raises ValueError with a sentence.

    >>> interval_us("2 seconds"), interval_us(timedelta(minutes=1))
    (2000000, 60000000)
    """
    if isinstance(given, timedelta):
        return given // timedelta(microseconds=1)
    if not isinstance(given, str):
        raise ValueError(f"{given!r} is not an interval; write for example '30 seconds', or give a datetime.timedelta")
    return parse_interval(given)


def _positive_us(given: str | timedelta) -> int:
    us = interval_us(given)
    if us <= 0:
        raise ValueError(f"{given!r} is no length of time; write for example '30 seconds'")
    return us


def parse_reload(given: str | timedelta) -> int:
    """How long after a load of a table the next begins, in microseconds."""
    us = _positive_us(given)
    if us < 1_000_000:
        raise ValueError(f"{given!r} is too often; write '1 second' or more")
    return us


def _not_negative_us(given: str | timedelta) -> int:
    us = interval_us(given)
    if us < 0:
        raise ValueError(f"{given!r} is negative; write '0 seconds' or more")
    return us


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def parse(given: str) -> str:
        word = str(given).lower()
        if word not in words:
            raise ValueError(f"{given!r} is not one of {', '.join(map(repr, words))}")
        return word

    return parse


def _policy(words: tuple[str, ...]) -> Callable[[str], str]:
    return lambda given: parse_policy(words, given)


def _unit(given: str) -> str:
    word = str(given).strip().lower()
    word = _UNITS.get(word.rstrip("s") if len(word) > 2 else word, word)
    if word not in UNIT_ORDER:
        raise ValueError(f"{given!r} is not one of {', '.join(map(repr, UNIT_ORDER))}")
    return word


_UNITS = {"sec": "s", "second": "s", "milli": "ms", "millisecond": "ms", "µs": "us", "micro": "us"}
_UNITS |= {"microsecond": "us", "nano": "ns", "nanosecond": "ns"}


def _format(given: str) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{given!r} is no format; write for example '%Y-%m-%d %H:%M:%S'")
    return time_format(given).written


def _column(given: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"{given!r} is no name of a column; write for example 'arrived'")
    return given


def _zone(given: str) -> str:
    try:
        return check_zone(str(given))
    except OptionError as error:
        said = error.message.removeprefix("timezone: ")
        raise ValueError(f"{said}; {error.hint}") from None


# How each option of a stream is read. Every one raises ValueError with a sentence that says what would do.
PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "lateness": _not_negative_us,
    "read": _one_of(READ),
    "on_late": _policy(ON_LATE),
    "on_bad": _policy(ON_BAD),
    "idle": _positive_us,
    "max_future": _not_negative_us,
    "max_drift": _positive_us,
    "rounding": _one_of(ROUNDING),
    "on_null": _one_of(ON_NULL),
    "time_unit": _unit,
    "time_format": _format,
    "time_zone": _zone,
    "arrival_column": _column,
}


def arrival_of(parsed: Mapping[str, Any]) -> Arrival:
    """The arrival that options say, by name and read already; those that nobody said are missing or None."""
    return Arrival(
        read=parsed.get("read") or "time",
        on_late=parsed.get("on_late") or "count",
        on_null=parsed.get("on_null") or "error",
        on_bad=parsed.get("on_bad") or "error",
        idle_us=parsed.get("idle"),
        max_future_us=parsed.get("max_future"),
        max_drift_us=parsed.get("max_drift"),
        says_lateness=parsed.get("lateness") is not None,
    )
