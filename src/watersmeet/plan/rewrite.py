"""The same plan over other relations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.nodes import (
    Changes,
    Derived,
    Distinct,
    GroupBy,
    Input,
    Join,
    Node,
    Project,
    SetOperation,
    TopK,
    View,
)

Change = Callable[[Stream | Table], Stream | Table]


def with_relations(node: Node, change: Change) -> Node:
    """The node with every stream and table below it changed, also inside subqueries."""
    match node:
        case Join(inputs=inputs):
            return replace(node, inputs=tuple(_input(one, change) for one in inputs))
        case SetOperation(left=left, right=right):
            return replace(node, left=with_relations(left, change), right=with_relations(right, change))
        case Project() | GroupBy() | Distinct() | TopK() | Changes():
            return replace(node, child=with_relations(node.child, change))


def _input(one: Input, change: Change) -> Input:
    match one.relation:
        case Derived() | View() as query:
            return replace(one, relation=replace(query, plan=with_relations(query.plan, change)))
        case Stream() | Table() as relation:
            return replace(one, relation=change(relation))
