"""A whole query as it will run, before anything of it holds a row: what EXPLAIN prints and hosts read."""

from __future__ import annotations

from functools import cached_property

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream
from watersmeet.physical.nodes import JoinNode, LeafNode, PhysicalNode, RowsNode, everything_below
from watersmeet.physical.pipeline import PipelineChoice
from watersmeet.physical.strategy import JoinStrategy


@dataclass(frozen=True)
class PhysicalPlan:
    """The tree of operators, where rows enter it, and why expired rows are noticed as they are."""

    root: RowsNode
    leaves: tuple[LeafNode, ...]
    choice: PipelineChoice
    one_thread: str | None = None
    """Why it runs in one thread, where several were asked for."""

    @cached_property
    def nodes(self) -> tuple[PhysicalNode, ...]:
        return tuple(everything_below(self.root))

    @property
    def joins(self) -> tuple[JoinNode, ...]:
        """What reads streams by a strategy: joins, and streams read alone outside a changing answer."""
        return tuple(node for node in self.nodes if isinstance(node, JoinNode))

    @property
    def streams(self) -> dict[str, Stream]:
        """What is read, by the names that rows are pushed under."""
        return {leaf.name: leaf.stream for leaf in self.leaves}

    def leaf(self, name: str) -> LeafNode:
        return next(leaf for leaf in self.leaves if leaf.name == name)

    @property
    def strategy(self) -> JoinStrategy:
        """That of a query which is one plain join."""
        (only,) = self.joins
        return only.strategy
