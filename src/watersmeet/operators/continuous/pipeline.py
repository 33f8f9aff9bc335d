"""A continuous query as one operator: rows and time in, changes of the answer out."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.windows import Hop, RowsWindow, Session, SteppedRows
from watersmeet.operators.answers import Answer, FewAnswers
from watersmeet.operators.continuous.delta import Bools, Delta, empty_batch, merged, signs
from watersmeet.operators.continuous.each_step import EachStep
from watersmeet.operators.continuous.few_groups import few_groups
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.hop_parts import hop_parts
from watersmeet.operators.continuous.net import Net, net
from watersmeet.operators.continuous.node import Node, dividing, everything_below, keys_below, undivided_below
from watersmeet.operators.continuous.over.ahead import Ahead
from watersmeet.operators.continuous.over.stream import OverStream
from watersmeet.operators.continuous.parts import Parts
from watersmeet.operators.continuous.passes import Passes
from watersmeet.operators.continuous.snapshots import Snapshots
from watersmeet.operators.continuous.stepping import in_open_session, in_stepped_window
from watersmeet.operators.contract import Counters, End, Operator, Rows, WaitingRows
from watersmeet.operators.few_rows import words_as
from watersmeet.operators.kernels.few_groups import AT
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.outer.last_of_each import last_of_each
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.operators.time_order import in_row_window
from watersmeet.operators.waiting import Waiting, waiting_rows_of
from watersmeet.physical.nodes import LastOfEach
from watersmeet.physical.pipeline import Pipeline
from watersmeet.plan.query import Kind


class Expiring(Protocol):
    """Where the rows of one or several streams live until they leave their windows."""

    @property
    def expired_rows(self) -> int: ...


@dataclass(frozen=True)
class Leaf:
    """Where the rows of one stream enter a pipeline, and which rows it needs to be rebuilt: those not older than
    `reach_us`, or those in a ROWS window."""

    waiting: Waiting
    source: Expiring
    reach_us: int
    window: RowsWindow | SteppedRows | Session | LastOfEach | None = None


class Continuous(Operator):
    """Runs a tree of operators; nothing is said of an instant before all rows up to it are there."""

    STATE = ("root", "counters", "_delays", "answered_us", "_expired_before")

    def __init__(
        self,
        root: Node,
        leaves: Mapping[str, Leaf],
        kind: Kind,
        schema: pa.Schema,
        strategy: Pipeline,
        joins: Sequence[Operator] = (),
        *,
        whole: bool = False,
        hops: Sequence[Hop] = (),
        passes: Passes | None = None,
    ) -> None:
        """schema: the columns given out, the instant and the sign among them where the kind has them. joins: those
        inside, which tell when they change their routes. whole: it is kept as it is, not rebuilt from its rows. hops:
        the windows for each of which rows have a copy. passes: when it is looked for what has left, if that is said; it
        is counted then."""
        self._whole = whole
        self.passes = passes
        self.strategy = strategy
        self.root = root
        self.leaves = leaves
        self.kind = kind
        self.schema = schema
        self.joins = joins
        self.counters = Counters()
        self._delays = Delays()
        self.answered_us = BEGINNING_US  # the latest instant that anything was given for
        self._expired_before = 0
        self._paced = [node for node in everything_below(root) if isinstance(node, Snapshots | EachStep)]
        self._inputs = [leaf.waiting for leaf in leaves.values()]
        paces = [*(node.pace_us for node in self._paced), *(hop.slide_us for hop in hops)]
        most_copies = max((hop.most_copies for hop in hops), default=1 if joins else 0)
        self._in_parts = bool(paces or joins)
        self._parts = Parts(min(paces, default=None), most_copies)
        self._hop_parts = hop_parts(root, kind)
        self._few = few_groups(root) if kind == "changes" else None
        self._to_come = 0

    @property
    def _expired_rows(self) -> int:
        sources = {id(leaf.source): leaf.source for leaf in self.leaves.values()}  # streams of one join share theirs
        return sum(source.expired_rows for source in sources.values())

    def waiting_rows(self) -> dict[str, WaitingRows]:
        waiting = waiting_rows_of({alias: leaf.waiting for alias, leaf in self.leaves.items()})
        first = next(iter(self.leaves))
        for ahead in self._looking_ahead():
            held = ahead.waiting()
            if held is not None:  # for a row that is still to come
                waiting[first] = held.and_also(waiting.get(first))
        return waiting

    def _looking_ahead(self) -> list[Ahead]:
        nodes = [node for node in everything_below(self.root) if isinstance(node, OverStream)]
        return [node.ahead for node in nodes if node.ahead is not None]

    @property
    def delays(self) -> Mapping[str, float] | None:
        return self._delays.as_seconds() if self.strategy == "ita" else None

    @property
    def goes_on(self) -> bool:
        """Its answers have come to their end with the last row; only its rows can begin anew. Where no row ever leaves
        the answer there is no such end."""
        return self._whole

    @property
    def is_kept_whole(self) -> bool:
        return self._whole

    @property
    def kept_rows(self) -> int:
        waiting = sum(len(leaf.waiting) for leaf in self.leaves.values())
        return waiting + sum(node.held_rows for node in everything_below(self.root))

    @property
    def state_bytes(self) -> int:
        waiting = sum(leaf.waiting.nbytes for leaf in self.leaves.values())
        return waiting + sum(node.nbytes for node in everything_below(self.root))

    @property
    def held_by_input(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for node in everything_below(self.root):
            for name, (rows, size) in node.join.held_by_input.items() if isinstance(node, FromMany) else ():
                # An input may be held by several joins.
                others = found.get(name, (0, 0))
                found[name] = others[0] + rows, others[1] + size
        return found

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        yield from self.answers_to(alias, rows)

    def answers_to(self, alias: str, rows: Rows) -> list[pa.RecordBatch]:
        self.leaves[alias].waiting.add(rows)
        self.counters.stored_rows += rows.times.size
        return []

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        for alias, leaf in self.leaves.items():
            leaf.waiting.ended = watermarks[alias] >= FOREVER_US
        until, done = self._until(watermarks), BEGINNING_US
        while done < until:
            done = self._parts.next(done, self.wake_us, self._inputs, until) if self._in_parts else until
            done = done if self._hop_parts is None else self._hop_parts.end_of_part(done)
            made, combined = 0, self._combined
            for batch in self._part(done):
                made += batch.num_rows
                goes_on = done < until or self._has_more
                self._to_come = self._to_come_before(until) if goes_on else 0
                # Also without rows, except the last: whoever takes them may stop here.
                if batch.num_rows or goes_on:
                    yield batch
            self._parts.made(max(made, self._combined - combined))

    def _until(self, watermarks: Mapping[str, int]) -> int:
        """How far to go; BEGINNING_US: nothing is to be done yet."""
        passed_us = min(watermarks.values())
        if self.passes is None:
            return passed_us
        until = self.passes.until(passed_us)
        return until if until > self.root.complete else BEGINNING_US

    def answers_until(self, watermarks: Mapping[str, int]) -> Iterable[Answer]:
        if self.passes is not None:
            return self.advance(watermarks)
        until = min(watermarks.values())
        answer = self._few_before(until) if self._few is not None and until < FOREVER_US else None
        if answer is None:
            return self.advance(watermarks)
        return [answer] if answer.num_rows else []

    def _few_before(self, until: int) -> FewAnswers | None:
        """What is given before an instant, if that is little and to be had in short; see `_taken` and `_given`."""
        assert self._few is not None
        started, counters = perf_counter(), self.counters
        answer = self._few.take(until, self.schema)
        if answer is not None:
            counters.kernel_seconds += perf_counter() - started
            counters.expired_rows = self._few.expired_rows - self._expired_before
            if answer.num_rows:
                counters.results += answer.num_rows
                self._delays.changes += answer.num_rows
                self.answered_us = max(self.answered_us, answer.words.item(AT, answer.num_rows - 1))
        return answer

    def _part(self, until: int) -> Iterator[pa.RecordBatch]:
        """What is given before an instant; several batches, of which some have no rows, if rows have many copies."""
        held: list[Delta] = []
        while True:
            delta = self._taken(until)
            if self._hop_parts is not None and self._hop_parts.holds_back:
                held.append(delta)
                yield empty_batch(self.schema)
                continue
            yield self._given(self._as_one([*held, delta]) if held else delta)
            if not self._has_more:
                return

    def _taken(self, until: int) -> Delta:
        started = perf_counter()
        delta = self.root.take(until)
        self.counters.kernel_seconds += perf_counter() - started
        expired = self._expired_rows - self._expired_before
        if self.passes is not None:
            self.passes.count(self.counters, expired - self.counters.expired_rows)
        self.counters.expired_rows = expired
        self.counters.switches = [switch for join in self.joins for switch in join.counters.switches]
        self._delays.add(delta)
        return delta

    def _as_one(self, parts: Sequence[Delta]) -> Delta:
        """What changes at an instant, of parts that were made one after the other."""
        delta = merged(parts, self.root.schema)
        return net(delta) if isinstance(self.root, Net) and not self.root.child.netted else delta

    @property
    def _has_more(self) -> bool:
        """Whether copies of rows are to be made at the instant that is being answered."""
        return self._hop_parts is not None and self._hop_parts.hops.has_more

    @property
    def _combined(self) -> int:
        """How many combinations the joins inside have found, and how many copies of rows were made."""
        copies = 0 if self._hop_parts is None else self._hop_parts.hops.made
        return copies + sum(join.counters.results for join in self.joins)

    def _to_come_before(self, until: int) -> int:
        copies = 0 if self._hop_parts is None else self._hop_parts.to_come(until)
        return copies + sum(node.to_come(until) for node in self._paced)

    @property
    def to_come(self) -> int:
        return self._to_come

    def over_nothing(self) -> Iterator[pa.RecordBatch]:
        self.begun_before(self.leaves, 1)  # any instant will do
        yield self._given(self.root.take(1))

    def finish(self, newest_us: int) -> Generator[pa.RecordBatch, None, End]:
        """Rows leave their windows after the last one has come, so time goes on for ever."""
        yield from self.advance(dict.fromkeys(self.leaves, FOREVER_US))
        last_us = {alias: leaf.waiting.last_us for alias, leaf in self.leaves.items()}
        return End(max(self.answered_us, *last_us.values()), last_us)

    def _given(self, delta: Delta) -> pa.RecordBatch:
        if self.kind in ("rows", "inserts", "snapshots"):
            delta = delta.where(delta.diffs > 0)
        elif self.kind == "deletes":
            delta = delta.where(delta.diffs < 0)
        self.counters.results += len(delta)
        if len(delta):
            self.answered_us = max(self.answered_us, int(delta.instants[-1]))
        columns = list(delta.data.columns)
        if self.kind != "rows":
            columns.insert(0, words_as(np.ascontiguousarray(delta.instants), pa.timestamp("us")))
        if self.kind == "changes":
            columns.insert(0, signs(delta))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _answered_until(self, complete_until: int) -> int:
        """How far the answer had gone when no row before an instant was to come any more."""
        return complete_until if self.passes is None else self.passes.until(complete_until)

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        complete_until = self._answered_until(complete_until)
        for alias, rows in log.items():
            self.leaves[alias].waiting.replace(rows)
        for alias, leaf in self.leaves.items():
            leaf.waiting.ends = [(end.newest_us.get(alias, BEGINNING_US), end.answered_us) for end in ends]
        # What comes of it was given in another life; also what had to be said at an end of all input, and stands.
        for end in ends if self._looking_ahead() else ():
            self.root.take(end.answered_us + 1)
            for ahead in self._looking_ahead():
                ahead.end()
        if isinstance(self.root, Snapshots):
            self.root.pass_over(complete_until)
        else:
            self._take_back(complete_until)
        # Counting begins anew here, and goes on below.
        self._expired_before = self._expired_rows
        for join in self.joins:
            join.counters.switches.clear()
        self.counters = Counters()
        self._delays = Delays()

    def _take_back(self, until: int) -> None:
        """Rows of many instants, whose copies are made together."""
        if self._hop_parts is not None:
            self._hop_parts.hops.by = None
        self.root.take(until)
        if self._hop_parts is not None:
            self._hop_parts.hops.by = self._hop_parts.how

    def begun_before(self, aliases: Iterable[str], complete_until: int) -> None:
        for alias in aliases:  # how long before makes no difference to what comes from then on
            self.leaves[alias].waiting.first_us = complete_until - 1

    def pass_end(self, end: End, aliases: Iterable[str]) -> None:
        for alias, leaf in self.leaves.items():
            leaf.waiting.ends.append((end.newest_us.get(alias, BEGINNING_US), end.answered_us))
        super().pass_end(end, aliases)
        for ahead in self._looking_ahead():
            ahead.end()

    def worth_keeping(self, alias: str, rows: Rows, complete_until: int) -> Bools:
        leaf, complete_until = self.leaves[alias], self._answered_until(complete_until)
        if isinstance(leaf.window, LastOfEach) and leaf.reach_us < FOREVER_US:
            return last_of_each(leaf.window, rows, complete_until - leaf.reach_us, deletions=True)
        return self.still_needed(alias, rows, complete_until)

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Bools:
        complete_until = self._answered_until(complete_until)
        leaf = self.leaves[alias]
        waits: Bools = rows.times >= complete_until
        if leaf.reach_us >= FOREVER_US:
            return np.ones(len(rows), np.bool_)
        if isinstance(leaf.window, LastOfEach):
            return last_of_each(leaf.window, rows, complete_until - leaf.reach_us, deletions=False)
        if isinstance(leaf.window, Session):
            return in_open_session(leaf.window, rows, complete_until, leaf.reach_us) | waits
        if isinstance(leaf.window, SteppedRows):
            return in_stepped_window(leaf.window, rows, complete_until) | waits
        if leaf.window is not None:
            return in_row_window(leaf.window, rows, complete_until) | waits
        return waits | (rows.times + leaf.reach_us >= complete_until)

    # ---- how its state divides --------------------------------------------------------------------------------------

    def undivided(self, key: PartitionKey) -> str | None:
        if self.strategy == "ita":
            return "expired rows are noticed when the next row comes, whatever its key"
        return undivided_below(self.root, key) or self._not_told(key)

    def _not_told(self, key: PartitionKey) -> str | None:
        """Rows that nobody looks at before they leave the answer may lie in any part; others must tell their key."""
        answer = self.root.child if isinstance(self.root, Net) else self.root
        asked = [node for node in dividing(answer).values() if id(node) != id(answer)]
        silent = (type(node).__name__ for node in asked if not node.key_columns(key))
        return next((f"the rows of {name} do not tell their key" for name in silent), None)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        return keys_below(self.root, key)

    def divided(self, key: PartitionKey) -> KeyedState:
        delays = self._delays
        state = KeyedState(
            counters={"counters": self.counters},
            totals={"expired": self._expired_before, "changes": delays.changes, "delay_us": delays.total_us},
            latest={"answered": self.answered_us, "complete": self.root.complete, "longest": delays.longest_us},
        )
        for name, node in dividing(self.root).items():
            state.put(name, node.divided(key))
        return state

    def take_rows_over(self, state: KeyedState) -> None:
        nodes = dividing(self.root)
        for name, node in nodes.items():
            node.take_rows_over(state.inside(name))
        # What comes of it was given by others.
        self.root.take(state.latest["complete"])
        for name, node in nodes.items():
            node.given_again(state.inside(name))
        self.answered_us = state.latest["answered"]
        self.counters = state.counters.get("counters", Counters())
        totals = state.totals
        self._expired_before = totals.get("expired", 0)
        self._delays = Delays(totals.get("changes", 0), totals.get("delay_us", 0), state.latest["longest"])

    @property
    def wake_us(self) -> int | None:
        """When the answer changes next if nothing comes in: a row that waits, or one that expires."""
        waits = [leaf.waiting.oldest_us for leaf in self.leaves.values()]
        known = [time for time in (*waits, self.root.next_event()) if time is not None and time < FOREVER_US]
        return min(known, default=None)


@dataclass
class Delays:
    """How late changes were noticed, in event time."""

    STATE: ClassVar = ("changes", "total_us", "longest_us")

    changes: int = 0
    total_us: int = 0
    longest_us: int = 0

    def as_seconds(self) -> dict[str, float]:
        mean_us = self.total_us / self.changes if self.changes else 0.0
        return {"mean": mean_us / 1e6, "longest": self.longest_us / 1e6}

    def add(self, delta: Delta) -> None:
        self.changes += len(delta)
        if delta.noticed is not None and len(delta):
            late = delta.noticed - delta.instants
            self.total_us += int(late.sum())
            self.longest_us = max(self.longest_us, int(late.max()))
