"""By which key a query divides into partitions that need nothing of each other: threads, parts of a state.

It is the key of the buckets that need no copies of rows (`choose_partitioning`, `choose_bucket_key`).
"""

from __future__ import annotations

from watersmeet.model.windows import RowsWindow
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.optimizer.choose_bucket_key import bucket_codes
from watersmeet.optimizer.choose_partitioning import choose_dimension
from watersmeet.physical.nodes import LeafNode, WindowJoinNode
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
    names = {leaf.name for leaf in physical.leaves}
    dimension = choose_dimension(physical.strategy)
    if dimension is None:
        return None
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
