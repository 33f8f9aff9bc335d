"""OVER in an answer that changes: whenever rows of a partition come or go, what it shows is worked out anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, normalize_time_column, times_of
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s, in_order, merged, no_changes
from watersmeet.operators.continuous.first_in_turn import FirstInTurn, rows_in_turn
from watersmeet.operators.continuous.first_kept import FirstKept
from watersmeet.operators.continuous.first_rows import Changed, FirstRows
from watersmeet.operators.continuous.node import Divides, Node, Unary, keys_below, shown_keys
from watersmeet.operators.continuous.over.arranged import Arranged
from watersmeet.operators.continuous.over.frames import Named
from watersmeet.operators.continuous.over.partitions import Partitions
from watersmeet.operators.continuous.row_ids import RowIds, each_once
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.continuous.same_rows import same_rows
from watersmeet.operators.continuous.value_order import value_order
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.few_rows import rows_taken, taken
from watersmeet.operators.kernels import frames as kernel
from watersmeet.operators.kernels.first_rows import number_changes
from watersmeet.operators.keyed_state import KeyedRows, KeyedState
from watersmeet.operators.partition_key import PartitionKey, keys_in
from watersmeet.physical.over import TopRows
from watersmeet.plan.expressions import Column, Expression

PORTION = 1 << 18  # so many rows of partitions are worked out at a time, or as many as one partition has
BEYOND = 1 << 61  # behind all times
LIMITS = {"row_number": kernel.BY_NUMBER, "rank": kernel.BY_RANK, "dense_rank": kernel.BY_DENSE_RANK}
NOWHERE = -1
NOBODY = np.empty(0, np.int64)


@dataclass(frozen=True)
class Members:
    """All rows of the partitions that change, in order, and the changes of each partition one after the other."""

    slots: Int64s
    data: pa.RecordBatch
    peers: Int64s  # equal where ORDER BY does not tell rows apart
    keys: Int64s  # what a RANGE is measured by
    starts: Int64s  # where each partition begins; the end comes last
    alive: Bools
    change_rows: Int64s
    change_signs: Int64s
    change_ends: Int64s
    change_parts: Int64s
    instants: Int64s  # by change of a partition, as what follows
    noticed: Int64s | None


class OverChanging(Divides, Unary):
    """All functions have one PARTITION BY and ORDER BY. Rows that they leave equal go by all their columns."""

    STATE = ("child", "numbers", "ids", "rows", "_partition", "_alive", "_shown", "_sizes", "_next")

    netted = False

    def __init__(
        self,
        child: Node,
        calls: Sequence[Named],
        keep: Expression | None,
        columns: Sequence[tuple[str, Expression]],
        top: TopRows | None = None,
        *,
        grows: bool = False,
    ) -> None:
        """top: only so many rows of a partition are ever asked for. grows: no row leaves the child."""
        super().__init__(child, pa.schema([pa.field(name, e.type) for name, e in columns]))
        self.calls = list(calls)
        self.keep = keep
        self.columns = list(columns)
        self.top = top
        self.grows = grows
        _, one = self.calls[0]
        self.partition_by, self.order_by = one.partition_by, one.order_by
        self.ranged = any(call.frame.by_keys for _, call in self.calls)
        self.numbers = RowIds()  # of the child's rows, by the numbers they have there
        self.ids = RowIds()  # of partitions
        self.rows = RowTable(child.schema)
        self._partition: Int64s = np.full(self.numbers.room, NOWHERE, np.int64)
        self._alive: Bools = np.zeros(self.numbers.room, np.bool_)
        self._shown: Int64s = np.full(self.numbers.room, NOWHERE, np.int64)  # the number a row is shown with
        self._sizes: Int64s = np.zeros(self.ids.room, np.int64)
        self._next = 0
        # Where numbers of rows are bounded the first rows alone are followed. They follow from those that are held.
        self._first = self._first_rows() if top is not None and top.followed else None
        self._again: KeyedRows | None = None  # what it held before another took over

    def _first_rows(self) -> FirstRows | FirstKept:
        """Where no row leaves, or rows leave in turn, only those that are shown have a number here."""
        assert self.top is not None
        by = [one.name for one in self.partition_by if isinstance(one, Column)]
        if (child := rows_in_turn(self.child)) is not None:
            return FirstInTurn(child, self._parts, self.order_by, self.top.limit, by=by)
        if self.grows:
            return FirstKept(self.order_by, self.top.limit, by=by)
        return FirstRows(self.order_by, self.top.limit, by=by)

    def loaded(self) -> None:
        if self._first is None:
            return
        self._first = self._first_rows()
        if isinstance(self._first, FirstInTurn):
            self._first.enter_again(BEGINNING_US)
            # Saved when all rows had numbers.
            known = np.flatnonzero(self._alive)
            self.rows.drop(known)
            self._let_go_of_unseen(known)
            self._alive[:], self._partition[:] = False, NOWHERE
            return
        held = np.flatnonzero(self._alive & (self._partition >= 0))
        ones = np.ones(held.size, np.int64)
        again = Delta(self._rows_of(held), 0 * ones, ones, ones)
        if isinstance(self._first, FirstKept):
            self._first.enter(held, self._partition[held], again, self._rows_of)
            return
        self._first.know(held, self._partition[held], again.data, self._rows_of)
        self._first.apply(held, self._partition[held], again)

    @property
    def held_rows(self) -> int:
        return self.numbers.live

    @property
    def nbytes(self) -> int:
        arrays = (self._partition, self._alive, self._shown, self._sizes)
        first = 0 if self._first is None else self._first.nbytes
        return self.numbers.nbytes + self.ids.nbytes + self.rows.nbytes + first + sum(array.nbytes for array in arrays)

    @property
    def needs_all_again(self) -> bool:
        """Rows that never leave it holds itself."""
        return not self.grows

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return shown_keys(self.columns, keys_below(self.child, key))

    def divided(self, key: PartitionKey) -> KeyedState:
        if not self.grows:
            return KeyedState()
        held = np.flatnonzero(self._alive & (self._partition >= 0))
        data = self._rows_of(held)
        keys_of = keys_in(min(keys_below(self.child, key), default=None))
        return KeyedState({"rows": KeyedRows.of(keys_of(data), data)})

    def take_rows_over(self, state: KeyedState) -> None:
        if self.grows:
            self._again = state.rows["rows"]

    def _given_again(self, at: int) -> Delta:
        """The rows that were held, under numbers that no new row has."""
        assert self._again is not None
        rows, self._again = self._again, None
        ones = np.ones(len(rows), np.int64)
        return Delta(rows.data, at * ones, ones, -1 - np.arange(len(rows)))

    def take(self, until: int) -> Delta:
        if isinstance(self._first, FirstInTurn):
            return self._followed_in_turn(self._first, until)
        delta = self.child.take(until)
        if self._again is not None:
            delta = self._given_again(until - 1)
        if len(delta) == 0:
            return no_changes(self.schema)
        if isinstance(self._first, FirstKept):
            return self._followed_for_good(self._first, delta)
        if self._first is not None:
            return self._followed(self._first, delta)
        members = self._members(delta)
        answer = merged(list(self._changes(members)), self.schema)
        self._settle(members)
        return answer

    # ---- the first rows -----------------------------------------------------------------------------------

    def _followed(self, first: FirstRows, delta: Delta) -> Delta:
        slots, parts = self._enter(delta)
        entering = np.flatnonzero(delta.diffs > 0)
        self._alive[slots[entering]] = True
        data = delta.data if entering.size == len(delta) else rows_taken(delta.data, entering)
        first.know(slots[entering], parts[entering], data, self._rows_of)
        assert self.top is not None
        changed = first.apply(slots, parts, delta, by_place=not self.top.unseen)
        answer = self._shown_changes(changed, changed.rows, self._rows_of(changed.rows))
        gone = slots[delta.diffs < 0]
        first.forget(gone)
        self._let_go(gone, parts[each_once(parts, self.ids.room)] if self.partition_by else NOBODY)
        return answer

    def _followed_for_good(self, first: FirstKept, delta: Delta) -> Delta:
        """Where no row leaves, those that never come among the first are not held at all."""
        assert self.top is not None
        slots, parts = self._numbers_of(delta.order), self._parts(delta.data, len(delta))
        kept = first.enter(slots, parts, delta, self._rows_of, by_place=not self.top.unseen)
        come = np.flatnonzero(kept.has_come)
        self._hold(slots[come], parts[come], delta.data if come.size == len(delta) else rows_taken(delta.data, come))
        answer = self._shown_changes(kept.changed, kept.changed.rows, self._rows_of(kept.changed.rows))
        self._let_go(kept.gone, NOBODY)
        self.numbers.give_back(slots[~kept.has_come])
        return answer

    def _hold(self, slots: Int64s, parts: Int64s, data: pa.RecordBatch) -> None:
        self.rows.put(slots, data.columns)
        self._partition[slots], self._alive[slots] = parts, True

    def _followed_in_turn(self, first: FirstInTurn, until: int) -> Delta:
        assert self.top is not None
        changed, empty = first.take(until, by_place=not self.top.unseen)
        if self.partition_by:
            self.ids.forget(empty)
        if not changed.rows.size:
            return no_changes(self.schema)
        numbers = self._numbers_of(first.orders(changed.rows))
        answer = self._shown_changes(changed, numbers, first.rows(changed.rows))
        self._let_go_of_unseen(numbers[each_once(numbers, self.numbers.room)])
        return answer

    def _let_go_of_unseen(self, numbers: Int64s) -> None:
        self.numbers.forget(numbers[self._shown[numbers] < 0])

    def _shown_changes(self, changed: Changed, rows: Int64s, data: pa.RecordBatch) -> Delta:
        """What is shown of changes of rows, which are known by these numbers."""
        n = changed.rows.size
        known = dict(zip(data.schema.names, data.columns, strict=True))
        known |= dict.fromkeys((name for name, _ in self.calls), pa.array(changed.places + 1))

        def column(one: Column) -> pa.Array:
            return known[one.name]

        kept = np.ones(n, np.bool_) if self.keep is None else evaluate_predicate(self.keep, column, n)
        numbers = np.empty(n, np.int64)
        given = (rows, changed.diffs, kept, self._shown)
        self._next = int(number_changes(*given, self._next, numbers))
        made = pa.RecordBatch.from_arrays([evaluate(e, column, n) for _, e in self.columns], schema=self.schema)
        answer = Delta(made, changed.instants, changed.diffs, numbers, changed.noticed)
        return answer.where(numbers >= 0)

    def _rows_of(self, slots: Int64s) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self.rows.get(slots), schema=self.child.schema)

    # ---- the rows -----------------------------------------------------------------------------------------

    def _members(self, delta: Delta) -> Members:
        slots, parts = self._enter(delta)
        changed = np.zeros(self.ids.room, np.bool_)
        changed[parts] = True
        touched = np.flatnonzero(changed)
        listed = np.full(self.ids.room, NOWHERE, np.int64)
        listed[touched] = np.arange(touched.size)
        place = listed[parts]
        here = np.flatnonzero(self._partition >= 0)
        here = here[listed[self._partition[here]] >= 0]
        data = self._rows_of(here)
        which = listed[self._partition[here]]
        order, peers, keys = self._ordered(data, which)
        where = np.empty(self.numbers.room, np.int64)
        where[here[order]] = np.arange(order.size)
        # Changes are in the order of their instants, and stay so within a partition.
        by_part = np.empty(place.size, np.int64)
        kernel.by_partition(place, touched.size, by_part)
        instants, place = delta.instants[by_part], place[by_part]
        last = np.append((place[1:] != place[:-1]) | (instants[1:] != instants[:-1]), True)
        ends = np.flatnonzero(last) + 1
        firsts = np.append(0, ends[:-1])
        noticed = None if delta.noticed is None else np.maximum.reduceat(delta.noticed[by_part], firsts)
        return Members(
            here[order],
            data.take(pa.array(order)),
            peers,
            keys,
            np.searchsorted(which[order], np.arange(touched.size + 1)),
            self._alive[here[order]],
            where[slots[by_part]],
            delta.diffs[by_part],
            ends,
            place[firsts],
            instants[firsts],
            noticed,
        )

    def _enter(self, delta: Delta) -> tuple[Int64s, Int64s]:
        slots = self._numbers_of(delta.order)
        parts = self._parts(delta.data, len(delta))
        self._sizes = _longer(self._sizes, self.ids.room, 0)
        enters = np.flatnonzero(delta.diffs > 0)
        entering = delta.data if enters.size == len(delta) else rows_taken(delta.data, enters)
        self.rows.put(slots[enters], entering.columns)
        self._partition[slots[enters]] = parts[enters]
        np.add.at(self._sizes, parts, delta.diffs)
        return slots, parts

    def _numbers_of(self, orders: Int64s) -> Int64s:
        """The numbers of rows here, by those that they have in the child."""
        slots = self.numbers.fresh(orders.size) if self.grows else self.numbers.of([pa.array(orders)], orders.size)
        room = self.numbers.room
        if room > self._partition.size:
            self._partition, self._shown = (_longer(a, room, NOWHERE) for a in (self._partition, self._shown))
            alive = np.zeros(room, np.bool_)
            alive[: self._alive.size] = self._alive
            self._alive = alive
        return slots

    def _parts(self, data: pa.RecordBatch, count: int) -> Int64s:
        """The partitions of rows, of so many."""
        keys = [evaluate(e, lambda column: data.column(column.name), count) for e in self.partition_by]
        return self.ids.of(keys, count) if keys else np.zeros(count, np.int64)

    def _ordered(self, data: pa.RecordBatch, parts: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Positions by partition, then as asked for, then by all columns; and in that order which rows are peers, and
        what a RANGE goes by."""

        def column(one: Column) -> pa.Array:
            return data.column(one.name)

        keys = [(evaluate(key.expression, column, data.num_rows), key) for key in self.order_by]
        by = [(values, key.descending, key.nulls_first) for values, key in keys]
        order = value_order(
            [(pa.array(parts), False, False), *by, *((values, False, False) for values in data.columns)]
        )
        peers = RowIds().of([taken(values, order) for values, _ in keys], order.size) if keys else np.zeros_like(order)
        if not self.ranged:
            return order, peers, peers
        values, key = keys[0]
        if pa.types.is_date(values.type):
            values = values.cast(pa.timestamp("us"))
        times = times_of(normalize_time_column(values.fill_null(0))).copy()
        times = -times if key.descending else times
        times[values.is_null().to_numpy(zero_copy_only=False)] = -BEYOND if key.nulls_first else BEYOND
        return order, peers, times[order]

    # ---- what they show -----------------------------------------------------------------------------------

    def _changes(self, members: Members) -> Iterator[Delta]:
        """In portions, each with what the partitions in it show before."""
        cursor = 0
        count = members.slots.size
        last_entry, last_cell = np.empty(count, np.int64), np.empty(count, np.int64)
        largest = int(np.diff(members.starts).max())
        kind, limit = (0, 0) if self.top is None else (LIMITS[self.top.function], self.top.limit)
        if kind == kernel.BY_NUMBER:
            largest = min(largest, limit)
        room = max(PORTION, 2 * largest)
        while cursor < members.change_ends.size:
            left = members.change_ends.size - cursor
            rows = min(room, 2 * left * largest)
            out_rows, out_before = np.empty(rows, np.int64), np.empty(rows, np.int64)
            out_ends, out_changes = np.empty(2 * left, np.int64), np.empty(2 * left, np.int64)
            cursor, n, cells = kernel.show_changes(
                members.starts, members.change_rows, members.change_signs, members.change_ends, members.change_parts,
                cursor, members.alive, members.peers, kind, limit, last_entry, last_cell, out_rows, out_before,
                out_ends, out_changes,
            )  # fmt: skip
            if n:
                shown = (out_rows[:n], out_before[:n], out_ends[:cells], out_changes[:cells])
                yield self._portion(members, *shown)

    def _portion(self, members: Members, rows: Int64s, before: Int64s, ends: Int64s, changes: Int64s) -> Delta:
        """What changes between one cell of a partition and the next."""
        n = rows.size
        cells = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
        made, shown = self._made(members, rows, cells)
        has_before = np.flatnonzero(before >= 0)
        both = has_before[shown[has_before] & shown[before[has_before]]]
        same = np.zeros(n, np.bool_)
        same[both] = same_rows(made, both, before[both])
        is_first = changes[cells] < 0
        slots = members.slots[rows]
        numbers = np.where(is_first, self._shown[slots], NOWHERE)
        self._next = int(kernel.number_shown(before, shown, same, numbers, self._next))
        stays = np.zeros(n, np.bool_)
        stays[before[has_before[same[has_before]]]] = True
        # The next cell is of the same partition, unless it stands before any change of its own.
        followed = np.append(changes[1:] >= 0, False)
        leaves = np.flatnonzero(shown & ~stays & followed[cells])
        enters = np.flatnonzero(shown & ~same & ~is_first)
        self._remember(members, rows, numbers, cells, followed)
        cause = np.concatenate([changes[np.minimum(cells[leaves] + 1, changes.size - 1)], changes[cells[enters]]])
        picked = np.concatenate([leaves, enters])
        diffs = np.repeat(np.array([-1, 1]), [leaves.size, enters.size])
        instants = members.instants[cause]
        order = in_order(instants, diffs)
        picked, cause = picked[order], cause[order]
        noticed = None if members.noticed is None else members.noticed[cause]
        return Delta(made.take(pa.array(picked)), instants[order], diffs[order], numbers[picked], noticed)

    def _remember(self, members: Members, rows: Int64s, numbers: Int64s, cells: Int64s, followed: Bools) -> None:
        """The numbers under which rows are shown after the last cell of their partitions here."""
        self._shown[members.slots[rows]] = NOWHERE
        last = np.flatnonzero(~followed[cells])
        self._shown[members.slots[rows[last]]] = numbers[last]

    def _made(self, members: Members, rows: Int64s, cells: Int64s) -> tuple[pa.RecordBatch, Bools]:
        """The columns of the answer for rows of partitions at several instants, each cell a partition for itself; and
        which are kept."""
        n = rows.size
        known = {name: taken(column, rows) for name, column in zip(
            members.data.schema.names, members.data.columns, strict=True)}  # fmt: skip

        def column(one: Column) -> pa.Array:
            return known[one.name]

        begins, peers = np.empty(n, np.bool_), np.empty(n, np.int64)
        count = int(kernel.peers(cells, members.peers[rows], cells, False, begins, peers))
        arranged = Arranged(np.arange(n), cells, members.keys[rows], begins, peers, np.arange(n), count)
        fresh = Partitions(self.calls, all_there=True)
        known |= fresh.apply(arranged, lambda e: evaluate(e, column, n), int(cells[-1]) + 1)
        shown = np.ones(n, np.bool_) if self.keep is None else evaluate_predicate(self.keep, column, n)
        arrays = [evaluate(e, column, n) for _, e in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), shown

    # ---- afterwards ---------------------------------------------------------------------------------------

    def _settle(self, members: Members) -> None:
        """Rows that have left lose their numbers, and partitions without rows theirs."""
        self._alive[members.slots] = members.alive
        gone = members.slots[~members.alive]
        if self.top is not None and self.grows and self.keep is not None:
            # Rows behind the limit will never come before it: no row leaves. Those before it may be hidden by QUALIFY.
            gone = np.concatenate([gone, self._behind(members)])
        self._let_go(gone, np.unique(self._partition[members.slots]) if self.partition_by else NOBODY)

    def _let_go(self, gone: Int64s, parts: Int64s) -> None:
        self._partition[gone] = NOWHERE
        self._shown[gone] = NOWHERE
        self._alive[gone] = False
        self.rows.drop(gone)
        (self.numbers.give_back if self.grows else self.numbers.forget)(gone)
        self.ids.forget(parts[self._sizes[parts] == 0])

    def _behind(self, members: Members) -> Int64s:
        assert self.top is not None
        within = np.zeros(members.slots.size, np.bool_)
        limit = (LIMITS[self.top.function], self.top.limit)
        kernel.within_limit(members.starts, members.alive, members.peers, *limit, within)
        return members.slots[members.alive & ~within]


def _longer(array: Int64s, room: int, filler: int) -> Int64s:
    if room <= array.size:
        return array
    grown = np.full(room, filler, np.int64)
    grown[: array.size] = array
    return grown
