"""Rows compared with the one value that their key has: kept in its order, so that when the value moves only the rows
between where it was and where it is are touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.operators.codes import codes_of
from watersmeet.operators.continuous.aggregates.columns import grown
from watersmeet.operators.continuous.aggregates.contract import frozen
from watersmeet.operators.continuous.aggregates.ordered_rows import Tree
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s, in_order, no_changes
from watersmeet.operators.continuous.node import Divides, Node, keys_below, next_event_below, shown_keys
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.continuous.set_operation import Held
from watersmeet.operators.evaluate import columns_in, evaluate
from watersmeet.operators.few_rows import rows_taken, taken
from watersmeet.operators.kernels import threshold as kernel
from watersmeet.operators.kernels.ordered import DONE, NEEDS_ROOM
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.physical.strategy import Code, Comparison
from watersmeet.plan.expressions import Expression

# Which rows pass: those above the value, or below it; and whether the border lies behind those that are equal to it.
BORDERS = {"gt": (True, True), "ge": (True, False), "lt": (False, False), "le": (False, True)}


@dataclass(frozen=True)
class Events:
    """Changes of rows and of values, in the order in which they are made."""

    instants: Int64s
    kinds: Int64s
    groups: Int64s
    codes: Int64s
    rows: Int64s  # the number of the row; of a value, whether there is one

    def __len__(self) -> int:
        return int(self.instants.size)

    def and_of(self, other: Events) -> Events:
        both = [np.concatenate(pair) for pair in zip(self._arrays, other._arrays, strict=True)]
        order = np.lexsort((both[1], both[0]))
        return Events(*(frozen(array[order]) for array in both))

    @property
    def _arrays(self) -> tuple[Int64s, ...]:
        return self.instants, self.kinds, self.groups, self.codes, self.rows


class Threshold(Divides):
    """The rows that compare as asked with the value of their key, as the columns asked for. Both inputs are changes; of
    a key there is at most one value at a time. NULL, like no value, compares with nothing."""

    STATE = ("_rows", "_values", "_groups", "_counts", "_levels", "_ids", "_table", "_links", "_tree", "_next")

    netted = False  # rows may be equal

    def __init__(
        self,
        rows: Node,
        values: Node,
        keys: Sequence[tuple[Code, Code]],
        comparison: Comparison,
        columns: Sequence[tuple[str, Expression]],
    ) -> None:
        """keys: of the rows and of the values, which are equal. comparison: what of the rows, with what of the
        values."""
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.columns = list(columns)
        self.keys = list(keys)
        self.comparison = comparison
        self._rows, self._values = Held(rows), Held(values)
        self._groups = RowIds()
        self._counts: Int64s = np.zeros(self._groups.room, np.int64)
        self._levels: Int64s = np.zeros((self._groups.room, kernel.LEVEL_FIELDS), np.int64)
        self._ids = RowIds()
        self._table = RowTable(rows.schema)
        self._links: Int64s = np.zeros((self._ids.room, kernel.LINK_FIELDS), np.int64)
        self._tree = Tree()
        self._next = 0

    @property
    def complete(self) -> int:
        return min(node.complete for node in self.inputs())

    @property
    def held_rows(self) -> int:
        return self._ids.live

    @property
    def nbytes(self) -> int:
        arrays = (self._counts, self._levels, self._links, self._tree.nodes)
        return sum(part.nbytes for part in (self._groups, self._ids, self._table, *arrays))

    def inputs(self) -> Iterator[Node]:
        yield self._rows.node
        yield self._values.node

    def next_event(self) -> int:
        return next_event_below(self)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return shown_keys(self.columns, keys_below(self._rows.node, key))

    def take(self, until: int) -> Delta:
        self._rows.take(until)
        self._values.take(until)
        rows, values = self._rows.release(self.complete), self._values.release(self.complete)
        if not len(rows) and not len(values):
            return no_changes(self.schema)
        ids = self._ids.of([pa.array(rows.order)], len(rows))
        self._enter(rows, ids)
        changed = self._changed(rows, ids)
        events = changed.and_of(self._moved(values))
        answer = self._answer(events)
        # Only now, as the answer may take rows out that are gone.
        self._ids.forget(ids[rows.diffs < 0])
        self._forget(changed, events)
        return answer

    def _enter(self, delta: Delta, ids: Int64s) -> None:
        """Note where new rows stand, for as long as they are there."""
        self._links = grown(self._links, self._ids.room)
        enters = np.flatnonzero(delta.diffs > 0)
        ids, data = ids[enters], rows_taken(delta.data, enters)
        codes, valid = self._codes(self.comparison.own, data)
        groups = self._grouped(data, [own for own, _ in self.keys], valid)
        self._links[ids, kernel.GROUP], self._links[ids, kernel.CODE] = groups, codes
        compares = np.flatnonzero(groups >= 0)
        self._table.put(ids[compares], [taken(column, compares) for column in data.columns])

    def _changed(self, delta: Delta, ids: Int64s) -> Events:
        """Rows that come and go, but for those that compare with nothing."""
        groups = self._links[ids, kernel.GROUP]
        compares = groups >= 0
        ids, diffs = ids[compares], delta.diffs[compares]
        kinds = np.where(diffs > 0, kernel.ENTERS, kernel.LEAVES)
        return Events(delta.instants[compares], kinds, groups[compares], self._links[ids, kernel.CODE], ids)

    def _moved(self, delta: Delta) -> Events:
        """What the value of a group is after each instant that changes it: a row that enters stands behind the one that
        leaves."""
        codes, valid = self._codes(self.comparison.bound, delta.data)
        groups = self._grouped(delta.data, [other for _, other in self.keys], np.ones(len(delta), np.bool_))
        order = np.lexsort((delta.diffs, groups, delta.instants))
        instants, groups = delta.instants[order], groups[order]
        is_last = groups >= 0
        is_last[:-1] &= (instants[1:] != instants[:-1]) | (groups[1:] != groups[:-1])
        last = order[is_last]
        known = (valid[last] & (delta.diffs[last] > 0)).astype(np.int64)
        return Events(instants[is_last], np.full(last.size, kernel.MOVES), groups[is_last], codes[last], known)

    @staticmethod
    def _codes(code: Code, data: pa.RecordBatch) -> tuple[Int64s, Bools]:
        codes, valid = codes_of(code.expression, columns_in(data), data.num_rows)
        return codes, np.ones(data.num_rows, np.bool_) if valid is None else valid

    def _grouped(self, data: pa.RecordBatch, keys: Sequence[Code], valid: Bools) -> Int64s:
        """The number of each row's group: -1 where a key is NULL, which is equal to none, or a row is not valid."""
        columns = [evaluate(key.expression, columns_in(data), data.num_rows) for key in keys]
        there = np.logical_and.reduce(
            [valid, *(column.is_valid().to_numpy(zero_copy_only=False) for column in columns)]
        )
        if not keys:
            return np.where(there, 0, -1)
        found = np.flatnonzero(there)
        groups = np.full(data.num_rows, -1, np.int64)
        groups[found] = self._groups.of([taken(column, found) for column in columns], found.size)
        self._counts, self._levels = (grown(array, self._groups.room) for array in (self._counts, self._levels))
        return groups

    def _answer(self, events: Events) -> Delta:
        above, behind = BORDERS[self.comparison.operator]
        changes = (events.kinds, events.groups, events.codes, events.rows, above, behind, self._links, self._levels)
        progress = np.array([0, 0, self._next])
        out = np.empty((2 * len(events), kernel.OUT_FIELDS), np.int64)
        tree = self._tree
        while (ended := kernel.cross(*changes, tree.nodes, tree.state, progress, out)) != DONE:
            if ended == NEEDS_ROOM:
                tree.grow()
            elif ended == kernel.FULL:
                out = grown(out, out.shape[0] + self._ids.live)
            else:
                raise AssertionError("a row left that had not come")
        self._next = int(progress[kernel.NEXT_NUMBER])
        which, ids, diffs, numbers = out[: progress[kernel.COUNT]].T
        order = in_order(events.instants[which], diffs)
        return Delta(self._shown(ids[order]), events.instants[which[order]], diffs[order], numbers[order])

    def _shown(self, ids: Int64s) -> pa.RecordBatch:
        # Only of rows that pass: of others what is selected may not be defined.
        held = pa.RecordBatch.from_arrays(self._table.get(ids), schema=self._table.schema)
        arrays = [evaluate(e, columns_in(held), ids.size) for _, e in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _forget(self, changed: Events, events: Events) -> None:
        """Let go of rows that are gone, and of the numbers of groups that have neither rows nor a value."""
        leaves = changed.kinds == kernel.LEAVES
        self._table.drop(changed.rows[leaves])
        np.add.at(self._counts, changed.groups, np.where(leaves, -1, 1))
        if self.keys:
            touched = np.unique(events.groups)
            self._groups.forget(touched[(self._counts[touched] == 0) & (self._levels[touched, kernel.KNOWN] == 0)])
