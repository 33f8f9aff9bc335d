"""Rows that a left join gives without a partner, only for a condition to leave them out: then it is an inner join.

So a row is compared with the value of a query before both are put together, and of the combinations only those are made
that are kept. This is a rule of how a query runs and not of what it means: checks and checkpoints know it as written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.plan.expressions import Call, Column, Expression, Literal, goes_by_time, replaced, walk
from watersmeet.plan.nodes import GroupBy, Input, Join, Node, Project, View
from watersmeet.plan.query import Plan
from watersmeet.plan.rewrite import with_children
from watersmeet.plan.shapes import is_monotone
from watersmeet.plan.walks import children

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
# What is NULL if anything in it is.
_STRICT = (*_COMPARISONS, "add", "subtract", "multiply", "divide", "modulo", "negate", "cast")
Stands = dict[Expression, Expression]
Named = tuple[tuple[str, Expression], ...]


def drop_alone(plan: Plan) -> Plan:
    """The plan as it runs: the same one if no left join is left out."""
    root = _node(plan.root)
    if is_monotone(root) and not is_monotone(plan.root):
        # By itself an inner join would only grow, and this is asked for as an answer that changes.
        root = _with_children(plan.root)
    return plan if root is plan.root else replace(plan, root=root)


def _with_children(node: Node) -> Node:
    return with_children(node, [_node(child) for child in children(node)])


def _node(node: Node) -> Node:
    node = _with_children(node)
    match node:
        case Project(child=Join() as join, columns=columns) if (found := _inner(join)) is not None:
            joined, stands = found
            return Project(joined, _over(columns, stands))
        case Project(child=GroupBy(child=join) as grouping, columns=columns) if (found := _inner(join)) is not None:
            # Rows of an answer and combinations have an order each.
            if any(goes_by_time(part) for _, e in columns for part in walk(e)):
                return node
            joined, stands = found
            having = None if grouping.having is None else replaced(grouping.having, stands.get)
            keys = tuple(replaced(key, stands.get) for key in grouping.keys)
            return Project(replace(grouping, child=joined, keys=keys, having=having), _over(columns, stands))
    return node


def _inner(join: Join) -> tuple[Join, Stands] | None:
    """The inner join that conditions on a left join make of it, and what the columns of that stand for."""
    match join:
        case Join(
            inputs=(Input(alias=alias, relation=View(plan=Project(child=Join(kind="left", where=()) as left) as made)),)
        ):
            stands: Stands = {Column(alias, name, e.type): e for name, e in made.columns}
            asked = [replaced(predicate, stands.get) for predicate in join.predicates]
            if any(_fails_without(left.inputs[1].alias, predicate) for predicate in asked):
                return replace(left, kind="inner", predicates=(*left.predicates, *asked)), stands
    return None


def _over(columns: Sequence[tuple[str, Expression]], stands: Stands) -> Named:
    return tuple((name, replaced(e, stands.get)) for name, e in columns)


def _fails_without(partner: str, expression: Expression) -> bool:
    """Whether a comparison is NULL where a row has no partner."""
    return isinstance(expression, Call) and expression.function in _COMPARISONS and _is_null(partner, expression)


def _is_null(partner: str, expression: Expression) -> bool:
    """Whether it is NULL where a row has no partner."""
    match expression:
        case Column(stream=stream):
            return stream == partner
        case Literal(value=value):
            return value is None
        case Call(function="case", args=(Call(function="is_null", args=(Column(stream=stream),)), missing, _)) if (
            stream == partner
        ):
            return _is_null(partner, missing)
        case Call(function="case", args=args):
            return all(_is_null(partner, made) for made in (*args[1:-1:2], args[-1]))
        case Call(function=function, args=args) if function in _STRICT:
            return any(_is_null(partner, arg) for arg in args)
    return False
