"""Which rows of stored relations to keep: the programs equal trying every choice."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import DataError
from watersmeet.papers.shedding.static import (
    Components,
    components,
    delete,
    drop_least_damaging,
    drop_rows,
    kuratowski,
    loss_curve,
    retain,
    retain_by_side,
    retain_rows,
    retention_curve,
)

EXAMPLE = Components(np.array([3, 2, 1]), np.array([1, 2, 4]))  # K(3,1), K(2,2), K(1,4)
RETAINED = [0, 0, 1, 2, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11]
LOST = [0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 9, 10, 11, 11]


def random_graph(rng: np.random.Generator) -> Components:
    keys = int(rng.integers(1, 4))
    return Components(rng.integers(0, 4, keys), rng.integers(0, 4, keys))


def every_choice(graph: Components) -> dict[tuple[int, int], int]:
    """The most edges for each number of nodes of either side, over all choices."""
    best: dict[tuple[int, int], int] = {}
    for of_a in product(*(range(m + 1) for m in graph.of_a)):
        for of_b in product(*(range(n + 1) for n in graph.of_b)):
            sides = sum(of_a), sum(of_b)
            best[sides] = max(best.get(sides, 0), int(np.dot(of_a, of_b)))
    return best


def test_one_component_keeps_what_its_formula_says():
    assert [kuratowski(3, 2, p) for p in range(6)] == [0, 0, 1, 2, 4, 6]
    assert [kuratowski(1, 4, p) for p in range(6)] == [0, 0, 1, 2, 3, 4]
    for m, n in product(range(6), range(6)):
        for p in range(m + n + 1):
            assert kuratowski(m, n, p) == max(x * (p - x) for x in range(m + 1) if 0 <= p - x <= n)


def test_the_example_has_the_tables_known_of_it():
    assert retention_curve(EXAMPLE).tolist() == RETAINED
    assert loss_curve(EXAMPLE).tolist() == LOST
    assert [retain(EXAMPLE, k).edges for k in range(14)] == RETAINED
    assert [EXAMPLE.edges - delete(EXAMPLE, k).edges for k in range(14)] == LOST
    assert retain_by_side(EXAMPLE, 3, 3).edges == 5
    assert retain_by_side(EXAMPLE, 2, 4).edges == 4


@pytest.mark.parametrize("seed", range(5))
def test_what_is_retained_equals_the_best_of_all_choices(seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        graph = random_graph(rng)
        best = every_choice(graph)
        for k in range(graph.nodes + 1):
            kept = retain(graph, k)
            assert kept.nodes == k
            assert np.all((kept.of_a >= 0) & (kept.of_a <= graph.of_a) & (kept.of_b >= 0) & (kept.of_b <= graph.of_b))
            assert kept.edges == max(edges for (a, b), edges in best.items() if a + b == k) == retention_curve(graph)[k]
        for (k_a, k_b), edges in best.items():
            kept = retain_by_side(graph, k_a, k_b)
            assert (kept.of_a.sum(), kept.of_b.sum(), kept.edges) == (k_a, k_b, edges)
            assert np.all((kept.of_a <= graph.of_a) & (kept.of_b <= graph.of_b))


def test_tables_keep_whole_rows_and_nulls_meet_nothing():
    a = pa.table({"id": [1, None, 2, 2, 1], "x": list("abcde")})
    b = pa.table({"id": pa.chunked_array([[2, None], [2, 1, None]]), "y": list("vwxyz")})
    kept_a, kept_b = retain_rows(a, b, "id", 4)
    assert kept_a.column("x").to_pylist() == ["c", "d"]
    assert kept_b.column("y").to_pylist() == ["v", "x"]
    assert kept_a.join(kept_b, "id", join_type="inner").num_rows == 4
    for k in range(11):
        some_a, some_b = retain_rows(a, b, "id", k)
        assert some_a.num_rows + some_b.num_rows == k
        assert some_a.join(some_b, "id", join_type="inner").num_rows == retain(components(a["id"], b["id"]), k).edges
    assert [side.num_rows for side in retain_rows(a, b, "id", (3, 1))] == [3, 1]


def least_loss(counts: np.ndarray, drops: tuple[int, ...]) -> int:
    ways = [
        [way for way in product(*(range(c + 1) for c in relation)) if sum(way) == drop]
        for relation, drop in zip(counts, drops, strict=True)
    ]
    whole = counts.prod(axis=0).sum()
    return int(min(whole - (counts - np.array(choice)).prod(axis=0).sum() for choice in product(*ways)))


@pytest.mark.parametrize("relations", [2, 3])
def test_dropping_the_least_damaging_loses_at_most_m_times_the_least(relations: int):
    rng = np.random.default_rng(relations)
    worse = 0
    for _ in range(60):
        counts = rng.integers(0, 4, (relations, 3))
        drops = tuple(int(rng.integers(0, total + 1)) for total in counts.sum(axis=1))
        dropped, least = drop_least_damaging(counts, drops), least_loss(counts, drops)
        assert dropped.rows.sum(axis=1).tolist() == list(drops)
        assert np.all((dropped.rows >= 0) & (dropped.rows <= counts))
        assert dropped.lost == counts.prod(axis=0).sum() - (counts - dropped.rows).prod(axis=0).sum()
        assert dropped.at_least <= least <= dropped.lost <= relations * dropped.at_least
        worse += dropped.lost > least
    assert worse  # an approximation, and the instances show it


def test_tables_lose_the_rows_that_are_in_the_fewest_results():
    a, b, c = (pa.table({"id": ids}) for ids in ([1, 1, 2, 3], [1, 2, 2], [1, 2, 2, None]))
    left = drop_rows([a, b, c], "id", [2, 0, 1])
    assert [table.column("id").to_pylist() for table in left] == [[1, 2], [1, 2, 2], [1, 2, 2]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: retain(EXAMPLE, 14), "there are 13 rows of both sides, so 14 of them cannot be chosen"),
        (lambda: delete(EXAMPLE, -1), "so -1 of them cannot be chosen; choose 0 to 13"),
        (lambda: retain_by_side(EXAMPLE, 7, 0), "there are 6 rows of the first side"),
        (lambda: kuratowski(2, 1, 4), r"K\(2, 1\) has 3 nodes"),
        (lambda: Components(np.array([1]), np.array([1, 2])), "there are 1 and 2"),
        (lambda: drop_least_damaging(np.array([[1], [1]]), [1]), "2 relations need as many numbers"),
        (lambda: retain_rows(pa.table({"a": [1]}), pa.table({"b": [1]}), "a", 1), "no column 'a' to join on"),
    ],
)
def test_what_cannot_be_chosen_is_refused(call, message):
    with pytest.raises(DataError, match=message):
        call()
