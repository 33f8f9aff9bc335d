"""How streams arrive, as a checkpoint notes it: a batch that is repeated must find the same rows in time as before, and
what was read of one kind of source says nothing of another. And where readers began, before the first row: `latest`
means another place after a restart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.notes import RunNotes
from watersmeet.hosts.local.durable.place import FROM_A_COPY
from watersmeet.io.connectors.contract import Reader
from watersmeet.io.connectors.readers import kind_of
from watersmeet.model.catalog import Stream
from watersmeet.model.time import format_interval

_WORDS = {"lateness_us": "lateness", "idle_us": "idle", "max_future_us": "max_future", "on_null": "on_null"}


class ArrivalNote:
    def __init__(self, notes: RunNotes, streams: Iterable[Stream], readers: Mapping[str, Reader]) -> None:
        self._notes, self._readers = notes, readers
        self._now = {
            one.name: {
                "lateness_us": one.lateness_us,
                "idle_us": one.arrival.idle_us,
                "max_future_us": one.arrival.max_future_us,
                "on_null": one.arrival.on_null,
                "source": kind_of(readers[one.name]) if one.name in readers else None,
            }
            for one in streams
        }
        noted = notes.get("streams", {"of": {}, "since": 0})
        self._held: dict[str, dict[str, Any]] = noted["of"]
        self._since = int(noted["since"])  # the first batch that was answered so

    def check(self, number: int) -> None:
        """Refuse to repeat a batch that was answered with other settings."""
        if number < self._since:
            raise RunError(
                f"batch {number:,} has to be repeated, but the lateness, idle, max_future or on_null of a stream has "
                f"changed with batch {self._since:,}",
                hint=FROM_A_COPY,
            )
        for name, now in self._now.items():
            before = self._held.get(name, now)
            for word, shown in _WORDS.items():
                if before[word] != now[word]:
                    raise _changed(name, shown, _shown(before[word]), _shown(now[word]))

    def check_sources(self) -> None:
        """Refuse to go on in one kind of source where another was read. Rows that are pushed may follow on
        any."""
        for name, now in self._now.items():
            before = self._held.get(name, {}).get("source")
            if None not in (before, now["source"]) and before != now["source"]:
                raise RunError(
                    f"stream {name!r} was read from {before} by this run, and is to be read from {now['source']} now",
                    hint="name what it read before, or start anew with another checkpoint",
                )
            now["source"] = now["source"] or before

    def write(self, number: int) -> None:
        """From this batch on they are answered as the streams say now."""
        if self._held != self._now:
            self._notes.note(streams={"of": self._now, "since": number})

    def begin_readers(self) -> None:
        """Let readers begin where they did in the first life; those that always begin at the same place need no
        note."""
        before = self._notes.get("beginnings", {})
        found = dict(before)
        for name, reader in self._readers.items():
            if name in before:
                reader.resume(before[name])
                continue
            position = reader.first_position()
            if position is not None:
                found[name] = position
        self._notes.note(beginnings=found)


def _shown(value: Any) -> str:
    return "not said" if value is None else f"'{format_interval(value) if isinstance(value, int) else value}'"


def _changed(stream: str, word: str, before: str, now: str) -> RunError:
    return RunError(
        f"{word} of stream {stream!r} was {before} and is now {now}, but the run before did not end as it should, and "
        "batches of it have to be repeated as they were",
        hint=f"start it once more with {word} = {before}, stop it, then change it",
    )
