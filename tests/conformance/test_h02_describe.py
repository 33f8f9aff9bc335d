"""A strategy described in numbers for H02's algorithms, and algorithms made by name."""

from __future__ import annotations

import pytest

from tests.plans import golden_catalog
from watersmeet.errors import UnsupportedError
from watersmeet.model.time import FOREVER_US
from watersmeet.optimizer.stages import optimize
from watersmeet.papers.joins.description import JoinDescription, Predicate, TimeConstraint, describe
from watersmeet.papers.joins.h02 import CLASSES, Name, make_h02
from watersmeet.papers.joins.shelf import shelf_codes
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.nodes import Join, Project
from watersmeet.sql import bind

S = 1_000_000


def strategy_of(sql: str) -> JoinStrategy:
    root = bind(f"SELECT 1 FROM {sql}", golden_catalog()).root
    assert isinstance(root, Project)
    assert isinstance(root.child, Join)
    return optimize(root.child)


def described(sql: str) -> JoinDescription:
    return describe(strategy_of(sql))


def test_limits_are_closed_and_constraints_as_written() -> None:
    found = described("a, b, c WHERE a.k = b.k WINDOW (a, b) = 2 SECONDS AND DWINDOW (b, c) = 3 SECONDS")
    (only,) = found.alternatives
    assert only.limits == ((0, 2 * S, 5 * S), (2 * S, 0, 3 * S), (2 * S, 0, 0))
    assert set(only.constraints) == {
        TimeConstraint(0, 1, 2 * S),
        TimeConstraint(1, 0, 2 * S),
        TimeConstraint(1, 2, 3 * S),
        TimeConstraint(2, 1, 0),
    }
    assert found.reach_us == (5 * S, 3 * S, 2 * S)


def test_a_path_has_an_alternative_for_each_direction() -> None:
    found = described("a, b, c WHERE a.k = b.k WINDOW PATH (a, b, c) = (1 SECOND, 2 SECONDS)")
    forward, backward = found.alternatives
    assert (forward.limits[0][2], forward.limits[2][0]) == (3 * S, 0)
    assert (backward.limits[0][2], backward.limits[2][0]) == (0, 3 * S)
    assert TimeConstraint(0, 1, S) in forward.constraints
    assert TimeConstraint(1, 0, S) in backward.constraints
    assert found.limits[0][2] == found.limits[2][0] == 3 * S


def test_equalities_are_closed_and_comparisons_stand_once() -> None:
    strategy = strategy_of("a, b, c WHERE a.k = b.k AND b.k = c.k AND a.x < c.x WINDOW = 1 SECOND")
    codes = {alias: [str(code) for code in shelf_codes(strategy, alias)] for alias in "abc"}
    found = describe(strategy).predicates
    written = {
        (f"{'abc'[p.left]}: {codes['abc'[p.left]][p.left_code]}", p.operator, f"{codes['abc'[p.right]][p.right_code]}")
        for p in found
    }
    assert written == {
        ("a: a.k", "eq", "b.k"),
        ("b: b.k", "eq", "c.k"),
        ("a: a.k", "eq", "c.k"),
        ("a: a.x", "lt", "c.x"),
    }


def test_a_band_compares_codes_that_only_new_rows_have() -> None:
    strategy = strategy_of("a, b WHERE a.x BETWEEN b.x - 1 AND b.x + 1 WINDOW = 1 SECOND")
    found = describe(strategy).predicates
    assert len(found) == len(set(found)) >= 2
    for p in found:
        assert p.left_code < len(shelf_codes(strategy, "ab"[p.left]))
        assert p.right_code < len(shelf_codes(strategy, "ab"[p.right]))


def test_codes_are_numbered_as_the_shelf_has_them() -> None:
    strategy = strategy_of("a, b WHERE a.k = b.k AND a.x = b.x WINDOW = 1 SECOND")
    turned = {alias: list(reversed(shelf_codes(strategy, alias))) for alias in "ab"}
    straight, reverse = describe(strategy), describe(strategy, turned)
    assert {(p.left_code, p.right_code) for p in straight.predicates} == {(0, 0), (1, 1)}
    flipped = tuple(Predicate(p.left, 1 - p.left_code, "eq", p.right, 1 - p.right_code) for p in straight.predicates)
    assert reverse.predicates == flipped


def test_rows_windows_and_tables_are_marked() -> None:
    found = described("a [ROWS 3], dim, b [RANGE 2 SECONDS] WHERE a.k = dim.k AND a.k = b.k")
    assert (found.counted, found.static) == ((0,), (1,))
    assert found.limits == ((0, FOREVER_US, FOREVER_US), (FOREVER_US, 0, FOREVER_US), (2 * S, FOREVER_US, 0))


@pytest.mark.parametrize("name", CLASSES)
def test_algorithms_are_made_by_name(name: Name) -> None:
    made = make_h02(name, described("a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 1 SECOND"))
    assert type(made) is CLASSES[name]


@pytest.mark.parametrize(
    ("name", "sql", "why"),
    [
        ("merge", "a [ROWS 3], b [RANGE 1 SECOND] WHERE a.k = b.k", "ROWS windows count rows"),
        ("merge", "a [UNBOUNDED], b [RANGE 1 SECOND] WHERE a.k = b.k", "some pair has none"),
        ("merge", "a, b, dim WHERE a.k = b.k AND a.k = dim.k WINDOW (a, b) = 1 SECOND", "a static table has none"),
        ("hw", "a, b WHERE a.x < b.x WINDOW = 1 SECOND", "needs equalities"),
        ("xjoin", "a, b, c WHERE a.k = b.k WINDOW = 1 SECOND", "some input has none"),
        ("nlw", "a, b, dim WHERE a.k = b.k AND a.k = dim.k WINDOW (a, b) = 1 SECOND", "static table"),
    ],
)
def test_a_join_that_an_algorithm_cannot_answer_is_refused_with_the_reason(name: Name, sql: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why) as refused:
        make_h02(name, described(sql))
    assert "w_join" in str(refused.value)
