"""The rows of one stream that several joins keep: once, as long as the join needs them that needs them longest.

Each join has a view. It lets rows in by its own filters and codes; joins that have the same ones go the same way, and
rows are looked at once for all of these. A row has a bit for each way by which it came, so that no join is given rows
which it would not have kept itself. How far back a join sees is a matter of its walk, which goes by times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Positions, Rows
from watersmeet.operators.few_rows import Cells
from watersmeet.operators.join.admission import Admission
from watersmeet.operators.join.door import Admitted
from watersmeet.operators.join.keeping import stored_payload
from watersmeet.operators.join.layout import IndexKeys
from watersmeet.operators.join.let_in import LetIn, let_in
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.payload import FixedColumn
from watersmeet.plan.expressions import columns_of
from watersmeet.plan.identity import neutral_text

if TYPE_CHECKING:
    from watersmeet.operators.join.window_join import WindowJoin

# The column that says by which ways a row came, a bit for each. No column of a stream is called so.
WHO = ""
MOST_WAYS = 64
# Rows of which a way lets in a smaller share than this of what another does are passed over more often than found.
LEAST_SHARE = 1 / 8
# Of fewer first rows that cannot be told.
FEWEST_FIRST = 32
# What stands for the code of a row that has none: the next multiple of an odd number, so that they are all different.
_SPREAD = np.int64(-7046029254386353131)


class Way:
    """How joins let rows of a stream in: by the same filters, and the same codes that may not be NULL."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._texts = {code: neutral_text(code.expression) for code in admission.codes}
        tested = (*admission.filters, *(code.expression for code in admission.codes))
        self._columns = {column.name for one in tested for column in columns_of(one)}
        self.views: list[WindowView] = []
        self.came: LetIn | Exception | None = None  # of the piece that came last

    def let_in(self, rows: Rows) -> None:
        """What is wrong with some rows is so for the joins that look at them, and for no others."""
        try:
            self.came = let_in(self._admission, rows.only(self._columns), self._texts)
        except Exception as error:
            self.came = error

    def join(self, view: WindowView) -> None:
        """One more goes this way."""
        self.views.append(view)
        self._columns |= view.shown


class WindowView:
    """What one join keeps of one stream."""

    def __init__(self, join: WindowJoin, alias: str) -> None:
        self.join, self.alias = join, alias
        admission = join.door.admissions[alias]
        self.way_text = (
            tuple(map(neutral_text, admission.filters)),
            tuple(sorted(neutral_text(code.expression) for code in admission.codes)),
        )
        self._probing = {code: neutral_text(code.expression) for code in admission.codes}
        self.held = {code: neutral_text(code.expression) for code in join.layout.code_positions[alias]}
        self.payload = join.layout.payload(alias)
        asked = (*(e for _, e in join.columns), *join.strategy.verified, *join.strategy.residuals)
        self.shown = {column.name for one in asked for column in columns_of(one) if column.stream == alias}
        self.pieces = 0
        self.window: SharedWindow | None = None
        self.bit = 0  # of 0 all rows of the window are the join's
        self.rows = 0
        self._first = 0  # the number of the first row that it keeps, of all that were ever put into the window

    @property
    def nbytes(self) -> int:
        """Its share of what the window takes."""
        assert self.window is not None
        return self.window.store.nbytes // self.window.kept_for

    def admitted(self, let_in: LetIn) -> Admitted:
        return Admitted(let_in.rows, let_in.codes_for(self._probing))

    def settle(self, window: SharedWindow, bit: int) -> None:
        self.window, self.bit = window, bit

    def expire(self, cutoff_us: int) -> int:
        """Let go of rows that are older than the cutoff, up to one of its own that is not; returns how many of them
        were its own."""
        window = self.window
        assert window is not None
        store = window.store
        first = self._first - store.numbered_from
        gone = store.old_rows(first, cutoff_us)
        if self.bit and store.disorder_us and first + gone < store.head:
            gone += self._passed_over(first + gone, cutoff_us)
        if not gone:
            return 0
        own = gone if not self.bit else int(np.count_nonzero(window.is_of(slice(first, first + gone), self.bit)))
        self._first += gone
        self.rows -= own
        return own

    def _passed_over(self, first: int, cutoff_us: int) -> int:
        """How many rows come before the first that is young and its own, looking at ever larger pieces."""
        assert self.window is not None
        store, start, size = self.window.store, first, 1024
        while start < store.head:
            piece = slice(start, min(start + size, store.head))
            stays = (store.times[piece] >= cutoff_us) & self.window.is_of(piece, self.bit)
            if bool(stays.any()):
                return start + int(stays.argmax()) - first
            start, size = piece.stop, 2 * size
        return store.head - first

    def found(self, positions: Positions) -> Mask | None:
        """Which of some rows of the window are its own; None: all."""
        return None if self.window is None or not self.bit else self.window.is_of(positions, self.bit)

    def positions(self) -> Positions:
        """Where all rows lie that it keeps, as they came."""
        assert self.window is not None
        store = self.window.store
        rows = np.arange(self._first - store.numbered_from, store.head)
        own = self.found(rows)
        return rows if own is None else rows[own]

    @property
    def oldest(self) -> int:
        return self._first

    @property
    def kept(self) -> tuple[int, int]:
        """What it keeps: where its first row lies in the window, and how many there are."""
        assert self.window is not None
        return int(self._first - self.window.store.numbered_from), int(self.rows)

    @kept.setter
    def kept(self, known: tuple[int, int]) -> None:
        assert self.window is not None
        first, self.rows = known
        self._first = first + self.window.store.numbered_from


class SharedWindow:
    """A store with the codes, columns and indexes that any of its views asks for."""

    STATE: ClassVar[tuple[str, ...]] = ("store", "kept")

    def __init__(self, ways: Sequence[Way]) -> None:
        self.ways = list(ways)
        self.views = [view for way in ways for view in way.views]
        self.kept_for = len(self.views)  # of them so many were there when rows last came
        self.error: Exception | None = None  # why rows are missing
        self.pieces = 0
        self.newest = (0, 0)  # where the rows of the piece that came last lie
        self._keys: dict[WindowView, IndexKeys] = {}
        self._searched: Counter[tuple[int, ...] | int] = Counter()  # how many views search by each key
        texts = dict.fromkeys(text for view in self.views for text in view.held.values())
        self.positions = {text: place for place, text in enumerate(texts)}
        payload: dict[str, pa.DataType] = {}
        for view in self.views:
            payload |= view.payload
        who = {WHO: _with_bits(len(ways))} if len(ways) > 1 else {}
        self.store = WindowStore(len(texts), payload=payload | who)
        for place, way in enumerate(ways):
            for view in way.views:
                view.settle(self, 1 << place if who else 0)
                held = {code: self.positions[text] for code, text in view.held.items()}
                view.join.keep_in(view.alias, self.store, held)
                self._search(view)
        self._index()

    @property
    def kept(self) -> list[tuple[int, int]]:
        """What each view keeps."""
        return [view.kept for view in self.views]

    @kept.setter
    def kept(self, known: Sequence[tuple[int, int]]) -> None:
        for view, own in zip(self.views, known, strict=True):
            view.kept = own

    def is_of(self, positions: Positions | slice, bit: int) -> Mask:
        who = self.store.payload[WHO]
        assert isinstance(who, FixedColumn)
        mask: Mask = (who.values[positions] & who.values.dtype.type(bit)) != 0
        return mask

    def index(self, view: WindowView) -> None:
        """Have the indexes by which a view searches from now on."""
        self._forget_keys(view)
        self._search(view)
        self._index()

    def _search(self, view: WindowView) -> None:
        hashed, ordered = self._keys[view] = view.join.layout.index_keys(view.alias, view.join.strategy)
        self._searched.update([*hashed, *ordered])

    def _forget_keys(self, view: WindowView) -> None:
        hashed, ordered = self._keys.pop(view)
        self._searched.subtract([*hashed, *ordered])

    def _index(self) -> None:
        keys = [key for key, views in self._searched.items() if views]
        self.store.index_by(
            [key for key in keys if isinstance(key, tuple)], [key for key in keys if not isinstance(key, tuple)]
        )

    def enter(self, rows: Rows) -> None:
        """Rows came, and each way has let in those that it does. If they cannot be kept, no join is to go on without
        them."""
        if self.error is not None:
            return
        try:
            self._enter(rows)
        except Exception as error:
            self.error = error

    def _enter(self, rows: Rows) -> None:
        self._drop()
        self.pieces += 1
        self.kept_for = len(self.views)
        store = self.store
        first = store.numbered_from + store.head
        came = [(place, way.came) for place, way in enumerate(self.ways) if isinstance(way.came, LetIn)]
        if WHO in self.store.payload:
            self._append_of_all(rows, came)
        else:
            for _, one in came:
                self._append(one.rows, [one.codes[text] for text in self.positions])
        self.newest = (first - store.numbered_from, store.head)
        for way in self.ways:
            for view in way.views:
                view.rows += len(way.came.rows) if isinstance(way.came, LetIn) else 0

    def _append(self, rows: Rows, codes: Sequence[Codes], who: Cells | None = None) -> None:
        payload = self.store.payload
        stored = stored_payload(rows, {name: column for name, column in payload.items() if name != WHO})
        self.store.append(rows.times, codes, stored if who is None else {**stored, WHO: who})

    def _append_of_all(self, rows: Rows, came: Sequence[tuple[int, LetIn]]) -> None:
        """The rows that any way let in, with their codes and bits."""
        column = self.store.payload[WHO]
        assert isinstance(column, FixedColumn)
        who = np.zeros(len(rows), column.values.dtype)
        for place, one in came:
            bit = who.dtype.type(1 << place)
            if one.mask is None:
                who |= bit
            else:
                who |= one.mask.view(np.uint8) * bit
        all_codes = [self._codes_of_all(text, len(rows), [one for _, one in came]) for text in self.positions]
        if bool(who.all()):
            self._append(rows, all_codes, who)
        else:
            where = np.flatnonzero(who)
            self._append(rows.take(where), [values[where] for values in all_codes], who[where])

    def _codes_of_all(self, text: str, rows: int, came: Sequence[LetIn]) -> Codes:
        """A code of the rows of a piece that any way let in."""
        if came and all(one.of_all is not None and text in one.of_all for one in came):
            assert came[0].of_all is not None
            return came[0].of_all[text]
        # What no way looked at is no code of the row, and should be in nobody's chain.
        first = self.store.numbered_from + self.store.head + 1
        codes = np.arange(first, first + rows) * _SPREAD
        for one in came:
            if text in one.codes:
                codes[slice(None) if one.mask is None else one.mask] = one.codes[text]
        return codes

    def _drop(self) -> None:
        """Forget what no view needs any more. It is done as rows come, not as each view lets go of some."""
        oldest = min((view.oldest for view in self.views), default=0) - self.store.numbered_from
        if oldest > self.store.tail:
            self.store.forget(oldest - self.store.tail)

    def leave(self, view: WindowView) -> None:
        self.views.remove(view)
        before = len(+self._searched)
        self._forget_keys(view)
        if len(+self._searched) < before:
            self._index()


class StreamWindows:
    """All views of one stream. They are given the same pieces of it, one after the other."""

    def __init__(self, views: Sequence[WindowView], tell: Callable[[int], None]) -> None:
        """tell: hears of how many joins keep rows together."""
        self._ways: dict[object, Way] = {}
        for view in views:
            known = self._ways.get(view.way_text)
            if known is None:
                known = Way(view.join.door.admissions[view.alias])
                self._ways[view.way_text] = known
            known.join(view)
        self._ways_of = {view: way for way in self._ways.values() for view in way.views}
        self._tell = tell
        # None until the first rows tell who lets in how many.
        self._windows: list[SharedWindow] | None = None
        self._pieces = 0
        self._came: Rows | None = None
        self._error: Exception | None = None

    def take(self, view: WindowView, rows: Rows) -> Admitted:
        """The rows of a piece that a view lets in. The first view to come with it puts it into the windows: no join
        looks into the window of a stream for rows of that stream itself."""
        if view.pieces == self._pieces:
            self._next(rows)
        view.pieces += 1
        if view.pieces != self._pieces or self._came is None or len(rows) != len(self._came):
            raise RuntimeError(f"joins that keep the rows of {view.alias} together were given different ones")
        found = self._ways_of[view].came
        error = self._error or (None if view.window is None else view.window.error)
        if error is None and isinstance(found, Exception):
            error = found
        if error is not None:
            raise error
        assert isinstance(found, LetIn)
        return view.admitted(found)

    @property
    def windows(self) -> list[SharedWindow]:
        return self._windows or []

    @property
    def division(self) -> list[list[int]] | None:
        """Which ways, by their places, have a window together; None while no rows have told."""
        if self._windows is None:
            return None
        places = {way: place for place, way in enumerate(self._ways.values())}
        return [[places[way] for way in window.ways] for window in self._windows]

    def divide(self, division: Sequence[Sequence[int]]) -> None:
        """As it was found before; no rows have come yet."""
        ways = list(self._ways.values())
        self._have_windows([[ways[place] for place in places] for places in division])

    def _have_windows(self, divided: Sequence[Sequence[Way]]) -> None:
        self._windows = [SharedWindow(ways) for ways in divided]
        for window in self._windows:
            self._tell(len(window.views))

    def _next(self, rows: Rows) -> None:
        self._pieces += 1
        self._came = rows
        ways = [way for way in self._ways.values() if way.views]
        for way in ways:
            way.let_in(rows)
        if self._windows is None:
            try:
                self._have_windows(self._divided(ways))
            except Exception as error:
                self._error, self._windows = error, []
        for window in self.windows:
            window.enter(rows)

    def _divided(self, ways: Sequence[Way]) -> list[list[Way]]:
        """Which ways have a window together: those that let in not much fewer rows than the one that lets in most; and
        of the others those that several views go."""
        counts = {way: len(way.came.rows) for way in ways if isinstance(way.came, LetIn)}
        most = max(counts.values(), default=0)
        assert self._came is not None
        least = most * LEAST_SHARE if len(self._came) >= FEWEST_FIRST else 0
        near = [way for way, count in counts.items() if count >= least][:MOST_WAYS]
        together = [near] if len([view for way in near for view in way.views]) > 1 else []
        return [*together, *([way] for way in ways if way not in near and len(way.views) > 1)]

    def leave(self, view: WindowView) -> None:
        """A join has ended, or failed."""
        way = self._ways_of.pop(view)
        way.views.remove(view)
        if not way.views:
            way.came = None
        if view.window is not None:
            view.window.leave(view)
            self._windows = [one for one in self._windows or () if one.views]


def _with_bits(count: int) -> pa.DataType:
    return next(kind for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()) if kind.bit_width >= count)
