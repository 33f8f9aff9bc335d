"""Buckets share a memory by need: shares add up, follow what rows are worth, and depend on nothing but the counts."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.unit.operators.keeping.test_shedding_join import operator_of, steps, table, two_way
from watersmeet.operators.keeping.sharing import Needs
from watersmeet.operators.memory_bound import Came, Sharing
from watersmeet.plan.memory import Memory

SECOND = 1_000_000


def needs_of(memory: Memory, *, fixed: bool = True, buckets: int = 4, finer: int = 1, window: float = 100.0) -> Needs:
    sharing = Sharing(memory, fixed, ("a", "b"), buckets, finer)
    return Needs(sharing, [(window * SECOND, False)] * 2, [50.0, 80.0])


def came(stream: int, counts: list[int], seconds: tuple[float, float] = (0, 10), width: int = 0) -> Came:
    rows = sum(counts)
    first, last = (int(at * SECOND) for at in seconds)
    return Came(stream, rows, rows * width, first, last, np.array(counts, np.int64))


def rows_of(needs: Needs) -> list[int]:
    return [needs.share_of(bucket).memory.rows or 0 for bucket in range(needs.sharing.buckets)]


def test_where_only_rows_count_shares_follow_their_numbers():
    needs = needs_of(Memory(rows=100))
    needs.add([came(0, [10, 20, 30, 40]), came(1, [40, 30, 20, 10])])
    shares = [needs.share_of(bucket) for bucket in range(4)]
    assert [share.streams["a"].rows for share in shares] == [5, 10, 15, 20]
    assert [share.streams["b"].rows for share in shares] == [20, 15, 10, 5]
    assert rows_of(needs) == [25] * 4


def test_of_memory_that_nobody_needs_each_has_as_much():
    """Rows that come to a bucket with few find room at once, though a share grows only after others have shrunk."""
    needs = needs_of(Memory(rows=1000), fixed=False, buckets=2)
    needs.add([came(0, [100, 0])])
    assert rows_of(needs) == [553, 447]


def test_rows_whose_partners_come_often_have_room_first():
    """Cell 1 of bucket 0 has many partners; the many rows in bucket 1 have few."""
    needs = needs_of(Memory(rows=24), buckets=2, finer=2)
    needs.add([came(0, [1, 40, 8, 0]), came(1, [1, 1, 9, 0])])
    assert needs.share_of(0).streams["a"].rows == 10  # the 8 rows of the cell, somewhat more, and the least
    assert needs.share_of(1).streams["a"].rows == 2
    assert needs.share_of(0).streams["b"].rows == 11  # cell 1 of bucket 1 is worth more, and has but one row of b


def test_in_one_pool_streams_compete():
    """Rows of b have 30 partners each in bucket 1, those of a only two."""
    needs = needs_of(Memory(rows=20), fixed=False, buckets=2, finer=2)
    needs.add([came(0, [0, 30, 0, 0]), came(1, [9, 2, 0, 0])])
    assert rows_of(needs) == [2, 18]
    assert needs.share_of(1).streams == {}


def test_memory_in_bytes_goes_by_what_rows_take():
    needs = needs_of(Memory(size=30_000), fixed=False, buckets=2)
    needs.add([came(0, [100, 0], width=30), came(1, [0, 100], width=320)])
    sizes = [needs.share_of(bucket).memory.size or 0 for bucket in range(2)]
    assert sum(sizes) == 30_000
    assert sizes[1] / sizes[0] == pytest.approx(400 / 80, rel=0.02)


def test_what_came_long_ago_fades():
    needs = needs_of(Memory(rows=11), fixed=False, buckets=2, window=100)
    needs.add([came(0, [100, 0])])
    before = rows_of(needs)
    needs.add([came(0, [0, 100], (1000, 1010))])
    assert before == [9, 2]
    assert rows_of(needs) == [2, 9]


def test_where_keys_come_and_go_worth_is_what_came_of_late():
    """Half a window ago the keys of bucket 0 came, now those of bucket 1."""
    shares = []
    for recent in (1.0, 0.1):
        sharing = Sharing(Memory(rows=62), True, ("a", "b"), 2, 2)
        needs = Needs(sharing, [(100.0 * SECOND, False)] * 2, [1.0, 1.0], recent)
        needs.add([came(stream, [60, 0, 0, 0], (0, 20)) for stream in range(2)])
        needs.add([came(stream, [0, 30, 0, 0], (20, 50)) for stream in range(2)])
        shares.append(rows_of(needs))
    assert shares[0] == [60, 2]
    assert shares[1][1] > 40


def test_a_window_in_rows_fades_by_rows():
    sharing = Sharing(Memory(rows=102), False, ("a", "b"), 2)
    needs = Needs(sharing, [(100, True), (inf, False)], [1.0, 1.0])
    needs.add([came(0, [1000, 0], (0, 0))])
    needs.add([came(0, [0, 1000], (0, 0))])
    assert rows_of(needs)[1] > 98
    needs.add([came(1, [1000, 0], (9000, 9000))])  # kept for ever
    needs.add([came(0, [0, 1], (10**6, 10**6))])
    assert rows_of(needs)[0] > 81


@pytest.mark.parametrize("batch_s", [5, 50, 400])
def test_rows_in_the_windows_are_known_from_the_start(batch_s):
    """Ten rows a second, windows of 100 seconds, however the rows are cut into batches."""
    needs = needs_of(Memory(rows=100), buckets=2, window=100)
    for start in range(0, 1200, batch_s):
        needs.add([came(0, [5 * batch_s] * 2, (start, start + batch_s))])
        expected = 10 * min(start + batch_s, 100)
        assert needs._in_windows()[0].sum() == pytest.approx(expected, rel=0.01)


def test_a_row_from_the_far_future_does_no_harm():
    needs = needs_of(Memory(rows=100), fixed=False, buckets=2)
    needs.add([came(0, [90, 10])])
    needs.add([came(0, [1, 0], (9e12, 9e12))])
    assert sum(rows_of(needs)) == 100
    needs.add([came(0, [10, 90], (20, 30))])
    assert sum(rows_of(needs)) == 100
    assert rows_of(needs)[1] > 80


@pytest.mark.parametrize("allocation", ["fixed", "variable"])
def test_buckets_together_never_keep_more_than_the_memory(allocation):
    """Whichever of them is told first that keys have moved to the other: none is above its share, all the time."""
    options = f"memory = '40 rows', allocation = '{allocation}'"
    rng, buckets = np.random.default_rng(2), []
    for _ in range(2):
        operator = operator_of(two_way(100, options), 2)
        operator.bounded.share_by(Sharing(Memory(rows=40), allocation == "fixed", ("a", "b"), 2))
        buckets.append(operator)
    most = 0
    for number in range(40):
        counts = rng.multinomial(30, rng.dirichlet([0.4, 0.4]))
        seconds = 30 * number, 30 * number + 29
        told = [came(stream, counts.tolist(), seconds) for stream in range(2)]
        for place in rng.permutation(2):
            operator, rows = buckets[place], int(counts[place])
            operator.bounded.take_needs(told, int(place))
            assert operator.kept_rows <= operator.bounded.memory.rows
            times = np.sort(rng.integers(30 * number, 30 * number + 30, rows)) * SECOND
            batch = dict(steps([table(rng.integers(0, 5, rows), times)] * 2, 100)) if rows else {}
            for _ in operator.take(batch, dict.fromkeys("ab", seconds[1] * SECOND)):
                pass
            assert operator.kept_rows <= operator.bounded.memory.rows
            assert sum(one.kept_rows for one in buckets) <= 40  # before the other has had its turn, too
        most = max(most, sum(one.kept_rows for one in buckets))
    assert 36 <= most <= 40


batches = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.integers(0, 1000), min_size=12, max_size=12), st.integers(0, 500)),
    max_size=5,
)


@random_cases(60)
@given(
    st.lists(batches, max_size=4),
    st.booleans(),
    st.sampled_from([1, 3, 4]),
    st.integers(24, 5000),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_shares_are_the_whole_memory_and_the_same_whatever_the_order_of_counts(
    told, fixed, finer, bound, in_rows, luck
):
    buckets = 12 // finer
    memory = Memory(rows=bound) if in_rows else Memory(size=bound * 200)
    one, other = (needs_of(memory, fixed=fixed, buckets=buckets, finer=finer) for _ in range(2))
    for batch in told:
        all_came = [came(stream, counts, (at, at + 1), width=9) for stream, counts, at in batch]
        one.add(all_came)
        luck.shuffle(all_came)
        other.add(all_came)
    shares = [one.share_of(bucket) for bucket in range(buckets)]
    assert shares == [other.share_of(bucket) for bucket in range(buckets)]
    whole = [share.memory.rows if in_rows else share.memory.size for share in shares]
    assert sum(n or 0 for n in whole) in ((bound,) if in_rows else (200 * bound, 200 * bound - 1))
    if in_rows:
        assert min(n or 0 for n in whole) >= 2
    for share in shares if fixed else ():
        assert all((own.rows if in_rows else own.size or 0) >= 1 for own in share.streams.values())
