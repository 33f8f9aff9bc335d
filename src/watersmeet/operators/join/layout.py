"""How the rows of a join lie in its stores: which codes and columns of each input, by which indexes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from watersmeet.model.windows import RowsWindow
from watersmeet.operators.counted_elsewhere import NONE, CountedElsewhere
from watersmeet.operators.join.combinations import payload_columns
from watersmeet.operators.row_windows import RowWindow
from watersmeet.physical.strategy import Code, JoinStrategy
from watersmeet.plan.expressions import Expression

IndexKeys = tuple[list[tuple[int, ...]], list[int]]


class Layout:
    """What a strategy and a select list ask of the stores. A join whose routes may change stores every code that any
    route compares, so positions of codes never change; only indexes do."""

    def __init__(
        self,
        strategy: JoinStrategy,
        columns: tuple[tuple[str, Expression], ...],
        announced: Collection[str] | None = None,
        elsewhere: CountedElsewhere = NONE,
    ) -> None:
        """announced: the inputs whose rows' deaths the join is given; by default those with ROWS windows count.
        elsewhere: which rows another join has as well, which counts them."""
        self.strategy = strategy
        self.columns = columns
        self.inputs = {one.alias: one for one in strategy.join.inputs}
        own = [one for one in strategy.join.streams if announced is None and isinstance(one.window, RowsWindow)]
        self._row_windows = {one.alias: one.window for one in own if isinstance(one.window, RowsWindow)}
        self.uncounted = elsewhere.streams | {alias for alias, one in self.inputs.items() if one.is_table}
        self.mortal = frozenset(self._row_windows if announced is None else announced)
        self.code_positions = {a: {c: k for k, c in enumerate(strategy.stored_codes(a))} for a in self.inputs}

    @property
    def looked_up(self) -> list[str]:
        """The inputs that need a store: a stream that joins only static tables is never looked up again."""
        reached = {step.stream for route in self.strategy.routes for step in route.steps}
        return [alias for alias in self.inputs if alias in reached]

    def row_windows(self) -> dict[str, RowWindow]:
        """The ROWS windows that the join itself counts, still empty."""
        return {alias: RowWindow(window) for alias, window in self._row_windows.items()}

    def admitted_codes(self, alias: str) -> tuple[Code, ...]:
        return (*self.strategy.probing_codes(alias), *self.code_positions[alias])

    def payload(self, alias: str, more: Iterable[Expression] = ()) -> dict[str, pa.DataType]:
        """The columns that a store holds beside times and codes: what results need, and more if that is asked for."""
        shown = [*(e for _, e in self.columns), *self.strategy.residuals, *self.strategy.verified, *more]
        held = payload_columns(alias, shown, self.inputs, self.code_positions[alias])
        return {column.name: column.type for column in held}

    def index_keys(self, alias: str, strategy: JoinStrategy | None = None) -> IndexKeys:
        """The positions of the codes that a store is searched by, by hash and by order; on the routes of a strategy
        that may differ from the first."""
        strategy, position = strategy or self.strategy, self.code_positions[alias]
        hashed = [tuple(position[code] for code in key) for key in strategy.hash_keys(alias)]
        return hashed, [position[code] for code in strategy.sorted_keys(alias)]
