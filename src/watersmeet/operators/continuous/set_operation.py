"""W-UNION, W-EXCEPT and W-INTERSECT, with and without ALL.

How often a row is in the answer follows from how often it is on either side; a change of that is a change of
the answer. Rows are told apart by their values, so expired and withdrawn rows need no search.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.delta import Bools, Delta, merged, no_changes
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.continuous.node import Divides, Node, keys_below
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.partition_key import PartitionKey

Kind = Literal["union", "except", "intersect"]
_CODES = {
    ("union", True): kernel.UNION_ALL,
    ("union", False): kernel.UNION,
    ("except", True): kernel.EXCEPT_ALL,
    ("except", False): kernel.EXCEPT,
    ("intersect", True): kernel.INTERSECT_ALL,
    ("intersect", False): kernel.INTERSECT,
}


class Held:
    """Changes of one side that the other side is not complete for yet."""

    STATE = ("node", "ahead")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.ahead = no_changes(node.schema)

    def take(self, until: int) -> None:
        self.ahead = merged([self.ahead, self.node.take(until)], self.node.schema)

    def release(self, until: int) -> Delta:
        ready, self.ahead = self.ahead.before(until)
        return ready


class SetOperator(Divides):
    """The two sides' columns pair up by place; the answer has the left side's names."""

    STATE = ("_left", "_right", "_rows")

    netted = True

    def __init__(self, kind: Kind, left: Node, right: Node, *, all: bool) -> None:
        self.schema = left.schema
        self._left, self._right = Held(left), Held(right)
        self._rows = Multiset(self.schema, _CODES[kind, all])

    @property
    def complete(self) -> int:
        return min(self._left.node.complete, self._right.node.complete)

    @property
    def held_rows(self) -> int:
        return self._rows.ids.live

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def inputs(self) -> Iterator[Node]:
        yield self._left.node
        yield self._right.node

    def next_event(self) -> int:
        return min(node.next_event() for node in self.inputs())

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        """By their places, as the right side has other names."""
        left, right = keys_below(self._left.node, key), keys_below(self._right.node, key)
        pairs = zip(self.schema.names, self._right.node.schema.names, strict=True)
        return frozenset(name for name, other in pairs if name in left and other in right)

    def take(self, until: int) -> Delta:
        self._left.take(until)
        self._right.take(until)
        # Sides may be complete for different times (pipeline = 'ita'), and counts need both.
        left, right = self._left.release(self.complete), self._right.release(self.complete)
        right = right.with_data(right.data.rename_columns(self.schema.names))
        sides = _both(left, right, self.schema)
        if len(sides[0]) == 0:
            return no_changes(self.schema)
        return self._rows.apply(*sides)


def _both(left: Delta, right: Delta, schema: pa.Schema) -> tuple[Delta, Bools]:
    """The changes of both sides in the order of their instants, and which are the right side's."""
    delayed = left.noticed is not None or right.noticed is not None
    instants = np.concatenate([left.instants, right.instants])
    data = pa.concat_batches([left.data.cast(schema), right.data.cast(schema)])
    both = Delta(
        data,
        instants,
        np.concatenate([left.diffs, right.diffs]),
        np.concatenate([left.order, right.order]),
        np.concatenate([left.noticed_at, right.noticed_at]) if delayed else None,
    )
    order = np.argsort(instants, kind="stable")
    return both.take(order), order >= len(left)
