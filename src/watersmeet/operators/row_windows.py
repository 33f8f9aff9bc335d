"""ROWS windows: when each row is pushed out by the N newer ones of its stream or partition.

A row is in `[ROWS N]` at T while fewer than N rows of its stream lie after it and not after T; so it dies at
the time of the N-th row after it. Rows must come in time order, which time_order.InTimeOrder sees to.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US, Times
from watersmeet.model.windows import RowsWindow, SteppedRows
from watersmeet.operators.codes import encode
from watersmeet.operators.contract import Rows
from watersmeet.operators.kernels.spread import nth_later
from watersmeet.operators.keyed_state import KeyedRows, NumberedAnew
from watersmeet.operators.partition_key import KeysOf, PartitionKey

Numbers = npt.NDArray[np.int64]
_NEXT = 1 << 46


@dataclass(frozen=True)
class Deaths:
    """What a batch of new rows does to a ROWS window: serial numbers and deaths of the new rows, and of the
    older rows that they push out."""

    serials: Numbers
    times: Times
    pushed_out: Numbers
    pushed_out_at: Times


class RowWindow:
    """The rows still in the window, as times, serial numbers and partition numbers; all rows of the stream
    count, also those that no predicate lets through."""

    STATE = ("times", "serials", "partitions", "_numbering", "next_serial")

    def __init__(self, window: RowsWindow) -> None:
        self.window = window
        self.count = min(window.count, FOREVER_US)  # positions are added to it in int64
        self.partition_by = window.partition_by
        self.times: Times = np.empty(0, np.int64)
        self.serials: Numbers = np.empty(0, np.int64)
        self.partitions: Numbers = np.empty(0, np.int64)
        self._numbering = Numbering(len(window.partition_by))
        self.next_serial = 0

    def add(self, rows: Rows) -> Deaths:
        before = self.times.size
        serials = np.arange(self.next_serial, self.next_serial + len(rows))
        self.next_serial += len(rows)
        self.times = np.concatenate([self.times, rows.times])
        self.serials = np.concatenate([self.serials, serials])
        if self.partition_by:
            new = self._numbering.of([rows.data.column(name) for name in self.partition_by])
            self.partitions = np.concatenate([self.partitions, new])
        deaths = self._deaths()
        alive = deaths == FOREVER_US
        gone = np.flatnonzero(~alive[:before])
        result = Deaths(serials, deaths[before:], self.serials[gone], deaths[gone])
        # The rows still in the window are enough to count the next ones by.
        self.times, self.serials = self.times[alive], self.serials[alive]
        if self.partition_by:
            self.partitions = self.partitions[alive]
        return result

    def keyed(self, keys_of: KeysOf) -> KeyedRows:
        """The rows in the window, by a key that is among the partition columns."""
        values = pa.RecordBatch.from_arrays(self._numbering.values(self.partitions), list(self.partition_by))
        return KeyedRows.of(keys_of(values), values, times=self.times, serials=self.serials)

    def together(self) -> KeyedRows:
        """The same where they are counted together, by numbers that are the same in all parts that count them."""
        columns = self._numbering.values(self.partitions) if self.partition_by else []
        values = pa.RecordBatch.from_arrays(columns, list(self.partition_by))
        keys = np.zeros(self.times.size, np.int64)
        return KeyedRows.of(keys, values, times=self.times, serials=self.renumbered(self.serials))

    def renumbered(self, serials: Numbers) -> Numbers:
        """Counted back from the row that comes next, and from a number above all that are counted back."""
        return serials - self.next_serial + _NEXT

    def take_over(self, rows: KeyedRows, anew: NumberedAnew) -> None:
        """Count from here on by rows of one or several other windows, under these serials."""
        rows = anew.of(rows).sorted_by("serials")
        self.times, self.serials, self.next_serial = rows.numbers["times"], rows.numbers["serials"], anew.next
        if len(rows) and self.partition_by:
            self.partitions = self._numbering.of(rows.data.columns)

    def _deaths(self) -> Times:
        deaths = np.full(self.times.size, FOREVER_US, np.int64)
        if self.partition_by:
            nth_later(self.partitions, self._numbering.size, self.count, self.times, FOREVER_US, deaths)
        elif self.times.size > self.count:
            deaths[: -self.count] = self.times[self.count :]
        return deaths


def counts_together(alias: str, window: RowsWindow | SteppedRows, key: PartitionKey) -> str | None:
    """Why rows of a stream that are placed by a key cannot be counted apart, if they cannot."""
    if alias in key.codes and key.column(alias) in window.partition_by:
        return None
    return f"the ROWS window of {alias} counts rows of all keys together"


class Numbering:
    """Numbers the distinct combinations of the partition columns from 0; NULL is a value like any other."""

    STATE = ("_columns", "_pairs")

    def __init__(self, columns: int) -> None:
        self._columns = [_Distinct() for _ in range(columns)]
        self._pairs = [_Distinct() for _ in range(columns - 1)]

    @property
    def size(self) -> int:
        return (self._pairs or self._columns)[-1].size

    def of(self, columns: list[pa.Array]) -> Numbers:
        numbers = [distinct.numbers(column) for distinct, column in zip(self._columns, columns, strict=True)]
        combined = numbers[0]
        for pair, more in zip(self._pairs, numbers[1:], strict=True):
            # Both halves are below 2**31: Arrow's index_in, which they come from, counts in int32.
            combined = pair.numbers(pa.array((combined << 32) | more))
        return combined

    def values(self, numbers: Numbers) -> list[pa.Array]:
        """The combinations that have these numbers, column by column."""
        found: list[pa.Array] = []
        for pair in reversed(self._pairs):
            both = pair.values(numbers).to_numpy(zero_copy_only=False)
            numbers, second = both >> 32, both & 0xFFFFFFFF
            found.append(second)
        return [one.values(n) for one, n in zip(self._columns, [numbers, *reversed(found)], strict=True)]


class _Distinct:
    """The distinct values of one column seen so far, in order of appearance."""

    STATE = ("_known",)

    def __init__(self) -> None:
        self._known: pa.Array | None = None

    @property
    def size(self) -> int:
        return 0 if self._known is None else len(self._known)

    def values(self, numbers: Numbers) -> pa.Array:
        """The values that have these numbers."""
        return pa.array([], pa.int64()) if self._known is None else self._known.take(pa.array(numbers))

    def numbers(self, values: pa.Array) -> Numbers:
        if pa.types.is_floating(values.type):  # 0.0 and -0.0 are one value, and so is every NaN
            values = pa.array(encode(values), mask=values.is_null().to_numpy(zero_copy_only=False))
        seen = values.unique()
        if self._known is None:
            self._known = seen
        else:
            # index_in finds NULL, too, if it is among the known.
            fresh = seen.filter(pc.is_null(pc.index_in(seen, self._known)))
            self._known = pa.concat_arrays([self._known, fresh]) if len(fresh) else self._known
        found: Numbers = pc.index_in(values, self._known).cast(pa.int64()).to_numpy(zero_copy_only=False)
        return found
