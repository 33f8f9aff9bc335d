"""Walking through plans: what a node is made of, and what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard, assert_never

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Hop, Session, Window
from watersmeet.plan.constants import Constants
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import (
    Changes,
    Derived,
    Distinct,
    GroupBy,
    Input,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    TopK,
    View,
)


def relations_below(node: Node) -> Iterator[Stream | Table]:
    """The streams and static tables a query reads, also inside its subqueries; one that is read twice comes twice."""
    return (one.relation for one in inputs_below(node) if is_read(one.relation))


def is_read(relation: Stream | Table | Derived | View) -> TypeGuard[Stream | Table]:
    """Whether its rows come from outside the query."""
    return isinstance(relation, Stream | Table) and not isinstance(relation, Constants)


def streams_below(node: Node) -> Iterator[Stream]:
    return (one for one in relations_below(node) if isinstance(one, Stream))


def windows_below(node: Node) -> Iterator[Window | None]:
    return (one.window for one in inputs_below(node))


def has_windows_that_step(node: Node) -> bool:
    return any(isinstance(one, Hop | Session) for one in windows_below(node))


def inputs_below(node: Node) -> Iterator[Input]:
    """The entries of every FROM, those of subqueries after the subquery itself."""
    if not isinstance(node, Join):
        for child in children(node):
            yield from inputs_below(child)
        return
    for one in node.inputs:
        yield one
        if isinstance(one.relation, Derived | View):
            yield from inputs_below(one.relation.plan)


def origin_of(column: Column, join: Join) -> tuple[Input, str] | None:
    """The entry of FROM that a column is of, also in a join that stands as a view in another, and its name there."""
    one = join.input(column.stream)
    match one.relation:
        case View(plan=Project(child=Join() as inside, columns=columns)):
            below = dict(columns)[column.name]
            return origin_of(below, inside) if isinstance(below, Column) else None
    return one, column.name


def children(node: Node) -> tuple[Node, ...]:
    """What a node is made of; for a join, the plans of the subqueries that it reads."""
    match node:
        case Join(inputs=inputs):
            return tuple(one.relation.plan for one in inputs if isinstance(one.relation, Derived | View))
        case SetOperation(left=left, right=right):
            return (left, right)
        case Project(child=child) | GroupBy(child=child) | Distinct(child=child) | TopK(child=child):
            return (child,)
        case Over(child=child) | Changes(child=child):
            return (child,)
        case _:
            assert_never(node)


def nodes_below(node: Node, *, into_subqueries: bool = True) -> Iterator[Node]:
    """The node and everything it is made of, outermost first."""
    yield node
    # Below a join there are only subqueries.
    if into_subqueries or not isinstance(node, Join):
        for child in children(node):
            yield from nodes_below(child, into_subqueries=into_subqueries)
