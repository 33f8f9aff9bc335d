"""By what the rows of a changing answer are known, for a sink that keeps them as a table."""

from __future__ import annotations

from watersmeet.plan.nodes import OP, Distinct, GroupBy, Node, Project, SetOperation, TopK
from watersmeet.plan.query import Plan


def change_column(plan: Plan) -> str | None:
    """The column that says whether a row comes or goes; None where rows only come."""
    return OP if plan.kind == "changes" else None


def answer_keys(plan: Plan) -> tuple[str, ...]:
    """The columns of which no two rows of the answer have the same values: those that it is grouped by. None if it is
    not known to have such columns, or if rows only come."""
    return _keys(plan.root) if plan.kind == "changes" else ()


def _keys(node: Node) -> tuple[str, ...]:
    match node:
        case Project(columns=columns, child=GroupBy(keys=keys)) if keys:
            named = {expression: name for name, expression in reversed(columns)}
            # If a key is not in the answer, rows may be alike in those that are.
            return tuple(named[key] for key in keys) if all(key in named for key in keys) else ()
        case TopK(child=child):
            return _keys(child)
        case Distinct(child=Project(columns=columns)):
            return tuple(name for name, _ in columns)
        case Distinct(child=child):
            return _keys(child)
        case SetOperation(kind="except" | "intersect", all=False, left=left):
            return _keys(left)
    return ()
