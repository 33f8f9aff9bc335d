"""What an operator of a continuous query is asked for: the changes of its answer up to an instant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol

import pyarrow as pa

from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Delta
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.plan.expressions import Column, Expression


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


class Divides:
    """An operator whose state divides by key. These are the answers of one that holds nothing but what follows from the
    rows that its inputs hold: those are given once more to whoever takes over, as rows that enter, and it takes them as
    it takes any."""

    @property
    def gives_all_again(self) -> bool:
        """Whether it holds all rows of its answer, or those that they follow from: rows that never leave are not."""
        return True

    @property
    def needs_all_again(self) -> bool:
        """Whether what it holds follows from all rows that its inputs have given."""
        return True

    @property
    def cared_for(self) -> Sequence[Divides]:
        """The operators below whose state it divides and takes over with its own."""
        return ()

    def undivided(self, key: PartitionKey) -> str | None:
        """Why one part holds all of its state after all."""
        return None

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        """The columns of its answer in each of which every row has its key."""
        raise NotImplementedError

    def divided(self, key: PartitionKey) -> KeyedState:
        """What it holds beyond that."""
        return KeyedState()

    def take_rows_over(self, state: KeyedState) -> None:
        """Of a fresh one: take that over, and be ready to give once more what it held."""

    def given_again(self, state: KeyedState) -> None:
        """All that was held has been given once more: what this moved is as it was."""


def undivided_below(root: Node, key: PartitionKey) -> str | None:
    """Why the state of a tree does not divide, if it does not."""
    for node in everything_below(root):
        if not isinstance(node, Divides):
            return f"the state of {type(node).__name__} does not divide by key"
        if (why := node.undivided(key)) is not None:
            return why
        lost = (one for one in node.inputs() if isinstance(one, Divides) and not one.gives_all_again)
        if node.needs_all_again and any(lost):
            return f"{type(node).__name__} holds what came of rows that never leave"
    return None


def dividing(root: Node) -> dict[str, Divides]:
    """The operators of a tree whose state divides, each with a name of its own."""
    nodes = [node for node in everything_below(root) if isinstance(node, Divides)]
    inside = [id(one) for node in nodes for one in node.cared_for]
    return {f"node_{place}": node for place, node in enumerate(nodes) if id(node) not in inside}


def shown_keys(columns: Sequence[tuple[str, Expression]], keys: frozenset[str]) -> frozenset[str]:
    """The names under which columns with the key are shown."""
    return frozenset(name for name, e in columns if isinstance(e, Column) and e.name in keys)


def keys_below(node: Node, key: PartitionKey) -> frozenset[str]:
    assert isinstance(node, Divides)
    return node.key_columns(key)


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
