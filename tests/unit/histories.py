"""Random histories of rows that come into groups and leave again, and what plain Python says about each instant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.continuous.aggregates import Cells, make_aggregator
from watersmeet.operators.saving import Saved, load_state, state_of
from watersmeet.plan.expressions import Aggregate, Column, Literal
from watersmeet.plan.functions import aggregate_type

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class History:
    """Changes sorted by (instant, group): for each its row's number, which is also its place in time."""

    instants: Numbers
    groups: Numbers
    diffs: Numbers
    rows: Numbers
    values: Sequence[Any]

    def cells(self) -> Numbers:
        """One past the last change of each cell."""
        new = (np.diff(self.instants) != 0) | (np.diff(self.groups) != 0)
        return np.append(np.flatnonzero(new) + 1, self.instants.size)


def history(values: Sequence[Any], *, groups: int, window: int, fifo: bool, seed: int) -> History:
    """A row per value, about one per instant. With fifo rows stay `window` instants, else up to so many, or none.

    The changes of a cell come in any order, except that under fifo rows come in the order of time.
    """
    rng = np.random.default_rng(seed)
    count = len(values)
    came = np.sort(rng.integers(0, max(1, count), count))
    group = rng.integers(0, groups, count)
    left = came + (window if fifo else rng.integers(0, window + 1, count))
    instants = np.concatenate([came, left])
    diffs = np.concatenate([np.ones(count, np.int64), -np.ones(count, np.int64)])
    rows, of = np.tile(np.arange(count), 2), np.tile(group, 2)
    place_in_cell = rows * 2 if fifo else rng.permutation(2 * count)
    order = np.lexsort((place_in_cell, of, instants))
    return History(instants[order], of[order], diffs[order], rows[order], values)


def plain(past: History, answer: Callable[[list[Any]], Any]) -> list[Any]:
    """The answer over a group's values that are not NULL, in the order of time, after each cell."""
    live: dict[int, dict[int, Any]] = {}
    results, start = [], 0
    for end in past.cells():
        mine = live.setdefault(int(past.groups[start]), {})
        changes = [(int(past.diffs[i]), int(past.rows[i])) for i in range(start, end)]
        for diff, row in sorted(changes, reverse=True):
            if diff > 0:
                mine[row] = past.values[row]
            else:
                del mine[row]
        results.append(answer([mine[row] for row in sorted(mine) if mine[row] is not None]))
        start = end
    return results


def aggregated(
    function: str, data_type: pa.DataType, *, distinct: bool = False, share: float | None = None
) -> Aggregate:
    args: tuple[Any, ...] = (Column("s", "x", data_type),)
    if share is not None:
        args += (Literal(share, pa.float64()),)
    return Aggregate(function, args, aggregate_type(function, [arg.type for arg in args]), distinct)


def run(aggregate: Aggregate, past: History, *, fifo: bool, cuts: int = 0, seed: int = 0) -> list[Any]:
    """What the aggregator says, given the history in `cuts` + 1 batches, saved and loaded between them."""
    return [value for part in run_parts(aggregate, past, cuts, seed, fifo=fifo) for value in part.to_pylist()]


def run_parts(aggregate: Aggregate, past: History, cuts: int, seed: int, *, fifo: bool) -> list[pa.Array]:
    aggregator = make_aggregator(aggregate, fifo=fifo)
    ends = past.cells()
    rng = np.random.default_rng(seed)
    bounds = np.unique(np.concatenate([[0, ends.size], rng.integers(0, ends.size + 1, cuts)]))
    results = []
    for first, last in pairwise(bounds):
        start, end = int(ends[first - 1]) if first else 0, int(ends[last - 1])
        piece = slice(start, end)
        groups = np.ascontiguousarray(past.groups[piece])
        aggregator.grow(int(past.groups[:end].max()) + 1)
        values = pa.array([past.values[row] for row in past.rows[piece]], aggregate.args[0].type)
        cells = Cells(groups, np.ascontiguousarray(past.diffs[piece]), ends[first:last] - start)
        found = aggregator.apply(cells, values, np.ascontiguousarray(past.rows[piece]))
        assert found.type == aggregate.type
        found.validate(full=True)
        results.append(found)
        saved, aggregator = state_of(aggregator).to_bytes(), make_aggregator(aggregate, fifo=fifo)
        load_state(aggregator, Saved.from_bytes(saved))
    return results


def same(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Equal to the last bit; NaN equals NaN."""
    assert [repr(value) for value in found] == [repr(value) for value in expected]
