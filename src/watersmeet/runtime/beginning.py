"""How a query begins beside others of the same streams: where they are, with the rows that they have kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream
from watersmeet.model.time import BEGINNING_US, FOREVER_US, format_instant
from watersmeet.model.wording import listed
from watersmeet.operators.contract import Rows
from watersmeet.operators.kept_rows import KeptRows, tests_of
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


@dataclass(frozen=True)
class Beginning:
    """By the names of streams: the rows that were kept, from which instant on none is missing, and how far each stream
    is; and from which instant on the answer is whole, which may be never."""

    rows: Mapping[str, Rows]
    since_us: Mapping[str, int]
    clocks: Mapping[str, StreamClock]
    whole_us: int

    @property
    def begun(self) -> list[str]:
        """The streams of which rows had come."""
        return [name for name, clock in self.clocks.items() if clock.last_us > BEGINNING_US]


@dataclass(frozen=True)
class Left:
    """How far the streams were when queries left, by name: nobody may look at them now."""

    clocks: dict[str, StreamClock]


def beginning_beside(one: Other, others: Sequence[Other], left: Left) -> Beginning:
    """Of a query that is built, beside others that were given the same rows of their streams."""
    built = one.built
    rows_of: dict[str, Rows] = {}
    since_us: dict[str, int] = {}
    clocks: dict[str, StreamClock] = {}
    for name, clock in one.clock.clocks.items():
        beside = [other for other in others if _reads(other, clock.stream)]
        known = [other.clock.clocks[name] for other in beside]
        if not known and name in left.clocks:
            known = [left.clocks[name]]
        if not known:
            continue
        clocks[name] = max(known, key=lambda its: its.newest_us)
        last_us = max(its.last_us for its in known)
        kept = [rows for other in beside if (rows := other.kept_of(name)) is not None]
        widest = min((one for one in kept if _serves(built, name, one)), key=lambda its: its.since_us, default=None)
        if widest is not None:
            rows_of[name] = Rows(widest.data, widest.times)
            since_us[name] = widest.since_us
        elif last_us > BEGINNING_US:
            since_us[name] = last_us + 1
    whole_us = _whole_us(built.physical, since_us)
    return Beginning(rows_of if whole_us < FOREVER_US else {}, since_us, clocks, whole_us)


def _reads(other: Other, stream: Stream) -> bool:
    clock = other.clock.clocks.get(stream.name)
    return clock is not None and is_same_stream(clock.stream, stream)


def _serves(built: Built, stream: str, kept: KeptRows) -> bool:
    """Whether rows do for all that a query looks at of their stream."""
    tested = _tested(built.physical)
    looked_at = built.looked_at
    aliases = [alias for alias, one in built.streams.items() if one.name == stream]
    return all(kept.serve(looked_at[alias], tested.get(alias, frozenset())) for alias in aliases)


def _tested(physical: PhysicalPlan | None) -> dict[str, frozenset[str]]:
    """The conditions that rows of an input must pass to be any matter of a join."""
    root = None if physical is None else physical.root
    node = root.inner if isinstance(root, PartitionedNode) else root
    if not isinstance(node, WindowJoinNode):
        return {}
    strategy, found = node.strategy, {}
    for one in strategy.join.streams:
        codes = (*strategy.probing_codes(one.alias), *strategy.stored_codes(one.alias))
        found[one.alias] = tests_of(strategy.filters.get(one.alias, ()), [code.expression for code in codes])
    return found


def _whole_us(physical: PhysicalPlan | None, since_us: Mapping[str, int]) -> int:
    """The first instant at which all is there that any window reaches back to; FOREVER_US: there is none."""
    whole_us = BEGINNING_US
    for leaf in () if physical is None else physical.leaves:
        begun_us = since_us.get(leaf.stream.name, BEGINNING_US)
        first = leaf.stream.first
        if begun_us > BEGINNING_US:
            counted = leaf.window is not None or leaf.reach_us >= FOREVER_US
            reach_us = leaf.reach_us + (0 if first is None else first.within_us)
            whole_us = FOREVER_US if counted else max(whole_us, begun_us + reach_us)
        if whole_us >= FOREVER_US:
            return FOREVER_US
    return whole_us


def whole_words(name: str, beginning: Beginning) -> str:
    """What a person is told of it."""
    if beginning.whole_us <= BEGINNING_US:
        return f"{name} begins with all rows that have come: its answer is whole"
    if beginning.whole_us >= FOREVER_US:
        return (
            f"{name} looks at all rows ever of a stream, or counts them, and those before it was added are not kept: "
            "its answer is that over the rows from here on"
        )
    kept = [stream for stream, rows in beginning.rows.items() if len(rows)]
    rows = sum(len(beginning.rows[stream]) for stream in kept)
    begins = f"begins with {rows:,} rows of {listed(kept)} that others kept" if kept else "begins with rows to come"
    return f"{name} {begins}: its answer is whole from {format_instant(beginning.whole_us)} on"


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
