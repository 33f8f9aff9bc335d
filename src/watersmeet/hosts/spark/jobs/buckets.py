"""Bucket ids that Spark's own hash spreads evenly over its partitions."""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def murmur3_of_int(value: int, seed: int = 42) -> int:
    """Spark's hash of one INT column, as a signed 32-bit number."""
    # Murmur3_x86_32 of a single block of 4 bytes. Spark partitions by it with the seed 42.
    k = value * 0xCC9E2D51 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    k = k * 0x1B873593 & _MASK
    h = seed ^ k
    h = (h << 13 | h >> 19) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4  # the length of an INT in bytes, where the final mixing begins
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def balanced_ids(buckets: int) -> list[int]:
    """One id per bucket such that `hash(id) mod buckets` takes every value once.

    They depend on the number of buckets alone, never on a session's settings, because they are the keys of the
    checkpointed state.
    """
    ids: dict[int, int] = {}
    candidate = 0
    while len(ids) < buckets:
        # Python's % is never negative, like the pmod by which Spark chooses a partition.
        ids.setdefault(murmur3_of_int(candidate) % buckets, candidate)
        candidate += 1
    return [ids[i] for i in range(buckets)]
