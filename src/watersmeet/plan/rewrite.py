"""Plans made of other plans: the same tree with other parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.nodes import Derived, Input, Join, Node, SetOperation, View
from watersmeet.plan.walks import children, is_read

Change = Callable[[Stream | Table], Stream | Table]


def with_children(node: Node, parts: Sequence[Node]) -> Node:
    """The node with other children, in the order of `children`."""
    # The same object if nothing below has changed, so that nodes need not be checked again.
    if all(new is old for new, old in zip(parts, children(node), strict=True)):
        return node
    match node:
        case Join(inputs=inputs):
            # `children` gives the subqueries in the order of the inputs, so they come back in it.
            plans = iter(parts)
            return replace(node, inputs=tuple(_over(one, plans) for one in inputs))
        case SetOperation():
            return replace(node, left=parts[0], right=parts[1])
        case _:
            return replace(node, child=cast(Any, parts[0]))  # the node checks what stands below it


def _over(one: Input, plans: Iterator[Node]) -> Input:
    match one.relation:
        case Derived() | View() as query:
            return replace(one, relation=replace(query, plan=next(plans)))
    return one


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """Every node changed, children before what is made of them."""
    return change(with_children(node, [transform(child, change) for child in children(node)]))


def with_relations(node: Node, change: Change) -> Node:
    """The node with every stream and table below it changed, also inside subqueries."""

    def reading(one: Input) -> Input:
        return replace(one, relation=change(one.relation)) if is_read(one.relation) else one

    def over_others(part: Node) -> Node:
        return replace(part, inputs=tuple(map(reading, part.inputs))) if isinstance(part, Join) else part

    return transform(node, over_others)
