"""What a GROUP BY asks of an aggregate: take changes, say its value after each instant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def frozen(array: Int64s) -> Int64s:
    """A read-only, contiguous view, so that Numba compiles a kernel once and not for every kind of array."""
    view = np.ascontiguousarray(array, np.int64).view()
    view.flags.writeable = False
    return view


@contextmanager
def about(group: int) -> Iterator[None]:
    """What goes wrong here does so in a group."""
    try:
        yield
    except DataError as error:
        error.group = group
        raise


@dataclass(frozen=True)
class Cells:
    """Changes sorted by (instant, group). A cell is all changes of one group at one instant; none is empty."""

    groups: Int64s  # per change: the number of its group
    diffs: Int64s  # per change: +1 or -1; 0 is no change
    ends: Int64s  # per cell: one past its last change

    def __post_init__(self) -> None:
        for name in ("groups", "diffs", "ends"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __len__(self) -> int:
        return int(self.ends.size)


@dataclass(frozen=True)
class Shares:
    """What an aggregate holds of some groups, a row for each: numbers of its own, and columns."""

    numbers: dict[str, npt.NDArray[np.int64]]
    columns: dict[str, pa.Array]


class BySlots(ABC):
    """An aggregate that holds for each group what does not name rows, so that it can be had without them. It does not
    look at their order, and need not be told."""

    @abstractmethod
    def shares(self, groups: Int64s) -> Shares: ...

    @abstractmethod
    def take_over(self, groups: Int64s, shares: Shares) -> None:
        """Groups that others had, there being room for them."""


class OfWords(ABC):
    """An aggregate of values that are one int64 each. Where none is NULL it can be asked for without columns: what it
    gives is NULL only of groups without rows then."""

    @abstractmethod
    def takes(self, kind: pa.DataType) -> bool:
        """Whether the values of a type, as they lie in memory with their sign spread, are the words it adds up."""

    @abstractmethod
    def add(self, groups: Int64s, lives: Int64s, words: Int64s, ends: Int64s, out: Int64s, valid: Bools) -> None:
        """Take changes as `Cells` has them, with diffs that are 0 where a value is NULL, and write the word of each
        cell's group after it, and whether there is one."""


class Aggregator(Protocol):
    """One aggregate of all groups. Its results depend on the rows that are in, not on their history; what changes with
    them it names in STATE (see operators/saving.py)."""

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        """The aggregate of each cell's group after all changes of the cell; NULL where no value is left.

        `values` is the argument per change (None for COUNT(*)). A removal carries a value equal to one added before,
        or in the same cell, and the `order` of its row: the place of the row in time, which no other row has.
        """
        ...

    def grow(self, groups: int) -> None:
        """Make room for groups 0 to groups - 1. A number may be used again once all rows of its group have left."""
        ...

    @property
    def nbytes(self) -> int: ...
