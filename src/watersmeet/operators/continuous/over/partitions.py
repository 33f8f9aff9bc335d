"""All functions of OVER with one PARTITION BY and ORDER BY, over rows that come in time order and never leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.continuous.aggregates.columns import grown
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.over.around import Around
from watersmeet.operators.continuous.over.arranged import Arranged, arranged
from watersmeet.operators.continuous.over.frames import Moving, Named, Running, Values, Whole
from watersmeet.operators.continuous.over.lined import Lined, value_of
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.few_rows import taken
from watersmeet.operators.kernels import frames as kernel
from watersmeet.plan.expressions import Expression, OverCall
from watersmeet.plan.over_functions import OFFSETS, RANKINGS, SHARES, VALUES, keeps_for_us, looks_ahead

FEW_PARTITIONS = 64


class Framed(Protocol):
    @property
    def held_rows(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def apply(self, rows: Arranged, values: Values, room: int) -> dict[str, pa.Array]: ...
    def empty(self, partitions: Int64s) -> None: ...


class Partitions:
    STATE = ("ids", "frames", "_counts", "_dense", "_last_us", "_next", "_since")

    def __init__(self, calls: Sequence[Named], *, all_there: bool = False) -> None:
        """all_there: no partition will get another row, so it is known what comes after a row."""
        self.calls = list(calls)
        self.all_there = all_there
        _, one = self.calls[0]
        self.partition_by, self.ties = one.partition_by, one.order_by[1:]
        self.ids = RowIds()
        self.frames: list[Framed] = _frames(self.calls)
        if not all_there:
            self.frames += [Around(alike) for alike in with_one_frame(self.calls) if not looks_ahead(alike[0][1])]
        self.ranked = [(name, call) for name, call in self.calls if call.function in RANKINGS]
        self._counts: Int64s = np.zeros(0, np.int64)
        self._dense: Int64s = np.zeros(0, np.int64)
        self._last_us: Int64s = np.zeros(0, np.int64)  # by partition; BEGINNING_US: there is none of this number
        self._next = 0
        self._since = 0  # rows that came since idle partitions were looked for
        kept = [keeps_for_us(call) for _, call in self.calls]
        self.keeps_us = None if None in kept else max(one for one in kept if one is not None)

    @property
    def room(self) -> int:
        return self.ids.room if self.partition_by else 1

    @property
    def held_rows(self) -> int:
        return sum(frame.held_rows for frame in self.frames) + (self.ids.live if self.ranked else 0)

    @property
    def nbytes(self) -> int:
        own = self.ids.nbytes + self._counts.nbytes + self._dense.nbytes + self._last_us.nbytes
        return own + sum(frame.nbytes for frame in self.frames)

    def arrange(self, values: Values, instants: Int64s) -> Arranged:
        n = instants.size
        keys = [values(e) for e in self.partition_by]
        numbers = self.ids.of(keys, n) if keys else np.zeros(n, np.int64)
        ties = [(values(key.expression), key.descending, key.nulls_first) for key in self.ties]
        rows = arranged(numbers, self.room, instants, ties, self._next)
        self._next += n
        return rows

    def apply(self, rows: Arranged, values: Values, room: int) -> dict[str, pa.Array]:
        """The columns that the functions make, in the order in which the rows came, without those that ask for rows to
        come. room: all partitions have numbers below this."""
        made = self._ranks(rows, room) if self.ranked else {}
        for frame in self.frames:
            made |= frame.apply(rows, values, room)
        for name, call in self.calls:
            direct = _of_its_own(rows, values, call) if _is_plain(call) else None
            if direct is not None:
                made[name] = direct
        return made | (self._of_all(rows, values) if self.all_there else {})

    def _of_all(self, rows: Arranged, values: Values) -> dict[str, pa.Array]:
        """What is made of rows that are all there."""
        calls = [(name, call) for name, call in self.calls if not _is_plain(call)]
        lines = Lined(np.append(np.flatnonzero(rows.begins), len(rows)), rows.cells, rows.keys)
        known: dict[Expression, pa.Array] = {}

        def in_lines(part: Expression) -> pa.Array:
            if part not in known:
                known[part] = rows.values(values(part))
            return known[part]

        return {name: value_of(call, lines, np.arange(len(rows)), in_lines).take(pa.array(rows.back))
                for name, call in calls}  # fmt: skip

    def _ranks(self, rows: Arranged, room: int) -> dict[str, pa.Array]:
        self._counts, self._dense = grown(self._counts, room), grown(self._dense, room)
        found = {function: np.empty(len(rows), np.int64) for function in RANKINGS}
        counts = (self._counts, self._dense)
        kernel.count_up(rows.partitions, rows.begins, rows.cells, *counts, *found.values())
        return {name: pa.array(found[call.function][rows.back]) for name, call in self.ranked}

    def note(self, rows: Arranged) -> None:
        """Remember when rows came to partitions that may be forgotten."""
        if not self.partition_by or self.keeps_us is None:
            return
        if self.room > self._last_us.size:
            longer = np.full(self.room, BEGINNING_US, np.int64)
            longer[: self._last_us.size] = self._last_us
            self._last_us = longer
        last = np.append(np.flatnonzero(rows.begins)[1:] - 1, len(rows) - 1)
        self._last_us[rows.partitions[last]] = rows.keys[last]
        self._since += len(rows)

    def forget(self, until: int) -> None:
        """Partitions that nothing came to for so long that all their rows are behind every frame to come. They are not
        looked for at every turn, but often enough that there are never many."""
        if self.keeps_us is None or not self.partition_by or self._since < self.ids.live // 2 + FEW_PARTITIONS:
            return
        self._since = 0
        idle = np.flatnonzero((self._last_us > BEGINNING_US) & (self._last_us < until - self.keeps_us))
        for frame in self.frames:
            frame.empty(idle)
        self._last_us[idle] = BEGINNING_US
        self.ids.forget(idle)


def _frames(calls: Sequence[Named]) -> list[Framed]:
    """Functions that look at the same rows share them."""
    alike: dict[tuple[bool, int | None], list[Named]] = {}
    calls = [(name, call) for name, call in calls if _is_plain(call)]
    whole = [(name, call) for name, call in calls if _is_whole(call)]
    for name, call in calls:
        key = None if _is_whole(call) else _frame_key(call)
        if key is not None:
            alike.setdefault(key, []).append((name, call))
    found: list[Framed] = [Whole(whole)] if whole else []
    return found + [
        Running(named, by_rows=by_rows) if reach is None else Moving(named, by_rows=by_rows, reach=reach)
        for (by_rows, reach), named in alike.items()
    ]


def with_one_frame(calls: Sequence[Named]) -> list[list[Named]]:
    """The functions whose rows must be looked up, in whatever frame they have."""
    alike: dict[object, list[Named]] = {}
    for name, call in calls:
        if not _is_plain(call) and not is_lead(call):
            alike.setdefault(call if call.function in OFFSETS else call.frame, []).append((name, call))
    return list(alike.values())


def is_lead(call: OverCall) -> bool:
    """Whether a function is the value of a row that comes so many rows after."""
    return call.function == "lead" and not call.ignores_nulls


def _is_plain(call: OverCall) -> bool:
    """Whether a function goes by rows in the order in which they come: none but those before the current one count."""
    if call.function in OFFSETS:
        return call.by is None and not call.ignores_nulls and (call.function == "lag" or call.offset == 0)
    if call.function in RANKINGS or call.frame.whole:
        return call.function not in ("last_value", "nth_value")
    return call.frame.ends_here and call.function not in (*SHARES, "nth_value")


def _is_whole(call: OverCall) -> bool:
    return call.frame.whole and call.function not in (*RANKINGS, *OFFSETS, *VALUES)


def _frame_key(call: OverCall) -> tuple[bool, int | None] | None:
    """Whether a frame is one of rows, and how far it reaches back; None if the function needs none."""
    if call.function == "lag":
        return (True, call.offset) if call.offset else None
    if call.function in (*RANKINGS, "lead", "last_value"):
        return None
    if call.frame.whole:
        return (True, None)  # FIRST_VALUE, which is the same in all frames that begin with the first row
    return (call.frame.unit == "rows", None if call.frame.start is None else -call.frame.start)


def _of_its_own(rows: Arranged, values: Values, call: OverCall) -> pa.Array | None:
    """What a function gives that looks at no row but the current one and those that the order does not tell from it."""
    if call.function in ("lag", "lead") and call.offset == 0:
        return values(call.args[0])
    if call.function != "last_value":
        return None
    if call.frame.unit == "rows":
        return values(call.args[0])
    return taken(values(call.args[0]), rows.order[rows.cell_ends[rows.cells[rows.back]] - 1])
