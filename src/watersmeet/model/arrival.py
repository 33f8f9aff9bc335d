"""How the rows of a stream come: in which order they are read, how late they may be, and what is done about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet.dataclass import dataclass


@dataclass(frozen=True)
class Arrival:
    """What is declared of a stream beside its lateness.

    read: input that is at hand as a whole is read in the order of its event times, or as it arrives. on_late: whether
    rows that come too late are counted, end the run, or also go to a sink ('sink NAME'). on_null: whether rows without
    an event time end the run, or are skipped and counted. on_bad: the same for all records that cannot be read, which
    may also go to a sink; rows without an event time are among them unless `on_null` skips them. idle_us: after that
    much silence a stream no longer holds the watermark back. max_future_us: a row further ahead of the wall clock moves
    no watermark. max_drift_us: it is not read further ahead of the stream that is furthest behind, nor one of its
    partitions of another. says_lateness: whether the lateness was declared, be it 0.
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
