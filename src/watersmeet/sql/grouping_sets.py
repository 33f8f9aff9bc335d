"""GROUP BY GROUPING SETS, ROLLUP and CUBE: several ways to group the same rows, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations, product
from typing import TypeGuard

import pyarrow as pa

from watersmeet.plan.expressions import Aggregate, Call, Expression, Literal, replaced
from watersmeet.plan.nodes import GroupBy, Join, Node, Project, SetOperation

Sets = tuple[tuple[int, ...], ...]  # by the positions of keys
MOST_SETS = 64


def rollup(parts: Sequence[tuple[int, ...]]) -> Sets:
    """
    >>> rollup([(0,), (1, 2)])
    ((0, 1, 2), (0,), ())
    """
    return tuple(_together(parts[:count]) for count in range(len(parts), -1, -1))


def cube(parts: Sequence[tuple[int, ...]]) -> Sets:
    """
    >>> cube([(0,), (1,)])
    ((0, 1), (0,), (1,), ())
    """
    return tuple(_together(some) for count in range(len(parts), -1, -1) for some in combinations(parts, count))


def crossed(elements: Sequence[Sets]) -> Sets:
    """What stands beside each other in GROUP BY: every way of one with every way of the others.

    >>> crossed([((0,),), ((1,), ())])
    ((0, 1), (0,))
    """
    return tuple(_together(ways) for ways in product(*elements))


def _together(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(position for part in parts for position in part))


def grouped_by_sets(
    join: Join,
    keys: Sequence[Expression],
    sets: Sets,
    having: Expression | None,
    outputs: Sequence[tuple[str, Expression]],
) -> Node:
    """The answers of all groupings as one; a key that a grouping does not have is NULL in it."""
    answers: list[Node] = []
    for positions in sets:
        mine = [keys[position] for position in positions]
        missing = {key for key in keys if key not in mine}
        columns = tuple((name, _without(expression, missing, mine)) for name, expression in outputs)
        own = None if having is None else _without(having, missing, mine)
        answers.append(Project(GroupBy(join, tuple(mine), own), columns))
    whole = answers[0]
    for other in answers[1:]:
        whole = SetOperation("union", True, whole, other)
    return whole


def is_grouping(expression: Expression) -> TypeGuard[Call]:
    """GROUPING(key, …): a bit for each key, the first the highest, which is 1 where the key is not there."""
    return isinstance(expression, Call) and expression.function == "grouping"


def _without(expression: Expression, missing: set[Expression], mine: Sequence[Expression]) -> Expression:
    """An expression over groups in which some keys are not there."""

    def in_its_place(part: Expression) -> Expression | None:
        if is_grouping(part):
            bits = (int(key in missing) for key in part.args)
            return Literal(reduce(lambda number, bit: 2 * number + bit, bits, 0), pa.int64())
        if isinstance(part, Aggregate) or part in mine:
            return part
        return Literal(None, part.type) if part in missing else None

    return replaced(expression, in_its_place)
