"""What a join is expected to cost, and what was measured of it: numbers for EXPLAIN, made by the optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any, ClassVar, Literal

from watersmeet.dataclass import dataclass

Known = Literal["measured", "declared", "assumed"]


@dataclass(frozen=True)
class InputEstimate:
    """An input: rows a second, rows and bytes kept, and whether that was measured, declared or assumed."""

    rate: float
    rows: float
    bytes: float
    known: Known


@dataclass(frozen=True)
class StepEstimate:
    """One loop of a route, for one new row: rows looked at in all, and combinations that go on."""

    stream: str
    scanned: float
    carried: float


@dataclass(frozen=True)
class RouteEstimate:
    """What the new rows of one stream cost: comparisons and nanoseconds a second. Of the combinations of its last step,
    `passing` is the share that conditions on whole ones leave."""

    origin: str
    rate: float
    steps: tuple[StepEstimate, ...]
    busy_ns: float
    passing: float = 1.0

    @property
    def order(self) -> tuple[str, ...]:
        return (self.origin, *(step.stream for step in self.steps))

    @property
    def comparisons(self) -> float:
        return self.rate * sum(step.scanned for step in self.steps)

    @property
    def lookups(self) -> float:
        """How often a window is searched: by each new row, and by each combination that goes on to the next."""
        # The last step finds results, which search nothing any more.
        return self.rate * (len(self.steps) > 0) * (1.0 + sum(step.carried for step in self.steps[:-1]))


@dataclass(frozen=True)
class Alternative:
    """Another way to run the join, with its costs a second."""

    name: str
    comparisons: float
    busy_ns: float
    lookups: float = 0.0


@dataclass(frozen=True)
class ConditionEstimate:
    """A condition that is tested on combinations: nanoseconds for one, the share that passes, and for the new rows of
    each stream after which other it is tested; None: on whole combinations."""

    condition: str
    ns: float
    price_known: Known
    passing: float
    passing_known: Known
    tested_after: Mapping[str, str | None]


@dataclass(frozen=True)
class JoinEstimate:
    """The chosen routes and what was considered besides. `way` is how they came about, `unique` has of each key that is
    declared to be unique how many values and rows are expected, or were measured."""

    inputs: Mapping[str, InputEstimate]
    routes: tuple[RouteEstimate, ...]
    alternatives: tuple[Alternative, ...] = ()
    distinct: Mapping[str, float] = field(default_factory=dict)
    way: str = "the best for each stream"
    unique: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    conditions: tuple[ConditionEstimate, ...] = ()

    @property
    def comparisons(self) -> float:
        return sum(route.comparisons for route in self.routes)

    @property
    def lookups(self) -> float:
        return sum(route.lookups for route in self.routes)

    @property
    def busy_ns(self) -> float:
        return sum(route.busy_ns for route in self.routes)

    @property
    def results(self) -> float:
        """Combinations a second."""
        # Each result is found once, by its last member, so routes add up.
        return sum(route.rate * route.steps[-1].carried * route.passing for route in self.routes if route.steps)


@dataclass(frozen=True)
class MemoryEstimate:
    """A join in bounded memory: by input the rows its window needs and the rows it should have memory for; the bytes
    of all rows needed and allowed; the recall to expect, and what keys it was worked out from. `part_of`: the memory
    that queries share, if what is allowed is a part of one, which moves. `frequencies`: the tables that say what keys
    are worth."""

    policy: str
    allocation: str
    rows_needed: Mapping[str, float]
    rows_kept: Mapping[str, float]
    bytes_needed: float
    rows_allowed: float
    bytes_allowed: float
    recall: float
    keys: Known
    part_of: str | None = None
    frequencies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Switch:
    """A change of routes while a join ran: when, from which orders to which, and what either would cost from then on,
    in nanoseconds a second."""

    STATE: ClassVar = ("at_us", "before", "after", "before_ns", "after_ns")

    at_us: int
    before: tuple[tuple[str, ...], ...]
    after: tuple[tuple[str, ...], ...]
    before_ns: float
    after_ns: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
