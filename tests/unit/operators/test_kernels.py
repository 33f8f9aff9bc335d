"""Each kernel against a plain twin: the same thing written with lists and loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.effort import random_cases
from tests.runners import Source, bound_plan
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.kernels.chains import link, move
from watersmeet.operators.kernels.changes import cells_in_turn, leaving_first, sort_into_cells, where_signs_meet
from watersmeet.operators.kernels.hashing import combine, finish, hash_bytes
from watersmeet.operators.kernels.rows import disorder
from watersmeet.operators.kernels.spread import coordinates, divided, nth_later
from watersmeet.operators.kernels.walk import first_at_least, next_inside
from watersmeet.optimizer.stages import optimize
from watersmeet.plan.nodes import Join, Project

Numbers = npt.NDArray[np.int64]
INT64 = np.iinfo(np.int64)
NEVER = 2**61
BITS_64 = 2**64 - 1

some = random_cases(80)
small_ints = st.integers(-5, 5)
any_ints = st.integers(INT64.min, INT64.max)


# -- changes at instants ---------------------------------------------------------------------------------------------


@some
@given(
    st.lists(st.tuples(st.integers(0, 2), st.one_of(small_ints, any_ints), st.sampled_from([-1, 1])), max_size=200),
    st.integers(0, 2),
)
def test_changes_are_sorted_by_instant_and_what_can_cancel_is_found(made: list[tuple[int, int, int]], few: int) -> None:
    made = sorted(
        [(instant // (few + 1), number, diff) for instant, number, diff in made], key=lambda one: (one[0], one[2])
    )
    instants, ids, diffs = np.array(made, np.int64).reshape(-1, 3).T.copy()
    n = len(made)
    order, ends = np.empty(n, np.int64), np.empty(n, np.int64)
    cells = sort_into_cells(instants, ids, order, ends)
    assert order.tolist() == sorted(range(n), key=lambda i: made[i][:2])
    assert ends[:cells].tolist() == np.cumsum(list(Counter(sorted(one[:2] for one in made)).values())).tolist()
    found = np.empty(n, np.int64)
    signs = {one[:2]: {other[2] for other in made if other[:2] == one[:2]} for one in made}
    expected = [i for i, one in enumerate(made) if len(signs[one[:2]]) == 2]
    assert found[: where_signs_meet(instants, ids, diffs, found)].tolist() == expected
    mixed = ids & 1
    signed = 2 * mixed - 1
    assert leaving_first(instants, signed, order)
    assert order.tolist() == np.lexsort((signed, instants)).tolist()
    assert leaving_first(instants[::-1].copy(), signed, order) == (len(set(instants.tolist())) < 2)


@pytest.mark.parametrize("most", [3, 1_000, 70_000, 2**31 - 1])
@pytest.mark.parametrize("count", [2, 3, 32, 33, 200, 5_000])
def test_changes_of_an_instant_are_sorted_by_group_and_stay_in_order_within(count: int, most: int) -> None:
    """The first rows leave at the instant at which the others come."""
    random, leaving = np.random.default_rng(count + most), count // 3
    groups = random.integers(0, most, count, endpoint=True)
    deaths = np.where(np.arange(count) < leaving, 7, 9)
    births = np.full(count - leaving, 7)
    births.flags.writeable = False
    out, counts = np.empty((6, count), np.int64), np.ones(most + 1 if most < 2**20 else 0, np.int64)
    if not counts.size:
        groups, counts = groups >> 11, np.ones(2**20, np.int64)
    cells = cells_in_turn(births, deaths, groups, 0, count, leaving, counts, out, np.empty(count, np.bool_))
    order = np.argsort(groups, kind="stable")
    assert out[0].tolist() == order.tolist()
    assert out[1].tolist() == groups[order].tolist()
    assert out[2].tolist() == np.where(order < leaving, -1, 1).tolist()
    assert cells == np.unique(groups).size
    order, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    sort_into_cells(np.zeros(count, np.int64), groups[:count] - 5, order, ends)
    assert order.tolist() == np.argsort(groups[:count], kind="stable").tolist()


# -- hashing ---------------------------------------------------------------------------------------------------------


def plain_combine(so_far: int, code: int) -> int:
    return ((so_far ^ (code & BITS_64)) * 0x9E3779B97F4A7C15) & BITS_64


def plain_finish(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & BITS_64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & BITS_64
    return x ^ (x >> 31)


def plain_hash(value: bytes) -> int:
    h = plain_combine(0, len(value))
    whole = len(value) // 8 * 8
    for i in range(0, whole, 8):
        h = plain_finish(h ^ int.from_bytes(value[i : i + 8], "big"))
    h = plain_finish(h ^ int.from_bytes(value[whole:], "big"))
    return h - 2**64 if h >= 2**63 else h


@some
@given(st.integers(0, BITS_64), any_ints)
def test_hashes_are_folded_as_written_down(so_far: int, code: int) -> None:
    with np.errstate(over="ignore"):
        assert int(combine.py_func(np.uint64(so_far), np.int64(code).astype(np.uint64))) == plain_combine(so_far, code)
        assert int(finish.py_func(np.uint64(so_far))) == plain_finish(so_far)


@some
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_bytes_hash_as_their_words_do(values: list[bytes]) -> None:
    data = np.frombuffer(b"".join(values), np.uint8)
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
    out = np.empty(len(values), np.int64)
    hash_bytes(data, offsets, out)
    assert out.tolist() == [plain_hash(value) for value in values]


# -- chains ----------------------------------------------------------------------------------------------------------


def chain_of(heads: npt.NDArray[np.int32], following: npt.NDArray[np.int32], bucket: int, tail: int) -> list[int]:
    found, p = [], int(heads[bucket])
    while p >= tail:
        found.append(p)
        p = int(following[p])
    return found


@some
@given(st.data(), st.integers(1, 300), st.integers(1, 3), st.integers(1, 7))
def test_chains_hold_every_live_row_of_a_bucket_newest_first(
    data: st.DataObject, rows: int, key: int, bits: int
) -> None:
    codes = data.draw(arrays(np.int64, (3, rows), elements=small_ints))
    columns = np.arange(key)[::-1].copy()
    heads, following = np.full(1 << bits, -1, np.int32), np.empty(rows, np.int32)
    cut, shift = data.draw(st.integers(0, rows)), np.uint64(64 - bits)
    link(codes, columns, 0, cut, heads, shift, following)
    link(codes, columns, cut, rows, heads, shift, following)
    expected: dict[int, list[int]] = {bucket: [] for bucket in range(1 << bits)}
    for p in range(rows):
        h = 0
        for c in columns:
            h = plain_combine(h, int(codes[c, p]))
        expected[h >> (64 - bits)].insert(0, p)
    tail = data.draw(st.integers(0, rows))
    live = {b: [p for p in chain if p >= tail] for b, chain in expected.items()}
    assert {b: chain_of(heads, following, b, tail) for b in expected} == live
    in_place = data.draw(st.booleans())
    target = following if in_place else np.empty(2 * rows, np.int32)
    move(heads, following, target, rows - tail, tail)
    moved = {b: [p - tail for p in chain] for b, chain in live.items()}
    assert {b: chain_of(heads, target, b, 0) for b in expected} == moved


# -- counting, disorder, searching -----------------------------------------------------------------------------------


@some
@given(st.lists(st.integers(0, 4), max_size=60), st.integers(1, 9))
def test_the_nth_later_row_is_counted_within_the_group(groups: list[int], n: int) -> None:
    times = np.arange(len(groups), dtype=np.int64) * 10
    out = np.empty(len(groups), np.int64)
    nth_later(np.array(groups, np.int64), 5, n, times, NEVER, out)
    expected = []
    for i, group in enumerate(groups):
        later = [int(times[j]) for j in range(i + 1, len(groups)) if groups[j] == group]
        expected.append(later[n - 1] if len(later) >= n else NEVER)
    assert out.tolist() == expected


@some
@given(st.lists(st.integers(-100, 100), max_size=40), st.integers(-100, 100))
def test_disorder_is_the_furthest_a_row_lies_behind_the_newest_before_it(times: list[int], newest: int) -> None:
    behind = [max([newest, *times[:i]]) - t for i, t in enumerate(times)]
    assert disorder(np.array(times, np.int64), newest) == (max([0, *behind]), max([newest, *times]))


@some
@given(arrays(np.int64, st.integers(0, 200), elements=st.integers(-50, 50) | any_ints), st.data())
def test_a_scan_finds_the_next_code_inside_an_interval(codes: Numbers, data: st.DataObject) -> None:
    low, high = sorted(data.draw(st.tuples(*2 * [st.integers(-50, 50) | any_ints])))
    start = data.draw(st.integers(0, codes.size))
    expected = next((p for p in range(start, codes.size) if low <= codes[p] <= high), codes.size)
    found = next_inside(codes.ctypes.data, np.int64(low), np.int64(high), start, codes.size)
    assert found == expected


@some
@given(st.lists(small_ints, max_size=30), small_ints)
def test_a_binary_search_finds_the_first_at_least(values: list[int], x: int) -> None:
    ordered = np.sort(np.array(values, np.int64))
    assert first_at_least(ordered.ctypes.data, len(values), x) == int(np.searchsorted(ordered, x))


# -- pair, star and walk ---------------------------------------------------------------------------------------------

Row = dict[str, int]
Test = Callable[..., bool]
W = 20


def close(*rows: Row, size: int = W) -> bool:
    times = [row["ts"] for row in rows]
    return max(times) - min(times) <= size


def same(column: str) -> Test:
    return lambda *rows: close(*rows) and len({row[column] for row in rows}) == 1


def on_path(a: Row, b: Row, c: Row) -> bool:
    forward = 0 <= b["ts"] - a["ts"] <= 5 and 0 <= c["ts"] - b["ts"] <= 9
    backward = 0 <= a["ts"] - b["ts"] <= 5 and 0 <= b["ts"] - c["ts"] <= 9
    return a["k"] == b["k"] == c["k"] and (forward or backward)


AB, ABC = "SELECT a.k FROM a, b", "SELECT a.k FROM a, b, c"
ALL = f"WINDOW = {W} MICROSECONDS"
WALKS: dict[str, tuple[str, Test]] = {
    "pair": (f"{AB} WHERE a.k = b.k {ALL}", same("k")),
    "star": (f"{ABC} WHERE a.k = b.k AND b.k = c.k {ALL}", same("k")),
    "star, windows of pairs": (
        f"{ABC} WHERE a.k = b.k AND b.k = c.k WINDOW (a, b) = 7 MICROSECONDS AND WINDOW (b, c) = 3 MICROSECONDS",
        lambda a, b, c: a["k"] == b["k"] == c["k"] and close(a, b, size=7) and close(b, c, size=3),
    ),
    "walk, path": (
        f"{ABC} WHERE a.k = b.k AND b.k = c.k WINDOW PATH (a, b, c) = (5 MICROSECONDS, 9 MICROSECONDS)", on_path,
    ),
    "walk, two keys": (
        f"{AB} WHERE a.k = b.k AND a.v = b.v {ALL}", lambda a, b: close(a, b) and (a["k"], a["v"]) == (b["k"], b["v"]),
    ),
    "walk, chain of keys": (
        f"{ABC} WHERE a.k = b.k AND b.v = c.v {ALL}",
        lambda a, b, c: close(a, b, c) and a["k"] == b["k"] and b["v"] == c["v"],
    ),
    "walk, key and comparisons": (
        f"{ABC} WHERE a.k = b.k AND a.v < c.v AND b.v <> c.v {ALL}",
        lambda a, b, c: close(a, b, c) and a["k"] == b["k"] and a["v"] < c["v"] != b["v"],
    ),
    "walk, sorted runs": (
        f"{ABC} WHERE ABS(a.v - b.v) <= 1 AND ABS(b.v - c.v) < 2 {ALL}",
        lambda a, b, c: close(a, b, c) and abs(a["v"] - b["v"]) <= 1 and abs(b["v"] - c["v"]) < 2,
    ),
    "walk, scan of codes": (f"{AB} WHERE a.v >= b.v {ALL}", lambda a, b: close(a, b) and a["v"] >= b["v"]),
    "walk, scan of times": (f"{AB} WHERE true {ALL}", lambda a, b: close(a, b)),
}  # fmt: skip


def random_rows(rng: np.random.Generator, count: int, disordered: bool) -> pa.RecordBatch:
    times = rng.integers(0, 60, count)
    times = times if disordered else np.sort(times)
    return pa.record_batch(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "k": pa.array(rng.integers(0, 3, count), pa.int64()),
            "v": pa.array(rng.integers(0, 6, count), pa.int64()),
        }
    )


def plain_rows(batch: pa.RecordBatch) -> list[Row]:
    times = batch.column("ts").cast(pa.int64()).to_pylist()
    return [{**row, "ts": t} for row, t in zip(batch.to_pylist(), times, strict=True)]


@pytest.mark.parametrize("capacity", [1, 2, 13, 5000])
@pytest.mark.parametrize("disordered", [False, True], ids=["in order", "out of order"])
@pytest.mark.parametrize("name", WALKS)
def test_a_kernel_finds_each_combination_once_however_small_its_output(
    name: str, disordered: bool, capacity: int
) -> None:
    sql, accepts = WALKS[name]
    rng = np.random.default_rng(7)
    aliases = ["a", "b", "c"] if sql.startswith(ABC) else ["a", "b"]
    batches = {alias: random_rows(rng, 60 if len(aliases) == 2 else 25, disordered) for alias in aliases}
    plan = bound_plan(sql, [Source(a, pa.Table.from_batches([b]), lateness="1 hour") for a, b in batches.items()])
    assert isinstance(plan.root, Project)
    assert isinstance(plan.root.child, Join)
    for origin in aliases:
        join = WindowJoin(optimize(plan.root.child), plan.root.columns)
        rows = {alias: Rows(b, b.column("ts").cast(pa.int64()).to_numpy()) for alias, b in batches.items()}
        for alias in aliases:
            if alias != origin:
                list(join.push(alias, rows[alias]))
        program = join.programs[origin]
        assert program.is_star or name.startswith("walk")
        codes = join.door.admit(origin, rows[origin]).codes
        pieces = program.run(rows[origin].times, None, codes, join.stores, capacity)
        found = Counter(tuple(c) for piece in pieces for c in piece.T.tolist())
        plain = [plain_rows(batches[alias]) for alias in aliases]
        expected = Counter(
            tuple(places[aliases.index(alias)] for alias in program.visits)
            for places in product(*(range(len(p)) for p in plain))
            if accepts(*(p[i] for p, i in zip(plain, places, strict=True)))
        )
        assert found == expected
        assert expected


@pytest.mark.parametrize("hot", [0.0, 0.03, 1.0], ids=["few each", "very many of some", "very many each"])
@pytest.mark.parametrize("name", ["pair", "star"])
def test_combinations_come_by_new_row_then_from_new_to_old_however_many_a_row_has(name: str, hot: float) -> None:
    """Rows are met a block at a time, fewer at a time where they find more than there is room for, and one by one."""
    aliases = {"pair": ["a", "b"], "star": ["a", "b", "c"]}[name]
    rng, sizes = np.random.default_rng(5), {"a": 150, "b": 6000, "c": 2000}
    rows: dict[str, Rows] = {}
    for alias in aliases:
        keys = np.where(rng.random(sizes[alias]) < hot, 0, rng.integers(1, 1000, sizes[alias]))
        if alias == "c":
            keys[keys == 0], keys[:2] = 1, 0
        times = np.sort(rng.integers(0, 60, sizes[alias]))
        columns = {"ts": pa.array(times, pa.timestamp("us")), "k": pa.array(keys), "v": pa.array(keys)}
        rows[alias] = Rows(pa.record_batch(columns), times)
    sources = [Source(alias, pa.Table.from_batches([one.data])) for alias, one in rows.items()]
    plan = bound_plan(f"{WALKS[name][0].replace(ALL, '')} WINDOW = 50 MICROSECONDS", sources)
    assert isinstance(plan.root, Project)
    assert isinstance(plan.root.child, Join)
    join = WindowJoin(optimize(plan.root.child), plan.root.columns)
    for alias in aliases[1:]:
        join.store(alias, rows[alias])
    program = join.programs["a"]
    pieces = program.run(rows["a"].times, None, join.door.admit("a", rows["a"]).codes, join.stores, 40_000)
    found = np.concatenate([piece.T.copy() for piece in pieces])  # the next piece takes their place
    key = {alias: one.data.column("k").to_numpy() for alias, one in rows.items()}

    def partners(row: int, alias: str) -> np.ndarray:
        near = np.abs(rows[alias].times - rows["a"].times[row]) <= 50
        return np.flatnonzero((key[alias] == key["a"][row]) & near)[::-1]

    def combinations(row: int) -> np.ndarray:
        met = np.meshgrid([row], *(partners(row, alias) for alias in program.visits[1:]), indexing="ij")
        visits = np.stack([one.ravel() for one in met], axis=1)
        times = np.stack([rows[alias].times[visits[:, at]] for at, alias in enumerate(program.visits)])
        return visits[times.max(axis=0) - times.min(axis=0) <= 50]

    expected = np.concatenate([combinations(row) for row in range(sizes["a"])])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 8])
def test_rows_are_divided_by_the_rest_of_their_hash(parts: int) -> None:
    codes = np.random.default_rng(parts).integers(-(2**63), 2**63 - 1, 1000)
    placed = coordinates(codes, parts)
    finished = [int(finish(np.uint64(code % 2**64))) for code in codes.tolist()]
    assert placed.tolist() == [one % parts for one in finished]
    own = np.empty((parts, codes.size), np.int64)
    counts = divided(codes, own)
    for part in range(parts):
        assert own[part, : counts[part]].tolist() == np.flatnonzero(placed == part).tolist()
