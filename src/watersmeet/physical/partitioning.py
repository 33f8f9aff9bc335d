"""How the rows of a join are spread over buckets that work apart from each other.

Buckets form a grid. Along each dimension an input is either placed, by the hash of a key or by fragment, or it
is replicated to every coordinate. Two rows that can be in one combination agree wherever both are placed, so
every combination has exactly one bucket in which all its members meet.

Of a key that has too many rows for one coordinate (`SpreadKeys`) the rows of one input are dealt out over all
coordinates, each to one of them, and those of the others that are placed are copied there. A combination has one row of
that input, so it still has one bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from watersmeet.dataclass import dataclass
from watersmeet.physical.strategy import Code


@dataclass(frozen=True)
class SpreadKeys:
    """Keys whose rows one place would have too many of, by their codes in order: those of the input `split` are dealt
    out, those of others copied."""

    split: str
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Dimension:
    """`keys` places inputs by a key they share, but for those that are `spread`; without keys, the input `fragment` is
    cut into arbitrary parts."""

    size: int
    keys: Mapping[str, Code]
    fragment: str | None = None
    spread: SpreadKeys | None = None

    def places(self, alias: str) -> bool:
        return alias in self.keys or alias == self.fragment

    def __str__(self) -> str:
        if self.fragment is not None:
            return f"{self.size} fragments of {self.fragment}"
        return f"{self.size} by " + " = ".join(str(code) for code in self.keys.values())


@dataclass(frozen=True)
class Partitioning:
    """The grid, and why it was chosen. No dimensions: one bucket holds everything.

    `announced` inputs have ROWS windows that no bucket could count by its own rows: every bucket is told the time
    of each of their rows, in the same order, and counts them all.
    """

    dimensions: tuple[Dimension, ...]
    reason: str
    announced: tuple[str, ...] = ()

    @property
    def buckets(self) -> int:
        # An empty product is 1: without dimensions there is one bucket.
        return prod(dimension.size for dimension in self.dimensions)

    def copies(self, alias: str) -> int:
        """In how many buckets each row of an input is."""
        return prod(dimension.size for dimension in self.dimensions if not dimension.places(alias))
