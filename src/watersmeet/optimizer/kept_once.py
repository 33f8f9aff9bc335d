"""Which joins may keep their rows once where rows are spread over buckets: those that place rows of the same streams
alike, each of which they look at once, and that keep rows as long as time lets them."""

from __future__ import annotations

from collections.abc import Hashable

from watersmeet.model.catalog import Stream
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.physical.partitioning import Dimension, Partitioning
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.plan.identity import neutral_text
from watersmeet.plan.nodes import Input


def kept_alike(plan: PhysicalPlan, chosen: Partitioning) -> Hashable | None:
    """Equal for joins that may keep their rows once; None: it keeps its own."""
    node = plan.root
    if not isinstance(node, WindowJoinNode) or (node.shedding, node.spilling, node.announced) != (None, None, None):
        return None
    streams = node.strategy.join.streams
    names = {one.alias: one.relation.name for one in streams}
    is_plain = all(map(_as_they_come, streams)) and all(leaf.stream.first is None for leaf in plan.leaves)
    # Static tables are each join's own, and with one stream alone there is nothing to keep.
    if not is_plain or len(streams) < len(node.strategy.join.inputs) or len(streams) < 2:
        return None
    if len(set(names.values())) < len(streams) or chosen.announced:
        return None
    if not all(one.spread is None and one.keys.keys() == names.keys() for one in chosen.dimensions):
        return None

    def placed(one: Dimension) -> Hashable:
        return one.size, frozenset((names[alias], neutral_text(code.expression)) for alias, code in one.keys.items())

    return frozenset(names.values()), chosen.buckets, tuple(map(placed, chosen.dimensions))


def _as_they_come(one: Input) -> bool:
    """Not in windows that make rows of rows."""
    return isinstance(one.relation, Stream) and one.schema == one.relation.schema and not one.made
