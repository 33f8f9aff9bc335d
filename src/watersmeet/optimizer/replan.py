"""Better routes for a join that runs, from what it has measured. Only windows are stored, so a switch moves no rows."""

from __future__ import annotations

import logging
from dataclasses import field, replace
from typing import ClassVar

from watersmeet.dataclass import dataclass
from watersmeet.model.time import format_instant
from watersmeet.model.wording import time_a_second
from watersmeet.optimizer.choose_routes import with_routes
from watersmeet.optimizer.describe import Description
from watersmeet.optimizer.estimate_join import busy_ns
from watersmeet.physical.estimate import Switch
from watersmeet.physical.strategy import InputStatistics, JoinStatistics, JoinStrategy, Route
from watersmeet.plan.expressions import to_text

log = logging.getLogger("watersmeet.optimizer")

DRIFT = 1.3  # a number that has changed by this factor is worth another look at the plan
MOST_DRIFT = 3.0  # after looks that found nothing, by that much more each time up to this: numbers wobble
GAIN = 1.2  # and the plan is changed if the old one costs this many times the new one
LOOK_ANYWAY = 16  # at every so manieth chance, for what no single number shows


@dataclass
class Replanner:
    """Watches one join. Two thresholds, so that a plan neither is searched for nor changes at every wobble: a search
    takes milliseconds, in which no other thread runs."""

    STATE: ClassVar[tuple[str, ...]] = ("_looked_at", "_chances")

    strategy: JoinStrategy
    drift: float = DRIFT
    gain: float = GAIN
    _looked_at: dict[str, float] = field(default_factory=dict)
    _chances: int = 0
    _worth_a_look: float = 0.0  # not saved: who goes on elsewhere may look again

    def __post_init__(self) -> None:
        self._worth_a_look = self.drift

    def consider(self, measured: JoinStatistics, at_us: int) -> tuple[JoinStrategy, Switch] | None:
        """A strategy to switch to, or None."""
        self._chances += 1
        numbers = {name: value for alias, one in measured.items() for name, value in _numbers(alias, one)}
        if not self._has_drifted(numbers) and self._chances % LOOK_ANYWAY:
            return None
        # Also if no plan is better: drift is measured from the last look, not from the last switch.
        self._looked_at = numbers
        found = self._better(replace(self.strategy, measured=measured), at_us)
        self._worth_a_look = self.drift if found else min(self._worth_a_look * self.drift, max(MOST_DRIFT, self.drift))
        return found

    def _has_drifted(self, numbers: dict[str, float]) -> bool:
        # The first time there is nothing to compare with.
        if numbers.keys() != self._looked_at.keys():
            return True
        pairs = [(self._looked_at[name], value) for name, value in numbers.items()]
        # Either way round, as rates fall as well as rise; from zero any change is a drift.
        return any(max(old, new) > self._worth_a_look * min(old, new) for old, new in pairs)

    def _better(self, current: JoinStrategy, at_us: int) -> tuple[JoinStrategy, Switch] | None:
        description = Description(current)
        found = with_routes(description)
        before_ns, after_ns = busy_ns(current, description), busy_ns(found, description)
        # Both by the new numbers: what the old plan cost when it was chosen does not matter.
        if found.routes == current.routes or before_ns <= self.gain * after_ns:
            return None
        self.strategy = found
        switch = Switch(at_us, _orders(current.routes), _orders(found.routes), before_ns, after_ns)
        log.info("%s", in_words(switch))
        return found, switch


def in_words(switch: Switch) -> str:
    pairs = zip(switch.before, switch.after, strict=True)
    changed = [f"{', '.join(new)} (was {', '.join(old)})" for old, new in pairs if old != new]
    # The same orders through other indexes.
    what = "; ".join(changed) or "other indexes"
    cost = f"{time_a_second(switch.before_ns)} -> {time_a_second(switch.after_ns)} a second"
    return f"new join order from {format_instant(switch.at_us)}: {what}; {cost}"


def _numbers(alias: str, one: InputStatistics) -> list[tuple[str, float]]:
    values = [(f"{alias} {code}", count) for code, count in one.distinct.items()]
    passing = [(f"{alias} passes {to_text(test)}", seen.passing) for test, seen in one.tests.items()]
    return [(f"{alias} rate", one.rate), (f"{alias} rows", one.rows), *values, *passing]


def _orders(routes: tuple[Route, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(route.visits for route in routes)
