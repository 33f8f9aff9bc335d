"""The store in which rows lose their memory: whatever happens to it, slots, levels and values stay right."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.keeping.kernels import contest
from watersmeet.operators.keeping.online_statistics import KeyCounts
from watersmeet.operators.keeping.store import SheddingStore, Worth
from watersmeet.physical.strategy import Code, Equality
from watersmeet.plan.expressions import Column

PAYLOAD = {
    "id": pa.int64(), "small": pa.int8(), "flag": pa.bool_(), "text": pa.string(), "long": pa.large_binary(),
    "money": pa.decimal128(12, 2), "list": pa.list_(pa.int64()), "word": pa.dictionary(pa.int32(), pa.string()),
}  # fmt: skip


def payload_of(ids: np.ndarray) -> dict[str, pa.Array]:
    """Values that the ids tell, with NULLs and empty ones among them, and some that are long."""
    texts = [None if i % 7 == 0 else "" if i % 5 == 0 else f"text {i} " * (300 if i % 101 == 1 else 1) for i in ids]
    return {
        "id": pa.array(ids),
        "small": pa.array([None if i % 11 == 0 else i % 100 for i in ids], pa.int8()),
        "flag": pa.array([None if i % 13 == 0 else i % 3 == 0 for i in ids], pa.bool_()),
        "text": pa.array(texts, pa.string()),
        "long": pa.array([text and text.encode() for text in texts], pa.large_binary()),
        "money": pa.array([None if i % 3 == 0 else Decimal(int(i)) / 100 for i in ids], pa.decimal128(12, 2)),
        "list": pa.array([None if i % 9 == 0 else [i] * (i % 4) for i in ids], pa.list_(pa.int64())),
        "word": pa.array([f"word {i % 17}" for i in ids]).dictionary_encode(),
    }


def slots_are_right(store: SheddingStore) -> None:
    slots = store.slot_of[store.tail : store.head]
    used, free = slots[slots >= 0], store.free[: store.free_count]
    assert np.array_equal(np.sort(np.concatenate([used, free])), np.arange(store.slot_count))
    assert store.kept == used.size
    texts = store.columns["text"]
    assert (texts.live_rows, texts.live_bytes) == (used.size, np.maximum(texts.lengths[used], 0).sum())


def contest_is_right(store: SheddingStore) -> None:
    start, end, competing, limit, left_at_limit, passed = store.contest.tolist()
    held, levels = store.held[start:end], store.levels[start:end]
    inside = levels != contest.GAP
    assert np.all(np.diff(held) > 0)
    mature = store.tail + np.flatnonzero(store.slot_of[store.tail : store.mature_until] >= 0)
    assert np.array_equal(held[inside], mature)
    assert competing == np.count_nonzero(inside)
    assert np.array_equal(store.sizes, np.bincount(levels[inside], minlength=store.sizes.size))
    places = np.arange(start, end)
    assert not np.any(levels[places < passed] < limit)
    assert not np.any(levels[places < min(left_at_limit, passed)] == limit)


def values_are_right(store: SheddingStore) -> None:
    positions = store.tail + np.flatnonzero(store.slot_of[store.tail : store.head] >= 0)
    ids = store.codes[1][positions]
    for name, expected in payload_of(ids).items():
        found = store.payload[name].gather(positions)
        assert found.type == PAYLOAD[name]
        assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_slots_levels_and_values_stay_right(seed, at_random, forgetful):
    rng = np.random.default_rng(seed)
    store = SheddingStore(2, [(0,)], payload=PAYLOAD, forgetful=forgetful)
    factors = KeyCounts(("a",), (), {"a": {}}, 100).of_partners["a"]
    now = serial = 0

    def worth() -> Worth:
        return Worth(1.0, rng.random(8), 40.0, now, in_rows=False)

    def append() -> None:
        nonlocal now, serial
        count = int(rng.choice([1, 7, 100, 1500 if rng.random() < 0.1 else 30]))
        ids, times = np.arange(serial, serial + count), np.sort(rng.integers(now, now + count + 1, count))
        store.append(times, [rng.integers(0, 9, count), ids], payload_of(ids))
        serial, now = serial + count, int(times[-1])

    def append_ranked() -> None:
        """More than there is memory for: who gets some is told when all are there."""
        nonlocal now, serial
        count = int(rng.choice([1, 7, 64]))
        ids, times = np.arange(serial, serial + count), np.sort(rng.integers(now, now + count + 1, count))
        serial, now, before = serial + count, int(times[-1]), store.kept
        store.promise(count)
        store.append(times, [rng.integers(0, 9, count), ids], payload_of(ids))
        store.break_promises(rng.random(count) < 0.2)
        assert store.kept == before
        mature()
        claimed, victims = store.claimed, int(rng.integers(0, store.competing + 1))
        store.evict(victims)
        assert store.claimed == claimed - victims
        assert store.squeeze_records() == 0
        store.keep_promises(pa.record_batch(payload_of(ids)))
        assert store.kept == store.claimed == claimed - victims

    def mature() -> None:
        store.mature(now - int(rng.integers(0, 30)), int(rng.choice([0, 5, 10_000])), worth(), factors,
                     seed if at_random else None)  # fmt: skip

    def evict() -> None:
        asked, before = int(rng.integers(0, store.competing + 10)), store.kept
        in_order = np.sort(store.levels[store.contest[contest.START] : store.contest[contest.END]])
        victims, slots = store.evict(asked)
        assert victims.size == slots.size == before - store.kept == min(asked, in_order[in_order != contest.GAP].size)
        assert np.all(slots >= 0)
        assert store.gather(slots)["id"].to_pylist() == store.codes[1][victims].tolist()

    def expire() -> None:
        store.expire(now - int(rng.integers(0, 300)))

    def look_again() -> None:
        store.look_again(worth(), factors)

    actions = [
        append,
        append,
        append_ranked,
        mature,
        mature,
        evict,
        evict,
        evict,
        expire,
        look_again,
        store.squeeze_records,
    ]
    for step in range(200):
        rng.choice(actions)()
        slots_are_right(store)
        contest_is_right(store)
        if step % 10 == 0:
            values_are_right(store)
    assert serial > 900


@pytest.mark.parametrize("at_random", [False, True])
def test_the_lowest_go_first_and_of_equals_the_oldest(at_random):
    rng = np.random.default_rng(3)
    store = SheddingStore(1, [(0,)])
    factors = KeyCounts(("a",), (), {"a": {}}, 100).of_partners["a"]
    now = 0
    for _ in range(60):
        count = int(rng.integers(1, 40))
        store.append(now + np.arange(count), [np.zeros(count, np.int64)], {})
        now += count
        store.mature(now, 0, Worth(1.0, 2.0 ** rng.integers(0, 4, 8), 20.0, now, in_rows=False), factors,
                     1 if at_random else None)  # fmt: skip
        start, end = store.contest[contest.START], store.contest[contest.END]
        levels, held = store.levels[start:end].copy(), store.held[start:end].copy()
        inside = levels != contest.GAP
        order = np.lexsort([held[inside], levels[inside]])
        asked = int(rng.integers(0, store.competing // 2 + 1))
        victims, _ = store.evict(asked)
        assert victims.tolist() == np.sort(held[inside][order[:asked]]).tolist()


def test_keys_keep_their_shares_however_many_rows_come() -> None:
    """Floats of 24 bits stand still at 2**24: a hot key must not, while others catch up."""
    a, b = (Code(stream, Column(stream, "k", pa.int64())) for stream in "ab")
    counts = KeyCounts(("a", "b"), (Equality(a, b),), {"a": {a: 0}, "b": {b: 0}}, 1_000)
    codes = np.array([[1] * 9 + [2]] * 1, np.int64).repeat(200_000, axis=1)
    clock = np.zeros(codes.shape[1], np.int64)
    for _ in range(20):
        counts.add("b", codes, 0, codes.shape[1], clock)
    hot, other = counts.of_partners["a"].weights(np.array([[1, 2]], np.int64))
    assert hot / other == pytest.approx(9, rel=1e-3)
    assert hot * counts.per_count("a") == pytest.approx(0.9, rel=1e-3)
