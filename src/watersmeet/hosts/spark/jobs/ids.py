"""The keys of the state: an id for each bucket of a job, and one for the guard beside them.

Jobs that are read together share a state, in which each has a slot: a range of ids of its own. They depend on the
number of buckets and on the slot alone, never on a session's settings, because they are in checkpoints.
"""

from __future__ import annotations

GUARD = -1  # in the first slot, the key that is no bucket: ids of buckets are never negative
SLOT_BITS = 16  # of an id, by which it tells the buckets of a slot apart
MOST_BUCKETS = 4_096  # for which a slot has surely ids enough
_MASK = 0xFFFFFFFF


def guard_of(slot: int) -> int:
    return GUARD - slot


def slot_of(key: int) -> int:
    """The slot of a bucket or of a guard.

    >>> [slot_of(key) for key in (guard_of(3), *balanced_ids(4, 3))]
    [3, 3, 3, 3, 3]
    """
    return GUARD - key if key < 0 else key >> SLOT_BITS


def in_its_slot(key: int) -> int:
    """How a bucket or guard is called where only one job is spoken of.

    >>> [in_its_slot(key) for key in (guard_of(3), (3 << SLOT_BITS) + 2)]
    [-1, 2]
    """
    return GUARD if key < 0 else key & ((1 << SLOT_BITS) - 1)


def key_in(slot: int, bucket: int) -> int:
    """A bucket of another slot, as it is called in this one.

    >>> key_in(5, (3 << SLOT_BITS) + 2) == (5 << SLOT_BITS) + 2
    True
    """
    return (slot << SLOT_BITS) + in_its_slot(bucket)


def balanced_ids(buckets: int, slot: int = 0) -> list[int]:
    """One id per bucket such that `hash(id) mod buckets` takes every value once."""
    ids: dict[int, int] = {}
    candidate = slot << SLOT_BITS
    while len(ids) < buckets:
        # Python's % is never negative, like the pmod by which Spark chooses a partition.
        ids.setdefault(murmur3_of_int(candidate) % buckets, candidate)
        candidate += 1
    return [ids[i] for i in range(buckets)]


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


def name_of_source(stream: str) -> str:
    """The name of a source as Spark takes it, of letters, digits and underscores; no two streams have the same.

    >>> name_of_source("clicks"), name_of_source("clicks_2"), name_of_source("grüße")
    ('s_clicks', 's_clicks_5f_2', 's_gr_fc__df_e')
    """
    return "s_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in stream)
