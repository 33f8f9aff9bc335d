"""By which key a query divides into partitions that need nothing of each other: threads, parts of a state.

It is the key of the buckets that need no copies of rows (`choose_partitioning`, `choose_bucket_key`).
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.model.windows import RowsWindow
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.optimizer.choose_bucket_key import bucket_codes
from watersmeet.optimizer.choose_partitioning import choose_dimension
from watersmeet.physical.nodes import LeafNode, WindowJoinNode
from watersmeet.physical.partitioning import Dimension
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column
from watersmeet.plan.query import Plan


def choose_partition_key(plan: Plan, physical: PhysicalPlan) -> PartitionKey | None:
    """The key of every stream; None: rows of all keys belong together, or no column keeps together what does."""
    if plan.plain_join is None:
        codes = bucket_codes(plan.root, physical.leaves)
        return None if codes is None else PartitionKey(codes)
    if len(physical.leaves) == 1 and len(plan.plain_join.join.inputs) == 1:
        return _of_one(physical.leaves[0])
    return _of_join(physical, choose_dimension(physical.strategy))


def choose_resting_key(plan: Plan, physical: PhysicalPlan) -> PartitionKey | None:
    """By which a state divides that is moved. Where a window counts rows of all keys, every part then counts all."""
    key = choose_partition_key(plan, physical)
    if key is None and plan.plain_join is not None and len(physical.leaves) > 1:
        key = _of_join(physical, choose_dimension(physical.strategy, counts_apart=False))
    return None if key is None else replace(key, at_rest=True)


def _of_join(physical: PhysicalPlan, dimension: Dimension | None) -> PartitionKey | None:
    if dimension is None:
        return None
    names = {leaf.name for leaf in physical.leaves}
    copied = frozenset(name for name in names if not dimension.places(name))
    if (copied or dimension.fragment) and not isinstance(physical.root, WindowJoinNode):
        return None
    return PartitionKey(dimension.keys, dimension.fragment, copied)


def _of_one(leaf: LeafNode) -> PartitionKey | None:
    """A stream alone is counted by its partitions, or each row of it is by itself."""
    columns = leaf.window.partition_by if isinstance(leaf.window, RowsWindow) else (leaf.stream.time,)
    if not columns:
        return None
    column = columns[0]
    return PartitionKey({leaf.name: Code(leaf.name, Column(leaf.name, column, leaf.stream.schema.field(column).type))})
