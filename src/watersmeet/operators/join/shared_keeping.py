"""How a join keeps rows in windows that other joins look into as well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.join.door import Admitted, Door
from watersmeet.operators.join.keeping import Keeping
from watersmeet.operators.join.program import OUTPUT_ROWS, Program
from watersmeet.operators.join.shared_walk import SharedWalks
from watersmeet.operators.join.shared_window import StreamWindows, WindowView
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.row_windows import Deaths
from watersmeet.physical.strategy import JoinStrategy

Views = Mapping[str, tuple[StreamWindows, WindowView]]


class SharedDoor(Door):
    """Rows of the streams that are shared are looked at once for all joins."""

    def __init__(self, before: Door, views: Views) -> None:
        self.admissions = before.admissions
        self._views = views

    def let_in(self, alias: str, rows: Rows, deaths: Deaths | None = None) -> Admitted:
        if alias not in self._views:
            return super().let_in(alias, rows, deaths)
        windows, view = self._views[alias]
        return windows.take(view, rows)


class SharedKeeping(Keeping):
    """What is kept of some inputs lies in windows of several joins, unless their first rows have shown that it had
    better not."""

    def __init__(self, join: WindowJoin, views: Views, walks: SharedWalks) -> None:
        before = join.keeping
        self._join, self._walks = join, walks
        walks.add(join, {alias: view for alias, (_, view) in views.items()})
        self.layout, self.row_windows, self.stores = before.layout, before.row_windows, before.stores
        self._counters = before.counters
        self._views = views
        self.door = SharedDoor(before.door, views)

    def _view(self, alias: str) -> WindowView | None:
        """What it keeps of an input in a window of several."""
        _, view = self._views.get(alias, (None, None))
        return view if view is not None and view.window is not None else None

    def rows_of(self, alias: str) -> int:
        view = self._view(alias)
        return super().rows_of(alias) if view is None else view.rows

    def bytes_of(self, alias: str) -> int:
        view = self._view(alias)
        return super().bytes_of(alias) if view is None else view.nbytes

    def store(self, alias: str, admitted: Admitted) -> None:
        if self._view(alias) is None:
            super().store(alias, admitted)
        else:  # it lies there
            self.counters.stored_rows += len(admitted)

    def expire(self, alias: str, cutoff_us: int) -> int:
        view = self._view(alias)
        return super().expire(alias, cutoff_us) if view is None else view.expire(cutoff_us)

    def index_by(self, alias: str, strategy: JoinStrategy) -> None:
        view = self._view(alias)
        if view is None or view.window is None:
            super().index_by(alias, strategy)
        else:
            view.window.index(view)
            self._walks.change()

    def walk(self, program: Program, admitted: Admitted) -> Iterator[tuple[Codes, Rows | None]]:
        alias = program.visits[0]
        numbers = self._walks.walked(self._join, alias, len(admitted))
        if numbers is None:
            for found, rows in super().walk(program, admitted):
                self._walks.walked_alone(self._join, alias, found.shape[1])
                yield found, rows
            return
        for first in range(0, numbers.shape[1], OUTPUT_ROWS):
            yield numbers[:, first : first + OUTPUT_ROWS], None

    def whole(self, visits: Sequence[str], numbers: Codes, rows: Rows) -> Iterable[Codes]:
        """Without those of which a row is not its own."""
        mask: Mask | None = None
        for depth, alias in enumerate(visits[1:], 1):
            view = self._view(alias)
            own = None if view is None else view.found(numbers[depth])
            if own is not None:
                mask = own if mask is None else mask & own
        return (numbers if mask is None or bool(mask.all()) else np.compress(mask, numbers, axis=1),)

    def leave(self) -> None:
        """Nothing more is asked of the join."""
        self._walks.leave(self._join)
        for windows, view in self._views.values():
            windows.leave(view)


def leave_windows(operator: Operator) -> None:
    """Whatever a query keeps together with others, it needs no more."""
    if isinstance(operator, WindowJoin) and isinstance(operator.keeping, SharedKeeping):
        operator.keeping.leave()
