"""Percentiles against DuckDB, and the ordered structures beneath them against sorted lists."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tests.unit.histories import aggregated, history, plain, run, same
from watersmeet.operators.continuous.aggregates import make_aggregator
from watersmeet.operators.continuous.aggregates.dictionary import Dictionary
from watersmeet.operators.continuous.aggregates.labels import LIMIT, even_labels, labels_between
from watersmeet.operators.continuous.aggregates.ordered_rows import Tree
from watersmeet.operators.continuous.top_k import TopKWindow
from watersmeet.operators.kernels.ordered import (
    HEIGHT,
    KIDS,
    NEEDS_ROOM,
    ROOT,
    SIZE,
    SPARE,
    USED,
    WEIGHTS,
    id_at,
    insert_all,
    remove,
    rows_before,
)
from watersmeet.plan.expressions import Literal

SHARES = [0, 1, 0.5, 0.25, 0.1, 0.95, 1 / 3, 0.999]


def neighbours(values: list[Any], share: float) -> tuple[float, float, float]:
    """The values on both sides of a percentile, as the nearest doubles, and how far it lies from the first."""
    ordered = sorted((float(v) + 0.0 for v in values), key=lambda v: (math.isnan(v), v))
    place = (len(ordered) - 1) * share
    return ordered[math.floor(place)], ordered[math.ceil(place)], place - math.floor(place)


def plain_percentile(values: list[Any], share: float) -> float | None:
    if not values:
        return None
    low, high, part = neighbours(values, share)
    return low if low == high or part == 0 else low * (1 - part) + high * part


@pytest.mark.parametrize("share", SHARES)
def test_the_plain_percentile_is_that_of_duckdb(share: float) -> None:
    """To the last bit where nothing is rounded; else DuckDB may be compiled to round twice instead of three times."""
    rng = np.random.default_rng(7)
    with duckdb.connect() as database:
        for count in (1, 2, 3, 10, 101):
            for sample in (rng.normal(size=count), rng.integers(0, 5, count) / 4, 10.0 ** rng.integers(-9, 9, count)):
                database.register("sample", pa.table({"x": sample}))
                theirs = database.sql(f"SELECT quantile_cont(x, {share!r}) FROM sample").fetchall()[0][0]
                low, high, part = neighbours(list(sample), share)
                allowed = 0 if part in (0, 0.5) else 2 * math.ulp(max(abs(low), abs(high)))
                assert plain_percentile(list(sample), share) == pytest.approx(theirs, rel=0, abs=allowed)


@pytest.mark.parametrize("share", SHARES)
def test_percentiles_are_those_of_the_rows_that_are_in(share: float) -> None:
    rng = np.random.default_rng(11)
    samples: dict[pa.DataType, list[Any]] = {
        pa.int64(): [int(x) for x in rng.integers(-20, 20, 300)],
        pa.uint64(): [int(x) for x in rng.integers(0, 2**64 - 1, 300, dtype=np.uint64)],
        pa.float64(): [
            float(x) for x in rng.choice([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, 1e308, -7.25], 300)
        ],
        pa.float32(): [float(np.float32(x)) for x in rng.normal(size=300)],
        pa.decimal128(12, 3): [Decimal(int(x)).scaleb(-3) for x in rng.integers(-(10**9), 10**9, 300)],
        pa.decimal128(38, 3): [Decimal(int(x) * 10**15 + 1).scaleb(-3) for x in rng.integers(-(10**9), 10**9, 300)],
    }
    for data_type, values in samples.items():
        values[::9] = [None] * len(values[::9])
        for fifo, groups in ((True, 2), (False, 30)):
            past = history(values, groups=groups, window=90, fifo=fifo, seed=groups)
            expected = plain(past, lambda live: plain_percentile(live, share))
            aggregate = aggregated("percentile", data_type, share=share)
            same(run(aggregate, past, fifo=fifo, cuts=5), expected)
            if share == 0.5:
                same(run(aggregated("median", data_type), past, fifo=fifo, cuts=5), expected)


@pytest.mark.parametrize("share", [1.5, -0.1, math.nan, None, "0.5"])
def test_a_percentile_needs_a_share(share: Any) -> None:
    aggregate = aggregated("percentile", pa.float64(), share=0.5)
    broken = replace(aggregate, args=(aggregate.args[0], Literal(share, pa.float64())))
    with pytest.raises(ValueError, match=r"between 0 and 1, for example 0\.95, not"):
        make_aggregator(broken, fifo=True)


# -- the tree --------------------------------------------------------------------------------------------------------


def check_tree(tree: Tree) -> int:
    """Every weight is the sum below it, no node but the root is empty, and no node is lost."""
    nodes, seen = tree.nodes, 0

    def weight(node: int, level: int) -> int:
        nonlocal seen
        seen += 1
        size = int(nodes[node, SIZE])
        assert size > 0 or level == 0
        weights = nodes[node, WEIGHTS : WEIGHTS + size]
        if level < tree.state[HEIGHT]:
            below = [weight(int(kid), level + 1) for kid in nodes[node, KIDS : KIDS + size]]
            assert below == list(weights)
        return int(weights.sum())

    total = weight(int(tree.state[ROOT]), 0)
    assert seen == tree.state[USED] - tree.state[SPARE]
    return total


def add(tree: Tree, keys: list[tuple[int, int]]) -> None:
    rows = np.array([(g, c, 1, -c) for g, c in keys], np.int64).reshape(-1, 4)
    at = np.zeros(2, np.int64)
    while insert_all(rows, at, tree.nodes, tree.state) == NEEDS_ROOM:
        tree.nodes = np.concatenate([tree.nodes, np.zeros_like(tree.nodes)])


@pytest.mark.parametrize("pattern", ["ascending", "descending", "random", "few", "zigzag"])
def test_a_tree_that_fills_and_empties_stays_in_order(pattern: str) -> None:
    rng = np.random.default_rng(5)
    count = 12_000
    codes = {
        "ascending": np.arange(count),
        "descending": -np.arange(count),
        "random": rng.integers(-(2**62), 2**62, count),
        "few": rng.integers(0, 40, count),
        "zigzag": np.arange(count) * np.tile([1, -1], count // 2),
    }[pattern]
    keys = [(int(c) % 3, int(c)) for c in codes]
    tree, plain_keys = Tree(), list[tuple[int, int]]()
    path = np.empty((16, 2), np.int64)
    tallest = 0
    for start in range(0, count, 1_500):
        add(tree, keys[start : start + 1_500])
        for key in keys[start : start + 1_500]:
            insort(plain_keys, key)
        tallest = max(tallest, int(tree.state[HEIGHT]))
        for key in keys[max(0, start - 4_500) : max(0, start - 3_000)]:
            assert remove(tree.nodes, tree.state, path, *key)
            plain_keys.pop(bisect_left(plain_keys, key))
        assert check_tree(tree) == len(plain_keys)
        for position in rng.integers(0, len(plain_keys), 50):
            assert id_at(tree.nodes, tree.state, position) == -plain_keys[position][1]
        for key in [keys[i] for i in rng.integers(0, count, 50)]:
            assert rows_before(tree.nodes, tree.state, *key) == bisect_left(plain_keys, key)
    entries = [((int(g), int(c)), int(w)) for g, c, w, _ in tree.entries()]
    assert entries == sorted(Counter(plain_keys).items())
    assert pattern == "few" or tallest >= 1
    for key in [plain_keys[i] for i in rng.permutation(len(plain_keys))]:
        assert remove(tree.nodes, tree.state, path, *key)
    assert check_tree(tree) == 0
    assert tree.state[HEIGHT] == 0
    assert not remove(tree.nodes, tree.state, path, 0, 0)


# -- the dictionary --------------------------------------------------------------------------------------------------


def test_labels_are_in_the_order_of_values_even_where_room_is_used_up() -> None:
    """Words that always fall between the last two halve the room between labels each time."""
    words = Dictionary(pa.string())
    known: dict[str, int] = {}
    renamings = 0
    for i in range(120):
        fresh = ["b" * i + "a", "b" * i + "c"]
        labels, renaming = words.enter(pa.array(fresh), np.ones(2, np.int64))
        if renaming is not None:
            renamings += 1
            old = list(known)
            known = dict(zip(old, renaming(np.array([known[word] for word in old])).tolist(), strict=True))
        known |= dict(zip(fresh, labels.tolist(), strict=True))
        assert sorted(known, key=known.__getitem__) == sorted(known)
        words.tidy()
    assert renamings
    codes = np.array(list(known.values()))
    assert words.decode(codes, np.ones(codes.size, np.bool_)).to_pylist() == list(known)


def test_labels_are_strictly_between_their_neighbours() -> None:
    rng = np.random.default_rng(1)
    labels = even_labels(50)
    for _ in range(30):
        before = np.sort(rng.integers(0, labels.size + 1, 20))
        bounds = np.concatenate([[-LIMIT], labels, [LIMIT]])
        fresh = labels_between(bounds[before], bounds[before + 1])
        assert fresh is not None
        labels = np.insert(labels, before, fresh)
        assert (np.diff(labels) > 0).all()
    assert labels_between(np.array([0]), np.array([1])) is None


@pytest.mark.parametrize("fifo", [True, False])
@pytest.mark.parametrize("function", ["min", "max", "first", "last"])
def test_extremes_survive_that_labels_are_given_anew(function: str, fifo: bool) -> None:
    """Every word falls between the two before it, one batch per few rows."""
    words, low, high = [], "a", "b"
    for i in range(160):
        words.append(low + "m")
        low, high = (low + "m", high) if i % 2 else (low, low + "m")
    past = history(words, groups=2, window=50, fifo=fifo, seed=4)
    pick = {"min": min, "max": max, "first": lambda v: v[0], "last": lambda v: v[-1]}[function]
    expected = plain(past, lambda live: pick(live) if live else None)
    same(run(aggregated(function, pa.string()), past, fifo=fifo, cuts=150), expected)


# -- the first rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "offset"), [(0, 0), (1, 0), (3, 0), (10, 0), (1_000, 0), (1, 2), (3, 1), (10, 30), (None, 2)]
)
@pytest.mark.parametrize("ids", [6, 200])
def test_the_first_rows_change_as_a_sorted_list_does(limit: int | None, offset: int, ids: int) -> None:
    rng = np.random.default_rng((limit or 0) + ids)
    window = TopKWindow(limit, offset)
    chosen = slice(offset, None if limit is None else offset + limit)
    ranks = rng.permutation(ids) * 10
    live: list[tuple[int, int]] = []
    shown: Counter[int] = Counter()
    for batch in range(12):
        changes, ends, expected = [], [], []
        for instant in range(15):
            before = Counter(row for _, row in sorted(live)[chosen])
            mine = []
            for _ in range(int(rng.integers(1, 6))):
                if live and rng.random() < (0.3 if batch < 6 else 0.6):
                    rank, row = live.pop(int(rng.integers(len(live))))
                    mine.append((row, rank, -1))
                else:
                    row = int(rng.integers(ids))
                    live.append((int(ranks[row]), row))
                    mine.append((row, int(ranks[row]), 1))
            changes += [mine[i] for i in rng.permutation(len(mine))]
            ends.append(len(changes))
            after = Counter(row for _, row in sorted(live)[chosen])
            net = {row: after[row] - before[row] for row in before | after}
            expected += sorted((instant, diff > 0, row, diff) for row, diff in net.items() if diff)
        found = window.apply(*(np.array(column) for column in zip(*changes, strict=True)), np.array(ends))
        assert list(zip(*(part.tolist() for part in found), strict=True)) == [(i, row, d) for i, _, row, d in expected]
        for _, row, diff in zip(*found, strict=True):
            shown[int(row)] += int(diff)
        assert +shown == Counter(row for _, row in sorted(live)[chosen])
        if batch % 3 == 2:
            ranks = ranks * 3 + 1
            live = [(int(ranks[row]), row) for _, row in live]
            window.rerank(np.arange(ids), ranks)
