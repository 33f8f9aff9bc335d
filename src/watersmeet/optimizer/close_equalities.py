"""Equality is transitive: from a.k = b.k and b.k = c.k follows a.k = c.k, so any order of visits has a key; and from
a.k = b.k and a.k = 17 follows b.k = 17, so rows of b that can meet nobody are not even stored.

Only codes compared in the same type are chained: 2**53 + 1 equals 2**53 as doubles, but not as integers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeGuard

import pyarrow as pa

from watersmeet.physical.strategy import Code, Equality, JoinStrategy
from watersmeet.plan.expressions import Call, Expression, Literal

Filters = Mapping[str, tuple[Expression, ...]]


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
        for code, test in _implied_tests(group, filters):
            filters[code.stream] = (*filters.get(code.stream, ()), test)
    return replace(strategy, equalities=(*strategy.equalities, *implied), filters=filters)


def _implied_tests(group: Sequence[Code], filters: Filters) -> list[tuple[Code, Call]]:
    """The tests on constants that some codes must pass because an equal one must. Not of floating point: that 0.0
    equals -0.0 is left to the comparison."""
    found: list[tuple[Code, Call]] = []
    for code in group:
        for other in group:
            own, its = code.expression, other.expression
            if other == code or own.type != its.type or pa.types.is_floating(own.type):
                continue
            known = filters.get(code.stream, ())
            implied = (
                replace(test, args=(own, *test.args[1:])) for test in filters.get(other.stream, ()) if _tests(test, its)
            )
            found += [(code, test) for test in implied if test not in known and (code, test) not in found]
    return found


def _tests(test: Expression, tested: Expression) -> TypeGuard[Call]:
    """Whether an expression must be one of some constants."""
    if not isinstance(test, Call) or test.function not in ("eq", "in") or test.args[0] != tested:
        return False
    return all(isinstance(one, Literal) and one.value is not None and one.type == tested.type for one in test.args[1:])


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
