"""Aggregates of users that are told what comes and goes: an instance per group, which is not shown its values again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.aggregates.collected import Collected, portions
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s, about
from watersmeet.operators.continuous.aggregates.summaries import of_user
from watersmeet.operators.kernels.collected import SIZE
from watersmeet.operators.scalar.user import ask, new_instance, tell
from watersmeet.plan.expressions import Aggregate


class Incremental(Collected):
    """Groups that have values have an instance. What it holds only it knows, so the values are what is saved: after a
    restart it is made anew from them when its group is touched."""

    def __init__(self, aggregate: Aggregate, *, by_value: bool = False) -> None:
        assert aggregate.user is not None
        super().__init__(
            aggregate.args[0].type, of_user(aggregate), by_value=by_value, marked=aggregate.is_marked,
            nulls=aggregate.takes_nulls,
        )  # fmt: skip
        self._user = aggregate.user
        self._instances: dict[int, Any] = {}

    def _after_each(self, changes: Cells, keys: Int64s, places: Int64s, values: pa.Array, sizes: Int64s) -> pa.Array:
        self._make_anew(np.unique(changes.groups))
        self._entered(changes, keys, places, values, 0, len(changes), None)
        starts = np.concatenate([[0], changes.ends[:-1]])
        moved = np.flatnonzero(changes.diffs)
        columns = [column.take(pa.array(places[moved])) for column in self._columns(values)]
        begin, end = np.searchsorted(moved, starts), np.searchsorted(moved, changes.ends)
        middle = begin + np.add.reduceat(changes.diffs > 0, starts)
        cells = (changes.groups[starts], begin, middle, end, sizes)
        results = [self._after(columns, *cell) for cell in zip(*(one.tolist() for one in cells), strict=True)]
        return pa.array(results, self._user.result)

    def _after(self, columns: list[pa.Array], group: int, begin: int, middle: int, end: int, size: int) -> Any:
        """What a group's instance says after it was told what came, up to the middle, and then what went."""
        if not size:
            self._instances.pop(group, None)
            return None
        with about(group):
            return ask(self._user, self._told(columns, group, begin, middle, end)).as_py()

    def _told(self, columns: list[pa.Array], group: int, begin: int, middle: int, end: int) -> Any:
        instance = self._instances.get(group)
        if instance is None:
            instance = self._instances[group] = new_instance(self._user)
        if begin < middle:
            tell(self._user, instance, "add", [column.slice(begin, middle - begin) for column in columns])
        if middle < end:
            tell(self._user, instance, "remove", [column.slice(middle, end - middle) for column in columns])
        return instance

    def _make_anew(self, groups: Int64s) -> None:
        """The instances of groups that have values and none, as after a restart."""
        lost = [group for group in groups[self._lists[groups, SIZE] > 0].tolist() if group not in self._instances]
        if not lost:
            return
        missing = np.array(lost, np.int64)
        sizes = self._lists[missing, SIZE].copy()
        nothing = np.zeros(missing.size, np.int64)
        unchanged, none = Cells(missing, nothing, np.arange(1, missing.size + 1)), pa.nulls(0, self._type)
        first = 0
        for last in portions(sizes):
            ends = np.cumsum(sizes[first:last])
            held = self._columns(self._entered(unchanged, nothing, nothing, none, first, last, int(ends[-1])))
            begins = ends - sizes[first:last]
            for group, begin, end in zip(lost[first:last], begins.tolist(), ends.tolist(), strict=True):
                with about(group):
                    self._told(held, group, begin, end, end)
            first = last
