"""Runs in which an operator hands its state on to a fresh one, as bytes, after every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tests.runners import Source
from watersmeet.model.time import BEGINNING_US, FOREVER_US, normalize_time_column, times_of
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.saving import LEAVES, Saved
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import Built, build_plan, in_threads

Batch = tuple[dict[str, Rows], dict[str, int]]  # what came by alias, and the watermarks after it


@dataclass
class Relay:
    """A plan with its sources, from which operators are made and batches."""

    plan: Plan
    sources: Sequence[Source]
    prepare: Callable[[Operator], None] = lambda operator: None

    def fresh(self, *, tables: bool = True) -> Operator:
        built = self.built()
        for table, load in built.tables if tables else ():
            for batch in self.source(table.name).table.combine_chunks().to_batches():
                load(batch)
        self.prepare(built.operator)
        return built.operator

    def batches(self, count: int) -> Iterator[Batch]:
        """All rows in time order, cut at `count` instants; time ends with the last."""
        rows = {alias: whole(self.source(stream.name)) for alias, stream in self.built().streams.items()}
        times = np.unique(np.concatenate([one.times for one in rows.values()]))
        start = BEGINNING_US
        for end in [*(int(part[0]) for part in np.array_split(times, count)[1:] if part.size), FOREVER_US]:
            yield {alias: between(one, start, end) for alias, one in rows.items()}, dict.fromkeys(rows, end)
            start = end

    def in_threads(self, count: int) -> Relay:
        """The same in so many threads."""
        return replace(self, plan=replace(self.plan, options=self.plan.options.but(threads=count)))

    def built(self) -> Built:
        return build_plan(self.physical)

    @cached_property
    def physical(self) -> PhysicalPlan:
        return in_threads(self.plan, plan_query(self.plan))

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)


def whole(source: Source) -> Rows:
    """All rows of a stream in time order."""
    assert source.time is not None
    data = source.table.sort_by(source.time).combine_chunks()
    batches = data.to_batches() or [pa.RecordBatch.from_pylist([], data.schema)]
    (batch,) = batches
    return Rows(batch, times_of(normalize_time_column(batch.column(source.time))))


def between(rows: Rows, start: int, end: int) -> Rows:
    return rows.take(np.flatnonzero((rows.times >= start) & (rows.times < end)))


def shown(batches: Iterator[pa.RecordBatch]) -> list[str]:
    return [repr(row) for batch in batches for row in batch.to_pylist()]


def handed_on(operator: Operator, fresh: Operator) -> Operator:
    """The fresh operator, with the state of another; what it would hand on itself is the same."""
    data = operator.save().to_bytes()
    fresh.load(Saved.from_bytes(data))
    assert same_state(fresh.save(), Saved.from_bytes(data))
    return fresh


def goes_on_as_if_nothing_had_happened(relay: Relay, batches: int = 6) -> None:
    """An operator that is handed on after every batch gives what one does that is not, in the same order, and counts
    the same."""
    alone, handed = relay.fresh(), relay.fresh()
    for rows, watermarks in relay.batches(batches):
        expected, found = shown(alone.take(rows, watermarks)), shown(handed.take(rows, watermarks))
        assert found == expected
        assert counts(handed) == counts(alone)
        assert (handed.kept_rows, handed.wake_us) == (alone.kept_rows, alone.wake_us)
        assert handed.waiting_rows() == alone.waiting_rows()
        handed = handed_on(handed, relay.fresh(tables=False))


def counts(operator: Operator) -> dict[str, Any]:
    return {name: value for name, value in vars(operator.counters).items() if name != "kernel_seconds"}


def same_state(one: Saved, other: Saved) -> bool:
    names = list(one.values)
    return names == list(other.values) and all(same_value(one.values[name], other.values[name]) for name in names)


def same_value(one: Any, other: Any) -> bool:
    assert one is None or isinstance(one, LEAVES) or set(one) <= {"list", "tuple", "dict", "keys"}
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and one.tobytes() == other.tobytes()
    if isinstance(one, pa.Array | pa.RecordBatch):
        kind = "type" if isinstance(one, pa.Array) else "schema"
        return getattr(one, kind) == getattr(other, kind) and repr(one.to_pylist()) == repr(other.to_pylist())
    return repr(one) == repr(other)
