"""Priorities are what their definition says, by whatever loop they are worked out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.keeping.kernels import contest
from watersmeet.operators.keeping.kernels.priorities import AT_ONCE, LEVELS, LOWEST, SHIFT, count_keys
from watersmeet.operators.keeping.online_statistics import Factors, KeyCounts
from watersmeet.operators.keeping.store import SheddingStore, Worth
from watersmeet.operators.kernels.hashing import GOLDEN
from watersmeet.physical.strategy import Code, Equality
from watersmeet.plan.expressions import Column

BITS = 12
SHIFTED = np.uint64(64 - BITS)


def bucket_of(key: list[int]) -> int:
    h = np.uint64(0)
    with np.errstate(over="ignore"):
        for code in key:
            h = (h ^ np.uint64(code)) * GOLDEN
    return int(h >> SHIFTED)


def level_of(priority: float) -> int:
    step = int(np.float64(priority).view(np.int64) >> SHIFT) - int(LOWEST)
    return min(max(step, 1), LEVELS - 1) if priority > 0 else 0


@pytest.mark.parametrize("per_bin", [np.inf, 7.0])
@pytest.mark.parametrize("keys", [((0,),), ((0, 1),), ((0,), (1,))])
def test_a_rank_is_the_level_of_how_often_partners_came_for_the_age(keys, per_bin):
    rng = np.random.default_rng(5)
    codes, ages, now = rng.integers(0, 50, (2, 300)), rng.integers(0, 1_000, 300), 900
    counts = rng.integers(0, 9, (len(keys), 1 << BITS)).astype(np.float32)
    firsts = np.cumsum([0, *map(len, keys)])
    factors = np.array([[i, firsts[i], firsts[i + 1]] for i in range(len(keys))])
    columns, by_age = np.array([c for key in keys for c in key]), rng.random(16)
    rows = np.sort(rng.choice(300, 200, replace=False)).astype(np.int32)
    levels, sizes, state = (
        np.empty(rows.size, np.uint16),
        np.zeros(LEVELS, np.int64),
        np.zeros(contest.STATE_FIELDS, np.int64),
    )
    state[contest.END] = rows.size
    contest.rank_from(0, codes, np.zeros(300, np.uint8), ages, now, 3.0, factors, columns, counts, SHIFTED, 0.25,
                      by_age, per_bin, 0.0, rows, levels, sizes, state)  # fmt: skip
    assert np.array_equal(sizes, np.bincount(levels, minlength=LEVELS))
    for row, level in zip(rows, levels, strict=True):
        weight = 3.0
        for i, key in enumerate(keys):
            weight *= float(counts[i, bucket_of([int(codes[c, row]) for c in key])]) + 0.25
        if per_bin < np.inf:
            weight *= by_age[min(max(int((now - ages[row]) / per_bin), 0), by_age.size - 1)]
        assert level == level_of(weight)


@pytest.mark.parametrize("key", [(0,), (0, 1)])
@pytest.mark.parametrize("half_life", [0.0, 3.0, 5_000.0, 100_000.0])
def test_counts_fade_by_half_in_a_half_life_and_rows_of_a_moment_count_the_same(key, half_life):
    rng = np.random.default_rng(6)
    codes, first, last = rng.integers(0, 40, (2, 500)), 17, 480
    clock = np.sort(rng.integers(100, 160, last - first)) + rng.integers(-1, 2, last - first)
    counts = np.zeros((1, 1 << BITS), np.float32)
    tracked = np.array([[0, 0, len(key)]])
    total = count_keys(codes, first, last, tracked, np.array(key), counts, SHIFTED, clock, 100, half_life)
    expected, summed, then = np.zeros(1 << BITS, np.float32), 0.0, np.inf
    for p in range(first, last):
        if not abs(clock[p - first] - then) <= half_life * AT_ONCE:
            then = float(clock[p - first])
        amount = 2.0 ** ((then - 100) / half_life) if half_life else 1.0
        expected[bucket_of([int(codes[c, p]) for c in key])] += np.float32(amount)
        summed += amount
    assert np.array_equal(counts[0], expected)
    assert total == pytest.approx(summed)


def test_rows_that_wait_for_all_to_be_ranked_are_worth_the_same_then():
    rng = np.random.default_rng(7)
    a, b = (Code(stream, Column(stream, "k", pa.int64())) for stream in "ab")
    keys = KeyCounts(("a", "b"), (Equality(a, b),), {"a": {a: 0}, "b": {b: 0}}, 1_000)
    keys.add("b", rng.integers(0, 30, (1, 400)), 0, 400, np.zeros(400, np.int64))
    factors: Factors = keys.of_partners["a"]
    at_once, waiting = SheddingStore(1, [(0,)]), SheddingStore(1, [(0,)])
    for step in range(12):
        count = int(rng.integers(1, 90))
        times, codes = 100 * step + np.sort(rng.integers(0, 90, count)), rng.integers(0, 30, count)
        worth = Worth(1.0, rng.random(8), 40.0, 100 * step, in_rows=False)
        for store in (at_once, waiting):
            store.append(times, [codes], {})
            all_again = store is waiting
            store.mature(100 * step + 60, 5, worth, factors, None, lambda rows, wait=all_again: wait)
            store.look_again(worth, factors)
        asked = int(rng.integers(0, at_once.competing // 2 + 1))
        assert np.array_equal(at_once.sizes, waiting.sizes)
        assert at_once.contest.tolist() == waiting.contest.tolist()
        assert at_once.contest[contest.COMPETING] == at_once.sizes.sum()
        assert at_once.evict(asked)[0].tolist() == waiting.evict(asked)[0].tolist()
