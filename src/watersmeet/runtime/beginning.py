"""How a query begins beside others of the same streams: where they are, with the rows that they have kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US, format_instant
from watersmeet.model.windows import RowsWindow
from watersmeet.model.wording import listed
from watersmeet.operators.contract import Rows
from watersmeet.operators.kept_rows import KeptRows, tests_of
from watersmeet.operators.late_start import Counted
from watersmeet.physical.nodes import PartitionedNode, WindowJoinNode
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.plan.nodes import AT, OP
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import Built
from watersmeet.runtime.clock import QueryClock, StreamClock
from watersmeet.runtime.present import PresentAnswer
from watersmeet.runtime.sharing import is_same_stream


class Other(Protocol):
    """A query that runs, or is about to."""

    built: Built
    clock: QueryClock

    def kept_of(self, stream: str) -> KeptRows | None: ...


class Beginning:
    """By the names of a query's streams: the rows that were kept, from which instant on none is missing (where some
    are) and up to which some of them had been left out, and how far the stream is; and from which instant on the answer
    is whole, which may be never. Where windows count rows it is not before as many have come."""

    STATE = ("rows", "since_us", "left_out_us", "clocks", "whole_us", "counted")

    def __init__(self, streams: Iterable[Stream]) -> None:
        """With nothing, at the beginning of all streams."""
        named = {stream.name: stream for stream in streams}
        self.clocks = {name: StreamClock(stream) for name, stream in named.items()}
        self.rows = {name: _no_rows(stream.schema) for name, stream in named.items()}
        self.since_us: dict[str, int] = {}
        self.left_out_us: dict[str, int] = {}
        self.whole_us = BEGINNING_US
        self.counted: dict[str, Counted] = {}  # by alias
        # What is known when it is made: the streams whose rows were kept, and beside whom each stream begins.
        self.kept: set[str] = set()
        self.beside: dict[str, Other] = {}

    def begin(self, stream: str, other: Other) -> None:
        """Where another is with a stream."""
        self.clocks[stream].take_over(other.clock.clocks[stream])
        self.beside[stream] = other

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.whole_us <= BEGINNING_US and not self.counted

    @property
    def is_never_whole(self) -> bool:
        return self.whole_us >= FOREVER_US

    @property
    def begun(self) -> bool:
        """Whether any row had come."""
        return bool(self.begun_before(FOREVER_US))

    def begun_before(self, instant_us: int) -> list[str]:
        """The streams of which rows had come that are older."""
        return [name for name, clock in self.clocks.items() if clock.oldest_us < instant_us]


def _no_rows(schema: pa.Schema) -> Rows:
    return Rows(pa.RecordBatch.from_pylist([], schema), np.empty(0, np.int64))


@dataclass(frozen=True)
class Left:
    """How far the streams were when queries left, by name: nobody may look at them now."""

    clocks: dict[str, StreamClock]


def beginning_beside(one: Other, others: Sequence[Other], left: Left) -> Beginning:
    """Of a query that is built, beside others that were given rows of its streams."""
    found = Beginning(clock.stream for clock in one.clock.clocks.values())
    for name, clock in found.clocks.items():
        beside = [other for other in others if _reads(other, clock.stream)]
        kept = [(rows, other) for other in beside if (rows := other.kept_of(name)) is not None]
        serving = [(_since_us(one.built, name, rows), rows, other) for rows, other in kept]
        since_us, rows, widest = min(serving, key=lambda its: its[0], default=(FOREVER_US, None, None))
        if rows is not None and widest is not None and since_us <= widest.clock.clocks[name].last_us:
            found.begin(name, widest)
            found.rows[name] = Rows(_with_all_columns(rows.data, clock.stream.schema), rows.times)
            found.since_us[name], found.left_out_us[name] = since_us, rows.left_out_us
            found.kept.add(name)
            continue
        if beside:
            found.begin(name, max(beside, key=lambda other: other.clock.clocks[name].came))
        elif name in left.clocks:
            clock.take_over(left.clocks[name])
        if clock.last_us > BEGINNING_US:
            found.since_us[name] = clock.last_us + 1
    found.whole_us, found.counted = whole_after(one.built.physical, found.since_us)
    return found


def _with_all_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as others of their stream come, with nothing in columns that nobody looks at."""
    names = rows.schema.names
    found = [rows.column(one.name) if one.name in names else pa.nulls(rows.num_rows, one.type) for one in schema]
    return pa.RecordBatch.from_arrays(found, schema=schema)


def _reads(other: Other, stream: Stream) -> bool:
    clock = other.clock.clocks.get(stream.name)
    return clock is not None and is_same_stream(clock.stream, stream)


def _since_us(built: Built, stream: str, kept: KeptRows) -> int:
    """From when on rows are all that a query looks at of their stream."""
    tested = _tested(built.physical)
    looked_at = built.looked_at
    aliases = [alias for alias, one in built.streams.items() if one.name == stream]
    return max(kept.since_for(looked_at[alias], tested.get(alias, frozenset())) for alias in aliases)


def _tested(physical: PhysicalPlan | None) -> dict[str, frozenset[str]]:
    """The conditions that rows of an input must pass to be any matter of a join."""
    root = None if physical is None else physical.root
    node = root.inner if isinstance(root, PartitionedNode) else root
    if not isinstance(node, WindowJoinNode):
        return {}
    strategy, found = node.strategy, {}
    for one in strategy.join.streams:
        if isinstance(one.window, RowsWindow):  # it counts all
            continue
        codes = (*strategy.probing_codes(one.alias), *strategy.stored_codes(one.alias))
        found[one.alias] = tests_of(strategy.filters.get(one.alias, ()), [code.expression for code in codes])
    return found


def whole_after(physical: PhysicalPlan | None, since_us: Mapping[str, int]) -> tuple[int, dict[str, Counted]]:
    """The first instant at which all is there that any window in time reaches back to (FOREVER_US: there is none), and
    how many rows must have come for those that count them."""
    whole_us = BEGINNING_US
    counted: dict[str, Counted] = {}
    for leaf in () if physical is None else physical.leaves:
        begun_us = since_us.get(leaf.stream.name, BEGINNING_US)
        if begun_us <= BEGINNING_US:
            continue
        within_us = 0 if leaf.stream.first is None else leaf.stream.first.within_us
        if isinstance(leaf.window, RowsWindow) and not leaf.window.partition_by and not within_us:
            counted[leaf.name] = (begun_us, leaf.window.count)
        elif leaf.window is not None or leaf.reach_us >= FOREVER_US:
            return FOREVER_US, {}
        else:
            whole_us = max(whole_us, begun_us + leaf.reach_us + within_us)
    return whole_us, counted


def whole_words(name: str, beginning: Beginning) -> str:
    """What a person is told of it."""
    if beginning.is_whole:
        return f"{name} begins with all rows that have come: its answer is whole"
    kept = [stream for stream, rows in beginning.rows.items() if len(rows)]
    rows = sum(len(beginning.rows[stream]) for stream in kept)
    begins = f"begins with {rows:,} rows of {listed(kept)} that others kept" if kept else "begins with rows to come"
    if beginning.is_never_whole:
        return (
            f"{name} {begins}: its answer can never be whole, as it looks at rows from before it was added, however old"
        )
    whole = [] if beginning.whole_us <= BEGINNING_US else [f"from {format_instant(beginning.whole_us)} on"]
    whole += [f"once {rows:,} rows of {alias} have come" for alias, (_, rows) in beginning.counted.items()]
    return f"{name} {begins}: its answer is whole {' and '.join(whole)}"


def present_at(plan: Plan, withheld: Sequence[pa.RecordBatch], at_us: int) -> list[pa.RecordBatch]:
    """What is given of what was answered before an answer is whole: of one that changes, all that is in it then, as
    entering it; of others nothing."""
    if plan.kind != "changes":
        return []
    present = PresentAnswer(plan)
    for changes in withheld:
        present.add(changes)
    table, schema = present.table(), plan.output_schema
    assert schema.names[:2] == [OP, AT]
    signs, instants = pa.repeat("+", table.num_rows), pa.repeat(pa.scalar(at_us, schema.field(AT).type), table.num_rows)
    given: list[pa.RecordBatch] = pa.table([signs, instants, *table.columns], schema=schema).to_batches()
    return given
