"""The first rows of groups in an order, as rows come and go: rows by small numbers, in the order of their codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.types import is_bytes, is_text
from watersmeet.operators.codes import as_slices, encode
from watersmeet.operators.continuous.aggregates.contract import frozen
from watersmeet.operators.continuous.delta import Delta, Int64s, in_order, latest_noticed
from watersmeet.operators.continuous.row_ids import RowIds, each_once
from watersmeet.operators.continuous.value_order import value_order
from watersmeet.operators.evaluate import evaluate
from watersmeet.operators.kernels import changes as changes_kernel
from watersmeet.operators.kernels import first_rows as kernel
from watersmeet.operators.kernels.cells import additions_first
from watersmeet.operators.kernels.sorted_bytes import first_bytes
from watersmeet.physical.strategy import is_exact
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import SortKey

PORTION = 1 << 16  # so many changes are told at a time, or as many as a cell has
MOST_CODES = 8  # columns that are compared as codes; those behind are looked at where all of these are equal
FIRST_ROOM = 1024
NOWHERE = -1
Ordered = tuple[pa.Array, bool, bool]  # with whether it descends, and whether its NULLs are first


@dataclass(frozen=True)
class Changed:
    """Which rows leave (-1) and enter (1), at which place among the first of their group, and at which instants."""

    rows: Int64s
    places: Int64s
    diffs: Int64s
    instants: Int64s
    noticed: Int64s | None


class FirstRows:
    """Nothing of it is saved: it follows from the rows that are there, in whatever order they are entered."""

    in_turn = False  # whether rows leave in the order of their numbers

    def __init__(self, keys: Sequence[SortKey], stop: int, *, start: int = 0, by: Sequence[str] = ()) -> None:
        """by: columns that are equal in all rows of a group."""
        self.keys = list(keys)
        self._named = told_columns(keys, by)
        self.start, self.stop = start, stop
        self._known: Int64s = np.zeros((0, kernel.CODES), np.int64)
        self._marks: Int64s = np.zeros(0, np.int64)
        self._groups: Int64s = np.zeros((0, kernel.GROUP_FIELDS), np.int64)
        self._heads: Int64s = np.zeros(0, np.int64)
        self._seen: Int64s = np.zeros(max(stop, 1), np.int64)
        self._best: Int64s = np.empty(stop + 1, np.int64)
        self._used = 0
        # Rows of one hash, as have those of a group whose codes are all equal: a class, whose rows are told apart by
        # their values.
        self._classes = RowIds()
        self._class: Int64s = np.full(0, NOWHERE, np.int64)
        self._sizes: Int64s = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        rows = self._known.nbytes + self._marks.nbytes + self._class.nbytes
        return rows + self._groups.nbytes + self._heads.nbytes + self._classes.nbytes

    # ---- rows that are known --------------------------------------------------------------------------------

    def know(
        self, rows: Int64s, groups: Int64s, data: pa.RecordBatch, values: Callable[[Int64s], pa.RecordBatch]
    ) -> None:
        """Take in rows that are about to come, each once. values: gives any of the rows that are known."""
        if not rows.size:
            return
        columns, told_apart = codes_of(self._columns(data))
        nobody = np.zeros(rows.size, np.int64)
        codes = [one for null, values in columns for one in (nobody if null is None else null, values)]
        self._make_room(int(rows.max()) + 1, len(codes))
        # One after the other they are written in half the time.
        places = slice(rows[0], rows[-1] + 1) if self.in_turn else rows
        self._known[places, kernel.TIE] = 0
        for place, one in enumerate(codes, kernel.CODES):
            self._known[places, place] = one
        if told_apart:
            return
        hashes = np.empty(rows.size, np.int64)
        given = np.stack(codes, axis=1) if codes else np.empty((rows.size, 0), np.int64)
        kernel.hash_codes(groups, given, hashes)
        classes = self._classes.of([pa.array(hashes)], rows.size)
        self._sizes = longer(self._sizes, self._classes.room, 0)
        self._class[rows] = classes
        np.add.at(self._sizes, classes, 1)
        shared = classes[self._sizes[classes] > 1]
        if shared.size:
            self._tell_apart(shared, values)

    def _tell_apart(self, shared: Int64s, values: Callable[[Int64s], pa.RecordBatch]) -> None:
        """Number the rows of classes in their order."""
        is_shared = np.zeros(self._classes.room + 1, np.bool_)  # the last is that of NOWHERE
        is_shared[shared] = True
        rows = np.flatnonzero(is_shared[self._class])[::-1]  # of equal rows the later one stands first
        classes = (pa.array(self._class[rows]), False, False)
        order = value_order([classes, *self._columns(values(rows))])
        self._known[rows[order], kernel.TIE] = np.arange(rows.size)

    def forget(self, rows: Int64s) -> None:
        """Rows that have left, each once: their numbers may come back for others."""
        if not self._classes.live or not rows.size:
            return
        classes = self._class[rows]
        rows, classes = rows[classes >= 0], classes[classes >= 0]
        np.add.at(self._sizes, classes, -1)
        self._class[rows] = NOWHERE
        empty = classes[self._sizes[classes] == 0]
        self._classes.forget(empty[each_once(empty, self._classes.room)])

    def _columns(self, data: pa.RecordBatch) -> list[Ordered]:
        return ordered_columns(data, self.keys, self._named)

    def _make_room(self, rows: int, codes: int) -> None:
        held, fields = self._known.shape
        if rows > held or kernel.CODES + codes > fields:
            room = max(rows, held if rows <= held else 2 * held, FIRST_ROOM)
            larger = np.zeros((room, kernel.CODES + codes), np.int64)
            larger[:held, :fields] = self._known
            self._known = larger
            self._marks, self._class = longer(self._marks, room, 0), longer(self._class, room, NOWHERE)

    # ---- rows that come and go --------------------------------------------------------------------------------

    def apply(self, rows: Int64s, groups: Int64s, changes: Delta, *, by_place: bool = False) -> Changed:
        """Take changes of rows, whose numbers and groups these are; what they change among the first of their groups,
        removals before additions at each instant. by_place: a row that is at another place than before leaves and
        enters."""
        n, diffs, instants = rows.size, changes.diffs, changes.instants
        order, ends = np.empty(n, np.int64), np.empty(n, np.int64)
        cells = int(changes_kernel.sort_into_cells(instants, groups, order, ends))
        ends = frozen(ends[:cells])
        in_turn = additions_first(frozen(diffs[order]), ends)
        order = order[in_turn] if in_turn.size else order
        self._know_groups(groups)
        given = (frozen(rows[order]), frozen(groups[order]), frozen(diffs[order]), ends)
        told, _ = self._told(given, np.empty(0, np.int64), by_place)
        noticed = latest_noticed(changes, order, np.append(0, ends[:-1]))
        return as_changed(told, instants[order[ends - 1]], noticed)

    def _know_groups(self, groups: Int64s) -> None:
        if groups.size and int(groups.max()) >= len(self._groups):
            self._groups = longer(self._groups, max(int(groups.max()) + 1, 2 * len(self._groups)), 0)

    def _told(
        self, given: tuple[Int64s, Int64s, Int64s, Int64s], gone: Int64s, by_place: bool
    ) -> tuple[list[tuple[Int64s, ...]], int]:
        """Which cells change what, and how many rows are gone."""
        at = np.zeros(kernel.AT_FIELDS, np.int64)
        at[kernel.SEEN], at[kernel.USED] = NOWHERE, self._used
        filled = np.zeros(2, np.int64)
        notes = np.empty(2 * given[0].size + self.stop, np.int64)
        told = []
        ended = kernel.FULL
        while ended != kernel.DONE:
            if ended == kernel.FULL:
                # More than twice as many as there are changes are told only by place.
                room = 2 * self.stop + (min(2 * given[0].size, PORTION) if by_place else 2 * given[0].size)
                out = tuple(np.empty(room, np.int64) for _ in range(4))
                filled[0] = 0
            elif ended == kernel.NEEDS_ROOM:
                self._move_blocks(at)
            else:
                raise AssertionError("a row left that had not come")
            ended = kernel.first_rows(
                *given, self._known, self.start, self.stop, self.in_turn, by_place, self._groups,
                self._heads, self._seen, self._best, notes, self._marks, at, *out, filled, gone,
            )  # fmt: skip
            if ended in (kernel.FULL, kernel.DONE):
                told.append(tuple(array[: filled[0]] for array in out))
        self._used = int(at[kernel.USED])
        return told, int(filled[1])

    def _move_blocks(self, at: Int64s) -> None:
        """Blocks that groups have left are given up, and there is room for as much again."""
        used = int(self._groups[:, kernel.ROOM].sum())
        larger = np.empty(
            2 * (used + int(self._groups[:, kernel.REST].max(initial=0)) + 2 * self.stop) + FIRST_ROOM, np.int64
        )
        kernel.move_blocks(self._groups, self._heads, larger, at)
        self._heads = larger


def as_changed(told: list[tuple[Int64s, ...]], instants: Int64s, noticed: Int64s | None) -> Changed:
    """What cells change, which are in the order of their instants, and at one of them in that of groups."""
    which, found, places, signs = told[0] if len(told) == 1 else map(np.concatenate, zip(*told, strict=True))
    at = instants[which]
    if bool((instants[1:] > instants[:-1]).all()):  # one cell at each, whose changes are in order
        return Changed(found, places, signs, at, None if noticed is None else noticed[which])
    by_sign = in_order(at, signs)
    seen = None if noticed is None else noticed[which[by_sign]]
    return Changed(found[by_sign], places[by_sign], signs[by_sign], at[by_sign], seen)


def told_columns(keys: Sequence[SortKey], by: Sequence[str]) -> set[str]:
    """Columns that tell no rows of a group apart which the keys leave equal. by: those that are equal in all of it."""
    return {*by, *(key.expression.name for key in keys if isinstance(key.expression, Column))}


def ordered_columns(data: pa.RecordBatch, keys: Sequence[SortKey], told: set[str]) -> list[Ordered]:
    """What the order goes by: the keys, then all columns that may differ."""

    def column(one: Column) -> pa.Array:
        return data.column(one.name)

    given = [(evaluate(key.expression, column, data.num_rows), key.descending, key.nulls_first) for key in keys]
    columns = zip(data.schema.names, data.columns, strict=True)
    return [*given, *((values, False, False) for name, values in columns if name not in told)]


def codes_of(columns: Sequence[Ordered]) -> tuple[list[tuple[Int64s | None, Int64s]], bool]:
    """For each of the first columns where its values are NULL, if any is, and a code in the order of the values; and
    whether these tell all rows apart that differ."""
    made: list[tuple[Int64s | None, Int64s]] = []
    for place, (values, descending, nulls_first) in enumerate(columns):
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        exact = is_exact(values.type)
        if place == MOST_CODES or not (exact or is_text(values.type) or is_bytes(values.type)):
            return made, False
        codes = encode(values) if exact else _first_bytes(values)
        codes = ~codes if descending else codes
        null = None
        if values.null_count:
            missing = values.is_null().to_numpy(zero_copy_only=False)
            null = np.zeros(len(values), np.int64)
            null[missing] = -1 if nulls_first else 1
            codes = np.where(missing, 0, codes)
        made.append((null, codes))
        if not exact:
            return made, False
    return made, True


def _first_bytes(values: pa.Array) -> Int64s:
    codes = np.empty(len(values), np.int64)
    first_bytes(*as_slices(values), codes)
    return codes


def longer(array: Int64s, room: int, filler: int) -> Int64s:
    if room <= len(array):
        return array
    grown = np.full((room, *array.shape[1:]), filler, np.int64)
    grown[: len(array)] = array
    return grown
