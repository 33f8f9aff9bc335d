"""The same operator several times, each with the rows of its keys, in threads beside each other.

What a query divides by is a `PartitionKey`, and how states come apart and together the operators say themselves
(keyed_state.py); here rows are only sent where their keys are placed, and time to all parts. Kernels, NumPy and Arrow
run without Python's lock, so the threads hold each other up only between them.

Each part does what it is told in order, and whoever tells them need not wait for one thing to be done before the next:
answers come when `settle` asks for them, when time has come to an end, or when much is under way. They do not depend on
how fast threads are: a growing answer has a block of each part in turn, and a log of changes is in the order of its
instants, as that of one operator is. A few rows are not worth the way to another thread and back.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Semaphore
from time import perf_counter
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.background import Background
from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators import spread_state
from watersmeet.operators.answers import Answer, as_batch
from watersmeet.operators.contract import Counters, End, Operator, Positions, Results, Rows, WaitingRows
from watersmeet.operators.counters import counted_together
from watersmeet.operators.frequent_keys import frequent
from watersmeet.operators.kept_rows import KeptRows
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.merged_logs import Log
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.operators.picked_rows import picked_rows
from watersmeet.operators.repartition import merge, split
from watersmeet.operators.saving import Saved
from watersmeet.operators.spread_rows import is_copied

WORTH_A_THREAD = 2048  # rows
MOST_UNDER_WAY = 8  # calls
BLOCKS_AHEAD = 8  # of a part, for whoever takes them
SAMPLE = 1024  # rows of those that come at once, to find keys that many of them have
LOOK_S = 0.02  # how often a part that is at work says what it holds

Work = Callable[[], Iterable[Answer]]
Block = TypeVar("Block", bound=Answer)


class Blocks:
    """What a part gives for one call, a few blocks ahead of whoever takes them."""

    def __init__(self) -> None:
        self._made: SimpleQueue[Answer | BaseException | None] = SimpleQueue()
        self._room = Semaphore(BLOCKS_AHEAD)
        self._is_wanted = True

    def make(self, work: Work) -> None:
        end: BaseException | None = None
        try:
            for block in work():
                self._room.acquire()
                if not self._is_wanted:
                    break
                self._made.put(block)
        except BaseException as error:
            end = error
        self._made.put(end)

    def leave(self) -> None:
        """Nobody takes any more of them."""
        self._is_wanted = False
        self._room.release()

    def __iter__(self) -> Iterator[Answer]:
        while (block := self._made.get()) is not None:
            if isinstance(block, BaseException):
                raise block
            self._room.release()
            yield block


@dataclass(frozen=True)
class _Held:
    """What a part held when it last looked, by the names that an operator has for it."""

    kept_rows: int
    state_bytes: int
    held_by_input: Mapping[str, tuple[int, int]]
    copies_held: Mapping[str, int]
    read_rows: int | None


class _Part:
    """One of the operators with its thread, which is there once there is something to do in it."""

    def __init__(self, operator: Operator, number: int) -> None:
        self.operator, self._number = operator, number
        self.thread: Background | None = None
        self.held = self._look()
        self.work = 0  # rows and answers
        self._looked_s = 0.0

    def own(self, rows: Rows, share: Callable[[], Positions]) -> Rows:
        """The rows that are its own."""
        found = picked_rows(rows, share())
        self.work += len(found)
        return found

    def counted(self, answers: Iterable[Block]) -> Iterator[Block]:
        for block in answers:
            self.work += block.num_rows
            yield block

    def begin(self, work: Work) -> Blocks:
        if self.thread is None:
            self.thread = Background(f"watersmeet part {self._number}")
        blocks = Blocks()
        self.thread.submit(self._do, blocks, work)
        return blocks

    def _do(self, blocks: Blocks, work: Work) -> None:
        blocks.make(lambda: self.counted(work()))
        if perf_counter() - self._looked_s > LOOK_S:
            self.held = self._look()
            self._looked_s = perf_counter()

    def _look(self) -> _Held:
        one = self.operator
        return _Held(one.kept_rows, one.state_bytes, one.held_by_input, one.copies_held, one.read_rows)

    def end(self) -> None:
        if self.thread is not None:
            self.thread.stop()


class Partitioned(Operator):
    STATE = ("operators",)

    def __init__(self, operators: Sequence[Operator], key: PartitionKey, log: Log | None) -> None:
        """log: how the answer is a log of changes, if it is one."""
        self.key, self.log = key, log
        self._parts = [_Part(operator, number) for number, operator in enumerate(operators)]
        self._under_way: deque[list[Blocks]] = deque()
        self._was_left = False  # whoever took answers has stopped, and parts may still be at work on what was under way
        self._new_rows = 0  # since time last went on
        self._rows_by_key: dict[str, int] = {}
        weakref.finalize(self, _end, self._parts)

    @property
    def operators(self) -> tuple[Operator, ...]:
        return tuple(part.operator for part in self._parts)

    @operators.setter
    def operators(self, loaded: Sequence[Operator]) -> None:
        """They were loaded where they are."""
        assert all(one is part.operator for one, part in zip(loaded, self._parts, strict=True))

    @property
    def parts(self) -> int:
        return len(self._parts)

    # ---- rows and time ----------------------------------------------------------------------------------------------

    def push(self, alias: str, rows: Rows) -> Results:
        return map(as_batch, self.answers_to(alias, rows))

    def answers_to(self, alias: str, rows: Rows) -> Iterator[Answer]:
        self._new_rows += len(rows)
        self._note_keys(alias, rows)
        if len(rows) < WORTH_A_THREAD and not self._may_be_at_work:
            for part, some in zip(self._parts, self._placed(alias, rows), strict=True):
                yield from part.counted(_pushed(part.operator, alias, partial(part.own, rows, partial(_same, some))))
            return
        shares = self._shares(alias, rows)
        self._begin([partial(_pushed, one, alias, own) for one, own in zip(self.operators, shares, strict=True)])
        yield from self._answers(MOST_UNDER_WAY)

    def advance(self, watermarks: Mapping[str, int]) -> Results:
        many, self._new_rows = self._new_rows >= WORTH_A_THREAD, 0
        at_end = max(watermarks.values(), default=BEGINNING_US) >= FOREVER_US
        if not (many or at_end or self._may_be_at_work):
            yield from self._together([part.counted(part.operator.advance(watermarks)) for part in self._parts])
            return
        self._begin([partial(one.advance, watermarks) for one in self.operators])
        yield from self._answers(0 if at_end else MOST_UNDER_WAY)

    def take(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Results:
        for alias, rows in batch.items():
            self._note_keys(alias, rows)
        shares = {alias: self._shares(alias, rows) for alias, rows in batch.items()}

        def taken(number: int, operator: Operator) -> Results:
            return operator.take({alias: shares[alias][number]() for alias in batch}, watermarks)

        self._begin([partial(taken, number, operator) for number, operator in enumerate(self.operators)])
        return self._answers(0)

    def settle(self) -> Results:
        yield from self._answers(0)
        for operator in self.operators:
            yield from operator.settle()

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        ends: list[End] = []

        def finished(operator: Operator) -> Results:
            ends.append((yield from operator.finish(newest_us)))

        self._begin([partial(finished, operator) for operator in self.operators])
        yield from self._answers(0)
        names = dict.fromkeys(name for end in ends for name in end.newest_us)
        newest = {name: max(end.newest_us.get(name, BEGINNING_US) for end in ends) for name in names}
        return End(max(end.answered_us for end in ends), newest)

    def over_nothing(self) -> Results:
        return self._together([one.over_nothing() for one in self.operators])

    def in_turn(self, works: Sequence[Callable[[], None]]) -> None:
        """Have every part do something when it has done what it was told before."""
        if not self._may_be_at_work:
            for work in works:
                work()
        else:
            self._begin([partial(_done, work) for work in works])

    def _placed(self, alias: str, rows: Rows) -> list[Positions]:
        return self.key.positions(alias, rows.data, rows.times, self.parts)

    def _shares(self, alias: str, rows: Rows) -> list[Callable[[], Rows]]:
        """What each part does to have its rows."""
        rows.in_order  # noqa: B018  # looked up once for all of them
        shares = self.key.shares(alias, rows.data, rows.times, self.parts)
        return [partial(part.own, rows, share) for part, share in zip(self._parts, shares, strict=True)]

    def _note_keys(self, alias: str, rows: Rows) -> None:
        """By a sample of many rows."""
        column = self.key.column(alias) if alias in self.key.codes else None
        if column is None or len(rows) < WORTH_A_THREAD:
            return
        step = max(len(rows) // SAMPLE, 1)
        some = rows.data.select([column]).take(pa.array(np.arange(0, len(rows), step)))
        for key, many in frequent(self.key.codes_of(alias, some), some.column(0)):
            name = f"{alias}: {key}"
            self._rows_by_key[name] = self._rows_by_key.get(name, 0) + step * many

    # ---- what is under way ------------------------------------------------------------------------------------------

    def _begin(self, works: Sequence[Work]) -> None:
        self._under_way.append([part.begin(work) for part, work in zip(self._parts, works, strict=True)])

    def _answers(self, left: int) -> Results:
        """What was made under way, until no more calls than this are."""
        try:
            while len(self._under_way) > left:
                yield from self._together([map(as_batch, blocks) for blocks in self._under_way[0]])
                self._under_way.popleft()
        except BaseException:  # also if whoever takes them stops for good
            self._leave()
            raise

    def _together(self, streams: Sequence[Results]) -> Results:
        return _in_turn(streams) if self.log is None else self.log.merged(streams)

    @property
    def _may_be_at_work(self) -> bool:
        return bool(self._under_way) or self._was_left

    def _leave(self) -> None:
        self._was_left = True
        while self._under_way:
            for blocks in self._under_way.popleft():
                blocks.leave()

    # ---- what a restart would miss ----------------------------------------------------------------------------------

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        placed = {alias: self._placed(alias, rows) for alias, rows in log.items()}
        for number, operator in enumerate(self.operators):
            own = {alias: picked_rows(rows, placed[alias][number]) for alias, rows in log.items()}
            operator.restore(own, complete_until, ends)

    def begun_before(self, aliases: Iterable[str], complete_until: int) -> None:
        for operator in self.operators:
            operator.begun_before(aliases, complete_until)

    def pass_end(self, end: End, aliases: Iterable[str]) -> None:
        for operator in self.operators:
            operator.pass_end(end, aliases)

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> npt.NDArray[np.bool_]:
        needed = np.zeros(len(rows), np.bool_)
        for operator, some in zip(self.operators, self._placed(alias, rows), strict=True):
            needed[some] |= operator.still_needed(alias, rows.take(some), complete_until)
        return needed

    def undivided(self, key: PartitionKey) -> str | None:
        return self._first.undivided(key)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return self._first.key_columns(key)

    def keyed_state(self, key: PartitionKey) -> KeyedState:
        spread = self.key.spread
        if spread is None:
            return merge([operator.keyed_state(key) for operator in self.operators])
        return spread_state.gathered(self.operators, key, spread)

    def take_over(self, state: KeyedState) -> None:
        spread = self.key.spread
        shares = (
            split(state, self.parts)
            if spread is None
            else spread_state.shares(state, self._first, self.key, spread, self.parts)
        )
        for operator, own in zip(self.operators, list(shares), strict=True):
            operator.take_over(own)

    def kept_of(self, alias: str, watermarks: Mapping[str, int]) -> KeptRows | None:
        """Of copies those of one part; nothing while parts may be at work, or where some rows are copies."""
        if self._may_be_at_work or is_copied(self.key.spread, alias):
            return None
        parts = self.operators[:1] if alias in self.key.copied else self.operators
        kept = [one for operator in parts if (one := operator.kept_of(alias, watermarks)) is not None]
        return kept[0].and_also(kept[1:]) if len(kept) == len(parts) else None

    # ---- what a host goes by, and what it holds ---------------------------------------------------------------------

    @property
    def _first(self) -> Operator:
        return self._parts[0].operator

    @property
    def _held(self) -> list[_Held] | list[Operator]:
        """Who says what each part holds: while it is at work, what it held a moment ago."""
        return [part.held for part in self._parts] if self._under_way else [part.operator for part in self._parts]

    @property
    def counters(self) -> Counters:  # type: ignore[override]
        return counted_together([operator.counters for operator in self.operators])

    @property
    def read_rows(self) -> int | None:
        best = [held.read_rows for held in self._held]
        return None if None in best else self.parts * min(rows for rows in best if rows is not None)

    @property
    def lag_us(self) -> int:
        return max(operator.lag_us for operator in self.operators)

    @property
    def wake_us(self) -> int | None:
        return min((one.wake_us for one in self.operators if one.wake_us is not None), default=None)

    @property
    def to_come(self) -> int:
        return sum(operator.to_come for operator in self.operators)

    @property
    def work_by_part(self) -> Mapping[str, int]:
        return {str(number): part.work for number, part in enumerate(self._parts)}

    @property
    def rows_by_key(self) -> Mapping[str, int]:
        return self._rows_by_key

    @property
    def goes_on(self) -> bool:
        return self._first.goes_on

    @property
    def is_kept_whole(self) -> bool:
        return self._first.is_kept_whole

    def waiting_rows(self) -> dict[str, WaitingRows]:
        found: dict[str, WaitingRows] = {}
        for operator in self.operators:
            for alias, waiting in operator.waiting_rows().items():
                found[alias] = waiting.and_also(found.get(alias))
        return found

    @property
    def kept_rows(self) -> int:
        """Copies of a row are one row."""
        copies = (one.held_by_input.get(name, (0, 0))[0] for one in self._held[1:] for name in self.key.copied)
        some = (sum(one.copies_held.values()) for one in self._held)
        return sum(held.kept_rows for held in self._held) - sum(copies) - sum(some)

    @property
    def state_bytes(self) -> int:
        return sum(held.state_bytes for held in self._held)

    @property
    def held_by_input(self) -> dict[str, tuple[int, int]]:
        windows = [held.held_by_input for held in self._held]
        names = dict.fromkeys(name for one in windows for name in one)
        held = {name: _sums(one[name] for one in windows if name in one) for name in names}
        some = [one.copies_held for one in self._held]
        return {
            name: (
                windows[0][name][0] if name in self.key.copied else rows - sum(copies.get(name, 0) for copies in some),
                size,
            )
            for name, (rows, size) in held.items()
        }


def parts_in(saved: Saved, name: str) -> int:
    """Of how many parts the operator of this name was that is in a state."""
    held = saved.values.get(f"{name}.{Partitioned.STATE[0]}")
    return 1 if held is None else int(held["tuple"])


def _sums(windows: Iterable[tuple[int, int]]) -> tuple[int, int]:
    rows, size = zip(*windows, strict=True)
    return sum(rows), sum(size)


def _pushed(operator: Operator, alias: str, own: Callable[[], Rows]) -> Iterable[Answer]:
    rows = own()
    return operator.answers_to(alias, rows) if len(rows) else ()


def _same(positions: Positions) -> Positions:
    return positions


def _done(work: Callable[[], None]) -> Iterable[Answer]:
    work()
    return ()


def _in_turn(streams: Sequence[Results]) -> Results:
    """A block of each stream after the other, as long as there are any."""
    ahead = deque(streams)
    while ahead:
        stream = ahead.popleft()
        block = next(stream, None)
        if block is not None:
            yield block
            ahead.append(stream)


def _end(parts: Sequence[_Part]) -> None:
    for part in parts:
        part.end()
