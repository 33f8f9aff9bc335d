"""Which joins walk together: those that find about as much, where each looks through less than it would walk."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from watersmeet.operators.join.shared_walk import WalkSeen
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.optimizer.share_walks import WalkCost, expected_walk, walks_together
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.runtime.script import read_script


def seen(*found: float, rows: float = 1000) -> list[WalkSeen]:
    return [WalkSeen(1, rows, one) for one in found]


def test_those_that_find_little_walk_with_all() -> None:
    assert walks_together(seen(10, 90, 0, 40)) == [[0, 1, 2, 3]]


def test_before_anything_is_known_all_walk_together() -> None:
    assert walks_together([WalkSeen(1)] * 3) == [[0, 1, 2]]


def test_one_that_finds_very_much_walks_by_itself() -> None:
    assert walks_together(seen(10, 1_000_000, 20)) == [[0, 2], [1]]


def test_several_that_find_very_much_do_not_share_with_those_that_find_little() -> None:
    groups = walks_together(seen(10, 1_000_000, 20, 1_000_000, 15, 1_000_000))
    assert [0, 2, 4] in groups
    assert all(1 not in group or 0 not in group for group in groups)


def test_of_two_that_find_much_each_walks_itself() -> None:
    """Finding is then what takes time, and what is found has to be looked at by each anyway."""
    assert walks_together(seen(500_000, 500_000)) == [[0], [1]]


@random_cases(60)
@given(st.lists(st.sampled_from([0, 5, 300, 2000, 9000, 80_000]), min_size=1, max_size=6))
def test_no_other_way_to_divide_them_takes_less(found: list[int]) -> None:
    walks = seen(*found)

    def takes(groups: list[list[int]]) -> float:
        return sum(whole([WalkCost.of(walks[place]) for place in group]).together_ns for group in groups)

    def whole(costs: list[WalkCost]) -> WalkCost:
        total = costs[0]
        for one in costs[1:]:
            total = total.with_all_of(one)
        return total

    groups = walks_together(walks)
    assert sorted(place for group in groups for place in group) == list(range(len(walks)))
    assert takes(groups) <= min(map(takes, divisions(list(range(len(walks)))))) * (1 + 1e-9)


def divisions(places: list[int]) -> list[list[list[int]]]:
    if not places:
        return [[]]
    first, rest = places[0], places[1:]
    found = []
    for size in range(len(rest) + 1):
        for others in combinations(rest, size):
            left = [one for one in rest if one not in others]
            found += [[[first, *others], *one] for one in divisions(left)]
    return found


@pytest.mark.parametrize(("width", "found"), [(10, 400.0), (100, 4000.0)])
def test_what_is_expected_goes_by_declared_rates(width: int, found: float) -> None:
    declared = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (source = 'parquet', path = '{name}.parquet', "
        "time = 'ts', rate = '100/s', distinct = 'k: 250');"
        for name in "ab"
    )
    query = f"SELECT a.v, b.v AS w FROM a [RANGE {width} SECONDS], b [RANGE {width} SECONDS] WHERE a.k = b.k"
    node = plan_query(read_script(declared + query, open_sources=False)[0].plan).root
    assert isinstance(node, WindowJoinNode)
    assert expected_walk(node.strategy, "a") == WalkSeen(1, 100.0, pytest.approx(found))
