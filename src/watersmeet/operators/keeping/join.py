"""The sliding-window join in bounded memory.

Every row is joined when it comes. Then the rows of the windows compete for memory: those with the lowest priority
lose their payload and keep a record of their time and codes, or nothing. Walks find records like rows; a combination
with a member whose payload is gone is counted as lost instead of given. So what is given is a part of the exact
answer, and given + lost is the exact answer's size, as far as kernels alone decide what matches.

With a bound on the lag, rows may be turned away before they are joined (see input_queue). They too leave a record, so
that what others lose with them is counted; what they would have found themselves can only be estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf, log, prod
from time import perf_counter
from time import time as wall_time

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.model.time import BEGINNING_US, FOREVER_US, Times
from watersmeet.operators.bounded import BoundedMemory, Came, Sharing
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Counters, Rows
from watersmeet.operators.join.combinations import payload_columns
from watersmeet.operators.join.program import Program
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.keeping.allocation import SLACK, Allocation
from watersmeet.operators.keeping.batches import moments_of
from watersmeet.operators.keeping.input_queue import InputQueue
from watersmeet.operators.keeping.kernels.losses import look_up, note_flaws, take_apart
from watersmeet.operators.keeping.online_statistics import KeyCounts
from watersmeet.operators.keeping.pieces import only, parts_until, rounds, slice_of
from watersmeet.operators.keeping.policies import AGE_BINS, HALF_LIFE, POLICIES, AgeCurve
from watersmeet.operators.keeping.recall import PaneCounts, pane_counts
from watersmeet.operators.keeping.recording import Recorder, columns_to_record
from watersmeet.operators.keeping.sharing import Needs, Share
from watersmeet.operators.keeping.store import Marks, SheddingStore, Worth
from watersmeet.operators.row_windows import Deaths
from watersmeet.physical.strategy import Code, JoinStrategy
from watersmeet.plan.expressions import Expression, columns_of
from watersmeet.plan.memory import Memory
from watersmeet.plan.shedding import Shedding

# So few rows, of so few bytes, are stored at once even where the memory is smaller.
FEW_ROWS, FEW_BYTES = 64, 1 << 16
UNLIMITED = 1 << 62
# How often rows go before what is left fits a bound in bytes: rows of one stream differ in size.
PASSES = 8
# Results come in batches of about so many bytes at most, and of so many rows at least.
RESULT_BYTES, RESULT_ROWS = 1 << 25, 1 << 10


class SheddingJoin(WindowJoin):
    """A WindowJoin that keeps no more rows than it may. Static tables are kept whole and do not count."""

    STATE = (
        "shed", "row_windows", "keys", "panes", "ages", "factors", "scales", "unrefreshed", "arrived", "newest_us",
        "oldest_us", "settled_us", "counters", "recorder", "queue", "needs",
    )  # fmt: skip

    stores: dict[str, WindowStore]

    def __init__(
        self,
        strategy: JoinStrategy,
        columns: tuple[tuple[str, Expression], ...],
        shedding: Shedding,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """clock: tells the time in seconds, by which the lag is measured; by default the clock on the wall."""
        self.clock = clock or wall_time
        self.shedding = shedding
        self.policy = POLICIES[shedding.policy]
        selected = {c for _, e in columns for c in columns_of(e)}
        streams = [one.alias for one in strategy.join.streams] if shedding.archive else []
        self.recorded = {alias: columns_to_record(strategy, alias, selected) for alias in streams}
        super().__init__(strategy, columns)
        self.shed = {alias: store for alias, store in self.stores.items() if isinstance(store, SheddingStore)}
        beside = PaneCounts.bytes_per_row() if shedding.recall == "panes" else 0.0
        self.allocation = Allocation(shedding.memory, shedding.allocation, tuple(self.shed), beside)
        self._check_size()
        self.lives = {alias: self._life(alias) for alias in self.shed}
        half_life = self._half_life() if self.policy.fades else None
        self.keys = self._key_counts(half_life, by_keys=self.policy.keys)
        self.queue = None
        if shedding.max_lag_us is not None:
            self.queue = InputQueue(shedding, self.policy, tuple(self.shed), self._key_counts, half_life)
        self.panes = self._pane_counts()
        self.ages = {alias: AgeCurve() for alias in self.shed}
        self.factors = {alias: self.policy.by_age(self.ages[alias]) for alias in self.shed}
        self.scales = dict.fromkeys(self.shed, 1.0)
        self.unrefreshed = dict.fromkeys(self.shed, 0)
        self.arrived = 0
        self.found = 0  # combinations, those with members without memory among them
        self.newest_us = BEGINNING_US
        self.oldest_us = FOREVER_US
        self.settled_us = BEGINNING_US
        self.counters = self._fresh_counters()
        self.newly_flawed: Marks | None = None
        self.recorder: Recorder | None = None
        self.needs: Needs | None = None  # of all buckets, where several share the memory

    # ---- what it is made of -----------------------------------------------------------------------------------------

    def _make_store(self, alias: str) -> WindowStore:
        if self.inputs[alias].is_table:
            return super()._make_store(alias)
        position = self.code_positions[alias]
        shown = [*(e for _, e in self.columns), *self.strategy.residuals, *self.strategy.verified]
        shown += self.recorded.get(alias, ())
        return SheddingStore(
            len(position),
            [tuple(position[code] for code in key) for key in self.strategy.hash_keys(alias)],
            [position[code] for code in self.strategy.sorted_keys(alias)],
            {column.name: column.type for column in payload_columns(alias, shown, self.inputs, position)},
            counted=alias in self.mortal,
            forgetful=self.shedding.recall != "exact",
        )

    def start_recording(self) -> None:
        """From now on, write down what completion needs; whoever asks for it takes the records away."""
        self.recorder = Recorder(self.recorded, self.code_positions, everything=self.shedding.recall != "exact")

    def bound_by(self, share: Share) -> None:
        """Keep no more than this from now on; rows that are too many go when rows compete next."""
        self.allocation.bound_by(share.memory, share.streams)

    @property
    def bounded(self) -> BoundedMemory:
        return self

    @property
    def memory(self) -> Memory:
        return self.allocation.memory

    def share_by(self, sharing: Sharing) -> None:
        lives = [self.lives[alias] for alias in sharing.streams]
        sizes = [self.shed[alias].bytes_per_row for alias in sharing.streams]
        self.needs = Needs(sharing, lives, sizes, HALF_LIFE / log(2) if self.policy.fades else 1.0)

    def told_needs(self, came: Sequence[Came], place: int) -> None:
        if self.needs is not None:
            self.needs.add(came)
            self.bound_by(self.needs.share_of(place))

    @property
    def least_size(self) -> int:
        """The bytes that two rows of each stream take: one that is kept, and one that comes."""
        return 2 * sum(int(store.bytes_per_row) + 1 for store in self.shed.values())

    def _check_size(self) -> None:
        """How large rows are only this operator knows."""
        memory, least = self.shedding.memory, self.least_size
        if memory.size is not None and memory.size < least:
            raise OptionError(
                f"option memory = {memory.written or str(memory)!r} is too little: a row of each stream that is "
                f"kept, and one that comes, take {least} bytes",
                hint=f"write memory = '{least} bytes' or more",
                option="memory",
            )

    def _fresh_counters(self) -> Counters:
        """Losses can be counted where records are kept and the kernels test everything."""
        if self.shedding.recall == "none" or self.strategy.residuals:
            return Counters(lost_results=None, incomplete_rows=None)
        return Counters() if self.shedding.recall == "exact" else Counters(incomplete_rows=None)

    def _pane_counts(self) -> dict[str, PaneCounts]:
        if self.shedding.recall != "panes":
            return {}
        rows = max(self.allocation.rows_of(self.shed, alias) for alias in self.shed)
        return pane_counts(self.strategy, self.code_positions, rows)

    def _key_counts(self, half_life: float | None, *, by_keys: bool = True) -> KeyCounts:
        return KeyCounts(
            tuple(self.shed),
            self.strategy.equalities if by_keys else (),
            self.code_positions,
            sum(self.allocation.rows_of(self.shed, alias) for alias in self.shed),
            half_life,
            own_too=self.policy.completes,
        )

    def _life(self, alias: str) -> tuple[float, bool]:
        """How long a row stays in its window, and whether that is in rows; infinite where it cannot be known."""
        window = self.row_windows.get(alias)
        if window is not None and not window.partition_by:
            return float(window.count), True
        retention_us = self.strategy.join.retention_us(alias)
        # A row that nothing may follow is never met again.
        return (inf if retention_us >= FOREVER_US else max(retention_us, 0) + 1.0), False

    @property
    def _in_time(self) -> bool:
        return all(life < inf and not in_rows for life, in_rows in self.lives.values())

    def _half_life(self) -> float:
        """In time where all windows have a length, else in rows of all streams together."""
        lengths = [life for life, _ in self.lives.values() if life < inf]
        if self._in_time:
            return max(1.0, HALF_LIFE * max(lengths))
        rows = sum(life for life, in_rows in self.lives.values() if in_rows and life < inf)
        return max(1.0, HALF_LIFE * rows) if rows else 1024.0

    @property
    def window_rows(self) -> int:
        """The rows that have memory."""
        return sum(store.kept for store in self.shed.values())

    @property
    def state_bytes(self) -> int:
        beside = self.keys.nbytes + sum(counts.nbytes for counts in self.panes.values())
        return super().state_bytes + beside + (self.queue.nbytes if self.queue is not None else 0)

    @property
    def piece_rows(self) -> int:
        """How many rows of a stream are best pushed at a time, so that those of one time meet."""
        size = self.allocation.fresh_rows if self.counters.shed_rows else self.allocation.at_first
        return min((size(self.shed, alias) for alias in self.shed), default=1)

    # ---- what a restart would miss ----------------------------------------------------------------------------------

    @property
    def is_kept_whole(self) -> bool:
        return True

    def restore(self, log: Mapping[str, Rows], complete_until: int) -> None:
        """Rows alone do not tell which of them were gone: they compete for memory again."""
        super().restore(log, complete_until)
        self.settled_us = max(self.settled_us, complete_until)
        self._make_room({})
        self.counters = self._fresh_counters()

    # ---- rows come --------------------------------------------------------------------------------------------------

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        if alias not in self.shed:
            yield from super().push(alias, rows)
        elif self.queue is None and self.recorder is None:
            yield from self._join_then_store(alias, rows)
        else:
            self._expect([rows])
            for piece in self._pieces(alias, rows):
                self._make_room({alias: piece})
                yield from self._join_and_store(alias, piece)

    def _join_then_store(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Rows of one stream do not meet each other, so they are joined at once; stored they are in pieces."""
        rows, codes, _ = self._admit(alias, rows)
        if len(rows) == 0:
            return
        yield from self._found(alias, rows, codes, None)
        started = perf_counter()
        flawed = self.newly_flawed
        room = self.allocation.fresh_rows(self.shed, alias)
        size = min(room, self._fitting(rows))
        if size < FEW_ROWS:
            size = max(size, self._few(alias, rows))
        for first in range(0, len(rows), size):
            last = min(first + size, len(rows))
            piece = slice_of(rows, first, last)
            if len(piece) <= room:
                self._make_room({alias: piece})
            self.newly_flawed = None if flawed is None else flawed[first:last]
            self._store(alias, piece, {code: values[first:last] for code, values in codes.items()}, None)
            if len(piece) > room:
                self.shed_to_bound()
        self.counters.kernel_seconds += perf_counter() - started

    def _few(self, alias: str, rows: Rows) -> int:
        """How many rows are so few that they may be too many for a moment: to store them one by one takes long."""
        each = max(self.shed[alias].bytes_per_row, rows.data.nbytes / len(rows))
        return max(1, min(FEW_ROWS, int(FEW_BYTES / each)))

    def _fitting(self, rows: Rows) -> int:
        """How many new rows may come at once by their own size, which may be larger than that of the rows before."""
        size = self.allocation.memory.size
        if size is None or not len(rows):
            return UNLIMITED
        return max(1, int(SLACK * size * len(rows) / max(int(rows.data.nbytes), 1)))

    def _pieces(self, alias: str, rows: Rows) -> Iterator[Rows]:
        size = min(self.allocation.fresh_rows(self.shed, alias), self._fitting(rows))
        return (slice_of(rows, start, start + size) for start in range(0, len(rows), size))

    def push_together(
        self, batch: Mapping[str, Rows], deaths: Mapping[str, Deaths] | None = None, *, quietly: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """In rounds of few rows, each complete up to an instant, so that rows that come together meet."""
        assert deaths is None
        if not quietly:
            self._expect(batch.values())
        size = min(self.piece_rows, min(map(self._fitting, batch.values()), default=1))
        for part, until_us in rounds(batch, size * max(len(self.shed), 1)):
            self._make_room(part)
            yield from super().push_together(part, self._deaths(part), quietly=quietly)
            self.settled_us = max(self.settled_us, until_us)
            if max(len(rows) for rows in part.values()) > self.piece_rows:  # all of one stream, or of one time
                self._make_room({})

    def take(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Rows meet before they compete for memory; afterwards no more of them are kept than the bound says."""
        if self.queue is not None:  # to know how far behind it is, it must see all there is
            yield from self.push_together(batch)
        for part, until_us in parts_until(batch, self.moments(batch)):
            yield from self.push_together(part)
            yield from self.advance({alias: min(until_us, mark) for alias, mark in watermarks.items()})
        yield from self.advance(watermarks)
        self.shed_to_bound()

    def moments(self, batch: Mapping[str, Rows]) -> Sequence[int]:
        if self.queue is not None:
            return ()
        return moments_of(batch, (life for life, in_rows in self.lives.values() if not in_rows))

    def _deaths(self, batch: Mapping[str, Rows]) -> dict[str, Deaths]:
        deaths = {
            alias: self.row_windows[alias].add(rows) for alias, rows in batch.items() if alias in self.row_windows
        }
        if self.recorder is not None:
            for alias, died in deaths.items():
                self.recorder.died(alias, died)
        return deaths

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        yield from super().advance(watermarks)
        self.settled_us = max(self.settled_us, min(watermarks.values()))

    def _store(self, alias: str, rows: Rows, codes: Mapping[Code, Codes], deaths: Deaths | None) -> None:
        super()._store(alias, rows, codes, deaths)
        store, flawed = self.shed.get(alias), self.newly_flawed
        self.newly_flawed = None
        if store is None or len(rows) == 0:
            return
        first, last = store.head - len(rows), store.head
        if flawed is not None:
            store.store_flaws(flawed)
        self.oldest_us = min(self.oldest_us, int(rows.times.min()))
        if self.recorder is not None:
            self.recorder.stored(alias, store, rows, first)
        self._count(alias, store.codes, first, last, rows.times)

    def _count(self, alias: str, codes: Codes, first: int, last: int, times: Times) -> None:
        """Rows of a stream came, whose codes are at first..last-1."""
        clock = self._clock_of(times)
        self.newest_us = max(self.newest_us, int(times.max()))
        self.arrived += times.size
        self.keys.add(alias, codes, first, last, clock)

    def _clock_of(self, times: Times) -> Times:
        """When rows came, in what half-lives are measured in."""
        return times if self._in_time else np.arange(self.arrived, self.arrived + times.size)

    def _found(
        self, alias: str, rows: Rows, codes: Mapping[Code, Codes], deaths: Deaths | None
    ) -> Iterator[pa.RecordBatch]:
        yield from super()._found(alias, rows, codes, deaths)
        for other, counts in self.panes.items():
            if other != alias:
                counts.meet(self._stacked(alias, codes, len(rows)), rows.times)
                self._tell_losses()

    def _results(self, program: Program, numbers: Codes, rows: Rows) -> Iterator[pa.RecordBatch]:
        if self.policy.learns_ages:
            self._learn_ages(program, numbers, rows)
        self.found += numbers.shape[1]
        kept, of_lost = self._parted(program, numbers)
        if of_lost.shape[1]:
            if self.shedding.recall == "exact" and self.counters.lost_results is not None:
                self.counters.lost_results += of_lost.shape[1]
            if self.shedding.recall == "exact":
                self._note_flaws(program, of_lost, rows)
            if self.recorder is not None:
                self.recorder.lost(program.visits, of_lost, len(rows), self.shed)
        size = kept if kept <= RESULT_ROWS else min(kept, self._results_at_once(program, rows))
        for first in range(0, kept, size or 1):
            yield from super()._results(program, numbers[:, first : min(first + size, kept)], rows)

    def _results_at_once(self, program: Program, rows: Rows) -> int:
        """How many results are made at a time: where values are long, a few thousand are larger than the memory."""
        each = rows.data.nbytes / len(rows)
        for alias in program.visits[1:]:
            if alias in self.shed:
                each += sum(column.bytes_per_row for column in self.shed[alias].columns.values())
        return max(RESULT_ROWS, int(RESULT_BYTES / max(each, 1.0)))

    def _parted(self, program: Program, numbers: Codes) -> tuple[int, Codes]:
        """Move the combinations whose members all have memory to the front; how many they are, and the others."""
        count = numbers.shape[1]
        lost = np.zeros(count, np.bool_)
        for alias, members in zip(program.visits[1:], numbers[1:], strict=True):
            if alias in self.shed:
                look_up(members, self.shed[alias].slot_of, lost)
        gone = int(np.count_nonzero(lost))
        of_lost = np.empty((len(program.visits), gone and gone + 1), np.int64)
        if gone:
            for own, away in zip(numbers, of_lost, strict=True):
                take_apart(own, lost, away)
        return count - gone, of_lost[:, :gone]

    def _note_flaws(self, program: Program, of_lost: Codes, rows: Rows) -> None:
        """Every member of a combination that was lost is incomplete; the new rows are not stored yet."""
        if self.newly_flawed is None:
            self.newly_flawed = np.zeros(len(rows), np.uint8)
        noted = int(note_flaws(of_lost[0], self.newly_flawed))
        for alias, members in zip(program.visits[1:], of_lost[1:], strict=True):
            if alias in self.shed:
                noted += int(note_flaws(members, self.shed[alias].flawed))
        if self.counters.incomplete_rows is not None:
            self.counters.incomplete_rows += noted

    def _learn_ages(self, program: Program, numbers: Codes, rows: Rows) -> None:
        """Note how old stored members were when they were found."""
        now = rows.times[numbers[0]]
        for alias, members in zip(program.visits[1:], numbers[1:], strict=True):
            if alias not in self.shed:
                continue
            worth, store = self._worth(alias), self.shed[alias]
            if worth.in_rows:
                assert store.serials is not None
                ages = worth.now - store.serials[members]
            else:
                ages = now - store.times[members]
            bins = np.clip(ages / worth.per_bin, 0, AGE_BINS - 1).astype(np.int64)
            self.ages[alias].matched += np.bincount(bins, minlength=AGE_BINS)

    # ---- or are turned away, for lack of time ------------------------------------------------------------------------

    def _expect(self, batch: Iterable[Rows]) -> None:
        if self.queue is not None:
            self.queue.pace.expect(self.clock(), batch)

    def _join_and_store(self, alias: str, rows: Rows, deaths: Deaths | None = None) -> Iterator[pa.RecordBatch]:
        if self.queue is None or alias not in self.shed:
            yield from super()._join_and_store(alias, rows, deaths)
            return
        began, came = self.clock(), len(rows)
        share = self.queue.pace.share(began, came)
        rows, codes, deaths = self._admit(alias, rows, deaths)
        if len(rows):
            stacked, before = self._stacked(alias, codes, len(rows)), self.found
            entering = self._entering(alias, rows, stacked, share)
            yield from self._join_some(alias, rows, codes, deaths, entering)
            self._estimate_losses(alias, stacked, entering, self.found - before)
            self._keep_some(alias, rows, codes, deaths, entering)
            entered = len(rows) if entering is None else int(np.count_nonzero(entering))
            self.queue.entered += entered
            share = entered / len(rows)
        self.queue.pace.worked(self.clock() - began, came, share)

    def _entering(self, alias: str, rows: Rows, stacked: Codes, share: float) -> Mask | None:
        """Which rows are let in; None: all of them."""
        assert self.queue is not None
        room = self.queue.room_for(alias, stacked, self._clock_of(rows.times), share)
        if room == len(rows):
            return None
        if room == 0:
            return np.zeros(len(rows), np.bool_)
        worth = self._worth(alias)
        ages = np.zeros(len(rows)) if worth.in_rows else np.maximum(self.newest_us - rows.times, 0)
        by_age = worth.by_age[np.minimum(ages / worth.per_bin, AGE_BINS - 1).astype(np.int64)]
        return self.queue.best(alias, stacked, by_age, room, self.shed, self.keys)

    def _stacked(self, alias: str, codes: Mapping[Code, Codes], count: int) -> Codes:
        """Codes as a store has them."""
        columns = [codes[code] for code in self.code_positions[alias]]
        return np.stack(columns) if columns else np.empty((0, count), np.int64)

    def _join_some(
        self, alias: str, rows: Rows, codes: Mapping[Code, Codes], deaths: Deaths | None, entering: Mask | None
    ) -> Iterator[pa.RecordBatch]:
        if entering is not None and not entering.any():
            return
        if entering is not None:
            rows, codes, deaths = only(entering, rows, codes, deaths)
        yield from self._found(alias, rows, codes, deaths)

    def _keep_some(
        self, alias: str, rows: Rows, codes: Mapping[Code, Codes], deaths: Deaths | None, entering: Mask | None
    ) -> None:
        """Store the rows that are let in; of the others leave a record, if losses are to be known."""
        started = perf_counter()
        if entering is None:
            self._store(alias, rows, codes, deaths)
        else:
            turned_away = int(np.count_nonzero(~entering))
            self.counters.shed_rows[alias] = self.counters.shed_rows.get(alias, 0) + turned_away
            self.counters.queue_shed_rows += turned_away
            self.counters.incomplete_rows = None  # what these would have met, nobody knows
            if self.shedding.recall == "exact":
                self._record(alias, rows, codes, deaths, entering)
            else:
                self._store(alias, *only(entering, rows, codes, deaths))
        self.counters.kernel_seconds += perf_counter() - started

    def _record(
        self, alias: str, rows: Rows, codes: Mapping[Code, Codes], deaths: Deaths | None, entering: Mask
    ) -> None:
        """Store rows in the order they came, and take the memory of those that are turned away."""
        super()._store(alias, rows, codes, deaths)
        store, flawed = self.shed[alias], self.newly_flawed
        self.newly_flawed = None
        if flawed is not None:
            of_all = np.zeros(len(rows), np.uint8)
            of_all[entering] = flawed
            store.store_flaws(of_all)
        first = store.head - len(rows)
        store.turn_away(first + np.flatnonzero(~entering))
        if entering.any():
            inside = store.codes[:, first : store.head][:, entering]
            self._count(alias, inside, 0, inside.shape[1], rows.times[entering])
        if store.forgetful:
            store.squeeze_records()

    def _estimate_losses(self, alias: str, stacked: Codes, entering: Mask | None, found: int) -> None:
        assert self.queue is not None
        if self.counters.lost_results is None:
            return
        if self.shedding.recall == "exact":
            self.counters.lost_results += self.queue.missed(alias, stacked, entering, found, self.shed)
        elif entering is not None:
            self.counters.lost_results = self.counters.lost_between = None

    # ---- and compete for memory -------------------------------------------------------------------------------------

    def _make_room(self, coming: Mapping[str, Rows]) -> None:
        """If there is no room for more rows, let those that all streams have come up to compete for memory, and take it
        from those with the lowest priority."""
        if not self.allocation.fits(self.shed, {alias: len(rows) for alias, rows in coming.items()}):
            self._compete()
            self._shed_lowest(make_room=True)

    def shed_to_bound(self) -> None:
        """Keep no more rows than the bound says, although there may be more while rows come."""
        if self.allocation.is_exceeded(self.shed):
            self._compete()
            self._shed_lowest(make_room=False)

    def _shed_lowest(self, *, make_room: bool) -> None:
        """Those that go may be smaller than the others, which then are larger on average: so it is looked at again."""
        for _ in range(1 if self.allocation.memory.size is None else PASSES):
            victims = self.allocation.victims(self.shed, make_room=make_room)
            for alias, count in victims.items():
                self._shed(alias, count)
            if not victims:
                break

    def _compete(self) -> None:
        for alias, store in self.shed.items():
            room = self.allocation.fresh_rows(self.shed, alias)
            seed = None if self.policy.keys else self._seed(alias)
            self.unrefreshed[alias] += store.mature(
                self.settled_us, room, self._worth(alias), self.keys.of_partners[alias], seed
            )
            enough = self.policy.new_rows_to_refresh(store.competing, store.matured)
            if self.policy.keys and self.unrefreshed[alias] > enough:
                self._refresh(alias)

    def _shed(self, alias: str, count: int) -> None:
        store = self.shed[alias]
        positions, slots = store.evict(count)
        if alias in self.panes:
            self.panes[alias].add(store, positions)
        if self.recorder is not None:
            self.recorder.shed(alias, store, positions, slots)
        self.counters.shed_rows[alias] = self.counters.shed_rows.get(alias, 0) + positions.size
        if store.forgetful:
            store.squeeze_records()

    def _tell_losses(self) -> None:
        if self.counters.queue_shed_rows:
            return
        losses = [counts.losses for counts in self.panes.values()]
        self.counters.lost_results = sum(one.about for one in losses)
        self.counters.lost_between = sum(one.low for one in losses), sum(one.high for one in losses)

    def _refresh(self, alias: str) -> None:
        """Look at all priorities of a stream again."""
        self.unrefreshed[alias] = 0
        ages = self.ages[alias]
        if self.policy.learns_ages:
            ages.fade()
        self.factors[alias] = self.policy.by_age(ages)
        self.scales[alias] = self._scale(alias)
        worth, store = self._worth(alias), self.shed[alias]
        store.look_again(worth, self.keys.of_partners[alias])
        if self.policy.learns_ages:
            # With records of all rows every age is seen equally often, else only what is in memory is.
            ages.exposed += store.ages_competing(worth, AGE_BINS) if store.forgetful else np.ones(AGE_BINS)

    def _worth(self, alias: str) -> Worth:
        life, in_rows = self.lives[alias]
        now = self.newest_us
        if in_rows:
            now = self.row_windows[alias].next_serial
        per_bin = life / AGE_BINS if self.policy.ageing else inf
        if self.policy.completes:
            return Worth(self.scales[alias], self.factors[alias], per_bin, now, in_rows, self._per_count(life, in_rows))
        scale = self.scales[alias] * self.keys.per_count(alias)
        return Worth(scale, self.factors[alias], per_bin, now, in_rows)

    def _per_count(self, life: float, in_rows: bool) -> float:
        """What share of all rows that were counted a window holds."""
        if life == inf or in_rows:
            so_far = self.arrived / max(len(self.shed), 1)
            return 1.0 if life == inf else min(1.0, life / max(so_far, 1.0))
        return min(1.0, life / max(self.newest_us - self.oldest_us, 1))

    def _scale(self, alias: str) -> float:
        """What makes priorities of different streams comparable, in one pool: streams that no key of this one reaches
        count as often as their keys do on average; a row meets the others for as long as they stay; and memory in
        bytes should go where it brings most for a byte."""
        if self.allocation.fixed:
            return 1.0
        scale = self.keys.typical(alias)
        others = [self.lives[other][0] for other in self.shed if other != alias]
        if len(others) > 1 and self._in_time:
            longest = max(others)
            shares = [other / longest for other in others]
            scale *= sum(prod(shares[:i] + shares[i + 1 :]) for i in range(len(shares)))
        if self.shedding.memory.size is not None:
            scale /= self.shed[alias].bytes_per_row
        return scale

    def _seed(self, alias: str) -> int:
        return (self.shedding.seed * 0x5851F42D4C957F2D + list(self.shed).index(alias) * 0x14057B7EF767814F) % (1 << 62)
