"""Rows taken back after a restart at any point: before and after together give the whole answer once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance.methods import NAMED
from tests.conformance.test_window_forms import FORMS, asked, shapes
from tests.runners import Source, by_duckdb
from watersmeet.model.catalog import Catalog
from watersmeet.model.time import BEGINNING_US, FOREVER_US, times_of
from watersmeet.operators.contract import Operator, Rows
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import build
from watersmeet.sql import bind

STEPS = 8
CHOSEN = ["unequal ranges", "directed", "path", "rows", "rows per key", "rows, ranges and pairs"]
REFRESHED = {"at event times": False, "at every push": True}


def whole(source: Source) -> Rows:
    """All rows of a stream in time order."""
    (data,) = source.table.sort_by("ts").combine_chunks().to_batches()
    return Rows(data, times_of(data.column("ts")))


def plan_of(sql: str, sources: Sequence[Source]) -> Plan:
    catalog = Catalog()
    for source in sources:
        catalog.add(source.relation())
    return bind(sql, catalog)


def rows_of(batches: Any) -> Counter[Any]:
    return Counter(row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True))


def between(rows: Rows, start: int, end: int) -> Rows:
    return rows.take(np.flatnonzero((rows.times >= start) & (rows.times < end)))


def restarted(plan: Plan, streams: dict[str, Rows], split_us: int, at_push: bool) -> Counter[Any]:
    """Run in steps; at one of them throw the operator away and restore another from the rows it still needed."""
    ends = sorted({*range(0, 21_000_000, 21_000_000 // STEPS), split_us, FOREVER_US})
    operator: Operator = build(plan, refresh_at_push=at_push)
    found: Counter[Any] = Counter()
    start = BEGINNING_US
    for end in ends:
        for alias, rows in streams.items():
            found += rows_of(operator.push(alias, between(rows, start, end)))
        found += rows_of(operator.advance(dict.fromkeys(streams, end)))
        start = end
        if end == split_us:
            before = {alias: between(rows, BEGINNING_US, end) for alias, rows in streams.items()}
            log = {
                alias: rows.take(np.flatnonzero(operator.still_needed(alias, rows, end)))
                for alias, rows in before.items()
            }
            operator = build(plan, refresh_at_push=at_push)
            operator.restore(log, end)
    return found


@pytest.mark.parametrize("at_push", REFRESHED.values(), ids=REFRESHED)
@pytest.mark.parametrize("form", CHOSEN)
def test_a_restart_at_any_point_changes_nothing(form: str, at_push: bool) -> None:
    assert form in FORMS
    sources = shapes()["in order"]
    expected = by_duckdb(asked(form, ""), sources)
    streams = {source.name: whole(source) for source in sources}
    for i, (name, options) in enumerate(NAMED.items()):
        if at_push and "refresh" not in options:
            continue
        for split_us in (3_141_592 + 700_000 * i, 12_000_000, 15_000_001):
            assert restarted(plan_of(asked(form, options), sources), streams, split_us, at_push) == expected, name
