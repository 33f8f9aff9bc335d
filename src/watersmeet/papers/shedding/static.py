"""Joining two stored relations of which only some rows can be kept or sent (DGR03, section 3.1).

Rows are nodes of a join graph, results its edges. In an equi-join each key is a component in which all m rows of one
side meet all n of the other, K(m, n), so the best rows are found by a dynamic program over the keys. Its time grows
with k times the number of rows: it is meant for thousands of rows, or for histograms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.papers.shedding.arrivals import Numbers, as_array
from watersmeet.papers.shedding.kernels.static import by_nodes, by_sides, most_edges


@dataclass(frozen=True, eq=False)
class Components:
    """How many rows of each key are in A and in B."""

    of_a: Numbers
    of_b: Numbers

    def __post_init__(self) -> None:
        if self.of_a.shape != self.of_b.shape:
            raise DataError(f"every key has two counts, but there are {self.of_a.size} and {self.of_b.size}")

    @property
    def nodes(self) -> int:
        return int(self.of_a.sum() + self.of_b.sum())

    @property
    def edges(self) -> int:
        return int(self.of_a @ self.of_b)


def components(a: object, b: object) -> Components:
    """The join graph of two bags of keys. NULLs meet nothing, not even each other.

    >>> graph = components(["x", "x", "y", None], ["x", "z", None])
    >>> graph.nodes, graph.edges
    (7, 2)
    """
    (codes_a, codes_b), size = _encoded([as_array(a), as_array(b)])
    return Components(np.bincount(codes_a, minlength=size), np.bincount(codes_b, minlength=size))


def kuratowski(m: int, n: int, p: int) -> int:
    """C_{m,n}(p): the most edges that p nodes of K(m, n) keep.

    >>> [kuratowski(3, 2, p) for p in range(6)]
    [0, 0, 1, 2, 4, 6]
    """
    if not 0 <= p <= m + n:
        raise DataError(f"K({m}, {n}) has {m + n} nodes, so {p} of them cannot be kept")
    return int(most_edges(m, n, p))


def retain(graph: Components, k: int) -> Components:
    """The k rows that keep the most results, as how many of each key and side.

    >>> kept = retain(components("aaabbc", "abbcccc"), 4)
    >>> kept.of_a.tolist(), kept.of_b.tolist(), kept.edges
    ([0, 2, 0], [0, 2, 0], 4)
    """
    _check(k, graph.nodes, "rows of both sides")
    matched = np.flatnonzero(np.minimum(graph.of_a, graph.of_b))
    m, n = graph.of_a[matched], graph.of_b[matched]
    _, chosen = by_nodes(m, n, k)
    nodes, left = np.zeros(matched.size, np.int64), k
    for i in range(matched.size - 1, -1, -1):  # each choice says which entry of the component before led to it
        nodes[i] = chosen[i, left]
        left -= nodes[i]
    of_a, of_b = np.zeros_like(graph.of_a), np.zeros_like(graph.of_b)
    of_a[matched], of_b[matched] = _sides(m, n, nodes)
    return _filled(graph, of_a, of_b, left)


def delete(graph: Components, k: int) -> Components:
    """What is left when the k rows are deleted that cost the fewest results; the other face of `retain`.

    >>> delete(components("aaabbc", "abbcccc"), 4).edges
    8
    """
    _check(k, graph.nodes, "rows of both sides")
    return retain(graph, graph.nodes - k)


def retention_curve(graph: Components) -> Numbers:
    """The most results that 0, 1, … all rows keep.

    >>> retention_curve(Components(np.array([3, 2, 1]), np.array([1, 2, 4]))).tolist()
    [0, 0, 1, 2, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11]
    """
    matched = np.flatnonzero(np.minimum(graph.of_a, graph.of_b))
    best: Numbers = by_nodes(graph.of_a[matched], graph.of_b[matched], graph.nodes)[0]
    return best


def loss_curve(graph: Components) -> Numbers:
    """The fewest results lost when 0, 1, … all rows are deleted.

    >>> loss_curve(Components(np.array([3, 2, 1]), np.array([1, 2, 4]))).tolist()
    [0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 9, 10, 11, 11]
    """
    return graph.edges - retention_curve(graph)[::-1]


def retain_by_side(graph: Components, k_a: int, k_b: int) -> Components:
    """The k_a rows of A and k_b rows of B that keep the most results.

    >>> graph = Components(np.array([3, 2, 1]), np.array([1, 2, 4]))
    >>> retain_by_side(graph, 3, 3).edges, retain_by_side(graph, 2, 4).edges
    (5, 4)
    """
    _check(k_a, int(graph.of_a.sum()), "rows of the first side")
    _check(k_b, int(graph.of_b.sum()), "rows of the second side")
    matched = np.flatnonzero(np.minimum(graph.of_a, graph.of_b))
    _, chosen = by_sides(graph.of_a[matched], graph.of_b[matched], k_a, k_b)
    of_a, of_b = np.zeros_like(graph.of_a), np.zeros_like(graph.of_b)
    for i in range(matched.size - 1, -1, -1):
        x, y = chosen[i, k_a, k_b]
        of_a[matched[i]], of_b[matched[i]] = x, y
        k_a, k_b = k_a - x, k_b - y
    return Components(of_a + _spread(graph.of_a - of_a, k_a), of_b + _spread(graph.of_b - of_b, k_b))


def retain_rows(a: pa.Table, b: pa.Table, on: str, k: int | tuple[int, int]) -> tuple[pa.Table, pa.Table]:
    """The rows of two tables to keep for a join on a column: k of both together, or a number for each.

    >>> a, b = pa.table({"id": ["x", "y", "y"]}), pa.table({"id": ["y", "z", "y", "x"]})
    >>> [table.column("id").to_pylist() for table in retain_rows(a, b, "id", 4)]
    [['y', 'y'], ['y', 'y']]
    """
    (codes_a, codes_b), size = _encoded([_column(a, on), _column(b, on)])
    graph = Components(np.bincount(codes_a, minlength=size), np.bincount(codes_b, minlength=size))
    kept = retain_by_side(graph, *k) if isinstance(k, tuple) else retain(graph, k)
    return a.filter(pa.array(_first_of_each(codes_a, kept.of_a))), b.filter(
        pa.array(_first_of_each(codes_b, kept.of_b))
    )


@dataclass(frozen=True, eq=False)
class Dropped:
    """How many rows of each relation and key to drop, the results lost by it, and the least that any choice loses."""

    rows: Numbers
    lost: int
    at_least: int


def drop_least_damaging(counts: Numbers, drops: Sequence[int]) -> Dropped:
    """Drop `drops[i]` rows from relation i of a join of m relations on one key: those that are in the fewest results,
    each relation by itself. `counts[i]` says how many rows of each key it has.

    With three relations or more the best choice is NP-hard. This one loses at most m times as much: each relation
    alone must lose what it loses here, and the losses add up at worst.

    >>> dropped = drop_least_damaging(np.array([[3, 1], [1, 2], [1, 2]]), [1, 1, 0])
    >>> dropped.rows.tolist(), dropped.lost, dropped.at_least
    ([[1, 0], [0, 1], [0, 0]], 3, 2)
    """
    relations = len(counts)
    if len(drops) != relations:
        raise DataError(f"{relations} relations need as many numbers of rows to drop, but {len(drops)} were given")
    rows, damages = np.zeros_like(counts), np.zeros(relations, np.int64)
    for i, drop in enumerate(drops):
        _check(drop, int(counts[i].sum()), f"rows of relation {i}")
        damage = np.delete(counts, i, axis=0).prod(axis=0)
        order = np.argsort(damage, kind="stable")
        rows[i, order] = _spread(counts[i, order], drop)
        damages[i] = rows[i] @ damage
    lost = counts.prod(axis=0).sum() - (counts - rows).prod(axis=0).sum()
    return Dropped(rows, int(lost), int(damages.max(initial=0)))


def drop_rows(tables: Sequence[pa.Table], on: str, drops: Sequence[int]) -> list[pa.Table]:
    """Tables without the rows that `drop_least_damaging` chooses, for a join of all of them on one column.

    >>> a, b, c = (pa.table({"id": ids}) for ids in (["x", "y"], ["x", "x", "y"], ["x", "y"]))
    >>> [table.column("id").to_pylist() for table in drop_rows([a, b, c], "id", [1, 0, 0])]
    [['x'], ['x', 'x', 'y'], ['x', 'y']]
    """
    codes, size = _encoded([_column(table, on) for table in tables])
    counts = np.array([np.bincount(code, minlength=size) for code in codes])
    kept = counts - drop_least_damaging(counts, drops).rows
    masks = (_first_of_each(code, quota) for code, quota in zip(codes, kept, strict=True))
    return [table.filter(pa.array(mask)) for table, mask in zip(tables, masks, strict=True)]


def _sides(m: Numbers, n: Numbers, nodes: Numbers) -> tuple[Numbers, Numbers]:
    """Nodes of each component dealt to its sides in turn, the larger side first, and the rest to the larger one."""
    lesser = np.minimum(np.minimum(m, n), nodes // 2)
    return np.where(m >= n, nodes - lesser, lesser), np.where(m >= n, lesser, nodes - lesser)


def _filled(graph: Components, of_a: Numbers, of_b: Numbers, spare: int) -> Components:
    """Rows that add no result, so that as many are kept as asked for."""
    more_a = _spread(graph.of_a - of_a, spare)
    more_b = _spread(graph.of_b - of_b, spare - int(more_a.sum()))
    return Components(of_a + more_a, of_b + more_b)


def _spread(room: Numbers, amount: int) -> Numbers:
    """An amount dealt out from the front, to each place as much as it has room for."""
    dealt: Numbers = np.clip(amount - (np.cumsum(room) - room), 0, room)
    return dealt


def _first_of_each(codes: Numbers, quota: Numbers) -> npt.NDArray[np.bool_]:
    """Which rows are among the first `quota[code]` of their code."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(quota.size))
    rank = np.arange(codes.size) - starts[codes[order]]
    chosen = np.empty(codes.size, np.bool_)
    chosen[order] = rank < quota[codes[order]]
    return chosen


def _encoded(columns: Sequence[pa.Array]) -> tuple[list[Numbers], int]:
    """Keys of several relations numbered alike, and how many numbers there are. The NULLs of each relation have a
    number of their own, as they meet nothing."""
    encoded = pc.dictionary_encode(pa.concat_arrays(columns))
    known = len(encoded.dictionary)
    size = known + len(columns) if encoded.null_count else known
    codes = encoded.indices.cast(pa.int64()).fill_null(known).to_numpy()
    parts = np.split(codes, np.cumsum([len(column) for column in columns])[:-1])
    return [np.where(part == known, known + i, part) for i, part in enumerate(parts)], size


def _column(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        raise DataError(f"there is no column {name!r} to join on; there are {', '.join(table.column_names)}")
    return as_array(table.column(name))


def _check(k: int, most: int, of_what: str) -> None:
    if not 0 <= k <= most:
        raise DataError(f"there are {most} {of_what}, so {k} of them cannot be chosen; choose 0 to {most}")
