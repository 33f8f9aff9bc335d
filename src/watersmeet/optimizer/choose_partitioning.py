"""Which grid of buckets moves the fewest rows.

One key common to all streams needs no copies and always wins. Otherwise every way to write the number of
buckets as a product over keys and fragments is costed by the rows it sends: each stream's rate times its copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from watersmeet.model.windows import RowsWindow
from watersmeet.optimizer.close_equalities import equal_groups
from watersmeet.optimizer.describe import Description
from watersmeet.physical.partitioning import Dimension, Partitioning
from watersmeet.physical.strategy import Code, JoinStrategy
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import Input, Join


def choose_partitioning(strategy: JoinStrategy, buckets: int) -> Partitioning:
    """The cheapest grid of exactly `buckets` buckets; a single one where counting rows demands it."""
    join = strategy.join
    candidates = _candidates(strategy)
    grids = [grid for grid in _grids(candidates, buckets) if grid]
    if not grids:
        return Partitioning((), "one bucket")
    best = min(grids, key=lambda grid: (_rows_sent(strategy, grid), len(grid)))
    announced = tuple(one.alias for one in join.streams if not _counts_within_buckets(one, best))
    return Partitioning(best, _reason(join, best), announced)


def choose_dimension(strategy: JoinStrategy, *, counts_apart: bool = True) -> Dimension | None:
    """The cheapest way to divide along one dimension, if every ROWS window can be counted in its parts, or need not."""
    fewest = 2  # of one dimension any number is as good
    possible = [Dimension(fewest, keys, fragment) for keys, fragment in _candidates(strategy)]
    if not counts_apart:
        return min(possible, key=lambda one: _rows_sent(strategy, (one,)), default=None)
    counted = [one for one in possible if all(_counts_within_buckets(a, (one,)) for a in strategy.join.streams)]
    return min(counted, key=lambda one: _rows_sent(strategy, (one,)), default=None)


def _candidates(strategy: JoinStrategy) -> list[tuple[dict[str, Code], str | None]]:
    """What a dimension may be made of: each group of equal keys, and each stream cut into fragments."""
    streams = [one.alias for one in strategy.join.streams]
    keyed: list[tuple[dict[str, Code], str | None]] = []
    for group in equal_groups(strategy.equalities):
        keys: dict[str, Code] = {}
        for code in group:
            # Static tables are in every bucket and need no place.
            if code.stream in streams:
                keys.setdefault(code.stream, code)
        if keys:
            keyed.append((keys, None))
    return keyed + [({}, alias) for alias in streams]


def _grids(candidates: Sequence[tuple[dict[str, Code], str | None]], buckets: int) -> Iterator[tuple[Dimension, ...]]:
    """Every product of dimensions, in the order of the candidates, that makes the asked number of buckets."""
    if buckets == 1:
        yield ()
        return
    for i, (keys, fragment) in enumerate(candidates):
        for size in range(2, buckets + 1):
            if buckets % size == 0:
                # Only later candidates: the order of dimensions makes no other grid.
                for rest in _grids(candidates[i + 1 :], buckets // size):
                    yield (Dimension(size, keys, fragment), *rest)


def _rows_sent(strategy: JoinStrategy, grid: tuple[Dimension, ...]) -> float:
    """Rows a second, with their copies."""
    partitioning = Partitioning(grid, "")
    return sum(rate * partitioning.copies(alias) for alias, rate in Description(strategy).rates.items())


def _counts_within_buckets(one: Input, grid: tuple[Dimension, ...]) -> bool:
    """Whether a ROWS window can be counted inside a bucket: all rows of a partition must be there."""
    if not isinstance(one.window, RowsWindow):
        return True
    for dimension in grid:
        if not dimension.places(one.alias):
            continue
        code = dimension.keys.get(one.alias)
        own = code.expression if code is not None else None
        if not isinstance(own, Column) or own.name not in one.window.partition_by:
            return False
    return True


def _reason(join: Join, grid: tuple[Dimension, ...]) -> str:
    placed = [one.alias for one in join.streams if all(dimension.places(one.alias) for dimension in grid)]
    if len(placed) == len(join.streams):
        return "a key common to all streams" if len(join.streams) > 1 else "a single stream"
    if any(dimension.keys for dimension in grid):
        return "a grid over the keys; streams without a key are copied along it"
    return "no equality: fragments of one stream meet copies of the others"
