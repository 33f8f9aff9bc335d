"""By which key a query divides into partitions that need nothing of each other: threads, parts of a state.

It is the key of the buckets that need no copies of rows (`choose_partitioning`, `choose_bucket_key`).
"""

from __future__ import annotations

from watersmeet.model.windows import RowsWindow
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.optimizer.choose_bucket_key import bucket_codes
from watersmeet.optimizer.choose_partitioning import choose_partitioning
from watersmeet.physical.nodes import LeafNode
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import Plan

PARTS = 2  # of one key any number is as good


def choose_partition_key(plan: Plan, physical: PhysicalPlan) -> PartitionKey | None:
    """The key of every stream; None: rows of all keys belong together, or no column keeps together what does."""
    if plan.plain_join is None:
        codes = bucket_codes(plan.root, physical.leaves)
        return None if codes is None else PartitionKey(codes)
    if len(physical.leaves) == 1 and len(plan.plain_join.join.inputs) == 1:
        return _of_one(physical.leaves[0])
    grid = choose_partitioning(physical.strategy, PARTS)
    if grid.announced or len(grid.dimensions) != 1:
        return None
    (dimension,) = grid.dimensions
    return PartitionKey(dimension.keys) if all(leaf.name in dimension.keys for leaf in physical.leaves) else None


def _of_one(leaf: LeafNode) -> PartitionKey | None:
    """A stream alone is counted by its partitions, or each row of it is by itself."""
    columns = leaf.window.partition_by if isinstance(leaf.window, RowsWindow) else (leaf.stream.time,)
    if not columns:
        return None
    column = columns[0]
    return PartitionKey({leaf.name: Code(leaf.name, Column(leaf.name, column, leaf.stream.schema.field(column).type))})
