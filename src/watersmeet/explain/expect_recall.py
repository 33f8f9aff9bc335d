"""What a bound on the memory of a join should cost: the numbers of EXPLAIN, from what is known of rates and keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.explain.expected_recall import Shares, StreamKeys, expected_recall, kept_shares, of_one_key
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.keeping.allocation import SLACK
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.keeping.store import expected_row_bytes
from watersmeet.optimizer.describe import Description
from watersmeet.physical.estimate import MemoryEstimate
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.expressions import Expression
from watersmeet.plan.shedding import Shedding

TEXT_BYTES = 16.0
Columns = tuple[tuple[str, Expression], ...]


def expect_recall(strategy: JoinStrategy, columns: Columns, shedding: Shedding) -> MemoryEstimate:
    """Every number is measured if there are measurements, else declared, else assumed; keys that nothing is known of
    are taken to come equally often."""
    description = Description(strategy)
    # Made only to be asked how much memory its rows would take; nothing is pushed into it.
    stores = BoundedMemory(Layout(strategy, columns), shedding).shed
    aliases = tuple(stores)
    row_bytes = {a: expected_row_bytes(s, dict.fromkeys(s.columns, TEXT_BYTES)) for a, s in stores.items()}
    rows = {alias: description.rows[alias] for alias in aliases}
    streams, one_key = _streams(description, aliases)
    memory = float(shedding.memory.rows or 0)
    if shedding.memory.size is not None:
        # the bytes of fresh rows are within the bound
        memory = shedding.memory.size / (1 + SLACK)
        streams = [_with_room(stream, row_bytes[alias]) for alias, stream in zip(aliases, streams, strict=True)]
    kept = kept_shares(streams, memory, shedding.policy, shedding.allocation)
    rows_kept = {
        alias: stream.rows * float(stream.shares @ share)
        for alias, stream, share in zip(aliases, streams, kept, strict=True)
    }
    bytes_needed = sum(rows[alias] * row_bytes[alias] for alias in aliases)
    mean = bytes_needed / sum(rows.values()) if sum(rows.values()) else max(row_bytes.values(), default=1.0)
    allowed = shedding.memory.rows if shedding.memory.rows is not None else memory / mean
    return MemoryEstimate(
        shedding.policy,
        shedding.allocation,
        rows,
        rows_kept,
        bytes_needed,
        float(allowed),
        float(shedding.memory.size if shedding.memory.size is not None else allowed * mean),
        expected_recall(streams, kept, one_key=one_key),
        "measured" if strategy.measured else "assumed",
    )


def _with_room(stream: StreamKeys, room: float) -> StreamKeys:
    return StreamKeys(stream.rate, stream.rows, stream.shares, stream.gains, room)


def _streams(description: Description, aliases: Sequence[str]) -> tuple[list[StreamKeys], bool]:
    """The streams with their classes of rows, and whether these are the values of one key that all share."""
    rates = [description.rates[alias] for alias in aliases]
    rows = [description.rows[alias] for alias in aliases]
    keys = description.key_shares()
    if len(keys) == 1 and set(aliases) <= set(keys[0][1]):
        shares = [np.asarray(keys[0][1][alias], np.float64) for alias in aliases]
        return of_one_key(rates, rows, shares), True
    if not any(found for _, found in keys):
        # One class that all rows fall into: keys come equally often.
        return of_one_key(rates, rows, [np.ones(1) for _ in aliases]), True
    return [_by_sample(description, alias) for alias in aliases], False


def _by_sample(description: Description, alias: str) -> StreamKeys:
    """Classes are the rows of a sample; each brings as many results as its keys come in the inputs next to it."""
    gains: Shares = np.ones(1)
    for codes, shares in description.key_shares():
        own = description.sample(codes[alias]) if alias in codes else None
        if own is None or alias not in shares:
            continue
        values = _values(description, codes)
        # Where the values of the sample stand in the list that shares go by.
        place = np.searchsorted(values, own)
        partners = [np.asarray(shares[other])[place] for other in codes if other != alias and other in shares]
        gains = gains * np.prod(partners, axis=0)
    even = np.full(gains.size, 1.0 / gains.size)
    # A factor common to all rows: only ratios of gains matter here.
    return StreamKeys(description.rates[alias], description.rows[alias], even, gains * sum(description.rates.values()))


def _values(description: Description, codes: object) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The values that the shares of a key stand for."""
    assert isinstance(codes, dict)
    samples = [description.sample(code) for code in codes.values()]
    return np.unique(np.concatenate([sample for sample in samples if sample is not None]))
