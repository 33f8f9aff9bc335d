"""Equality is transitive: from a.k = b.k and b.k = c.k follows a.k = c.k, so any order of visits has a key.

Only codes compared in the same type are chained: 2**53 + 1 equals 2**53 as doubles, but not as integers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import combinations

import pyarrow as pa

from watersmeet.physical.strategy import Code, Equality, JoinStrategy
from watersmeet.plan.expressions import Call


def close_equalities(strategy: JoinStrategy) -> JoinStrategy:
    given = {frozenset((e.left, e.right)) for e in strategy.equalities}
    implied: list[Equality] = []
    filters = dict(strategy.filters)
    for group in equal_groups(strategy.equalities):
        for left, right in combinations(group, 2):
            if frozenset((left, right)) in given:
                continue
            # a.x = b.k and a.y = b.k: rows of a whose x and y differ can meet nobody and are not even stored.
            if left.stream == right.stream:
                same = Call("eq", (left.expression, right.expression), pa.bool_())
                filters[left.stream] = (*filters.get(left.stream, ()), same)
            else:
                # Implied ones of hashed codes need no test on values: those they follow from are tested.
                implied.append(Equality(left, right, implied=True))
    return replace(strategy, equalities=(*strategy.equalities, *implied), filters=filters)


def equal_groups(equalities: tuple[Equality, ...]) -> list[list[Code]]:
    """The codes that must all be equal, in the order they were first written."""
    leader: dict[Code, Code] = {}

    def find(code: Code) -> Code:
        leader.setdefault(code, code)
        while leader[code] != code:
            code = leader[code]
        return code

    for equality in equalities:
        # Python evaluates the right side first, so codes enter in the order in which they are written.
        leader[find(equality.right)] = find(equality.left)
    groups: dict[Code, list[Code]] = defaultdict(list)
    for code in leader:
        groups[find(code)].append(code)
    return list(groups.values())
