"""Who owns a Delta table, for one run: an application transaction of its log, which holds a number for each name.

The number is that of the start and its token, together. Every commit of a batch says it again: of two commits with the
same name one fails, so none goes in beside a claim that it has not seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import TRIES, Claim, Owner, owner_in
from watersmeet.io.connectors.contract import SinkOpening

_TOLD = "watersmeetOwner"  # what a claim says of itself, for people
_TOKEN_BITS = 32
T = TypeVar("T")


class DeltaClaim:
    def __init__(self, opening: SinkOpening, run: str) -> None:
        self._claim = Claim.of(opening)
        self._owner, self._writer = f"{run}-owner", f"{run}-writer"

    @property
    def written_by(self) -> str | None:
        return self._claim.written_by

    def take_over(self, table: DeltaTable) -> None:
        for tries_left in reversed(range(TRIES if self._claim.is_made else 0)):
            table.update_incremental()
            owner = self._in_full(table, self._claim.taking_over)
            said = CommitProperties(
                custom_metadata={_TOLD: json.dumps({self._owner: owner.as_text()})},
                app_transactions=[Transaction(app_id=self._owner, version=_packed(owner.start, owner.token))],
            )
            try:
                table.create_write_transaction([], "append", table.schema(), commit_properties=said)
            except CommitFailedError:  # another start was quicker; this one is newer
                if tries_left:
                    continue
                raise
            table.update_incremental()
            return

    def marks(self, table: DeltaTable) -> list[Transaction]:
        """What a commit carries; raises if the table is another start's. The table is up to date."""
        if not self._claim.is_made:
            return []
        self._in_full(table, self._claim.check)
        found = self._found(table)
        assert found is not None
        now = _packed(found.start, found.token)
        return [Transaction(app_id=one, version=now) for one in (self._owner, self._writer)]

    @contextmanager
    def told(self, table: DeltaTable) -> Iterator[None]:
        """A commit that failed may have met a claim."""
        try:
            yield
        except CommitFailedError:
            if self._claim.is_made:
                table.update_incremental()
                self._in_full(table, self._claim.check)
            raise

    def _in_full(self, table: DeltaTable, asked: Callable[[Owner | None], T]) -> T:
        """What is asked of the owner; if it is a refusal, with the words of the claim, which only the log has."""
        found = self._found(table)
        try:
            return asked(found)
        except SinkError:
            return asked(None if found is None else _as_claimed(table, self._owner, found))

    def _found(self, table: DeltaTable) -> Owner | None:
        owner, writer = (table.transaction_version(one) for one in (self._owner, self._writer))
        if owner is None:
            return None
        start, token = _parts(owner)
        return Owner(start, token, written_by=None if writer is None else _parts(writer)[1])


def _packed(start: int, token: str) -> int:
    return start << _TOKEN_BITS | int(token, 16)


def _parts(version: int) -> tuple[int, str]:
    """
    >>> _parts(_packed(3, "0a1b2c3d"))
    (3, '0a1b2c3d')
    """
    return version >> _TOKEN_BITS, f"{version & (1 << _TOKEN_BITS) - 1:08x}"


def _as_claimed(table: DeltaTable, name: str, found: Owner) -> Owner:
    """With the words of the claim, if they are still in the log."""
    for commit in table.history(100):
        told = json.loads(commit.get(_TOLD) or "{}").get(name)
        owner = owner_in(told)
        if owner is not None and owner.token == found.token:
            return replace(owner, written_by=found.written_by)
    return found
