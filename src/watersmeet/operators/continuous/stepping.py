"""Windows that move in steps: rows that have come wait for the step at which they enter."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import WINDOW_COLUMNS, Each, Hop, Landmark, Session, Stepped, SteppedRows, Window
from watersmeet.operators.continuous import parts
from watersmeet.operators.continuous.delta import Bools, Int64s
from watersmeet.operators.contract import Rows
from watersmeet.operators.keyed_state import KeyedRows, KeyedState, NumberedAnew
from watersmeet.operators.partition_key import KeysOf
from watersmeet.operators.row_windows import Numbering
from watersmeet.operators.waiting import Waiting

# Of copies: those of one row after the other; or all that are in a window, of one window after the other.
By = Literal["by rows", "by windows"]
_DEATH, _SERIAL = pa.field("__death", pa.int64()), pa.field("__serial", pa.int64())
_CAME = pa.field("__came", pa.int64())


class Entrance:
    """Where the rows of a window wait that moves in steps; of other windows none do. Those of sessions that grow are
    only remembered."""

    STATE = ("by_step",)

    def __init__(self, window: Window | None) -> None:
        self.by_step: tuple[Steps | Hops | HopsAtOnce | Sessions | GrowingSessions | Blocks, ...] = ()
        if isinstance(window, Hop) and window.repeats:
            self.by_step = (HopsAtOnce(window) if window.at_once else Hops(window),)
        elif isinstance(window, Stepped | Hop | Landmark | Each):
            self.by_step = (Steps(window),)
        elif isinstance(window, Session):
            self.by_step = (GrowingSessions(window) if window.at_once else Sessions(window),)
        elif isinstance(window, SteppedRows):
            self.by_step = (Blocks(window),)

    def __len__(self) -> int:
        return sum(map(len, self.by_step))

    @property
    def nbytes(self) -> int:
        return sum(waiting.nbytes for waiting in self.by_step)

    def next_birth(self) -> int:
        """When the next of them enters; FOREVER_US if that is not known, or there are none."""
        return min((waiting.next_birth() for waiting in self.by_step), default=FOREVER_US)


class _Held:
    """Rows that wait until they enter."""

    def __init__(self) -> None:
        self.waiting = Waiting()

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def nbytes(self) -> int:
        return self.waiting.nbytes

    def divided(self, keys_of: KeysOf) -> KeyedState:
        state = KeyedState()
        state.put("waiting", self.waiting.divided(keys_of))
        return state


class Steps(_Held):
    """`[RANGE w SLIDE s]`, TUMBLE, HOP and `[LANDMARK t]`: when a row enters and when it leaves is known as soon as it
    comes."""

    STATE: ClassVar[tuple[str, ...]] = ("waiting",)

    def __init__(self, window: Stepped | Hop | Landmark | Each) -> None:
        super().__init__()
        self.window = window

    def next_birth(self) -> int:
        oldest = self.waiting.oldest_us
        return FOREVER_US if oldest is None else oldest

    def entering(self, rows: Rows | None, until: int) -> tuple[Rows, Int64s] | None:
        """Of all that have come those that enter before an instant, at the times at which they do, and their deaths."""
        if rows is not None:
            self.waiting.add(self._stepped(rows, self.window))
        ready = self.waiting.release(until)
        return None if ready is None else _with_deaths(ready)

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        """Rows of one step leave in the order in which they came."""
        waiting = state.inside("waiting")
        for name, rows in waiting.rows.items():
            deaths = rows.data.column(rows.data.num_columns - 1).to_numpy()
            waiting.rows[name] = rows.take(np.argsort(deaths, kind="stable"))
        self.waiting.take_rows_over(waiting)
        return None

    @staticmethod
    def _stepped(rows: Rows, window: Stepped | Hop | Landmark | Each) -> Rows:
        if isinstance(window, Each):
            return _entries(rows, window)
        if isinstance(window, Landmark):
            since = rows.take(np.flatnonzero(rows.times >= window.since_us))
            return _dying(since.data, since.times, window.deaths(since.times))
        if isinstance(window, Stepped):
            return _dying(rows.data, window.births(rows.times), window.deaths(rows.times))
        copies = window.copies(rows.times)
        which = np.repeat(np.arange(len(rows)), copies)
        nth = np.arange(which.size) - np.repeat(np.cumsum(copies) - copies, copies)
        times = rows.times[which]
        numbers = window.last_over(times) + 1 + nth
        data = rows.data if bool((copies == 1).all()) else rows.data.take(pa.array(which))
        ends = window.ends(numbers)
        # The window is complete at the last instant before its end.
        births = times if window.at_once else ends - 1
        return _dying(_in_windows(data, window.starts(numbers), ends, window.zone), births, ends)


class Hops(Steps):
    """HOP whose groups come when windows are complete: a row may be in millions of windows, so its copies are made when
    time has come to them."""

    STATE = ("waiting", "folded")

    def __init__(self, window: Hop) -> None:
        super().__init__(window)
        self.hop = window
        self.folded = Waiting()  # rows, each at the instant at which it enters next, with the time at which it came

    def __len__(self) -> int:
        return len(self.waiting) + len(self.folded)

    @property
    def nbytes(self) -> int:
        return self.waiting.nbytes + self.folded.nbytes

    def next_birth(self) -> int:
        oldest = self.folded.oldest_us
        return super().next_birth() if oldest is None else min(super().next_birth(), oldest)

    def entering(self, rows: Rows | None, until: int) -> tuple[Rows, Int64s] | None:
        if rows is not None:
            inside = rows.take(np.flatnonzero(self.hop.copies(rows.times) > 0))
            came = inside.data.append_column(_CAME, pa.array(inside.times))
            self.folded.add(Rows(came, self.hop.ends(self.hop.last_over(inside.times) + 1) - 1))
        ready = self.folded.release(until)
        if ready is not None:
            self.waiting.add(self._copies(ready, until))
        return super().entering(None, until)

    def divided(self, keys_of: KeysOf) -> KeyedState:
        state = super().divided(keys_of)
        state.put("folded", self.folded.divided(keys_of))
        return state

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        self.folded.take_rows_over(state.inside("folded"))
        return super().take_rows_over(state)

    def _copies(self, rows: Rows, until: int) -> Rows:
        """Of rows that enter before an instant, their copies that do; they come back for those that follow."""
        hop = self.hop
        came: Int64s = rows.data.column(rows.data.num_columns - 1).to_numpy()
        first, last = hop.last_over(rows.times + 1), hop.last_holding(came)
        copies = np.minimum(last, hop.last_over(np.array([until]))) - first + 1
        following = first + copies
        more = np.flatnonzero(following <= last)
        self.folded.add(Rows(rows.data.take(pa.array(more)), hop.ends(following[more]) - 1))
        which = np.repeat(np.arange(len(rows)), copies)
        numbers = first[which] + np.arange(which.size) - np.repeat(np.cumsum(copies) - copies, copies)
        # Those of one window in the order in which their rows came.
        order = np.lexsort((came[which], numbers))
        data = rows.data.remove_column(rows.data.num_columns - 1).take(pa.array(which[order]))
        starts, ends = hop.starts(numbers[order]), hop.ends(numbers[order])
        return _dying(_in_windows(data, starts, ends, hop.zone), ends - 1, ends)


class HopsAtOnce(Steps):
    """HOP whose rows are there from their own time on: all copies of a row, which may be millions, enter at one
    instant. With `by` set they are made in parts, and `entering` is to be called until it `has_more` no longer."""

    def __init__(self, window: Hop) -> None:
        super().__init__(window)
        self.hop = window
        self.by: By | None = None
        self.made = 0  # copies, so far
        self._came: Rows | None = None  # those whose copies are not all made
        self._done = 0  # how many of them are

    @property
    def has_more(self) -> bool:
        return self._came is not None

    @property
    def left(self) -> int:
        """How many copies are to be made, or windows to be filled, of the rows that came last."""
        if self._came is None:
            return 0
        copies = int(self.hop.copies(self._came.times).sum()) - self._done
        return copies // len(self._came) if self.by == "by windows" else copies

    def entering(self, rows: Rows | None, until: int) -> tuple[Rows, Int64s] | None:
        if rows is not None:
            self._came, self._done = rows, 0
        if self._came is None:
            return None
        came = self._came
        copies = self.hop.copies(came.times)
        stops = np.cumsum(copies)
        stop = self._stop(came, stops)
        which, nth = self._places(stops - copies, stops, stop)
        self.made += stop - self._done
        self._came, self._done = (came, stop) if stop < int(stops[-1]) else (None, 0)
        times = came.times[which]
        numbers = self.hop.last_over(times) + 1 + nth
        ends = self.hop.ends(numbers)
        data = _in_windows(came.data.take(pa.array(which)), self.hop.starts(numbers), ends, self.hop.zone)
        return Rows(data, times), ends

    def _stop(self, came: Rows, stops: Int64s) -> int:
        """How many copies are made when this part is. Only an instant that has more of them than fit is divided, and
        always in the same way: the order of rows does not depend on what else is there."""
        total, most = int(stops[-1]), self._done + parts.MOST_COPIES
        is_one = bool(came.times[0] == came.times[-1])
        if self.by is None or total <= most or (self.by == "by windows" and not is_one):
            return total
        if self.by == "by windows":
            return min(total, self._done + max(parts.MOST_COPIES // len(came), 1) * len(came))
        whole = stops[np.append(came.times[1:] != came.times[:-1], True)]
        fitting = int(np.searchsorted(whole, most, side="right"))
        return int(whole[fitting - 1]) if fitting and whole[fitting - 1] > self._done else most

    def _places(self, starts: Int64s, stops: Int64s, stop: int) -> tuple[Int64s, Int64s]:
        """Of which row each copy of a part is, and in which of its windows."""
        copies = np.arange(self._done, stop)
        if self.by == "by windows" and copies.size < int(stops[-1]):
            return copies % stops.size, copies // stops.size
        which = np.repeat(
            np.arange(stops.size), np.maximum(np.minimum(stops, stop) - np.maximum(starts, self._done), 0)
        )
        return which, copies - starts[which]


def taken_apart(rows: Rows, window: Each) -> tuple[Rows, Int64s]:
    """A row for each entry, in order, and of which row it is."""
    lists = rows.data.column(window.column)
    which: Int64s = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    data = rows.data.take(pa.array(which))
    first = np.searchsorted(which, which)  # rows come in order
    made = [pc.list_flatten(lists), pa.array(np.arange(which.size) - first + 1)]
    for name, values in zip(window.names, made, strict=False):
        data = data.append_column(name, values)
    return Rows(data, rows.times[which]), which


def _entries(rows: Rows, window: Each) -> Rows:
    entries, _ = taken_apart(rows, window)
    return _dying(entries.data, entries.times, entries.times + 1)


class Sessions(_Held):
    """SESSION: rows wait until the gap after the last one of their session has passed."""

    STATE = ("waiting", "_ends")

    def __init__(self, window: Session) -> None:
        super().__init__()
        self.window = window
        self._ends = FOREVER_US  # of the sessions that are there, the first that would

    def next_birth(self) -> int:
        return self._ends - 1 if len(self.waiting) else FOREVER_US

    def entering(self, rows: Rows | None, until: int) -> tuple[Rows, Int64s] | None:
        """Of all that have come those whose session is over, with all rows before an instant there."""
        if rows is not None:
            self.waiting.add(rows)
        elif until <= self._ends - 1:
            return None
        everything = self.waiting.release(until)
        if everything is None:
            return None
        starts, ends = session_windows(everything.times, _partitions(everything, self.window), self.window.gap_us)
        over = ends - 1 < until
        self.waiting.add(everything.take(np.flatnonzero(~over)))
        self._ends = int(ends[~over].min(initial=FOREVER_US))
        which = np.flatnonzero(over)
        which = which[np.argsort(ends[which], kind="stable")]
        if which.size == 0:
            return None
        data = everything.data.take(pa.array(which))
        ends = ends[which]
        return _with_deaths(_dying(_in_windows(data, starts[which], ends, self.window.zone), ends - 1, ends))

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        """When the first of these sessions is over follows from the rows that wait."""
        self.waiting.take_rows_over(state.inside("waiting"))
        rows = state.inside("waiting").rows.get("rows")
        if rows is not None and len(rows):
            held = Rows(rows.data, rows.numbers["times"]).in_time_order()
            _, ends = session_windows(held.times, _partitions(held, self.window), self.window.gap_us)
            self._ends = int(ends.min())
        return None


class GrowingSessions:
    """SESSION with changes as they come: rows enter at their own time, and leave together when their session is over,
    which is known only then. The rows of open sessions are remembered by their keys and serials."""

    STATE = ("_open", "_shape")
    ITEMS: ClassVar = {"_open": Rows, "_shape": Rows}

    def __init__(self, window: Session) -> None:
        self.window = window
        self._open: list[Rows] = []  # one, or none
        self._shape: list[Rows] = []  # no rows, of the columns that come
        self._ends = FOREVER_US

    def __len__(self) -> int:
        return 0  # none waits

    @property
    def nbytes(self) -> int:
        return sum(int(rows.data.nbytes) for rows in self._open)

    def next_birth(self) -> int:
        """When the first of them is over."""
        if self._ends == FOREVER_US and self._open:
            self._ends = int(self._ends_of(self._open[0])[1].min())
        return self._ends

    def entering(self, rows: Rows | None, serials: Int64s, until: int) -> Entered | None:
        """New rows, all that came before an instant, and who of the older ones is in a session that is over then."""
        if rows is None:
            if until <= self.next_birth():
                return None
            rows = self._shape[0]
        else:
            self._shape = [rows.take(np.empty(0, np.int64))]
        keys = rows.data.select(list(self.window.partition_by)).append_column(_SERIAL, pa.array(serials))
        everything = Rows.together([*self._open, Rows(keys, rows.times)])
        starts, ends = self._ends_of(everything)
        over, old = ends < until, np.arange(len(everything)) < len(everything) - len(rows)
        deaths = np.where(over, ends, FOREVER_US)
        all_serials: Int64s = everything.data.column(_SERIAL.name).to_numpy()
        self._open = [everything.take(np.flatnonzero(~over))] if not over.all() else []
        self._ends = int(ends[~over].min(initial=FOREVER_US))
        ends = rows.times + self.window.gap_us
        data = _in_windows(rows.data, starts[~old], ends, self.window.zone)
        return Entered(Rows(data, rows.times), deaths[~old], all_serials[over & old], deaths[over & old])

    def divided(self, keys_of: KeysOf) -> KeyedState:
        state = KeyedState()
        for rows in self._open:
            serials: Int64s = rows.data.column(_SERIAL.name).to_numpy()
            state.rows["open"] = KeyedRows.of(keys_of(rows.data), rows.data, times=rows.times, serials=serials)
        for rows in self._shape:
            state.rows["shape"] = KeyedRows.of(np.empty(0, np.int64), rows.data)
        return state

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        if "shape" in state.rows:
            self._shape = [Rows(state.rows["shape"].data, np.empty(0, np.int64))]
        rows = state.rows.get("open")
        if rows is None or len(rows) == 0:
            return NumberedAnew(*numbered)
        anew = NumberedAnew(rows, *numbered)
        rows = anew.of(rows).sorted_by("serials")
        last = rows.data.num_columns - 1
        data = rows.data.remove_column(last).append_column(_SERIAL, pa.array(rows.numbers["serials"]))
        self._open = [Rows(data, rows.numbers["times"])]
        return anew

    def _ends_of(self, rows: Rows) -> tuple[Int64s, Int64s]:
        return session_windows(rows.times, _partitions(rows, self.window), self.window.gap_us)


@dataclass(frozen=True)
class Entered:
    """Rows that enter, with their deaths where they are known; and serials of older ones that have died, and when."""

    rows: Rows
    deaths: Int64s
    killed: Int64s
    killed_at: Int64s


def _partitions(rows: Rows, window: Session) -> Int64s:
    keys = [rows.data.column(name) for name in window.partition_by]
    return Numbering(len(keys)).of(keys) if keys else np.zeros(len(rows), np.int64)


def session_windows(times: Int64s, partitions: Int64s, gap_us: int) -> tuple[Int64s, Int64s]:
    """For rows in time order, the start and the end of the session that each belongs to by what is there."""
    order = np.argsort(partitions, kind="stable")
    at, of = times[order], partitions[order]
    first = np.flatnonzero(np.append(True, (of[1:] != of[:-1]) | (at[1:] - at[:-1] >= gap_us)))
    sizes = np.diff(np.append(first, order.size))
    starts, ends = np.empty_like(times), np.empty_like(times)
    starts[order] = np.repeat(at[first], sizes)
    ends[order] = np.repeat(at[first + sizes - 1] + gap_us, sizes)
    return starts, ends


def _in_windows(data: pa.RecordBatch, starts: Int64s, ends: Int64s, zone: str | None) -> pa.RecordBatch:
    kind = pa.timestamp("us", zone)
    for name, times in zip(WINDOW_COLUMNS, (starts, ends), strict=True):
        data = data.append_column(pa.field(name, kind), pa.array(times, kind))
    return data


def _dying(data: pa.RecordBatch, births: Int64s, deaths: Int64s) -> Rows:
    return Rows(data.append_column(_DEATH, pa.array(deaths)), births)


def _with_deaths(ready: Rows) -> tuple[Rows, Int64s]:
    last = ready.data.num_columns - 1
    at: Int64s = ready.data.column(last).to_numpy()
    return Rows(ready.data.remove_column(last), ready.times), at


class Blocks:
    """`[ROWS n SLIDE m]`: m rows, in all or of a partition, enter together with the last of them. Those that wait are
    the beginning of the next m."""

    STATE = ("_parts", "_partitions", "_numbering")
    ITEMS: ClassVar = {"_parts": Rows}

    def __init__(self, window: SteppedRows) -> None:
        self.window = window
        self._parts: list[Rows] = []  # one, or none
        self._partitions: Int64s = np.empty(0, np.int64)
        self._numbering = Numbering(len(window.partition_by))

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def nbytes(self) -> int:
        return sum(int(rows.data.nbytes) for rows in self._parts)

    def next_birth(self) -> int:
        """Nobody knows when the others come."""
        return FOREVER_US

    def entering(self, new: Rows) -> Rows | None:
        """The rows whose m are complete, at the times at which they enter. New rows come in time order."""
        rows = Rows.together([*self._parts, new])
        keys = self.window.partition_by
        mine = self._numbering.of([new.data.column(name) for name in keys]) if keys else np.zeros(len(new), np.int64)
        partitions = np.concatenate([self._partitions, mine])
        births = block_births(rows.times, partitions, self.window.slide)
        waits = births == FOREVER_US
        self._partitions = partitions[waits]
        self._parts = [rows.take(np.flatnonzero(waits))] if waits.any() else []
        enters = np.flatnonzero(~waits)
        # Blocks of two partitions may be mixed: rows come in the order in which they enter, then as they came.
        enters = enters[np.argsort(births[enters], kind="stable")]
        return Rows(rows.data.take(pa.array(enters)), births[enters]) if enters.size else None

    def divided(self, keys_of: KeysOf) -> KeyedState:
        state = KeyedState()
        for rows in self._parts:
            state.rows["waiting"] = KeyedRows.of(keys_of(rows.data), rows.data, times=rows.times)
        return state

    def take_rows_over(self, state: KeyedState, *numbered: KeyedRows) -> NumberedAnew | None:
        rows = state.rows.get("waiting")
        if rows is not None and len(rows):
            rows = rows.sorted_by("times")
            self._parts = [Rows(rows.data, rows.numbers["times"])]
            self._partitions = self._numbering.of([rows.data.column(name) for name in self.window.partition_by])
        return None


def block_births(times: Int64s, partitions: Int64s, slide: int) -> Int64s:
    """For rows in time order, of which those of each partition begin with a block: the time of the last row of the
    block that each belongs to, or FOREVER_US where that is still to come."""
    order = np.argsort(partitions, kind="stable")
    sorted_partitions = partitions[order]
    starts = np.flatnonzero(np.append(True, sorted_partitions[1:] != sorted_partitions[:-1])) if order.size else order
    sizes = np.diff(np.append(starts, order.size))
    first = np.repeat(starts, sizes)
    last = first + (np.arange(order.size) - first) // slide * slide + slide - 1
    complete = last < first + np.repeat(sizes, sizes)
    births = np.full(times.size, FOREVER_US, np.int64)
    births[order[complete]] = times[order[last[complete]]]
    return births


def in_stepped_window(window: SteppedRows, rows: Rows, complete_until: int) -> Bools:
    """Which of all the rows before an instant are needed to go on from it: the last n that have entered, and so many
    before them that counting begins with a block; and those that wait for the rest of theirs."""
    needed = np.zeros(len(rows), np.bool_)
    counted = np.flatnonzero(rows.times < complete_until)
    order = counted[np.argsort(rows.times[counted], kind="stable")]
    keys = [rows.data.column(name).take(pa.array(order)) for name in window.partition_by]
    partitions = Numbering(len(keys)).of(keys) if keys else np.zeros(order.size, np.int64)
    by_partition = np.argsort(partitions, kind="stable")
    sizes = np.bincount(partitions) if order.size else np.empty(0, np.int64)
    blocks = -(-window.count // window.slide)
    kept = sizes % window.slide + np.minimum(sizes // window.slide, blocks) * window.slide
    ends = np.cumsum(sizes)
    ranks = np.arange(order.size) - np.repeat(ends - sizes, sizes)
    needed[order[by_partition[ranks >= np.repeat(sizes - kept, sizes)]]] = True
    return needed


def in_open_session(window: Session, rows: Rows, complete_until: int, reach_us: int) -> Bools:
    """Which of all the rows before an instant belong to sessions that are not over then, or matter that much longer."""
    needed = np.zeros(len(rows), np.bool_)
    counted = np.flatnonzero(rows.times < complete_until)
    order = counted[np.argsort(rows.times[counted], kind="stable")]
    if order.size:
        sorted_rows = rows.take(order)
        _, ends = session_windows(sorted_rows.times, _partitions(sorted_rows, window), window.gap_us)
        needed[order] = ends + reach_us >= complete_until
    return needed
