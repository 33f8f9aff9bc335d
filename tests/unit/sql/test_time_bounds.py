"""A condition turned into bounds accepts exactly the times that the condition accepts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.plans import golden_catalog
from watersmeet.errors import WindowError
from watersmeet.plan.nodes import Join, Project
from watersmeet.sql import bind

CATALOG = golden_catalog()
SMALL = st.integers(-4, 4)
OPERATORS = {"<": int.__lt__, "<=": int.__le__, "=": int.__eq__, ">=": int.__ge__, ">": int.__gt__}
# The same side of a comparison as SQL and as a function of (a's time, b's time, a number).
SIDES = {
    "a.ts + {n}": lambda a, b, n: a + n,
    "b.ts - {n}": lambda a, b, n: b - n,
    "{n} + b.ts": lambda a, b, n: b + n,
    "a.ts - b.ts - {n}": lambda a, b, n: a - b - n,
    "-(b.ts - a.ts)": lambda a, b, n: a - b,
    "ABS(a.ts - b.ts)": lambda a, b, n: abs(a - b),
    "ABS(b.ts - a.ts + {n})": lambda a, b, n: abs(b - a + n),
    "{n}": lambda a, b, n: n,
    "2 * {n}": lambda a, b, n: 2 * n,
}
TIMES = [side for side in SIDES if side.startswith(("a.ts +", "b.ts -", "{n} + b"))]
SPANS = [side for side in SIDES if side not in TIMES]


def written(side: str, n: int) -> str:
    return side.format(n=f"INTERVAL '{n} microseconds'")


@random_cases(150)
@given(
    sides=st.one_of(
        st.tuples(st.sampled_from(TIMES), st.sampled_from(TIMES)),
        st.tuples(st.sampled_from(SPANS), st.sampled_from(SPANS)),
    ),
    operator=st.sampled_from(sorted(OPERATORS)),
    n=SMALL,
    m=SMALL,
    times=st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=20),
)
def test_bounds_accept_the_same_times(
    sides: tuple[str, str], operator: str, n: int, m: int, times: list[tuple[int, int]]
) -> None:
    condition = f"{written(sides[0], n)} {operator} {written(sides[1], m)}"
    accepts = [OPERATORS[operator](SIDES[sides[0]](a, b, n), SIDES[sides[1]](a, b, m)) for a, b in times]
    made = joined(condition)
    if made is None:
        assert not any(accepts)
    elif not made.predicates:
        assert [admits(made, {"a": a, "b": b}) for a, b in times] == accepts


def joined(condition: str) -> Join | None:
    """The join, or None if the condition contradicts itself."""
    try:
        root = bind(f"SELECT a.k FROM a [UNBOUNDED], b [UNBOUNDED] WHERE {condition}", CATALOG).root
    except WindowError:
        return None
    assert isinstance(root, Project)
    assert isinstance(root.child, Join)
    return root.child


def admits(made: Join, at: dict[str, int]) -> bool:
    return all(at[bound.later] - at[bound.earlier] <= bound.at_most_us for bound in made.bounds)
