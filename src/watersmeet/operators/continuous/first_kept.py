"""The first rows of groups in an order, where rows come and none ever leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.operators.continuous.aggregates.contract import frozen
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s, joined, latest_noticed
from watersmeet.operators.continuous.first_rows import (
    FIRST_ROOM,
    NOWHERE,
    PORTION,
    Changed,
    Ordered,
    as_changed,
    codes_of,
    longer,
    ordered_columns,
    told_columns,
)
from watersmeet.operators.continuous.value_order import value_order
from watersmeet.operators.kernels import changes as changes_kernel
from watersmeet.operators.kernels import first_kept as kernel
from watersmeet.operators.kernels.first_rows import hash_codes, move_blocks
from watersmeet.operators.lines import zeros_in_lines
from watersmeet.plan.nodes import SortKey

Values = Callable[[Int64s], pa.RecordBatch]


@dataclass(frozen=True)
class Kept:
    """changed: what changes among the first rows. has_come: which of the new rows were among them. gone: rows that were
    among them and are no longer."""

    changed: Changed
    has_come: Bools
    gone: Int64s


class FirstKept:
    """Nothing of it is saved: it follows from the rows that are among the first.

    What tells rows apart whose codes are equal is worked out only once two of them are compared: by values, for all new
    rows and those of their groups, at most once for the rows that come together.
    """

    def __init__(self, keys: Sequence[SortKey], stop: int, *, by: Sequence[str] = ()) -> None:
        """by: columns that are equal in all rows of a group."""
        self.keys = list(keys)
        self.stop = stop
        self._named = told_columns(keys, by)
        self._columns = 0  # that have codes
        self._nullable: list[int] = []  # those of them in which a NULL was seen: whether it is one is a code, too
        self._known: Int64s = np.zeros((0, kernel.CODES), np.int64)
        self._groups: Int64s = np.zeros((0, kernel.GROUP_FIELDS), np.int64)
        self._heads: Int64s = np.zeros(0, np.int64)
        self._seen: Int64s = np.zeros(max(stop, 1), np.int64)
        self._used = 0

    @property
    def nbytes(self) -> int:
        return self._known.nbytes + self._groups.nbytes + self._heads.nbytes

    def enter(self, rows: Int64s, groups: Int64s, new: Delta, values: Values, *, by_place: bool = False) -> Kept:
        """Rows that come, whose numbers and groups these are. values: gives any that came before and are not gone.
        by_place: a row that is at another place than before leaves and enters."""
        n, instants = rows.size, new.instants
        told_apart = self._know(rows, new.data)
        order, ends = np.empty(n, np.int64), np.empty(n, np.int64)
        ends = frozen(ends[: int(changes_kernel.sort_into_cells(instants, groups, order, ends))])
        self._make_room_for_groups(int(groups.max(initial=-1)) + 1)
        has_come, gone = np.zeros(n, np.bool_), np.empty(n, np.int64)
        at = np.zeros(kernel.AT_FIELDS, np.int64)
        at[kernel.SEEN], at[kernel.USED] = NOWHERE, self._used
        filled = np.zeros(2, np.int64)
        told = []
        given = (frozen(rows), frozen(groups), frozen(order), ends)
        ended = kernel.FULL
        while ended != kernel.DONE:
            if ended == kernel.FULL:
                # More than twice as many as there are rows are told only by place.
                room = 2 * self.stop + (min(2 * n, PORTION) if by_place else 2 * n)
                out = tuple(np.empty(room, np.int64) for _ in range(4))
                filled[0] = 0
            elif ended == kernel.NEEDS_ROOM:
                self._move_blocks(at)
            else:
                self._tell_apart(rows, groups, new.data, values)
                told_apart = True
            ended = kernel.first_kept(
                *given, self._known, told_apart, self.stop, by_place, self._groups, self._heads, self._seen, at,
                has_come, *out, filled, gone,
            )  # fmt: skip
            if ended in (kernel.FULL, kernel.DONE):
                told.append(tuple(array[: filled[0]] for array in out))
        self._used = int(at[kernel.USED])
        noticed = latest_noticed(new, order, np.append(0, ends[:-1]))
        return Kept(as_changed(told, instants[order[ends - 1]], noticed), has_come, gone[: filled[1]])

    def _know(self, rows: Int64s, data: pa.RecordBatch) -> bool:
        """Take in what the order goes by; whether that tells all rows apart that differ."""
        columns, told_apart = codes_of(ordered_columns(data, self.keys, self._named))
        nullable = [i for i, (null, _) in enumerate(columns) if null is not None and i not in self._nullable]
        self._make_room(int(rows.max(initial=-1)) + 1, len(columns), nullable)
        codes: list[Int64s] = []
        places: list[int] = []
        for column, (null, values) in enumerate(columns):
            behind = sum(one <= column for one in self._nullable)
            if null is not None:
                codes.append(null)
                places.append(column + behind - 1)
            codes.append(values)
            places.append(column + behind)
        given = np.stack(codes) if codes else np.empty((0, rows.size), np.int64)
        kernel.write_codes(frozen(rows), np.array(places, np.int64), given, self._known)
        return told_apart

    def _make_room(self, rows: int, columns: int, nullable: Sequence[int]) -> None:
        """For rows up to a number, so many columns, and NULLs in some that had none before."""
        held = len(self._known)
        if rows > held:
            self._known = longer(self._known, max(rows, 2 * held, FIRST_ROOM), 0)
        if columns > self._columns:
            more = np.zeros((len(self._known), columns - self._columns), np.int64)
            self._known, self._columns = np.concatenate([self._known, more], axis=1), columns
        for column in nullable:
            place = kernel.CODES + column + sum(one < column for one in self._nullable)
            self._known = np.insert(self._known, place, 0, axis=1)
            self._nullable.append(column)

    def _make_room_for_groups(self, count: int) -> None:
        held = len(self._groups)
        if count > held:
            larger = zeros_in_lines(max(count, 2 * held), kernel.GROUP_FIELDS)
            larger[:held] = self._groups
            self._groups = larger

    def _move_blocks(self, at: Int64s) -> None:
        """Blocks that groups have left are given up, and there is room for as much again."""
        used = int(self._groups[:, kernel.ROOM].sum())
        larger = np.empty(2 * (used + self.stop) + FIRST_ROOM, np.int64)
        move_blocks(self._groups, self._heads, larger, at)
        self._heads = larger

    def _tell_apart(self, rows: Int64s, groups: Int64s, data: pa.RecordBatch, values: Values) -> None:
        """Number rows whose codes are equal by their values, those that came first before those that are equal to them.
        Rows that have come into a group meanwhile are among the new ones."""
        held, held_in = self._held_beside(rows, groups)
        # In the order in which they came.
        every, group = np.concatenate([held, rows]), np.concatenate([held_in, groups])
        hashes = np.empty(every.size, np.int64)
        hash_codes(group, np.ascontiguousarray(self._known[every, kernel.CODES :]), hashes)
        _, alike, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        shared = np.flatnonzero(counts[alike] > 1)
        columns = self._values_of(held, data, values, shared)
        order = value_order([(pa.array(alike[shared]), False, False), *columns])
        self._known[every[shared[order]], kernel.TIE] = np.arange(shared.size)

    def _held_beside(self, rows: Int64s, groups: Int64s) -> tuple[Int64s, Int64s]:
        """The rows that these groups have from before, and their groups."""
        groups_once = np.unique(groups)
        sizes = self._groups[groups_once, kernel.SIZE]
        held = np.empty(int(sizes.sum()), np.int64)
        kernel.rows_of_groups(groups_once, self._groups, self._heads, held)
        is_new = np.zeros(len(self._known), np.bool_)
        is_new[rows] = True
        before = ~is_new[held]
        return held[before], np.repeat(groups_once, sizes)[before]

    def _values_of(self, held: Int64s, data: pa.RecordBatch, values: Values, picked: Int64s) -> list[Ordered]:
        """What the order goes by, of some of the rows that were held and the new ones behind them."""
        old, new = picked[picked < held.size], picked[picked >= held.size] - held.size
        both = joined([values(held[old]), data.take(pa.array(new))], data.schema)
        return ordered_columns(both, self.keys, self._named)
