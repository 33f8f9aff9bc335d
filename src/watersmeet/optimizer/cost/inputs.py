"""What a cost model must know of a join: its streams, what they are equal on, other predicates, bounds on time.

Time has any one unit throughout: a rate of 5 and a window of 60 may be rows a second and seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.errors import WatersmeetError


@dataclass(frozen=True)
class StreamRate:
    """λ rows a unit of time, a window of T units, v distinct keys, b buckets (1: no index).

    >>> StreamRate("s", rate=10, window=100, distinct=500).rows
    1000
    """

    name: str
    rate: float
    window: float
    distinct: float = math.inf
    buckets: int = 1

    def __post_init__(self) -> None:
        _require(self.rate >= 0, f"the rate of {self.name}", self.rate, "zero or more rows a unit of time")
        _require(self.window >= 0, f"the window of {self.name}", self.window, "zero or more units of time")
        _require(self.distinct >= 1, f"the distinct count of {self.name}", self.distinct, "at least 1")
        _require(self.buckets >= 1, f"the number of buckets of {self.name}", self.buckets, "at least 1")

    @property
    def rows(self) -> float:
        """|S| = λT, the rows in the window."""
        return self.rate * self.window


@dataclass(frozen=True)
class Key:
    """An attribute that streams are equal on: how many values it has in each, or how often each value comes.

    Where only counts are known, values are uniform and contained: a stream has the first v of one list of values.
    Frequencies follow the same list.
    """

    distinct: Mapping[str, float] = field(default_factory=dict)
    frequencies: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, count in self.distinct.items():
            _require(1 <= count < math.inf, f"the distinct count of {name}", count, "a number of at least 1")
        for name, shares in self.frequencies.items():
            total = math.fsum(shares)
            _require(math.isclose(total, 1), f"the sum of frequencies of {name}", total, "1")

    @property
    def streams(self) -> frozenset[str]:
        return frozenset(self.distinct) | frozenset(self.frequencies)

    def matching(self, streams: Iterable[str]) -> float:
        """The probability that one row of each stream has the same value: Σ_a p_a q_a ….

        For uniform, contained values that is min(v) / ∏ v, and for two streams GO03's 1 / max(v_m, v_n).

        >>> Key({"m": 500, "n": 40}).matching("mn")
        0.002
        >>> Key(frequencies={"m": [0.75, 0.25], "n": [0.75, 0.25]}).matching("mn")
        0.625
        """
        members = [name for name in streams if name in self.streams]
        if len(members) < 2:
            return 1.0
        if not any(name in self.frequencies for name in members):
            counts = sorted(self.distinct[name] for name in members)
            # min(v) / ∏ v: the smallest count cancels.
            return 1 / math.prod(counts[1:])
        shares = [self._shares(name) for name in members]
        # Values are contained: beyond the shortest list some stream has none of them.
        shortest = min(len(one) for one in shares)
        return float(np.prod([one[:shortest] for one in shares], axis=0).sum())

    def _shares(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if name in self.frequencies:
            return np.asarray(self.frequencies[name], dtype=np.float64)
        # A count may be an estimate with a fraction; the shares then sum to a little more than 1.
        return np.full(math.ceil(self.distinct[name]), 1 / self.distinct[name])


@dataclass(frozen=True)
class Theta:
    """Any other predicate: the share of combinations that pass, and the cost of one test in comparisons."""

    streams: frozenset[str]
    selectivity: float
    cost: float = 1.0

    def __post_init__(self) -> None:
        _require(len(self.streams) >= 2, "the number of streams of a predicate", len(self.streams), "at least 2")
        _require(0 <= self.selectivity <= 1, "a selectivity", self.selectivity, "between 0 and 1")
        _require(self.cost >= 0, "the cost of a predicate", self.cost, "zero or more comparisons")


@dataclass(frozen=True)
class JoinGraph:
    """A join of streams. `bounds[earlier, later]` is by how much `later` may be after `earlier`, closed under
    shortest paths, as `model.windows.close` gives them; a negative one says by how much it must be before."""

    streams: tuple[StreamRate, ...]
    keys: tuple[Key, ...] = ()
    thetas: tuple[Theta, ...] = ()
    bounds: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = self.names
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise WatersmeetError(f"stream {repeated[0]} is given twice; each stream of a join has its own name")
        mentioned = [*(key.streams for key in self.keys), *(theta.streams for theta in self.thetas), *self.bounds]
        unknown = sorted({name for several in mentioned for name in several} - set(names))
        if unknown:
            raise WatersmeetError(f"a predicate names {unknown[0]}, which is none of the streams {', '.join(names)}")

    @classmethod
    def on_one_key(cls, streams: Iterable[StreamRate]) -> JoinGraph:
        """GO03's case: all streams are equal on one attribute, of which each has `distinct` values."""
        streams = tuple(streams)
        return cls(streams, keys=(Key({one.name: one.distinct for one in streams}),))

    @cached_property  # asked for by every step of every order
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.streams)

    def position(self, name: str) -> int:
        if name not in self.names:
            raise WatersmeetError(f"{name} is none of the streams {', '.join(self.names)}")
        return self.names.index(name)

    def positions(self, order: Sequence[str]) -> list[int]:
        """Where the streams of an order stand in `streams`; it must name each once."""
        at = {one.name: position for position, one in enumerate(self.streams)}
        if len(order) != len(at) or not at.keys() <= set(order):
            given, wanted = ", ".join(order), ", ".join(self.names)
            raise WatersmeetError(f"the order {given} does not name each of the streams {wanted} once")
        return [at[name] for name in order]


def _require(holds: bool, what: str, given: float, wanted: str) -> None:
    if not holds:
        raise WatersmeetError(f"{what} is {given:g}; it must be {wanted}")
