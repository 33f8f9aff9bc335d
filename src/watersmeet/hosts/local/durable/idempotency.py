"""By what rows that were pushed are known again, if whoever pushed them did not hear that they were taken.

A key is logged with its rows, so after a crash it is there if they are. Only so many are kept: of keys the latest, of
clients that count what they send those that sent last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from watersmeet.dataclass import dataclass

MOST_KEYS = 10_000  # of each stream
MOST_CLIENTS = 10_000


@dataclass(frozen=True)
class IdempotencyKey:
    """A key that nobody else uses; or the name of a client and which of its pushes this is, counted from 1. `digest`
    tells whether the rows are the same."""

    name: str
    sequence: int | None = None
    digest: str = ""

    def as_json(self) -> list[Any]:
        return [self.name, self.sequence, self.digest]


@dataclass(frozen=True)
class TakenPush:
    """What was taken under a key: the number of its batch, how many rows, and of whose digest."""

    number: int
    rows: int
    digest: str
    sequence: int | None = None


class TakenPushes:
    """Changed by the thread of a run alone; anybody may look."""

    def __init__(self) -> None:
        self._keys: dict[str, OrderedDict[str, TakenPush]] = {}
        self._clients: dict[str, OrderedDict[str, TakenPush]] = {}

    def add(self, stream: str, key: IdempotencyKey, number: int, rows: int) -> None:
        kinds, most = (self._keys, MOST_KEYS) if key.sequence is None else (self._clients, MOST_CLIENTS)
        taken = kinds.setdefault(stream, OrderedDict())
        taken[key.name] = TakenPush(number, rows, key.digest, key.sequence)
        taken.move_to_end(key.name)
        while len(taken) > most:
            taken.popitem(last=False)

    def find(self, stream: str, key: IdempotencyKey) -> TakenPush | None:
        """What was taken last under the same key, or from the same client."""
        kinds = self._keys if key.sequence is None else self._clients
        taken = kinds.get(stream)
        return None if taken is None else taken.get(key.name)

    def sequences(self, stream: str) -> dict[str, int]:
        """How many pushes of each client were taken."""
        taken = self._clients.get(stream, OrderedDict()).copy()
        return {name: one.sequence or 0 for name, one in taken.items()}

    def as_json(self) -> dict[str, Any]:
        return {"keys": _as_json(self._keys), "clients": _as_json(self._clients)}

    def load(self, saved: Mapping[str, Any]) -> None:
        self._keys, self._clients = _read(saved["keys"]), _read(saved["clients"])


def _as_json(kinds: Mapping[str, OrderedDict[str, TakenPush]]) -> dict[str, list[list[Any]]]:
    return {
        stream: [[key, one.number, one.rows, one.digest, one.sequence] for key, one in taken.items()]
        for stream, taken in kinds.items()
    }


def _read(saved: Mapping[str, list[list[Any]]]) -> dict[str, OrderedDict[str, TakenPush]]:
    return {stream: OrderedDict((key, TakenPush(*more)) for key, *more in taken) for stream, taken in saved.items()}
