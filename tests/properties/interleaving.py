"""Rows of several streams in one order of arrival, and the operators of a query fed in that order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from hypothesis import strategies as st

from tests.runners import Source, bound_plan
from watersmeet.model.time import FOREVER_US
from watersmeet.runtime.build import build_query
from watersmeet.runtime.clock import QueryClock

Arrivals = list[tuple[str, pa.RecordBatch]]


@st.composite
def arrivals(draw: st.DrawFn, sources: Sequence[Source]) -> Arrivals:
    """Any order of arrival that keeps the order of each stream, in pieces of any size."""
    left = {source.name: source.table for source in sources if source.time is not None}
    found: Arrivals = []
    while left := {name: table for name, table in left.items() if len(table)}:
        name = draw(st.sampled_from(sorted(left)))
        size = draw(st.integers(1, 4))
        found += [(name, batch) for batch in left[name].slice(0, size).to_batches()]
        left[name] = left[name].slice(size)
    return found


def in_turns(sql: str, sources: Sequence[Source], pieces: Arrivals) -> tuple[pa.Table, list[Source]]:
    """What the operators of a query give, and the sources without the rows that came too late."""
    plan = bound_plan(sql, sources)
    built = build_query(plan)
    for table, load in built.tables:
        for batch in next(one.table for one in sources if one.name == table.name).to_batches():
            load(batch)
    clock = QueryClock({stream.name: stream for stream in built.streams.values()}.values())
    results: list[pa.RecordBatch] = []
    in_time: dict[str, list[pa.RecordBatch]] = {name: [] for name in clock.clocks}
    for name, batch in pieces:
        rows = clock.admit(name, batch)
        in_time[name].append(rows.data)
        for alias, stream in built.streams.items():
            results += built.operator.push(alias, rows) if stream.name == name else ()
        results += built.operator.advance(dict.fromkeys(built.streams, clock.watermark_us))
    results += built.operator.advance(dict.fromkeys(built.streams, FOREVER_US))
    kept = [
        replace(one, table=pa.Table.from_batches(in_time[one.name], one.table.schema)) if one.name in in_time else one
        for one in sources
    ]
    return pa.Table.from_batches(results, plan.output_schema), kept
