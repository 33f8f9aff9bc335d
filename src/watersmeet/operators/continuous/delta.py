"""Changes of an answer: rows that enter it and rows that leave it, each at an instant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.operators.contract import Positions
from watersmeet.operators.few_rows import one_letter_texts, picked_from, rows_taken
from watersmeet.operators.kernels.changes import leaving_first

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Delta:
    """Rows with `diffs` of +1 (enters) or -1 (leaves), in the order of their instants; at one instant rows leave
    before others enter.

    `order` numbers the rows of an answer as they came into being: a row leaves with the number it entered with.
    `noticed` is the event time at which the operators noticed a change, where that can be later than its instant.
    """

    STATE: ClassVar = ("data", "instants", "diffs", "order", "noticed")

    data: pa.RecordBatch
    instants: Int64s
    diffs: Int64s
    order: Int64s
    noticed: Int64s | None = None

    def __len__(self) -> int:
        return int(self.instants.size)

    @property
    def noticed_at(self) -> Int64s:
        return self.instants if self.noticed is None else self.noticed

    def take(self, positions: Positions) -> Delta:
        return Delta(
            rows_taken(self.data, positions),
            picked_from(self.instants, positions),
            picked_from(self.diffs, positions),
            picked_from(self.order, positions),
            None if self.noticed is None else picked_from(self.noticed, positions),
        )

    def where(self, kept: Bools) -> Delta:
        return self if bool(kept.all()) else self.take(np.flatnonzero(kept))

    def before(self, instant: int) -> tuple[Delta, Delta]:
        """The changes before an instant, and the others."""
        cut = int(np.searchsorted(self.instants, instant))
        return self._piece(0, cut), self._piece(cut, len(self))

    def with_data(self, data: pa.RecordBatch) -> Delta:
        return Delta(data, self.instants, self.diffs, self.order, self.noticed)

    def _piece(self, start: int, stop: int) -> Delta:
        return Delta(
            self.data.slice(start, stop - start),
            self.instants[start:stop],
            self.diffs[start:stop],
            self.order[start:stop],
            None if self.noticed is None else self.noticed[start:stop],
        )


def no_changes(schema: pa.Schema) -> Delta:
    nothing = np.empty(0, np.int64)
    return Delta(empty_batch(schema), nothing, nothing, nothing)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Several batches as one."""
    full = [batch for batch in batches if batch.num_rows]
    if not full:
        return empty_batch(schema)
    return full[0] if len(full) == 1 else pa.concat_batches(full)


def merged(deltas: Sequence[Delta], schema: pa.Schema) -> Delta:
    """Several logs of rows with the same columns as one, in order."""
    full = [delta for delta in deltas if len(delta)]
    if not full:
        return no_changes(schema)
    if len(full) == 1:
        return full[0]
    delayed = any(delta.noticed is not None for delta in full)
    everything = Delta(
        joined([delta.data for delta in full], schema),
        np.concatenate([delta.instants for delta in full]),
        np.concatenate([delta.diffs for delta in full]),
        np.concatenate([delta.order for delta in full]),
        np.concatenate([delta.noticed_at for delta in full]) if delayed else None,
    )
    return everything.take(in_order(everything.instants, everything.diffs))


def in_order(instants: Int64s, diffs: Int64s) -> Positions:
    """Positions by instant, rows that leave before rows that enter."""
    order = np.empty(instants.size, np.int64)
    if leaving_first(instants, diffs, order):
        return order
    return np.lexsort((diffs, instants))  # lexsort's last key counts most


def latest_noticed(delta: Delta, order: Positions, starts: Int64s) -> Int64s | None:
    """When the last change of each cell was noticed, or None if all are noticed at their instants."""
    if delta.noticed is None:
        return None
    noticed: Int64s = np.maximum.reduceat(delta.noticed[order], starts)
    return noticed


# "+" stands before "," and "-" after it.
_COMMA = np.uint8(ord(","))


def signs(delta: Delta) -> pa.Array:
    """A text of one letter for each change."""
    # -1 is 255 there, and what is less than 0 wraps round.
    return one_letter_texts(_COMMA - delta.diffs.astype(np.uint8))
