"""Rows that were posted, into all queries that read their stream: acknowledged when all of them have them on the disk,
with how many of them were left out, as far as that is known soon.

A crash may come when some have them and some do not. Then nothing was acknowledged, and the same rows are posted again
under the same key; who has them passes over them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import WatersmeetError
from watersmeet.hosts.local.durable.batches import LeftOut
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.idempotency import IdempotencyKey
from watersmeet.serve.http_error import HttpError, busy
from watersmeet.serve.limits import Limits

ROOM_LOOK_S = 0.01
COUNTED_S = 1.0  # that an acknowledgement waits for a batch to be answered: only then is known which rows were late
_Known = tuple[str, str, bool]


@dataclass
class _Entered:
    """What is on its way into the queries."""

    key: IdempotencyKey | None
    futures: dict[str, asyncio.Future[int]]
    # The queries that had the rows, and in which batch, if that is still known.
    known: dict[str, int | None] = field(default_factory=dict)
    left_out: dict[str, asyncio.Future[LeftOut | None]] = field(default_factory=dict)

    async def counted(self) -> dict[str, LeftOut | None]:
        """What each query left out; None where the rows came before, or it takes long to answer them."""
        if self.left_out:
            await asyncio.wait(self.left_out.values(), timeout=COUNTED_S)
        found = {name: told.result() if told.done() else None for name, told in self.left_out.items()}
        return {**dict.fromkeys(self.known), **found}


class Posts:
    """Used on the event loop: what stands here between two `await`s is done at once."""

    def __init__(self, runs: Mapping[str, DurableExecution], limits: Limits) -> None:
        self._runs = runs
        self._limits = limits
        self._under_way: dict[_Known, _Entered] = {}
        self.posts = self.repeated = 0

    async def take(self, stream: str, rows: pa.RecordBatch, key: IdempotencyKey | None) -> dict[str, Any]:
        """Take rows that were checked; what to tell whoever posted them."""
        runs = {name: run for name, run in self._runs.items() if stream in run.execution.streams}
        entered, is_new = await self._entered(stream, runs, rows, key)
        if entered.futures:
            await asyncio.wait(entered.futures.values())  # which leaves them alone if this request is given up
        try:
            numbers = {name: future.result() for name, future in entered.futures.items()}
        except WatersmeetError as error:
            raise busy(
                f"the rows may not have reached every query: {error.message}",
                "post them again under the same Idempotency-Key or X-Sequence when the server is back",
            ) from None
        # Of no rows under no key nothing is put in, and nothing was taken before.
        is_repeated = not is_new or bool(entered.known and not entered.futures)
        self.posts += 1
        self.repeated += is_repeated
        left_out = await entered.counted()
        failed = [name for name, run in runs.items() if run.failed]
        return {
            "stream": stream,
            "rows": rows.num_rows,
            "batches": {**entered.known, **numbers},
            **_told(left_out),
            "repeated": is_repeated,
            # They have the rows on the disk, and answer them when they are started anew.
            **({"failed": failed} if failed else {}),
        }

    async def _entered(
        self, stream: str, runs: Mapping[str, DurableExecution], rows: pa.RecordBatch, key: IdempotencyKey | None
    ) -> tuple[_Entered, bool]:
        """What was put into the queries, and whether it was just now."""
        await self._room(runs, rows.num_rows)
        known_by = None if key is None else (stream, key.name, key.sequence is None)
        if key is not None and known_by in self._under_way:
            return self._same(self._under_way[known_by], key), False
        known = {} if key is None else self._known(stream, runs, key)
        if key is None and not rows.num_rows:
            return _Entered(None, {}), True
        entered = _Entered(key, {}, known)
        for name, run in runs.items():
            if name not in known:
                logged, left_out = run.put(stream, rows, timeout_s=0, key=key)
                entered.futures[name] = asyncio.wrap_future(logged)
                entered.left_out[name] = asyncio.wrap_future(left_out)
        if known_by is not None and entered.futures:
            self._under_way[known_by] = entered
            all_logged = asyncio.gather(*entered.futures.values(), return_exceptions=True)
            all_logged.add_done_callback(lambda _: self._under_way.pop(known_by))
        return entered, True

    async def _room(self, runs: Mapping[str, DurableExecution], rows: int) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._limits.room_s
        try:
            while not all(run.has_room(rows) for run in runs.values()):
                if loop.time() >= until_s:
                    raise busy("too many rows wait to be answered; none of these was taken", "post more slowly")
                await asyncio.sleep(ROOM_LOOK_S)
        except WatersmeetError as error:
            raise busy(f"{error.message}; none of these was taken", "post them again when the server is back") from None

    def _same(self, entered: _Entered, key: IdempotencyKey) -> _Entered:
        """The same rows once more while the first are on their way."""
        assert entered.key is not None
        if key.sequence != entered.key.sequence:
            raise HttpError(
                409,
                f"the post {entered.key.sequence} of client {key.name!r} is on its way, and this is {key.sequence}",
                "a client that counts its posts waits for each before the next; use several names for several lines",
            )
        _check_digest(key, entered.key.digest)
        return entered

    def _known(self, stream: str, runs: Mapping[str, DurableExecution], key: IdempotencyKey) -> dict[str, int | None]:
        """The queries that have these rows, with their batches."""
        found = {name: run.taken_pushes.find(stream, key) for name, run in runs.items()}
        taken = {name: one for name, one in found.items() if one is not None}
        for one in taken.values():
            if one.sequence == key.sequence:
                _check_digest(key, one.digest)
        if key.sequence is None:
            return {name: one.number for name, one in taken.items()}
        counts = {name: one.sequence or 0 for name, one in taken.items()}
        _check_next(key, key.sequence, min(counts.values(), default=0) + 1)
        known: dict[str, int | None] = {
            name: taken[name].number if count == key.sequence else None
            for name, count in counts.items()
            if count >= key.sequence
        }
        # A query that knows nothing of the client is newer, or lost its first post by a crash: of posts that all others
        # have been told of long ago it wants none.
        if key.sequence < max(counts.values(), default=0):
            known |= {name: None for name, one in found.items() if one is None}
        return known


def _told(left_out: Mapping[str, LeftOut | None]) -> dict[str, Any]:
    """Which rows are late depends on how far a query is; what cannot be read is the same in all."""
    known = next((one for one in left_out.values() if one is not None), None if left_out else LeftOut())
    return {
        "late": {name: None if one is None else one.late for name, one in left_out.items()},
        "skipped": None if known is None else known.skipped,
        "bad": None if known is None else known.bad,
    }


def _check_next(key: IdempotencyKey, sequence: int, expected: int) -> None:
    if sequence > expected:
        raise HttpError(
            409,
            f"post {expected} of client {key.name!r} has not come, and this is {sequence}; no row was taken",
            "X-Sequence counts from 1 by one; GET of the stream tells how many of a client's posts were taken",
            expected=expected,
        )


def _check_digest(key: IdempotencyKey, digest: str) -> None:
    if key.digest != digest:
        what = f"key {key.name!r}" if key.sequence is None else f"number {key.sequence} of client {key.name!r}"
        raise HttpError(
            422, f"other rows were taken under {what}; none of these was", "give every post a key or number of its own"
        )
