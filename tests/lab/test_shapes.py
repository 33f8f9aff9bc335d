"""What the checks ask of lines."""

from __future__ import annotations

import pytest

from watersmeet.lab.experiment import Panel, Result
from watersmeet.lab.papers.shapes import (
    all_below,
    all_near,
    falls_then_rises,
    is_falling,
    is_level,
    is_rising,
    line_of,
    near,
    points,
    value_at,
)

RESULT = Result([Panel("p", "x", "y", [1, 2, 5], {"whole": [3.0, 4.0, 9.0], "gap": [None, 4.0, 9.0]})])


def test_lines_are_read_by_name_and_place() -> None:
    assert line_of(RESULT, "whole") == [3, 4, 9]
    assert value_at(RESULT, "whole", 5) == 9
    assert points(RESULT, "gap") == [(2, 4), (5, 9)]
    with pytest.raises(ValueError, match="has no point at 1"):
        value_at(RESULT, "gap", 1)


def test_near_is_within_a_share_of_what_is_expected() -> None:
    assert near(110, 100, 0.1)
    assert not near(111, 100, 0.1)
    assert all_near([1, 2], [1.05, 2.1], 0.1)
    assert not all_near([1, 2], [1.05, 4], 0.1)
    assert is_level([9.9, 10.1, 10], 0.02)
    assert not is_level([9, 10], 0.02)


def test_rising_and_falling_are_strict() -> None:
    assert is_rising([1, 2, 3])
    assert not is_rising([1, 1, 3])
    assert is_falling([3, 2, 1])
    assert not is_falling([3, 3, 1])


def test_a_best_point_lies_inside() -> None:
    assert falls_then_rises([3, 1, 2])
    assert not falls_then_rises([1, 2, 3])
    assert not falls_then_rises([3, 2, 1])
    assert not falls_then_rises([5, 6, 1, 2])


def test_one_line_lies_below_another() -> None:
    assert all_below([1, 2], [1, 3])
    assert not all_below([1, 4], [1, 3])
