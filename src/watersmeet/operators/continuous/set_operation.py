"""W-UNION, W-EXCEPT and W-INTERSECT, with and without ALL.

How often a row is in the answer follows from how often it is on either side; a change of that is a change of
the answer. Rows are told apart by their values, so expired and withdrawn rows need no search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from watersmeet.operators.continuous.delta import Bools, Delta, merged, no_changes
from watersmeet.operators.continuous.multiset import Multiset
from watersmeet.operators.continuous.node import Divides, Node, keys_below
from watersmeet.operators.continuous.value_order import value_order
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


class Together(Divides):
    """UNION ALL of streams: their rows in the order of their times, at equal times from the first stream to the last.
    No row of it ever leaves, so that none is kept."""

    STATE = ("_sides",)

    netted = True
    held_rows = 0
    nbytes = 0

    def __init__(self, branches: Sequence[Node], arrived: Sequence[bool]) -> None:
        """arrived: of each stream whether its rows have an order at equal times; others go by their values."""
        self.schema = branches[0].schema
        self._sides = [Held(one) for one in branches]
        self._arrived = list(arrived)

    @property
    def complete(self) -> int:
        return min(one.complete for one in self.inputs())

    def inputs(self) -> Iterator[Node]:
        return (side.node for side in self._sides)

    def next_event(self) -> int:
        return min(node.next_event() for node in self.inputs())

    @property
    def gives_all_again(self) -> bool:
        return False

    @property
    def needs_all_again(self) -> bool:
        return False

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        """By their places, as the others have other names."""
        found = [keys_below(node, key) for node in self.inputs()]
        columns = zip(*(node.schema.names for node in self.inputs()), strict=True)
        return frozenset(names[0] for names in columns if all(n in keys for n, keys in zip(names, found, strict=True)))

    def take(self, until: int) -> Delta:
        for side in self._sides:
            side.take(until)
        complete = self.complete
        made = [
            self._in_order(side.release(complete), arrived)
            for side, arrived in zip(self._sides, self._arrived, strict=True)
        ]
        full = [one.with_data(one.data.rename_columns(self.schema.names).cast(self.schema)) for one in made if len(one)]
        return merged(full, self.schema)

    @staticmethod
    def _in_order(delta: Delta, arrived: bool) -> Delta:
        if arrived or len(delta) < 2:
            return delta
        columns = (pa.array(delta.instants), *delta.data.columns)
        return delta.take(value_order([(column, False, False) for column in columns]))
