"""A set of joined rows, known by their numbers; columns are gathered when asked for, each once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.time import Times
from watersmeet.operators.contract import Rows
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.few_rows import picked_from, taken, words_as
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column, Expression, columns_of
from watersmeet.plan.nodes import Input


def held_as_code(column: Column) -> bool:
    """Whether the code of a column is the column's own int64, so that a store need not hold it twice."""
    return bool(column.type == pa.int64() or column.type == pa.timestamp("us", getattr(column.type, "tz", None)))


def own_code(expression: Expression) -> str | None:
    """The name of the column that an expression is and that is its own code, if it is one."""
    return expression.name if isinstance(expression, Column) and held_as_code(expression) else None


def payload_columns(
    alias: str, expressions: Iterable[Expression], inputs: Mapping[str, Input], codes: Mapping[Code, int]
) -> list[Column]:
    """What results need of an input beyond its times and codes."""
    needed = {c for e in expressions for c in columns_of(e) if c.stream == alias}
    held = {c for c in needed if held_as_code(c) and Code(alias, c) in codes}
    return sorted((c for c in needed - held if c.name != inputs[alias].time), key=lambda c: c.name)


class Combinations:
    """Row numbers per visited input (the new rows first), and where their columns lie. Without an `origin` the new
    rows are in their store too.

    Valid until the stores change: whoever holds one uses it before the next append or expiry.
    """

    def __init__(
        self,
        visits: Sequence[str],
        numbers: npt.NDArray[np.int64],
        origin: Rows | None,
        stores: Mapping[str, WindowStore],
        inputs: Mapping[str, Input],
        code_positions: Mapping[str, Mapping[Code, int]],
        timeless: Collection[str] = (),
    ) -> None:
        """timeless: inputs whose times are no event times, like those of static tables."""
        self.numbers_of = dict(zip(visits, numbers, strict=True))
        self.visits = visits
        self.origin = origin
        self.stores = stores
        self.inputs = inputs
        self.code_positions = code_positions
        self.timeless = timeless
        self._gathered: dict[Column, pa.Array] = {}
        self._event_times: pa.Array | None = None

    def __len__(self) -> int:
        return int(self.numbers_of[self.visits[0]].size)

    def where(self, predicate: Expression) -> Combinations:
        """Those that satisfy a predicate."""
        kept = evaluate_predicate(predicate, self.column, len(self), self.event_times)
        if bool(kept.all()):
            return self
        numbers = np.stack([self.numbers_of[alias][kept] for alias in self.visits])
        return Combinations(
            self.visits, numbers, self.origin, self.stores, self.inputs, self.code_positions, self.timeless
        )

    def select(self, columns: Sequence[tuple[str, Expression]], schema: pa.Schema) -> pa.RecordBatch:
        rows = len(self)
        arrays = [evaluate(e, self.column, rows, self.event_times) for _, e in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def column(self, column: Column) -> pa.Array:
        gathered = self._gathered.get(column)
        if gathered is None:
            gathered = self._gathered[column] = self._gather(column)
        return gathered

    def _gather(self, column: Column) -> pa.Array:
        alias, numbers = column.stream, self.numbers_of[column.stream]
        if self.origin is not None and alias == self.visits[0]:
            return taken(self.origin.data.column(column.name), numbers)
        store = self.stores[alias]
        payload = store.payload.get(column.name)
        if payload is not None:
            return payload.gather(numbers)
        if column.name == self.inputs[alias].time:
            return words_as(picked_from(store.times, numbers), column.type)
        codes = store.codes[self.code_positions[alias][Code(alias, column)]]
        return words_as(picked_from(codes, numbers), column.type)

    def event_times(self) -> pa.Array:
        """The newest member's time of each combination; static tables have none."""
        if self._event_times is None:
            timed = [a for a in self.visits if not self.inputs[a].is_table and a not in self.timeless]
            newest = self._times(timed[0]) if timed else np.zeros(len(self), np.int64)
            for alias in timed[1:]:
                newest = np.maximum(newest, self._times(alias))
            self._event_times = words_as(newest, pa.timestamp("us"))
        return self._event_times

    def _times(self, alias: str) -> Times:
        new = self.origin if alias == self.visits[0] else None
        times: Times = (self.stores[alias] if new is None else new).times[self.numbers_of[alias]]
        return times
