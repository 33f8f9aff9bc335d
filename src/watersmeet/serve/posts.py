"""Rows that were posted, into all queries that read their stream: acknowledged when all of them have them on the disk.

A crash may come when some have them and some do not. Then nothing was acknowledged, and the same rows are posted again
under the same note; who has them passes over them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from watersmeet.errors import WatersmeetError
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.push_notes import Note
from watersmeet.serve.http_error import HttpError, busy
from watersmeet.serve.limits import Limits

ROOM_LOOK_S = 0.01
_Known = tuple[str, str, bool]


@dataclass
class _Entered:
    """What is on its way into the queries."""

    note: Note | None
    futures: dict[str, asyncio.Future[int]]
    # The queries that had the rows, and in which batch, if that is still known.
    known: dict[str, int | None] = field(default_factory=dict)


class Posts:
    """Used on the event loop: what stands here between two `await`s is done at once."""

    def __init__(self, runs: Mapping[str, DurableExecution], limits: Limits) -> None:
        self._runs = runs
        self._limits = limits
        self._under_way: dict[_Known, _Entered] = {}
        self.posts = self.repeated = 0

    async def take(self, stream: str, rows: pa.RecordBatch, note: Note | None) -> dict[str, Any]:
        """Take rows that were checked; what to tell whoever posted them."""
        runs = {name: run for name, run in self._runs.items() if stream in run.execution.streams}
        entered, is_new = await self._entered(stream, runs, rows, note)
        if entered.futures:
            await asyncio.wait(entered.futures.values())  # which leaves them alone if this request is given up
        try:
            numbers = {name: future.result() for name, future in entered.futures.items()}
        except WatersmeetError as error:
            raise busy(
                f"the rows may not have reached every query: {error.message}",
                "post them again under the same Idempotency-Key or X-Sequence when the server is back",
            ) from None
        # Of no rows under no note nothing is put in, and nothing was taken before.
        is_repeated = not is_new or bool(entered.known and not entered.futures)
        self.posts += 1
        self.repeated += is_repeated
        failed = [name for name, run in runs.items() if run.failed]
        return {
            "stream": stream,
            "rows": rows.num_rows,
            "batches": {**entered.known, **numbers},
            "repeated": is_repeated,
            # They have the rows on the disk, and answer them when they are started anew.
            **({"failed": failed} if failed else {}),
        }

    async def _entered(
        self, stream: str, runs: Mapping[str, DurableExecution], rows: pa.RecordBatch, note: Note | None
    ) -> tuple[_Entered, bool]:
        """What was put into the queries, and whether it was just now."""
        await self._room(runs, rows.num_rows)
        key = None if note is None else (stream, note.key, note.sequence is None)
        if note is not None and key in self._under_way:
            return self._same(self._under_way[key], note), False
        known = {} if note is None else self._known(stream, runs, note)
        if note is None and not rows.num_rows:
            return _Entered(None, {}), True
        entered = _Entered(note, {}, known)
        for name, run in runs.items():
            if name not in known:
                logged = run.put(stream, rows, timeout_s=0, note=note)
                entered.futures[name] = asyncio.wrap_future(logged)
        if key is not None and entered.futures:
            self._under_way[key] = entered
            all_logged = asyncio.gather(*entered.futures.values(), return_exceptions=True)
            all_logged.add_done_callback(lambda _: self._under_way.pop(key))
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

    def _same(self, entered: _Entered, note: Note) -> _Entered:
        """The same rows once more while the first are on their way."""
        assert entered.note is not None
        if note.sequence != entered.note.sequence:
            raise HttpError(
                409,
                f"the post {entered.note.sequence} of client {note.key!r} is on its way, and this is {note.sequence}",
                "a client that counts its posts waits for each before the next; use several names for several lines",
            )
        _check_digest(note, entered.note.digest)
        return entered

    def _known(self, stream: str, runs: Mapping[str, DurableExecution], note: Note) -> dict[str, int | None]:
        """The queries that have these rows, with their batches."""
        found = {name: run.notes.find(stream, note) for name, run in runs.items()}
        taken = {name: one for name, one in found.items() if one is not None}
        for one in taken.values():
            if one.sequence == note.sequence:
                _check_digest(note, one.digest)
        if note.sequence is None:
            return {name: one.number for name, one in taken.items()}
        counts = {name: one.sequence or 0 for name, one in taken.items()}
        _check_next(note, note.sequence, min(counts.values(), default=0) + 1)
        known: dict[str, int | None] = {
            name: taken[name].number if count == note.sequence else None
            for name, count in counts.items()
            if count >= note.sequence
        }
        # A query that knows nothing of the client is newer, or lost its first post by a crash: of posts that all others
        # have been told of long ago it wants none.
        if note.sequence < max(counts.values(), default=0):
            known |= {name: None for name, one in found.items() if one is None}
        return known


def _check_next(note: Note, sequence: int, expected: int) -> None:
    if sequence > expected:
        raise HttpError(
            409,
            f"post {expected} of client {note.key!r} has not come, and this is {sequence}; no row was taken",
            "X-Sequence counts from 1 by one; GET of the stream tells how many of a client's posts were taken",
            expected=expected,
        )


def _check_digest(note: Note, digest: str) -> None:
    if note.digest != digest:
        what = f"key {note.key!r}" if note.sequence is None else f"number {note.sequence} of client {note.key!r}"
        raise HttpError(
            422, f"other rows were taken under {what}; none of these was", "give every post a key or number of its own"
        )
