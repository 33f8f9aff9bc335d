"""A query over one stream: keep the rows that satisfy the predicates, compute the select list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.windows import RowsWindow
from watersmeet.operators.answers import Answer
from watersmeet.operators.contract import Counters, End, Operator, Positions, Rows
from watersmeet.operators.evaluate import columns_in, evaluate_all, evaluate_predicate
from watersmeet.operators.few_rows import FEW, taken
from watersmeet.operators.few_select import few_select
from watersmeet.operators.keyed_state import KeyedState, NumberedAnew
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.operators.row_windows import RowWindow, counts_together
from watersmeet.operators.time_order import Counting
from watersmeet.plan.expressions import Expression, columns_of


class Select(Operator):
    STATE: ClassVar[tuple[str, ...]] = ("counters",)

    def __init__(self, predicates: Sequence[Expression], columns: Sequence[tuple[str, Expression]]) -> None:
        self.predicates = list(predicates)
        self.columns = list(columns)
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.counters = Counters()
        read = [*self.predicates, *(expression for _, expression in self.columns)]
        self._few = few_select(self.predicates, self.columns, self.schema)
        self._reads = {column.name for expression in read for column in columns_of(expression)}

    kept_rows = 0
    state_bytes = 0

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        for predicate in self.predicates:
            kept = evaluate_predicate(predicate, columns_in(rows.data), len(rows), _times(rows))
            if not kept.all():
                rows = self._narrowed(rows, np.flatnonzero(kept))
        if len(rows):
            self.counters.results += len(rows)
            arrays = evaluate_all((e for _, e in self.columns), columns_in(rows.data), len(rows), _times(rows))
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def answers_to(self, alias: str, rows: Rows) -> Iterable[Answer]:
        few = self._few.take(rows) if self._few is not None and len(rows) <= FEW else None
        if few is None:
            return self.push(alias, rows)
        self.counters.results += few.num_rows
        return [few] if few.num_rows else []

    def _narrowed(self, rows: Rows, positions: Positions) -> Rows:
        """Some of the rows, with the columns that are read here."""
        read = [name for name in rows.data.schema.names if name in self._reads]
        arrays = [taken(rows.data.column(name), positions) for name in read]
        if not arrays:
            return rows.take(positions)
        return Rows(pa.RecordBatch.from_arrays(arrays, read), rows.times.take(positions))

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        """Nothing is ever kept."""

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> npt.NDArray[np.bool_]:
        return np.zeros(len(rows), np.bool_)

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        yield from ()

    def answers_until(self, watermarks: Mapping[str, int]) -> list[Answer]:
        return []

    def undivided(self, key: PartitionKey) -> str | None:
        return None

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return key.shown_in(self.columns, key.codes)

    def divided(self, key: PartitionKey) -> KeyedState:
        return KeyedState(counters={"counters": self.counters})

    def take_rows_over(self, state: KeyedState) -> None:
        self.counters = state.counters.get("counters", self.counters)


def _times(rows: Rows) -> Callable[[], pa.Array]:
    return lambda: pa.array(rows.times, pa.timestamp("us"))


class CountedSelect(Select, Counting):
    """The same over `a [ROWS n]`: of rows with equal times only the last n are in the window at that time."""

    STATE = ("counters", "row_windows")

    def __init__(
        self,
        alias: str,
        window: RowsWindow,
        predicates: Sequence[Expression],
        columns: Sequence[tuple[str, Expression]],
    ) -> None:
        super().__init__(predicates, columns)
        self.row_windows = {alias: RowWindow(window)}

    def push_together(self, batch: Mapping[str, Rows], *, quietly: bool = False) -> Iterator[pa.RecordBatch]:
        for alias, rows in batch.items():
            # With `quietly` too: all rows count, whether or not they are given.
            deaths = self.row_windows[alias].add(rows)
            inside = np.flatnonzero(deaths.times > rows.times)
            if not quietly:
                yield from self.push(alias, rows.take(inside))

    def undivided(self, key: PartitionKey) -> str | None:
        ((alias, window),) = self.row_windows.items()
        return counts_together(alias, window.window, key)

    def divided(self, key: PartitionKey) -> KeyedState:
        state = super().divided(key)
        for alias, window in self.row_windows.items():
            state.rows[f"row_windows.{alias}"] = window.keyed(partial(key.codes_of, alias))
        return state

    def take_rows_over(self, state: KeyedState) -> None:
        super().take_rows_over(state)
        for alias, window in self.row_windows.items():
            rows = state.rows[f"row_windows.{alias}"]
            window.take_over(rows, NumberedAnew(rows))
