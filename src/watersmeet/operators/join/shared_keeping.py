"""How a join keeps rows in windows that other joins look into as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Operator, Positions, Rows
from watersmeet.operators.few_rows import picked_from
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

    def admit(self, alias: str, rows: Rows, deaths: Deaths | None = None) -> Admitted:
        if alias not in self._views:
            return super().admit(alias, rows, deaths)
        windows, view = self._views[alias]
        admitted = windows.take(view, rows)
        if len(admitted) < len(rows):
            self.admissions[alias].left_out(rows)
        return admitted


class SharedKeeping(Keeping):
    """What is kept of some inputs lies in windows of several joins, unless their first rows have shown that it had
    better not."""

    shares = True

    def __init__(self, join: WindowJoin, views: Views, walks: SharedWalks) -> None:
        before = self._before = join.keeping
        self._join, self._walks = join, walks
        walks.add(join, {alias: view for alias, (_, view) in views.items()})
        self.layout, self.row_windows, self.stores = before.layout, before.row_windows, before.stores
        self._counters = before.counters
        self._views = views
        self.door = SharedDoor(before.door, views)

    def is_own(self, alias: str) -> bool:
        view = self._view(alias)
        return view is None or not view.bit

    def _view(self, alias: str) -> WindowView | None:
        """What it keeps of an input in a window of several."""
        _, view = self._views.get(alias, (None, None))
        return view if view is not None and view.window is not None else None

    @property
    def elsewhere(self) -> frozenset[str]:
        return frozenset(alias for alias in self._views if self._view(alias) is not None)

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

    def since(self, alias: str, instant_us: int) -> Positions | None:
        rows = self.stores[alias].since(instant_us)
        view = self._view(alias)
        own = None if view is None else view.found(rows)
        return rows if own is None else rows[own]

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

    def go_alone(self) -> None:
        """The join takes what it keeps with it, into windows of its own."""
        join, layout = self._join, self.layout
        for alias in self._views:
            view = self._view(alias)
            if view is None:
                continue
            shared, rows, codes = self.stores[alias], view.positions(), layout.code_positions[alias]
            values = [picked_from(shared.codes[at], rows) for at in codes.values()]
            layout.code_positions[alias] = own = {code: place for place, code in enumerate(codes)}
            store = self._before.make_store(alias)
            payload = {name: shared.payload[name].gather(rows) for name in store.payload}
            store.append(picked_from(shared.times, rows), values, payload)
            join.keep_in(alias, store, own)
        join.keep_by(self._before)
        self.leave()

    def leave(self) -> None:
        """Nothing more is asked of the join."""
        self._walks.leave(self._join)
        for windows, view in self._views.values():
            windows.leave(view)


def keep_alone(operator: Operator) -> None:
    """A query that is given other rows than those beside it from now on keeps what it has by itself."""
    if isinstance(operator, WindowJoin) and isinstance(operator.keeping, SharedKeeping):
        operator.keeping.go_alone()


def keep_together(
    views: Mapping[str, Sequence[Sequence[WindowView]]], walks: SharedWalks, tell: Callable[[str, int], None]
) -> dict[str, list[StreamWindows]]:
    """Have joins keep rows together, before the first comes: by the names of streams, those that do. `tell` hears of
    the rows of which stream are kept once for how many."""
    found: dict[int, tuple[WindowJoin, dict[str, tuple[StreamWindows, WindowView]]]] = {}
    made: dict[str, list[StreamWindows]] = {}
    for stream, groups in views.items():
        for group in groups:
            windows = StreamWindows(group, partial(tell, stream))
            made.setdefault(stream, []).append(windows)
            for view in group:
                found.setdefault(id(view.join), (view.join, {}))[1][view.alias] = (windows, view)
    for join, own in found.values():
        join.keep_by(SharedKeeping(join, own, walks))
    return made


def leave_windows(operator: Operator) -> None:
    """Whatever a query keeps together with others, it needs no more."""
    if isinstance(operator, WindowJoin) and isinstance(operator.keeping, SharedKeeping):
        operator.keeping.leave()
