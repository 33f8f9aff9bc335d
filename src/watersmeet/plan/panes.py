"""Groups of HOP, and of TUMBLE, that need no copy of a row for each of its windows."""

from __future__ import annotations

from watersmeet.model.windows import WINDOW_COLUMNS, Hop
from watersmeet.plan.expressions import Aggregate, Column, Expression, columns_of, walk
from watersmeet.plan.nodes import GroupBy, Join, Node, Project


def hop_by_steps(node: Node) -> Hop | None:
    """The windows of groups that go on from step to step: rows enter, rows leave, and at each step the groups are given
    with that window. That is so if nothing but the keys that say so looks at the windows of a row."""
    match node:
        case Project(child=GroupBy(child=Join(inputs=(one,), predicates=predicates), keys=keys)):
            hop = one.window
        case _:
            return None
    if not isinstance(hop, Hop) or hop.at_once or hop.calendar is not None:
        return None
    aggregates = aggregates_of(node)
    others = [key for key in keys if not is_window_column(key)]
    looked_at = [*others, *predicates, *(arg for aggregate in aggregates for arg in aggregate.args)]
    # Without keys and aggregates a group has no columns of its own.
    return hop if (others or aggregates) and not any(map(_sees_windows, looked_at)) else None


def aggregates_of(node: Project) -> tuple[Aggregate, ...]:
    having = node.child.having if isinstance(node.child, GroupBy) else None
    expressions = [e for _, e in node.columns] + ([] if having is None else [having])
    return tuple(dict.fromkeys(part for e in expressions for part in walk(e) if isinstance(part, Aggregate)))


def is_window_column(expression: Expression) -> bool:
    return isinstance(expression, Column) and expression.name in WINDOW_COLUMNS


def _sees_windows(expression: Expression) -> bool:
    return any(column.name in WINDOW_COLUMNS for column in columns_of(expression))
