"""Which of many queries a row concerns: found by its value, not by asking each of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.contract import Rows
from watersmeet.optimizer.asked_rows import AskedRows, Value

# Of fewer values each query tests all rows itself, which takes no longer.
FEWEST_VALUES = 8

Q = TypeVar("Q", bound=Hashable)
Places = npt.NDArray[np.intp]


class PredicateIndex(Generic[Q]):
    """Of one stream: some queries by the values that they ask for in some of its columns."""

    def __init__(self, asked: Mapping[Q, AskedRows]) -> None:
        self._asked = asked
        by_column: dict[str, list[AskedRows]] = {}
        for one in asked.values():
            by_column.setdefault(one.column, []).append(one)
        self._columns = {column: _ByValue(ones) for column, ones in by_column.items()}

    def __contains__(self, query: Q) -> bool:
        return query in self._asked

    def column_of(self, query: Q) -> str:
        return self._asked[query].column

    def look(self, rows: Rows) -> RowsByValue[Q]:
        return RowsByValue(self._asked, {name: one.sorted(rows) for name, one in self._columns.items()})


class RowsByValue(Generic[Q]):
    """Some rows, and which queries they concern."""

    def __init__(self, asked: Mapping[Q, AskedRows], columns: Mapping[str, _Sorted]) -> None:
        self._asked, self._columns = asked, columns

    def of(self, query: Q) -> Rows | None:
        """Those that concern a query, in their order; None: it may be any."""
        asked = self._asked.get(query)
        return None if asked is None else self._columns[asked.column].of(asked.values)


class _ByValue:
    """All values that are asked for in one column, numbered."""

    def __init__(self, asked: Sequence[AskedRows]) -> None:
        self._column = asked[0].column
        values = sorted(frozenset().union(*(one.values for one in asked)))
        self.numbers: dict[Value, int] = {value: number for number, value in enumerate(values)}
        self._values = pa.array(values, asked[0].type)

    def sorted(self, rows: Rows) -> _Sorted:
        found = pc.index_in(rows.data.column(self._column), self._values)
        # Sorting numbers of two bytes takes linear time.
        kind = np.int16 if len(self._values) < np.iinfo(np.int16).max else np.int32
        none = len(self._values)
        numbers = pc.fill_null(found, none).to_numpy(zero_copy_only=False).astype(kind)
        order: Places = np.argsort(numbers, kind="stable")
        starts = np.searchsorted(numbers[order], np.arange(none + 1, dtype=kind))
        return _Sorted(rows, order[: starts[none]], starts, self.numbers)


class _Sorted:
    """Rows with any of the values, by their values and among these in their order."""

    def __init__(self, rows: Rows, order: Places, starts: Places, numbers: Mapping[Value, int]) -> None:
        self._rows, self._order, self._starts, self._numbers = rows, order, starts, numbers
        # In time order together, in time order each.
        self._in_order = rows.in_order
        self._by_value: Rows | None = None

    def of(self, values: frozenset[Value]) -> Rows:
        if len(values) == 1:
            (value,) = values
            return self._one(self._numbers[value])
        places = [self._order[self._starts[n] : self._starts[n + 1]] for n in map(self._numbers.__getitem__, values)]
        return self._told(self._rows.take(np.sort(np.concatenate([*places, self._order[:0]]))))

    def _one(self, number: int) -> Rows:
        """A slice of all of them, which are picked once."""
        if self._by_value is None:
            self._by_value = self._rows.take(self._order)
        first, last = int(self._starts[number]), int(self._starts[number + 1])
        return self._told(self._by_value.slice(first, last))

    def _told(self, rows: Rows) -> Rows:
        if self._in_order:
            rows.is_in_order()
        return rows


def index_over(asked: Mapping[Q, Sequence[AskedRows]]) -> PredicateIndex[Q] | None:
    """The index of a stream over what each query asks of it: by that column of which most values are asked for."""
    values: dict[tuple[str, pa.DataType], set[Value]] = {}
    for ones in asked.values():
        for one in ones:
            values.setdefault((one.column, one.type), set()).update(one.values)
    worth = {place for place, known in values.items() if len(known) >= FEWEST_VALUES}
    best = {
        query: max(usable, key=lambda one: len(values[one.column, one.type]))
        for query, ones in asked.items()
        if (usable := [one for one in ones if (one.column, one.type) in worth])
    }
    return PredicateIndex(best) if best else None
