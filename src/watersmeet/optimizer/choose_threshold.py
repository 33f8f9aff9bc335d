"""Rows compared with a value that each key has one of: they need not be put together with it one by one.

So runs `x > (SELECT AVG(y) …)`, and the join that says the same, where nothing else is asked of the value. Joined,
every change of the value would take out all rows that pass, and bring them in again.
"""

from __future__ import annotations

from watersmeet.dataclass import dataclass
from watersmeet.model.windows import Hop, Session
from watersmeet.optimizer.classify_predicates import classify_predicates
from watersmeet.physical.nodes import Columns
from watersmeet.physical.strategy import Code, Comparison, Equality, JoinStrategy
from watersmeet.plan.expressions import Column, Expression, streams_of, uses_event_time
from watersmeet.plan.nodes import GroupBy, Input, Join, Project, View


@dataclass(frozen=True)
class Against:
    """Rows of one input, those that pass its own conditions, compared with the values of another, key by key."""

    rows: Input
    values: Input
    conditions: tuple[Expression, ...]
    keys: tuple[tuple[Code, Code], ...]
    comparison: Comparison


def choose_threshold(join: Join, columns: Columns) -> Against | None:
    """What is compared with what, if an inner join is no more than that. Where either side has one row of a key, there
    are not many combinations to begin with."""
    if len(join.inputs) != 2 or join.bounds or join.choices:
        return None
    strategy = classify_predicates(JoinStrategy(join))
    if strategy.residuals:
        return None
    one, other = join.inputs
    against, turned = _against(strategy, one, other), _against(strategy, other, one)
    if (against is None) == (turned is None):
        return None
    found = against or turned
    assert found is not None
    asked = [e for _, e in columns]
    return None if any(streams_of(e) - {found.rows.alias} or uses_event_time(e) for e in asked) else found


def _against(strategy: JoinStrategy, rows: Input, values: Input) -> Against | None:
    keys = tuple(_pair(equality, rows.alias) for equality in strategy.equalities)
    # A comparison is there twice, from either side.
    compared = [one for one in strategy.comparisons if one.own.stream == rows.alias]
    if rows.is_table or len(compared) != 1 or compared[0].operator == "ne" or values.alias in strategy.filters:
        return None
    if not _has_one_row_of(values, {other.expression for _, other in keys}):
        return None
    return Against(rows, values, strategy.filters.get(rows.alias, ()), keys, compared[0])


def _pair(equality: Equality, alias: str) -> tuple[Code, Code]:
    left, right = equality.left, equality.right
    return (left, right) if left.stream == alias else (right, left)


def _has_one_row_of(values: Input, keys: set[Expression]) -> bool:
    """Whether a query has a row at most for each combination of these columns: they are what it groups by, as they are.
    Windows that are given once leave a row for each window."""
    match values.relation:
        case View(plan=Project(child=GroupBy(child=child, keys=grouped), columns=columns)) if not any(
            isinstance(one.window, Hop | Session) for one in child.inputs
        ):
            given: dict[Expression, Expression] = {Column(values.alias, name, e.type): e for name, e in columns}
            # A cast may make one of two keys, so it is none of them.
            return {given.get(key) for key in keys} == set(grouped)
    return False
