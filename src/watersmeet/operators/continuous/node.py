"""What an operator of a continuous query is asked for: the changes of its answer up to an instant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Protocol

import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Delta


class Node(Protocol):
    """Operators form a tree; each asks its inputs for their changes and answers with its own."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def complete(self) -> int:
        """All changes before this instant have been given."""
        ...

    @property
    def netted(self) -> bool:
        """Whether no row both leaves and enters at one instant."""
        ...

    def take(self, until: int) -> Delta:
        """The changes before an instant that were not given yet, in order."""
        ...

    def inputs(self) -> Iterator[Node]: ...

    @property
    def held_rows(self) -> int:
        """The rows this operator itself keeps."""
        ...

    @property
    def nbytes(self) -> int: ...

    def next_event(self) -> int:
        """The earliest instant at which its answer changes by itself, with no new rows; FOREVER_US if it does not."""
        ...


def everything_below(node: Node) -> Iterator[Node]:
    yield node
    for one in node.inputs():
        yield from everything_below(one)


def next_event_below(node: Node) -> int:
    """The earliest instant at which one of its inputs changes by itself; FOREVER_US if none does."""
    return min((one.next_event() for one in node.inputs()), default=FOREVER_US)


class Unary:
    """An operator with one input, which has changed when its input has."""

    STATE: ClassVar[tuple[str, ...]] = ("child",)

    def __init__(self, child: Node, schema: pa.Schema) -> None:
        self.child = child
        self.schema = schema

    @property
    def complete(self) -> int:
        return self.child.complete

    def inputs(self) -> Iterator[Node]:
        yield self.child

    def next_event(self) -> int:
        return self.child.next_event()
