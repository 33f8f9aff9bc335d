"""Aggregates of all values of a group in order: what is asked for is worked out from them after each instant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError
from watersmeet.operators.continuous.aggregates.coding import coding_of
from watersmeet.operators.continuous.aggregates.columns import grown, live
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s, frozen
from watersmeet.operators.continuous.aggregates.ordered_rows import in_turn
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.kernels.collected import (
    KEY,
    LIST_FIELDS,
    NODE_FIELDS,
    NOT_AS_LONG,
    NOT_THERE,
    ROOM_FIELDS,
    SIZE,
    SPARE,
    USED,
    collect,
    free_nodes,
)
from watersmeet.operators.kernels.sums import count_changes

# What a group holds: columns of the values of all cells one behind the other, and where each cell's begin; the end
# comes last.
Summary = Callable[[Sequence[pa.Array], Int64s], pa.Array]
# So many values are read at a time.
PORTION = 1 << 20


class Collected:
    """The values of every group that are not NULL, by event time, or with `by_value` in their own order (for DISTINCT,
    which has no time: of equal values any may be the one that is left)."""

    STATE = ("_coding", "_lists", "_used", "_room", "_values")

    def __init__(
        self,
        data_type: pa.DataType,
        summary: Summary,
        *,
        by_value: bool = False,
        marked: bool = False,
        nulls: bool = False,
    ) -> None:
        """marked: values are structs, whose first field says whether a row counts. nulls: also one whose first value is
        NULL does."""
        self._summary = summary
        self._marked = marked
        self._nulls = nulls
        self._type = data_type
        self._coding = coding_of(data_type) if by_value else None
        self._lists: Int64s = np.zeros((0, LIST_FIELDS), np.int64)
        self._nodes: Int64s = np.zeros((0, NODE_FIELDS), np.int64)
        self._room: Int64s = np.zeros(ROOM_FIELDS, np.int64)
        self._values = RowTable(pa.schema([pa.field("value", data_type)]))

    def apply(self, changes: Cells, values: pa.Array | None, order: Int64s) -> pa.Array:
        assert values is not None
        values = _counted(values, nulls=self._nulls) if self._marked else values
        if not len(changes):
            return self._summary(self._columns(values[:0]), np.zeros(1, np.int64))
        lives = live(changes, values)
        keys = frozen(order) if self._coding is None else self._codes(values, lives)
        sizes = np.empty(len(changes), np.int64)
        count_changes(changes.groups, lives, changes.ends, self._lists[:, SIZE].copy(), sizes)
        places = frozen(np.arange(lives.size))
        groups, lives, keys, places = in_turn(changes, lives, changes.groups, lives, keys, places)
        made = self._after_each(Cells(groups, lives, changes.ends), keys, places, values, sizes)
        if self._coding is not None:
            self._coding.tidy()
        return made

    def _after_each(self, changes: Cells, keys: Int64s, places: Int64s, values: pa.Array, sizes: Int64s) -> pa.Array:
        """What is made of the values of each cell's group, which are so many after it. Additions come first."""
        made, first = [], 0
        for last in portions(sizes):
            held = self._entered(changes, keys, places, values, first, last, int(sizes[first:last].sum()))
            try:
                made.append(self._summary(self._columns(held), np.concatenate([[0], np.cumsum(sizes[first:last])])))
            except DataError as error:
                if error.group is not None:  # which knows cells only
                    error.group = int(changes.groups[changes.ends[first + error.group] - 1])
                raise
            first = last
        return pa.concat_arrays(made)

    def _columns(self, values: pa.Array) -> list[pa.Array]:
        columns: list[pa.Array] = values.flatten()[1:] if self._marked else [values]
        return columns

    def _codes(self, values: pa.Array, lives: Int64s) -> Int64s:
        assert self._coding is not None
        codes, renaming = self._coding.enter(values, lives)
        if renaming is not None:
            held = self._held()
            self._nodes[held, KEY] = renaming(np.ascontiguousarray(self._nodes[held, KEY]))
        return codes

    def _held(self) -> Int64s:
        """The nodes that have rows."""
        there = self._values.holds(np.arange(int(self._room[USED])))
        return np.flatnonzero(there)

    def _entered(
        self, changes: Cells, keys: Int64s, places: Int64s, values: pa.Array, first: int, last: int, read: int | None
    ) -> pa.Array:
        """Enter the changes of some cells; the values of their groups after each, so many, or none if it is None."""
        start, end = (int(changes.ends[first - 1]) if first else 0), int(changes.ends[last - 1])
        coming = int(np.count_nonzero(changes.diffs[start:end] > 0))
        self._nodes = grown(self._nodes, int(self._room[USED] - self._room[SPARE]) + coming + 1, by=0.5)
        # Freed nodes may lie anywhere below those that were ever used.
        self._nodes = grown(self._nodes, int(self._room[USED]) + coming, by=0.5)
        entered, left = np.full(changes.diffs.size, -1, np.int64), np.empty(end - start, np.int64)
        out = np.empty(read or 0, np.int64)
        gone = collect(
            changes.groups, changes.diffs, changes.ends, first, last, keys, self._lists, self._nodes, self._room,
            entered, left, read is not None, out,
        )  # fmt: skip
        if gone == NOT_THERE:
            raise AssertionError("a row left that had not come")
        if gone == NOT_AS_LONG:
            raise AssertionError("groups have other sizes than were counted")
        fresh = np.flatnonzero(entered[start:end] >= 0) + start
        self._values.put(entered[fresh], [values.take(pa.array(places[fresh]))])
        (held,) = self._values.get(out)
        left = left[:gone]
        self._values.drop(left)
        free_nodes(self._nodes, self._room, left)
        return held

    def grow(self, groups: int) -> None:
        self._lists = grown(self._lists, groups)

    @property
    def nbytes(self) -> int:
        coding = 0 if self._coding is None else self._coding.nbytes
        return self._lists.nbytes + self._used.nbytes + self._values.nbytes + coding

    @property
    def _used(self) -> Int64s:
        """Without the nodes that were kept ready and never used."""
        return self._nodes[: self._room[USED]]

    @_used.setter
    def _used(self, nodes: Int64s) -> None:
        self._nodes = nodes


def _counted(rows: pa.Array, *, nulls: bool) -> pa.Array:
    """Rows that do not count as NULL."""
    columns = rows.flatten()
    counts = pc.fill_null(columns[0], False)
    if not nulls:
        counts = pc.and_(counts, columns[1].is_valid())
    return pa.StructArray.from_arrays(columns, fields=list(rows.type), mask=pc.invert(counts))


def portions(sizes: Int64s) -> list[int]:
    """Where to stop, cell by cell, so that about as many values are read at a time as a portion has."""
    totals = np.cumsum(sizes)
    ends = np.searchsorted(totals, np.arange(PORTION, int(totals[-1]) + PORTION, PORTION)) + 1
    ends = np.unique(np.minimum(ends, sizes.size))
    return [*ends[ends < sizes.size].tolist(), int(sizes.size)]
