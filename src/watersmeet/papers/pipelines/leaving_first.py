"""The log of an answer as all pipelines give it: of what happens at one instant, rows that leave come first."""

from __future__ import annotations

from watersmeet.operators.continuous.delta import Delta, in_order
from watersmeet.operators.continuous.node import Node, Unary


class LeavingFirst(Unary):
    """The operators below tell what happens at one instant in the order in which they see it."""

    netted = False
    held_rows = 0
    nbytes = 0

    def __init__(self, child: Node) -> None:
        super().__init__(child, child.schema)

    def take(self, until: int) -> Delta:
        delta = self.child.take(until)
        return delta.take(in_order(delta.instants, delta.diffs))
