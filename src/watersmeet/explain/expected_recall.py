"""The recall to expect of a policy, in closed form, from how often keys come.

Rows of a stream fall into classes of one key and one age; all of a class are worth the same. A policy in balance keeps
the classes with the highest priority until the memory is full, so who is kept follows from the sizes of the classes,
and the recall from how many partners of each come. RAND keeps the same share of every class, so its
recall in a join of two streams is that share. Keys are taken to come as often later as they did.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.keeping.policies import POLICIES, AgeCurve
from watersmeet.operators.keeping.store import expected_row_bytes
from watersmeet.optimizer.describe import Description
from watersmeet.physical.estimate import MemoryEstimate
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.expressions import Expression
from watersmeet.plan.shedding import Shedding

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StreamKeys:
    """One stream of a join: rows a second, rows in its window, and of each class of rows its share of the stream and
    how many results a row of it brings a second. `room` is how much of the memory a row takes."""

    rate: float
    rows: float
    shares: Shares
    gains: Shares
    room: float = 1.0


def of_one_key(rates: Sequence[float], rows: Sequence[float], shares: Sequence[Shares]) -> list[StreamKeys]:
    """Streams that are all joined by one key: `shares[u][k]` is how often key k comes in stream u."""
    found = []
    for u in range(len(rates)):
        gains = np.zeros_like(shares[u])
        for v in range(len(rates)):
            if v != u:
                # What a row of u and a new row of v still meet in the windows of the rest.
                others = [rows[x] * shares[x] for x in range(len(rates)) if x not in (u, v)]
                gains += rates[v] * shares[v] * np.prod(others, axis=0)
        found.append(StreamKeys(rates[u], rows[u], shares[u], gains))
    return found


def kept_shares(streams: Sequence[StreamKeys], memory: float, policy: str, allocation: str) -> list[Shares]:
    """For each stream the share of the rows of each class that has memory. `memory` is in the unit of `room`."""
    if policy == "rand":
        return _alike(streams, memory, allocation)
    by_age = POLICIES[policy].by_age(AgeCurve())
    if allocation == "fixed":
        # Each stream has its part to itself and nothing is lent.
        each = memory / len(streams)
        return [_filled([stream], each, by_age)[0] for stream in streams]
    return _filled(streams, memory, by_age)


def expected_recall(streams: Sequence[StreamKeys], kept: Sequence[Shares], *, one_key: bool) -> float:
    """The share of results whose members are all in memory when the last of them comes. With `one_key` the classes of
    all streams are the same keys; else members are taken to be kept or not independently."""
    if one_key:
        exact = sum(_results(streams, [np.ones_like(share) for share in kept], v) for v in range(len(streams)))
        found = sum(_results(streams, kept, v) for v in range(len(streams)))
        return found / exact if exact else 1.0
    met = [_met(stream, share) for stream, share in zip(streams, kept, strict=True)]
    total = sum(stream.rate for stream in streams)
    if not total:
        return 1.0
    found = sum(streams[v].rate * float(np.prod(met[:v] + met[v + 1 :])) for v in range(len(streams)))
    return found / total


def _results(streams: Sequence[StreamKeys], kept: Sequence[Shares], newest: int) -> float:
    """Results a second that new rows of one stream find."""
    found = streams[newest].rate * streams[newest].shares
    for u, stream in enumerate(streams):
        if u != newest:
            found = found * stream.rows * stream.shares * kept[u]
    return float(found.sum())


def _met(stream: StreamKeys, kept: Shares) -> float:
    """Of the results of a stream's rows, the share that those in memory have."""
    weights = stream.shares * stream.gains
    total = float(weights.sum())
    return float(weights @ kept) / total if total else 1.0


def _alike(streams: Sequence[StreamKeys], memory: float, allocation: str) -> list[Shares]:
    needs = [stream.rows * stream.room for stream in streams]
    if allocation == "fixed":
        each = [min(1.0, memory / len(streams) / need) if need else 1.0 for need in needs]
    else:
        each = [min(1.0, memory / sum(needs)) if sum(needs) else 1.0] * len(streams)
    return [np.full_like(stream.shares, share) for stream, share in zip(streams, each, strict=True)]


def _filled(streams: Sequence[StreamKeys], memory: float, by_age: Shares) -> list[Shares]:
    """Memory given to the classes of all these streams by priority for each unit of memory."""
    ages = by_age.size
    # Ages are taken to be spread evenly: a window has as many old rows as new ones.
    needs = [np.repeat(stream.rows * stream.room * stream.shares / ages, ages) for stream in streams]
    worths = [np.outer(stream.gains / stream.room, by_age).ravel() for stream in streams]
    need, worth = np.concatenate(needs), np.concatenate(worths)
    order = np.argsort(-worth, kind="stable")
    got = np.zeros_like(need)
    # What is left once all that is worth more has had its own.
    got[order] = np.clip(memory - (np.cumsum(need[order]) - need[order]), 0.0, need[order])
    # Among equals the order of a sort means nothing.
    got = _evened(worth[order], need[order], got[order], order)
    parts = np.split(got, np.cumsum([one.size for one in needs])[:-1])
    return [
        np.divide(
            part.reshape(-1, ages).sum(axis=1),
            one.reshape(-1, ages).sum(axis=1),
            # Of rows that never come all are kept.
            out=np.ones(one.size // ages),
            where=one.reshape(-1, ages).sum(axis=1) > 0,
        )
        for part, one in zip(parts, needs, strict=True)
    ]


def _evened(worth: Shares, need: Shares, got: Shares, order: npt.NDArray[np.int64]) -> Shares:
    """Classes of equal worth, all in order, share what they got by need; given back in their own order."""
    _, group = np.unique(worth, return_inverse=True)
    needed, given = np.bincount(group, need), np.bincount(group, got)
    # A group that needs nothing lacks nothing.
    share = np.divide(given, needed, out=np.ones_like(given), where=needed > 0)
    own = np.empty_like(got)
    own[order] = need * share[group]
    return own


# ---- the numbers of EXPLAIN, from what is known of rates and keys ---------------------------------------------------

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
        memory = float(shedding.memory.size)
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
        None if shedding.memory.whole is None else shedding.memory.whole.text,
        tuple(dict.fromkeys(table.name for _, table in shedding.frequencies)),
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
